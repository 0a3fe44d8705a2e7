//! The icons of the pages: decorative lines on a square of 16 units, in the colour of the text next
//! to them. They are drawn in place, because a browser needs more time for references to symbols.

use std::fmt;

use reqlore_domain::backlog::ItemKind;

/// An icon as markup. A word next to it says the same.
pub(crate) struct IconMarkup(&'static str);

pub(crate) fn icon(name: &'static str) -> IconMarkup {
    IconMarkup(name)
}

/// The icon of a kind of item, section or entity.
pub(crate) fn icon_of(kind: &str) -> IconMarkup {
    let other = if kind == "section" { "section" } else { "knowledge" };
    IconMarkup(ItemKind::from_name(kind).map_or(other, ItemKind::name))
}

impl fmt::Display for IconMarkup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shapes = shapes(self.0);
        write!(f, r#"<svg class="icon" viewBox="0 0 16 16" aria-hidden="true">{shapes}</svg>"#)
    }
}

/// The shapes of an icon; empty if there is no such icon.
fn shapes(name: &str) -> &'static str {
    match name {
        "reqlore" => r#"<path d="M3 2.5h8l2 2v9H3zM5.5 6h5M5.5 8.5h5M5.5 11h3"/>"#,
        "search" => r#"<circle cx="7" cy="7" r="4.5"/><path d="m10.5 10.5 3 3"/>"#,
        "menu" => r#"<path d="M2.5 4h11M2.5 8h11M2.5 12h11"/>"#,
        "board" => r#"<path d="M2.5 2.5h3v11h-3zM6.5 2.5h3v7h-3zM10.5 2.5h3v9h-3z"/>"#,
        "tree" => r#"<path d="M2.5 3h5M5 3v10h2.5M5 8h2.5M9 8h4.5M9 13h4.5"/>"#,
        "table" => r#"<path d="M2.5 3h11v10h-11zM2.5 6.5h11M2.5 10h11M6.5 6.5V13"/>"#,
        "section" => r#"<path d="M3.5 2.5h9v11h-9zM6 5.5h4M6 8h4M6 10.5h2"/>"#,
        "knowledge" => concat!(
            r#"<path d="M8 3.5C6.5 2.5 4.5 2.5 2.5 3v10c2-.5 4-.5 5.5.5 1.5-1 3.5-1 "#,
            r#"5.5-.5V3C11.5 2.5 9.5 2.5 8 3.5zM8 3.5v10"/>"#,
        ),
        "docset" => r#"<path d="M2.5 4.5v8.5h11v-7h-6l-1.5-1.5z"/>"#,
        "graph" => concat!(
            r#"<circle cx="4" cy="8" r="1.8"/>"#,
            r#"<circle cx="12" cy="3.8" r="1.8"/>"#,
            r#"<circle cx="12" cy="12.2" r="1.8"/>"#,
            r#"<path d="m5.6 7.2 4.8-2.6M5.6 8.8l4.8 2.6"/>"#,
        ),
        "activity" => r#"<path d="M2 8.5h3l2-5 2.5 9 2-4H14"/>"#,
        "user" => concat!(
            r#"<circle cx="8" cy="5.5" r="2.5"/>"#,
            r#"<path d="M3 13.5c.5-3 2.5-4 5-4s4.5 1 5 4"/>"#,
        ),
        "token" => r#"<circle cx="5" cy="11" r="2.5"/><path d="m7 9 6-6M10.5 5.5l2 2"/>"#,
        "epic" => r#"<path d="M8.5 2 4 9h3.5l-.5 5L12 7H8.5z"/>"#,
        "user_story" => r#"<path d="M4 2.5h8v11l-4-3-4 3z"/>"#,
        "requirement" => r#"<path d="M3.5 2.5h9v11h-9zM6 8l1.5 1.5L10.5 6.5"/>"#,
        "acceptance_criteria" => {
            r#"<path d="M2.5 4.5l1 1 2-2M2.5 11l1 1 2-2M8 4.5h5.5M8 11h5.5"/>"#
        }
        "backlog" => r#"<circle cx="8" cy="8" r="5.5" stroke-dasharray="2.3 2.02"/>"#,
        "draft" => r#"<circle cx="8" cy="8" r="5.5"/><path d="M8 8h.01" stroke-width="2.5"/>"#,
        "progress" => concat!(
            r#"<circle cx="8" cy="8" r="5.5"/>"#,
            r#"<path d="M8 5.2a2.8 2.8 0 0 1 0 5.6z" fill="currentColor"/>"#,
        ),
        "done" => r#"<circle cx="8" cy="8" r="5.5"/><path d="m5.8 8.2 1.5 1.5 3-3.2"/>"#,
        "off" => r#"<circle cx="8" cy="8" r="5.5"/><path d="m6 6 4 4m0-4-4 4"/>"#,
        "warning" => r#"<path d="M8 2.5 14 13H2zM8 6.5v3M8 11.3h.01"/>"#,
        "edit" => r#"<path d="m3 13 .6-2.8L10.5 3.3l2.2 2.2-6.9 6.9z"/>"#,
        "copy" => r#"<path d="M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3"/>"#,
        "history" => r#"<path d="M2.5 3v3h3M2.8 6A5.5 5.5 0 1 1 2.5 8.5M8 5.5V8l2 1.5"/>"#,
        "plus" => r#"<path d="M8 3v10M3 8h10"/>"#,
        "trash" => r#"<path d="M3 4.5h10M6.5 4.5v-2h3v2M4.5 4.5l.5 9h6l.5-9"/>"#,
        "download" => r#"<path d="M8 2.5v8M4.5 7.5 8 11l3.5-3.5M3 13.5h10"/>"#,
        _ => "",
    }
}

//! The answer of a deletion, and the reasons against one.

use std::collections::BTreeSet;

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::Serialize;

use crate::backlog::item_lookup;

const MAX_LISTED_DEPENDENTS: usize = 10;

#[derive(Serialize, JsonSchema)]
pub(crate) struct DeletedItem {
    pub(crate) project: String,
    pub(crate) reference_id: String,
    pub(crate) title: String,
    pub(crate) version: String,
    /// All deleted items, this one first.
    pub(crate) deleted: Vec<String>,
    /// Items that lost a relationship.
    pub(crate) unlinked: Vec<String>,
}

impl DeletedItem {
    pub(crate) fn render_text(&self, noun: &str) -> String {
        let Self { reference_id, title, version, deleted, unlinked, .. } = self;
        let (id, title) = (encode_id(reference_id), encode_line(title));
        let mut text = format!("Deleted {noun} {id}: {title} (version {})", &version[..8]);
        // The first one is the item itself.
        let descendants = deleted.get(1..).unwrap_or_default();
        for (label, references) in
            [("Also deleted", descendants), ("Relationships removed from", unlinked.as_slice())]
        {
            if !references.is_empty() {
                let ids: Vec<_> = references.iter().map(|id| encode_id(id)).collect();
                text = format!("{text}\n{label}: {}", ids.join(", "));
            }
        }
        text
    }
}

/// The kinds of documents that may link to items. Disabled toolsets are not read.
pub(crate) fn link_kinds(toolsets: &[Toolset]) -> Vec<DocumentKind> {
    let mut kinds = DocumentKind::ITEMS.to_vec();
    if toolsets.contains(&Toolset::Knowledge) {
        kinds.push(DocumentKind::Entity);
    }
    kinds
}

/// True for a child of any of these items, and for a requirement or entity that relates to one.
/// False for an item that only mentions one.
pub(crate) fn depends_on(meta: &DocumentMeta, references: &BTreeSet<Reference>) -> bool {
    if let Some(entity) = &meta.entity {
        let mut targets = entity.links.iter().filter_map(|link| Reference::parse(&link.target));
        return targets.any(|target| references.contains(&target));
    }
    let Some(item) = item_lookup::item_meta(meta) else { return false };
    item.parent.is_some_and(|parent| references.contains(&parent))
        || item.relationships.iter().any(|link| references.contains(&link.target))
}

/// The error of a cascade that does not reach what an earlier entry of the same call adds.
pub(crate) fn added_link_error(reference: &str) -> Error {
    let message = format!(
        "{reference} cannot be deleted: an earlier entry adds an item or relationship to it. \
         Nothing was deleted."
    );
    Error::new(ErrorKind::Refused, message).reference(reference)
}

/// Joins the first reasons against a deletion.
pub(crate) fn list_reasons(mut reasons: Vec<String>) -> String {
    let count = reasons.len();
    reasons.truncate(MAX_LISTED_DEPENDENTS);
    match count.saturating_sub(MAX_LISTED_DEPENDENTS) {
        0 => reasons.join(", "),
        more => format!("{} and {more} more", reasons.join(", ")),
    }
}

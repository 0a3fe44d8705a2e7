//! What each slice's documents are to the search.

use super::Item;
use crate::document::{Document, Kind};
use crate::knowledge::{self, Entity};
use crate::sections::{self, Section};

/// The items of a document; one that is no text has none. `known` is what was read of an entity
/// already.
pub fn items(document: &Document, known: Option<Entity>) -> Vec<Item> {
    let (name, Ok(text)) = (&document.id.name, document.text()) else { return Vec::new() };
    match document.id.kind {
        Kind::Entity => vec![entity(known.unwrap_or_else(|| Entity::read(name, text).0), text)],
        Kind::Section => requirements(name, text),
        Kind::Instructions | Kind::Docsets => Vec::new(),
    }
}

fn entity(Entity { id, kind, title, tags, .. }: Entity, text: &str) -> Item {
    Item { reference: id, kind, title, text: knowledge::body(text).to_owned(), tags }
}

/// Each requirement by `key:index`, under the section's title.
fn requirements(key: &str, source: &str) -> Vec<Item> {
    let section = Section::of(source);
    let title = sections::title(source).unwrap_or(key);
    let requirements = section.requirements().iter();
    let item = requirements.map(|requirement| Item {
        reference: format!("{key}:{}", requirement.index),
        kind: "requirement".to_owned(),
        title: title.to_owned(),
        text: section.text(requirement),
        tags: Vec::new(),
    });
    item.collect()
}

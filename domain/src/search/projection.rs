//! What each slice's documents are to the search.

use super::Item;
use crate::backlog;
use crate::document::{Document, Kind};
use crate::knowledge::{self, Entity};
use crate::sections::{self, Section};
use crate::time::Timestamp;

/// The items of a document; one that is no text has none. `known` is what was read of an entity
/// already.
pub fn items(document: &Document, known: Option<Entity>) -> Vec<Item> {
    let (name, Ok(text)) = (&document.id.name, document.text()) else { return Vec::new() };
    match document.id.kind {
        Kind::Entity => vec![entity(known.unwrap_or_else(|| Entity::read(name, text).0), text)],
        Kind::Section => requirements(name, text),
        Kind::Item(kind) => {
            vec![item(backlog::Item::read(kind, name, text, NO_TIME).0, name, text)]
        }
        Kind::Instructions | Kind::Docsets | Kind::Deleted => Vec::new(),
    }
}

/// An item is not found by its times.
const NO_TIME: Timestamp = Timestamp(0);

fn item(item: backlog::Item, name: &str, text: &str) -> Item {
    let reference = item.called(name).into_owned();
    let links = item.links().map(|(_, target)| target).collect();
    let backlog::Item { kind, title, status, requirement_type, assignee, mut tags, .. } = item;
    tags.extend(status.map(|status| status.name().to_owned()));
    tags.extend(requirement_type.map(|found| found.name().to_owned()));
    tags.extend(assignee);
    let text = backlog::Item::description(text).to_owned();
    Item { reference, kind: kind.name().to_owned(), title, text, tags, links }
}

/// By its status, too, it is found as by a tag. What only might be a link is none here.
fn entity(entity: Entity, text: &str) -> Item {
    let Entity { id, kind, title, status, mut tags, links } = entity;
    tags.extend(status);
    let links = links.into_iter().filter(|link| link.certain).map(|link| link.target);
    let (text, links) = (knowledge::body(text).to_owned(), links.collect());
    Item { reference: id, kind, title, text, tags, links }
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
        links: Vec::new(),
    });
    item.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entity_is_found_by_tags_status_and_links() {
        let text = "---\nid: iss-1\nstatus: open\ntags: [wal]\nblocks: [dec-1d2c8f, perhaps]\n\
                    ---\nBody";
        let item = entity(Entity::read("issues/iss-1", text).0, text);
        assert_eq!(item.tags, ["wal", "open"]);
        assert_eq!(item.links, ["dec-1d2c8f"]);
        assert_eq!(item.text, "Body");
    }
}

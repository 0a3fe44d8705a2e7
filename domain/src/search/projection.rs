//! What each slice's documents are to the search.

use super::{Facet, Item};
use crate::backlog::{self, RequirementType, Status};
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
    let backlog::Item { kind, title, assignee, mut tags, .. } = item;
    let (status, requirement_type) =
        (item.status.map(Status::name), item.requirement_type.map(RequirementType::name));
    tags.extend(status.into_iter().chain(requirement_type).map(str::to_owned));
    tags.extend(assignee);
    let facets = [
        status.map(|status| Facet::new(Facet::STATUS, status)),
        item.priority.map(|priority| Facet::new(Facet::PRIORITY, priority.number())),
        requirement_type.map(|found| Facet::new(Facet::TYPE, found)),
        item.parent.map(|parent| Facet::new(Facet::PARENT, parent)),
    ];
    let facets = facets.into_iter().flatten().collect();
    let text = backlog::Item::description(text).to_owned();
    Item { reference, kind: kind.name().to_owned(), title, text, tags, links, facets }
}

/// By its status, too, it is found as by a tag. What only might be a link is none here.
fn entity(entity: Entity, text: &str) -> Item {
    let Entity { id, kind, title, status, mut tags, links } = entity;
    let facets = status.iter().map(|status| Facet::new(Facet::STATUS, status)).collect();
    tags.extend(status);
    let links = links.into_iter().filter(|link| link.certain).map(|link| link.target);
    let (text, links) = (knowledge::body(text).to_owned(), links.collect());
    Item { reference: id, kind, title, text, tags, links, facets }
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
        facets: Vec::new(),
    });
    item.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    #[test]
    fn an_entity_is_found_by_tags_status_and_links() {
        let text = "---\nid: iss-1\nstatus: open\ntags: [wal]\nblocks: [dec-1d2c8f, perhaps]\n\
                    ---\nBody";
        let item = entity(Entity::read("issues/iss-1", text).0, text);
        assert_eq!(item.tags, ["wal", "open"]);
        assert_eq!(item.links, ["dec-1d2c8f"]);
        assert_eq!(item.text, "Body");
        assert_eq!(item.facets, [Facet::new(Facet::STATUS, "open")]);
    }

    #[test]
    fn a_requirement_is_filtered_by_status_priority_type_and_story() {
        let text = "---\ntitle: Login\npriority: 2\ntype_name: Data\nuser_story: US-7\n---\nBody";
        let id = DocumentId { kind: Kind::ITEMS[2], name: "REQ-1".to_owned() };
        let found = items(&Document::new(id, text.into()), None);
        let facets: Vec<&str> = found[0].facets.iter().map(Facet::as_str).collect();
        assert_eq!(facets, ["status:Draft", "priority:2", "type:Data", "parent:US-007"]);
    }
}

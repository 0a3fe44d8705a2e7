//! What stands around an entity: what its links lead to, and what links to it.
//!
//! The trap: a target `REQ-48` is written in many ways and is an item of the backlog, of another
//! kind than entities; of two items with one reference none is meant.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{DocumentMeta, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::{self, Edge, Found, Node, Outgoing};
use reqlore_domain::ports::documents::BacklinkQuery;
use reqlore_domain::project::ProjectKey;

use crate::Context;
use crate::backlog::find::Backlog;

/// What the links of an entity lead to, as far as it is there.
pub(super) struct Neighbours {
    entities: BTreeMap<String, Vec<Node>>,
    /// By their references as they are printed.
    items: HashMap<String, Arc<DocumentMeta>>,
}

impl Neighbours {
    pub(super) async fn of(context: &Context, project: &ProjectKey, node: &Node) -> Result<Self> {
        let targets: BTreeSet<&String> = node.entity.links.iter().map(|l| &l.target).collect();
        let targets: Vec<String> = targets.into_iter().cloned().collect();
        let references: BTreeSet<Reference> =
            targets.iter().filter_map(|target| Reference::parse(target)).collect();
        let words = references.iter().map(ToString::to_string);
        let items = Backlog { ports: &context.ports, project }.named(words).await?;
        let is_item = |target: &String| {
            Reference::parse(target).is_some_and(|found| items.contains_key(&found.to_string()))
        };
        let targets: Vec<String> = targets.into_iter().filter(|t| !is_item(t)).collect();
        let nodes = match targets.as_slice() {
            [] => Vec::new(),
            targets => super::named(context, project, targets).await?,
        };
        Ok(Self { entities: targets.into_iter().zip(nodes).collect(), items })
    }

    pub(super) fn outgoing<'a>(&'a self, node: &'a Node) -> Vec<Outgoing<'a>> {
        let nodes = |target| self.entities.get(target).map_or(&[][..], Vec::as_slice);
        knowledge::outgoing(&node.entity, |target| Found::among(target, nodes(target)))
    }

    /// The item that a link leads to.
    pub(super) fn item(&self, edge: &Edge<'_>) -> Option<&DocumentMeta> {
        self.items.get(&Reference::parse(edge.id)?.to_string()).map(|head| &**head)
    }

    pub(super) fn title<'a>(&'a self, edge: &Edge<'a>) -> Option<&'a str> {
        let entity = edge.node.map(|node| node.entity.title.as_str());
        entity.or_else(|| Some(&*self.item(edge)?.item.as_ref()?.title))
    }

    /// The items that links lead to, each once, in the order of the links.
    pub(super) fn linked_items(&self, outgoing: &[Outgoing<'_>]) -> Vec<&DocumentMeta> {
        let mut heads: Vec<&DocumentMeta> = Vec::new();
        for edge in outgoing.iter().flat_map(|outgoing| &outgoing.targets) {
            if let Some(head) = self.item(edge).filter(|head| heads.iter().all(|h| h.id != head.id))
            {
                heads.push(head);
            }
        }
        heads
    }
}

/// What links to an entity.
pub(super) struct Incoming(Vec<Arc<DocumentMeta>>);

impl Incoming {
    pub(super) async fn of(context: &Context, project: &ProjectKey, node: &Node) -> Result<Self> {
        let kinds = [Kind::Entity].into_iter().chain(Kind::ITEMS).collect();
        let links =
            BacklinkQuery { kinds, targets: names(node).into_iter().map(str::to_owned).collect() };
        let mut heads: Vec<Arc<DocumentMeta>> = Vec::new();
        for head in context.ports.documents.backlinks(project, &links).await?.into_iter().flatten()
        {
            // By id and by name it may be the same one.
            if heads.iter().all(|known| known.id != head.id) {
                heads.push(head);
            }
        }
        Ok(Self(heads))
    }

    /// Relations, and who has them: id and title, by id.
    pub(super) fn by_relation(&self, node: &Node) -> BTreeMap<&str, Vec<(String, &str)>> {
        let names = names(node);
        let mut relations: BTreeMap<&str, Vec<(String, &str)>> = BTreeMap::new();
        for head in &self.0 {
            let Some(source) = source(head) else { continue };
            let links = head.links().into_iter().filter(|(_, target)| names.contains(&&**target));
            for (relation, _) in links {
                let sources = relations.entry(relation).or_default();
                if sources.last() != Some(&source) {
                    sources.push(source.clone());
                }
            }
        }
        for sources in relations.values_mut() {
            sources.sort_unstable();
        }
        relations
    }
}

/// What links may call an entity.
fn names(node: &Node) -> Vec<&str> {
    let mut names = vec![node.entity.id.as_str(), node.name.as_str()];
    names.dedup();
    names
}

fn source(head: &DocumentMeta) -> Option<(String, &str)> {
    if let Some(entity) = &head.entity {
        return Some((entity.id.clone(), &entity.title));
    }
    let item = head.item.as_ref()?;
    Some((item.called(&head.id.name).into_owned(), &item.title))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::backlog::ItemKind;
    use reqlore_domain::document::DocumentId;
    use serde_json::{Value, json};

    use super::*;
    use crate::test_support::Testing;

    fn requirement(name: &str) -> DocumentId {
        DocumentId { kind: Kind::Item(ItemKind::Requirement), name: name.to_owned() }
    }

    async fn project() -> Testing {
        let testing = Testing::new();
        let text = "---\nid: dec-1d2c8f\ntitle: Files\nimplements: [REQ-48, iss-bbbbbb, REQ-049]\n\
                    ---\nFiles it is.\n";
        testing.write(DocumentId::entity("decisions/dec-1d2c8f"), text).await;
        let text = "---\nid: iss-bbbbbb\ntitle: Where\nsolved_by: dec-1d2c8f\nsee: \
                    decisions/dec-1d2c8f\n---\nWhere?\n";
        testing.write(DocumentId::entity("issues/iss-bbbbbb"), text).await;
        let text = "---\ntitle: Keep\n---\n\nIt is kept, by dec-1d2c8f.\n";
        testing.write(requirement("REQ-048-3f9a1c"), text).await;
        let epic = DocumentId { kind: Kind::Item(ItemKind::Epic), name: "EP-001".to_owned() };
        testing.write(epic, "---\ntitle: Storage, as in dec-1d2c8f\n---\n").await;
        testing
    }

    async fn data(testing: &Testing, tool: &str) -> Value {
        let arguments = json!({ "id": "dec-1d2c8f" });
        Value::clone(&testing.call(tool, arguments).await.unwrap().data)
    }

    // S4: AC-002.4
    #[tokio::test]
    async fn links_into_the_backlog_have_the_titles_of_its_items() {
        let testing = project().await;
        let targets = json!([
            { "id": "REQ-48", "title": "Keep" },
            { "id": "iss-bbbbbb", "title": "Where" },
            { "id": "REQ-049", "title": null },
        ]);
        let graph = data(&testing, "ixchel_graph").await;
        assert_eq!(graph["outgoing"], json!([{ "rel": "implements", "targets": targets }]));
        testing.write(requirement("REQ-048-ffffff"), "---\ntitle: Twin\n---\n").await;
        let graph = data(&testing, "ixchel_graph").await;
        assert_eq!(graph["outgoing"][0]["targets"][0]["title"], Value::Null, "which of them?");
    }
}

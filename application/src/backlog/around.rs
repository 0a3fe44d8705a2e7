//! What stands around an item: its children, and the relationships of a requirement.

use std::sync::Arc;

use reqlore_domain::backlog::{Item, ItemKind, Reference, Status};
use reqlore_domain::document::{Head, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::Links;
use schemars::JsonSchema;
use serde::Serialize;

use super::find;
use crate::Ports;

/// An item in short.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Brief {
    pub(crate) reference_id: String,
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) status: Option<&'static str>,
}

impl Brief {
    pub(crate) fn of(head: &Head, item: &Item) -> Self {
        Self {
            reference_id: item.called(&head.id.name).into_owned(),
            title: item.title.clone(),
            status: item.status.map(Status::name),
        }
    }
}

/// A relationship as one of its ends sees it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Related {
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    /// "to" where it begins here, "from" where it begins there.
    pub(crate) direction: &'static str,
    /// The other end.
    pub(crate) reference_id: String,
    /// Of the other end; null where there is no such item.
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub(crate) title: Option<String>,
}

/// The items that belong to this one, kind by kind in the one order.
pub(crate) async fn children(ports: &Ports, parent: Reference) -> Result<Vec<Arc<Head>>> {
    let mut all = Vec::new();
    for kind in ItemKind::ALL.into_iter().filter(|kind| kind.parent() == Some(parent.kind)) {
        all.extend(find::children(ports, parent, kind).await?);
    }
    Ok(all)
}

/// The relationships of a requirement, those that begin here first.
pub(crate) async fn relationships(ports: &Ports, item: &Item) -> Result<Vec<Related>> {
    let Some(reference) = item.reference.filter(|found| found.kind == ItemKind::Requirement) else {
        return Ok(Vec::new());
    };
    let project = find::project();
    let targets: Vec<String> = item.relationships.iter().map(|r| r.target.to_string()).collect();
    let kind = Kind::Item(ItemKind::Requirement);
    let named = ports.documents.named(&project, kind, &targets).await?;
    let there = item.relationships.iter().zip(targets).zip(named);
    let mut all: Vec<Related> = there
        .map(|((relationship, target), heads)| Related {
            kind: relationship.kind.name(),
            direction: "to",
            reference_id: target,
            title: heads.first().and_then(|head| find::item(head)).map(|item| item.title.clone()),
        })
        .collect();
    for (other, relationship) in incoming(ports, reference).await? {
        if let Some(item) = find::item(&other) {
            all.push(Related {
                kind: relationship,
                direction: "from",
                reference_id: item.called(&other.id.name).into_owned(),
                title: Some(item.title.clone()),
            });
        }
    }
    Ok(all)
}

/// The requirements that relate to this one, and how.
async fn incoming(ports: &Ports, target: Reference) -> Result<Vec<(Arc<Head>, &'static str)>> {
    let kinds = vec![Kind::Item(ItemKind::Requirement)];
    let links = Links { kinds, targets: vec![target.to_string()] };
    let linking = ports.documents.linking(&find::project(), &links).await?;
    let mut all = Vec::new();
    for head in linking.into_iter().flatten() {
        let relationships = head.item.iter().flat_map(|item| &item.relationships);
        let here = relationships.filter(|relationship| relationship.target == target);
        let names: Vec<_> = here.map(|relationship| relationship.kind.name()).collect();
        all.extend(names.into_iter().map(|name| (Arc::clone(&head), name)));
    }
    Ok(all)
}

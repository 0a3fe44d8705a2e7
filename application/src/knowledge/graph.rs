//! `ixchel_graph` (S4 AC-002.4): where an entity's links lead, and what links to it.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::OneEntity;
use super::budget::Budget;
use super::neighbours::{self, Neighbours};
use crate::Context;
use crate::tool::{Tool, decode, read_tool};

pub(crate) struct Graph;

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer<'a> {
    /// The entity's id.
    id: &'a str,
    /// The entity's title.
    title: &'a str,
    /// Sorted by relation.
    outgoing: Vec<Outgoing<'a>>,
    /// What links here, from the knowledge graph and from the backlog; sorted by relation.
    incoming: Vec<Incoming<'a>>,
    /// Was something cut?
    truncated: bool,
    /// What was cut, in words.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    cut: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Outgoing<'a> {
    /// The relation: a front matter key, or the type of a map-style link.
    rel: &'a str,
    targets: Vec<Target<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Target<'a> {
    id: &'a str,
    /// The target's title; null where there is no such entity or item.
    #[schemars(required, extend("type" = ["string", "null"]))]
    title: Option<&'a str>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Incoming<'a> {
    /// The relation: a front matter key of the source, the type of a map-style link, or
    /// "mentions" where its text speaks of the entity.
    rel: &'a str,
    /// Sorted by id.
    sources: Vec<Source<'a>>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Source<'a> {
    /// An entity's id, or an item's reference.
    id: String,
    title: &'a str,
}

#[async_trait]
impl Tool for Graph {
    fn spec(&self) -> ToolSpec {
        read_tool::<OneEntity, Answer<'_>>(
            "ixchel_graph",
            "Follow an entity's links",
            "Returns the relationships of an entity: outgoing, each relation with \
                          the ids and titles that it leads to, and incoming, each relation with \
                          the entities and items of the backlog that it comes from.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let arguments: OneEntity = decode(&mut call, spec)?;
        let project = super::project(context, &call.caller, arguments.repo.as_ref()).await?;
        let node = super::find(context, &project, &arguments.id).await?;
        let neighbours = Neighbours::of(context, &project, &node).await?;
        let mut budget = Budget::new(arguments.max_tokens);
        let mut outgoing = Vec::new();
        for links in neighbours.outgoing(&node) {
            let mut targets: Vec<Target<'_>> = links
                .targets
                .iter()
                .map(|edge| Target { id: edge.id, title: neighbours.title(edge) })
                .collect();
            budget.keep(links.relation, &mut targets);
            outgoing.push(Outgoing { rel: links.relation, targets });
        }
        let linking = neighbours::Incoming::of(context, &project, &node).await?;
        let mut incoming = Vec::new();
        for (rel, sources) in linking.by_relation(&node) {
            let sources = sources.into_iter().map(|(id, title)| Source { id, title });
            let mut sources: Vec<Source<'_>> = sources.collect();
            budget.keep(&format!("incoming {rel}"), &mut sources);
            incoming.push(Incoming { rel, sources });
        }
        let cut = budget.into_cut();
        super::reply(&Answer {
            id: &node.entity.id,
            title: &node.entity.title,
            outgoing,
            incoming,
            truncated: !cut.is_empty(),
            cut,
        })
    }
}

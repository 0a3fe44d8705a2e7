//! `ixchel_graph` (S4 AC-002.4): where an entity's links lead.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::endpoint::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Serialize;

use super::budget::Budget;
use super::{Neighbours, OneEntity};
use crate::Context;
use crate::arguments::decode;
use crate::tool::{Tool, schema};

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
    /// The target's title; null where there is no such entity.
    #[schemars(required, extend("type" = ["string", "null"]))]
    title: Option<&'a str>,
}

#[async_trait]
impl Tool for Graph {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "ixchel_graph",
            title: "Follow an entity's links",
            description: "Returns the outgoing relationships of an entity: each relation with the \
                          ids and titles that it leads to.",
            input_schema: schema::<OneEntity>(),
            output_schema: schema::<Answer<'_>>(),
            access: Access::Read,
            may_change: false,
            destructive: false,
            idempotent: true,
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let arguments: OneEntity = decode(std::mem::take(&mut call.arguments), spec)?;
        let project = super::project(context, arguments.repo.as_ref()).await?;
        let node = super::find(context, &project, &arguments.id).await?;
        let neighbours = Neighbours::of(context, &project, &node).await?;
        let mut budget = Budget::new(arguments.max_tokens);
        let mut outgoing = Vec::new();
        for links in neighbours.outgoing(&node) {
            let mut targets: Vec<Target<'_>> = links
                .targets
                .iter()
                .map(|edge| Target {
                    id: edge.id,
                    title: edge.node.map(|node| node.entity.title.as_str()),
                })
                .collect();
            budget.keep(links.relation, &mut targets);
            outgoing.push(Outgoing { rel: links.relation, targets });
        }
        let cut = budget.into_cut();
        super::reply(&Answer {
            id: &node.entity.id,
            title: &node.entity.title,
            outgoing,
            truncated: !cut.is_empty(),
            cut,
        })
    }
}

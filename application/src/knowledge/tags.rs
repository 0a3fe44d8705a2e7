//! `ixchel_tags`.

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::EntityNode;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Repo;
use crate::ToolContext;
use crate::tool::{Tool, decode, read_tool};

pub(crate) struct TagsTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path in the repository.
    repo: Option<Repo>,
    /// Such as "decision".
    kind: Option<BoundedString<40>>,
    /// List entities without tags.
    #[serde(default)]
    untagged: bool,
}

/// With untagged: items, else tags.
#[derive(Serialize, JsonSchema)]
struct TagReport<'a> {
    total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<TagCount<'a>>", default)]
    tags: Option<Vec<TagCount<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<UntaggedItem<'a>>", default)]
    items: Option<Vec<UntaggedItem<'a>>>,
}

#[derive(Serialize, JsonSchema)]
struct TagCount<'a> {
    tag: &'a str,
    count: usize,
}

#[derive(Serialize, JsonSchema)]
struct UntaggedItem<'a> {
    id: &'a str,
    kind: &'a str,
    title: &'a str,
    path: String,
}

#[async_trait]
impl Tool for TagsTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, TagReport<'_>>(
            "ixchel_tags",
            "List tags",
            "Lists the tags of the knowledge graph with their counts, or the untagged entities.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let arguments: Arguments = decode(&mut call, spec)?;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let known =
            context.indexes.entities(&context.ports, &project, Refresh::Incremental).await?;
        let kind = arguments.kind.as_ref().map(|kind| kind.as_str().to_lowercase());
        let kind = kind.as_deref();
        if arguments.untagged {
            let names = known.entity_index.untagged(kind);
            drop(known);
            return untagged_reply(context, &project, &names).await;
        }
        let tags = known.entity_index.tags(kind).into_iter();
        let tags: Vec<TagCount<'_>> =
            tags.map(|tag| TagCount { tag: tag.tag, count: tag.count }).collect();
        super::json_reply(&TagReport { total: tags.len(), tags: Some(tags), items: None })
    }
}

/// The entities of these documents, as far as they are still there.
async fn untagged_reply(
    context: &ToolContext,
    project: &ProjectKey,
    names: &[String],
) -> Result<ToolReply> {
    let nodes = super::lookup_entities(context, project, names).await?;
    let own =
        |(name, nodes): (&String, Vec<EntityNode>)| nodes.into_iter().find(|n| n.name == *name);
    let nodes: Vec<EntityNode> = names.iter().zip(nodes).filter_map(own).collect();
    let items = nodes.iter().map(|node| UntaggedItem {
        id: &node.entity.id,
        kind: &node.entity.kind,
        title: &node.entity.title,
        path: DocumentId::entity(&*node.name).to_string(),
    });
    let items: Vec<UntaggedItem<'_>> = items.collect();
    super::json_reply(&TagReport { total: items.len(), tags: None, items: Some(items) })
}

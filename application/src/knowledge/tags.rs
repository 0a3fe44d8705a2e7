//! `ixchel_tags`.

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Repo;
use crate::ToolContext;
use crate::empty_answer::add_reason;
use crate::tool::{Tool, decode_arguments, deserialize_flag, read_tool};

pub(crate) struct TagsTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path in the repository.
    repo: Option<Repo>,
    /// decision, issue, idea, report, source, citation, agent or session.
    kind: Option<BoundedString<40>>,
    /// List entities without tags.
    #[serde(default, deserialize_with = "deserialize_flag")]
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
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let cache =
            context.indexes.entities(&context.ports, &project, Refresh::Incremental).await?;
        let (ports, kinds) = (&context.ports, [DocumentKind::Entity]);
        let kind = match &arguments.kind {
            Some(kind) => Some(super::find_kind(&cache.entity_index, kind.as_str())?),
            None => None,
        };
        let kind = kind.as_deref();
        if arguments.untagged {
            let names = cache.entity_index.untagged(kind);
            // The guard blocks other calls, so it is dropped before the documents are read.
            drop(cache);
            let mut reply = untagged_reply(context, &project, &names).await?;
            if names.is_empty() {
                let excluded = match kind {
                    Some(kind) => format!("Every entity of kind {kind} has a tag."),
                    None => "Every entity has a tag.".to_owned(),
                };
                add_reason(&mut reply, ports, &call.caller, &project, &kinds, &excluded).await?;
            }
            return Ok(reply);
        }
        let mut tags = Vec::new();
        for tag in cache.entity_index.tags(kind) {
            tags.push(TagCount { tag: tag.tag, count: tag.count });
        }
        let is_empty = tags.is_empty();
        let report = TagReport { total: tags.len(), tags: Some(tags), items: None };
        let mut reply = super::json_reply(&report)?;
        drop(cache);
        if is_empty {
            let excluded = match kind {
                Some(kind) => format!("No entity of kind {kind} has a tag."),
                None => "No entity has a tag.".to_owned(),
            };
            add_reason(&mut reply, ports, &call.caller, &project, &kinds, &excluded).await?;
        }
        Ok(reply)
    }
}

/// Lists the entities with these file names. Entities that were just deleted are omitted.
async fn untagged_reply(
    context: &ToolContext,
    project: &ProjectKey,
    names: &[String],
) -> Result<ToolReply> {
    let matches = context.ports.documents.lookup(project, DocumentKind::Entity, names).await?;
    let mut items = Vec::with_capacity(names.len());
    for (name, metas) in names.iter().zip(&matches) {
        // The name may also be the id of another entity.
        let Some(meta) = metas.iter().find(|meta| meta.id.name == *name) else { continue };
        let Some(entity) = &meta.entity else { continue };
        items.push(UntaggedItem {
            id: &entity.id,
            kind: &entity.kind,
            title: &entity.title,
            path: meta.id.to_string(),
        });
    }
    super::json_reply(&TagReport { total: items.len(), tags: None, items: Some(items) })
}

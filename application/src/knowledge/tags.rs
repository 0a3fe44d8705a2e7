//! `ixchel_tags`.

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::knowledge::entity_graph::sort_tags;
use reqlore_domain::ports::record_list::{
    MAX_PAGE_ITEMS, RecordCounts, RecordPage, RecordQuery, RecordSelection,
};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::tags::{TagCount, TagReport, UntaggedItem};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Repo;
use crate::answers::answer::{ToolAnswer, json_answer};
use crate::answers::empty_answer::{add_reason, note_unimported};
use crate::tools::tool::{Tool, ToolRequest, whole_tool};

pub(crate) struct TagsTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Folder.
    repo: Option<Repo>,
    /// Such as decision or issue.
    kind: Option<BoundedString<40>>,
    /// List entities without tags.
    #[serde(default)]
    untagged: bool,
}

#[async_trait]
impl Tool for TagsTool {
    fn spec(&self) -> ToolSpec {
        whole_tool::<Arguments, TagReport>(
            "ixchel_tags",
            "List the tags in use",
            "Lists the tags of decisions and other knowledge with their counts, or the untagged \
             entities.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let (ports, kinds) = (&context.ports, [DocumentKind::Entity]);
        let kind = match &arguments.kind {
            Some(kind) => Some(super::find_kind(ports, &project, kind.as_str()).await?),
            None => None,
        };
        let of_kind = kind.as_ref().map(|kind| format!(" of kind {kind}")).unwrap_or_default();
        let mut query = RecordQuery::of_entities(kind, MAX_PAGE_ITEMS);
        if arguments.untagged {
            query.selection = RecordSelection::Untagged;
            let untagged = ports.documents.list(&project, &query).await?;
            let mut answer = untagged_answer(&untagged)?;
            if untagged.total == 0 {
                let excluded = format!("Every entity{of_kind} has a tag.");
                add_reason(&mut answer, ports, &call.caller, &project, &kinds, &excluded).await?;
            }
            return Ok(answer);
        }
        let query = query.count_by(RecordCounts::Tag);
        let counts = sort_tags(ports.documents.list(&project, &query).await?.by_text);
        let mut tags = Vec::with_capacity(counts.len());
        for (tag, count) in &counts {
            tags.push(TagCount { tag: tag.to_owned(), count: *count });
        }
        let report = TagReport { total: tags.len(), tags: Some(tags), items: None };
        let mut answer = json_answer(&report)?;
        if counts.is_empty() {
            let excluded = format!("No entity{of_kind} has a tag.");
            add_reason(&mut answer, ports, &call.caller, &project, &kinds, &excluded).await?;
        } else {
            note_unimported(&mut answer, ports, &project, &kinds).await?;
        }
        Ok(answer)
    }
}

fn untagged_answer(untagged: &RecordPage) -> Result<ToolAnswer> {
    let mut items = Vec::with_capacity(untagged.metadata.len());
    for meta in &untagged.metadata {
        let Some(entity) = &meta.entity else { continue };
        items.push(UntaggedItem {
            id: entity.id.clone(),
            kind: entity.kind.clone(),
            title: entity.title.clone(),
            status: entity.status.clone(),
            path: meta.id.to_string(),
        });
    }
    let (listed, total) = (items.len(), untagged.total);
    let mut answer = json_answer(&TagReport { total, tags: None, items: Some(items) })?;
    if listed < total {
        let note = format!("Showing the first {listed} of {total}; tag these to see the rest.");
        answer.add_notes(vec![note]);
    }
    Ok(answer)
}

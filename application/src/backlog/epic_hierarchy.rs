//! `epic_hierarchy`: returns the summaries of an epic and of all items below it.

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::items::ItemSummary;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::{EpicRef, not_found_error};
use super::item_lookup::{self, BacklogReader, FileWarnings};
use super::item_view::{self, SummaryKeys};
use crate::answers::answer::{Answer, ToolAnswer, serialization_error, tokens_for_all};
use crate::answers::show_keys::ShowKeys;
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct EpicHierarchy;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: EpicRef,
    show: Option<ShowKeys<SummaryKeys>>,
}

#[async_trait]
impl Tool for EpicHierarchy {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, HierarchyView>(
            "epic_hierarchy",
            "Show the plan of an epic",
            "Returns an overview of an epic: its user stories, requirements and acceptance \
             criteria.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let epic = arguments.epic.parse_folded("epic")?;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let meta = backlog.find_argument(epic, "epic").await?;
        let (hierarchy, warnings) = read_hierarchy(backlog, epic, &meta).await?;
        let show = arguments.show.unwrap_or_default();
        let mut answer = ToolAnswer::new(HierarchyAnswer::new(hierarchy, show));
        answer.add_notes(warnings.into_list());
        Ok(answer)
    }
}

/// The answer. A limit leaves out the last items below the epic.
struct HierarchyAnswer {
    hierarchy: HierarchyView,
    show: ShowKeys<SummaryKeys>,
    /// The lines of the items below the epic.
    lines: Vec<String>,
}

impl HierarchyAnswer {
    fn new(hierarchy: HierarchyView, show: ShowKeys<SummaryKeys>) -> Self {
        let mut lines = Vec::new();
        for story in &hierarchy.user_stories {
            lines.push(format!("- {}", story.summary.line(|key| show.has(key))));
            for child in story.requirements.iter().chain(&story.acceptance_criteria) {
                lines.push(format!("  - {}", child.line(|key| show.has(key))));
            }
        }
        Self { hierarchy, show, lines }
    }

    fn left_out(&self, parts: usize) -> Option<String> {
        let HierarchyView { epic, counts, left_out, .. } = &self.hierarchy;
        if parts >= self.lines.len() {
            return left_out.clone();
        }
        let total = counts.user_stories + counts.requirements + counts.acceptance_criteria;
        Some(format!(
            "showing the first {parts} of {total} items; list_items with epic: {} lists each kind \
             in pages, max_tokens: {} shows all",
            epic.reference_id,
            tokens_for_all(self)
        ))
    }
}

impl Answer for HierarchyAnswer {
    fn part_count(&self) -> usize {
        self.lines.len()
    }

    fn text(&self, parts: usize) -> String {
        let HierarchyView { epic, counts, .. } = &self.hierarchy;
        let mut text = format!(
            "{} ({}, {}, acceptance criteria: {})",
            epic.line(|key| self.show.has(key)),
            count_noun(counts.user_stories, "user story", "user stories"),
            count_noun(counts.requirements, "requirement", "requirements"),
            counts.acceptance_criteria
        );
        for line in self.lines.iter().take(parts) {
            text.extend(["\n", line]);
        }
        if let Some(left_out) = self.left_out(parts) {
            text.extend(["\nTruncated: ", &left_out, "."]);
        }
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut data = serde_json::to_value(&self.hierarchy).map_err(serialization_error)?;
        let mut rest = parts;
        if let Value::Array(stories) = &mut data["user_stories"] {
            // A story that is left out has no items.
            stories.retain_mut(|story| {
                let is_shown = rest > 0;
                rest = rest.saturating_sub(1);
                for key in ["requirements", "acceptance_criteria"] {
                    if let Value::Array(children) = &mut story[key] {
                        children.truncate(rest);
                        rest -= children.len();
                    }
                    self.show.filter_list(&mut story[key]);
                }
                self.show.filter_value(story);
                is_shown
            });
        }
        self.show.filter_value(&mut data["epic"]);
        if let Some(left_out) = self.left_out(parts) {
            data["left_out"] = left_out.into();
        }
        Ok(data)
    }
}

fn count_noun(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct HierarchyView {
    #[schemars(with = "Map<String, Value>")]
    epic: ItemSummary,
    user_stories: Vec<StoryView>,
    counts: ItemCounts,
    /// Names the part that is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StoryView {
    #[serde(flatten)]
    summary: ItemSummary,
    #[schemars(with = "Vec<Map<String, Value>>")]
    requirements: Vec<ItemSummary>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    acceptance_criteria: Vec<ItemSummary>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
struct ItemCounts {
    user_stories: usize,
    requirements: usize,
    acceptance_criteria: usize,
}

pub(super) async fn read_hierarchy(
    backlog: BacklogReader<'_>,
    reference: Reference,
    meta: &DocumentMeta,
) -> Result<(HierarchyView, FileWarnings)> {
    let schema = backlog.ports.schema(backlog.project).await?;
    let Some(epic) = ItemSummary::from_meta(meta, &schema) else {
        return Err(not_found_error(reference.kind, &reference.to_string()));
    };
    let mut warnings = FileWarnings::default();
    let (mut references, mut summaries) = (Vec::new(), Vec::new());
    let (story, requirement, criteria) =
        (ItemKind::UserStory, ItemKind::Requirement, ItemKind::AcceptanceCriteria);
    let stories = backlog.children_by_parent(&[reference], story, &mut warnings).await?.concat();
    warnings.add_diagnostics(&stories);
    let read = item_view::read_summaries(backlog, &schema, &stories).await?;
    for (meta, summary) in stories.iter().zip(read) {
        if let Some(reference) = item_lookup::item_meta(meta).and_then(|item| item.reference) {
            references.push(reference);
            summaries.push(summary);
        }
    }
    // One query for all stories is faster than one for each.
    let kinds = [story, requirement, criteria];
    let requirements = backlog.children_by_parent(&references, requirement, &mut warnings).await?;
    let criteria = backlog.children_by_parent(&references, criteria, &mut warnings).await?;
    warnings.add_diagnostics(&requirements.concat());
    warnings.add_diagnostics(&criteria.concat());
    for kind in kinds {
        warnings.add_unread(&backlog.unread_files(kind).await?);
    }
    let mut counts = ItemCounts { user_stories: summaries.len(), ..ItemCounts::default() };
    let mut user_stories = Vec::with_capacity(summaries.len());
    for (summary, (requirements, criteria)) in
        summaries.into_iter().zip(requirements.iter().zip(&criteria))
    {
        counts.requirements += requirements.len();
        counts.acceptance_criteria += criteria.len();
        user_stories.push(StoryView {
            summary,
            requirements: ItemSummary::from_metas(requirements, &schema),
            acceptance_criteria: item_view::read_summaries(backlog, &schema, criteria).await?,
        });
    }
    // After counting: the counts are those of the whole epic.
    let left_out = truncate_stories(&mut user_stories);
    Ok((HierarchyView { epic, user_stories, counts, left_out }, warnings))
}

/// Approximate limit of a result, in bytes.
const MAX_RESULT_BYTES: usize = 1024 * 1024;
/// Approximate bytes of an item without its title.
const ITEM_OVERHEAD_BYTES: usize = 120;

/// Removes the last stories if the result is too large. Returns a note about the removed part.
fn truncate_stories(stories: &mut Vec<StoryView>) -> Option<String> {
    let count = stories.len();
    let mut bytes = 0;
    for (index, story) in stories.iter().enumerate() {
        // An estimate, because serializing each story twice would cost more.
        let children = story.requirements.iter().chain(&story.acceptance_criteria);
        for item in std::iter::once(&story.summary).chain(children) {
            let text = item.description.as_ref().map_or(0, String::len);
            bytes += item.title.len() + text + ITEM_OVERHEAD_BYTES;
        }
        if bytes > MAX_RESULT_BYTES {
            stories.truncate(index);
            return Some(format!(
                "showing the first {index} of {count} user stories; search_requirements with the \
                 epic lists all requirements"
            ));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchy_over_the_size_limit_is_truncated_with_a_note() {
        let summary = ItemSummary {
            reference_id: "US-001".to_owned(),
            title: "t".repeat(500),
            ..ItemSummary::default()
        };
        let story = |_| StoryView {
            summary: summary.clone(),
            requirements: Vec::new(),
            acceptance_criteria: Vec::new(),
        };
        let mut few: Vec<StoryView> = (0..1_000).map(story).collect();
        assert_eq!((truncate_stories(&mut few), few.len()), (None, 1_000));
        let mut many: Vec<StoryView> = (0..7_000).map(story).collect();
        let note = truncate_stories(&mut many).unwrap();
        assert!(note.starts_with(&format!("showing the first {} of 7000", many.len())), "{note}");
        assert!(many.len() * 620 <= MAX_RESULT_BYTES && many.len() > 1_500);
    }
}

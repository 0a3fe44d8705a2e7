//! spec-kit: one feature a folder below `specs`, with user stories and numbered requirements.

use reqlore_domain::ports::exchange::{ExchangeFormat, ImportMapping, ImportedItems, SourceFile};
use serde_json::json;

use crate::names::folder_of;
use crate::outline::Section;
use crate::spec_files::{SpecReader, read_specs, split_heading};
use crate::statements::take_statements;

pub(crate) struct SpecKit;

impl ExchangeFormat for SpecKit {
    fn name(&self) -> &'static str {
        "spec-kit"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        let parts = ["# Feature Specification", "## User Scenarios", "**Feature Branch**"];
        spec_of(path).is_some() && parts.iter().any(|part| beginning.contains(part))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        read_specs(files, "plans, tasks, research and checklists", spec_of, read_section)
    }
}

/// The feature of a path such as `specs/001-login/spec.md`.
fn spec_of(path: &str) -> Option<&str> {
    folder_of(path, "spec.md")
}

fn read_section<'t>(
    reader: &mut SpecReader<'_>,
    section: &Section<'t>,
    whole: &'t str,
) -> Option<(&'t str, String)> {
    let heading = &*section.heading.title;
    if section.is_title {
        let title = heading.strip_prefix("Feature Specification:").unwrap_or(heading).trim();
        reader.set_title(title);
    }
    if let Some((id, title)) = split_heading(heading) {
        let (title, priority) = split_priority(title);
        if is_requirement(id) && !title.is_empty() {
            add_requirement(reader, id, title, whole.trim_matches('\n'));
            return None;
        }
        if priority.is_some() || id.starts_with("User Story") || is_story(id) {
            let story = reader.add_story(id, if title.is_empty() { id } else { title }, whole);
            story.values.extend(priority.map(|text| ("priority".to_owned(), json!(text))));
            return None;
        }
    }
    let is_taken = |id: &Option<String>| id.as_deref().is_some_and(is_requirement);
    let (rest, found) = take_statements(section.text, |one| is_taken(&one.id));
    for statement in found {
        let (title, text) = statement.split_title();
        add_requirement(reader, statement.id.as_deref().unwrap_or_default(), &title, text);
    }
    Some((if section.is_title { "" } else { section.line }, rest))
}

/// True for `US1`, `US-1` and `US 1`.
fn is_story(id: &str) -> bool {
    let number = id.strip_prefix("US").map(|rest| rest.trim_start_matches(['-', ' ']));
    number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
}

/// True for functional and other requirements and for success criteria.
fn is_requirement(id: &str) -> bool {
    id.contains("FR-") || id.starts_with("SC-")
}

fn add_requirement(reader: &mut SpecReader<'_>, id: &str, title: &str, text: &str) {
    let item = reader.add("requirement", 0, id, title);
    text.clone_into(&mut item.text);
    if !id.starts_with("FR-") {
        item.values.insert("type".to_owned(), json!("Non-Functional"));
    }
}

/// Splits `Title (Priority: P1)`. A priority that is not ours is kept as it is.
fn split_priority(title: &str) -> (&str, Option<&str>) {
    let Some((before, inside)) = title.rsplit_once(['(', '（']) else { return (title, None) };
    let priority = inside.trim_end_matches([')', '）']).rsplit([' ', ':', '：']).next();
    let priority = priority.filter(|word| word.strip_prefix('P').is_some_and(|n| n.len() == 1));
    let Some(priority) = priority else { return (title, None) };
    let number = &priority[1..];
    let is_ours = matches!(number, "1" | "2" | "3" | "4");
    (before.trim_end(), Some(if is_ours { number } else { priority }))
}

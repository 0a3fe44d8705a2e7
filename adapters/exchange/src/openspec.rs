//! OpenSpec: one capability a folder below `specs`, with `### Requirement:` sections.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::names::{slug, unique_id};
use crate::outline::Section;
use crate::spec_files::{SpecReader, read_specs};

pub(crate) struct OpenSpec;

const REQUIREMENT: &str = "Requirement:";

impl ExchangeFormat for OpenSpec {
    fn name(&self) -> &'static str {
        "openspec"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        capability_of(path).is_some()
            && beginning.lines().any(|line| line.starts_with("### Requirement:"))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        read_specs(files, "proposed changes, archives and designs", capability_of, read_section)
    }

    fn write(&self, records: Vec<ListedItem>) -> Result<ExportedFiles, String> {
        Ok(write_specs(&records))
    }

    fn can_write_kind(&self, kind: &str) -> bool {
        matches!(kind, "epic" | "requirement")
    }

    fn needs_parents(&self) -> bool {
        true
    }
}

/// The capability of a path such as `openspec/specs/login/spec.md`.
fn capability_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/spec.md")?;
    let (parents, capability) = folder.rsplit_once('/').unwrap_or(("", folder));
    // The specs of a proposed change are differences.
    let is_change = path.split('/').any(|part| part == "changes");
    let is_specs =
        parents.is_empty() || parents == "specs" || parents.split('/').any(|part| part == "specs");
    (!is_change && is_specs).then_some(capability)
}

fn read_section<'t>(
    reader: &mut SpecReader<'_>,
    section: &Section<'t>,
    whole: &'t str,
) -> Option<(&'t str, String)> {
    let heading = &section.heading;
    if let (3, Some(title)) = (heading.level, heading.title.strip_prefix(REQUIREMENT)) {
        let title = title.trim();
        let item = reader.add("requirement", 0, title, title);
        whole.trim_matches('\n').clone_into(&mut item.text);
        return None;
    }
    // The purpose needs no heading: it is the text of the epic.
    let is_text = section.is_title || heading.title == "Purpose";
    Some((if is_text { "" } else { section.line }, section.text.to_owned()))
}

/// One capability for each epic, with the requirements of all its stories.
fn write_specs(records: &[ListedItem]) -> ExportedFiles {
    let mut epic_of: HashMap<&str, &str> = HashMap::new();
    let mut specs: BTreeMap<&str, (&ListedItem, Vec<&ListedItem>)> = BTreeMap::new();
    for record in records {
        let parent = record.parent.as_deref().unwrap_or_default();
        match &*record.kind {
            "epic" => _ = specs.insert(&record.reference_id, (record, Vec::new())),
            "user_story" => _ = epic_of.insert(&record.reference_id, parent),
            "requirement" => {
                let epic = epic_of.get(parent).copied().unwrap_or_default();
                if let Some((_, requirements)) = specs.get_mut(epic) {
                    requirements.push(record);
                }
            }
            _ => {}
        }
    }
    let mut used = HashMap::new();
    let mut files = ExportedFiles::new();
    for (epic, requirements) in specs.into_values() {
        let description = epic.description.as_deref().unwrap_or_default();
        let mut text = format!("# {} Specification\n\n## Purpose\n{description}\n", epic.title);
        text += "\n## Requirements\n";
        for requirement in requirements {
            let body = requirement.description.as_deref().unwrap_or_default();
            _ = writeln!(text, "\n### {REQUIREMENT} {}\n{body}", requirement.title);
        }
        let capability = unique_id(&mut used, &slug(&epic.title)).replace('~', "-");
        files.push((format!("specs/{capability}/spec.md"), text.into_bytes()));
    }
    files
}

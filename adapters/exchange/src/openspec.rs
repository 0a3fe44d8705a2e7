//! OpenSpec: one capability a folder below `specs`, with `### Requirement:` sections.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ExportedFiles, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::markdown::is_markdown;
use crate::names::{slug, unique_id};
use crate::outline::{sections, whole_text};

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
        let mut imported = ImportedItems::default();
        let mut others = 0;
        for mut file in files {
            let Some(capability) = capability_of(&file.path).map(str::to_owned) else {
                others += usize::from(is_markdown(&file.path));
                continue;
            };
            let text = file.read_text()?;
            read_spec(&file.path, &capability, &text, &mut imported)
                .map_err(|problem| format!("{}: {problem}", file.path))?;
        }
        if others > 0 {
            imported.notes.push(format!(
                "{others} other files are not taken: proposed changes, archives and designs"
            ));
        }
        Ok(imported)
    }

    fn write(&self, records: Vec<ListedItem>) -> Option<ExportedFiles> {
        Some(write_specs(&records))
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

fn read_spec(
    path: &str,
    capability: &str,
    text: &str,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let (before, found) = sections(text);
    let source = format!("{path}#");
    let mut epic_text = before.trim().to_owned();
    let mut requirements = Vec::new();
    let mut used = HashMap::new();
    let mut index = 0;
    while index < found.len() {
        let heading = &found[index].heading;
        if let (3, Some(title)) = (heading.level, heading.title.strip_prefix(REQUIREMENT)) {
            let (body, next) = whole_text(text, &found, index);
            let title = title.trim().to_owned();
            requirements.push(ImportedItem {
                source: format!("{path}#{}", unique_id(&mut used, &title)),
                kind: "requirement".to_owned(),
                parent: Some(source.clone()),
                title,
                text: body.trim_matches('\n').to_owned(),
                ..ImportedItem::default()
            });
            index = next;
            continue;
        }
        let body = found[index].text.trim();
        let is_title = heading.level == 1 && index == 0;
        let is_list = heading.title == "Requirements" && body.is_empty();
        if !(is_list || is_title && body.is_empty()) {
            // The purpose needs no heading: it is the text of the epic.
            let line = if heading.title == "Purpose" || is_title {
                String::new()
            } else {
                format!("{}\n\n", text[heading.start..heading.end].trim())
            };
            if !epic_text.is_empty() {
                epic_text += "\n\n";
            }
            epic_text += &(line + body);
        }
        index += 1;
    }
    imported.push(ImportedItem {
        source,
        kind: "epic".to_owned(),
        id: None,
        title: capability.to_owned(),
        text: epic_text,
        ..ImportedItem::default()
    })?;
    for requirement in requirements {
        imported.push(requirement)?;
    }
    Ok(())
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
        files.push((format!("specs/{capability}/spec.md"), text));
    }
    files
}

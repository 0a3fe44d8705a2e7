//! Backlog.md: a Markdown file for each task, with front matter and acceptance criteria.

use std::collections::{BTreeMap, HashMap, HashSet};

use reqlore_domain::front_matter;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ImportMapping, ImportedItem, ImportedItems, SourceFile,
};
use reqlore_domain::records::answers::csv::split_list;
use reqlore_domain::records::extra::node_value;
use serde_json::{Value, json};

use crate::issue_fields::issue_item;
use crate::keyed_files::text_of;
use crate::markdown::{is_markdown, other_files_note};
use crate::names::unique_id;
use crate::outline::{sections, whole_text};
use crate::statements::{StatementForm, take_statements};

pub(crate) struct BacklogMd;

impl ExchangeFormat for BacklogMd {
    fn name(&self) -> &'static str {
        "backlog-md"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        let is_task = matches!(task_folder(path), Some((_, "tasks" | "completed")));
        let keys = ["\nid:", "\ntitle:", "\nstatus:"];
        let is_task = is_task && beginning.trim_start_matches('\u{feff}').starts_with("---");
        is_task && keys.iter().all(|key| beginning.contains(key))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let mut imported = ImportedItems::default();
        let (mut others, mut made, mut milestones) = (0, HashSet::new(), BTreeMap::new());
        let (mut tasks, mut without_id) = (HashMap::new(), Vec::new());
        for mut file in files.into_iter().filter(|file| is_markdown(&file.path)) {
            let (text, path) = (file.read_text()?, &file.path);
            let Some((root, folder)) = task_folder(path) else {
                others += 1;
                continue;
            };
            let mut fields = read_task(&text, path, &mut imported.notes);
            let Some(id) = fields.get("id") else {
                without_id.push(path.clone());
                continue;
            };
            let (id, body) = (text_of(id).to_lowercase(), front_matter::body(&text));
            let title = text_of(&fields.remove("title").unwrap_or_default());
            if folder == "milestones" {
                let source = format!("{root}#milestone {id}");
                let mut epic = issue_item("epic", source.clone(), title, fields);
                format!("{}\n\n{body}", epic.text).trim().clone_into(&mut epic.text);
                imported.push(epic)?;
                made.insert(source);
                continue;
            }
            let source = format!("{root}#{id}");
            if let Some(other) = tasks.insert(source.clone(), path.clone()) {
                return Err(format!("{path}: {other} has the ID {id} too; change one of them"));
            }
            let mut story = issue_item("user_story", source, title, fields);
            let milestone = story.values.remove("milestone").map(|name| text_of(&name));
            if let Some(name) = milestone.filter(|name| !name.is_empty()) {
                let source = format!("{root}#milestone {}", name.to_lowercase());
                story.parent = Some(source.clone());
                milestones.insert(source, name);
            }
            if let Some(tasks) = story.values.remove("dependencies") {
                let tasks: Vec<String> = split_list(&text_of(&tasks).to_lowercase());
                story.links.insert("depends_on".to_owned(), tasks);
            }
            let criteria = take_criteria(&mut story, body);
            imported.push(story)?;
            criteria.into_iter().try_for_each(|criterion| imported.push(criterion))?;
        }
        milestones.retain(|source, _| !made.contains(source));
        for (source, title) in milestones {
            imported.push(issue_item("epic", source, title, BTreeMap::new()))?;
        }
        imported.notes.extend(other_files_note(others, "drafts, archives and documents"));
        if !without_id.is_empty() {
            let (count, shown) = (without_id.len(), &without_id[..without_id.len().min(10)]);
            let files = shown.join(", ");
            imported
                .notes
                .push(format!("files without an ID that are not imported: {count}: {files}"));
        }
        Ok(imported)
    }
}

/// The root and folder of a task or milestone. A task keeps its identity in another folder.
fn task_folder(path: &str) -> Option<(&str, &str)> {
    let mut parts = path.rsplitn(3, '/');
    let folder = parts.nth(1)?;
    let root = parts.next().unwrap_or("backlog");
    let is_archived = root.split('/').any(|part| part == "archive");
    let is_taken = matches!(folder, "tasks" | "completed" | "milestones") && !is_archived;
    is_taken.then_some((root, folder))
}

/// The front matter of a file, and of an invalid one the valid lines. Backlog.md accepts names that
/// begin with `@` without quotes, which YAML does not.
fn read_task(text: &str, path: &str, notes: &mut Vec<String>) -> BTreeMap<String, Value> {
    let parts = front_matter::split(text);
    let quoted;
    let mut parsed = front_matter::parse(parts);
    if parsed.is_err() {
        quoted = quote_names(text);
        parsed = front_matter::parse(front_matter::split(&quoted));
    }
    let entries = match parsed {
        Ok(parsed) => parsed.entries,
        Err(_) if parts.yaml.is_none() => Vec::new(),
        Err(problem) => {
            let (line, message) = (problem.line.unwrap_or(1), problem.message);
            notes.push(format!("{path}:{line}: only valid lines are taken: {message}"));
            front_matter::salvage_lines(parts)
        }
    };
    entries.into_iter().map(|entry| (entry.key, node_value(&entry.node))).collect()
}

fn quote_names(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let name = line.find(": @").or_else(|| line.find("- @")).map(|mark| mark + 2);
        match name.map(|start| (&line[..start], line[start..].trim_end())) {
            Some((key, name)) if !name.contains(['"', '\'', '#', ',']) => {
                quoted.extend([key, "\"", name, "\"\n"]);
            }
            _ => quoted += line,
        }
    }
    quoted
}

/// The acceptance criteria of a task: the items of the section with a box, or all if none has one.
/// The rest is its text.
fn take_criteria(story: &mut ImportedItem, body: &str) -> Vec<ImportedItem> {
    let (before, found) = sections(body);
    let mut text = format!("{}\n\n{before}", story.text);
    let (mut criteria, mut used, mut index) = (Vec::new(), HashMap::new(), 0);
    while let Some(section) = found.get(index) {
        if section.heading.level != 2 || section.heading.title != "Acceptance Criteria" {
            text.extend([section.line, "\n", section.text]);
            index += 1;
            continue;
        }
        let (whole, next) = whole_text(body, &found, index);
        index = next;
        let whole = whole.replace("<!-- AC:BEGIN -->", "").replace("<!-- AC:END -->", "");
        let take = |has_box: bool| {
            take_statements(&whole, |one| {
                let is_taken = !has_box || split_box(&one.whole).is_some();
                one.form == StatementForm::ListItem && is_taken
            })
        };
        let (mut rest, mut items) = take(true);
        if items.is_empty() {
            (rest, items) = take(false);
        }
        if !rest.trim().is_empty() {
            text.extend([section.line, "\n\n", rest.trim(), "\n\n"]);
        }
        for (index, item) in items.iter().enumerate() {
            // `[x] #1 Text`
            let (status, text) = split_box(&item.whole).unwrap_or_default();
            let text = if status.is_empty() { &item.whole } else { text };
            let status = (!status.is_empty()).then(|| ("status".to_owned(), json!(status)));
            let position = (index + 1).to_string();
            let numbered = text.strip_prefix('#').and_then(|text| text.split_once(' '));
            let (number, text) = numbered.unwrap_or((&position, text));
            let number = unique_id(&mut used, number);
            criteria.push(ImportedItem {
                source: format!("{}/{number}", story.source),
                kind: "acceptance_criteria".to_owned(),
                parent: Some(story.source.clone()),
                text: text.to_owned(),
                values: status.into_iter().collect(),
                ..ImportedItem::default()
            });
        }
    }
    text.trim().clone_into(&mut story.text);
    criteria
}

/// Splits the status from the text of an item with a box. Other marks have a status of their own.
fn split_box(item: &str) -> Option<(&str, &str)> {
    let (mark, text) = item.strip_prefix('[')?.split_once("] ")?;
    match mark {
        " " => Some(("Open", text)),
        "x" | "X" => Some(("Met", text)),
        _ => (mark.len() == 1 && !mark.contains(char::is_alphanumeric)).then_some((mark, text)),
    }
}

//! GitHub issues, as `gh issue list --json` writes them: milestones are epics, issues stories.

use std::collections::{BTreeMap, HashSet};

use reqlore_domain::ports::exchange::{ExchangeFormat, ImportMapping, ImportedItems, SourceFile};
use serde::Deserialize;
use serde_json::Value;

use crate::issue_fields::issue_item;
use crate::json::{is_json, json_start, read_json};

pub(crate) struct GitHub;

/// An issue or a milestone.
#[derive(Deserialize)]
struct Entry {
    number: u64,
    title: String,
    milestone: Option<Box<Self>>,
    #[serde(flatten)]
    fields: BTreeMap<String, Value>,
}

impl ExchangeFormat for GitHub {
    fn name(&self) -> &'static str {
        "github"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        let has = |key: &str| beginning.contains(key);
        let is_list = json_start(beginning).starts_with('[');
        let is_issue = has("\"number\"") && has("\"title\"") && !has("\"reference_id\"");
        is_json(path) && is_list && is_issue
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        let note = "labels and users are imported by name only, other objects by their URL";
        let mut imported = ImportedItems { items: Vec::new(), notes: vec![note.to_owned()] };
        for mut file in files.into_iter().filter(|file| is_json(&file.path)) {
            let advice = "write it with `gh issue list --json number,title,body`";
            let issues: Vec<Entry> = read_json(&mut file, advice)?;
            let (path, mut made) = (&file.path, HashSet::new());
            for mut issue in issues {
                let milestone = issue.milestone.take();
                let source = format!("{path}#{}", issue.number);
                let mut story = issue_item("user_story", source, issue.title, issue.fields);
                if let Some(milestone) = milestone {
                    let source = format!("{path}#milestone {}", milestone.number);
                    story.parent = Some(source.clone());
                    if made.insert(source.clone()) {
                        let Entry { title, fields, .. } = *milestone;
                        imported.push(issue_item("epic", source, title, fields))?;
                    }
                }
                imported.push(story)?;
            }
        }
        Ok(imported)
    }
}

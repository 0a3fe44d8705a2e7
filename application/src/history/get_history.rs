//! `get_history`: lists the versions of a document, returns one of them, and compares two.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::Result;
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::word_diff::word_diff;
use super::{HistoryTarget, VersionText, find_target, find_version, note_text};
use crate::ToolContext;
use crate::answer::{ToolAnswer, reply_with_body};
use crate::backlog::item_lookup::document_text;
use crate::pagination::{PageCursor, PageLimit, PageReader, page_limit};
use crate::tool::{Tool, decode_arguments, read_tool};

pub(crate) struct GetHistory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Any ID.
    reference: BoundedString<500>,
    /// Returns its text.
    version: Option<VersionPrefix>,
    /// Returns the word difference to version (default the newest).
    compare_with: Option<VersionPrefix>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    /// From the previous page.
    cursor: Option<PageCursor>,
}

#[derive(Serialize, JsonSchema)]
struct HistoryAnswer {
    reference: String,
    versions: Vec<VersionRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
}

#[derive(Serialize, JsonSchema)]
struct VersionRecord {
    /// Null for a deletion.
    #[schemars(required, extend("type" = ["string", "null"]))]
    version: Option<String>,
    at: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    user: Option<String>,
    #[schemars(required, extend("type" = ["string", "null"]))]
    tool: Option<String>,
    #[schemars(required, extend("type" = ["string", "null"]))]
    reason: Option<String>,
    /// The text was erased.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    purged: bool,
}

#[async_trait]
impl Tool for GetHistory {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, HistoryAnswer>(
            "get_history",
            "History of changes",
            "Lists the earlier versions of an item, decision or section, newest first: who changed \
             it, and when.",
        )
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        let arguments: Arguments = decode_arguments(&mut call, spec)?;
        let reference = arguments.reference.as_str();
        let target = find_target(context, &call.caller, reference).await?;
        match (arguments.version, arguments.compare_with) {
            (None, None) => list_versions(context, spec, target, &arguments).await,
            (Some(version), None) => {
                let found = find_version(&context.ports, &target, Some(version), "version").await?;
                show_version(target, &found)
            }
            (version, Some(other)) => {
                let ports = &context.ports;
                let one = find_version(ports, &target, version, "version").await?;
                let other = find_version(ports, &target, Some(other), "compare_with").await?;
                // The older text first.
                if one.age < other.age {
                    compare_versions(target, &other, &one)
                } else {
                    compare_versions(target, &one, &other)
                }
            }
        }
    }
}

async fn list_versions(
    context: &ToolContext,
    spec: &ToolSpec,
    target: HistoryTarget,
    arguments: &Arguments,
) -> Result<ToolAnswer> {
    let HistoryTarget { project, id, name, mut notes } = target;
    // The storage pages itself, so the cursor wraps the storage's own position.
    let pages = PageReader::new(&project, &(spec.name, &name));
    let after = pages.position::<String>(arguments.cursor.as_ref())?;
    let query = HistoryQuery { after, limit: page_limit(arguments.limit) };
    let page = context.ports.history.history(&project, &id, &query).await?;
    notes.extend(page.notes.into_iter().map(|note| note_text(note).to_owned()));
    let next_cursor = page.next.map(|next| pages.cursor(&next));
    let shown_name = encode_id(&name);
    let mut text = format!("History of {shown_name}, newest first:");
    if page.entries.is_empty() {
        text = format!("{shown_name} has no versions here.");
    }
    let mut versions = Vec::with_capacity(page.entries.len());
    for entry in &page.entries {
        let record = VersionRecord::from(entry);
        let _ = write!(text, "\n- {}", record.line());
        versions.push(record);
    }
    if let Some(cursor) = &next_cursor {
        let _ = write!(text, "\nNext page: cursor {cursor}");
    }
    let answer =
        HistoryAnswer { reference: name, versions, next_cursor, text: None, difference: None };
    reply_with_notes(text, &answer, notes)
}

fn show_version(target: HistoryTarget, found: &VersionText) -> Result<ToolAnswer> {
    let body = document_text(&found.document)?;
    let answer = HistoryAnswer {
        reference: target.name,
        versions: VersionRecord::of_texts([found]),
        next_cursor: None,
        text: Some(body.to_owned()),
        difference: None,
    };
    let name = encode_id(&answer.reference);
    let text = format!("{name} at version {}:\n\n{body}", found.version);
    reply_with_notes(text, &answer, target.notes)
}

fn compare_versions(
    target: HistoryTarget,
    older: &VersionText,
    newer: &VersionText,
) -> Result<ToolAnswer> {
    let difference = word_diff(document_text(&older.document)?, document_text(&newer.document)?);
    let text = format!(
        "{}: from version {} to {}, removed words as [-old-], added words as {{+new+}}:\n\n\
         {difference}",
        encode_id(&target.name),
        older.version,
        newer.version
    );
    let answer = HistoryAnswer {
        reference: target.name,
        versions: VersionRecord::of_texts([newer, older]),
        next_cursor: None,
        text: None,
        difference: Some(difference),
    };
    reply_with_notes(text, &answer, target.notes)
}

fn reply_with_notes(
    text: String,
    answer: &HistoryAnswer,
    notes: Vec<String>,
) -> Result<ToolAnswer> {
    let mut reply = reply_with_body(text, answer)?;
    reply.add_notes(notes);
    Ok(reply)
}

impl VersionRecord {
    fn of_texts<const COUNT: usize>(texts: [&VersionText; COUNT]) -> Vec<Self> {
        let listed = texts.into_iter().filter_map(|text| text.entry.as_ref());
        listed.map(Self::from).collect()
    }

    /// `3f9a1c20 2026-11-23T10:00:00Z ann, update_requirement: reason`
    fn line(&self) -> String {
        let version = self.version.as_deref().map_or("deleted", |version| &version[..8]);
        let mut line = format!("{version} {}", self.at);
        if let Some(user) = &self.user {
            let _ = write!(line, " {}", encode_line(user));
        }
        if let Some(tool) = &self.tool {
            let _ = write!(line, ", {}", encode_line(tool));
        }
        if let Some(reason) = &self.reason {
            let _ = write!(line, ": {}", encode_line(reason));
        }
        if self.purged {
            line.push_str(" (text erased)");
        }
        line
    }
}

impl From<&HistoryEntry> for VersionRecord {
    fn from(entry: &HistoryEntry) -> Self {
        let HistoryEntry { version, at, origin, is_purged } = entry.clone();
        Self {
            version: version.map(|version| version.to_string()),
            at: at.to_rfc3339(),
            user: origin.user,
            tool: origin.tool,
            reason: origin.reason,
            purged: is_purged,
        }
    }
}

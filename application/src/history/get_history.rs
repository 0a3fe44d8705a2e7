//! `get_history`: lists the versions of a document, returns one of them, and compares two.

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::VersionPrefix;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::history::{HistoryAnswer, VersionRecord};
use reqlore_domain::untrusted_text::encode_id;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HistoryTarget, VersionText, find_target, find_version, note_text, word_diff};
use crate::answers::answer::{ToolAnswer, body_answer, serialization_error};
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::context::ToolContext;
use crate::documents::document_text;
use crate::tools::pagination::{PageAnswer, PageCursor, PageLimit, PageReader, page_limit};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

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
    show: Option<ShowKeys<VersionKeys>>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    // From the previous page.
    cursor: Option<PageCursor>,
}

#[async_trait]
impl Tool for GetHistory {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, HistoryAnswer>(
            "get_history",
            "History of an item, decision or rule",
            "Lists the versions of a document, newest first: what it said before, who changed it, \
             and when.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, spec, call } = request;
        let reference = arguments.reference.as_str();
        let target = find_target(context, &call.caller, reference).await?;
        match (arguments.version, arguments.compare_with) {
            (None, None) => list_versions(context, spec, target, &arguments).await,
            (Some(version), None) => {
                let found = find_version(&context.ports, &target, Some(version), "version").await?;
                let guard = context.call_guard(&call.caller, &target.project);
                let mut answer = show_version(target, &found)?;
                if found.is_present {
                    answer.add_shown(guard.values(&found.document).to_vec());
                }
                Ok(answer)
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
    let pages = PageReader::new(&project, &(spec.name, &name));
    let position: HistoryPosition = pages.position(arguments.cursor.as_ref())?.unwrap_or_default();
    let limit = page_limit(arguments.limit);
    let query = HistoryQuery {
        after: position.after.clone(),
        limit: position.last.as_ref().map_or(limit, |last| limit + last.index + MAX_NEW_ENTRIES),
    };
    let page = context.ports.history.history(&project, &id, &query).await?;
    notes.extend(page.notes.into_iter().map(|note| note_text(note).to_owned()));
    let mut versions: Vec<VersionRecord> = page.entries.iter().map(VersionRecord::from).collect();
    let skipped = position.shown_entries(&versions)?;
    versions.drain(..skipped);
    let after = position.after;
    let next = if versions.len() > limit {
        versions.truncate(limit);
        HistoryPosition::inside(after.clone(), skipped, &versions, limit)
    } else {
        page.next.map(|next| HistoryPosition { after: Some(next), last: None })
    };
    let show = arguments.show.as_ref();
    let lines = versions
        .iter()
        .map(|version| format!("- {}", version.line(|key| show.is_none_or(|show| show.has(key)))))
        .collect();
    let shown_name = encode_id(&name);
    let heading = if versions.is_empty() {
        format!("{shown_name} has no versions here.")
    } else {
        format!("History of {shown_name}, newest first:")
    };
    let next_cursor = next.map(|next| pages.cursor(&next));
    let answer =
        HistoryAnswer { reference: name, versions, next_cursor, ..HistoryAnswer::default() };
    let mut data = serde_json::to_value(&answer).map_err(serialization_error)?;
    if let Some(show) = show {
        show.filter_list(&mut data["versions"]);
    }
    let versions = answer.versions;
    let mut answer = ToolAnswer::new(PageAnswer {
        heading: Box::new(move |_| heading.clone()),
        lines,
        data: data.into(),
        key: "versions",
        cursor_after: Box::new(move |shown| {
            let next = HistoryPosition::inside(after.clone(), skipped, &versions, shown)?;
            Some(pages.cursor(&next))
        }),
    });
    answer.add_notes(notes);
    Ok(answer)
}

/// Versions that may be added between two pages that a size limit cut.
const MAX_NEW_ENTRIES: usize = 100;

/// The start of a page. The storage has its own positions, but only between its pages.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryPosition {
    /// The storage's position.
    after: Option<String>,
    /// The last shown entry after that position.
    last: Option<ShownEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ShownEntry {
    index: usize,
    version: Option<String>,
    at: String,
}

impl HistoryPosition {
    /// The position after a number of versions, which follow `skipped` entries.
    fn inside(
        after: Option<String>,
        skipped: usize,
        versions: &[VersionRecord],
        shown: usize,
    ) -> Option<Self> {
        let VersionRecord { version, at, .. } = versions.get(shown.checked_sub(1)?)?;
        let index = skipped + shown - 1;
        let last = ShownEntry { index, version: version.clone(), at: at.clone() };
        Some(Self { after, last: Some(last) })
    }

    /// The number of entries that earlier pages have shown, or were added in front of them.
    fn shown_entries(&self, versions: &[VersionRecord]) -> Result<usize> {
        let Some(ShownEntry { index, version, at }) = &self.last else { return Ok(0) };
        let is_last = |entry: &VersionRecord| entry.version == *version && entry.at == *at;
        // New entries are in front, so the search begins at the old position.
        let found = versions.iter().skip(*index).position(is_last).map(|found| index + found);
        found.map(|found| found + 1).ok_or_else(|| {
            let message = "cursor: the history has changed since the previous page; list it again \
                           without cursor.";
            Error::new(ErrorKind::Conflict, message).field("cursor")
        })
    }
}

/// The keys of [`VersionRecord`].
pub(crate) struct VersionKeys;

impl EntryKeys for VersionKeys {
    const KEYS: &'static [&'static str] = &["at", "user", "tool", "reason"];
}

fn show_version(target: HistoryTarget, found: &VersionText) -> Result<ToolAnswer> {
    let body = document_text(&found.document)?;
    let answer = HistoryAnswer {
        reference: target.name,
        versions: records_of([found]),
        shown: vec![found.version.to_string()],
        text: Some(body.to_owned()),
        ..HistoryAnswer::default()
    };
    let name = encode_id(&answer.reference);
    let text = format!("{name} at version {}:\n\n{body}", found.version);
    answer_with_notes(text, &answer, target.notes)
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
        versions: records_of([newer, older]),
        shown: vec![newer.version.to_string(), older.version.to_string()],
        difference: Some(difference),
        ..HistoryAnswer::default()
    };
    answer_with_notes(text, &answer, target.notes)
}

fn answer_with_notes(text: String, data: &HistoryAnswer, notes: Vec<String>) -> Result<ToolAnswer> {
    let mut answer = body_answer(text, data)?;
    answer.add_notes(notes);
    Ok(answer)
}

/// The records of texts that the history lists.
fn records_of<const COUNT: usize>(texts: [&VersionText; COUNT]) -> Vec<VersionRecord> {
    texts.into_iter().filter_map(|text| text.entry.as_ref()).map(VersionRecord::from).collect()
}

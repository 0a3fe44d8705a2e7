//! The knowledge graph: eight tools on the entities of `.ixchel/**/*.md`.

pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod delete_entity;
pub(crate) mod entity_page;
mod entity_request;
mod import_files;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod show_graph;
pub(crate) mod sync;
pub(crate) mod tags;
pub(crate) mod update;
mod write_entity;

use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{self, ToolAnswer};
use crate::{ApplicationPorts, ToolContext};

pub(crate) type Repo = BoundedString<1_000>;

/// Returns the project that `repo` names, or the caller's default.
pub(crate) async fn resolve_project(
    context: &ToolContext,
    caller: &Caller,
    repo: Option<&Repo>,
) -> Result<ProjectKey> {
    context.ports.projects.resolve(caller, repo.map(Repo::as_str), Toolset::Knowledge).await
}

/// Returns the kind that a filter names. An unknown one is an error, not an empty answer.
pub(crate) async fn find_kind(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    kind: &str,
) -> Result<String> {
    let stored = ports.documents.entity_kinds(project).await?;
    knowledge::find_kind(&stored, kind)
        .map_err(|reason| Error::new(ErrorKind::InvalidArgument, reason).field("kind"))
}

/// A reply with the same JSON as text and as data.
fn json_reply(answer: &impl Serialize) -> Result<ToolAnswer> {
    answer::json_reply(answer, None)
}

/// Maximum size of an answer, at four characters per token.
type MaxTokens = BoundedInt<1, 262_144>;

/// The size that is left while an answer is built, and notes about its truncated parts.
#[derive(Debug)]
struct TokenBudget {
    /// Remaining characters.
    remaining: usize,
    notes: Vec<String>,
}

const CHARACTERS_PER_TOKEN: usize = 4;
/// About a mebibyte of text.
const DEFAULT_TOKENS: usize = 262_144;

impl TokenBudget {
    fn new(max_tokens: Option<MaxTokens>) -> Self {
        let tokens = max_tokens.map_or(DEFAULT_TOKENS, MaxTokens::get);
        Self { remaining: tokens * CHARACTERS_PER_TOKEN, notes: Vec::new() }
    }

    /// Takes the beginning of a text that fits, cut at the end of a line or word.
    fn cut_text<'a>(&mut self, part: &str, text: &'a str) -> &'a str {
        // Fast path: a text never has more characters than bytes.
        if text.len() <= self.remaining {
            self.remaining -= text.len();
            return text;
        }
        let Some((end, _)) = text.char_indices().nth(self.remaining) else {
            self.remaining -= text.chars().count();
            return text;
        };
        let fitting = &text[..end];
        // A line end in the first half would waste too much of the budget.
        let end = match fitting.rfind('\n') {
            Some(line_end) if line_end * 2 > end => line_end,
            _ => fitting.rfind(char::is_whitespace).unwrap_or(end),
        };
        let kept_text = text[..end].trim_end();
        let (kept, all) = (kept_text.chars().count(), text.chars().count());
        self.notes.push(format!("{part}: the first {kept} of {all} characters"));
        self.remaining = 0;
        kept_text
    }

    /// Truncates a list to the leading items that fit, measured as JSON.
    fn keep_fitting<T: Serialize>(&mut self, part: &str, items: &mut Vec<T>) {
        let all = items.len();
        let mut kept = 0;
        for item in &*items {
            let size = serde_json::to_string(item).map_or(0, |json| json.chars().count());
            // Stops at the first item that is too long, so that the order has no gaps.
            if size > self.remaining {
                break;
            }
            self.remaining -= size;
            kept += 1;
        }
        if kept < all {
            items.truncate(kept);
            self.remaining = 0;
            self.notes.push(format!("{part}: the first {kept} of {all}"));
        }
    }

    /// Reports a part that is omitted for another reason.
    fn add_note(&mut self, note: String) {
        self.notes.push(note);
    }

    fn is_spent(&self) -> bool {
        self.remaining == 0
    }

    fn into_truncation(self) -> Truncation {
        Truncation { truncated: !self.notes.is_empty(), cut: self.notes }
    }
}

// The last fields of each answer with a budget. A doc comment would appear in the schema.
#[derive(Serialize, JsonSchema)]
struct Truncation {
    /// True if parts of the response were cut.
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    cut: Vec<String>,
}

#[cfg(test)]
mod tests;

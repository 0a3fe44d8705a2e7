//! The knowledge graph: six tools over `.ixchel/**/*.md`.

pub(crate) mod context;
mod entity_view;
pub(crate) mod search;
pub(crate) mod show;
pub(crate) mod show_graph;
pub(crate) mod sync;
pub(crate) mod tags;

use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::EntityNode;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolReply;
use reqlore_domain::project_key::ProjectKey;
use schemars::JsonSchema;
use serde::Serialize;

use crate::ToolContext;
use crate::tool;

type Repo = BoundedString<1_000>;

/// The project that `repo` names, or the caller's own.
async fn resolve_project(
    context: &ToolContext,
    caller: &Caller,
    repo: Option<&Repo>,
) -> Result<ProjectKey> {
    context.ports.projects.resolve(caller, repo.map(Repo::as_str), Toolset::Knowledge).await
}

/// The entities that each of these words names, in their order.
async fn lookup_entities(
    context: &ToolContext,
    project: &ProjectKey,
    words: &[String],
) -> Result<Vec<Vec<EntityNode>>> {
    let mut nodes = Vec::with_capacity(words.len());
    for heads in context.ports.documents.lookup(project, DocumentKind::Entity, words).await? {
        nodes.push(heads.iter().filter_map(|head| EntityNode::of(head)).collect());
    }
    Ok(nodes)
}

/// Pretty JSON as text, and the same as data.
fn json_reply(answer: &impl Serialize) -> Result<ToolReply> {
    let text = serde_json::to_string_pretty(answer).map_err(|error| {
        Error::new(ErrorKind::Internal, "The answer could not be written.").caused_by(error)
    })?;
    tool::reply(text, answer)
}

/// `max_tokens`, the size of an answer; four characters count as one token.
type MaxTokens = BoundedInt<1, 262_144>;

/// The rest of `max_tokens` while an answer is built, and the parts that were cut.
#[derive(Debug)]
struct TokenBudget {
    /// In characters.
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

    /// As much of a text as fits, cut at the end of a line or else of a word.
    fn cut_text<'a>(&mut self, what: &str, text: &'a str) -> &'a str {
        // Bytes are never fewer than characters.
        if text.len() <= self.remaining {
            self.remaining -= text.len();
            return text;
        }
        let Some((end, _)) = text.char_indices().nth(self.remaining) else {
            self.remaining -= text.chars().count();
            return text;
        };
        let head = &text[..end];
        let line = head.rfind('\n').filter(|at| *at * 2 > end);
        let end = line.or_else(|| head.rfind(char::is_whitespace)).unwrap_or(end);
        let kept_text = text[..end].trim_end();
        let (kept, all) = (kept_text.chars().count(), text.chars().count());
        self.notes.push(format!("{what}: the first {kept} of {all} characters"));
        self.remaining = 0;
        kept_text
    }

    /// Takes as many leading items as fit by their size as JSON.
    fn keep_fitting<T: Serialize>(&mut self, what: &str, items: &mut Vec<T>) {
        let all = items.len();
        let mut kept = 0;
        for item in &*items {
            let size = serde_json::to_string(item).map_or(0, |json| json.chars().count());
            if size > self.remaining {
                break;
            }
            self.remaining -= size;
            kept += 1;
        }
        if kept < all {
            items.truncate(kept);
            self.remaining = 0;
            self.notes.push(format!("{what}: the first {kept} of {all}"));
        }
    }

    /// Notes a part that is left out for another reason.
    fn add_note(&mut self, what: String) {
        self.notes.push(what);
    }

    fn is_spent(&self) -> bool {
        self.remaining == 0
    }

    fn into_truncation(self) -> Truncation {
        Truncation { truncated: !self.notes.is_empty(), cut: self.notes }
    }
}

// The end of each answer that has a budget. (A doc comment would become part of the schema.)
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

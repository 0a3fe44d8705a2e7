//! The response of `search_global` and `search_requirements`.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{ToolAnswer, reply};
use crate::incomplete_report::IncompleteReport;
use crate::pagination::{PageCursor, PageReader};

const SECTION: &str = "section";
/// Precedes the uncertain results in the text.
const UNCERTAIN_LINE: &str = "Uncertain hits, which may not answer the query:";

/// The start of a page in ranked results, which have no sort key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchPosition {
    /// Number of results before the page.
    pub(super) offset: usize,
    /// The state of the index at the first page; `None` before it.
    state: Option<u64>,
}

impl SearchPosition {
    /// Returns the position of the cursor, or the start without one.
    pub(super) fn read(pages: &PageReader, cursor: Option<&PageCursor>) -> Result<Self> {
        Ok(pages.position(cursor)?.unwrap_or(Self { offset: 0, state: None }))
    }

    /// Returns the position after these hits; `None` after the last page.
    fn after(self, page: &SearchHits) -> Option<Self> {
        let offset = self.offset + page.hits.len();
        (offset < page.total).then_some(Self { offset, state: Some(page.state) })
    }

    /// An error if the index has changed since the first page.
    fn check_state(self, page: &SearchHits) -> Result<()> {
        match self.state {
            Some(state) if state != page.state => {
                let message = "cursor: the search results have changed since the previous page; \
                               search again without cursor.";
                Err(Error::new(ErrorKind::Conflict, message).field("cursor"))
            }
            _ => Ok(()),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResponse {
    pub(super) total: usize,
    pub(super) results: Vec<SearchResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub(super) next_cursor: Option<String>,
    pub(super) signals: Vec<String>,
    /// Texts not indexed or embedded yet.
    pub(super) pending: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IncompleteReport", default)]
    pub(super) incomplete: Option<IncompleteReport>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResult {
    /// Reference, entity ID, or section and index ("general:2.1").
    pub(super) reference_id: String,
    #[serde(rename = "type")]
    pub(super) entity_type: &'static str,
    /// Of knowledge only.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub(super) kind: Option<String>,
    pub(super) title: String,
    #[schemars(required, extend("type" = ["string", "null"]))]
    pub(super) status: Option<String>,
    #[schemars(required, extend("type" = ["number", "null"]))]
    pub(super) score: Option<f64>,
    /// Weak evidence; in total only above 50,000 items.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub(super) uncertain: bool,
    pub(super) snippet: String,
}

impl SearchResponse {
    /// An error if the index has changed since the page before `position`.
    pub(super) fn from_hits(
        page: SearchHits,
        position: SearchPosition,
        pages: &PageReader,
    ) -> Result<Self> {
        position.check_state(&page)?;
        let next_cursor = position.after(&page).map(|next| pages.cursor(&next));
        let SearchHits { hits, total, signals, pending, incomplete, .. } = page;
        let results = hits.into_iter().map(SearchResult::from_hit).collect();
        let incomplete = IncompleteReport::from_documents(&incomplete);
        Ok(Self { total, results, next_cursor, signals, pending, incomplete })
    }

    /// The text has a summary and a line for each result.
    pub(super) fn reply(self, offset: usize) -> Result<ToolAnswer> {
        let mut lines = vec![self.summary_line(offset)];
        let mut is_certain = true;
        for result in &self.results {
            if is_certain && result.uncertain {
                lines.push(UNCERTAIN_LINE.to_owned());
            }
            is_certain = !result.uncertain;
            lines.push(result.text_line());
        }
        lines.extend(self.incomplete.as_ref().map(IncompleteReport::text_line));
        if let Some(cursor) = &self.next_cursor {
            lines.push(format!("Next page: cursor {cursor}"));
        }
        reply(lines.join("\n"), &self)
    }

    fn summary_line(&self, offset: usize) -> String {
        let total = self.total;
        // The uncertain results of the last page are not in the total.
        let shown = self.results.len().min(total.saturating_sub(offset));
        let items = if total == 1 { "item" } else { "items" };
        let showing = if shown == total {
            String::new()
        } else if shown == 0 {
            // Items were deleted after the cursor was issued.
            ", showing none".to_owned()
        } else if offset == 0 {
            format!(", showing {shown}")
        } else {
            format!(", showing {} to {}", offset + 1, offset + shown)
        };
        format!("Found {total} {items}{showing}")
    }
}

impl SearchResult {
    fn from_hit(hit: SearchHit) -> Self {
        let (entity_type, kind) = match hit.document.kind {
            DocumentKind::Section => (SECTION, None),
            DocumentKind::Entity => ("knowledge", Some(hit.kind)),
            kind => (kind.name(), None),
        };
        let status = hit.facets.iter().find_map(|facet| facet.value(SearchFacet::STATUS));
        Self {
            status: status.map(str::to_owned),
            kind,
            reference_id: hit.reference,
            entity_type,
            title: hit.title,
            uncertain: hit.is_uncertain,
            // An f32 score has many meaningless digits as an f64.
            score: Some((f64::from(hit.score) * 10_000.0).round() / 10_000.0),
            snippet: hit.snippet,
        }
    }

    fn text_line(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or(self.entity_type);
        // A rule has no title of its own; its section's name is in the reference.
        let label = if self.entity_type == SECTION { &self.snippet } else { &self.title };
        let (id, kind, label) =
            (encode_id(&self.reference_id), encode_line(kind), encode_line(label));
        match &self.status {
            Some(status) => format!("{id} ({kind}, {}): {label}", encode_line(status)),
            None => format!("{id} ({kind}): {label}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_summary_of_a_page_states_its_range() {
        for (total, offset, shown, expected) in [
            (0, 0, 0, "Found 0 items"),
            (1, 0, 1, "Found 1 item"),
            (12, 0, 12, "Found 12 items"),
            (12, 0, 10, "Found 12 items, showing 10"),
            (12, 10, 2, "Found 12 items, showing 11 to 12"),
            (12, 20, 0, "Found 12 items, showing none"),
        ] {
            let result = |_| SearchResult {
                reference_id: String::new(),
                entity_type: "epic",
                kind: None,
                title: String::new(),
                status: None,
                score: None,
                uncertain: false,
                snippet: String::new(),
            };
            let results = (0..shown).map(result).collect();
            let (next_cursor, signals, pending, incomplete) = (None, Vec::new(), 0, None);
            let answer =
                SearchResponse { total, results, next_cursor, signals, pending, incomplete };
            assert_eq!(answer.summary_line(offset), expected);
        }
    }
}

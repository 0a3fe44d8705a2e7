//! The response of `search_global` and `search_requirements`.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolReply;
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pagination::PageReader;
use crate::tool;

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchResponse {
    pub(super) total: usize,
    pub(super) results: Vec<SearchResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    pub(super) next_cursor: Option<String>,
    pub(super) signals: Vec<String>,
    /// Texts not embedded yet.
    pub(super) pending: usize,
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
    pub(super) snippet: String,
}

impl SearchResponse {
    /// `offset` is the position of the first hit of the page.
    pub(super) fn from_hits(page: SearchHits, offset: usize, pages: &PageReader) -> Self {
        let SearchHits { hits, total, signals, pending } = page;
        let next_cursor = pages.next_cursor(offset + hits.len(), total);
        let results = hits.into_iter().map(SearchResult::from_hit).collect();
        Self { total, results, next_cursor, signals, pending }
    }

    /// The text has a summary and a line for each result.
    pub(super) fn reply(self, offset: usize) -> Result<ToolReply> {
        let mut lines = vec![self.summary_line(offset)];
        for result in &self.results {
            lines.push(result.text_line());
        }
        if let Some(cursor) = &self.next_cursor {
            lines.push(format!("Next page: cursor {cursor}"));
        }
        tool::reply(lines.join("\n"), &self)
    }

    fn summary_line(&self, offset: usize) -> String {
        let (total, shown) = (self.total, self.results.len());
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
            DocumentKind::Section => ("section", None),
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
            // An f32 score has many meaningless digits as an f64.
            score: Some((f64::from(hit.score) * 10_000.0).round() / 10_000.0),
            snippet: hit.snippet,
        }
    }

    fn text_line(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or(self.entity_type);
        match &self.status {
            Some(status) => format!("{} ({kind}, {status}): {}", self.reference_id, self.title),
            None => format!("{} ({kind}): {}", self.reference_id, self.title),
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
                snippet: String::new(),
            };
            let results = (0..shown).map(result).collect();
            let (next_cursor, signals, pending) = (None, Vec::new(), 0);
            let answer = SearchResponse { total, results, next_cursor, signals, pending };
            assert_eq!(answer.summary_line(offset), expected);
        }
    }
}

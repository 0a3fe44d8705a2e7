//! The answer of `search_global` and `search_requirements`.

use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolReply;
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits};
use schemars::JsonSchema;
use serde::Serialize;

use crate::pagination::PageReader;
use crate::tool;

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchAnswer {
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
    pub(super) belongs_to: &'static str,
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

impl SearchAnswer {
    /// The page of hits that begins at `offset`.
    pub(super) fn of(found: SearchHits, offset: usize, pages: &PageReader) -> Self {
        let SearchHits { hits, total, signals, pending } = found;
        let next_cursor = pages.next(offset + hits.len(), total);
        let results = hits.into_iter().map(SearchResult::of).collect();
        Self { total, results, next_cursor, signals, pending }
    }

    /// A sentence, and a line for each result.
    pub(super) fn reply(self, offset: usize) -> Result<ToolReply> {
        let mut lines = vec![self.sentence(offset)];
        lines.extend(self.results.iter().map(SearchResult::line));
        lines.extend(self.next_cursor.iter().map(|next| format!("More with cursor {next}")));
        tool::reply(lines.join("\n"), &self)
    }

    fn sentence(&self, offset: usize) -> String {
        let (total, shown) = (self.total, self.results.len());
        let items = if total == 1 { "item" } else { "items" };
        let showing = match (offset, shown) {
            _ if shown == total => String::new(),
            (_, 0) => ", showing none".to_owned(),
            (0, _) => format!(", showing {shown}"),
            _ => format!(", showing {} to {}", offset + 1, offset + shown),
        };
        format!("Found {total} {items}{showing}")
    }
}

impl SearchResult {
    fn of(hit: SearchHit) -> Self {
        let belongs_to = match hit.document.kind {
            DocumentKind::Section => "section",
            DocumentKind::Entity => "knowledge",
            kind => kind.name(),
        };
        let status = hit.facets.iter().find_map(|facet| facet.value(SearchFacet::STATUS));
        Self {
            status: status.map(str::to_owned),
            kind: (hit.document.kind == DocumentKind::Entity).then_some(hit.kind),
            reference_id: hit.reference,
            belongs_to,
            title: hit.title,
            score: Some((f64::from(hit.score) * 10_000.0).round() / 10_000.0),
            snippet: hit.snippet,
        }
    }

    fn line(&self) -> String {
        let what = self.kind.as_deref().unwrap_or(self.belongs_to);
        let status = self.status.as_ref().map(|status| format!(", {status}")).unwrap_or_default();
        format!("{} ({what}{status}): {}", self.reference_id, self.title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentence_tells_which_part_is_shown() {
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
                belongs_to: "epic",
                kind: None,
                title: String::new(),
                status: None,
                score: None,
                snippet: String::new(),
            };
            let results = (0..shown).map(result).collect();
            let (next_cursor, signals, pending) = (None, Vec::new(), 0);
            let answer = SearchAnswer { total, results, next_cursor, signals, pending };
            assert_eq!(answer.sentence(offset), expected);
        }
    }
}

//! The answer of `search_global` and `search_requirements`.

use std::collections::HashMap;
use std::mem;

use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::entry_line::{EntryLine, RULE};
use reqlore_domain::records::answers::search::{IncompleteReport, SearchAnswer, SearchResult};
use reqlore_domain::records::ended::{Freshness, stale_reason};
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits};
use reqlore_domain::untrusted_text::encode_line;
use serde::{Deserialize, Serialize};

use crate::answers::answer::{ToolAnswer, serialization_error};
use crate::answers::ended_hits::{group_heading, left_out_note, names_id};
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::tools::pagination::{PageAnswer, PageCursor, PageReader};

const SECTION: &str = "section";
/// With more results than this, the lines of items have no snippets.
const MAX_SNIPPETS: usize = 10;
const SHORT_SNIPPET_CHARS: usize = 100;

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

    /// Returns the position after a number of hits; `None` after the certain ones, because no page
    /// begins with uncertain hits.
    fn after(self, shown: usize, total: usize, state: u64) -> Option<Self> {
        let offset = self.offset + shown;
        (offset < total).then_some(Self { offset, state: Some(state) })
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

/// The keys of [`SearchResult`].
pub(super) struct ResultKeys;

impl EntryKeys for ResultKeys {
    const KEYS: &'static [&'static str] =
        &["title", "type", "kind", "status", "superseded_by", "tags", "snippet", "score"];
}

/// A page of results, and the position of the page in all results.
pub(super) struct ResultPage {
    pub(super) found: SearchAnswer,
    /// Of the results, in their order.
    documents: Vec<DocumentId>,
    /// Number of results before the first one that has ended.
    ended_from: usize,
    /// Number of ended results that the page leaves out.
    left_out: usize,
    /// Number of results before the page.
    pub(super) offset: usize,
    /// The cursor after the first results of the page.
    pub(super) cursor_after: Box<dyn Fn(usize) -> Option<String> + Send>,
}

impl ResultPage {
    /// An error if the index has changed since the page before `position`.
    pub(super) fn from_hits(
        page: SearchHits,
        position: SearchPosition,
        pages: PageReader,
    ) -> Result<Self> {
        position.check_state(&page)?;
        let SearchHits { hits, total, signals, pending, incomplete, state } = page;
        let cursor_after =
            move |shown: usize| position.after(shown, total, state).map(|next| pages.cursor(&next));
        let next_cursor = cursor_after(hits.len());
        let documents: Vec<_> = hits.iter().map(|hit| hit.document.clone()).collect();
        let results = hits.into_iter().map(hit_result).collect();
        let incomplete = IncompleteReport::from_documents(&incomplete);
        let notes = Vec::new();
        let found =
            SearchAnswer { total, results, next_cursor, signals, pending, incomplete, notes };
        let (ended_from, left_out, cursor_after) = (documents.len(), 0, Box::new(cursor_after));
        let offset = position.offset;
        Ok(Self { found, documents, ended_from, left_out, offset, cursor_after })
    }

    /// A page that was listed without a query.
    pub(super) fn listed(
        found: SearchAnswer,
        offset: usize,
        cursor_after: Box<dyn Fn(usize) -> Option<String> + Send>,
    ) -> Self {
        let (ended_from, left_out) = (found.results.len(), 0);
        Self { found, documents: Vec::new(), ended_from, left_out, offset, cursor_after }
    }

    /// Marks the results that have ended, and puts those last that the query does not name. Without
    /// `has_ended` it leaves them out.
    pub(super) fn mark_ended(
        &mut self,
        query: &str,
        freshness: &HashMap<DocumentId, Freshness>,
        has_ended: bool,
    ) {
        let read = self.found.results.len();
        let (mut valid, mut ended) = (Vec::new(), Vec::new());
        for (mut result, document) in
            mem::take(&mut self.found.results).into_iter().zip(&self.documents)
        {
            let own = freshness.get(document).cloned().unwrap_or_default();
            result.stale = stale_reason(result.status.as_deref(), own.superseded_by.as_deref());
            result.review_overdue = own.is_overdue && result.stale.is_none();
            result.superseded_by = own.superseded_by;
            match result.stale {
                Some(_) if !has_ended => {}
                Some(_) if !names_id(query, &result.reference_id) => ended.push(result),
                _ => valid.push(result),
            }
        }
        valid.sort_by_key(|result| result.uncertain);
        self.ended_from = valid.len();
        valid.extend(ended);
        self.left_out = read - valid.len();
        self.found.results = valid;
    }

    /// The text has a summary and a line for each result.
    pub(super) fn answer(self, show: &ShowKeys<ResultKeys>) -> Result<ToolAnswer> {
        let Self { found, ended_from, left_out, offset, cursor_after, .. } = self;
        let count = found.results.len();
        let mut lines = Vec::with_capacity(count);
        let mut group = None;
        for (position, result) in found.results.iter().enumerate() {
            let line = result_line(result, count <= MAX_SNIPPETS, show);
            let is_ended = position >= ended_from;
            lines.push(match group_heading(&mut group, is_ended, result.uncertain) {
                Some(heading) => format!("{heading}\n{line}"),
                None => line,
            });
        }
        let mut data = serde_json::to_value(&found).map_err(serialization_error)?;
        show.filter_list(&mut data["results"]);
        let total = found.total;
        let mut answer = ToolAnswer::new(PageAnswer {
            // The uncertain results of the last page are not in the total.
            heading: Box::new(move |shown| {
                summary_line(total, offset, shown.min(total.saturating_sub(offset)))
            }),
            lines,
            data: data.into(),
            key: "results",
            cursor_after: Box::new(move |shown| {
                cursor_after(if shown == count { shown + left_out } else { shown })
            }),
        });
        answer.add_notes(left_out_note(left_out));
        answer.add_notes(found.incomplete.as_ref().map(IncompleteReport::text_line));
        Ok(answer)
    }
}

fn summary_line(total: usize, offset: usize, shown: usize) -> String {
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

fn hit_result(hit: SearchHit) -> SearchResult {
    let (entity_type, kind) = match hit.document.kind {
        DocumentKind::Section => (SECTION, None),
        DocumentKind::Entity => ("knowledge", Some(hit.kind)),
        kind => (kind.name(), None),
    };
    let status = hit.facets.iter().find_map(|facet| facet.value(SearchFacet::STATUS));
    let tags = hit.facets.iter().filter_map(|facet| facet.value(SearchFacet::TAG));
    SearchResult {
        status: status.map(str::to_owned),
        superseded_by: None,
        stale: None,
        review_overdue: false,
        tags: tags.map(str::to_owned).collect(),
        kind,
        reference_id: hit.reference,
        entity_type: entity_type.into(),
        title: hit.title,
        uncertain: hit.is_uncertain,
        // An f32 score has many meaningless digits as an f64.
        score: Some((f64::from(hit.score) * 10_000.0).round() / 10_000.0),
        snippet: hit.snippet,
    }
}

fn result_line(result: &SearchResult, has_snippets: bool, show: &ShowKeys<ResultKeys>) -> String {
    // A rule has no title of its own; its section's name is in the reference.
    let is_rule = result.entity_type == SECTION;
    let has_text = show.has("snippet") || (is_rule && show.has("title"));
    let snippet = Some(&*result.snippet).filter(|_| has_text);
    let title = if is_rule { None } else { Some(&*result.title) };
    let line = EntryLine {
        id: &result.reference_id,
        kind: Some(match &result.kind {
            _ if is_rule && result.reference_id.contains(':') => RULE,
            Some(kind) => kind,
            None => &result.entity_type,
        }),
        status: result.status.as_deref(),
        stale: result.stale.as_deref(),
        review_overdue: result.review_overdue,
        title,
        tags: &result.tags,
        ..EntryLine::default()
    };
    let mut line = line.keep(|key| show.has(key));
    if !show.has("kind") && show.has("type") {
        line.kind = Some(&result.entity_type);
    }
    let mut text = line.render();
    let Some(snippet) = snippet.filter(|snippet| !snippet.is_empty()) else { return text };
    // A rule's text is its title.
    let separator = if is_rule { ": " } else { " – " };
    if show.is_given() || (is_rule && has_snippets) {
        text.extend([separator, &encode_line(snippet)]);
    } else if is_rule || has_snippets {
        text.extend([separator, &encode_line(&shorten_text(snippet))]);
    }
    text
}

/// The beginning of a snippet, which ends with a word.
fn shorten_text(text: &str) -> String {
    let Some((end, _)) = text.char_indices().nth(SHORT_SNIPPET_CHARS) else {
        return text.to_owned();
    };
    let end = text[..end].rfind(' ').unwrap_or(end);
    format!("{}…", text[..end].trim_end())
}

#[cfg(test)]
mod tests {
    use reqlore_domain::search::MAX_INDEXED_BYTES;
    use serde_json::json;

    use super::*;
    use crate::test_support::TestApplication;

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
            assert_eq!(summary_line(total, offset, shown), expected);
        }
    }

    #[test]
    fn file_name_with_line_breaks_stays_on_one_line() {
        let report = IncompleteReport { total: 1, documents: vec!["a\n::error::b".to_owned()] };
        assert!(report.text_line().contains("a\\n::error::b"), "{}", report.text_line());
        let mut warnings = crate::backlog::item_lookup::FileWarnings::default();
        warnings.add_unread(&[reqlore_domain::ports::record_list::UnreadFile {
            path: "a\n::error::b".to_owned(),
            reference: None,
            reason: "is not read".to_owned(),
        }]);
        assert_eq!(warnings.into_list(), ["a\\n::error::b: is not read"]);
    }

    #[tokio::test]
    async fn search_names_documents_that_are_searched_in_part() {
        let testing = TestApplication::new();
        let long = "word ".repeat(MAX_INDEXED_BYTES);
        for name in ["a", "b", "c", "d"] {
            testing.write_entity(name, long[..=MAX_INDEXED_BYTES].to_owned()).await;
        }
        testing.write_entity("small", "Quokka.\n").await;
        for (tool, hits) in [("search_global", "results"), ("ixchel_search", "hits")] {
            let data = testing.data(tool, json!({ "query": "quokka" })).await;
            assert_eq!(data[hits].as_array().unwrap().len(), 1);
            let documents = [".ixchel/a.md", ".ixchel/b.md", ".ixchel/c.md"];
            assert_eq!(data["incomplete"], json!({ "total": 4, "documents": documents }));
            let text = testing.text(tool, json!({ "query": "quokka" })).await;
            assert!(text.contains(".ixchel/c.md"), "{text}");
        }
        let text = testing.text("search_global", json!({ "query": "quokka" })).await;
        assert!(text.contains(".ixchel/c.md and 1 more"), "{text}");
        // Requirements are searched completely.
        let data = testing.data("search_requirements", json!({ "query": "quokka" })).await;
        assert_eq!(data.get("incomplete"), None);
    }
}

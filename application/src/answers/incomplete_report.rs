//! Names the documents that a search could not cover completely.

use reqlore_domain::search::{IncompleteDocuments, MAX_INDEXED_BYTES};
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::Serialize;

/// Documents that were searched only in part or not at all.
#[derive(Serialize, JsonSchema)]
pub(crate) struct IncompleteReport {
    pub(crate) total: usize,
    /// The first of them.
    pub(crate) documents: Vec<String>,
}

impl IncompleteReport {
    /// `None` if all documents were searched completely.
    pub(crate) fn from_documents(incomplete: &IncompleteDocuments) -> Option<Self> {
        let documents: Vec<String> = incomplete.first.iter().map(ToString::to_string).collect();
        (incomplete.total > 0).then_some(Self { total: incomplete.total, documents })
    }

    pub(crate) fn text_line(&self) -> String {
        // One line, also for a file name with line breaks.
        let named = encode_line(&self.documents.join(", ")).into_owned();
        let more = match self.total - self.documents.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let limit = MAX_INDEXED_BYTES >> 10;
        format!(
            "Searched in part or not at all (text over {limit} KiB, or unreadable): {named}{more}"
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::test_support::TestApplication;

    #[test]
    fn file_name_with_line_breaks_stays_on_one_line() {
        let report = IncompleteReport { total: 1, documents: vec!["a\n::error::b".to_owned()] };
        assert!(report.text_line().contains("a\\n::error::b"), "{}", report.text_line());
        let mut warnings = crate::backlog::item_lookup::FileWarnings::default();
        warnings.add_unread(&[reqlore_domain::ports::documents::UnreadFile {
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

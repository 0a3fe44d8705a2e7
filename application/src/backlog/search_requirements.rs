//! `search_requirements`: searches requirements with filters, or lists them without a query.

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::record_list::{
    RecordFilter, RecordPage, RecordPosition, RecordQuery, list_position,
};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::search::{SearchAnswer, SearchResult};
use reqlore_domain::search::{SearchFacet, SearchQuery, SemanticMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::{
    EpicRef, PriorityArgument, RequirementStatusArgument, RequirementTypeArgument, UserStoryRef,
};
use super::item_lookup::{self, BacklogReader, FileWarnings};
use super::search::{ResultKeys, ResultPage, SearchPosition};
use crate::answers::answer::ToolAnswer;
use crate::answers::empty_answer::{HitCounts, add_reason, explain_hits};
use crate::answers::ended_hits::read_records;
use crate::answers::show_keys::ShowKeys;
use crate::documents::MAX_READ_DOCUMENTS;
use crate::tools::pagination::{PageCursor, PageLimit, PageReader, page_limit};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct SearchRequirements;

/// Characters of a description in a list without a query.
const SNIPPET_CHARS: usize = 240;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Words, a question or a reference.
    query: Option<BoundedString<10_000>>,
    status: Option<RequirementStatusArgument>,
    /// 1 Critical to 4 Low.
    priority: Option<PriorityArgument>,
    #[serde(rename = "type")]
    requirement_type: Option<RequirementTypeArgument>,
    user_story: Option<UserStoryRef>,
    epic: Option<EpicRef>,
    show: Option<ShowKeys<ResultKeys>>,
    // Not in the schema: few calls need it.
    #[schemars(skip)]
    include_stale: Option<bool>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    // From the previous page.
    cursor: Option<PageCursor>,
}

#[async_trait]
impl Tool for SearchRequirements {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, SearchAnswer>(
            "search_requirements",
            "Search requirements",
            "Searches requirements of the backlog by meaning and words, filtered by status, \
             priority, type or parent. Without a query it lists them.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, spec, call } = request;
        let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
        let filters = RequirementFilters::resolve(backlog, &arguments).await?;
        let limit = page_limit(arguments.limit);
        let kinds = [DocumentKind::Item(ItemKind::Requirement)];
        let show = arguments.show.unwrap_or_default();
        let text = arguments.query.map(BoundedString::into_string);
        let pages = PageReader::new(backlog.project, &(spec.name, &text, filters.fingerprint()));
        let cursor = arguments.cursor.as_ref();
        let Some(text) = text else {
            let (page, warnings) = filters.read_page(backlog, pages, cursor, limit).await?;
            let is_empty = page.found.total == 0;
            let mut answer = page.answer(&show)?;
            answer.add_notes(warnings.into_list());
            if is_empty {
                let excluded = "No requirement matches these filters.";
                let (caller, project) = (&call.caller, backlog.project);
                add_reason(&mut answer, backlog.ports, caller, project, &kinds, excluded).await?;
            }
            return Ok(answer);
        };
        let position = SearchPosition::read(&pages, cursor)?;
        let query = SearchQuery {
            text,
            document_kinds: kinds.to_vec(),
            item_kinds: Vec::new(),
            facets: filters.search_facets(),
            offset: position.offset,
            limit,
            semantic_mode: SemanticMode::Best,
            is_unfinished: false,
        };
        let observer = &*call.progress_sink;
        let page = context
            .indexes
            .search(&context.server_ports, backlog.project, &query, observer)
            .await?;
        let found = HitCounts::of_page(&page, &query);
        let (_, freshness) = read_records(context, backlog.project, &page.hits).await?;
        let mut page = ResultPage::from_hits(page, position, pages)?;
        page.mark_ended(&query.text, &freshness, arguments.include_stale != Some(false));
        let mut answer = page.answer(&show)?;
        let excluded = "No requirement matches the query and the filters.";
        let (caller, project) = (&call.caller, backlog.project);
        explain_hits(&mut answer, backlog.ports, caller, project, &kinds, found, excluded).await?;
        Ok(answer)
    }
}

struct RequirementFilters {
    filter: RecordFilter,
    user_story: Option<Reference>,
    epic: Option<Reference>,
}

impl RequirementFilters {
    async fn resolve(backlog: BacklogReader<'_>, arguments: &Arguments) -> Result<Self> {
        let story = arguments.user_story.as_ref().map(|story| story.parse_folded("user_story"));
        let epic = arguments.epic.as_ref().map(|epic| epic.parse_folded("epic"));
        let (user_story, epic) = (story.transpose()?, epic.transpose()?);
        let filter = RecordFilter {
            status: arguments.status.map(|status| status.0),
            priority: arguments.priority.map(|priority| priority.0),
            requirement_type: arguments.requirement_type.map(|argument| argument.0),
            parents: backlog.parent_stories(epic, user_story).await?,
            ..RecordFilter::default()
        };
        Ok(Self { filter, user_story, epic })
    }

    /// Identifies the list of results for its cursor. Omits the stories of the epic, which may
    /// change between two pages.
    fn fingerprint(&self) -> impl Serialize {
        let RecordFilter { status, priority, requirement_type, .. } = self.filter;
        (status, priority, requirement_type, [self.user_story, self.epic])
    }

    /// A hit must have one facet of each group.
    fn search_facets(&self) -> Vec<Vec<SearchFacet>> {
        let RecordFilter { status, priority, requirement_type, parents, .. } = &self.filter;
        let mut groups = Vec::new();
        if let Some(status) = status {
            groups.push(vec![SearchFacet::new(SearchFacet::STATUS, status.name())]);
        }
        if let Some(priority) = priority {
            groups.push(vec![SearchFacet::new(SearchFacet::PRIORITY, priority.number())]);
        }
        if let Some(requirement_type) = requirement_type {
            groups.push(vec![SearchFacet::new(SearchFacet::TYPE, requirement_type.name())]);
        }
        if let Some(parents) = parents {
            let parents = parents.iter().map(|story| SearchFacet::new(SearchFacet::PARENT, story));
            groups.push(parents.collect());
        }
        groups
    }

    /// A page of the matching requirements without ranking, sorted like all lists.
    async fn read_page(
        self,
        backlog: BacklogReader<'_>,
        pages: PageReader,
        cursor: Option<&PageCursor>,
        limit: usize,
    ) -> Result<(ResultPage, FileWarnings)> {
        let position: Option<(RecordPosition, usize)> = pages.position(cursor)?;
        let (after, offset) = position.unzip();
        let offset = offset.unwrap_or_default();
        let kind = ItemKind::Requirement;
        let query =
            RecordQuery { filter: self.filter, after, ..RecordQuery::of_items(kind, limit) };
        let (page, warnings) = backlog.list_items(&query).await?;
        let RecordPage { metadata, total, next, .. } = page;
        let mut results = Vec::with_capacity(metadata.len());
        // A page of large documents must not be in memory at once, as only excerpts are shown.
        for metas in metadata.chunks(MAX_READ_DOCUMENTS) {
            let documents = backlog.read_documents(metas).await?;
            for (meta, document) in metas.iter().zip(&documents) {
                let Some(item) = item_lookup::item_meta(meta) else { continue };
                // A removed or unreadable document is listed without a snippet.
                let text = document.as_ref().and_then(|document| document.text().ok());
                results.push(unranked_result(meta, item, text.unwrap_or_default()));
            }
        }
        let next_cursor = next.map(|next| pages.cursor(&(next, offset + metadata.len())));
        let pending = 0;
        let (signals, incomplete, notes) = (Vec::new(), None, Vec::new());
        let answer =
            SearchAnswer { total, results, next_cursor, signals, pending, incomplete, notes };
        let cursor_after = move |shown: usize| {
            let position = list_position(metadata.get(shown - 1)?)?;
            Some(pages.cursor(&(position, offset + shown)))
        };
        Ok((ResultPage::listed(answer, offset, Box::new(cursor_after)), warnings))
    }
}

fn unranked_result(meta: &DocumentMeta, item: &ItemMeta, text: &str) -> SearchResult {
    let excerpt: String = ItemMeta::description(text).chars().take(SNIPPET_CHARS).collect();
    SearchResult {
        reference_id: item.display_name(&meta.id.name).into_owned(),
        entity_type: item.kind.name().into(),
        kind: None,
        title: item.title.clone(),
        status: item.status.map(|status| status.name().to_owned()),
        superseded_by: None,
        stale: None,
        review_overdue: false,
        tags: item.tags.clone(),
        score: None,
        uncertain: false,
        snippet: excerpt.split_whitespace().collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::error::ErrorKind;
    use serde_json::{Value, json};

    use crate::test_support::{TestApplication, references};

    async fn requirements() -> TestApplication {
        let testing = TestApplication::new();
        for (name, keys) in [
            ("EP-001", ""),
            ("EP-002", ""),
            ("US-001", "epic: EP-001\n"),
            ("US-002", "epic: EP-001\n"),
            ("REQ-001", "user_story: US-001\nstatus: Active\npriority: 1\n"),
            ("REQ-002", "user_story: US-002\nstatus: Active\npriority: 2\n"),
            ("REQ-003", "user_story: US-002\ntype_name: Data\npriority: 1\n"),
            ("REQ-004", ""),
        ] {
            let text = format!("---\ntitle: About {name}\n{keys}---\nA fast  answer.\n");
            testing.write_item(name, text).await;
        }
        testing
    }

    // S5: 7.7
    #[tokio::test]
    async fn search_filters_with_or_without_query_select_the_same_items() {
        let testing = requirements().await;
        for (filters, expected) in [
            (json!({}), vec!["REQ-001", "REQ-002", "REQ-003", "REQ-004"]),
            (json!({ "status": "Active" }), vec!["REQ-001", "REQ-002"]),
            (json!({ "status": "Draft", "type": "Functional" }), vec!["REQ-004"]),
            (json!({ "priority": 1 }), vec!["REQ-001", "REQ-003"]),
            (json!({ "type": "Data" }), vec!["REQ-003"]),
            (json!({ "user_story": "US-2" }), vec!["REQ-002", "REQ-003"]),
            (json!({ "epic": "EP-001" }), vec!["REQ-001", "REQ-002", "REQ-003"]),
            (json!({ "epic": "EP-001", "user_story": "US-001" }), vec!["REQ-001"]),
            (json!({ "epic": "EP-002" }), vec![]),
            (json!({ "type": "Business Rule" }), vec![]),
        ] {
            let mut with_query = filters.clone();
            with_query["query"] = json!("fast");
            for arguments in [filters, with_query] {
                let data = testing.data("search_requirements", arguments.clone()).await;
                let mut references = references(&data["results"]);
                references.sort_unstable();
                assert_eq!(references, expected, "{arguments}");
                assert_eq!(data["total"], expected.len(), "{arguments}");
            }
        }
    }

    // S5: 7.7
    #[tokio::test]
    async fn search_without_query_lists_in_the_common_order() {
        let testing = requirements().await;
        let first = testing.call("search_requirements", json!({ "limit": 3 })).await.unwrap();
        assert_eq!(references(&first.data["results"]), ["REQ-001", "REQ-003", "REQ-002"]);
        assert_eq!(first.text.lines().next(), Some("Found 4 items, showing 3"));
        let expected = json!({
            "reference_id": "REQ-001", "type": "requirement", "title": "About REQ-001",
            "status": "Active", "score": null, "snippet": "A fast answer."
        });
        assert_eq!(first.data["results"][0], expected);
        let cursor: &Value = &first.data["next_cursor"];
        let next = testing.data("search_requirements", json!({ "cursor": cursor })).await;
        assert_eq!(references(&next["results"]), ["REQ-004"]);
    }

    // S5: 7.7
    #[tokio::test]
    async fn search_with_an_invalid_filter_names_the_argument() {
        let testing = requirements().await;
        for (arguments, field, kind) in [
            (json!({ "epic": "EP-009" }), "epic", ErrorKind::NotFound),
            (json!({ "user_story": "US-009" }), "user_story", ErrorKind::NotFound),
            (json!({ "user_story": "EP-001" }), "user_story", ErrorKind::InvalidArgument),
            (json!({ "status": "Done" }), "status", ErrorKind::InvalidArgument),
            (json!({ "type": "fast" }), "type", ErrorKind::InvalidArgument),
            (json!({ "priority": 5 }), "priority", ErrorKind::InvalidArgument),
            (json!({ "cursor": "4" }), "cursor", ErrorKind::InvalidArgument),
        ] {
            let error = testing.error("search_requirements", arguments).await;
            assert_eq!((error.field.as_deref(), error.kind), (Some(field), kind), "{error}");
        }
    }
}

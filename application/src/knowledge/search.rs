//! `ixchel_search`.

use std::collections::BTreeSet;

use async_trait::async_trait;
use reqlore_domain::bounded_types::{BoundedInt, BoundedString};
use reqlore_domain::document::DocumentKind;
use reqlore_domain::error::Result;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::documents::read_all;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::cut_report::CutReport;
use reqlore_domain::records::answers::document_label::{DocumentLabel, SECTION_REQUIREMENT};
use reqlore_domain::records::answers::search::IncompleteReport;
use reqlore_domain::search::{SearchFacet, SearchHit, SearchHits, SearchQuery, SemanticMode};
use reqlore_domain::untrusted_text::encode_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Repo;
use crate::answers::answer::{Answer, ToolAnswer, serialization_error};
use crate::answers::empty_answer::{HitCounts, explain_hits};
use crate::answers::ended_hits::{group_heading, left_out_note, names_id, read_records};
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::context::ToolContext;
use crate::ports::ApplicationPorts;
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct SearchTool;

const DEFAULT_LIMIT: usize = 10;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Words, a question or an ID.
    query: BoundedString<10_000>,
    /// 1 to 100, default 10.
    limit: Option<BoundedInt<1, 100>>,
    /// Hits to skip, 0 to 1000000.
    offset: Option<BoundedInt<0, 1_000_000>>,
    /// Such as decision or issue.
    kind: Option<BoundedString<40>>,
    /// Such as accepted.
    #[schemars(with = "Option<String>")]
    status: Option<BoundedString<100>>,
    /// Also search rules.
    #[serde(default)]
    sections: bool,
    /// Rank by words only.
    #[serde(default)]
    words_only: bool,
    /// Folder.
    repo: Option<Repo>,
    #[serde(default)]
    show: ShowKeys<HitKeys>,
    // Not in the schema: few calls need it.
    #[schemars(skip)]
    include_stale: Option<bool>,
}

struct HitKeys;

impl EntryKeys for HitKeys {
    const KEYS: &'static [&'static str] =
        &["kind", "title", "status", "superseded_by", "tags", "score", "uncertain", "snippet"];
}

#[derive(Serialize, JsonSchema)]
struct SearchResults<'a> {
    /// Best first; ended ones last.
    #[schemars(with = "Vec<EntityHit>")]
    hits: Vec<Map<String, Value>>,
    total: usize,
    /// The offset of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "usize", default)]
    next_offset: Option<usize>,
    /// Rankers: "words", "meaning:<model>".
    signals: &'a [String],
    /// Texts not indexed or embedded yet.
    pending: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "IncompleteReport", default)]
    incomplete: Option<&'a IncompleteReport>,
    #[serde(flatten)]
    cut: CutReport,
}

#[derive(Serialize, JsonSchema)]
struct EntityHit {
    #[serde(flatten)]
    label: DocumentLabel,
    /// 0 to 1.
    #[schemars(default)]
    score: f64,
    /// Weak evidence; in total only above 50,000 items.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    uncertain: bool,
    #[schemars(default)]
    snippet: String,
    /// True if the entity has ended and the query does not name it.
    #[serde(skip)]
    is_last: bool,
}

#[async_trait]
impl Tool for SearchTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, SearchResults<'_>>(
            "ixchel_search",
            "Search decisions and knowledge",
            "Searches decisions, issues, ideas and other knowledge by meaning and words: why \
             something is as it is. Call it before you decide something.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let project =
            super::resolve_project(context, &call.caller, arguments.repo.as_ref()).await?;
        let mut documents = vec![DocumentKind::Entity];
        if arguments.sections {
            documents.push(DocumentKind::Section);
        }
        let mut item_kinds = Vec::new();
        if let Some(kind) = &arguments.kind {
            item_kinds.push(super::find_kind(&context.ports, &project, kind.as_str()).await?);
        }
        let mut facets = Vec::new();
        if let Some(status) = &arguments.status {
            facets.push(status_facets(&context.ports, &project, status.as_str()).await?);
        }
        let query = SearchQuery {
            text: arguments.query.into_string(),
            document_kinds: documents.clone(),
            item_kinds,
            facets,
            offset: arguments.offset.map_or(0, BoundedInt::get),
            limit: arguments.limit.map_or(DEFAULT_LIMIT, BoundedInt::get),
            // An installed model is used unless the caller turns it off.
            semantic_mode: if arguments.words_only {
                SemanticMode::Off
            } else {
                SemanticMode::Best
            },
            is_unfinished: false,
        };
        let (ports, observer) = (&context.ports, &*call.progress_sink);
        let found =
            context.indexes.search(&context.server_ports, &project, &query, observer).await?;
        let mut hits = Vec::with_capacity(found.hits.len());
        for hit in &found.hits {
            hits.push(EntityHit::new(hit));
        }
        add_metadata(context, &project, &query.text, &found.hits, &mut hits).await?;
        let read = hits.len();
        hits.retain(|hit| arguments.include_stale != Some(false) || hit.label.stale.is_none());
        let left_out = read - hits.len();
        let (show, offset) = (arguments.show, query.offset);
        for hit in &mut hits {
            hit.label.keep(|key| show.has(key));
        }
        let incomplete = IncompleteReport::from_documents(&found.incomplete);
        let counts = HitCounts::of_page(&found, &query);
        let SearchHits { total, signals, pending, .. } = found;
        let found =
            SearchAnswer { hits, left_out, offset, total, signals, pending, incomplete, show };
        let mut answer = ToolAnswer::new(found);
        answer.add_notes(left_out_note(left_out));
        let excluded = "No text matches the query, the kind and the status.";
        let caller = &call.caller;
        explain_hits(&mut answer, ports, caller, &project, &documents, counts, excluded).await?;
        Ok(answer)
    }
}

/// The statuses of stored entities that are this one in any case.
async fn status_facets(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    status: &str,
) -> Result<Vec<SearchFacet>> {
    let status = fold_name(status.trim());
    let (all, _) = read_all(&*ports.documents, project, DocumentKind::Entity).await?;
    let mut spellings = BTreeSet::new();
    for meta in &all {
        let stored = meta.entity.as_ref().and_then(|entity| entity.status.as_deref());
        spellings.extend(stored.filter(|stored| fold_name(stored) == status));
    }
    let spellings = spellings.into_iter();
    Ok(spellings.map(|stored| SearchFacet::new(SearchFacet::STATUS, stored)).collect())
}

impl EntityHit {
    fn new(hit: &SearchHit) -> Self {
        let label = DocumentLabel {
            id: hit.reference.clone(),
            kind: match hit.document.kind {
                DocumentKind::Section if hit.reference.contains(':') => SECTION_REQUIREMENT.into(),
                _ => hit.kind.clone(),
            },
            title: Some(hit.title.clone()),
            ..DocumentLabel::default()
        };
        Self {
            label,
            // More digits would cost tokens without helping to compare hits.
            score: (f64::from(hit.score) * 10_000.0).round() / 10_000.0,
            uncertain: hit.is_uncertain,
            snippet: hit.snippet.clone(),
            is_last: false,
        }
    }
}

/// Adds status, tags and freshness of each entity.
async fn add_metadata(
    context: &ToolContext,
    project: &ProjectKey,
    query: &str,
    found: &[SearchHit],
    hits: &mut [EntityHit],
) -> Result<()> {
    let (metas, freshness) = read_records(context, project, found).await?;
    for (hit, entry) in found.iter().zip(hits) {
        let Some(meta) = metas.iter().find(|meta| meta.id == hit.document) else { continue };
        let Some(entity) = &meta.entity else { continue };
        let label = &mut entry.label;
        label.status.clone_from(&entity.status);
        label.tags.clone_from(&entity.tags);
        label.mark(freshness.get(&meta.id).cloned().unwrap_or_default());
        entry.is_last = label.stale.is_some() && !names_id(query, &label.id);
    }
    Ok(())
}

struct SearchAnswer {
    /// By rank.
    hits: Vec<EntityHit>,
    /// Number of hits of the page that have ended and were not asked for.
    left_out: usize,
    offset: usize,
    total: usize,
    signals: Vec<String>,
    pending: usize,
    incomplete: Option<IncompleteReport>,
    show: ShowKeys<HitKeys>,
}

impl SearchAnswer {
    /// The first hits, those that have ended last. Hits after them are on the next page,
    /// so the order within a page must not depend on hits that are cut.
    fn shown(&self, parts: usize) -> Vec<&EntityHit> {
        let mut hits: Vec<&EntityHit> = self.hits.iter().take(parts).collect();
        hits.sort_by_key(|hit| (hit.is_last, hit.uncertain));
        hits
    }

    fn summary_line(&self, shown: usize) -> String {
        let (total, first) = (self.total, self.offset + 1);
        // The uncertain hits of the last page are not in the total.
        let shown = shown.min(total.saturating_sub(self.offset));
        let hits = if total == 1 { "hit" } else { "hits" };
        match shown {
            _ if shown == total => format!("{total} {hits}"),
            0 => format!("{total} {hits}, showing none"),
            _ => format!("{total} {hits}, showing {first} to {}", self.offset + shown),
        }
    }

    /// `None` if no hit is shown, because the next page would begin with the same hit.
    fn next_offset(&self, parts: usize) -> Option<usize> {
        let left_out = if parts == self.hits.len() { self.left_out } else { 0 };
        let next = self.offset + parts + left_out;
        (parts > 0 && (parts < self.hits.len() || next < self.total)).then_some(next)
    }

    fn hit_text(&self, hit: &EntityHit) -> String {
        let label = hit.label.text();
        if hit.snippet.is_empty() || !self.show.has("snippet") {
            return label;
        }
        format!("{label}; {}", encode_line(&hit.snippet))
    }

    fn cut(&self, parts: usize) -> CutReport {
        let (shown, all) = (parts, self.hits.len());
        let advice = if shown == 0 { "; pass a larger max_tokens" } else { "" };
        let cut = (shown < all).then(|| format!("hits: the first {shown} of {all}{advice}"));
        CutReport::new(cut.into_iter().collect())
    }
}

impl Answer for SearchAnswer {
    fn part_count(&self) -> usize {
        self.hits.len()
    }

    fn text(&self, parts: usize) -> String {
        let hits = self.shown(parts);
        let mut lines = vec![self.summary_line(hits.len())];
        let mut group = None;
        for hit in hits {
            let heading = group_heading(&mut group, hit.is_last, hit.uncertain);
            lines.extend(heading.map(str::to_owned));
            lines.push(self.hit_text(hit));
        }
        lines.extend(self.incomplete.as_ref().map(IncompleteReport::text_line));
        if let Some(offset) = self.next_offset(parts) {
            lines.push(format!("Next page: offset {offset}"));
        }
        let mut text = lines.join("\n");
        self.cut(parts).add_to_text(&mut text);
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut hits = Vec::new();
        for hit in self.shown(parts) {
            let Value::Object(mut entry) =
                serde_json::to_value(hit).map_err(serialization_error)?
            else {
                continue;
            };
            self.show.filter(&mut entry);
            hits.push(entry);
        }
        serde_json::to_value(SearchResults {
            hits,
            total: self.total,
            next_offset: self.next_offset(parts),
            signals: &self.signals,
            pending: self.pending,
            incomplete: self.incomplete.as_ref(),
            cut: self.cut(parts),
        })
        .map_err(serialization_error)
    }
}

//! The simplest index: a scan for the query's words. It keeps the promises of the search port about
//! documents and versions; its ranks are only good enough for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::{
    DocumentProjection, IndexDifference, SearchHit, SearchHits, SearchItem, SearchQuery,
};

/// Items that live as long as the process.
#[derive(Debug, Default)]
pub struct MemoryIndex {
    projects: Mutex<BTreeMap<ProjectKey, IndexedProject>>,
}

#[derive(Debug, Default)]
struct IndexedProject {
    documents: BTreeMap<DocumentId, (Version, Vec<SearchItem>)>,
    checkpoints: BTreeMap<&'static str, BTreeMap<DocumentId, Version>>,
}

impl MemoryIndex {
    fn with_project<T>(
        &self,
        project: &ProjectKey,
        act: impl FnOnce(&mut IndexedProject) -> T,
    ) -> T {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        act(projects.entry(project.clone()).or_default())
    }
}

#[async_trait]
impl SearchIndex for MemoryIndex {
    async fn indexed(&self, project: &ProjectKey) -> Result<BTreeMap<DocumentId, Version>> {
        let versions = |project: &mut IndexedProject| {
            let documents = project.documents.iter();
            documents.map(|(id, (version, _))| (id.clone(), *version)).collect()
        };
        Ok(self.with_project(project, versions))
    }

    async fn apply(
        &self,
        project: &ProjectKey,
        projections: Vec<DocumentProjection>,
    ) -> Result<()> {
        self.with_project(project, |project| {
            for DocumentProjection { document, version, items } in projections {
                match version {
                    Some(version) => project.documents.insert(document, (version, items)),
                    None => project.documents.remove(&document),
                };
            }
        });
        Ok(())
    }

    async fn search(&self, project: &ProjectKey, query: &SearchQuery) -> Result<SearchHits> {
        let words: Vec<String> = query.text.split_whitespace().map(str::to_lowercase).collect();
        let mut hits = self.with_project(project, |project| {
            let documents = project.documents.iter();
            let documents = documents.filter(|(id, _)| query.documents.contains(&id.kind));
            let items = documents.flat_map(|(id, (_, items))| items.iter().map(move |i| (id, i)));
            let items =
                items.filter(|(_, i)| query.kinds.is_empty() || query.kinds.contains(&i.kind));
            let items = items.filter(|(_, i)| has_facets(i, query));
            items.filter_map(|(id, item)| match_item(id, item, &words)).collect::<Vec<SearchHit>>()
        });
        let order =
            |hit: &SearchHit| (std::cmp::Reverse(hit.score.to_bits()), hit.reference.clone());
        hits.sort_by_key(order);
        let total = hits.len();
        let hits = hits.into_iter().skip(query.offset).take(query.limit).collect();
        Ok(SearchHits { hits, total, signals: vec!["words".to_owned()], pending: 0 })
    }

    async fn generation(&self, _: &ProjectKey) -> Result<u64> {
        Ok(0)
    }

    async fn checkpoint(
        &self,
        project: &ProjectKey,
        name: &'static str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Result<IndexDifference> {
        Ok(self.with_project(project, |project| {
            let before = project.checkpoints.insert(name, versions.clone()).unwrap_or_default();
            IndexDifference::between(&before, &versions)
        }))
    }
}

fn has_facets(item: &SearchItem, query: &SearchQuery) -> bool {
    query.facets.iter().all(|wanted| wanted.iter().any(|facet| item.facets.contains(facet)))
}

fn match_item(document: &DocumentId, item: &SearchItem, words: &[String]) -> Option<SearchHit> {
    let text = format!("{} {} {}", item.reference, item.title, item.text).to_lowercase();
    let found = words.iter().filter(|word| text.contains(*word)).count();
    (found > 0).then(|| SearchHit {
        document: document.clone(),
        reference: item.reference.clone(),
        kind: item.kind.clone(),
        title: item.title.clone(),
        facets: item.facets.clone(),
        #[expect(clippy::cast_precision_loss, reason = "a few words")]
        score: found as f32 / words.len() as f32,
        snippet: item.text.lines().find(|line| !line.is_empty()).unwrap_or_default().to_owned(),
    })
}

//! The record schema of each project, parsed once per version.

pub(crate) mod operations;
pub(crate) mod tool_schemas;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::error::Result;
use reqlore_domain::ports::documents::DocumentRepository;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::schema::RecordSchema;

use crate::documents::get_one;

/// Maximum number of cached projects.
const MAX_PROJECTS: usize = 1_000;

/// Caches values that are parsed from a document while its version is unchanged.
#[derive(Debug)]
pub(crate) struct VersionCache<T>(Mutex<HashMap<ProjectKey, (Version, T)>>);

impl<T> Default for VersionCache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> VersionCache<T> {
    /// The value of this version. Cloned, because the lock must not be held during a read.
    pub(crate) fn find(&self, project: &ProjectKey, version: Version) -> Option<T> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (cached, value) = cache.get(project)?;
        (*cached == version).then(|| value.clone())
    }

    pub(crate) fn insert(&self, project: ProjectKey, version: Version, value: T) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Any project may make room, because it costs one more read.
        if cache.len() >= MAX_PROJECTS
            && !cache.contains_key(&project)
            && let Some(other) = cache.keys().next().cloned()
        {
            cache.remove(&other);
        }
        cache.insert(project, (version, value));
    }
}

/// The schemas of projects.
#[derive(Debug, Default)]
pub struct RecordSchemas(VersionCache<Arc<RecordSchema>>);

impl RecordSchemas {
    /// Returns the current schema of a project; an empty one if it has none.
    pub(crate) async fn current(
        &self,
        documents: &dyn DocumentRepository,
        project: &ProjectKey,
    ) -> Result<Arc<RecordSchema>> {
        let id = DocumentId::schema();
        let versions = documents.versions(project, std::slice::from_ref(&id)).await?;
        let Some(version) = versions.into_iter().next().flatten() else {
            return Ok(Arc::default());
        };
        if let Some(schema) = self.0.find(project, version) {
            return Ok(schema);
        }
        // It may be newer than the version.
        let document = get_one(documents, project, &id).await?;
        Ok(document.map(|document| self.parse(project, &document)).unwrap_or_default())
    }

    /// The schema of a document, parsed once per version.
    pub(crate) fn parse(&self, project: &ProjectKey, document: &Document) -> Arc<RecordSchema> {
        self.0.find(project, document.version).unwrap_or_else(|| {
            let schema = Arc::new(RecordSchema::of_document(document));
            self.0.insert(project.clone(), document.version, Arc::clone(&schema));
            schema
        })
    }
}

#[cfg(test)]
mod tests;

//! Checkpoints: the document versions at the last comparison, by the name of the comparison.
//!
//! Every process of a project reads and writes this file, also those that do not write the index.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::IndexDifference;

use crate::cache_dir::CacheDir;
use crate::checksummed_file::{self, ByteReader, put_document, put_length, put_text};

const FILE_NAME: &str = "checkpoints";
const FORMAT: &str = "checkpoints 2";

type CheckpointVersions = BTreeMap<String, BTreeMap<DocumentId, Version>>;

#[derive(Debug, Default)]
pub(crate) struct CheckpointFile {
    /// Empty if the file has them.
    checkpoints: CheckpointVersions,
    /// The last write failed, so the file is older than this state.
    has_unsaved: bool,
}

impl CheckpointFile {
    /// Compares the versions with the last checkpoint of this name and replaces it.
    pub(crate) fn compare_and_replace(
        &mut self,
        cache_dir: Option<&CacheDir>,
        name: &str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> IndexDifference {
        // Another process may have written the file since.
        if let Some(cache_dir) = cache_dir
            && !self.has_unsaved
            && let Some(checkpoints) = read_file(cache_dir)
        {
            self.checkpoints = checkpoints;
        }
        // Without a checkpoint, every document is new.
        let previous = self.checkpoints.remove(name).unwrap_or_default();
        let difference = IndexDifference::compare_versions(&previous, &versions);
        self.checkpoints.insert(name.to_owned(), versions);
        let unchanged =
            IndexDifference { unchanged: difference.unchanged, ..IndexDifference::default() };
        if let Some(cache_dir) = cache_dir
            && (difference != unchanged || self.has_unsaved)
        {
            self.save(cache_dir);
        }
        if cache_dir.is_some() && !self.has_unsaved {
            // The file has it, and the versions of all documents take memory.
            self.checkpoints.clear();
        }
        difference
    }

    fn save(&mut self, cache_dir: &CacheDir) {
        let path = cache_dir.path(FILE_NAME);
        let body = encode(&self.checkpoints);
        let result = checksummed_file::write_shared(&path, FORMAT, &body);
        self.has_unsaved = result.is_err();
        if let Err(error) = result {
            tracing::warn!(%error, "search cache: cannot save the checkpoints");
        }
    }
}

fn read_file(cache_dir: &CacheDir) -> Option<CheckpointVersions> {
    decode(&checksummed_file::read(&cache_dir.path(FILE_NAME), FORMAT)?)
}

fn encode(checkpoints: &CheckpointVersions) -> Vec<u8> {
    let mut body = Vec::new();
    put_length(&mut body, checkpoints.len());
    for (name, versions) in checkpoints {
        put_text(&mut body, name);
        put_length(&mut body, versions.len());
        for (id, version) in versions {
            put_document(&mut body, id, *version);
        }
    }
    body
}

fn decode(body: &[u8]) -> Option<CheckpointVersions> {
    let mut reader = ByteReader(body);
    let mut checkpoints = BTreeMap::new();
    for _ in 0..reader.take_length()? {
        let name = reader.take_text()?.to_owned();
        let mut versions = BTreeMap::new();
        for _ in 0..reader.take_length()? {
            let (id, version) = reader.take_document()?;
            versions.insert(id, version);
        }
        checkpoints.insert(name, versions);
    }
    Some(checkpoints)
}

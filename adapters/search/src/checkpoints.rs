//! The versions of documents at the last comparison of each name.
//!
//! All processes of a project read and write this file, also those that write nothing else.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::IndexDifference;

use crate::cache_dir::CacheDir;
use crate::checksummed_file::{self, ByteReader, put_document, put_length, put_text};

const FILE_NAME: &str = "checkpoints";
const FORMAT: &str = "checkpoints 1";

type CheckpointVersions = BTreeMap<String, BTreeMap<DocumentId, Version>>;

#[derive(Debug, Default)]
pub(crate) struct CheckpointFile {
    checkpoints: CheckpointVersions,
    /// The file is older, because it could not be written.
    has_unsaved: bool,
}

impl CheckpointFile {
    /// Compares with the last checkpoint of this name and replaces it.
    pub(crate) fn compare_and_replace(
        &mut self,
        folder: Option<&CacheDir>,
        name: &str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> IndexDifference {
        let read = folder.filter(|_| !self.has_unsaved).and_then(read_file);
        self.checkpoints = read.unwrap_or_else(|| std::mem::take(&mut self.checkpoints));
        let before = self.checkpoints.remove(name).unwrap_or_default();
        let difference = IndexDifference::between(&before, &versions);
        self.checkpoints.insert(name.to_owned(), versions);
        let changed = difference
            != IndexDifference { unchanged: difference.unchanged, ..IndexDifference::default() };
        if let Some(folder) = folder.filter(|_| changed || self.has_unsaved) {
            let written = checksummed_file::write_shared(
                &folder.path(FILE_NAME),
                FORMAT,
                &compose(&self.checkpoints),
            );
            self.has_unsaved = written.is_err();
            if let Err(error) = written {
                tracing::warn!(%error, "a checkpoint can't be kept for the next start");
            }
        }
        difference
    }
}

fn read_file(folder: &CacheDir) -> Option<CheckpointVersions> {
    parse(&checksummed_file::read(&folder.path(FILE_NAME), FORMAT)?)
}

fn compose(checkpoints: &CheckpointVersions) -> Vec<u8> {
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

fn parse(body: &[u8]) -> Option<CheckpointVersions> {
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

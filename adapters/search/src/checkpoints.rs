//! The versions of documents at the last comparison of each name.
//!
//! All processes of a project read and write this file, also those that write nothing else.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::IndexDifference;

use crate::cache_file::{self, Reader, put, put_document, put_length};
use crate::folder::Folder;

const FILE: &str = "checkpoints";
const FORM: &str = "checkpoints 1";

type All = BTreeMap<String, BTreeMap<DocumentId, Version>>;

#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    all: All,
    /// The file is older, because it could not be written.
    unwritten: bool,
}

impl Checkpoints {
    /// Compares with the last checkpoint of this name and replaces it.
    pub(crate) fn take(
        &mut self,
        folder: Option<&Folder>,
        name: &str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> IndexDifference {
        let read = folder.filter(|_| !self.unwritten).and_then(read);
        self.all = read.unwrap_or_else(|| std::mem::take(&mut self.all));
        let before = self.all.remove(name).unwrap_or_default();
        let difference = IndexDifference::between(&before, &versions);
        self.all.insert(name.to_owned(), versions);
        let changed = difference
            != IndexDifference { unchanged: difference.unchanged, ..IndexDifference::default() };
        if let Some(folder) = folder.filter(|_| changed || self.unwritten) {
            let written = cache_file::write_shared(&folder.path(FILE), FORM, &compose(&self.all));
            self.unwritten = written.is_err();
            if let Err(error) = written {
                tracing::warn!(%error, "a checkpoint can't be kept for the next start");
            }
        }
        difference
    }
}

fn read(folder: &Folder) -> Option<All> {
    parse(&cache_file::read(&folder.path(FILE), FORM)?)
}

fn compose(checkpoints: &All) -> Vec<u8> {
    let mut body = Vec::new();
    put_length(&mut body, checkpoints.len());
    for (name, versions) in checkpoints {
        put(&mut body, name);
        put_length(&mut body, versions.len());
        for (id, version) in versions {
            put_document(&mut body, id, *version);
        }
    }
    body
}

fn parse(body: &[u8]) -> Option<All> {
    let mut reader = Reader(body);
    let mut checkpoints = BTreeMap::new();
    for _ in 0..reader.length()? {
        let name = reader.text()?.to_owned();
        let mut versions = BTreeMap::new();
        for _ in 0..reader.length()? {
            let (id, version) = reader.document()?;
            versions.insert(id, version);
        }
        checkpoints.insert(name, versions);
    }
    Some(checkpoints)
}

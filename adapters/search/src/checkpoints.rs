//! Versions as they were when somebody last asked what changed.

use std::collections::BTreeMap;

use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::search::Difference;

use crate::bytes::{Reader, put, put_document, put_length};
use crate::checked;
use crate::folder::Folder;

const FILE: &str = "checkpoints";
const FORM: &str = "checkpoints 1";

#[derive(Debug, Default)]
pub(crate) struct Checkpoints(BTreeMap<String, BTreeMap<DocumentId, Version>>);

impl Checkpoints {
    pub(crate) fn open(folder: Option<&Folder>) -> Self {
        let body = folder.and_then(|folder| checked::read(&folder.path(FILE), FORM));
        body.and_then(|body| parse(&body)).map(Self).unwrap_or_default()
    }

    /// Compares with the last one of this name and takes its place.
    pub(crate) fn take(
        &mut self,
        folder: Option<&Folder>,
        name: &str,
        versions: BTreeMap<DocumentId, Version>,
    ) -> Difference {
        let before = self.0.remove(name).unwrap_or_default();
        let difference = compare(&before, &versions);
        self.0.insert(name.to_owned(), versions);
        let changed =
            difference != Difference { unchanged: difference.unchanged, ..Difference::default() };
        if let Some(folder) = folder.filter(|folder| changed && folder.writes()) {
            let written = checked::write(&folder.path(FILE), FORM, &compose(&self.0));
            if let Err(error) = written {
                tracing::warn!(%error, "a checkpoint can't be kept for the next start");
            }
        }
        difference
    }
}

fn compare(
    before: &BTreeMap<DocumentId, Version>,
    now: &BTreeMap<DocumentId, Version>,
) -> Difference {
    let mut difference = Difference::default();
    for (id, version) in now {
        match before.get(id) {
            None => difference.added += 1,
            Some(old) if old == version => difference.unchanged += 1,
            Some(_) => difference.modified += 1,
        }
    }
    difference.deleted = before.keys().filter(|id| !now.contains_key(id)).count();
    difference
}

fn compose(checkpoints: &BTreeMap<String, BTreeMap<DocumentId, Version>>) -> Vec<u8> {
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

fn parse(body: &[u8]) -> Option<BTreeMap<String, BTreeMap<DocumentId, Version>>> {
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

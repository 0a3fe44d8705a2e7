//! What a copy of a project's files refuses rather than leaving it out, or writing it elsewhere.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, Kind};
use reqlore_domain::ports::archive::{Archive, Record};
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use tempfile::TempDir;

use super::config;
use crate::FsStore;

/// A project in a folder of its own.
struct Project {
    outside: TempDir,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        let outside = tempfile::tempdir().unwrap();
        let root = outside.path().join("repo");
        fs::create_dir(&root).unwrap();
        Self { outside, root }
    }

    fn store(&self) -> FsStore {
        FsStore::new(&config(&self.root))
    }
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_is_not_written() {
    let project = Project::new();
    let mut sink = project.store().fill().await.unwrap();
    let named = |kind, name: &str| DocumentId { kind, name: name.to_owned() };
    for id in [
        named(Kind::Instructions, "../x"),
        named(Kind::Docsets, "../x"),
        DocumentId::entity("../../evil"),
        DocumentId::section("a/../../b"),
    ] {
        let record = Record {
            project: ProjectKey::default(),
            document: Document::new(id.clone(), Bytes::from_static(b"x")),
            modified: Timestamp(0),
            place: None,
        };
        let refused = sink.put(vec![record]).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{id} was written")).to_string();
        assert!(refused.contains("can't be a file; copy it into a database"), "{refused}");
    }
    let names = |folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names(&project.root).collect::<Vec<_>>(), [".reqlore"], "only the mark is there");
    assert_eq!(names(&project.outside.path().to_owned()).count(), 1);
}

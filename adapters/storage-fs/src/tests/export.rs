//! Exports and imports that are rejected, because they would be incomplete or write elsewhere.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use bytes::Bytes;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, MAX_DOCUMENT_BYTES};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use super::{DIRECTORY, Project, config, names};
use crate::FsStore;

async fn export_error(project: &Project) -> String {
    match project.store().export().await.err() {
        Some(StoreError::Refused { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn export_reports_all_obstacles_at_once() {
    let project = Project::new();
    for path in [&format!("{DIRECTORY}/AGENTS.md"), &format!("{DIRECTORY}/a.md"), ".ixchel/a.md"] {
        project.write(path, "fine");
    }
    assert!(project.store().export().await.is_ok());
    // Hidden files, other files and links to folders are not documents.
    let not_utf8 = OsStr::from_bytes(b"\xff");
    for path in [".ixchel/.x.md", ".ixchel/.h/x.md", ".ixchel/x.txt", "docs/x.md"] {
        project.write(path, "");
    }
    project.write(Path::new(".ixchel").join(not_utf8), "");
    symlink("..", project.path(".ixchel/up")).unwrap();
    assert!(project.store().export().await.is_ok());

    let large = vec![b'x'; MAX_DOCUMENT_BYTES + 1];
    for folder in [DIRECTORY, ".ixchel"] {
        symlink("a.md", project.path(folder).join("link.md")).unwrap();
        project.write(format!("{folder}/large.md"), &large);
        project.write(Path::new(folder).join(OsStr::from_bytes(b"n\xff.md")), "");
    }
    project.write(Path::new(".ixchel/in").join(not_utf8).join("x.md"), "");
    project.write(".ixchel/a\nb.md", "");
    project.write(format!(".ixchel/{}x.md", "d/".repeat(33)), "");
    project.write(format!("{DIRECTORY}/a\\b.md"), "");
    fs::create_dir_all(project.path(".knowledge/config.yaml")).unwrap();
    let message = export_error(&project).await;
    let link = "is a symbolic link; put a regular file there or remove it";
    let large = "is larger than 8 MiB; split it into smaller files";
    let name = "has a name that is not UTF-8; rename it";
    let expected = [
        "11 entries can't be copied, so nothing is:".to_owned(),
        "\".ixchel/a\\nb.md\": can't be copied (\"a\\nb\" is not a valid name; remove the control characters); \
         rename it"
            .to_owned(),
        format!(".ixchel/{}: is nested too deeply to be listed; move it up", "d/".repeat(33)),
        format!(".ixchel/in/\u{fffd}: {name}"),
        format!(".ixchel/large.md: {large}"),
        format!(".ixchel/link.md: {link}"),
        format!(".ixchel/n\u{fffd}.md: {name}"),
        ".knowledge/config.yaml: is not a regular file; put one there or remove it".to_owned(),
        format!("{DIRECTORY}/a\\b.md: has a name that a section can't have; rename it"),
        format!("{DIRECTORY}/large.md: {large}"),
        format!("{DIRECTORY}/link.md: {link}"),
        format!("{DIRECTORY}/n\u{fffd}.md: {name}"),
    ];
    assert_eq!(message, expected.join("\n- "));
}

#[tokio::test]
async fn export_lists_twenty_obstacles_and_counts_the_rest() {
    let project = Project::new();
    fs::create_dir(project.path(".ixchel")).unwrap();
    for number in 10..35 {
        symlink("x", project.path(format!(".ixchel/{number}.md"))).unwrap();
    }
    let message = export_error(&project).await;
    assert!(message.starts_with("25 entries can't be copied"), "{message}");
    assert!(message.contains("/29.md") && !message.contains("/30.md"), "{message}");
    assert!(message.ends_with("\nand 5 more"), "{message}");
}

#[tokio::test]
async fn import_error_names_project_of_nonempty_folder() {
    let project = Project::new();
    let other = project.outside.path().join("other");
    fs::create_dir_all(other.join(".ixchel")).unwrap();
    symlink("x", other.join(".ixchel/a.md")).unwrap();
    let mut config = config(&project.root);
    config.projects.insert(ProjectKey::new("second"), other.clone());
    let store = FsStore::new(&config);
    let message = store.export().await.err().unwrap().to_string();
    assert!(
        message.contains("- in the folder of the project second: .ixchel/a.md: is a"),
        "{message}"
    );
    let message = store.import().await.err().unwrap().to_string();
    assert!(message.starts_with("the folder of the project second: is not empty"), "{message}");
    fs::remove_file(other.join(".ixchel/a.md")).unwrap();
    fs::write(other.join(".ixchel/a.md"), "x").unwrap();
    let message = store.import().await.err().unwrap().to_string();
    let expected = "the folder of the project second: is not empty: it holds .ixchel/a.md.";
    assert!(message.starts_with(expected), "{message}");
}

#[tokio::test]
async fn import_rejects_name_outside_its_folder() {
    let project = Project::new();
    let mut writer = project.store().import().await.unwrap();
    for id in [
        DocumentId { kind: DocumentKind::Instructions, name: "../x".to_owned() },
        DocumentId { kind: DocumentKind::Docsets, name: "../x".to_owned() },
        DocumentId::entity("../../evil"),
        DocumentId::section("a/../../b"),
    ] {
        let record = DocumentRecord {
            project: ProjectKey::default(),
            document: Document::new(id.clone(), Bytes::from_static(b"x")),
            modified: Timestamp(0),
            path: None,
            entry: PresentEntry::default(),
        };
        let refused = writer.write_batch(vec![ArchiveRecord::Document(record)]).await.err();
        let refused = refused.unwrap_or_else(|| panic!("{id} was written")).to_string();
        assert!(refused.contains("can't be a file; copy it into a database"), "{refused}");
    }
    assert_eq!(names(&project.root), [".reqlore"], "only the marker is written");
    assert_eq!(names(project.outside.path()), ["repo"]);
}

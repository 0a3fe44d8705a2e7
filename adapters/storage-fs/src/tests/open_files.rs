//! Windows: another program has a document open and does not let it be replaced.

use std::fs::{self, File};
use std::os::windows::fs::OpenOptionsExt;
use std::path::Path;

use reqlore_contract::run as block_on;
use reqlore_domain::document::DocumentId;

use super::{DIRECTORY, Project, delete, files, get, put};

/// `FILE_SHARE_READ | FILE_SHARE_WRITE`, as most programs open files.
const SHARE_WITHOUT_DELETE: u32 = 3;

#[test]
fn document_open_in_another_program_is_not_written() {
    let project = Project::new();
    let (store, id) = (project.store(), DocumentId::section("a"));
    block_on(put(&store, &id, "old")).unwrap();
    let path = project.path(Path::new(DIRECTORY).join("a.md"));
    let open = || File::options().read(true).share_mode(SHARE_WITHOUT_DELETE).open(&path).unwrap();
    let before = files(&project.root);
    let reader = open();
    for outcome in [block_on(put(&store, &id, "new")), block_on(delete(&store, &id))] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("a.md") && error.contains("open in another program"), "{error}");
        assert!(error.contains("Nothing was written"), "{error}");
        assert_eq!(files(&project.root), before);
        assert_eq!(block_on(get(&store, &id)).unwrap().unwrap(), "old");
    }
    drop(reader);
    let set_read_only = |is_read_only| {
        let mut permissions = fs::metadata(&path).unwrap().permissions();
        permissions.set_readonly(is_read_only);
        fs::set_permissions(&path, permissions).unwrap();
    };
    set_read_only(true);
    for outcome in [block_on(put(&store, &id, "new")), block_on(delete(&store, &id))] {
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("is read-only") && error.contains("Nothing was written"), "{error}");
    }
    set_read_only(false);
    // A scanner has it open for a moment.
    let scanner = open();
    let closed = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(200));
        drop(scanner);
    });
    block_on(put(&store, &id, "new")).unwrap();
    closed.join().unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "new");
}

#[test]
fn names_that_windows_reads_differently_have_no_document() {
    let project = Project::new();
    let store = project.store();
    block_on(put(&store, &DocumentId::entity("a"), "text")).unwrap();
    for name in ["a:b", "a.md::$DATA", "con", "nul.x", "a ", "x/y./z", "b?"] {
        let id = DocumentId::entity(name);
        assert_eq!(block_on(get(&store, &id)).unwrap(), None, "{name}");
    }
    let error = block_on(put(&store, &DocumentId::entity("a:b"), "x")).unwrap_err().to_string();
    assert!(error.contains("not a valid file name"), "{error}");
}

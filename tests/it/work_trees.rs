//! Linked work trees of real Git, used by servers.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::json;
use tempfile::TempDir;

use crate::backlog::{create_epic, create_story};
use crate::client::{Server, project};
use crate::git_merges::run_git;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

fn server(root: &Path) -> Server {
    Server::start_in(root, &[("PATH", Path::new(PATH))])
}

/// A repository with documents of each toolset, in a folder for work trees.
fn repository() -> (TempDir, PathBuf) {
    let folder = project();
    let main = folder.path().canonicalize().unwrap().join("main");
    for (path, body) in [
        ("src/main.rs", "fn main() {}\n"),
        (".ixchel/decisions/dec-1a2b3c.md", "---\nid: dec-1a2b3c\ntitle: Rust\n---\n# Rust\n"),
        (".knowledge/config.yaml", "version: \"1\"\ndocsets: []\n"),
        ("docs/development/requirements/general.md", "# general\n\n**1.** One.\n"),
    ] {
        fs::create_dir_all(main.join(path).parent().unwrap()).unwrap();
        fs::write(main.join(path), body).unwrap();
    }
    run_git(&main, &["init", "--quiet"]);
    let mut server = server(&main);
    let epic = create_epic(&mut server, "First");
    create_story(&mut server, &epic, "Story");
    assert!(server.end().1.success());
    run_git(&main, &["add", "--all"]);
    run_git(&main, &["commit", "--quiet", "--message", "first"]);
    (folder, main)
}

#[test]
fn servers_in_work_trees_never_issue_the_same_reference() {
    const ITEMS: usize = 25;
    let (folder, main) = repository();
    let linked = folder.path().canonicalize().unwrap().join("linked");
    // Not committed, so the new work tree does not have it.
    let mut first = server(&main);
    assert_eq!(create_epic(&mut first, "Uncommitted"), "EP-002");
    let deleted = create_epic(&mut first, "Deleted");
    first.data("delete_item", json!({ "reference": deleted }));
    run_git(&main, &["worktree", "add", "--quiet", linked.to_str().unwrap()]);
    let mut second = server(&linked);
    let create_all = |server: &mut Server| -> Vec<String> {
        (0..ITEMS).map(|number| create_epic(server, &format!("Epic {number}"))).collect()
    };
    let (ours, theirs) = thread::scope(|scope| {
        let other = scope.spawn(|| create_all(&mut second));
        (create_all(&mut first), other.join().unwrap())
    });
    let all: BTreeSet<&String> = ours.iter().chain(&theirs).collect();
    let expected: BTreeSet<String> =
        (4..4 + 2 * ITEMS).map(|number| format!("EP-{number:03}")).collect();
    assert_eq!(all, expected.iter().collect());
    assert!(second.end().1.success());
    run_git(&main, &["worktree", "remove", "--force", linked.to_str().unwrap()]);
    assert_eq!(create_epic(&mut first, "Last"), format!("EP-{:03}", 4 + 2 * ITEMS));
}

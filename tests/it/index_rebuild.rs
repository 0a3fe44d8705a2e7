//! `reqlore index rebuild`, also while a server has the index open.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore};

fn start(root: &Path, cache: &Path) -> Server {
    Server::start_in(root, &[("REQLORE_CACHE", cache)])
}

fn rebuild(root: &Path, cache: Option<&Path>) -> (bool, String) {
    let mut command = reqlore();
    command.args(["index", "rebuild", "--root"]).arg(root);
    if let Some(cache) = cache {
        command.env("REQLORE_CACHE", cache);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn first(server: &mut Server, query: &str) -> Value {
    let found = server.data("search_global", json!({ "query": query }));
    assert_eq!(found["pending"], 0, "{found}");
    found["results"][0]["reference_id"].clone()
}

/// The index folders of the only project in the cache.
fn index_folders(cache: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for project in fs::read_dir(cache.join("search")).unwrap() {
        for entry in fs::read_dir(project.unwrap().path()).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    folders.sort();
    folders
}

#[test]
fn index_rebuild_next_to_a_server_makes_a_new_index() {
    let (folder, cache) = (project(), project());
    let mut server = start(folder.path(), cache.path());
    server.data("create_epic", json!({ "title": "Quokka", "priority": 1 }));
    assert_eq!(first(&mut server, "quokka"), "EP-001");
    let before = index_folders(cache.path());
    assert_eq!(before.len(), 1, "{before:?}");

    let (is_done, text) = rebuild(folder.path(), Some(cache.path()));
    assert!(is_done && text.starts_with("Rebuilt the index of fs:"), "{text}");
    let after = index_folders(cache.path());
    assert_eq!(after.len(), 2, "{after:?}");
    // The running server keeps its index.
    server.data("create_epic", json!({ "title": "Wombat", "priority": 1 }));
    assert_eq!(first(&mut server, "wombat"), "EP-002");

    // The next server starts with the new index, and not with an older one.
    let mut next = start(folder.path(), cache.path());
    assert_eq!(first(&mut next, "quokka"), "EP-001");
    assert_eq!(first(&mut next, "wombat"), "EP-002");
    assert_eq!(index_folders(cache.path()), after);
}

#[test]
fn index_rebuild_without_a_cache_folder_is_refused() {
    let folder = project();
    let (is_done, text) = rebuild(folder.path(), None);
    assert!(!is_done && text.contains("there is no cache folder"), "{text}");
}

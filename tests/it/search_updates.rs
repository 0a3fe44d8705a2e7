//! The search index follows its storage: own writes, other processes, replaced databases, kills.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore};
use crate::copy_and_backup::{run, run_ok};
use crate::crash::env_number;
use crate::init::output;

/// More documents than a search waits for at the first build.
const LONG_BUILD: usize = 2_300;

/// Enough for a slow machine.
const MAX_ROUNDS: usize = 50;

/// Starts a server with an index folder of its own.
fn start(root: &Path, cache: &Path, storage: &str) -> Server {
    let mut command = reqlore();
    command.env("REQLORE_CACHE", cache).arg("--root").arg(root).args(["--storage", storage]);
    Server::start_as(command, root)
}

fn create(server: &mut Server, title: &str) {
    server.data("create_epic", json!({ "title": title, "priority": 1 }));
}

/// Returns the titles of the hits, and the number of texts that cannot be found yet.
fn search(server: &mut Server, query: &str) -> (Vec<String>, u64) {
    let found = server.data("search_global", json!({ "query": query }));
    let mut titles = Vec::new();
    for hit in found["results"].as_array().unwrap() {
        if hit["uncertain"] != true {
            titles.push(hit["title"].as_str().unwrap().to_owned());
        }
    }
    (titles, found["pending"].as_u64().unwrap_or_default())
}

/// `REQLORE_SEARCH_ROUNDS=1000` runs a thousand.
#[test]
fn write_is_found_by_the_next_search_of_each_process() {
    let rounds = env_number("REQLORE_SEARCH_ROUNDS").unwrap_or(25);
    for storage in ["sqlite", "fs"] {
        let (project, cache) = (project(), project());
        let mut servers = [0, 1].map(|_| start(project.path(), cache.path(), storage));
        for round in 0..rounds {
            let title = format!("w{round}x");
            create(&mut servers[usize::from(round % 2 == 0)], &title);
            for server in &mut servers {
                let (titles, pending) = search(server, &title);
                // Similar titles follow.
                assert_eq!((titles.first(), pending), (Some(&title), 0), "{storage}");
            }
        }
    }
}

#[test]
fn process_that_was_away_finds_all_changes() {
    for (storage, batches) in [("sqlite", LONG_BUILD / 100), ("fs", 5)] {
        let (project, cache) = (project(), project());
        let mut away = start(project.path(), cache.path(), storage);
        create(&mut away, "first");
        assert_eq!(search(&mut away, "first").0, ["first"]);
        let mut other = start(project.path(), cache.path(), storage);
        for batch in 0..batches {
            let mut changes = Vec::new();
            for number in 0..100 {
                let title = format!("w{batch}x{number}");
                changes.push(json!({
                    "create": "epic", "title": title, "description": "walrus", "priority": 1
                }));
            }
            other.data("apply_changes", json!({ "changes": changes }));
        }
        let found = away.data("search_global", json!({ "query": "walrus" }));
        let counts = (&found["total"], found["pending"].as_u64().unwrap_or_default());
        assert_eq!(counts, (&json!(batches * 100), 0), "{storage}: complete before the answer");
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Writes epics with these titles and searches for the last one.
fn write_and_search(root: &Path, cache: &Path, storage: &str, titles: &[&str]) {
    let mut server = start(root, cache, storage);
    for title in titles {
        create(&mut server, title);
    }
    assert_eq!(search(&mut server, titles[titles.len() - 1]).0, [titles[titles.len() - 1]]);
    assert!(server.end().1.success());
}

fn assert_found(root: &Path, cache: &Path, storage: &str, found: &[&str], missing: &[&str]) {
    let mut server = start(root, cache, storage);
    for title in found {
        assert_eq!(search(&mut server, title), (vec![(*title).to_owned()], 0), "{storage}");
    }
    for title in missing {
        assert_eq!(search(&mut server, title), (Vec::new(), 0), "{storage}: {title}");
    }
    assert!(server.end().1.success());
}

#[test]
fn replaced_database_is_searched_as_it_is() {
    for (storage, files) in [("sqlite", ".reqlore/local"), ("sled", ".reqlore/local/sled")] {
        let (project, cache, copies) = (project(), project(), project());
        let (root, cache) = (project.path(), cache.path());
        let (files, older) = (root.join(files), copies.path().join("older"));
        let newer = copies.path().join("newer");
        let replace = |copy: &Path| {
            fs::remove_dir_all(&files).unwrap();
            copy_folder(copy, &files);
        };
        write_and_search(root, cache, storage, &["aardvark"]);
        copy_folder(&files, &older);
        write_and_search(root, cache, storage, &["badger", "camel"]);
        copy_folder(&files, &newer);
        replace(&older);
        assert_found(root, cache, storage, &["aardvark"], &["badger", "camel"]);
        // Another history of the same length.
        write_and_search(root, cache, storage, &["dingo", "emu"]);
        assert_found(root, cache, storage, &["aardvark", "dingo", "emu"], &["badger", "camel"]);
        replace(&newer);
        assert_found(root, cache, storage, &["aardvark", "badger", "camel"], &["dingo", "emu"]);
    }
}

#[test]
fn accepted_loss_is_searched_as_the_older_database() {
    for (storage, files) in
        [("sqlite", &["reqlore.db", "reqlore.db-wal"][..]), ("sled", &["sled/db"])]
    {
        let (project, cache) = (project(), project());
        let (root, cache) = (project.path(), cache.path());
        let local = root.join(".reqlore/local");
        write_and_search(root, cache, storage, &["aardvark"]);
        let mut older = Vec::new();
        for file in files {
            older.push(fs::read(local.join(file)).unwrap());
        }
        write_and_search(root, cache, storage, &["badger"]);
        for (file, bytes) in files.iter().zip(older) {
            fs::write(local.join(file), bytes).unwrap();
        }
        if storage == "sled" {
            // Snapshots of the newer state.
            for entry in fs::read_dir(local.join("sled")).unwrap() {
                let path = entry.unwrap().path();
                if path.to_string_lossy().contains("snap.") {
                    fs::remove_file(path).unwrap();
                }
            }
        }
        assert_ne!(run(root, &format!("check --storage {storage}")).0, 0, "{storage}: is refused");
        run_ok(root, &format!("check --storage {storage} --accept-loss"));
        assert_found(root, cache, storage, &["aardvark"], &["badger"]);
        write_and_search(root, cache, storage, &["camel"]);
        assert_found(root, cache, storage, &["aardvark", "camel"], &["badger"]);
    }
}

fn total(server: &mut Server) -> (Value, u64) {
    let found = server.data("ixchel_search", json!({ "query": "walrus" }));
    (found["total"].clone(), found["pending"].as_u64().unwrap())
}

fn write_notes(root: &Path, count: usize) {
    let notes = root.join(".ixchel/notes");
    fs::create_dir_all(&notes).unwrap();
    for number in 0..count {
        let text = format!("# Note {number}\n\nwalrus w{number}x\n");
        fs::write(notes.join(format!("n{number}.md")), text).unwrap();
    }
}

/// The exit code of `reqlore search`, and its result.
fn search_command(root: &Path, cache: &Path, storage: &str, query: &str) -> (i32, Value) {
    let mut command = reqlore();
    command.env("REQLORE_CACHE", cache).arg("--root").arg(root).args(["--storage", storage]);
    // A slow machine prints progress on standard error.
    let (code, result, _) = output(command.args(["search", "--json", query]));
    (code, serde_json::from_str(&result).unwrap())
}

#[test]
fn command_finds_the_texts_of_a_project_without_an_index() {
    let project = project();
    let root = project.path();
    write_notes(root, LONG_BUILD);
    run_ok(root, "copy --from fs --to sqlite");
    for storage in ["sqlite", "fs"] {
        for number in [0, 1, LONG_BUILD / 2, LONG_BUILD - 1] {
            let cache = crate::client::project();
            // Without and with an index.
            for _ in 0..2 {
                let query = format!("w{number}x");
                let (code, found) = search_command(root, cache.path(), storage, &query);
                let title = &found["results"][0]["title"];
                assert_eq!((code, title), (0, &json!(format!("Note {number}"))), "{storage}");
                assert_eq!(found["pending"].as_u64().unwrap_or_default(), 0, "{storage}");
            }
        }
        let (code, found) = search_command(root, Path::new("off"), storage, "w7x");
        assert_eq!((code, &found["results"][0]["title"]), (0, &json!("Note 7")), "{storage}");
    }
}

/// A client that ends the server after the first answer repeatedly.
#[test]
fn server_that_ends_after_its_first_search_continues_the_build() {
    let project = project();
    let root = project.path();
    write_notes(root, LONG_BUILD);
    run_ok(root, "copy --from fs --to sqlite");
    for storage in ["sqlite", "fs"] {
        let cache = crate::client::project();
        let is_complete = (0..MAX_ROUNDS).any(|_| {
            let mut server = start(root, cache.path(), storage);
            let (_, pending) = total(&mut server);
            assert!(server.end().1.success());
            pending == 0
        });
        assert!(is_complete, "{storage}");
    }
}

/// The paths of the files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if fs::read(&path).unwrap().windows(text.len()).any(|part| part == text.as_bytes()) {
            found.push(path);
        }
    }
    found
}

#[test]
fn purged_text_is_in_no_file_of_the_cache() {
    for storage in ["sqlite", "fs"] {
        let (project, cache) = (project(), project());
        let (root, cache) = (project.path(), cache.path());
        // One of them stays open during the purge.
        let mut servers = [0, 1].map(|_| start(root, cache, storage));
        // A title would stay in the name of the document.
        let epic = |title: &str, description: &str| json!({ "create": "epic", "title": title, "description": description, "priority": 1 });
        let mut changes = vec![epic("Login", "is hunter2"), epic("other", "")];
        // A segment with fewer would be merged at once.
        changes.extend((0..30).map(|number| epic(&format!("filler{number}"), "")));
        servers[0].data("apply_changes", json!({ "changes": changes }));
        for server in &mut servers {
            assert_eq!(search(server, "hunter2").0, ["Login"], "{storage}");
        }
        servers[0].data("update_epic", json!({ "epic": "EP-001", "description": "none" }));
        for server in &mut servers {
            assert_eq!(search(server, "hunter2").0, Vec::<String>::new(), "{storage}");
        }
        let [first, mut second] = servers;
        assert!(first.end().1.success());
        // A file of the cache has the text here, unless its segment was merged already.
        let mut purge = reqlore();
        purge.env("REQLORE_CACHE", cache).arg("--root").arg(root).args(["--storage", storage]);
        let (code, _, errors) =
            output(purge.args(["history", "purge", "EP-001", "--reason", "pasted"]));
        assert_eq!(code, 0, "{storage}: {errors}");
        assert_eq!(files_with(cache, "hunter2"), Vec::<PathBuf>::new(), "{storage}");
        create(&mut second, "later");
        for title in ["Login", "other", "later"] {
            assert_eq!(search(&mut second, title), (vec![title.to_owned()], 0), "{storage}");
        }
        assert!(second.end().1.success());
        assert_found(root, cache, storage, &["Login", "other", "later"], &["hunter2"]);
        assert_eq!(files_with(cache, "hunter2"), Vec::<PathBuf>::new(), "{storage}");
    }
}

#[test]
fn killed_first_build_continues_and_ends_complete() {
    let (project, cache) = (project(), project());
    let root = project.path();
    write_notes(root, LONG_BUILD);
    let mut server = start(root, cache.path(), "fs");
    let (_, pending) = total(&mut server);
    assert!(pending > 0, "the first search does not wait for the build");
    server.child.kill().unwrap();
    drop(server);
    let mut server = start(root, cache.path(), "fs");
    let mut last = total(&mut server);
    while last.1 > 0 {
        last = total(&mut server);
    }
    assert_eq!(last.0, LONG_BUILD);
}

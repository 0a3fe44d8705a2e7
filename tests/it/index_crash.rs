//! Servers of one project with an index each, killed and damaged while they write and search.
//!
//! The tests take the time and seed of `crash`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::backlog::create_epic;
use crate::client::{Server, call, project};
use crate::crash::{SeededRandom, env_number, kill_server, run_rounds};

const SERVERS: u64 = 5;
/// More than are between two merges.
const MAX_WRITES: u64 = 8;
/// Longer than the quiet time after which changes are saved and merged.
const MAX_PAUSE_MS: u64 = 3_000;

fn start_server(storage: &str, root: &Path, cache: &Path) -> Server {
    let mut command = crate::client::reqlore();
    command.env("REQLORE_CACHE", cache).arg("--root").arg(root);
    command.args(["--storage", storage, "--log", "error"]);
    Server::start_as(command, root)
}

/// Asserts that the best hit of the title is the item of this title.
fn assert_found(server: &mut Server, title: &str) {
    let found = server.data("search_global", json!({ "query": title }));
    assert_eq!(found["results"][0]["title"], title, "{found}");
}

/// A title of one word that no other item has.
fn unique_title(writer: u64, random: &mut SeededRandom) -> String {
    format!("w{writer}x{:x}", random.next())
}

/// Creates epics. The next search of the same server finds each of them.
fn write_and_search(server: &mut Server, writer: u64, random: &mut SeededRandom) -> Vec<String> {
    let mut titles = Vec::new();
    for _ in 0..=random.next() % MAX_WRITES {
        let title = unique_title(writer, random);
        create_epic(server, &title);
        assert_found(server, &title);
        titles.push(title);
    }
    titles
}

/// Waits until a server may be in the middle of a save or a merge, if the test may take long.
fn pause(random: &mut SeededRandom) {
    if env_number("REQLORE_CRASH_SECONDS").is_some() {
        thread::sleep(Duration::from_millis(random.next() % MAX_PAUSE_MS));
    }
}

fn check_five_servers(storage: &str) {
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let (root, cache) = (project.path(), cache.path());
    let titles = Mutex::new(Vec::new());
    let rounds = run_rounds(|_, random| {
        thread::scope(|scope| {
            for writer in 0..SERVERS {
                let mut random = SeededRandom(random.next() | 1);
                let titles = &titles;
                scope.spawn(move || {
                    let mut server = start_server(storage, root, cache);
                    let written = write_and_search(&mut server, writer, &mut random);
                    titles.lock().unwrap().extend(written);
                    if writer == 0 {
                        // In the middle of a call, a save or a merge.
                        let query = json!({ "query": "w0 w1 w2" });
                        server.send(call(1, "search_global", root, query).to_string());
                        if random.next().is_multiple_of(2) {
                            pause(&mut random);
                        }
                        kill_server(server);
                    } else {
                        server.end();
                    }
                });
            }
        });
        let titles = titles.lock().unwrap();
        let mut server = start_server(storage, root, cache);
        for title in titles.iter().rev().take(40) {
            assert_found(&mut server, title);
        }
    });
    let titles = titles.lock().unwrap().len();
    println!("{storage}: {rounds} rounds, {titles} items, all found");
}

#[test]
fn five_servers_find_all_items_after_kill_9_on_files() {
    check_five_servers("fs");
}

#[test]
fn five_servers_find_all_items_after_kill_9_on_sqlite() {
    check_five_servers("sqlite");
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // A server may remove a folder meanwhile.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(all_files(&path)) } else { found.push(path) }
    }
    found
}

/// Cuts or removes files of the cache while a server of each storage writes and searches.
#[test]
fn files_cut_at_any_time_end_in_right_answers() {
    let (project, cache) = (project(), tempfile::tempdir().unwrap());
    let (root, cache) = (project.path(), cache.path());
    let mut server = start_server("sqlite", root, cache);
    let mut titles = Vec::new();
    let rounds = run_rounds(|_, random| {
        let files = all_files(&cache.join("search"));
        if !files.is_empty() {
            let number = usize::try_from(random.next()).unwrap() % files.len();
            let damaged = &files[number];
            // The file may just have been removed.
            if random.next().is_multiple_of(2) {
                let _ = fs::remove_file(damaged);
            } else if let Ok(file) = fs::File::options().write(true).open(damaged) {
                let length = file.metadata().unwrap().len();
                file.set_len(random.next() % (length + 1)).unwrap();
            }
        }
        titles.extend(write_and_search(&mut server, 0, random));
        for title in titles.iter().rev().take(20) {
            assert_found(&mut server, title);
        }
        if random.next().is_multiple_of(4) {
            let (_, status) =
                std::mem::replace(&mut server, start_server("sqlite", root, cache)).end();
            assert!(status.success());
        }
    });
    println!("{rounds} rounds, {} items, all found", titles.len());
}

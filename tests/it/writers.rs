//! Concurrent writers lose no requirement and never share an index.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Server, call, project, section_file, set, text};
use crate::crash::{env_number, stored_titles};
use crate::http::{self, TestTeam};

/// The indices of a section file. Asserts that they are distinct.
fn indices(root: &Path, section: &str) -> BTreeSet<String> {
    let body = section_file(root, section).unwrap();
    let markers = body.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".** "));
    let indices: Vec<String> = markers.map(|(index, _)| index.to_owned()).collect();
    let distinct: BTreeSet<String> = indices.iter().cloned().collect();
    assert_eq!(indices.len(), distinct.len(), "an index is stored twice");
    distinct
}

// S1: S.3.3, S.3.5
#[test]
fn writers_200_pipelined_sets_of_one_client_all_apply() {
    let project = project();
    let mut server = Server::start(project.path());
    for id in 1..=200 {
        let request = call(id, "reqlix_set_requirements", project.path(), set(id, "text"));
        server.send(request.to_string());
    }
    let (answers, _) = server.end();
    assert_eq!(answers.len(), 200);
    assert!(answers.iter().all(|answer| answer["result"]["isError"] != true));
    assert_eq!(indices(project.path(), "general.md").len(), 200);
    let agents = section_file(project.path(), "AGENTS.md").unwrap();
    assert_eq!(agents.matches("(key: general)").count(), 1);
}

// Catalogue 121
#[test]
fn writers_four_processes_with_50_sets_each_all_apply() {
    let project = project();
    std::thread::scope(|scope| {
        for process in 0..4 {
            let root = project.path();
            scope.spawn(move || {
                let mut server = Server::start(root);
                for number in 0..50 {
                    let index = number * 4 + process;
                    let answer = server.call("reqlix_set_requirements", set(index, "text"));
                    let rule = format!("**{index}.** text\n");
                    assert!(text(&answer).starts_with(&rule), "{answer}");
                }
            });
        }
    });
    assert_eq!(indices(project.path(), "general.md").len(), 200);
}

// S1: S.3.5, D.3.5
#[test]
fn writers_sections_created_and_deleted_are_listed_correctly() {
    let project = project();
    std::thread::scope(|scope| {
        for process in 0..3 {
            let root = project.path();
            scope.spawn(move || {
                let mut server = Server::start(root);
                for number in 0..10 {
                    let section = format!("s{process}_{number}");
                    let arguments = json!({ "section": section, "index": "1", "text": "x" });
                    server.call("reqlix_set_requirements", arguments.clone());
                    if number % 2 == 0 {
                        let arguments = json!({ "section": section, "index": "1" });
                        server.call("reqlix_delete_requirements", arguments);
                    }
                }
            });
        }
    });
    let agents = section_file(project.path(), "AGENTS.md").unwrap();
    let listed: Vec<&str> = agents.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(listed.len(), 15, "{agents}");
    for process in 0..3 {
        for number in (1..10).step_by(2) {
            let line = format!("- S{process} {number} (key: s{process}_{number})");
            assert!(listed.contains(&line.as_str()), "{line}");
        }
    }
}

// Reliability P3
#[test]
fn writers_two_servers_and_an_editor_lose_nothing() {
    let project = project();
    let root = project.path();
    Server::start(root).call("reqlix_set_requirements", set(0, "first"));
    let path = root.join(crate::client::DIRECTORY).join("general.md");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let servers: Vec<_> = (0..2)
            .map(|process| {
                scope.spawn(move || {
                    let mut server = Server::start(root);
                    let mut own_indices = BTreeSet::new();
                    for number in 1..=40 {
                        let index = number * 2 + process;
                        let answer = server.call("reqlix_set_requirements", set(index, "text"));
                        if answer["result"]["isError"] != true {
                            own_indices.insert(index.to_string());
                        }
                    }
                    own_indices
                })
            })
            .collect();
        let saved = scope.spawn(|| run_editor(&path, &done));
        let assigned: Vec<_> = servers.into_iter().map(|server| server.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        let saved = saved.join().unwrap();
        let stored = indices(root, "general.md");
        for index in assigned.iter().flatten() {
            assert!(stored.contains(index), "{index} was acknowledged and is lost");
        }
        let body = std::fs::read_to_string(&path).unwrap();
        assert!(saved > 0 && body.contains(&format!("edit {saved}.")), "the last save is stored");
    });
}

/// Requests of each server that wait at the same time.
const IN_FLIGHT: usize = 4;

/// Two, then three servers create epics in one SQLite file, for two seconds or
/// `REQLORE_CRASH_SECONDS`, and print how long each waited.
#[test]
fn writers_in_two_and_three_processes_share_one_sqlite_file() {
    for processes in [2, 3] {
        let team = TestTeam::new("sqlite");
        let token = team.administrator();
        let servers: Vec<_> = (0..processes).map(|_| team.serve()).collect();
        let seconds = env_number("REQLORE_CRASH_SECONDS").unwrap_or(2);
        let end = Instant::now() + Duration::from_secs(seconds);
        let created: Vec<_> = std::thread::scope(|scope| {
            let create = |server: &http::Server| {
                let client = server.client(&token);
                scope.spawn(move || create_until(client, end))
            };
            let clients: Vec<_> = servers
                .iter()
                .map(|server| (0..IN_FLIGHT).map(|_| create(server)).collect::<Vec<_>>())
                .collect();
            let join = |clients: Vec<std::thread::ScopedJoinHandle<'_, Vec<_>>>| -> Vec<_> {
                clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
            };
            clients.into_iter().map(join).collect()
        });
        for (number, created) in created.iter().enumerate() {
            let mut waits: Vec<_> = created.iter().map(|(_, wait)| *wait).collect();
            waits.sort_unstable();
            let mean = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).unwrap();
            let [most, max] = [waits.len() * 99 / 100, waits.len() - 1].map(|at| waits[at]);
            println!(
                "process {} of {processes}: {} creations, mean {mean:.1?}, 99 % {most:.1?}, \
                 longest {max:.1?}",
                number + 1,
                waits.len()
            );
        }
        let references: Vec<_> =
            created.into_iter().flatten().map(|(reference, _)| reference).collect();
        let stored = stored_titles(&mut servers[0].client(&token));
        assert_eq!(stored.len(), references.len(), "a number was assigned twice");
        assert!(references.iter().all(|reference| stored.contains_key(reference)));
        for server in servers {
            drop(server.end());
        }
        assert_eq!(team.json("audit verify --json")["whole"], true);
        let rows = team.rows();
        let creations = rows.iter().filter(|row| row["action"] == "create_epic").count();
        assert_eq!(creations, references.len(), "each creation has one audit row");
        team.run("check");
    }
}

/// Creates epics. Returns their references, and the times that the answers took.
fn create_until(mut client: http::Client, end: Instant) -> Vec<(String, Duration)> {
    let mut created = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        let epic = client.data("create_epic", json!({ "title": "Epic", "priority": 1 }));
        created.push((epic["reference_id"].as_str().unwrap().to_owned(), begin.elapsed()));
    }
    created
}

/// Saves like an editor without locks. It exchanges its file with the stored one and inspects the
/// previous content. If that has changed since it was read, it merges and saves again.
fn run_editor(path: &Path, done: &AtomicBool) -> usize {
    let mut saved = 0;
    let mut lines = BTreeSet::new();
    let temp = path.with_extension("swp");
    while !done.load(Ordering::Relaxed) {
        saved += 1;
        let mut expected = std::fs::read_to_string(path).unwrap();
        loop {
            lines.extend(expected.lines().filter(|l| l.starts_with("**")).map(str::to_owned));
            let edited = merge_lines(&lines, saved);
            std::fs::write(&temp, &edited).unwrap();
            exchange_files(&temp, path);
            let replaced = std::fs::read_to_string(&temp).unwrap();
            if replaced == expected {
                break;
            }
            lines.extend(replaced.lines().filter(|l| l.starts_with("**")).map(str::to_owned));
            expected = edited;
        }
    }
    saved
}

/// All requirements that the editor has read, in order, followed by its own text.
fn merge_lines(lines: &BTreeSet<String>, saved: usize) -> String {
    let mut lines: Vec<&String> = lines.iter().collect();
    let number = |line: &str| line[2..].split('.').next().and_then(|index| index.parse().ok());
    lines.sort_by_key(|line| number(line).unwrap_or(0_u32));
    let blocks: Vec<&str> = lines.into_iter().map(String::as_str).collect();
    format!("{}\n\n## Notes\n\nedit {saved}.\n", blocks.join("\n\n"))
}

fn exchange_files(temp: &Path, path: &Path) {
    let folder = rustix::fs::CWD;
    let flags = rustix::fs::RenameFlags::EXCHANGE;
    rustix::fs::renameat_with(folder, temp, folder, path, flags).unwrap();
}

//! kill -9 while the backlog grows and shrinks, on each storage: every acknowledged reference is
//! there, none twice, and what is deleted with what belongs to it is gone as a whole or not at all.
//!
//! Two seconds each, or `REQLORE_CRASH_SECONDS`; the seed is printed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::backlog::{data, requirement};
use crate::client::{Server, call, project, text};
use crate::crash::{Random, variable};
use crate::moving::run;

/// Where tombstones lie; only on files.
const DELETED: &str = ".reqlore/backlog/deleted";
/// How often it is looked there before a server is killed all the same.
const MAX_LOOKS: u64 = 2000;

/// A story with requirements that were acknowledged, by reference, and what became of it.
struct Story {
    reference: String,
    requirements: BTreeMap<String, String>,
    is_asked: bool,
    is_deleted: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Live(String),
    Deleted,
    Missing,
}

// Catalogue 113; reliability P1, P2
#[test]
fn every_acknowledged_item_survives_kill_9_on_files() {
    survive("fs", 3);
}

#[test]
fn every_acknowledged_item_survives_kill_9_on_sqlite() {
    survive("sqlite", 3);
}

#[test]
fn every_acknowledged_item_survives_kill_9_on_sled() {
    survive("sled", 1);
}

fn start(storage: &str, root: &Path) -> Server {
    Server::start_with(root, &["--storage", storage, "--log", "error"])
}

fn survive(storage: &str, processes: usize) {
    let seconds = variable("REQLORE_CRASH_SECONDS").unwrap_or(2);
    let mut random = Random(variable("REQLORE_CRASH_SEED").unwrap_or(0xBACC) | 1);
    println!("seed {}", random.0);
    let project = project();
    let root = project.path();
    let mut server = start(storage, root);
    let epic = crate::backlog::epic(&mut server, "Epic");
    assert!(server.end().1.success());
    let mut stories: Vec<Story> = Vec::new();
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut torn) = (0, 0);
    while rounds < 4 || Instant::now() < until {
        rounds += 1;
        let seeds: Vec<u64> = (0..processes).map(|_| random.next()).collect();
        std::thread::scope(|scope| {
            let epic = epic.as_str();
            let writers: Vec<_> = seeds
                .into_iter()
                .map(|seed| {
                    let server = start(storage, root);
                    scope.spawn(move || grow_and_die(server, root, epic, Random(seed | 1)))
                })
                .collect();
            stories.extend(writers.into_iter().flat_map(|writer| writer.join().unwrap()));
        });
        torn += check(storage, root, &mut stories);
    }
    let kept: usize = stories.iter().map(|story| story.requirements.len()).sum();
    println!(
        "{storage}: {rounds} rounds, {} stories, {kept} requirements, {torn} cascades cut short",
        stories.len()
    );
    let distinct: BTreeSet<&String> = stories.iter().flat_map(|s| s.requirements.keys()).collect();
    assert_eq!(distinct.len(), kept, "a reference was given twice");
    assert!(kept > rounds, "the writers hardly wrote");
}

/// Makes stories with requirements and deletes some; kills its server at a random moment, be it in
/// the midst of creating or of deleting.
fn grow_and_die(mut server: Server, root: &Path, epic: &str, mut random: Random) -> Vec<Story> {
    let mut stories = Vec::new();
    let lifetime = random.next() % 3;
    let is_last_deleted = random.next().is_multiple_of(2);
    for number in 0..=lifetime {
        let reference = crate::backlog::story(&mut server, epic, "Story");
        let mut story = Story {
            reference: reference.clone(),
            requirements: BTreeMap::new(),
            is_asked: false,
            is_deleted: false,
        };
        let count = 2 + random.next() % 6;
        let is_last = number == lifetime;
        let is_whole = !is_last || is_last_deleted;
        let read = if is_whole { count } else { random.next() % (count + 1) };
        for one in 0..count {
            let title = format!("{reference} {one}");
            let item = requirement(&reference, &title);
            server.send(call(one, "create_requirement", root, item).to_string());
        }
        for _ in 0..read {
            let answer = server.answer();
            let record = data(&answer);
            let [reference, title] =
                ["reference_id", "title"].map(|key| record[key].as_str().unwrap().to_owned());
            let twice = story.requirements.insert(reference, title);
            assert_eq!(twice, None, "given twice: {answer}");
        }
        if is_whole && (is_last || !random.next().is_multiple_of(3)) {
            let gone = json!({ "reference": reference, "cascade": true });
            server.send(call(99, "delete_item", root, gone).to_string());
            story.is_asked = true;
            if is_last {
                wait_for_some(root, &story, &mut random);
            } else {
                data(&server.answer());
                story.is_deleted = true;
            }
        }
        stories.push(story);
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    stories
}

/// So long that the deletion may have begun, and may be done. On files it is mostly seen to begin.
fn wait_for_some(root: &Path, story: &Story, random: &mut Random) {
    let is_seen = root.join(DELETED).is_dir() && !random.next().is_multiple_of(4);
    let looks = if is_seen { MAX_LOOKS } else { random.next() % MAX_LOOKS };
    let all = story.requirements.keys().chain([&story.reference]);
    let names: Vec<String> = all.map(|reference| format!("{reference}-")).collect();
    for _ in 0..looks {
        let entries = std::fs::read_dir(root.join(DELETED)).into_iter().flatten().flatten();
        let mut found = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if is_seen && found.any(|file| names.iter().any(|name| file.starts_with(name))) {
            return;
        }
    }
}

fn state(server: &mut Server, reference: &str) -> State {
    let answer = server.call("get_item", json!({ "reference": reference }));
    if answer["result"]["isError"] == false {
        let record = data(&answer);
        assert_eq!(record["fault"], Value::Null, "{answer}");
        return State::Live(record["item"]["title"].as_str().unwrap().to_owned());
    }
    let said = text(&answer);
    match () {
        () if said.contains("it was deleted on ") => State::Deleted,
        () if said.contains("not found") => State::Missing,
        () => panic!("{said}"),
    }
}

/// How many unanswered deletions were not done.
fn check(storage: &str, root: &Path, stories: &mut [Story]) -> usize {
    let mut server = start(storage, root);
    let mut undone = 0;
    for story in stories {
        let found = state(&mut server, &story.reference);
        let is_gone = found == State::Deleted;
        assert!(
            is_gone || found == State::Live("Story".to_owned()),
            "{}: {found:?}",
            story.reference
        );
        assert!(!story.is_deleted || is_gone, "{} came back", story.reference);
        assert!(story.is_asked || !is_gone, "{} was deleted by nobody", story.reference);
        undone += usize::from(story.is_asked && !is_gone);
        story.is_deleted = is_gone;
        for (reference, title) in &story.requirements {
            let expected = if is_gone { State::Deleted } else { State::Live(title.clone()) };
            let found = state(&mut server, reference);
            assert_eq!(found, expected, "{reference} of {}", story.reference);
        }
        story.is_asked = is_gone;
    }
    assert!(server.end().1.success());
    // A requirement that was never answered, below a story that is gone, is a finding.
    let (code, said) = run(root, &format!("check --storage {storage}"));
    assert_eq!((code, said.as_str()), (0, "Nothing to fix.\n"));
    undone
}

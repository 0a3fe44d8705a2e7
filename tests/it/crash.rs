//! kill -9 at random moments under concurrent writers, on each storage: every acknowledged write is
//! there, whole, exactly once.
//!
//! Twenty seconds in `.ci/check` (`REQLORE_CRASH_SECONDS`), two when the tests are run alone. The
//! seed is printed; the same seed kills after the same numbers of answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{Server, call, file, project, text};

const IN_FLIGHT: usize = 4;

/// A storage, and how many servers may have it open at once.
#[derive(Clone, Copy)]
struct Case {
    storage: &'static str,
    processes: usize,
}

/// What one writer knows of its own requirement of each index: the last acknowledged text, and
/// those that were sent behind it and may or may not be there.
#[derive(Default)]
struct Expected {
    acknowledged: Option<String>,
    maybe: Vec<String>,
}

type Book = BTreeMap<String, Expected>;

// Catalogue 113; reliability P1, P2
#[test]
fn every_acknowledged_write_survives_kill_9_on_files() {
    survive(Case { storage: "fs", processes: 3 });
}

#[test]
fn every_acknowledged_write_survives_kill_9_on_sqlite() {
    survive(Case { storage: "sqlite", processes: 3 });
}

#[test]
fn every_acknowledged_write_survives_kill_9_on_sled() {
    survive(Case { storage: "sled", processes: 1 });
}

fn survive(case: Case) {
    let (seconds, seed) =
        (variable("REQLORE_CRASH_SECONDS").unwrap_or(2), variable("REQLORE_CRASH_SEED"));
    let mut random = Random(seed.unwrap_or(0x5EED) | 1);
    println!("seed {}", random.0);
    let project = project();
    let mut books: Vec<Book> = (0..case.processes).map(|_| Book::new()).collect();
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut rounds, mut acknowledged) = (0, 0);
    while rounds < 3 || Instant::now() < until {
        rounds += 1;
        let seeds: Vec<u64> = (0..case.processes).map(|_| random.next()).collect();
        std::thread::scope(|scope| {
            let writers: Vec<_> = books
                .iter_mut()
                .zip(seeds)
                .enumerate()
                .map(|(writer, (book, seed))| {
                    let server = start(case, project.path());
                    let (root, random) = (project.path(), Random(seed | 1));
                    scope.spawn(move || write_and_die(server, root, writer, rounds, random, book))
                })
                .collect();
            acknowledged += writers.into_iter().map(|w| w.join().unwrap()).sum::<usize>();
        });
        check(case, project.path(), &mut books);
    }
    println!("{}: {rounds} rounds, {acknowledged} acknowledged writes, none lost", case.storage);
    assert!(acknowledged > rounds, "the writers hardly wrote");
}

fn start(case: Case, root: &Path) -> Server {
    Server::start_with(root, &["--storage", case.storage, "--log", "warn"])
}

/// Writes with several calls in flight, and kills its server at a random moment.
fn write_and_die(
    mut server: Server,
    root: &Path,
    writer: usize,
    round: usize,
    mut random: Random,
    book: &mut Book,
) -> usize {
    let lifetime = 1 + random.next() % 30;
    let mut waiting: Vec<(String, String)> = Vec::new();
    let mut acknowledged = 0;
    for number in 0..lifetime + IN_FLIGHT as u64 {
        let index = format!("{writer}.{}", random.next() % 8 + 1);
        let text = format!(
            "round {round} write {number} {}",
            "x".repeat(1 + (random.next() % 300) as usize)
        );
        let arguments = json!({ "section": "general", "index": index, "text": text });
        server.send(call(number, "reqlix_set_requirements", root, arguments).to_string());
        book.entry(index.clone()).or_default().maybe.push(text.clone());
        waiting.push((index, text));
        if waiting.len() > IN_FLIGHT && number < lifetime {
            let answer = server.answer();
            let (index, text) = waiting.remove(0);
            if answer["result"]["isError"] == true {
                continue;
            }
            assert!(
                self::text(&answer).starts_with(&format!("**{index}.** round {round}")),
                "{answer}"
            );
            let expected = book.get_mut(&index).unwrap();
            let at = expected.maybe.iter().position(|maybe| *maybe == text).unwrap();
            // Writes of one process are in order: what was sent before this one is overwritten.
            expected.maybe.drain(..=at);
            expected.acknowledged = Some(text);
            acknowledged += 1;
        }
    }
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    acknowledged
}

/// A new server reads everything; afterwards the books hold what is there.
fn check(case: Case, root: &Path, books: &mut [Book]) {
    let mut server = start(case, root);
    let answer = server.call("reqlix_get_requirements", json!({ "section": "general" }));
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    for block in text(&answer)
        .split("**")
        .filter(|block| !block.trim().is_empty())
        .collect::<Vec<_>>()
        .chunks(2)
    {
        let [index, body] = block else { panic!("torn: {block:?}") };
        let body = body.trim().replace('\n', " ");
        let twice = stored.insert(index.trim_end_matches('.').to_owned(), body);
        assert_eq!(twice, None, "{index} stands twice");
    }
    for book in books {
        for (index, expected) in book.iter_mut() {
            let found = stored.remove(index);
            let is_known = found == expected.acknowledged
                || found.as_ref().is_some_and(|f| expected.maybe.contains(f));
            assert!(is_known, "{index}: {found:?}, acknowledged {:?}", expected.acknowledged);
            *expected = Expected { acknowledged: found, maybe: Vec::new() };
        }
    }
    assert_eq!(stored, BTreeMap::new(), "nobody wrote these");
    let agents = file(root, "AGENTS.md");
    assert!(agents.is_none_or(|agents| agents.starts_with("# Requirements")), "a torn list");
}

#[expect(clippy::disallowed_methods, reason = "how long is told by whoever runs the tests")]
pub(crate) fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// xorshift64: numbers that a seed makes again.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

//! kill -9 at random moments under concurrent writers, on each storage: everything that was
//! acknowledged is there, whole and exactly once.
//!
//! A test takes two seconds, or `REQLORE_CRASH_SECONDS`. It prints its seed; the same seed
//! (`REQLORE_CRASH_SEED`) kills after the same numbers of answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqlore_domain::audit_log::UNCONFIRMED;
use serde_json::{Value, json};

use crate::backlog::{data, epic, requirement, story};
use crate::client::{Server, call, file, project, text};
use crate::copy_and_backup::run;
use crate::http::{self, Client, POST, Place};

macro_rules! tests {
    ($($name:ident: $check:ident($storage:literal);)+) => {$(
        #[test]
        fn $name() {
            $check($storage);
        }
    )+};
}

tests! {
    requirements_survive_kill_9_on_files: check_requirements("fs");
    requirements_survive_kill_9_on_sqlite: check_requirements("sqlite");
    requirements_survive_kill_9_on_sled: check_requirements("sled");
    items_survive_kill_9_on_files: check_items("fs");
    items_survive_kill_9_on_sqlite: check_items("sqlite");
    items_survive_kill_9_on_sled: check_items("sled");
    http_writes_survive_kill_9_with_their_audit_rows_on_files: check_http("fs");
    http_writes_survive_kill_9_with_their_audit_rows_on_sqlite: check_http("sqlite");
    http_writes_survive_kill_9_with_their_audit_rows_on_sled: check_http("sled");
}

/// Plays rounds until the time is over; returns their number.
fn play(mut round: impl FnMut(usize, &mut Random)) -> usize {
    let mut random = Random(variable("REQLORE_CRASH_SEED").unwrap_or(0x5EED) | 1);
    println!("seed {}", random.0);
    let seconds = variable("REQLORE_CRASH_SECONDS").unwrap_or(2);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds < 4 || Instant::now() < until {
        rounds += 1;
        round(rounds, &mut random);
    }
    rounds
}

/// Starts the servers that may have this storage open at once, and runs a writer with each.
fn write_with_all<T: Send>(
    storage: &str,
    root: &Path,
    random: &mut Random,
    write: impl Fn(usize, Server, Random) -> T + Sync,
) -> Vec<T> {
    let processes = if storage == "sled" { 1 } else { 3 };
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..processes {
            let (server, random) = (start(storage, root), Random(random.next() | 1));
            let write = &write;
            writers.push(scope.spawn(move || write(writer, server, random)));
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

fn start(storage: &str, root: &Path) -> Server {
    Server::start_with(root, &["--storage", storage, "--log", "error"])
}

fn kill(mut server: Server) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the length of the tests")]
fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// xorshift64: numbers that a seed reproduces.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

const IN_FLIGHT: usize = 4;

/// Of a requirement: the last acknowledged text, and later ones that were not acknowledged.
#[derive(Default)]
struct ExpectedTexts {
    acknowledged: Option<String>,
    maybe: Vec<String>,
}

/// By index.
type Texts = BTreeMap<String, ExpectedTexts>;

/// Several servers set requirements of one section; each writer has indices of its own.
fn check_requirements(storage: &str) {
    let project = project();
    let root = project.path();
    let mut texts = Texts::new();
    let mut acknowledged = 0;
    let rounds = play(|round, random| {
        let written = write_with_all(storage, root, random, |writer, server, random| {
            set_until_killed(server, root, writer, round, random)
        });
        for (index, written) in written.into_iter().flatten() {
            let known = texts.entry(index).or_default();
            acknowledged += usize::from(written.acknowledged.is_some());
            if written.acknowledged.is_some() {
                *known = written;
            } else {
                known.maybe.extend(written.maybe);
            }
        }
        check_texts(storage, root, &mut texts);
    });
    println!("{storage}: {rounds} rounds, {acknowledged} acknowledged texts, none lost");
    assert!(acknowledged > rounds, "the writers hardly wrote");
}

/// Writes with several calls in flight, and kills its server at a random moment.
fn set_until_killed(
    mut server: Server,
    root: &Path,
    writer: usize,
    round: usize,
    mut random: Random,
) -> Texts {
    let mut texts = Texts::new();
    let lifetime = 1 + random.next() % 30;
    let mut waiting: Vec<(String, String)> = Vec::new();
    for number in 0..lifetime + IN_FLIGHT as u64 {
        let index = format!("{writer}.{}", random.next() % 8 + 1);
        let filler = "x".repeat(1 + (random.next() % 300) as usize);
        let text = format!("round {round} write {number} {filler}");
        let arguments = json!({ "section": "general", "index": index, "text": text });
        server.send(call(number, "reqlix_set_requirements", root, arguments).to_string());
        texts.entry(index.clone()).or_default().maybe.push(text.clone());
        waiting.push((index, text));
        if waiting.len() > IN_FLIGHT && number < lifetime {
            let answer = server.answer();
            let (index, text) = waiting.remove(0);
            if answer["result"]["isError"] == true {
                continue;
            }
            let begin = format!("**{index}.** round {round}");
            assert!(self::text(&answer).starts_with(&begin), "{answer}");
            let expected = texts.get_mut(&index).unwrap();
            let at = expected.maybe.iter().position(|maybe| *maybe == text).unwrap();
            // Writes of one process are in order: earlier ones are overwritten.
            expected.maybe.drain(..=at);
            expected.acknowledged = Some(text);
        }
    }
    kill(server);
    texts
}

/// A new server reads everything; afterwards the stored texts are the acknowledged ones.
fn check_texts(storage: &str, root: &Path, texts: &mut Texts) {
    let mut server = start(storage, root);
    let answer = server.call("reqlix_get_requirements", json!({ "section": "general" }));
    let parts: Vec<&str> =
        text(&answer).split("**").filter(|part| !part.trim().is_empty()).collect();
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    for part in parts.chunks(2) {
        let [index, body] = part else { panic!("torn: {part:?}") };
        let body = body.trim().replace('\n', " ");
        let twice = stored.insert(index.trim_end_matches('.').to_owned(), body);
        assert_eq!(twice, None, "{index} is there twice");
    }
    for (index, expected) in texts.iter_mut() {
        let found = stored.remove(index);
        let is_known = found == expected.acknowledged
            || found.as_ref().is_some_and(|text| expected.maybe.contains(text));
        assert!(is_known, "{index}: {found:?}, acknowledged {:?}", expected.acknowledged);
        *expected = ExpectedTexts { acknowledged: found, maybe: Vec::new() };
    }
    assert_eq!(stored, BTreeMap::new(), "texts that no writer sent");
    let agents = file(root, "AGENTS.md");
    assert!(agents.is_none_or(|agents| agents.starts_with("# Requirements")), "a torn list");
}

/// The folder of tombstones, on files.
const DELETED: &str = ".reqlore/backlog/deleted";
/// A server is killed after this many polls of that folder at the latest.
const MAX_POLLS: u64 = 2000;

/// A story with its acknowledged requirements: titles by reference.
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

/// Several servers create stories with requirements and delete some, each with everything below it.
fn check_items(storage: &str) {
    let project = project();
    let root = project.path();
    let mut server = start(storage, root);
    let epic = epic(&mut server, "Epic");
    assert!(server.end().1.success());
    let mut stories: Vec<Story> = Vec::new();
    let mut undone = 0;
    let rounds = play(|_, random| {
        let written = write_with_all(storage, root, random, |_, server, random| {
            grow_until_killed(server, root, &epic, random)
        });
        stories.extend(written.into_iter().flatten());
        undone += check_stories(storage, root, &mut stories);
    });
    let kept: usize = stories.iter().map(|story| story.requirements.len()).sum();
    println!("{storage}: {rounds} rounds, {kept} requirements, {undone} deletions not done");
    let distinct: BTreeSet<&String> = stories.iter().flat_map(|s| s.requirements.keys()).collect();
    assert_eq!(distinct.len(), kept, "a reference was given twice");
    assert!(kept > rounds, "the writers hardly wrote");
}

/// Kills its server at a random moment, while it creates or while it deletes.
fn grow_until_killed(
    mut server: Server,
    root: &Path,
    epic: &str,
    mut random: Random,
) -> Vec<Story> {
    let mut stories = Vec::new();
    let lifetime = random.next() % 3;
    let is_last_deleted = random.next().is_multiple_of(2);
    for number in 0..=lifetime {
        let reference = story(&mut server, epic, "Story");
        let mut grown = Story {
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
            let twice = grown.requirements.insert(reference, title);
            assert_eq!(twice, None, "given twice: {answer}");
        }
        if is_whole && (is_last || !random.next().is_multiple_of(3)) {
            let gone = json!({ "reference": reference, "cascade": true });
            server.send(call(99, "delete_item", root, gone).to_string());
            grown.is_asked = true;
            if is_last {
                wait_for_deletion(root, &grown, &mut random);
            } else {
                data(&server.answer());
                grown.is_deleted = true;
            }
        }
        stories.push(grown);
    }
    kill(server);
    stories
}

/// Waits until the deletion may have begun and may be done. On files it is mostly seen to begin.
fn wait_for_deletion(root: &Path, story: &Story, random: &mut Random) {
    let is_seen = root.join(DELETED).is_dir() && !random.next().is_multiple_of(4);
    let polls = if is_seen { MAX_POLLS } else { random.next() % MAX_POLLS };
    let all = story.requirements.keys().chain([&story.reference]);
    let names: Vec<String> = all.map(|reference| format!("{reference}-")).collect();
    for _ in 0..polls {
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

/// The number of unacknowledged deletions that were not done.
fn check_stories(storage: &str, root: &Path, stories: &mut [Story]) -> usize {
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
        assert!(story.is_asked || !is_gone, "{} was deleted without a request", story.reference);
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
    // It reports a requirement below a story that is gone.
    let (code, said) = run(root, &format!("check --storage {storage}"));
    assert_eq!((code, said.as_str()), (0, "Nothing to fix.\n"));
    undone
}

/// The writes of all clients over HTTP, each under its own request ID.
#[derive(Default)]
struct Book {
    /// Titles by request ID.
    sent: BTreeMap<String, String>,
    /// References by request ID.
    acknowledged: BTreeMap<String, String>,
}

/// Several clients of one HTTP server create epics. The audit has exactly one row for each change.
fn check_http(storage: &'static str) {
    let place = Place::new(storage);
    let token = place.administrator();
    let mut book = Book::default();
    let rounds = play(|round, random| {
        let server = place.serve();
        create_until_killed(server, &token, round, 1 + random.next() % 60, &mut book);
        check_audit(&place, &token, &book);
    });
    let (sent, acknowledged) = (book.sent.len(), book.acknowledged.len());
    println!("{storage}: {rounds} rounds, {acknowledged} of {sent} writes acknowledged, none lost");
    assert!(acknowledged > rounds, "the writers hardly wrote");
}

/// Sent by a writer to the keeper of the book.
enum Event {
    Sent { name: String, title: String },
    Acknowledged { name: String, reference: String },
}

/// Kills the server after this many answers.
fn create_until_killed(
    server: http::Server,
    token: &str,
    round: usize,
    lifetime: u64,
    book: &mut Book,
) {
    let (sender, events) = mpsc::channel();
    std::thread::scope(|scope| {
        for writer in 0..IN_FLIGHT {
            let (client, sender) = (server.client(token), sender.clone());
            scope.spawn(move || create_epics(client, &format!("{round}-{writer}"), &sender));
        }
        drop(sender);
        let (mut server, mut answered) = (Some(server), 0);
        for event in events {
            match event {
                Event::Sent { name, title } => drop(book.sent.insert(name, title)),
                Event::Acknowledged { name, reference } => {
                    book.acknowledged.insert(name, reference);
                    answered += 1;
                }
            }
            if answered == lifetime {
                server.take().into_iter().for_each(http::Server::kill);
            }
        }
    });
}

/// Creates epics until the server is gone.
fn create_epics(mut client: Client, writer: &str, events: &mpsc::Sender<Event>) {
    for number in 0.. {
        let name = format!("{writer}-{number}");
        let title = format!("epic {name}");
        let arguments = json!({ "title": title, "priority": 1 });
        let call = call(1, "create_epic", Path::new(""), arguments);
        events.send(Event::Sent { name: name.clone(), title }).unwrap();
        let named = [("X-Request-Id", name.clone())];
        let sent = client.send_with(POST, &named, &call.to_string());
        let Ok(answer) = sent.and_then(|()| client.receive()) else { return };
        let json = answer.json();
        let reference = json["result"]["structuredContent"]["reference_id"].as_str();
        let reference = reference.unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        events.send(Event::Acknowledged { name, reference }).unwrap();
    }
}

/// Compares the documents and the audit with the book. An unacknowledged write may be there.
fn check_audit(place: &Place, token: &str, book: &Book) {
    let server = place.serve();
    let stored = stored(&mut server.client(token));
    server.end();
    for (name, reference) in &book.acknowledged {
        let title = stored.get(reference);
        assert_eq!(title, book.sent.get(name), "{name} was acknowledged as {reference}");
    }
    let titles: BTreeSet<&String> = stored.values().collect();
    assert_eq!(titles.len(), stored.len(), "a title is there twice: {stored:?}");
    let there: BTreeSet<&str> =
        book.sent.iter().filter(|(_, title)| titles.contains(title)).map(|(n, _)| &**n).collect();
    assert_eq!(there.len(), titles.len(), "not every one was sent: {titles:?}");
    let verified = place.json("audit verify --json");
    assert_eq!(verified["whole"], true, "{verified}");
    let rows = place.rows();
    let withdrawn: BTreeSet<u64> = rows
        .iter()
        .filter(|row| row["action"] == UNCONFIRMED)
        .map(|row| row["reason"].as_str().unwrap().parse().unwrap())
        .collect();
    let changes = rows.iter().filter(|row| {
        let is_change = row["action"] == "create_epic" && row["result"] == "ok";
        is_change && !withdrawn.contains(&row["number"].as_u64().unwrap())
    });
    let mut audited: Vec<&str> =
        changes.map(|row| row["correlation_id"].as_str().unwrap()).collect();
    audited.sort_unstable();
    let there: Vec<&str> = there.into_iter().collect();
    assert_eq!(audited, there, "the audit has a row for each change");
}

/// The titles of all epics, by reference.
fn stored(client: &mut Client) -> BTreeMap<String, String> {
    let mut stored = BTreeMap::new();
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({ "limit": 100 });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let mut page = client.data("list_epics", arguments);
        for epic in page["epics"].as_array().unwrap() {
            let word = |key: &str| epic[key].as_str().unwrap().to_owned();
            let twice = stored.insert(word("reference_id"), word("title"));
            assert_eq!(twice, None, "a reference was given twice");
        }
        cursor = page["next_cursor"].take();
        if cursor.is_null() {
            return stored;
        }
    }
}

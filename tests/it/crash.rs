//! After kill -9 under concurrent writers, every acknowledged write is stored completely and once.
//!
//! A test runs for two seconds or `REQLORE_CRASH_SECONDS`. It prints its seed. With the same
//! `REQLORE_CRASH_SEED` it kills servers after the same number of answers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use reqlore_domain::audit_log::UNCONFIRMED_ACTION;
use serde_json::{Value, json};

use crate::apply_changes::decomposed_epic;
use crate::backlog::{create_epic, create_story, data, requirement_arguments};
use crate::client::{Server, call, project, section_file, storage_argument, text};
use crate::copy_and_backup::run;
use crate::database_history::check_killed_history;
use crate::http::{self, Client, POST, TestTeam};

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
    requirements_survive_kill_9_on_postgres: check_requirements("postgres");
    items_survive_kill_9_on_files: check_items("fs");
    items_survive_kill_9_on_sqlite: check_items("sqlite");
    items_survive_kill_9_on_sled: check_items("sled");
    items_survive_kill_9_on_postgres: check_items("postgres");
    batches_survive_kill_9_as_a_whole_on_files: check_batches("fs");
    batches_survive_kill_9_as_a_whole_on_sqlite: check_batches("sqlite");
    batches_survive_kill_9_as_a_whole_on_sled: check_batches("sled");
    batches_survive_kill_9_as_a_whole_on_postgres: check_batches("postgres");
    http_writes_survive_kill_9_with_their_audit_rows_on_files: check_http("fs");
    http_writes_survive_kill_9_with_their_audit_rows_on_sqlite: check_http("sqlite");
    http_writes_survive_kill_9_with_their_audit_rows_on_sled: check_http("sled");
    http_writes_survive_kill_9_with_their_audit_rows_on_postgres: check_http("postgres");
}

/// Runs rounds until the time is over, at least four. Returns their number.
pub(crate) fn run_rounds(mut round: impl FnMut(usize, &mut SeededRandom)) -> usize {
    let mut random = SeededRandom(env_number("REQLORE_CRASH_SEED").unwrap_or(0x5EED) | 1);
    println!("seed {}", random.0);
    let seconds = env_number("REQLORE_CRASH_SECONDS").unwrap_or(2);
    let deadline = Instant::now() + Duration::from_secs(seconds);
    let mut rounds = 0;
    while rounds < 4 || Instant::now() < deadline {
        rounds += 1;
        round(rounds, &mut random);
    }
    rounds
}

/// Starts as many servers as the storage allows at once, and runs one writer with each.
pub(crate) fn run_writers<T: Send>(
    storage: &str,
    root: &Path,
    random: &mut SeededRandom,
    write: impl Fn(usize, Server, SeededRandom) -> T + Sync,
) -> Vec<T> {
    let processes = if storage == "sled" { 1 } else { 3 };
    std::thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..processes {
            let (server, random) = (start_server(storage, root), SeededRandom(random.next() | 1));
            let write = &write;
            writers.push(scope.spawn(move || write(writer, server, random)));
        }
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    })
}

pub(crate) fn start_server(storage: &str, root: &Path) -> Server {
    Server::start_with(root, &["--storage", storage, "--log", "error"])
}

pub(crate) fn kill_server(mut server: Server) {
    server.child.kill().unwrap();
    server.child.wait().unwrap();
}

#[expect(clippy::disallowed_methods, reason = "the environment sets the length of the tests")]
pub(crate) fn env_number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Reproducible random numbers (xorshift64).
pub(crate) struct SeededRandom(pub(crate) u64);

impl SeededRandom {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }
}

const IN_FLIGHT: usize = 4;

/// The last acknowledged text of a requirement and later unacknowledged ones.
#[derive(Default)]
struct ExpectedTexts {
    acknowledged: Option<String>,
    unacknowledged: Vec<String>,
}

/// By index.
type TextsByIndex = BTreeMap<String, ExpectedTexts>;

/// Several servers set requirements of one section. Each writer uses its own indices.
fn check_requirements(storage: &str) {
    let storage = &*storage_argument(storage);
    let project = project();
    let root = project.path();
    let mut texts = TextsByIndex::new();
    let mut acknowledged = 0;
    let mut all_acknowledged = BTreeSet::new();
    let rounds = run_rounds(|round, random| {
        let written = run_writers(storage, root, random, |writer, server, random| {
            set_until_killed(server, root, writer, round, random)
        });
        for (index, written) in written.into_iter().flatten() {
            let expected = texts.entry(index).or_default();
            acknowledged += usize::from(written.acknowledged.is_some());
            all_acknowledged.extend(written.acknowledged.clone());
            if written.acknowledged.is_some() {
                *expected = written;
            } else {
                expected.unacknowledged.extend(written.unacknowledged);
            }
        }
        check_texts(storage, root, &mut texts);
    });
    check_killed_history(storage, root, &all_acknowledged);
    println!("{storage}: {rounds} rounds, {acknowledged} acknowledged texts, none lost");
    assert!(acknowledged > rounds, "too few writes for a meaningful test");
}

/// Writes with several calls in flight and kills the server at a random moment.
fn set_until_killed(
    mut server: Server,
    root: &Path,
    writer: usize,
    round: usize,
    mut random: SeededRandom,
) -> TextsByIndex {
    let mut texts = TextsByIndex::new();
    let lifetime = 1 + random.next() % 30;
    let mut waiting: Vec<(String, String)> = Vec::new();
    for number in 0..lifetime + IN_FLIGHT as u64 {
        let index = format!("{writer}.{}", random.next() % 8 + 1);
        let filler = "x".repeat(1 + (random.next() % 300) as usize);
        let text = format!("round {round} write {number} {filler}");
        let arguments = json!({ "section": "general", "index": index, "text": text });
        server.send(call(number, "reqlix_set_requirements", root, arguments).to_string());
        texts.entry(index.clone()).or_default().unacknowledged.push(text.clone());
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
            let position = expected.unacknowledged.iter().position(|maybe| *maybe == text).unwrap();
            // One process applies writes in order, so earlier texts are overwritten.
            expected.unacknowledged.drain(..=position);
            expected.acknowledged = Some(text);
        }
    }
    kill_server(server);
    texts
}

/// Compares the stored texts with the expected ones. The stored texts become the expected ones.
fn check_texts(storage: &str, root: &Path, texts: &mut TextsByIndex) {
    let mut server = start_server(storage, root);
    let answer = server.call("reqlix_get_requirements", json!({ "section": "general" }));
    let section = answer["result"]["structuredContent"]["text"].as_str().unwrap();
    let parts: Vec<&str> = section.split("**").filter(|part| !part.trim().is_empty()).collect();
    let mut stored: BTreeMap<String, String> = BTreeMap::new();
    for part in parts.chunks(2) {
        let [index, body] = part else { panic!("partial write: {part:?}") };
        let body = body.trim().replace('\n', " ");
        let previous = stored.insert(index.trim_end_matches('.').to_owned(), body);
        assert_eq!(previous, None, "{index} is stored twice");
    }
    for (index, expected) in texts.iter_mut() {
        let stored_text = stored.remove(index);
        let is_expected = stored_text == expected.acknowledged
            || stored_text.as_ref().is_some_and(|text| expected.unacknowledged.contains(text));
        assert!(is_expected, "{index}: {stored_text:?}, acknowledged {:?}", expected.acknowledged);
        *expected = ExpectedTexts { acknowledged: stored_text, unacknowledged: Vec::new() };
    }
    assert_eq!(stored, BTreeMap::new(), "texts that no writer sent");
    let agents = section_file(root, "AGENTS.md");
    assert!(
        agents.is_none_or(|agents| agents.starts_with("# Requirements")),
        "a partially written list"
    );
}

/// The folder of tombstones in the file storage.
const TOMBSTONE_FOLDER: &str = ".reqlore/backlog/deleted";
/// Maximum polls of the tombstone folder before the server is killed.
const MAX_POLLS: u64 = 2000;

/// A story and its acknowledged requirements, as titles by reference.
struct StoryRecord {
    reference: String,
    requirements: BTreeMap<String, String>,
    is_asked: bool,
    is_deleted: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ItemState {
    Live(String),
    Deleted,
    Missing,
}

/// Several servers create stories with requirements and delete some of them in cascade.
fn check_items(storage: &str) {
    let storage = &*storage_argument(storage);
    let project = project();
    let root = project.path();
    let mut server = start_server(storage, root);
    let epic = create_epic(&mut server, "Epic");
    assert!(server.end().1.success());
    let mut stories: Vec<StoryRecord> = Vec::new();
    let mut unapplied = 0;
    let rounds = run_rounds(|_, random| {
        let written = run_writers(storage, root, random, |_, server, random| {
            change_items_until_killed(server, root, &epic, random)
        });
        stories.extend(written.into_iter().flatten());
        unapplied += check_stories(storage, root, &mut stories);
    });
    let requirement_count: usize = stories.iter().map(|story| story.requirements.len()).sum();
    println!(
        "{storage}: {rounds} rounds, {requirement_count} requirements, {unapplied} deletions not applied"
    );
    let distinct: BTreeSet<&String> = stories.iter().flat_map(|s| s.requirements.keys()).collect();
    assert_eq!(distinct.len(), requirement_count, "a reference was assigned twice");
    assert!(requirement_count > rounds, "too few writes for a meaningful test");
}

/// Kills the server at a random moment while it creates or deletes.
fn change_items_until_killed(
    mut server: Server,
    root: &Path,
    epic: &str,
    mut random: SeededRandom,
) -> Vec<StoryRecord> {
    let mut stories = Vec::new();
    let lifetime = random.next() % 3;
    let is_last_deleted = random.next().is_multiple_of(2);
    for number in 0..=lifetime {
        let reference = create_story(&mut server, epic, "Story");
        let mut created = StoryRecord {
            reference: reference.clone(),
            requirements: BTreeMap::new(),
            is_asked: false,
            is_deleted: false,
        };
        let count = 2 + random.next() % 6;
        let is_last = number == lifetime;
        let is_complete = !is_last || is_last_deleted;
        let answers_to_read = if is_complete { count } else { random.next() % (count + 1) };
        for number in 0..count {
            let title = format!("{reference} {number}");
            let item = requirement_arguments(&reference, &title);
            server.send(call(number, "create_requirement", root, item).to_string());
        }
        for _ in 0..answers_to_read {
            let answer = server.answer();
            let record = data(&answer);
            let [reference, title] =
                ["reference_id", "title"].map(|key| record[key].as_str().unwrap().to_owned());
            let previous = created.requirements.insert(reference, title);
            assert_eq!(previous, None, "assigned twice: {answer}");
        }
        if is_complete && (is_last || !random.next().is_multiple_of(3)) {
            let arguments = json!({ "reference": reference, "cascade": true });
            server.send(call(99, "delete_item", root, arguments).to_string());
            created.is_asked = true;
            if is_last {
                wait_for_deletion(root, &created, &mut random);
            } else {
                data(&server.answer());
                created.is_deleted = true;
            }
        }
        stories.push(created);
    }
    kill_server(server);
    stories
}

/// Waits a random time for the deletion. In the file storage it mostly waits for a tombstone.
fn wait_for_deletion(root: &Path, story: &StoryRecord, random: &mut SeededRandom) {
    let waits_for_tombstone =
        root.join(TOMBSTONE_FOLDER).is_dir() && !random.next().is_multiple_of(4);
    let polls = if waits_for_tombstone { MAX_POLLS } else { random.next() % MAX_POLLS };
    let references = story.requirements.keys().chain([&story.reference]);
    let names: Vec<String> = references.map(|reference| format!("{reference}-")).collect();
    for _ in 0..polls {
        let entries =
            std::fs::read_dir(root.join(TOMBSTONE_FOLDER)).into_iter().flatten().flatten();
        let mut files = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        if waits_for_tombstone && files.any(|file| names.iter().any(|name| file.starts_with(name)))
        {
            return;
        }
    }
}

/// Several servers create whole epics, each with one `apply_changes`.
fn check_batches(storage: &str) {
    let storage = &*storage_argument(storage);
    let project = project();
    let root = project.path();
    let (mut acknowledged, mut stored) = (0, 0);
    let rounds = run_rounds(|_, random| {
        let written = run_writers(storage, root, random, |_, server, random| {
            create_batches_until_killed(server, root, random)
        });
        acknowledged += written.iter().sum::<usize>();
        let mut server = start_server(storage, root);
        // The newest ones are listed first.
        let listed = server.call("list_epics", json!({ "limit": 100 }));
        let listed = data(&listed);
        for epic in listed["epics"].as_array().unwrap() {
            let hierarchy = server.call("epic_hierarchy", json!({ "epic": epic["reference_id"] }));
            let counts = json!({ "user_stories": 5, "requirements": 20, "acceptance_criteria": 0 });
            assert_eq!(data(&hierarchy)["counts"], counts, "{hierarchy}");
        }
        stored = listed["total"].as_u64().unwrap();
        assert!(stored >= acknowledged as u64, "{acknowledged} acknowledged, {stored} stored");
        kill_server(server);
    });
    println!("{storage}: {rounds} rounds, {acknowledged} acknowledged batches, {stored} stored");
    assert!(acknowledged > 0, "too few writes for a meaningful test");
}

/// Kills the server while it applies the last batch. Returns the number of acknowledged batches.
fn create_batches_until_killed(mut server: Server, root: &Path, mut random: SeededRandom) -> usize {
    let answers_to_read = random.next() % 3;
    for number in 0..=answers_to_read {
        let changes = json!({ "changes": decomposed_epic("Batch") });
        server.send(call(number, "apply_changes", root, changes).to_string());
        if number < answers_to_read {
            data(&server.answer());
        }
    }
    // A commit writes 26 files; this waits for a random number of them.
    let files = root.join(".reqlore/backlog/requirements");
    let count = || std::fs::read_dir(&files).map_or(0, |entries| entries.count() as u64);
    let (before, awaited) = (count(), random.next() % 60);
    // A database has no such files, and a poll of a missing folder is faster.
    let max_polls = if files.is_dir() { MAX_POLLS } else { 20 * MAX_POLLS };
    for _ in 0..random.next() % max_polls {
        if files.is_dir() && count() >= before + awaited {
            break;
        }
    }
    kill_server(server);
    usize::try_from(answers_to_read).unwrap()
}

pub(crate) fn item_state(server: &mut Server, reference: &str) -> ItemState {
    let answer = server.call("get_item", json!({ "reference": reference }));
    if answer["result"]["isError"] == false {
        let record = data(&answer);
        assert_eq!(record["diagnostic"], Value::Null, "{answer}");
        return ItemState::Live(record["item"]["title"].as_str().unwrap().to_owned());
    }
    let message = text(&answer);
    match () {
        () if message.contains("it was deleted on ") => ItemState::Deleted,
        () if message.contains("not found") => ItemState::Missing,
        () => panic!("{message}"),
    }
}

/// Checks every story. Returns the number of unacknowledged deletions that were not applied.
fn check_stories(storage: &str, root: &Path, stories: &mut [StoryRecord]) -> usize {
    let mut server = start_server(storage, root);
    let mut unapplied = 0;
    for story in stories {
        let state = item_state(&mut server, &story.reference);
        let is_deleted_now = state == ItemState::Deleted;
        assert!(
            is_deleted_now || state == ItemState::Live("Story".to_owned()),
            "{}: {state:?}",
            story.reference
        );
        assert!(!story.is_deleted || is_deleted_now, "{} came back", story.reference);
        assert!(
            story.is_asked || !is_deleted_now,
            "{} was deleted without a request",
            story.reference
        );
        unapplied += usize::from(story.is_asked && !is_deleted_now);
        story.is_deleted = is_deleted_now;
        for (reference, title) in &story.requirements {
            let expected =
                if is_deleted_now { ItemState::Deleted } else { ItemState::Live(title.clone()) };
            let state = item_state(&mut server, reference);
            assert_eq!(state, expected, "{reference} of {}", story.reference);
        }
        story.is_asked = is_deleted_now;
    }
    assert!(server.end().1.success());
    // `check` would report a requirement whose story is deleted.
    let (code, output) = run(root, &format!("check --storage {storage}"));
    assert_eq!((code, output.as_str()), (0, "Nothing to fix.\n"));
    unapplied
}

/// All writes over HTTP, each with its own request ID.
#[derive(Default)]
pub(crate) struct WriteLog {
    /// Titles by request ID.
    pub(crate) sent: BTreeMap<String, String>,
    /// References by request ID.
    pub(crate) acknowledged: BTreeMap<String, String>,
}

/// Several clients of one HTTP server create epics. The audit log has exactly one row per change.
fn check_http(storage: &'static str) {
    let team = TestTeam::new(storage);
    let token = team.administrator();
    let mut log = WriteLog::default();
    let rounds = run_rounds(|round, random| {
        let server = team.serve();
        create_until_killed(server, &token, round, 1 + random.next() % 60, &mut log);
        check_audit(&team, &token, &log);
    });
    let (sent, acknowledged) = (log.sent.len(), log.acknowledged.len());
    println!("{storage}: {rounds} rounds, {acknowledged} of {sent} writes acknowledged, none lost");
    assert!(acknowledged > rounds, "too few writes for a meaningful test");
}

/// Reported by a writer to the thread that owns the write log.
enum WriteEvent {
    Sent { name: String, title: String },
    Acknowledged { name: String, reference: String },
}

/// Kills the server after `lifetime` answers.
fn create_until_killed(
    server: http::Server,
    token: &str,
    round: usize,
    lifetime: u64,
    log: &mut WriteLog,
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
                WriteEvent::Sent { name, title } => drop(log.sent.insert(name, title)),
                WriteEvent::Acknowledged { name, reference } => {
                    log.acknowledged.insert(name, reference);
                    answered += 1;
                }
            }
            if answered == lifetime {
                server.take().into_iter().for_each(http::Server::kill);
            }
        }
    });
}

/// Creates epics until the connection fails.
fn create_epics(mut client: Client, writer: &str, events: &mpsc::Sender<WriteEvent>) {
    for number in 0.. {
        let name = format!("{writer}-{number}");
        let title = format!("epic {name}");
        let arguments = json!({ "title": title, "priority": 1 });
        let call = call(1, "create_epic", Path::new(""), arguments);
        events.send(WriteEvent::Sent { name: name.clone(), title }).unwrap();
        let headers = [("X-Request-Id", name.clone())];
        let result = client.send_with(POST, &headers, &call.to_string());
        let Ok(answer) = result.and_then(|()| client.receive()) else { return };
        let json = answer.json();
        let reference = json["result"]["structuredContent"]["reference_id"].as_str();
        let reference = reference.unwrap_or_else(|| panic!("{answer:?}")).to_owned();
        events.send(WriteEvent::Acknowledged { name, reference }).unwrap();
    }
}

/// Compares documents and audit log with the write log. Unacknowledged writes may be stored.
pub(crate) fn check_audit(team: &TestTeam, token: &str, log: &WriteLog) {
    let server = team.serve();
    let stored = stored_titles(&mut server.client(token));
    server.end();
    for (name, reference) in &log.acknowledged {
        let title = stored.get(reference);
        assert_eq!(title, log.sent.get(name), "{name} was acknowledged as {reference}");
    }
    let titles: BTreeSet<&String> = stored.values().collect();
    assert_eq!(titles.len(), stored.len(), "a title is stored twice: {stored:?}");
    let stored_requests: BTreeSet<&str> =
        log.sent.iter().filter(|(_, title)| titles.contains(title)).map(|(n, _)| &**n).collect();
    assert_eq!(stored_requests.len(), titles.len(), "a stored title was never sent: {titles:?}");
    let verified = team.json("audit verify --json");
    assert_eq!(verified["whole"], true, "{verified}");
    let rows = team.rows();
    let unconfirmed: BTreeSet<u64> = rows
        .iter()
        .filter(|row| row["action"] == UNCONFIRMED_ACTION)
        .map(|row| row["reason"].as_str().unwrap().parse().unwrap())
        .collect();
    let changes = rows.iter().filter(|row| {
        let is_change = row["action"] == "create_epic" && is_first_call(row);
        is_change && !unconfirmed.contains(&row["number"].as_u64().unwrap())
    });
    let mut audited: Vec<&str> =
        changes.map(|row| row["correlation_id"].as_str().unwrap()).collect();
    audited.sort_unstable();
    let stored_requests: Vec<&str> = stored_requests.into_iter().collect();
    assert_eq!(audited, stored_requests, "each change has one audit row");
}

/// True for a call that succeeded, and did not only return the response of an earlier one.
pub(crate) fn is_first_call(row: &Value) -> bool {
    row["result"] == "ok" && row["reason"] != "repeated"
}

/// The titles of all epics, by reference.
pub(crate) fn stored_titles(client: &mut Client) -> BTreeMap<String, String> {
    let mut stored = BTreeMap::new();
    let mut cursor = Value::Null;
    loop {
        let mut arguments = json!({ "limit": 100 });
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let mut page = client.data("list_epics", arguments);
        for epic in page["epics"].as_array().unwrap() {
            let field = |key: &str| epic[key].as_str().unwrap().to_owned();
            let previous = stored.insert(field("reference_id"), field("title"));
            assert_eq!(previous, None, "a reference was assigned twice");
        }
        cursor = page["next_cursor"].take();
        if cursor.is_null() {
            return stored;
        }
    }
}

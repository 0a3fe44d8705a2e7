//! The corruption suite: each change of the files ends in correct data or in a refusal.

use std::fmt::Debug;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reqlore_contract::archive::read_records;
use reqlore_contract::audit::{audit_event, audited_context};
use reqlore_contract::identity::{put_identities_as, user};
use reqlore_contract::{Storage, run};
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, DocumentFilter, ReadSet, Refresh, StoreResult,
};
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::record_list::{RecordCounts, RecordQuery, RecordSelection};
use reqlore_domain::ports::storage_health::StorageHealth as _;
use reqlore_domain::project_key::ProjectKey;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use tempfile::TempDir;

use super::{connect, database_path, open_file, storage};
use crate::commit_count::sibling_path;

const PAGE: usize = 4096;
const SUFFIXES: [&str; 3] = ["", "-wal", "-commits"];
/// Number of bits that are flipped in each page, one at a time. Raise it for a long run.
const FLIPS: usize = 4;
/// Maximum number of failures that are printed.
const PRINTED: usize = 20;

/// A question to the database and its answer.
type Answer = (String, Result<String, String>);

/// The files of a database, by suffix.
#[derive(Debug, Clone)]
struct Files(Vec<(&'static str, Vec<u8>)>);

impl Files {
    fn read(file: &Path) -> Self {
        Self(SUFFIXES.map(|suffix| (suffix, fs::read(sibling_path(file, suffix)).unwrap())).into())
    }

    fn write(&self, file: &Path) {
        for (suffix, bytes) in &self.0 {
            fs::write(sibling_path(file, suffix), bytes).unwrap();
        }
    }

    fn bytes(&mut self, suffix: &str) -> &mut Vec<u8> {
        &mut self.0.iter_mut().find(|(other, _)| *other == suffix).unwrap().1
    }
}

fn epic(name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Item(ItemKind::Epic), name: name.to_owned() }
}

/// The documents of the original, which has other ones as well.
fn known_ids() -> Vec<DocumentId> {
    let mut ids = vec![DocumentId::section("general"), DocumentId::section("missing")];
    for number in 1..=40 {
        ids.push(epic(&format!("EP-{number:03}")));
    }
    for name in ["decisions/dec-1", "decisions/dec-2", "decisions/twin", "deleted"] {
        ids.push(DocumentId::entity(name));
    }
    ids
}

/// A database of some sixty pages, so that most trees have several.
fn write_original(file: &Path) {
    run(async {
        let s = storage(file);
        write_documents(&s).await;
        let other = Storage { project: ProjectKey::new("/other"), ..storage(file) };
        other.put(&epic("EP-001"), "---\ntitle: Of another project\n---\n").await;
    });
}

pub(super) async fn write_documents(s: &Storage) {
    for (number, id) in known_ids().into_iter().enumerate() {
        let body = match (id.kind, &*id.name) {
            (_, "missing") => continue,
            (DocumentKind::Item(_), _) => format!(
                "---\ntitle: {}\ntags: [a{number}]\ndepends_on: [EP-{:03}]\n---\n{}\n",
                format!("Epic number {number} ").repeat(12),
                number % 7 + 1,
                "text ".repeat(number * 4)
            ),
            (DocumentKind::Entity, name) => {
                let id = name.replace("decisions/", "").replace("twin", "dec-1");
                format!("---\nid: {id}\ntitle: D\nof: [EP-001, dec-1]\n---\nbody of {name}\n")
            }
            // Fills pages of its own.
            _ => format!("**1.** Requirement of US-1.\n{}", "long text\n".repeat(1_500)),
        };
        s.put(&id, body).await;
    }
    for text in ["**1.** two\n", "**1.** three\n"] {
        s.put(&DocumentId::section("general"), text).await;
    }
    for number in [3, 5, 8] {
        s.put(&epic(&format!("EP-{number:03}")), "---\ntitle: Changed\n---\n").await;
    }
    s.delete(&DocumentId::entity("deleted")).await;
    s.delete(&epic("EP-040")).await;
    for name in ["ada", "bob"] {
        let change = IdentityChange::User(user(name));
        put_identities_as(&*s.store, vec![change], audited_context()).await.unwrap();
    }
}

fn answer(question: impl Debug, answer: StoreResult<impl Debug>) -> Answer {
    let answer = answer.map(|answer| format!("{answer:?}")).map_err(|error| error.to_string());
    (format!("{question:?}"), answer)
}

async fn ask_children(s: &Storage, project: &ProjectKey) -> Answer {
    let stories = [1, 2].map(|number| Reference { kind: ItemKind::UserStory, number });
    let query = RecordQuery::of_items(ItemKind::Requirement, 0);
    let mut query = query.count_by(RecordCounts::ChildStatus);
    query.filter.parents = Some(stories.into());
    answer(("children", project), s.store.list(project, &query).await)
}

/// Everything that the ports answer, and a new epic at the end.
pub(super) async fn ask_everything(s: &Storage) -> Vec<Answer> {
    let (store, ids) = (&s.store, known_ids());
    let mut answers = Vec::new();
    for project in [&s.project, &s.other] {
        for id in &ids {
            let one = std::slice::from_ref(id);
            let words = [id.name.clone(), id.name.replace("decisions/", "")];
            let query = HistoryQuery { after: None, limit: 2 };
            answers.push(answer(("get", project, id), store.get(project, one).await));
            answers.push(answer(("version", project, id), store.versions(project, one).await));
            answers.push(answer(
                ("lookup", project, id),
                store.lookup(project, id.kind, &words).await,
            ));
            let links =
                BacklinkQuery { kinds: DocumentKind::ALL.to_vec(), targets: words[1..].to_vec() };
            answers.push(answer(("links", project, id), store.backlinks(project, &links).await));
            answers
                .push(answer(("history", project, id), store.history(project, id, &query).await));
        }
        answers.push(answer(("get", project), store.get(project, &ids).await));
        for kind in DocumentKind::ALL {
            let filter = DocumentFilter::of_kind(kind);
            answers.push(answer(("find", project, kind), store.find(project, &filter).await));
            let page = DocumentFilter { limit: 3, after_name: Some("EP-02".into()), ..filter };
            answers.push(answer(("page", project, kind), store.find(project, &page).await));
            let query = RecordQuery::select(kind, RecordSelection::WithDiagnostic, 3);
            let diagnostics = store.list(project, &query).await;
            answers.push(answer(("diagnostics", project, kind), diagnostics));
        }
        let changes = store.changes_since(project, None, 1, Refresh::Full).await;
        let position =
            changes.as_ref().map_or_else(|_| ChangePosition::default(), ChangePage::position);
        answers.push(answer(("position", project), changes));
        for revision in [0, 45] {
            let since = ChangePosition { revision: Revision(revision), ..position };
            let changes = store.changes_since(project, Some(since), 10, Refresh::Full).await;
            answers.push(answer(("changes", project, revision), changes));
        }
        for kind in ItemKind::ALL {
            let mut query = RecordQuery::of_items(kind, 5);
            answers.push(answer(("items", project, kind), store.list(project, &query).await));
            query.filter.status = Some(Status::Backlog);
            answers.push(answer(("backlog", project, kind), store.list(project, &query).await));
        }
        answers.push(ask_children(s, project).await);
        let earlier = Version::of_bytes(b"**1.** two\n");
        let text = store.document_at(project, &DocumentId::section("general"), earlier).await;
        answers.push(answer(("earlier", project), text));
    }
    answers.push(answer("users", store.list_users().await));
    answers.push(answer("tokens", store.list_tokens().await));
    answers.push(answer("epoch", store.identity_epoch().await));
    answers.push(answer("rows", store.rows(1, 100).await));
    answers.push(answer("newest", store.newest().await));
    answers.push(answer("record", store.find_record("none").await));
    answers.push(answer("export", read_records(&*s.store).await));
    let reads = ReadSet { sequences: vec![ItemKind::Epic], ..ReadSet::default() };
    let new: Arc<Mutex<Option<DocumentId>>> = Arc::default();
    let made = Arc::clone(&new);
    let created = s.commit(reads, move |snapshot| {
        let id = epic(&format!("EP-{:03}", snapshot.next_numbers[0]));
        *made.lock().unwrap() = Some(id.clone());
        Ok(vec![DocumentChange::put(id, "---\ntitle: New\n---\n")])
    });
    let created = created.await.map(|_| new.lock().unwrap().clone());
    answers.push(answer("create", created));
    answers
}

/// True for a message that names the file and the way out.
fn is_refusal(message: &str) -> bool {
    let ways_out = ["reqlore restore", "update reqlore"];
    let names_both =
        message.contains("reqlore.db") && ways_out.iter().any(|way| message.contains(way));
    // One bit of the header makes a database read-only.
    names_both
        || message == "the database: can only be read, so nothing was written; make it writable"
}

/// Returns the wrong outcomes of one variant.
fn find_failures(truth: &[Answer], file: &Path) -> Vec<String> {
    if let Err(error) = open_file(file) {
        let message = error.to_string();
        return if is_refusal(&message) { Vec::new() } else { vec![format!("open: {message}")] };
    }
    let answers = run(async { ask_everything(&storage(file)).await });
    let mut failures = Vec::new();
    for ((question, expected), (_, actual)) in truth.iter().zip(answers) {
        let is_right = match &actual {
            Ok(_) => actual == *expected,
            Err(message) => is_refusal(message),
        };
        if !is_right {
            failures.push(format!("{question}: {:.300}", format!("{actual:?}")));
        }
    }
    failures
}

/// A named change of the files.
type Variant = (String, Box<dyn Fn(&mut Files, &Path) + Send + Sync>);

fn variant(
    name: impl Into<String>,
    change: impl Fn(&mut Files, &Path) + Send + Sync + 'static,
) -> Variant {
    (name.into(), Box::new(change))
}

/// Checks all variants of these files, on all cores.
fn check_variants(original: &Files, truth: &[Answer], variants: &[Variant]) {
    let next = AtomicUsize::new(0);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, change)) = variants.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let (_folder, file) = database_path();
                    let mut files = original.clone();
                    change(&mut files, &file);
                    files.write(&file);
                    let found = find_failures(truth, &file);
                    if !found.is_empty() {
                        let count = found.len();
                        let entry = format!("{name}: {count} wrong answers, {}", found[0]);
                        failures.lock().unwrap().push(entry);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let (count, all) = (failures.len(), variants.len());
    let printed = failures[..count.min(PRINTED)].join("\n");
    assert!(failures.is_empty(), "{count} of {all} variants failed:\n{printed}");
}

fn original() -> (TempDir, PathBuf, Files, Vec<Answer>) {
    let (folder, file) = database_path();
    write_original(&file);
    let (files, truth) = closed_files(&file);
    (folder, file, files, truth)
}

/// The files of a database with an empty log, and its answers.
fn closed_files(file: &Path) -> (Files, Vec<Answer>) {
    let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
    connect(file).query_one(checkpoint, [], |_| Ok(())).unwrap();
    let files = Files::read(file);
    let truth = run(async { ask_everything(&storage(file)).await });
    for (question, answer) in &truth {
        assert!(answer.is_ok(), "{question}: {answer:?}");
    }
    files.write(file);
    (files, truth)
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// Pseudo-random, but the same in every run.
fn scatter(page: usize, round: usize) -> usize {
    (page * 7_919 + round * 104_729 + page * round * 31) % (PAGE * 8)
}

#[test]
fn truncated_or_zeroed_pages_are_never_served() {
    let (_folder, _, mut files, truth) = original();
    let size = files.bytes("").len();
    let mut variants = Vec::new();
    for keep in (512..size).step_by(512) {
        variants.push(variant(format!("truncated to {keep}"), move |files, _| {
            files.bytes("").truncate(keep);
        }));
    }
    for page in 0..size / PAGE {
        variants.push(variant(format!("zeroed page {page}"), move |files, _| {
            files.bytes("")[page * PAGE..][..PAGE].fill(0);
        }));
    }
    check_variants(&files, &truth, &variants);
}

#[test]
fn flipped_bits_are_never_served() {
    let (_folder, _, mut files, truth) = original();
    let size = files.bytes("").len();
    let mut variants = Vec::new();
    for page in 0..size / PAGE {
        for round in 0..FLIPS {
            let bit = page * PAGE * 8 + scatter(page, round);
            variants.push(variant(format!("flipped bit {bit}"), move |files, _| {
                flip(files.bytes(""), bit);
            }));
        }
    }
    for byte in 0..100 {
        for round in 0..FLIPS.div_ceil(4).min(8) {
            let bit = byte * 8 + (byte + round) % 8;
            variants.push(variant(format!("flipped bit {bit} of the header"), move |files, _| {
                flip(files.bytes(""), bit);
            }));
        }
    }
    check_variants(&files, &truth, &variants);
}

#[test]
fn swapped_pages_are_never_served() {
    let (_folder, _, mut files, truth) = original();
    let bytes = files.bytes("").clone();
    let pages = bytes.len() / PAGE;
    let mut variants = Vec::new();
    for first in 1..pages {
        for second in first + 1..pages {
            // Pages of other kinds are found by their first byte.
            let is_same_kind = bytes[first * PAGE] == bytes[second * PAGE];
            if second == first + 1 || (is_same_kind && (first + second) % 3 == 0) {
                variants.push(variant(format!("swapped {first} and {second}"), move |files, _| {
                    let (left, right) = files.bytes("").split_at_mut(second * PAGE);
                    left[first * PAGE..][..PAGE].swap_with_slice(&mut right[..PAGE]);
                }));
            }
        }
    }
    check_variants(&files, &truth, &variants);
}

/// A disk that lost the write of a page leaves intact rows.
#[test]
fn earlier_pages_are_found_by_the_check() {
    let (_folder, file, mut earlier, _) = original();
    run(async {
        let s = storage(&file);
        for number in [3, 7, 11] {
            s.put(&epic(&format!("EP-{number:03}")), "---\ntitle: Later\n---\nlater\n").await;
        }
        s.put(&epic("EP-041"), "---\ntitle: New\n---\n").await;
        s.put(&DocumentId::section("general"), "**1.** four\n").await;
        s.delete(&DocumentId::entity("decisions/dec-2")).await;
        s.store.append_events(vec![audit_event("a", 1)]).await.unwrap();
    });
    let (mut files, _) = closed_files(&file);
    let (old, new) = (earlier.bytes("").clone(), files.bytes("").clone());
    let mut unnoticed = Vec::new();
    for (page, (old, new)) in old.chunks(PAGE).zip(new.chunks(PAGE)).enumerate() {
        if old == new {
            continue;
        }
        files.bytes("")[page * PAGE..][..PAGE].copy_from_slice(old);
        let (_folder, file) = database_path();
        files.write(&file);
        files.bytes("")[page * PAGE..][..PAGE].copy_from_slice(new);
        let damage = open_file(&file).and_then(|store| run(store.find_damage()));
        if damage.is_ok_and(|damage| damage.is_empty()) {
            unnoticed.push(page);
        }
    }
    // Readers of changes start again at a position of an unknown writer.
    let table = "SELECT name FROM dbstat WHERE pageno = ?1 AND name <> 'writers'";
    let tables = connect(&file);
    let table = |page| tables.query_row(table, [page + 1], |row| row.get::<_, String>(0)).ok();
    let unnoticed: Vec<_> = unnoticed.into_iter().filter_map(table).collect();
    assert_eq!(unnoticed, Vec::<String>::new());
}

#[test]
fn damaged_log_or_counter_is_never_served() {
    let (_away, file) = database_path();
    let kept = storage(&file);
    write_original(&file);
    // The log has all commits, because a process has it open.
    let mut files = Files::read(&file);
    drop(kept);
    let (_folder, copy) = database_path();
    files.write(&copy);
    let truth = run(async { ask_everything(&storage(&copy)).await });
    let mut variants = Vec::new();
    let (log, counter) = (files.bytes("-wal").len(), files.bytes("-commits").len());
    // An odd step, so that all parts of frames are hit.
    for at in (0..log).step_by(log / 16 / 2 * 2 + 1) {
        variants.push(variant(format!("log truncated to {at}"), move |files, _| {
            files.bytes("-wal").truncate(at);
        }));
        variants.push(variant(format!("flipped a bit of the log at {at}"), move |files, _| {
            flip(files.bytes("-wal"), at * 8 + at % 8);
        }));
    }
    for at in (0..counter).step_by(9) {
        variants.push(variant(format!("flipped a bit of the counter at {at}"), move |files, _| {
            flip(files.bytes("-commits"), at * 8 + at % 8);
        }));
    }
    check_variants(&files, &truth, &variants);
}

/// Changes one bit of a value, or sets a missing one.
fn changed(value: &Value, declared: &str) -> Value {
    match value {
        Value::Integer(number) => Value::Integer(number ^ 1),
        Value::Text(text) if !text.is_empty() => {
            let mut bytes = text.clone().into_bytes();
            bytes[0] ^= 1;
            Value::Text(String::from_utf8(bytes).unwrap())
        }
        Value::Blob(bytes) if !bytes.is_empty() => {
            let mut bytes = bytes.clone();
            bytes[0] ^= 1;
            Value::Blob(bytes)
        }
        _ if declared == "INTEGER" => Value::Integer(1),
        _ if declared == "BLOB" => Value::Blob(vec![1]),
        _ => Value::Text("x".to_owned()),
    }
}

/// Changes a column of a row with SQL, as a careless user would.
fn change_column(connection: &Connection, table: &str, column: usize, row: usize) {
    let select = format!("SELECT * FROM \"{table}\" LIMIT 1 OFFSET {row}");
    let mut select = connection.prepare(&select).unwrap();
    let names: Vec<String> = select.column_names().map(ToString::to_string).collect();
    let declared = format!("SELECT type FROM pragma_table_info('{table}') WHERE cid = {column}");
    let declared: String = connection.query_one(&declared, [], |row| row.get(0)).unwrap();
    let values = select.query_one([], |row| {
        (0..names.len()).map(|at| row.get::<_, Value>(at)).collect::<Result<Vec<_>, _>>()
    });
    let Ok(mut values) = values else { return };
    let mut conditions = Vec::new();
    for (at, name) in names.iter().enumerate() {
        conditions.push(format!("\"{name}\" IS ?{}", at + 1));
    }
    let update = format!(
        "UPDATE \"{table}\" SET \"{}\" = ?{} WHERE {}",
        names[column],
        names.len() + 1,
        conditions.join(" AND ")
    );
    values.push(changed(&values[column], &declared));
    // A unique key may refuse the value.
    let _ = connection.execute(&update, params_from_iter(values));
}

#[test]
fn changed_columns_are_never_served() {
    let (_folder, file, files, truth) = original();
    let connection = connect(&file);
    let tables = "SELECT m.name, c.cid FROM sqlite_schema m, pragma_table_info(m.name) c \
                  WHERE m.type = 'table'";
    let mut select = connection.prepare(tables).unwrap();
    let columns = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let mut variants = Vec::new();
    for column in columns {
        let (table, column): (String, usize) = column.unwrap();
        for row in 0..3 {
            let table = table.clone();
            variants.push(variant(
                format!("{table}, column {column}, row {row}"),
                move |files, file| {
                    files.write(file);
                    let connection = connect(file);
                    connection
                        .execute_batch(
                            "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; \
                         DROP TRIGGER audit_is_never_changed",
                        )
                        .unwrap();
                    change_column(&connection, &table, column, row);
                    connection
                        .query_one("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                        .unwrap();
                    drop(connection);
                    *files = Files::read(file);
                },
            ));
        }
    }
    assert!(variants.len() > 200, "{}", variants.len());
    drop(select);
    drop(connection);
    check_variants(&files, &truth, &variants);
}

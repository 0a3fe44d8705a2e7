//! A server with a limit on its memory starts, builds its index and serves a large project.
//!
//! An unoptimized program would take minutes. `.ci/check` runs the test with the release binary;
//! `REQLORE_RELEASE_PROGRAM` contains its path.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::Document;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord, HighWaterMark};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_dump::DumpFile;
use serde_json::json;

use crate::client::{Server, project};
use crate::copy_and_backup::run_ok;

const ITEMS: u32 = 100_000;
const LIMIT_KIB: u32 = 300 * 1024;
const CALLS: u32 = 100;
const BATCH_ITEMS: u32 = 1_000;
const DESCRIPTION_WORDS: u64 = 60;
/// Number of different words.
const VOCABULARY: u64 = 20_000;

#[expect(clippy::disallowed_methods, reason = "the gate names the program")]
fn release_program() -> Option<String> {
    std::env::var("REQLORE_RELEASE_PROGRAM").ok()
}

/// A word of letters, more often a small number than a large one.
fn word(random: u64) -> String {
    let mut number = (random % VOCABULARY) * (random / VOCABULARY % VOCABULARY) / VOCABULARY;
    let mut word = String::new();
    for _ in 0..4 {
        word.push(char::from(b'b' + u8::try_from(number % 12).unwrap()));
        word.push(['a', 'e', 'i', 'o', 'u'][usize::try_from(number / 12 % 5).unwrap()]);
        number /= 60;
    }
    word
}

fn words(seed: u64, count: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut words = Vec::new();
    for _ in 0..count {
        // xorshift64
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words.push(word(state));
    }
    words.join(" ")
}

fn requirement(number: u32) -> ArchiveRecord {
    let reference = Reference { kind: ItemKind::Requirement, number };
    let (title, text) =
        (words(number.into(), 6), words(u64::from(number) << 32, DESCRIPTION_WORDS));
    let body = format!("---\ntitle: {title} zq{number}\nstatus: Active\n---\n\n{text}.\n");
    ArchiveRecord::Document(DocumentRecord {
        project: ProjectKey::default(),
        document: Document::new(reference.document_id("", "0a1b2c"), body.into()),
        modified: Timestamp::new(1_700_000_000 + i64::from(number), 0),
        path: None,
        entry: PresentEntry::default(),
    })
}

async fn write_dump(file: &Path) {
    let mut writer = DumpFile::new(file).import().await.unwrap();
    // Archives are sorted by name.
    let mut numbers: Vec<u32> = (1..=ITEMS).collect();
    numbers.sort_by_cached_key(|number| {
        Reference { kind: ItemKind::Requirement, number: *number }.document_id("", "0a1b2c")
    });
    for numbers in numbers.chunks(BATCH_ITEMS as usize) {
        let records = numbers.iter().map(|number| requirement(*number)).collect();
        writer.write_batch(records).await.unwrap();
    }
    let mark = HighWaterMark {
        project: ProjectKey::default(),
        kind: ItemKind::Requirement,
        number: ITEMS,
    };
    writer.write_batch(vec![ArchiveRecord::HighWaterMark(mark)]).await.unwrap();
    writer.finish().await.unwrap();
}

/// Limits data and thread stacks, but not reserved address space.
fn limited(program: &str) -> Command {
    let script = format!("ulimit -d {LIMIT_KIB} && exec \"$0\" \"$@\"");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).arg(program);
    command
}

#[tokio::test]
async fn memory_limit_of_300_mib_serves_100_000_items() {
    let Some(program) = release_program() else { return };
    let project = project();
    let (dump, cache) = (project.path().join("dump"), project.path().join("cache"));
    write_dump(&dump).await;
    let settings = |command: &mut Command| {
        command.env_clear().env("HOME", "/nonexistent").env("REQLORE_CACHE", &cache);
        command.args(["--storage", "sqlite", "--root"]).arg(project.path());
    };
    let mut restore = Command::new(&program);
    restore.arg("restore").arg(&dump);
    settings(&mut restore);
    assert!(restore.stdout(Stdio::null()).status().unwrap().success());

    let mut command = limited(&program);
    settings(&mut command);
    let mut server = Server::start_as(command, project.path());
    server.data("search_global", json!({ "query": words(1, 6) }));
    // Waits for the index.
    server.data("ixchel_sync", json!({}));
    for number in 1..=CALLS {
        let item = number * (ITEMS / CALLS);
        let found = server.data("search_global", json!({ "query": format!("zq{item}") }));
        assert_eq!(found["pending"], 0, "{found}");
        assert_eq!(found["results"][0]["reference_id"], format!("REQ-{item:03}"), "{found}");
        server.data("get_item", json!({ "reference": format!("REQ-{item:03}") }));
    }
    let (_, status) = server.end();
    assert!(status.success(), "{status}");
}

/// 100 entities, and 1,000 entities that link to each of them.
fn write_linked_entities(root: &Path) -> Vec<String> {
    let (decisions, notes) = (root.join(".ixchel/decisions"), root.join(".ixchel/notes"));
    fs::create_dir_all(&decisions).unwrap();
    fs::create_dir_all(&notes).unwrap();
    let targets: Vec<String> = (0..100).map(|number| format!("dec-a000{number:02x}")).collect();
    for id in &targets {
        fs::write(decisions.join(format!("{id}.md")), format!("---\nid: {id}\n---\n")).unwrap();
    }
    for number in 0..1_000 {
        let text = format!("---\nrelated: [{}]\n---\n", targets.join(", "));
        fs::write(notes.join(format!("note-{number:06x}.md")), text).unwrap();
    }
    targets
}

#[test]
fn memory_limit_of_300_mib_deletes_100_linked_entities() {
    let Some(program) = release_program() else { return };
    let project = project();
    let targets = write_linked_entities(project.path());
    run_ok(project.path(), "copy --from fs --to sqlite");
    let mut command = limited(&program);
    command.env_clear().env("HOME", "/nonexistent").env("REQLORE_CACHE", "off");
    command.args(["--storage", "sqlite", "--root"]).arg(project.path());
    let mut server = Server::start_as(command, project.path());
    let mut changes = Vec::new();
    for id in &targets {
        changes.push(json!({ "delete": id, "cascade": true }));
    }
    for is_dry_run in [true, false] {
        let arguments = json!({ "changes": changes, "dry_run": is_dry_run });
        server.data("apply_changes", arguments);
    }
    let left = server.data("ixchel_graph", json!({ "id": "notes/note-000001" }));
    assert!(!left.to_string().contains("dec-a000"), "{left}");
    assert!(server.end().1.success());
}

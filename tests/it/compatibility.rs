//! Data written by released versions opens without loss and returns the same answers.
//!
//! `tests/fixtures/0.1.0/make.py` wrote the fixtures and the expected answers with the released
//! binary.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{Server, project, reqlore, storage_argument};
use crate::http::{self, STORAGES};
use crate::repository;

fn fixture_path(name: &str) -> PathBuf {
    repository().join("tests/fixtures/0.1.0").join(name)
}

pub(crate) fn recorded_answers(storage: &str) -> Value {
    let text = fs::read_to_string(fixture_path("answers.json")).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[storage].take()
}

/// A project written by version 0.1.0.
pub(crate) fn unpack(storage: &str) -> TempDir {
    let project = project();
    let archive = File::open(fixture_path(&format!("{storage}.zip"))).unwrap();
    zip::ZipArchive::new(archive).unwrap().extract(project.path()).unwrap();
    renew_identities(&project.path().join(".reqlore/local"));
    project
}

/// Local state files contain their own inode and creation time, so copies are not trusted. This
/// function writes the identity of the unpacked files into them.
fn renew_identities(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            renew_identities(&path);
            continue;
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let mut start = [0; 128];
        let length = file.read_at(&mut start, 0).unwrap();
        let start = String::from_utf8_lossy(&start[..length]).into_owned();
        let is_sealed = start.starts_with("{\"format\":\"reqlore ");
        let marker = if is_sealed { "\"file\":\"" } else { "reqlore marks " };
        let Some(position) = start.find(marker) else { continue };
        let metadata = file.metadata().unwrap();
        let created = metadata.created().unwrap().duration_since(UNIX_EPOCH).unwrap();
        let identity = format!("{:016x}-{:032x}", metadata.ino(), created.as_nanos());
        file.write_all_at(identity.as_bytes(), (position + marker.len()) as u64).unwrap();
    }
}

fn command(root: &Path, storage: &str) -> Command {
    let mut command = reqlore();
    command.arg("--root").arg(root).args(["--storage", storage]);
    command
}

pub(crate) fn run(root: &Path, storage: &str, arguments: &[&str]) -> String {
    let output = command(root, storage).args(arguments).output().unwrap();
    assert!(output.status.success(), "{storage}: {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// True if the answer has all keys and values of the expected one. New versions may add keys.
fn contains(answer: &Value, expected: &Value) -> bool {
    match (answer, expected) {
        (Value::Object(answer), Value::Object(expected)) => expected
            .iter()
            .all(|(key, value)| answer.get(key).is_some_and(|found| contains(found, value))),
        (Value::Array(answer), Value::Array(expected)) => {
            answer.len() == expected.len()
                && answer.iter().zip(expected).all(|(found, value)| contains(found, value))
        }
        _ => answer == expected,
    }
}

pub(crate) fn check_answers(root: &Path, storage: &str, expected: &Value) {
    let mut server = Server::start_with(root, &["--storage", storage]);
    for read in expected["reads"].as_array().unwrap() {
        let tool = read["tool"].as_str().unwrap();
        let answer = server.call(tool, read["arguments"].clone());
        let data = &answer["result"]["structuredContent"];
        assert!(contains(data, &read["data"]), "{storage}: {tool}: {data}, not {}", read["data"]);
    }
    assert!(server.end().1.success());
    assert_eq!(run(root, storage, &["user", "list"]), expected["users"], "{storage}");
    // The newest row's hash covers all rows before it.
    let newest = |text: &str| text.lines().nth(1).unwrap().to_owned();
    let verified = run(root, storage, &["audit", "verify"]);
    assert_eq!(newest(&verified), newest(expected["verify"].as_str().unwrap()), "{storage}");
    let listed = run(root, storage, &["audit", "list", "--last", "100", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert!(contains(&listed, &expected["audit"]), "{storage}: {listed}");
}

/// The fixture's tokens are valid for one year; afterwards the server must report them as expired.
fn check_tokens(root: &Path, storage: &str, expected: &Value) {
    let new_token = run(root, storage, &["token", "create", "--user", "ann"]);
    let server = http::Server::start(command(root, storage));
    let call = |token: &str| server.client(token).call("list_epics", json!({}));
    let old_answer = call(expected["token"].as_str().unwrap());
    assert!(
        old_answer.status == 200 || old_answer.body.contains("expired"),
        "{storage}: {old_answer:?}"
    );
    assert_eq!(call(expected["revoked"].as_str().unwrap()).status, 401, "{storage}");
    let epic = json!({ "title": "New", "priority": 1 });
    let created = server.client(new_token.trim_end()).data("create_epic", epic);
    assert_eq!(created["reference_id"], "EP-003", "{storage}");
    server.end();
    run(root, storage, &["audit", "verify"]);
}

#[test]
fn storages_written_by_0_1_0_return_the_same_answers() {
    // It had no other storages.
    for storage in ["fs", "sqlite", "sled"] {
        let project = unpack(storage);
        let expected = recorded_answers(storage);
        check_answers(project.path(), storage, &expected);
        check_tokens(project.path(), storage, &expected);
    }
}

#[test]
fn dump_written_by_0_1_0_restores_into_every_storage() {
    for storage in STORAGES {
        let storage = &storage_argument(storage);
        let project = project();
        let dump = fixture_path("project.dump");
        run(project.path(), storage, &["restore", dump.to_str().unwrap()]);
        let expected = recorded_answers("fs");
        check_answers(project.path(), storage, &expected);
        check_tokens(project.path(), storage, &expected);
    }
}

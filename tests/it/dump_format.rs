//! A dump of format 1 restores into every storage, and returns the answers of the build that wrote it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::client::{Server, project, reqlore, storage_argument};
use crate::http::{self, STORAGES};
use crate::repository;

fn fixture_path(name: &str) -> PathBuf {
    repository().join("tests/fixtures/dump-1").join(name)
}

fn command(root: &Path, storage: &str) -> Command {
    let mut command = reqlore();
    command.arg("--root").arg(root).args(["--storage", storage]);
    command
}

fn run(root: &Path, storage: &str, arguments: &[&str]) -> String {
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

fn check_answers(root: &Path, storage: &str, expected: &Value) {
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
fn dump_of_format_1_restores_into_every_storage() {
    let expected = fs::read_to_string(fixture_path("answers.json")).unwrap();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    for storage in STORAGES {
        let storage = &storage_argument(storage);
        let project = project();
        let dump = fixture_path("project.dump");
        run(project.path(), storage, &["restore", dump.to_str().unwrap()]);
        check_answers(project.path(), storage, &expected);
        check_tokens(project.path(), storage, &expected);
    }
}

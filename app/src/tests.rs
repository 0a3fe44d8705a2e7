//! A kind and a field that exist only as rows of the tables, in the whole program.
//!
//! Each command runs in a process of its own: this test program, with the rows added.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::Parser;
use reqlore_domain::records::fields::{self, CustomType, FieldType, FieldView, RecordField};
use reqlore_domain::records::kinds::{self, ItemKind};
use reqlore_domain::test_support::{ADDED_FIELD, ADDED_KIND};
use serde_json::{Value, json};

use crate::commands::Cli;
use crate::config::paths::env_variable;
use crate::run_command;

const COMMAND_LINE: &str = "REQLORE_TEST_COMMAND_LINE";

/// The program that the other test starts. Otherwise it has no command line and does nothing.
#[test]
fn program_with_added_rows() {
    let Some(line) = env_variable(COMMAND_LINE) else { return };
    ADDED_KIND.set(kinds::entity("hazard", "Hazard", "hazards", &["haz"])).unwrap();
    let field_type = FieldType::Value(CustomType::Choice, &["Rare", "Likely"]);
    let added = RecordField {
        items: &[ItemKind::Requirement],
        of_entities: true,
        views: &FieldView::ALL,
        descriptions: ["How often it happens."; 2],
        ..fields::field("likelihood", "Likelihood", field_type)
    };
    ADDED_FIELD.set(added).unwrap();
    let words: Vec<String> = serde_json::from_str(&line).unwrap();
    let cli = Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    match run_command(&cli) {
        Ok(code) => assert_eq!(code, 0),
        Err(error) => panic!("{}", error.message),
    }
}

fn start(root: &Path, words: &[&str]) -> Child {
    let root = root.to_str().unwrap();
    let line = [&["reqlore"], words, &["--root", root]].concat();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::program_with_added_rows", "--nocapture"]);
    command.env_clear().env("HOME", "/nonexistent").env("REQLORE_CACHE", "off");
    command.env("REQLORE_ANSWERS", "both").env(COMMAND_LINE, json!(line).to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn output(root: &Path, words: &[&str]) -> String {
    let output = start(root, words).wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{words:?}: {text}");
    text
}

/// The results of requests to one server on standard input and output.
fn results(root: &Path, requests: &[(&str, Value)]) -> Vec<Value> {
    let mut server = start(root, &["serve"]);
    let mut input = server.stdin.take().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut results = Vec::new();
    for (method, params) in requests {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        writeln!(input, "{request}").unwrap();
        // The test program prints lines of its own.
        let answer = lines.find_map(|line| serde_json::from_str::<Value>(&line.unwrap()).ok());
        results.push(answer.unwrap()["result"].take());
    }
    drop(input);
    assert!(server.wait().unwrap().success());
    results
}

fn get(address: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    write!(stream, "{head}Accept: text/html\r\nCookie: {cookie}\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The pages at these paths.
fn pages(root: &Path, paths: &[&str]) -> Vec<String> {
    let mut board = start(root, &["board", "--no-open"]);
    let mut lines = BufReader::new(board.stdout.take().unwrap()).lines();
    let link = lines.find_map(|line| Some(line.unwrap().strip_prefix("http://")?.to_owned()));
    let link = link.unwrap();
    let (address, path) = link.split_once('/').unwrap();
    let signed_in = get(address, &format!("/{path}"), "");
    let cookie = signed_in.split_once("set-cookie: ").unwrap().1.split(';').next().unwrap();
    let pages = paths.iter().map(|path| get(address, &format!("/p/default/{path}"), cookie));
    let pages = pages.collect();
    board.kill().unwrap();
    board.wait().unwrap();
    pages
}

#[test]
fn added_kind_and_field_reach_schema_form_list_command_and_csv() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    for words in [
        &["add", "epic", "Pay"][..],
        &["add", "story", "Pay by card", "--in", "EP-001"],
        &["add", "requirement", "Refuse a stolen card", "--in", "US-001"],
        &["add", "requirement", "Retry", "--in", "US-001", "--field", "likelihood=likely"],
        &["add", "hazard", "Fire", "--field", "likelihood=Rare"],
    ] {
        output(root, words);
    }
    // Command and CSV.
    let hazards = output(root, &["list", "hazards", "--field", "likelihood=rare"]);
    assert!(hazards.contains("LIKELIHOOD") && hazards.contains("haz-"), "{hazards}");
    let csv = output(root, &["list", "requirements", "--sort", "-likelihood", "--csv"]);
    let rows: Vec<&str> = csv.lines().filter(|line| line.contains(",requirement,")).collect();
    assert!(csv.contains(",likelihood") && rows[0].contains("Retry,"), "{csv}");
    assert!(rows.len() == 2 && rows[0].ends_with(",Likely"), "{csv}");
    // Tools.
    let call =
        |name: &str, arguments| ("tools/call", json!({ "name": name, "arguments": arguments }));
    let filter = json!({ "kind": "hazard", "fields": { "likelihood": "Rare" } });
    let results = results(
        root,
        &[
            ("tools/list", json!({})),
            call("get_record_schema", json!({})),
            call("list_items", filter),
        ],
    );
    let tools = results[0]["tools"].as_array().unwrap();
    let arguments = |name| {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap();
        tool["inputSchema"]["properties"].clone()
    };
    let field = arguments("create_requirement")["likelihood"].take();
    assert_eq!(field["description"], "How often it happens.", "{field}");
    let kinds = arguments("ixchel_create")["kind"].to_string();
    assert!(kinds.contains("\"hazard\""), "{kinds}");
    let schema = &results[1]["structuredContent"];
    let kind = schema["kinds"].as_array().unwrap().last().unwrap();
    assert_eq!(kind["kind"], "hazard", "{schema}");
    let listed = &results[2]["structuredContent"]["items"];
    assert_eq!(listed[0]["fields"]["likelihood"], "Rare", "{listed}");
    // Pages.
    let id = listed[0]["reference_id"].as_str().unwrap();
    let item = format!("item/{id}");
    let paths = [
        "new?kind=hazard",
        "new?kind=requirement&parent=US-001",
        "new",
        "table?kind=requirement",
        &item,
    ];
    let pages = pages(root, &paths);
    for form in &pages[..2] {
        assert!(form.contains("name=\"fields.likelihood\"") && form.contains("Likely"), "{form}");
    }
    assert!(pages[2].contains("kind=hazard"), "{}", pages[2]);
    assert!(pages[3].contains("Likelihood"), "{}", pages[3]);
    assert!(pages[4].contains("Hazard") && pages[4].contains("Rare"), "{}", pages[4]);
}

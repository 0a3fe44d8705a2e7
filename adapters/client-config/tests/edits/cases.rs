//! Reviewed edits in `../golden/edits-*.txt`: a title, the text before, the text or error after.

use std::fs;
use std::path::Path;

use expect_test::expect_file;
use reqlore_client_config::edit::{self, EntryEdit, EntrySlot};
use serde_json::json;

use super::{JSON, TOML, command, entry, in_lines, put, rejection, take, url};

#[test]
fn json_edits_match_the_reviewed_cases() {
    check("edits-json.txt", |verb, text| edit(verb, text, JSON));
}

#[test]
fn toml_edits_match_the_reviewed_cases() {
    check("edits-toml.txt", |verb, text| edit(verb, text, TOML));
}

fn edit(verb: &str, text: &str, slot: EntrySlot) -> String {
    match verb.split(' ').collect::<Vec<_>>()[..] {
        ["take"] => take(text, slot),
        ["refuse"] => in_lines(&rejection(text, slot)),
        ["put", "refused"] => rejected(text, slot, &command()),
        ["put", name, "refused"] => rejected(text, slot, &named(name)),
        ["put", name] => put(text, slot, &named(name)),
        _ => panic!("{verb}"),
    }
}

/// Only the texts before are read, so that `UPDATE_EXPECT=1` adds the result of a new case.
pub(crate) fn check(name: &str, edit: impl Fn(&str, &str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let cases = fs::read_to_string(&path).expect("the cases");
    let mut reviewed = String::new();
    for case in cases.split("=== ").skip(1) {
        let (title, texts) = case.split_once('\n').expect("a title");
        let (before, _) = texts.split_once("---\n").expect("a text before");
        let text = before.replace("\n\\ no line end\n", "").replace('␍', "\r");
        let (verb, _) = title.split_once(": ").expect("a verb");
        let mut after = edit(verb, &text).replace('\r', "␍");
        if !after.is_empty() && !after.ends_with('\n') {
            after.push_str("\n\\ no line end\n");
        }
        reviewed.extend(["=== ", title, "\n", before, "---\n", &after]);
    }
    expect_file![path].assert_eq(&reviewed);
}

fn rejected(text: &str, slot: EntrySlot, entry: &EntryEdit) -> String {
    in_lines(&edit::put_entry(text, slot, entry).expect_err("a rejection").to_string())
}

fn named(name: &str) -> EntryEdit {
    match name {
        "command" => command(),
        "url" => url(),
        "short" => entry(json!({"command": "reqlore", "args": []}), &["url"]),
        "nested" => entry(json!({"a": [{"b": []}, [1, null]], "c": {}, "d": "\"\n"}), &[]),
        "env" => entry(json!({"env": {"A": "b"}, "n": 1.5, "z": null}), &["old"]),
        "odd" => entry(json!({"a b": ["\"\\\n\u{7f}\u{1}é"], "": {"c.d": true}}), &[]),
        "null" => entry(json!({"env": {"A": null}}), &[]),
        _ => panic!("{name}"),
    }
}

#[test]
fn json_that_clients_reject_is_rejected() {
    let texts = r#"{'a': 1} {a:1} {1:1} {"a"1} {"a":1"b":2} {"a":[1"b"]} {"a":0x1} {"a":+1} {"a":.5}
        {"a":5.} {"a":01} {"a":-} {"a":1e} {"a":NaN} {"a":-Infinity} {"a":undefined} {"a":True}
        {"a":"\x41"} {"a":"\'"} {,} {"a":1,,} {"a":[,]} {}{} {}x {"a":1 {"a": {] #x{} {}/*x {"a":"}
        ' {"a":`x`} {"a":1/2} {"a":1;} {"a":(1)} {"a":\u0031}"#;
    let spaces =
        ["{\u{a0}}", "{\u{b}}", "{\u{2028}}", "{\0}", "{}\u{feff}", "[\"\n\"]", "[\"\t\"]"];
    for text in texts.split_whitespace().chain(spaces) {
        let rejected = rejection(text, JSON);
        assert!(rejected.starts_with("line "), "{text}: {rejected}");
        assert!(rejected.contains("; correct the file"), "{text}: {rejected}");
    }
}

#[test]
fn text_that_is_too_deep_or_too_long_is_rejected() {
    for open in ["[", "{\"a\":", "{\"mcpServers\":{\"reqlore\":[{\"a\":"] {
        let rejected = rejection(&open.repeat(100_000), JSON);
        assert!(rejected.contains("nesting depth"), "{rejected}");
    }
    for (start, repeated) in [("a=[", "["), ("a={a=", "{a="), ("[", "["), ("a.", "a.")] {
        rejection(&format!("{start}{}", repeated.repeat(100_000)), TOML);
    }
    let rejected = rejection(&" ".repeat(17 * 1024 * 1024), JSON);
    assert!(rejected.contains("17825792 bytes, which is more than 16777216"), "{rejected}");
}

#[test]
fn long_file_edit_is_undone_to_the_byte() {
    for between in [", ", ",\n", ",// x\n"] {
        let server = format!("\"a\": {{\"b\": [{{\"c\": 1}}]}}{between}");
        let text = format!("{{\"mcpServers\": {{{}\n\"z\": 1}}}}", server.repeat(10_000));
        let put = edit::put_entry(&text, JSON, &command()).expect("it can be edited");
        assert!(take(&put, JSON) == text, "it is as before: {between:?}");
    }
    let table = |i| format!("[mcp_servers.a{i}]\nb = {{ c = 1 }}\n\n");
    let tables = (0..3_000).map(table).collect::<Vec<_>>().concat();
    let put = put(&tables, TOML, &command());
    assert_eq!(take(&put, TOML).trim_end(), tables.trim_end());
}

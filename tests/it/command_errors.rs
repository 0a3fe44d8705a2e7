//! Faults of everyday use, and the next step that commands name.

use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;

use crate::client::{Server, project, reqlore};
use crate::copy_and_backup::{run, run_ok};
use crate::init::{Place, output};

#[test]
fn port_in_use_is_named_before_a_storage_is_created() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for storage in ["fs:new", "sqlite:new/x.db", "sled:new/db", "sqlite"] {
        let folder = project();
        let command = format!("serve --transport http --listen {address} --storage {storage}");
        let (code, error) = run(folder.path(), &command);
        assert_eq!(code, 1, "{storage}: {error}");
        assert!(error.contains("stop the program that uses this port"), "{error}");
        assert!(error.contains("--listen"), "{error}");
        let mut entries = fs::read_dir(folder.path()).unwrap();
        assert!(entries.next().is_none(), "{storage}");
    }
}

/// Runs a command with this standard input.
fn run_with_input(folder: &Path, words: &[&str], input: &[u8]) -> (i32, String) {
    let mut command = reqlore();
    command.current_dir(folder).args(words).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input);
    let ended = child.wait_with_output().unwrap();
    let printed = String::from_utf8([ended.stdout, ended.stderr].concat()).unwrap();
    (ended.status.code().unwrap(), printed)
}

#[test]
fn dash_as_the_text_reads_standard_input() {
    let folder = project();
    let root = folder.path();
    run_ok(root, "add epic A");
    run_ok(root, "add story S --in EP-001");
    for words in [
        &["add", "epic", "B", "--body", "-"][..],
        &["add", "story", "B", "--in", "EP-001", "--description", "-"],
        &["add", "requirement", "B", "--in", "US-001", "--body", "-"],
        &["add", "criterion", "-", "--in", "US-001"],
        &["add", "requirement", "-", "--in", "pay:1"],
        &["add", "decision", "B", "--body", "-"],
        &["set", "EP-001", "text=-"],
        &["set", "US-001", "description=-"],
        &["set", "REQ-001", "body=-"],
        &["set", "AC-001", "desc=-"],
        &["set", "pay:1", "text=-"],
    ] {
        let text = format!("From a pipe: {}\n\n- é", words.join(" "));
        let (code, printed) = run_with_input(root, words, format!("{text}\n").as_bytes());
        assert_eq!(code, 0, "{words:?}: {printed}");
        let (_, found) = run(root, "search pipe --limit 100 --json");
        assert!(found.contains("From a pipe"), "{words:?}: {found}");
    }
    let shown = run_ok(root, "show EP-001");
    assert!(shown.contains("\n\nFrom a pipe: set EP-001 text=-\n\n- é\n\n"), "{shown}");
    let (code, error) = run_with_input(root, &["set", "EP-001", "text=-"], b"\xff\xfe");
    assert!(code == 2 && error.contains("standard input"), "{error}");
    // Other fields take it as it is.
    run_ok(root, "set EP-001 title=-");
}

#[test]
fn second_project_below_the_first_is_named() {
    let place = Place::new();
    let root = place.at("project");
    for (folder, is_named) in [
        ("src", true),
        ("src/deep/er", true),
        ("with space", true),
        ("$(touch x)", true),
        ("é", true),
        ("configured", false),
        ("node_modules/a", false),
        ("target/debug", false),
        (".hidden/a", false),
        ("other-repository", false),
        ("submodule/a", false),
    ] {
        let nested = root.join(folder);
        fs::create_dir_all(&nested).unwrap();
        fs::create_dir_all(root.join("submodule/.git")).unwrap();
        fs::create_dir_all(root.join("other-repository/.git")).unwrap();
        fs::create_dir_all(root.join("configured")).unwrap();
        let settings = "[projects.a]\nroot = \"configured\"\n";
        fs::write(root.join("reqlore.toml"), settings).unwrap();
        assert_eq!(output(place.command().arg("check")).0, 0, "{folder}");
        let mut add = place.command();
        assert_eq!(output(add.args(["add", "epic", "A", "--root"]).arg(&nested)).0, 0);
        let (code, shown, _) = output(place.command().arg("check"));
        assert_eq!(
            (code, shown.contains("a second project below")),
            (i32::from(is_named), is_named)
        );
        let named = shown.starts_with(&format!("{folder}: "));
        assert_eq!(named, is_named, "{folder}: {shown}");
        let (_, shown, _) = output(place.command().arg("doctor"));
        assert_eq!(shown.contains(&format!("{folder}: a second project")), is_named, "{shown}");
        fs::remove_dir_all(nested.join(".reqlore")).unwrap();
    }
}

#[test]
fn root_that_is_no_folder_is_named_with_the_next_step() {
    let folder = project();
    fs::write(folder.path().join("file"), "").unwrap();
    for root in ["file", "file/x", "missing", "./missing/deep"] {
        for command in ["list", "check", "serve", "doctor", "init --client cursor --dry-run"] {
            let (code, printed) = run(folder.path(), &format!("{command} --root {root}"));
            assert_ne!(code, 0, "{command} {root}: {printed}");
            assert!(printed.contains("choose an existing folder"), "{command} {root}: {printed}");
        }
    }
}

#[test]
fn query_without_a_word_says_so() {
    let folder = project();
    run_ok(folder.path(), "add epic Text");
    let reason = "The query has no letter or digit, so no text matches; search for words.";
    for query in
        ["*", "**", "?", "...", "-", "\"\"", "()", "\u{2014}", " \u{a0} ", "/", "%", "\u{ab}\u{bb}"]
    {
        let (code, printed, errors) =
            output(reqlore().current_dir(folder.path()).args(["search", "--", query]));
        if query.trim().is_empty() {
            continue;
        }
        assert_eq!((code, errors.as_str()), (0, ""), "{query}");
        assert!(printed.contains(reason), "{query}: {printed}");
    }
    for query in ["zzz", "*zzz*", "42"] {
        let printed = run_ok(folder.path(), &format!("search {query}"));
        assert!(!printed.contains(reason), "{query}: {printed}");
    }
}

#[test]
fn look_alikes_are_read_and_hinted_at_by_writes() {
    let folder = project();
    let mut server = Server::start(folder.path());
    server.data("create_epic", json!({ "title": "A", "priority": 1 }));
    server.data("create_user_story", json!({ "epic": "EP-001", "title": "S", "priority": 1 }));
    for id in [
        "EP\u{2011}001",
        "EP\u{2013}001",
        "EP\u{2212}1",
        "\u{ff25}\u{ff30}\u{ff0d}\u{ff10}\u{ff10}\u{ff11}",
        "`EP-001`",
        "\u{201c}EP-001\u{201d}",
        "[[EP-001]]",
        "(ep-001)",
        "EP-001\u{a0}",
        "EP-001.",
        "**EP-001**,",
        "EP-\u{200b}001",
    ] {
        let read = server.data("get_item", json!({ "reference": id }));
        assert_eq!(read["item"]["reference_id"], "EP-001", "{id}");
        server.data("epic_hierarchy", json!({ "epic": id }));
        server.data("list_items", json!({ "kind": "user_story", "epic": id }));
        server.data("ixchel_show", json!({ "id": id }));
        server.data("get_history", json!({ "reference": id }));
        // Spaces and cases are accepted everywhere.
        if id.trim().eq_ignore_ascii_case("EP-001") {
            continue;
        }
        let output = reqlore().args(["set", id, "title=B"]).current_dir(folder.path()).output();
        let error = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(error.contains("is not an ID; did you mean EP-001"), "{id}: {error}");
        for (tool, arguments) in [
            ("update_epic", json!({ "epic": id, "title": "B" })),
            ("create_user_story", json!({ "epic": id, "title": "S", "priority": 1 })),
            ("delete_item", json!({ "reference": id })),
        ] {
            let answer = server.call(tool, arguments);
            let error = answer["result"]["content"][0]["text"].as_str().unwrap();
            assert_eq!(answer["result"]["isError"], true, "{tool} {id}: {error}");
            assert!(error.contains("did you mean EP-001"), "{tool} {id}: {error}");
        }
    }
    let story = json!({ "user_story": "US\u{2011}001" });
    let answer = server.call("get_user_story_requirements", story);
    let error = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(error.starts_with("Invalid user story reference ID format"), "{error}");
    assert!(error.ends_with("did you mean US-001"), "{error}");
}

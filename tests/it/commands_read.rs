//! Commands that show content: the same output on every storage and from a team server, at any
//! width, to readers that leave early, and with hostile titles.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use expect_test::expect_file;
use serde_json::Value;

use crate::client::reqlore;
use crate::http::TestTeam;
use crate::init::output;
use crate::repository;

const TITLE: &str = "Pay by card without an account, also from a phone and in every currency";

/// Documents with fixed dates, so that every storage shows the same.
fn write_project(root: &Path) {
    let backlog = ".reqlore/backlog";
    let dates = "created_at: 2026-11-20T08:00:00Z\ncreator_username: ann\n\
                 updated_at: 2026-11-21T09:30:00Z\n";
    for (path, keys, body) in [
        (
            "epics/EP-001",
            "title: Checkout\nstatus: In Progress\npriority: 1\ntags: [shop]\n",
            "# Goal\n\nGuests **pay** without an account. The whole purchase takes one page, and \
             nothing is stored.\n\n- `card` or invoice\n",
        ),
        ("epics/EP-002", "title: =cmd|' /C calc'!A0\nstatus: Backlog\npriority: 3\n", ""),
        ("stories/US-001", "epic: EP-001\nstatus: Done\npriority: 2\nassignee_username: bob\n", ""),
        ("stories/US-002", "title: \"- refund, \\\"at once\\\"\"\nepic: EP-001\n", ""),
        (
            "requirements/REQ-001",
            "title: Card fee\nuser_story: US-001\nstatus: Active\npriority: 2\n\
             type_name: Business Rule\ndepends_on: [REQ-002]\n",
            "The fee is shown before the payment.\n",
        ),
        ("requirements/REQ-002", "title: Fee table\nuser_story: US-001\npriority: 4\n", ""),
        (
            "criteria/AC-001",
            "user_story: US-001\n",
            "Given a card, when paid, then it is booked.\n",
        ),
    ] {
        let title = if keys.contains("title:") || path.starts_with("criteria") {
            String::new()
        } else {
            format!("title: {TITLE}\n")
        };
        write(
            root,
            &format!("{backlog}/{path}.md"),
            &format!("---\n{title}{keys}{dates}---\n\n{body}"),
        );
    }
    let decision = "---\nid: dec-1d2c8f\ntitle: No accounts\nstatus: accepted\ntags: [privacy]\n\
                    affects: [EP-001]\ncreated_at: 2026-11-20T08:00:00Z\n---\n\nAccounts leak.\n";
    write(root, ".ixchel/decisions/dec-1d2c8f.md", decision);
    let requirements = "docs/development/requirements";
    write(root, &format!("{requirements}/general.md"), "# General\n\n**1.** Log each payment.\n");
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The same documents on every storage.
fn team(storage: &'static str) -> TestTeam {
    let team = TestTeam::new(storage);
    write_project(&team.root());
    if storage != "fs" {
        let mut copy = reqlore();
        copy.current_dir(team.root()).args(["--config", "reqlore.toml", "copy"]);
        copy.args(["--from", "fs", "--to", &team.storage_argument]);
        let (code, _, errors) = output(&mut copy);
        assert_eq!(code, 0, "{errors}");
    }
    team
}

const COMMANDS: [&str; 24] = [
    "list",
    "list stories --sort reference",
    "list requirements --epic ep-1",
    "list requirements --story US-001 --status active",
    "list criteria",
    "list decisions",
    "list entities --tag privacy",
    "list sections",
    "list --status draft",
    "list stories --assignee bob --csv",
    "list epics --limit 1",
    "list epics --csv",
    "show EP-001",
    "show us-1",
    "show REQ-001",
    "show dec-1d2c8f",
    "show general:1",
    "tree",
    "tree US-001 --criteria",
    "board --print --epic EP-001",
    "board epics --print",
    "search accounts --limit 2",
    "context card fee",
    "context --item US-001 --max-tokens 200",
];

/// The output of all commands at this width.
fn outputs(mut command: impl FnMut() -> Command, width: Option<&str>) -> String {
    let mut text = String::new();
    for line in COMMANDS {
        let mut command = command();
        command.args(line.split(' '));
        if let Some(width) = width {
            command.env("COLUMNS", width);
        }
        let (code, printed, errors) = output(&mut command);
        assert_eq!((code, &*errors), (0, ""), "{line}");
        text.extend(["$ reqlore ", line, "\n", &printed.replace("\r\n", "\n"), "\n"]);
    }
    text
}

#[test]
fn reading_commands_print_the_same_everywhere() {
    let snapshot = |name: &str| expect_file![repository().join("tests/snapshots").join(name)];
    for storage in crate::http::STORAGES {
        let team = team(storage);
        let local = outputs(|| team.command(), None);
        snapshot("commands.txt").assert_eq(&local);
        if storage == "fs" {
            snapshot("commands-40.txt").assert_eq(&outputs(|| team.command(), Some("40")));
            snapshot("commands-200.txt").assert_eq(&outputs(|| team.command(), Some("200")));
        }
        let token = team.administrator();
        let server = team.serve();
        let url = format!("http://{}", server.address);
        let remote = || {
            let mut command = reqlore();
            // Another folder, whose documents must not be read.
            command.current_dir(team.folder()).env("REQLORE_URL", &url);
            command.env("REQLORE_TOKEN", &token);
            command
        };
        assert_eq!(outputs(remote, None), local, "{storage}");
        server.end();
    }
}

#[test]
fn narrow_output_fits_the_terminal() {
    let team = team("fs");
    for line in COMMANDS {
        let mut command = team.command();
        let (_, text, _) = output(command.args(line.split(' ')).env("COLUMNS", "40"));
        for shown in text.lines().filter(|_| !line.contains("--csv")) {
            assert!(shown.chars().count() <= 40, "{line}: {shown:?}");
        }
        assert!(!text.contains('\u{1b}'), "no colours outside of terminals: {text:?}");
    }
}

#[test]
fn json_of_reading_commands_is_the_answer_of_the_tool() {
    let team = team("fs");
    let listed = team.json("list stories --json");
    assert_eq!((&listed["total"], &listed["by_status"]["Done"]), (&2.into(), &1.into()));
    assert_eq!(listed["items"][0]["title"], TITLE);
    let shown = team.json("show REQ-001 --json");
    assert_eq!(shown["relationships"]["outgoing"][0]["reference_id"], "REQ-002");
    let tree = team.json("tree --json");
    assert_eq!(tree["items"][0]["children"][0]["children"].as_array().unwrap().len(), 2);
    assert!(team.json("search accounts --json")["results"][0]["score"].is_number());
}

#[test]
fn reading_command_errors_name_the_fix() {
    let team = team("fs");
    for (line, expected_code, message) in [
        ("list sprints", 2, "[possible values: epics"),
        ("list --status Active", 2, "Backlog"),
        ("list sections --tag x", 2, "sections have no filters"),
        ("list --limit 0", 2, "0 is not in"),
        ("list --json --csv", 2, "cannot be used with"),
        ("show EP-009", 1, "Epic not found: EP-009"),
        ("tree REQ-001", 2, "use `reqlore show`"),
        ("diff EP-001", 1, "EP-001 has no earlier version"),
        ("board criteria --print", 2, "use epics, stories or requirements"),
        ("board decisions", 2, "use epics, stories or requirements"),
        ("board --epic EP-001", 2, "filters need --print"),
        ("board --project web", 2, "use one of default, shop"),
        ("list --project shop --url http://a.example", 2, "not encrypted"),
        ("list --url http://127.0.0.1:1", 2, "REQLORE_TOKEN: is not set"),
        ("list --url a.example", 2, "does not begin with https://"),
        ("list --project web", 2, "use one of default, shop"),
    ] {
        let (code, text, errors) = output(team.command().args(line.split(' ')));
        assert_eq!((code, &*text), (expected_code, ""), "{line}: {errors}");
        assert!(errors.contains(message), "{line}: {errors}");
    }
    let (code, text, _) = output(team.command().args(["list", "--project", "shop"]));
    assert_eq!((code, text.contains("EP-001")), (0, false), "{text}");
}

#[test]
fn reading_commands_create_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let in_folder = || {
        let mut command = reqlore();
        command.arg("--root").arg(folder.path());
        command
    };
    let commands = [
        "list",
        "list sections",
        "show EP-001",
        "tree",
        "search fee",
        "board --print",
        "history EP-001",
        "diff EP-001",
        "check",
    ];
    let names = || -> Vec<String> {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    for line in commands {
        let (_, _, errors) = output(in_folder().args(line.split(' ')));
        assert_eq!(names(), [""; 0], "{line}: {errors}");
        let misspelt = format!("sqlite:{}", folder.path().join("misspelt.db").display());
        for storage in ["sqlite", "sled", &misspelt] {
            let mut command = in_folder();
            command.args(["--storage", storage]).args(line.split(' '));
            let (code, text, errors) = output(&mut command);
            assert_eq!((code, &*text), (1, ""), "{storage} {line}: {errors}");
            assert!(errors.contains("does not exist; "), "{storage} {line}: {errors}");
            assert_eq!(names(), [""; 0], "{storage} {line}");
        }
    }
}

#[test]
fn list_below_a_parent_without_a_kind_shows_its_children() {
    let team = team("fs");
    for (short, full) in [
        ("list --epic EP-001", "list stories --epic EP-001"),
        ("list --story US-001", "list requirements --story US-001"),
    ] {
        let (code, text, errors) = output(team.command().args(short.split(' ')));
        assert_eq!((code, &*errors, text.contains("US-001")), (0, "", true), "{short}: {text}");
        assert_eq!(text, output(team.command().args(full.split(' '))).1, "{short}");
    }
}

#[test]
fn local_commands_refuse_the_server_of_the_environment() {
    let team = team("fs");
    for line in ["board --no-open", "site published"] {
        let mut command = team.command();
        command.env("REQLORE_URL", "http://127.0.0.1:1").args(line.split(' '));
        let (code, text, errors) = output(&mut command);
        assert_eq!((code, &*text), (2, ""), "{line}: {errors}");
        assert!(errors.contains("REQLORE_URL: names a team server"), "{line}: {errors}");
    }
    assert!(fs::symlink_metadata(team.root().join("published")).is_err());
}

#[test]
fn remote_errors_name_the_server_and_no_secret() {
    let team = team("fs");
    let reader = {
        team.user("cay", "commenter");
        team.token("cay", "--projects shop")
    };
    let server = team.serve();
    let url = format!("http://{}", server.address);
    let run = |token: &str, arguments: &[&str]| {
        let mut command = reqlore();
        command.current_dir(team.folder()).env("REQLORE_TOKEN", token).args(arguments);
        output(command.args(["--url", &url]))
    };
    let (code, _, errors) = run(&reader, &["list", "--project", "default"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("shop") && !errors.contains(&reader), "{errors}");
    let (code, text, errors) = run(&reader, &["list"]);
    assert_eq!((code, text.contains("EP-001")), (0, false), "{errors}");
    let (code, _, errors) = run("ghp_0123456789abcdef", &["list"]);
    assert_eq!(code, 2, "{errors}");
    assert!(errors.contains("does not begin with reqlore_pat_"), "{errors}");
    assert!(!errors.contains("ghp_"), "{errors}");
    team.run(&format!("token revoke {}", crate::http::token_id(&reader)));
    let (code, _, errors) = run(&reader, &["list"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains(&url) && errors.contains("the token is not valid"), "{errors}");
    server.end();
    let (code, _, errors) = run(&reader, &["list"]);
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("does not listen"), "{errors}");
    assert!(!errors.contains(&reader), "{errors}");
}

#[test]
fn reader_that_leaves_early_is_not_an_error_message() {
    let team = team("fs");
    for line in ["list --csv", "show EP-001", "tree"] {
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        let mut command = team.command();
        let ended = command.args(line.split(' ')).stdout(pipe).output().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), &*errors), (Some(1), ""), "{line}");
    }
}

#[test]
fn completion_offers_ids_and_is_quiet_on_errors() {
    let team = team("fs");
    let complete = |root: &Path, words: &[&str]| {
        let mut command = reqlore();
        command.current_dir(root).env("REQLORE_COMPLETE", "fish").args(["--", "reqlore"]);
        output(command.args(words))
    };
    let root = team.root();
    fs::remove_file(root.join("reqlore.toml")).unwrap();
    let (code, text, errors) = complete(&root, &["show", "ep-"]);
    assert_eq!((code, &*errors), (0, ""));
    assert!(text.contains("EP-001\tCheckout\n") && text.contains("EP-002\t"), "{text}");
    assert!(complete(&root, &["history", "dec"]).1.contains("dec-1d2c8f\tNo accounts"));
    assert!(complete(&root, &["list", "--story", "US-"]).1.contains("US-002"));
    assert!(complete(&root, &["sea"]).1.contains("search\t"));
    fs::write(root.join("reqlore.toml"), "broken").unwrap();
    let (code, text, errors) = complete(&root, &["show", "ep-"]);
    assert_eq!((code, &*text, &*errors), (0, "", ""));
}

#[test]
fn local_calls_of_commands_are_audited_if_the_audit_is_on() {
    let team = team("sqlite");
    let (code, _, errors) = output(team.command().env("REQLORE_AUDIT", "on").args(["list"]));
    assert_eq!(code, 0, "{errors}");
    let rows = team.rows();
    let actions: Vec<&Value> = rows.iter().map(|row| &row["action"]).collect();
    assert!(actions.iter().any(|action| *action == "list_items"), "{actions:?}");
}

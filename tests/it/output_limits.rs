//! Output that cannot be written: a file size limit, a full or closed standard output.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::{BINARY, Server, call, project, reqlore, request, text};
use crate::init::{Place, output};
use crate::stdio::closed_output;

const TOKEN: &str = "reqlore_pat_0123456789ab_0123456789abcdefghijABCDEFGHIJ01_012345";

/// Commands that print, with their exit code if they can.
const PRINTING: [&[&str]; 17] = [
    &["--help"],
    &["--version"],
    &["token", "--help"],
    &["--print-config"],
    &["check"],
    &["check", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["history", "EP-001"],
    &["user", "list"],
    &["token", "list", "--json"],
    &["audit", "list"],
    &["audit", "verify"],
    &["completions", "bash"],
    &["init", "--dry-run", "--client", "cursor"],
    &["model", "list"],
    &["demo"],
];

/// A project with one epic and a user, whose files are in Git's place.
fn place() -> Place {
    let place = Place::new();
    let added = place.command().args(["user", "add", "ann", "--role", "user"]).status().unwrap();
    assert!(added.success());
    let mut server = Server::start_as(place.command(), &place.at("project"));
    server.data("create_epic", json!({ "title": "A", "priority": 1 }));
    server.end();
    place
}

/// Ruling: a full or closed standard output ends with another exit code than 0.
#[test]
fn full_or_closed_output_fails_every_printing_command() {
    let place = place();
    for arguments in PRINTING {
        let started = || {
            let mut command = place.command();
            command.args(arguments).env("TMPDIR", place.at("bin")).stderr(Stdio::piped());
            command.env_remove("REQLORE_CACHE");
            command
        };
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let outputs = [(Stdio::from(full), false), (Stdio::from(closing_pipe()), true)];
        for (standard_output, is_closed) in outputs {
            let ended = started().stdout(standard_output).output().unwrap();
            let errors = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {errors}");
            let is_named = errors.contains("standard output: ") || errors.contains("printed");
            // A reader such as `head` leaves when it has enough.
            let is_silent = is_closed && !errors.contains("Broken pipe");
            assert!(is_named || is_silent, "{arguments:?}: {errors}");
        }
    }
    // A full standard error has nowhere to be reported, and is not a panic.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let status = place.command().arg("--no-such-flag").stderr(full).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// The writing end of a pipe without a reader.
fn closing_pipe() -> std::process::ChildStdin {
    let mut child = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = child.stdin.take().unwrap();
    child.wait().unwrap();
    pipe
}

#[test]
fn stdio_server_fails_if_a_due_answer_is_not_written() {
    let place = place();
    let ping = request(1, "ping", json!({})).to_string() + "\n";
    let input = place.write("project/ping", ping);
    let serve = |input: Stdio, output: Stdio| {
        let ended = place.command().stdin(input).stdout(output).stderr(Stdio::piped()).output();
        let ended = ended.unwrap();
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let file = || Stdio::from(fs::File::open(&input).unwrap());
    let (code, errors) = serve(file(), full());
    assert!(code == Some(1) && errors.contains("standard input and output: "), "{errors}");
    // Nothing was due.
    assert_eq!(serve(Stdio::null(), full()).0, Some(0));
    assert_eq!(serve(file(), Stdio::null()).0, Some(0));
    // The client goes away while an answer is due.
    let mut server = Server::start_as(place.command(), &place.at("project"));
    drop(std::mem::replace(&mut server.output, std::io::BufReader::new(closed_output())));
    // Its input may be closed already.
    let sent = std::io::Write::write_all(server.input.as_mut().unwrap(), b"{}\n");
    let status = server.child.wait().unwrap();
    assert!(sent.is_err() || status.code().is_some(), "{status}");
}

/// A server whose files may have at most this many blocks of 512 bytes or 1 KiB.
fn limited(root: &Path, storage: &str, blocks: u32) -> Command {
    let mut command = Command::new("sh");
    let script = format!("ulimit -f {blocks}; exec \"$0\" \"$@\"");
    command.args(["-c", &script, BINARY, "--storage", storage, "--root"]).arg(root);
    command.env("REQLORE_CACHE", "off").env("HOME", "/nonexistent");
    command
}

/// A write beyond `ulimit -f` would end the process with SIGXFSZ.
#[test]
fn write_beyond_the_file_size_limit_is_an_error() {
    for (storage, blocks) in [("fs", 64), ("sqlite", 1_024), ("sled", 4_096)] {
        let project = project();
        let root = project.path();
        let mut first = Server::start_with(root, &["--storage", storage]);
        first.data("create_epic", json!({ "title": "First", "priority": 1 }));
        first.end();
        let mut server = Server::start_as(limited(root, storage, blocks), root);
        let mut acknowledged = 1;
        let mut refusal = None;
        for id in 0..200 {
            let long = "word ".repeat(9_900);
            let arguments = json!({ "title": "Long", "priority": 1, "description": long });
            let answer = server.ask(&call(id, "create_epic", root, arguments));
            if answer["result"]["isError"] == true || answer.get("error").is_some() {
                refusal = Some(answer);
                break;
            }
            acknowledged += 1;
        }
        let refusal = refusal.unwrap_or_else(|| panic!("{storage}: no write reached the limit"));
        // It still answers, and a restart without the limit has all acknowledged writes. sled cannot
        // read a page that it must split first, because splitting writes.
        let listed = server.call("list_epics", json!({}));
        let is_expected = text(&listed).contains("First")
            || storage == "sled" && text(&listed).contains("check it and restart the server");
        assert!(is_expected, "{storage}: {refusal} {listed}");
        server.end();
        let mut again = Server::start_with(root, &["--storage", storage]);
        let listed = again.data("list_epics", json!({ "limit": 100 }));
        assert!(listed["total"].as_u64().unwrap() >= acknowledged, "{storage}: {listed}");
    }
}

#[test]
fn backup_beyond_the_file_size_limit_is_an_error() {
    let project = project();
    let mut server = Server::start(project.path());
    let long = "word ".repeat(9_900);
    for _ in 0..4 {
        let arguments = json!({ "title": "Long", "priority": 1, "description": long });
        server.data("create_epic", arguments);
    }
    server.end();
    let mut command = limited(project.path(), "fs", 32);
    let (code, _, errors) = output(command.arg("backup").arg(project.path().join("x.dump")));
    assert_eq!(code, 1, "{errors}");
    let kept = fs::symlink_metadata(project.path().join("x.dump"));
    assert!(kept.is_err(), "half a backup is not left behind");
}

/// A token or a password in the wrong place of the command line.
#[test]
fn start_errors_mask_tokens_and_passwords() {
    let place = Place::new();
    let secret = TOKEN.split('_').nth(3).unwrap();
    let url = "postgres://ann:hunter2hunter2@db.example.org/x";
    for flag in
        ["--storage", "--root", "--config", "--transport", "--listen", "--toolsets", "--log"]
    {
        for value in [TOKEN, url, &format!("sqlite:/dev/null/{TOKEN}/x.db")] {
            for command in ["serve", "check", "doctor", "user", "--print-config"] {
                let mut command_line = vec![command];
                if command == "user" {
                    command_line.push("list");
                }
                command_line.extend([flag, value]);
                let (code, shown, errors) = output(place.command().args(&command_line));
                let all = format!("{shown}{errors}");
                // A plain file name is a valid place of a database.
                assert!(code != 0 || command == "--print-config", "{command_line:?} {all}");
                assert!(!all.contains(secret) && !all.contains("hunter2"), "{all}");
            }
        }
    }
    for words in [
        vec![TOKEN],
        vec!["token", "revoke", TOKEN],
        vec!["history", TOKEN],
        vec!["model", "install", TOKEN],
        vec!["copy", "--from", TOKEN, "--to", url],
        vec!["backup", TOKEN, "--storage", url],
        vec!["backup", url],
        vec!["restore", url],
        vec!["docsets", "import", url],
        vec!["check", "--storage", "sqlite:postgres://ann:hunter2hunter2@db.example.org/x"],
        vec!["init", "--config", url, "--client", "cursor", "--yes"],
        vec!["init", "--client", TOKEN],
        vec!["init", "--storage", TOKEN, "--client", "cursor", "--yes"],
        vec!["serve", &format!("--{TOKEN}")],
    ] {
        let (code, shown, errors) = output(place.command().args(&words));
        let all = format!("{shown}{errors}");
        assert!(code != 0 && !all.contains(secret) && !all.contains("hunter2"), "{words:?} {all}");
    }
    for variable in ["REQLORE_STORAGE", "REQLORE_AUDIT", "REQLORE_ROOTS", "REQLIX_REQ_REL_PATH"] {
        let (_, shown, errors) = output(reqlore().arg("serve").env(variable, format!("/{TOKEN}")));
        assert!(!format!("{shown}{errors}").contains(secret), "{variable} {errors}");
    }
}

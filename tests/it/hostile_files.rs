//! Links, loops, pipes, sockets, devices and unusual files in a repository neither hang nor end a
//! command or a tool, and nothing outside of the project is read or changed.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};

use crate::client::{DIRECTORY, Server, reqlore};
use crate::init::{Place, output};

/// Only in files outside of the project.
const SECRET: &str = "zanzibar";
/// Folders with documents, and the first part of names there.
const AREAS: [(&str, &str); 4] = [
    (DIRECTORY, "general"),
    (".reqlore/backlog/epics", "EP-1"),
    (".reqlore/backlog/requirements/sub", "REQ-1"),
    (".ixchel/decisions", "dec-1"),
];

/// Puts each kind of unusual file into a folder. The names look like those of documents.
fn write_unusual_files(folder: &Path, start: &str, outside: &Path) {
    fs::create_dir_all(folder).unwrap();
    let at = |number: u32| folder.join(format!("{start}{number:02}.md"));
    symlink(outside.join("secret.md"), at(1)).unwrap();
    symlink(at(2).file_name().unwrap(), at(2)).unwrap();
    symlink("/dev/zero", at(3)).unwrap();
    symlink("/proc/self/environ", at(4)).unwrap();
    symlink("missing", at(5)).unwrap();
    symlink(outside, folder.join("linked")).unwrap();
    symlink("..", folder.join("loop")).unwrap();
    mknodat(CWD, at(6), FileType::Fifo, Mode::RWXU, 0).unwrap();
    drop(UnixListener::bind(at(7)).unwrap());
    // Needs root.
    let _ = mknodat(CWD, at(8), FileType::CharacterDevice, Mode::RWXU, rustix::fs::makedev(1, 5));
    fs::create_dir(at(9)).unwrap();
    fs::write(at(10), b"\xff\xfe\x00").unwrap();
    fs::write(at(11), "").unwrap();
    let huge = fs::File::create(at(12)).unwrap();
    huge.set_len(9 << 20).unwrap();
    let invalid = [start.as_bytes(), b"\xff\n.md"].concat();
    fs::write(folder.join(OsStr::from_bytes(&invalid)), "x").unwrap();
    fs::write(folder.join(format!("{start}13-{}.md", "x".repeat(240))), "x").unwrap();
    for twin in ["Twin", "twin"] {
        fs::write(folder.join(format!("{start}14-{twin}.md")), "---\ntitle: x\n---\n").unwrap();
    }
    let mut deep = folder.to_owned();
    for _ in 0..60 {
        deep.push("deep");
    }
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join(format!("{start}15.md")), "---\ntitle: x\n---\n").unwrap();
    for number in 1_000..1_500 {
        fs::write(at(number), format!("---\ntitle: many {number}\n---\n**1.** x\n")).unwrap();
    }
}

fn write_repository(place: &Place) {
    let (project, outside) = (place.at("project"), place.at("outside"));
    place.write("outside/secret.md", format!("---\ntitle: {SECRET}\n---\n**1.** {SECRET}\n"));
    for (folder, start) in AREAS {
        write_unusual_files(&project.join(folder), start, &outside);
    }
    symlink(&outside, project.join(".reqlore/backlog/stories")).unwrap();
    symlink("criteria", project.join(".reqlore/backlog/criteria")).unwrap();
    fs::create_dir(project.join(".knowledge")).unwrap();
    mknodat(CWD, project.join(".knowledge/config.yaml"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    mknodat(CWD, project.join(".mcp.json"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("/dev/zero", project.join("CLAUDE.md")).unwrap();
    symlink(outside.join("secret.md"), project.join("AGENTS.md")).unwrap();
}

fn command(place: &Place) -> Command {
    let mut command = reqlore();
    command.env("HOME", place.at("home")).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    command.current_dir(place.at("project"));
    command
}

/// Names and contents outside of the project.
fn outside_files(place: &Place) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(place.at("outside")).unwrap() {
        let path = entry.unwrap().path();
        files.push((path.display().to_string(), fs::read(&path).unwrap()));
    }
    files
}

/// Arguments that make each tool read or write the unusual files.
fn tool_arguments(tool: &str) -> Vec<Value> {
    let mut numbers: Vec<u32> = (1..=15).collect();
    numbers.push(1_200);
    let by = |argument: &str, starts: &[&str], other: &Value| {
        let mut calls = Vec::new();
        for start in starts {
            for number in &numbers {
                let mut call = other.clone();
                call[argument] = json!(format!("{start}{number:02}"));
                calls.push(call);
            }
        }
        calls
    };
    let story = json!({ "user_story": "US-001", "title": "x", "priority": 1, "type": "Data" });
    let titled = json!({ "title": "x" });
    let section = json!({ "index": "1", "text": "x" });
    match tool {
        "get_item" | "get_history" | "delete_item" => {
            by("reference", &["EP-1", "REQ-1", "dec-1", "general"], &json!({}))
        }
        "ixchel_show" | "ixchel_graph" | "ixchel_context" => by("id", &["dec-1"], &json!({})),
        "ixchel_update" => by("id", &["dec-1"], &titled),
        "epic_hierarchy" => by("epic", &["EP-1"], &json!({})),
        "update_epic" => by("epic", &["EP-1"], &titled),
        "update_requirement" => by("requirement", &["REQ-1"], &titled),
        "reqlix_get_requirements" => by("section", &["general"], &json!({})),
        "reqlix_set_requirements" => by("section", &["general"], &section),
        "reqlix_delete_requirements" => by("section", &["general"], &json!({ "index": "1" })),
        "create_epic" => vec![json!({ "title": "x", "priority": 1 })],
        "create_user_story" => by("epic", &["EP-1"], &json!({ "title": "x", "priority": 1 })),
        "create_requirement" => vec![story],
        "search_global" | "search_requirements" | "ixchel_search" => {
            vec![json!({ "query": "many" }), json!({ "query": SECRET })]
        }
        "ixchel_create" => vec![json!({ "kind": "decision", "title": "x" })],
        "search_docs" => {
            vec![json!({ "docset": "x", "keywords": ["k"], "generalized_keywords": [] })]
        }
        // The arguments may be incomplete: the tool must answer.
        _ => vec![json!({ "user_story": "US-001" }), json!({})],
    }
}

#[test]
fn hostile_files_hang_no_tool_and_lead_nowhere() {
    let place = Place::new();
    write_repository(&place);
    let before = outside_files(&place);
    let mut server = Server::start_as(command(&place), &place.at("project"));
    let listed = server.request("tools/list", json!({}));
    let mut tools = Vec::new();
    for tool in listed["result"]["tools"].as_array().unwrap() {
        tools.push(tool["name"].as_str().unwrap().to_owned());
    }
    tools.sort_by_key(|tool| (tool.contains("delete"), tool.clone()));
    for tool in &tools {
        for arguments in tool_arguments(tool) {
            let mut answer = server.call(tool, arguments.clone());
            while answer.get("id").is_none() {
                answer = server.answer();
            }
            let is_answered = answer.get("result").is_some() || answer.get("error").is_some();
            let text = answer.to_string();
            let is_leaked = arguments["query"] != SECRET && text.contains(SECRET);
            assert!(is_answered && !is_leaked, "{tool} {arguments}: {text}");
            assert!(!text.contains("internal error"), "{tool} {arguments}: {text}");
        }
    }
    let found = server.data("list_epics", json!({}));
    assert!(found["total"].as_u64().unwrap() > 400, "the other files are still read");
    let (_, status) = server.end();
    assert!(status.success());
    assert_eq!(outside_files(&place), before);
}

#[test]
fn hostile_files_hang_no_command_and_lead_nowhere() {
    let place = Place::new();
    write_repository(&place);
    let before = outside_files(&place);
    for line in [
        "check",
        "check --json",
        "check --fix",
        "doctor",
        "doctor --json",
        "history EP-101",
        "history EP-106",
        "history general06",
        "backup ../a.dump",
        "copy --from fs --to sqlite",
        "copy --from fs --to sled",
        "init --dry-run --client claude-code",
        "init --yes --client claude-code",
        "init --check",
        "init --remove --yes",
        "docsets import .knowledge/config.yaml --storage sqlite",
        "user list",
        "token list",
        "audit list",
        "audit verify",
        "restore .knowledge/config.yaml --storage sqlite:x.db",
    ] {
        let mut command = command(&place);
        command.args(line.split(' ')).stdin(Stdio::null());
        let (code, text, errors) = output(&mut command);
        assert!((0..=2).contains(&code), "{line}: {code} {text}{errors}");
        assert!(!(text + &errors).contains(SECRET), "{line}");
        assert!(!errors.contains("panic"), "{line}: {errors}");
    }
    assert_eq!(outside_files(&place), before);
}

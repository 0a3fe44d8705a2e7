//! Writes are synced before the answer, in the required order of system calls.
//!
//! A killed process loses no unsynced data, so kill tests cannot check `fsync`. These tests trace
//! system calls with strace. If it is missing they skip, or fail when `REQLORE_STRACE` is set.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::client::{BINARY, Server, call, project, set};

/// The system calls of a server that handles these requests, in order: `sync NAME`, `rename`,
/// `mkdir NAME` and `answer`. `None` if strace is missing.
fn trace_system_calls(root: &Path, storage: &str, requests: &[String]) -> Option<Vec<String>> {
    if !has_strace() {
        return None;
    }
    let (input, log) = (root.join("input"), root.join("trace"));
    std::fs::write(&input, requests.join("\n") + "\n").unwrap();
    let calls = "trace=fsync,fdatasync,renameat2,mkdirat,write";
    let status = Command::new("strace")
        .args(["-f", "-y", "-s", "40", "-e", calls, "-o"])
        .arg(&log)
        .arg(BINARY)
        .args(["--log", "off", "--storage", storage, "--root"])
        .arg(root)
        .stdin(std::fs::File::open(input).unwrap())
        .stdout(Stdio::null())
        .status();
    assert!(status.unwrap().success());
    let log = std::fs::read_to_string(log).unwrap();
    Some(log.lines().filter_map(parse_event).collect())
}

fn has_strace() -> bool {
    let version = Command::new("strace").arg("--version").stdout(Stdio::null()).status();
    let is_found = version.is_ok_and(|status| status.success());
    if !is_found {
        assert!(!is_required(), "strace is missing");
        println!("strace is missing; nothing was tested");
    }
    is_found
}

#[expect(clippy::disallowed_methods, reason = "CI requires strace")]
fn is_required() -> bool {
    std::env::var_os("REQLORE_STRACE").is_some()
}

/// Parses one line of the trace: the process ID and the start of the call.
fn parse_event(line: &str) -> Option<String> {
    let call = line.split_once(' ')?.1.trim_start();
    let file_name =
        || call.split_once('>').and_then(|(path, _)| path.rsplit_once('/')).map(|(_, n)| n);
    let normalized = |file_name: &str| {
        if file_name.starts_with(".reqlore-") { "TEMP".to_owned() } else { file_name.to_owned() }
    };
    if call.starts_with("fsync(") || call.starts_with("fdatasync(") {
        return Some(format!("sync {}", normalized(file_name()?)));
    }
    if call.starts_with("renameat2(") {
        return Some("rename".to_owned());
    }
    if call.starts_with("mkdirat(") {
        return Some(format!("mkdir {}", call.split('"').nth(1)?));
    }
    (call.starts_with("write(") && call.contains("jsonrpc")).then(|| "answer".to_owned())
}

// Reliability 5.1, P1
#[test]
fn files_write_syncs_file_and_folder_before_answer() {
    let project = project();
    let root = project.path();
    let write = |id, text| call(id, "reqlix_set_requirements", root, set(1, text)).to_string();
    let arguments = json!({ "section": "general", "index": "1" });
    let delete = call(3, "reqlix_delete_requirements", root, arguments).to_string();
    let Some(events) = trace_system_calls(root, "fs", &[write(1, "one"), write(2, "two"), delete])
    else {
        return;
    };
    let folder = root.file_name().unwrap().to_string_lossy().into_owned();
    let two_files = ["sync TEMP", "sync TEMP", "rename", "rename", "sync requirements"];
    let root = format!("sync {folder}");
    let (parent, grandparent) = (["mkdir docs", &root], ["mkdir development", "sync docs"]);
    let created =
        [parent.as_slice(), &grandparent, &["mkdir requirements", "sync development"]].concat();
    // The local history. Later files are staged in its folder.
    let history =
        ["mkdir .reqlore", &root, "mkdir local", "sync .reqlore", "sync history", "answer"];
    let replaced = ["sync TEMP", "rename", "sync requirements", "sync local", "answer"];
    // The section file is removed and the list changes: one file is staged, two names move.
    let deleted = ["sync TEMP", "rename", "rename", "sync requirements", "sync local", "answer"];
    let expected = [&*created, &two_files, history.as_slice(), &replaced, &deleted].concat();
    assert_eq!(events, expected);
}

// Reliability 5.2 and 5.3, F2, F3, F5, P1
#[test]
fn databases_write_syncs_before_answer() {
    for (storage, file) in [("sqlite", "reqlore.db-wal"), ("sled", "db")] {
        let project = project();
        let write = |id: u8| {
            let text = format!("text {id}");
            call(id, "reqlix_set_requirements", project.path(), set(id, &text)).to_string()
        };
        let Some(events) =
            trace_system_calls(project.path(), storage, &[write(1), write(2), write(3)])
        else {
            return;
        };
        let sync = format!("sync {file}");
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let answers = events.split(|event| *event == "answer");
        let synced: Vec<bool> = answers.map(|before| before.contains(&sync.as_str())).collect();
        assert_eq!(synced[..3], [true; 3], "{storage}: {events:?}");
    }
}

// Reliability 5.3: an unsynced folder entry loses the new file with all its content
#[test]
fn databases_new_file_is_synced_before_first_answer() {
    for (storage, wanted) in
        [("sqlite", vec!["sync local"]), ("sled", vec!["sync db", "sync sled", "sync local"])]
    {
        let project = project();
        let hello = call(1, "reqlix_get_instructions", project.path(), json!({})).to_string();
        let Some(events) = trace_system_calls(project.path(), storage, &[hello]) else { return };
        let first = events.iter().position(|event| event == "answer").unwrap();
        for sync in wanted {
            assert!(events[..first].iter().any(|event| event == sync), "{sync} in {events:?}");
        }
    }
}

#[test]
fn sled_failed_last_sync_is_logged_with_exit_code() {
    if !has_strace() {
        return;
    }
    let project = project();
    let mut server = Server::start_with(project.path(), &["--storage", "sled"]);
    server.call("reqlix_set_requirements", set(1, "kept"));
    assert!(server.end().1.success());
    let (input, log) = (project.path().join("input"), project.path().join("trace"));
    let read = call(1, "reqlix_get_requirements", project.path(), json!({ "section": "general" }));
    std::fs::write(&input, format!("{read}\n")).unwrap();
    // strace counts the calls of each thread. The first sync of `db` in the main thread is that of
    // the storage; the second one is sled's own, which panics.
    for (file, first) in [("acknowledged", 1), ("db", 2)] {
        let output = Command::new("strace")
            .args(["-f", "-e", "trace=fsync", "-o"])
            .arg(&log)
            .args(["-e", &format!("inject=fsync:error=EIO:when={first}+"), "-P"])
            .arg(project.path().join(".reqlore/local/sled").join(file))
            .arg(BINARY)
            .args(["--storage", "sled", "--root"])
            .arg(project.path())
            .stdin(std::fs::File::open(&input).unwrap())
            .output()
            .unwrap();
        let (answers, errors) = (output.stdout, String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&answers).contains("kept"), "{errors}");
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("the database was not closed"), "{errors}");
        assert_eq!(errors.contains("ERROR panic"), file == "db", "{errors}");
    }
}

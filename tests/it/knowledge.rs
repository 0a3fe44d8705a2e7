//! Knowledge graph tools of the real binary on real files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{BINARY, Server, project, reqlore, request, text};

fn write_file(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes an entity whose tag names its repository.
fn write_entity(root: &Path, id: &str, tag: &str) {
    let path = root.join(format!(".ixchel/decisions/{id}.md"));
    write_file(&path, &format!("---\nid: {id}\ntags: [{tag}]\n---\n# About {tag}\n"));
}

#[track_caller]
fn list_tags(server: &mut Server, arguments: Value) -> Vec<String> {
    let answer = server.data("ixchel_tags", arguments);
    let tags = answer["tags"].as_array().unwrap().iter();
    tags.map(|tag| tag["tag"].as_str().unwrap().to_owned()).collect()
}

// S4: AC-001.1, AC-001.2, AC-001.3, AC-002.1, AC-002.2, AC-002.3, AC-002.4, AC-002.5, AC-004.1
#[test]
fn knowledge_tools_are_listed_and_notifications_ignored() {
    let project = project();
    let mut server = Server::start(project.path());
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    });
    let initialized = server.request("initialize", hello);
    assert!(initialized["result"]["capabilities"]["tools"].is_object());
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/of_another_kind"}"#);
    let list = server.ask(&request(2, "tools/list", json!({})));
    assert_eq!(list["id"], 2, "{list}");
    let tools = list["result"]["tools"].as_array().unwrap();
    for name in ["sync", "search", "show", "graph", "context", "tags"] {
        assert!(tools.iter().any(|tool| tool["name"] == format!("ixchel_{name}")), "{name}");
    }
    assert_eq!(server.data("ixchel_sync", json!({}))["scanned"], 0);
}

// A model passes the folder that it works in.
#[test]
fn knowledge_created_in_a_subfolder_belongs_to_the_project() {
    let project = project();
    fs::create_dir_all(project.path().join("packages/app")).unwrap();
    let mut server = Server::start(project.path());
    let absolute = project.path().join("packages/app");
    for repo in ["packages/app", absolute.to_str().unwrap()] {
        let idea = json!({ "kind": "idea", "title": "Zebra", "repo": repo });
        server.data("ixchel_create", idea);
    }
    let tags = server.data("ixchel_tags", json!({ "untagged": true }));
    assert_eq!(tags["total"], 2, "{tags}");
    assert_eq!(fs::read_dir(&absolute).unwrap().count(), 0);
}

// S4: AC-003.1
#[test]
fn project_root_any_path_inside_selects_the_repository() {
    let (default_project, other) = (project(), project());
    write_entity(default_project.path(), "dec-0001", "own");
    write_entity(other.path(), "dec-0002", "other");
    let nested = other.path().join("packages/app/src");
    write_file(&nested.join("main.rs"), "fn main() {}\n");
    let links = project();
    symlink(&nested, links.path().join("src")).unwrap();
    let mut server = Server::start(default_project.path());
    for path in [
        other.path().to_owned(),
        other.path().join("packages"),
        nested.clone(),
        nested.join("main.rs"),
        other.path().join(".ixchel"),
        other.path().join(".ixchel/decisions"),
        other.path().join(".ixchel/decisions/dec-0002.md"),
        links.path().join("src"),
    ] {
        assert_eq!(
            list_tags(&mut server, json!({ "repo": path })),
            ["other"],
            "{}",
            path.display()
        );
        let entity = server.data("ixchel_show", json!({ "repo": path, "id": "dec-0002" }));
        assert_eq!(entity["path"], ".ixchel/decisions/dec-0002.md");
    }
    assert_eq!(list_tags(&mut server, json!({})), ["own"]);
    assert_eq!(
        list_tags(&mut server, json!({ "repo": default_project.path().join(".ixchel") })),
        ["own"]
    );
    // The nearest repository takes precedence.
    write_entity(&other.path().join("packages"), "dec-0003", "near");
    assert_eq!(list_tags(&mut server, json!({ "repo": nested })), ["near"]);
    let answer = server.call("ixchel_tags", json!({ "repo": other.path().join("nowhere") }));
    assert!(text(&answer).contains("repo: "), "{answer}");
}

// S4: AC-003.2
#[test]
fn project_root_without_repository_is_the_working_directory() {
    let outer = project();
    write_entity(outer.path(), "dec-0001", "here");
    let inner = outer.path().join("packages/app");
    fs::create_dir_all(&inner).unwrap();
    for folder in [outer.path(), &inner] {
        let mut command = reqlore();
        command.current_dir(folder);
        let mut server = Server::start_as(command, folder);
        assert_eq!(list_tags(&mut server, json!({})), ["here"], "{}", folder.display());
    }
}

#[test]
fn project_root_search_stops_at_roots_and_home() {
    let outer = project();
    let outer = outer.path().canonicalize().unwrap();
    write_entity(&outer, "dec-0001", "outer");
    let inner = outer.join("roots/project/src");
    fs::create_dir_all(&inner).unwrap();
    let start = |variable: &str, value: &Path| {
        let mut command = reqlore();
        command.env(variable, value).arg("--root").arg(&inner);
        Server::start_as(command, &inner)
    };
    let roots = outer.join("roots");
    let mut restricted = start("REQLORE_ROOTS", &roots);
    assert_eq!(list_tags(&mut restricted, json!({})), [""; 0]);
    assert_eq!(list_tags(&mut restricted, json!({ "repo": roots.join("project") })), [""; 0]);
    let answer = restricted.call("ixchel_tags", json!({ "repo": outer }));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    // A symbolic link does not extend the permitted roots.
    symlink(&outer, inner.join("up")).unwrap();
    let answer = restricted.call("ixchel_tags", json!({ "repo": inner.join("up") }));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    write_entity(&roots, "dec-0002", "roots");
    assert_eq!(list_tags(&mut restricted, json!({})), ["roots"]);
    fs::remove_dir_all(roots.join(".ixchel")).unwrap();
    let mut at_home = start("HOME", &outer);
    assert_eq!(list_tags(&mut at_home, json!({})), [""; 0]);
    let mut unrestricted = start("HOME", Path::new("/nonexistent"));
    assert_eq!(list_tags(&mut unrestricted, json!({})), ["outer"]);
}

#[test]
fn knowledge_broken_file_is_a_warning_with_its_line() {
    let project = project();
    write_entity(project.path(), "dec-0001", "one");
    let mut server = Server::start(project.path());
    assert_eq!(server.data("ixchel_sync", json!({}))["warnings"], json!([]));
    let broken = "---\nid: dec-0002\ntags: [a, b\ntitle: x\n---\nA broken brontosaurus.\n";
    write_file(&project.path().join(".ixchel/decisions/dec-0002.md"), broken);
    write_file(&project.path().join(".ixchel/decisions/folder.md/dec-0003.md"), "# Three\n");
    fs::write(project.path().join(".ixchel/not-text.md"), b"\xff\xfe").unwrap();
    symlink("/etc/passwd", project.path().join(".ixchel/link.md")).unwrap();
    let synced = server.data("ixchel_sync", json!({}));
    assert_eq!((&synced["scanned"], &synced["added"]), (&json!(5), &json!(4)), "{synced}");
    let warnings = synced["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 3, "{synced}");
    let location = ".ixchel/decisions/dec-0002.md:";
    let warning =
        warnings.iter().find_map(|warning| warning.as_str().unwrap().strip_prefix(location));
    let line: usize = warning.unwrap().split(':').next().unwrap().parse().unwrap();
    assert!((3..=4).contains(&line), "{synced}");
    assert!(!synced.to_string().contains("root:"), "a link is not followed");
    assert_eq!(list_tags(&mut server, json!({})), ["one"]);
    assert_eq!(server.data("ixchel_show", json!({ "id": "dec-0002" }))["raw"], broken);
    let answer = server.data("ixchel_search", json!({ "query": "brontosaurus" }));
    assert_eq!(answer["hits"][0]["id"], "dec-0002", "{answer}");
}

/// The tree has more folders on one level than the process may open files.
#[test]
fn knowledge_wide_tree_uses_few_file_handles() {
    let project = project();
    for number in 0..200 {
        write_file(
            &project.path().join(format!(".ixchel/f{number}/n.md")),
            "---\ntags: [wide]\n---\n",
        );
    }
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" --root \"$1\"", BINARY]).arg(project.path());
    command.env_clear().env("HOME", "/nonexistent").env("PATH", "/usr/bin:/bin");
    command.env("REQLORE_CACHE", "off");
    let mut server = Server::start_as(command, project.path());
    let answer = server.data("ixchel_tags", json!({}));
    assert_eq!(answer["tags"], json!([{ "tag": "wide", "count": 200 }]));
    write_file(&project.path().join(".ixchel/f7/n.md"), "---\ntags: [new]\n---\n");
    assert_eq!(list_tags(&mut server, json!({})), ["new", "wide"]);
}

/// A project that takes long enough to index to be cancelled, and its number of entities.
fn large_project() -> (TempDir, u32) {
    let (project, count) = (project(), 4_000);
    let words = "an apple and a plum, a pear and a quince, a cherry and a grape\n".repeat(20);
    for number in 0..count {
        let path = project.path().join(format!(".ixchel/{}/n{number}.md", number % 10));
        write_file(&path, &format!("# Number {number}\n\n{words}"));
    }
    (project, count)
}

fn sync_request(id: u64) -> String {
    let params =
        json!({ "name": "ixchel_sync", "arguments": {}, "_meta": { "progressToken": "t" } });
    request(id, "tools/call", params).to_string()
}

// S4: AC-002.1
#[test]
fn knowledge_sync_reports_progress_and_can_be_cancelled() {
    let (project, count) = large_project();
    let mut server = Server::start(project.path());
    server.send(sync_request(1));
    let first = server.answer();
    assert_eq!(first["method"], "notifications/progress", "{first}");
    assert_eq!(first["params"]["progressToken"], "t");
    let number = |line: &Value, key: &str| line["params"][key].as_f64();
    assert_eq!(number(&first, "total"), Some(f64::from(count)));
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 }
    });
    server.send(cancel.to_string());
    server.send(r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#);
    let mut progress = Vec::new();
    let mut answered = false;
    while !answered {
        let line = server.answer();
        answered = line["id"] == 2;
        assert!(answered || line["id"] == 1 || line["id"].is_null(), "{line}");
        progress.extend(number(&line, "progress"));
    }
    assert!(progress.iter().all(|done| *done < f64::from(count)), "the sync was not cancelled");
    // The documents that are indexed remain, and the build goes on.
    server.send(sync_request(3));
    let mut totals = Vec::new();
    let answer = loop {
        let line = server.answer();
        if line["id"] == 3 {
            break line;
        }
        totals.extend(number(&line, "total"));
    };
    assert_eq!(answer["result"]["structuredContent"]["scanned"], count, "{answer}");
    let expected = vec![f64::from(count); totals.len()];
    assert_eq!(totals, expected);
    let answer = server.data("ixchel_search", json!({ "query": "number 3999" }));
    assert_eq!(answer["hits"][0]["id"], "9/n3999", "{answer}");
}

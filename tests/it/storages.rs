//! Database storages: start-up, sharing between processes, damage, projects and import.

use std::fs;

use serde_json::json;

use crate::backlog::create_epic;
use crate::client::{Server, call, project, reqlore, set, text};
use crate::copy_and_backup::{run, run_ok};

fn database_files() -> [(&'static str, &'static str); 2] {
    [("sqlite", "reqlore.db"), ("sled", "sled/db")]
}

/// A project with one requirement in the database at its default path.
fn project_with_requirement(storage: &str) -> tempfile::TempDir {
    let project = project();
    let mut server = Server::start_with(project.path(), &["--storage", storage]);
    server.call("reqlix_set_requirements", set(1, "kept"));
    assert!(server.end().1.success());
    project
}

#[test]
fn database_default_folder_is_ignored_by_git() {
    for (storage, file) in database_files() {
        let project = project_with_requirement(storage);
        let local = project.path().join(".reqlore/local");
        assert!(local.join(file).is_file(), "{storage}");
        assert_eq!(fs::read_to_string(local.join(".gitignore")).unwrap(), "*\n");
        let names: Vec<_> = fs::read_dir(project.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "the project has no other files: {names:?}");
        let mut server = Server::start_with(project.path(), &["--storage", storage]);
        let answer = server.call("reqlix_get_requirements", json!({ "section": "general" }));
        assert!(text(&answer).starts_with("**1.** kept\n"), "{storage}: {answer}");
    }
}

// Reliability 5.3
#[test]
fn sled_folder_serves_one_process() {
    let project = project_with_requirement("sled");
    let mut first = Server::start_with(project.path(), &["--storage", "sled"]);
    first.call("reqlix_get_instructions", json!({}));
    let second = reqlore().args(["--storage", "sled", "--root"]).arg(project.path()).output();
    let second = second.unwrap();
    assert_eq!((second.status.code(), second.stdout.len()), (Some(1), 0), "{second:?}");
    assert!(String::from_utf8_lossy(&second.stderr).contains("another process"), "{second:?}");
    let answer = first.call("reqlix_get_requirements", json!({ "section": "general" }));
    assert!(text(&answer).starts_with("**1.** kept\n"), "{answer}");
}

#[test]
fn sqlite_two_servers_see_each_others_commits_at_once() {
    let project = project();
    let start = || Server::start_with(project.path(), &["--storage", "sqlite"]);
    let (mut first, mut second) = (start(), start());
    for round in 1..=5 {
        let written = format!("round {round}");
        first.call("reqlix_set_requirements", set(1, &written));
        let answer = second.call("reqlix_get_requirements", json!({ "section": "general" }));
        assert!(text(&answer).starts_with(&format!("**1.** {written}\n")), "{answer}");
        let hits = second.call("ixchel_search", json!({ "query": "round", "sections": true }));
        let snippet = &hits["result"]["structuredContent"]["hits"][0]["snippet"];
        assert!(snippet.as_str().unwrap().contains(&written), "{hits}");
        std::mem::swap(&mut first, &mut second);
    }
}

// Catalogue 130; Reliability P1
#[test]
fn database_removed_while_open_refuses_writes() {
    for (storage, file) in database_files() {
        let project = project_with_requirement(storage);
        let mut server = Server::start_with(project.path(), &["--storage", storage]);
        server.call("reqlix_get_instructions", json!({}));
        fs::remove_file(project.path().join(".reqlore/local").join(file)).unwrap();
        let refused = server.call("reqlix_set_requirements", set(2, "lost?"));
        assert_eq!(refused["result"]["isError"], true, "{storage}: {refused}");
        assert!(text(&refused).contains("while it was open"), "{storage}: {refused}");
        assert!(!text(&refused).contains(project.path().to_str().unwrap()), "{refused}");
        // The server keeps answering requests.
        let listed = server.call("list_docsets", json!({}));
        assert_eq!(listed["id"], 0, "{storage}");
    }
}

#[test]
fn database_truncated_is_refused_and_names_the_fix() {
    for (storage, file) in database_files() {
        let project = project_with_requirement(storage);
        let path = project.path().join(".reqlore/local").join(file);
        let length = fs::metadata(&path).unwrap().len();
        fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(length / 2 + 7).unwrap();
        let before = fs::read(&path).unwrap();
        let mut command = reqlore();
        command.args(["--storage", storage, "--root"]).arg(project.path());
        let arguments = json!({ "section": "general" });
        let call = call(1, "reqlix_get_requirements", project.path(), arguments);
        fs::write(project.path().join("call"), format!("{call}\n")).unwrap();
        command.stdin(fs::File::open(project.path().join("call")).unwrap());
        let output = command.output().unwrap();
        let output_text = [output.stdout, output.stderr].concat();
        let output_text = String::from_utf8_lossy(&output_text);
        assert!(output_text.contains("reqlore restore"), "{storage}: {output_text}");
        assert!(!output_text.contains("panicked"), "{storage}: {output_text}");
        let has_same_length = fs::metadata(&path).unwrap().len() >= before.len() as u64;
        assert!(has_same_length, "{storage}: the file was truncated");
    }
}

#[test]
fn sqlite_copy_of_a_running_server_needs_accept_loss() {
    let project = project();
    let root = project.path();
    let mut server = Server::start_with(root, &["--storage", "sqlite"]);
    assert_eq!(create_epic(&mut server, "One"), "EP-001");
    let file = root.join(".reqlore/local/reqlore.db");
    fs::copy(&file, root.join("copy.db")).unwrap();
    let (code, refused) = run(root, "check --storage sqlite:copy.db");
    assert_eq!(code, 1, "{refused}");
    let words = ["copy.db: its -wal file is missing", "restore a backup", "check --accept-loss"];
    assert!(words.iter().all(|word| refused.contains(word)), "{refused}");
    // Following the message: `restore` alone would only repeat it.
    assert!(refused.contains("move its files away and restore"), "{refused}");
    run_ok(root, "backup backup.dump --storage sqlite");
    let (_, repeated) = run(root, "restore backup.dump --storage sqlite:copy.db");
    assert!(repeated.contains("move its files away and restore"), "{repeated}");
    fs::rename(root.join("copy.db"), root.join("away.db")).unwrap();
    run_ok(root, "restore backup.dump --storage sqlite:copy.db");
    run_ok(root, "check --storage sqlite:copy.db");
    for suffix in ["db", "db-wal", "db-shm", "db-commits"] {
        let _ = fs::remove_file(root.join("copy").with_extension(suffix));
    }
    fs::rename(root.join("away.db"), root.join("copy.db")).unwrap();
    let (code, open) = run(root, "check --storage sqlite --accept-loss");
    assert!(code == 1 && open.contains("stop the server and try again"), "{open}");
    // The side file of the same database has the number that the copy lacks.
    fs::copy(file.with_extension("db-commits"), root.join("copy.db-commits")).unwrap();
    let (code, accepted) = run(root, "check --storage sqlite:copy.db --accept-loss");
    let expected = "Accepted: its -wal file is missing, so commits may be missing.\nNew items get numbers \
                    after EP-001.\nNothing to fix.\n";
    assert_eq!((code, &*accepted), (0, expected));
    let (code, again) = run(root, "check --storage sqlite:copy.db --accept-loss");
    assert!(code == 1 && again.contains("no loss to accept"), "{again}");
    let audit = run_ok(root, "audit list --storage sqlite:copy.db");
    assert!(audit.contains("check --accept-loss") && audit.contains("EP-001"), "{audit}");
    let copy = format!("sqlite:{}", root.join("copy.db").display());
    let mut copy = Server::start_with(root, &["--storage", &copy]);
    assert_eq!(create_epic(&mut copy, "Two"), "EP-002", "its number is not issued again");
}

#[test]
fn database_of_0_bytes_is_refused() {
    let project = project();
    fs::write(project.path().join("empty.db"), "").unwrap();
    for command in ["check", "check --accept-loss", "user list", "backup dump"] {
        let (code, refused) = run(project.path(), &format!("{command} --storage sqlite:empty.db"));
        assert_eq!(code, 1, "{command}: {refused}");
        assert!(refused.contains("is empty") || refused.contains("is an empty file"), "{refused}");
    }
    assert_eq!(fs::read(project.path().join("empty.db")).unwrap(), b"");
}

#[test]
fn sled_older_copy_is_refused_until_its_loss_is_accepted() {
    let project = project_with_requirement("sled");
    let sled = project.path().join(".reqlore/local/sled");
    let older = fs::read(sled.join("db")).unwrap();
    let mut server = Server::start_with(project.path(), &["--storage", "sled"]);
    for number in 1..=2 {
        let created = server.data("create_epic", json!({ "title": "E", "priority": 1 }));
        assert_eq!(created["reference_id"], format!("EP-00{number}"));
    }
    assert!(server.end().1.success());
    for entry in fs::read_dir(&sled).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("snap.") {
            fs::remove_file(path).unwrap();
        }
    }
    fs::write(sled.join("db"), older).unwrap();
    let (code, output) = run(project.path(), "check --storage sled");
    assert_eq!(code, 1, "{output}");
    assert!(output.contains("lacks changes that were acknowledged"), "{output}");
    assert!(output.contains("`reqlore restore`") && output.contains("--accept-loss"), "{output}");
    let accepted = run_ok(project.path(), "check --storage sled --accept-loss");
    assert!(accepted.contains("New items get numbers after EP-002."), "{accepted}");
    let rows = run_ok(project.path(), "audit list --storage sled");
    assert!(rows.contains("lacks changes that were acknowledged"), "{rows}");
    let mut server = Server::start_with(project.path(), &["--storage", "sled"]);
    let created = server.data("create_epic", json!({ "title": "E", "priority": 1 }));
    assert_eq!(created["reference_id"], "EP-003");
}

#[test]
fn database_keeps_configured_projects() {
    let project = project();
    let other = crate::client::project();
    let root = other.path().canonicalize().unwrap();
    let settings = format!("[projects.other]\nroot = {:?}\n", root.display().to_string());
    fs::write(project.path().join("reqlore.toml"), settings).unwrap();
    let file = project.path().join("reqlore.toml");
    let named = ["--storage", "sqlite", "--config", file.to_str().unwrap()];
    let mut server = Server::start_with(project.path(), &named);
    let mut write = |root: &str| {
        let arguments = json!({ "project_root": root, "section": "a", "index": "1", "text": root });
        server.call("reqlix_set_requirements", arguments)
    };
    for project_name in ["other", root.to_str().unwrap()] {
        let written = write(project_name);
        assert_eq!(written["result"]["structuredContent"]["project"], "other", "{written}");
    }
    let unknown = crate::client::project();
    let refused = write(unknown.path().to_str().unwrap());
    assert_eq!(refused["result"]["isError"], true, "{refused}");
    assert!(
        text(&refused).contains("default (") && text(&refused).contains("other ("),
        "{refused}"
    );
    let answer = server.call("reqlix_get_requirements", json!({ "section": "a" }));
    let none = "No requirements in this section.\n";
    assert!(text(&answer).starts_with(none), "the default project has none: {answer}");
}

#[test]
fn knowledge_sync_imports_the_root_into_the_database() {
    for (storage, _) in database_files() {
        let project = project();
        let folder = project.path().join(".ixchel/decisions");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.md"), "---\nid: dec-1d2c8f\ntitle: One\n---\n").unwrap();
        let mut server = Server::start_with(project.path(), &["--storage", storage]);
        let unknown = server.call("ixchel_show", json!({ "id": "dec-1d2c8f" }));
        assert_eq!(unknown["result"]["isError"], true, "not imported yet: {unknown}");
        let sync = |server: &mut Server| {
            let counts = server.data("ixchel_sync", json!({}));
            ["scanned", "added", "modified", "deleted"].map(|key| counts[key].as_u64().unwrap())
        };
        assert_eq!(sync(&mut server), [1, 1, 0, 0], "{storage}");
        fs::write(folder.join("a.md"), "---\nid: dec-1d2c8f\ntitle: Two\n---\n").unwrap();
        fs::write(folder.join("b.md"), "# B\n").unwrap();
        assert_eq!(sync(&mut server), [2, 1, 1, 0], "{storage}");
        fs::remove_file(folder.join("b.md")).unwrap();
        assert_eq!(sync(&mut server), [1, 0, 0, 1], "{storage}");
        let entity = server.data("ixchel_show", json!({ "id": "dec-1d2c8f" }));
        assert_eq!(entity["title"], "Two", "{storage}");
    }
}

// Ruling 5: knowledge that tools wrote into a database survives an import of files.
#[test]
fn knowledge_sync_keeps_what_tools_wrote() {
    for (storage, _) in database_files() {
        let project = project();
        let folder = project.path().join(".ixchel/decisions");
        fs::create_dir_all(&folder).unwrap();
        for name in ["a", "b", "c"] {
            fs::write(folder.join(format!("{name}.md")), "# Old\n").unwrap();
        }
        let mut server = Server::start_with(project.path(), &["--storage", storage]);
        server.data("ixchel_sync", json!({}));
        let new =
            json!({ "kind": "decision", "title": "New", "links": { "affects": ["decisions/a"] } });
        let created = server.data("ixchel_create", new);
        server.data("ixchel_update", json!({ "id": "decisions/a", "body": "Ours." }));
        server.data("delete_item", json!({ "reference": "decisions/b" }));
        fs::remove_file(folder.join("c.md")).unwrap();
        let synced = server.data("ixchel_sync", json!({}));
        assert_eq!(synced["warnings"], json!([]), "{storage}");
        let shown = server.data("ixchel_show", json!({ "id": created["id"] }));
        assert_eq!(shown["version"], created["version"], "{storage}");
        let updated = server.data("ixchel_show", json!({ "id": "decisions/a" }));
        assert!(updated["raw"].as_str().unwrap().contains("Ours."), "{storage}: {updated}");
        for name in ["decisions/b", "decisions/c"] {
            let deleted = server.call("ixchel_show", json!({ "id": name }));
            assert_eq!(deleted["result"]["isError"], true, "{storage}: {deleted}");
        }
    }
}

#[test]
fn docsets_import_writes_into_the_database() {
    let project = project();
    let file = project.path().join("docsets.yaml");
    let import = |text: &str| {
        fs::write(&file, text).unwrap();
        let mut command = reqlore();
        command.args(["--storage", "sqlite", "docsets", "import"]).arg(&file);
        let output = command.arg("--root").arg(project.path()).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(printed).unwrap())
    };
    let mut server = Server::start_with(project.path(), &["--storage", "sqlite"]);
    let listed = server.call("list_docsets", json!({}));
    assert!(text(&listed).contains("there is no .knowledge/config.yaml in"), "{listed}");
    let (code, output) = import("docsets:\n  react: {version: 18.2}\n");
    assert_eq!(code, 0, "{output}");
    assert!(output.starts_with("1 docset, imported (version "), "{output}");
    let listed = server.call("list_docsets", json!({}));
    assert!(text(&listed).contains("\"react\""), "a running server lists it: {listed}");
    let (code, output) = import("docsets:\n  react: [\n");
    assert_eq!(code, 1, "{output}");
    let (_, output) = import("docsets:\n  vue:\n");
    assert!(output.contains("replacing the previous configuration"), "{output}");
}

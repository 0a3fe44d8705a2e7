//! `reqlore doctor`: each finding seen once, good and bad; no run changes the tree.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use expect_test::expect_file;
use serde_json::{Value, json};

use crate::client::{BINARY, DIRECTORY, Server, set};
use crate::init::Place;
use crate::repository;

/// A project, a home, and a PATH with this program.
pub(crate) struct Bed(Place);

impl Deref for Bed {
    type Target = Place;

    fn deref(&self) -> &Place {
        &self.0
    }
}

pub(crate) struct Report {
    pub(crate) code: i32,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let bed = Self(Place::new());
        std::fs::create_dir(bed.at("tmp")).unwrap();
        // No more than that, or the clients of this machine would be found.
        symlink("/bin/sh", bed.at("bin/sh")).unwrap();
        bed.program("bin/git", "PATH=/usr/local/bin:/usr/bin:/bin exec git \"$@\"");
        bed
    }

    /// A program on the PATH.
    pub(crate) fn program(&self, path: &str, script: &str) {
        self.write(path, format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(self.at(path), PermissionsExt::from_mode(0o755)).unwrap();
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = self.0.command();
        command.env_remove("REQLORE_CACHE").env("TMPDIR", self.at("tmp"));
        command
    }

    pub(crate) fn doctor(&self, arguments: &[&str]) -> Report {
        self.doctor_with(arguments, &[])
    }

    /// Runs both forms, which have the same findings, and checks that nothing was changed.
    pub(crate) fn doctor_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Report {
        let before = tree(&self.at(""));
        let run = |form: &[&str]| {
            let mut command = self.command();
            command.arg("doctor").args(form).args(arguments).envs(variables.iter().copied());
            let output = command.output().unwrap();
            assert_eq!(String::from_utf8_lossy(&output.stderr), "");
            (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
        };
        let ((code, text), (other, json)) = (run(&[]), run(&["--json"]));
        assert_eq!(code, other, "{text}");
        let json: Value = serde_json::from_str(&json).unwrap();
        for finding in json["findings"].as_array().unwrap() {
            assert!(text.contains(finding["message"].as_str().unwrap()), "{finding} in {text}");
        }
        assert_eq!(tree(&self.at("")), before, "it changed something");
        Report { code, text, json }
    }

    /// Runs git in the project, without the user's configuration.
    pub(crate) fn git(&self, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.at("project")).env("HOME", self.at("home"));
        assert!(command.output().unwrap().status.success(), "git {arguments:?}");
    }

    /// Creates an epic in a server with these settings, which still runs.
    fn serve_with_epic(&self, arguments: &[&str]) -> Server {
        let mut command = self.command();
        command.args(arguments);
        let mut server = Server::start_as(command, &self.at("project"));
        server.call("create_epic", json!({ "title": "x", "priority": 1 }));
        server
    }
}

impl Report {
    /// A finding of this area and state that says this.
    pub(crate) fn assert(&self, area: &str, state: &str, message: &str) {
        let is_it = |finding: &Value| {
            finding["area"] == area
                && finding["state"] == state
                && finding.to_string().contains(message)
        };
        let found = self.json["findings"].as_array().unwrap().iter().any(is_it);
        assert!(found, "no {state} of {area} says {message:?} in\n{}", self.text);
    }

    pub(crate) fn assert_problem(&self, area: &str, message: &str) {
        self.assert(area, "problem", message);
        assert_eq!(self.code, 1);
    }
}

/// Mode, time of change and contents of everything below a folder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        let mut state = (found.mode(), found.mtime(), found.mtime_nsec(), vec![]);
        if path.to_string_lossy().ends_with("-shm") || path.ends_with("tmp") {
            // Readers of SQLite write the one, and each start creates a folder in the other.
            state = (found.mode(), 0, 0, vec![]);
        } else if found.is_file() {
            state.3 = std::fs::read(&path).unwrap();
        }
        if found.is_dir() {
            all.extend(tree(&path));
        }
        all.insert(path, state);
    }
    all
}

const BLOCK: &str = "<!-- reqlore:begin -->\nx\n<!-- reqlore:end -->\n";

#[test]
fn a_sound_project_has_nothing_to_fix() {
    let bed = Bed::new();
    bed.git(&["init", "-q"]);
    bed.write("project/AGENTS.md", BLOCK);
    bed.write("project/.mcp.json", r#"{"mcpServers":{"reqlore":{"command":"reqlore"}}}"#);
    let mut server = bed.serve_with_epic(&[]);
    server.call("reqlix_set_requirements", set(1, "text"));
    server.call("ixchel_search", json!({ "query": "x" }));
    server.end();
    let report = bed.doctor(&[]);
    assert_eq!((report.code, report.text.ends_with("\nNothing to fix.\n")), (0, true));
    for (area, message) in [
        ("settings", "there is no reqlore.toml"),
        ("program", "`reqlore` on PATH is this program"),
        ("storage", "sections: 1, items in the backlog: 1, entities: 0"),
        ("storage", "`reqlore check` finds no problem"),
        ("search", "the index is in"),
        ("permissions", "secrets are private"),
        ("clients", "`reqlore` starts and answers as reqlore"),
        ("instructions", "it mentions Reqlore"),
        ("git", "documents are shared"),
    ] {
        report.assert(area, "ok", message);
    }
    bed.write(&format!("project/{DIRECTORY}/order.md"), "**2.** b\n\n**1.** a\n");
    bed.doctor(&[]).assert("storage", "warning", "`reqlore check` finds ");
}

#[test]
fn an_empty_folder_without_home_and_path_gives_a_report() {
    let bed = Bed::new();
    let mut command = bed.command();
    command.env_clear().env("TMPDIR", bed.at("tmp")).args(["doctor", "--json"]);
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let binary = Path::new(BINARY).canonicalize().unwrap();
    let shown = shown.replace(&*bed.at("project").to_string_lossy(), "PROJECT");
    let shown = shown.replace(&*binary.to_string_lossy(), "BINARY");
    let shown = shown.replace(&*binary.parent().unwrap().to_string_lossy(), "FOLDER");
    assert_eq!(output.status.code(), Some(0), "{shown}");
    expect_file![repository().join("tests/snapshots/doctor.json")].assert_eq(&shown);
}

#[test]
fn wrong_settings_are_a_problem_and_do_not_stop_other_checks() {
    let bed = Bed::new();
    bed.write("project/reqlore.toml", "wrap = 80\n");
    let report = bed.doctor(&[]);
    report.assert_problem("settings", "unknown setting \\\"wrap\\\"");
    report.assert("storage", "note", "not checked");
    report.assert("clients", "note", "no client was found");
    assert!(report.text.ends_with("\n1 problem.\n"), "{}", report.text);
    for (file, arguments, message) in [
        ("log = \"loud\"\n", &[][..], "is not a level"),
        ("", &["--config", "none.toml"], "none.toml can't be read"),
        ("", &["--root", "/no/such/folder"], "root: /no/such/folder"),
        ("\"", &[], "reqlore.toml: line 1, column"),
        (&"#".repeat(2 << 20), &[], "it is larger than 1 MiB"),
    ] {
        bed.write("project/reqlore.toml", file);
        bed.doctor(arguments).assert_problem("settings", message);
    }
    bed.write("project/reqlore.toml", "read_only = true\n");
    bed.doctor(&[]).assert("settings", "ok", "reqlore.toml is used");
}

#[test]
fn a_settings_file_is_neither_waited_for_nor_quoted() {
    let bed = Bed::new();
    let file = bed.at("project/reqlore.toml");
    symlink("/dev/zero", &file).unwrap();
    bed.doctor(&[]).assert_problem("settings", "it is not a regular file");
    std::fs::remove_file(&file).unwrap();
    bed.write("home/.netrc", "login a\npassword of-another\n");
    symlink(bed.at("home/.netrc"), &file).unwrap();
    let report = bed.doctor(&[]);
    report.assert_problem("settings", "reqlore.toml: line 1, column 7");
    assert!(!report.text.contains("login a"), "{}", report.text);
    // A named file may be a pipe, as a shell's `<(…)` is.
    std::fs::remove_file(&file).unwrap();
    let mut command = bed.command();
    command.args(["--config", "/dev/stdin", "--print-config"]);
    let mut echo = Command::new("echo");
    let mut echo = echo.arg("read_only = true").stdout(Stdio::piped()).spawn().unwrap();
    let output = command.stdin(echo.stdout.take().unwrap()).output().unwrap();
    echo.wait().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && told.contains("read_only = true"), "{told}");
}

#[test]
fn another_program_on_the_path_is_named_and_not_started() {
    let bed = Bed::new();
    std::fs::remove_file(bed.at("bin/reqlore")).unwrap();
    bed.doctor(&[]).assert("program", "warning", "no reqlore on PATH");
    bed.program("bin/reqlore", "echo x > \"$HOME/started\"");
    bed.doctor(&[]).assert("program", "note", "not this program; it was not started");
}

#[test]
fn each_storage_is_checked_and_never_created() {
    for storage in ["fs:data", "sqlite", "sled"] {
        let bed = Bed::new();
        bed.doctor(&["--storage", storage]).assert("storage", "note", "does not exist yet");
        std::fs::create_dir_all(bed.at("project/data")).unwrap();
        let server = bed.serve_with_epic(&["--storage", storage]);
        let (state, message) = match storage {
            "sled" => ("note", "is served by another process".to_owned()),
            "sqlite" => ("ok", ", schema 2; sections: 0, items in the backlog: 1".to_owned()),
            _ => ("ok", "items in the backlog: 1".to_owned()),
        };
        bed.doctor(&["--storage", storage]).assert("storage", state, &message);
        server.end();
        let ended = if storage == "sled" { "no process has it open" } else { &message };
        bed.doctor(&["--storage", storage]).assert("storage", "ok", ended);
    }
}

#[test]
fn a_storage_that_cannot_be_opened_is_a_problem() {
    let bed = Bed::new();
    bed.write("project/other.db", "no database ".repeat(100));
    let report = bed.doctor(&["--storage", "sqlite:other.db"]);
    report.assert_problem("storage", "other.db: is not an SQLite database");
    bed.write("project/folder/file", "x");
    bed.doctor(&["--storage", "sled:folder"]).assert_problem("storage", "holds other files");
    bed.write("project/.reqlore/local/incomplete", "x");
    bed.doctor(&[]).assert_problem("storage", "a copy into this folder did not finish");
    std::fs::remove_file(bed.at("project/.reqlore/local/incomplete")).unwrap();
    bed.write("project/.reqlore/local/journal", "x");
    bed.doctor(&[]).assert("storage", "note", "a change is in progress, or was interrupted");
    // An empty file is one that the next server fills.
    bed.write("project/empty.db", "");
    bed.doctor(&["--storage", "sqlite:empty.db"]).assert("storage", "note", "has schema 0");
}

#[test]
fn leftovers_of_a_killed_server_stay() {
    let bed = Bed::new();
    let sqlite = ["--storage", "sqlite"];
    let mut server = bed.serve_with_epic(&sqlite);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    bed.doctor(&sqlite).assert("storage", "ok", "items in the backlog: 1");
    // As after a restart of the machine, or in a copy.
    std::fs::remove_file(bed.at("project/.reqlore/local/reqlore.db-shm")).unwrap();
    bed.doctor(&sqlite).assert("storage", "note", "a change is in progress, or was interrupted");
}

#[test]
fn wide_permissions_are_reported() {
    let bed = Bed::new();
    bed.write("project/.reqlore/local/identity.json", "{}");
    let set = |path: &str, mode| {
        std::fs::set_permissions(bed.at(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("project/.reqlore/local", 0o755);
    set("project/.reqlore/local/identity.json", 0o640);
    let report = bed.doctor(&[]);
    report.assert("permissions", "warning", "run `chmod 700 .reqlore/local`");
    report.assert("permissions", "warning", "run `chmod 600 .reqlore/local/identity.json`");
    std::fs::remove_dir_all(bed.at("project/.reqlore/local")).unwrap();
    symlink(bed.at("home"), bed.at("project/.reqlore/local")).unwrap();
    bed.doctor(&[]).assert_problem("permissions", ".reqlore/local is a symbolic link");
    // Below a file no user can write, root included.
    bed.write("home/file", "");
    let cache = bed.at("home/file/cache");
    let cache = [("REQLORE_CACHE", cache.to_str().unwrap())];
    bed.doctor_with(&[], &cache).assert("permissions", "warning", "file/cache can't be written");
    bed.doctor(&["--storage", "sled:../home/file/x"])
        .assert_problem("permissions", "serve with --read-only");
}

#[test]
fn index_and_model_are_reported() {
    let bed = Bed::new();
    let off = [("REQLORE_SEARCH_MODEL", "off"), ("REQLORE_CACHE", "off")];
    let report = bed.doctor_with(&[], &off);
    report.assert("search", "note", "ranks by words only");
    report.assert("search", "note", "no cache folder");
    let named = [("REQLORE_SEARCH_MODEL", "all-minilm-l6-v2")];
    bed.doctor_with(&[], &named).assert_problem("search", "is not installed");
    let report = bed.doctor(&[]);
    report.assert("search", "note", "reqlore model install");
    report.assert("search", "note", "there is no index yet");
    let mut server = bed.serve_with_epic(&[]);
    server.call("search_global", json!({ "query": "x" }));
    server.end();
    let search = bed.at("home/.cache/reqlore/search");
    let folder = std::fs::read_dir(search).unwrap().next().unwrap().unwrap().path();
    bed.doctor(&[]).assert("search", "ok", "the index is in");
    std::fs::write(folder.join("manifest"), "x").unwrap();
    bed.doctor(&[]).assert("search", "note", "unfinished, old or damaged");
}

#[test]
fn agents_md_is_checked() {
    let bed = Bed::new();
    bed.doctor(&[]).assert("instructions", "note", "root has no AGENTS.md");
    for (text, state, message) in [
        (&b"# Mine\n"[..], "note", "does not mention Reqlore"),
        (b"<!-- reqlore:begin -->\n", "warning", "is broken"),
        (b"\xff", "warning", "is not UTF-8"),
    ] {
        bed.write("project/AGENTS.md", text);
        bed.doctor(&[]).assert("instructions", state, message);
    }
    // Claude Code reads another file.
    bed.write("project/AGENTS.md", BLOCK);
    bed.write("project/.claude/settings.json", "{}");
    bed.doctor(&[]).assert("instructions", "ok", "it mentions Reqlore");
    bed.write("project/CLAUDE.md", "Be brief.\n");
    bed.doctor(&[]).assert("instructions", "warning", "`@AGENTS.md`");
}

#[test]
fn ignored_files_are_reported() {
    let bed = Bed::new();
    bed.doctor(&[]).assert("git", "note", "not in a Git repository");
    bed.git(&["init", "-q"]);
    bed.doctor(&[]).assert("git", "ok", "in a Git repository");
    bed.write("project/.reqlore/local/identity.json", "{}");
    bed.doctor(&[]).assert_problem("git", ".reqlore/local is not ignored");
    bed.write("project/.gitignore", ".reqlore/\n*.toml\n");
    bed.write("project/.reqlore/backlog/epics/EP-001.md", "---\ntitle: x\n---\n");
    bed.write("project/reqlore.toml", "");
    let report = bed.doctor(&[]);
    report.assert("git", "warning", ".reqlore/backlog is ignored");
    report.assert("git", "warning", "reqlore.toml is ignored");
    let rule = "`git check-ignore --no-index -v .reqlore/backlog/requirements/REQ-001-000000.md`";
    report.assert("git", "warning", rule);
    bed.write("project/wishes/AGENTS.md", "");
    bed.write("project/.gitignore", ".reqlore/local/\nwishes\n");
    let own = [("REQLIX_REQ_REL_PATH", "wishes")];
    bed.doctor_with(&[], &own).assert("git", "warning", "wishes is ignored");
    bed.write("project/.gitignore", ".reqlore/local/\n");
    // A link out of the repository is not checked.
    symlink(bed.at("home"), bed.at("project/.ixchel")).unwrap();
    bed.doctor(&[]).assert("git", "ok", "documents are shared");
}

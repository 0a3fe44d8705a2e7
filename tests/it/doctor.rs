//! `reqlore doctor`: each result once, good and bad. No run changes a file.

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

/// A project, a home folder, and a PATH with this binary.
pub(crate) struct Machine(Place);

impl Deref for Machine {
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

impl Machine {
    pub(crate) fn new() -> Self {
        let machine = Self(Place::new());
        std::fs::create_dir(machine.at("tmp")).unwrap();
        // No other programs, or clients on this computer would be found.
        symlink("/bin/sh", machine.at("bin/sh")).unwrap();
        machine.program("bin/git", "PATH=/usr/local/bin:/usr/bin:/bin exec git \"$@\"");
        machine
    }

    /// Writes an executable script.
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

    /// Runs with text and JSON output, compares their results, and checks that no file changed.
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

    /// A running server with these settings and one epic.
    fn serve_with_epic(&self, arguments: &[&str]) -> Server {
        let mut command = self.command();
        command.args(arguments);
        let mut server = Server::start_as(command, &self.at("project"));
        server.call("create_epic", json!({ "title": "x", "priority": 1 }));
        server
    }
}

impl Report {
    /// Requires a result of this area and state that contains the message.
    pub(crate) fn assert(&self, area: &str, state: &str, message: &str) {
        let is_expected = |finding: &Value| {
            finding["area"] == area
                && finding["state"] == state
                && finding.to_string().contains(message)
        };
        let found = self.json["findings"].as_array().unwrap().iter().any(is_expected);
        assert!(found, "no {state} of {area} contains {message:?} in\n{}", self.text);
    }

    pub(crate) fn assert_problem(&self, area: &str, message: &str) {
        self.assert(area, "problem", message);
        assert_eq!(self.code, 1);
    }
}

/// Mode, modification time and content of everything below a folder.
fn tree(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, i64, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let found = path.symlink_metadata().unwrap();
        let mut state = (found.mode(), found.mtime(), found.mtime_nsec(), vec![]);
        if path.to_string_lossy().ends_with("-shm") || path.ends_with("tmp") {
            // SQLite readers write `-shm`, and each start of a server creates a folder in `tmp`.
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
fn doctor_of_a_valid_project_finds_nothing_to_fix() {
    let machine = Machine::new();
    machine.git(&["init", "-q"]);
    machine.write("project/AGENTS.md", BLOCK);
    machine.write("project/.mcp.json", r#"{"mcpServers":{"reqlore":{"command":"reqlore"}}}"#);
    let mut server = machine.serve_with_epic(&[]);
    server.call("reqlix_set_requirements", set(1, "text"));
    server.call("ixchel_search", json!({ "query": "x" }));
    server.end();
    let report = machine.doctor(&[]);
    assert_eq!((report.code, report.text.ends_with("\nNothing to fix.\n")), (0, true));
    for (area, message) in [
        ("settings", "no reqlore.toml"),
        ("program", "`reqlore` on PATH is this binary"),
        ("storage", "sections: 1, backlog items: 1, entities: 0"),
        ("storage", "`reqlore check` finds no problems"),
        ("search", "the index is in"),
        ("permissions", "secrets are private"),
        ("clients", "`reqlore` starts and answers as reqlore"),
        ("instructions", "has the Reqlore block"),
        ("git", "documents are shared"),
    ] {
        report.assert(area, "ok", message);
    }
    machine.write(&format!("project/{DIRECTORY}/order.md"), "**2.** b\n\n**1.** a\n");
    machine.doctor(&[]).assert("storage", "warning", "`reqlore check` finds ");
}

#[test]
fn doctor_without_home_and_path_prints_a_report() {
    let machine = Machine::new();
    let mut command = machine.command();
    command.env_clear().env("TMPDIR", machine.at("tmp")).args(["doctor", "--json"]);
    let output = command.output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let binary = Path::new(BINARY).canonicalize().unwrap();
    let shown = shown.replace(&*machine.at("project").to_string_lossy(), "PROJECT");
    let shown = shown.replace(&*binary.to_string_lossy(), "BINARY");
    let shown = shown.replace(&*binary.parent().unwrap().to_string_lossy(), "FOLDER");
    assert_eq!(output.status.code(), Some(0), "{shown}");
    expect_file![repository().join("tests/snapshots/doctor.json")].assert_eq(&shown);
}

#[test]
fn doctor_with_invalid_settings_runs_the_other_checks() {
    let machine = Machine::new();
    machine.write("project/reqlore.toml", "wrap = 80\n");
    let report = machine.doctor(&[]);
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
        machine.write("project/reqlore.toml", file);
        machine.doctor(arguments).assert_problem("settings", message);
    }
    machine.write("project/reqlore.toml", "read_only = true\n");
    machine.doctor(&[]).assert("settings", "ok", "settings from ");
}

#[test]
fn settings_file_does_not_block_and_is_not_quoted() {
    let machine = Machine::new();
    let file = machine.at("project/reqlore.toml");
    machine.write("home/.netrc", "login a\npassword of-another\n");
    for target in [Path::new("/dev/zero"), &machine.at("home/.netrc"), Path::new("missing")] {
        symlink(target, &file).unwrap();
        let report = machine.doctor(&[]);
        report.assert_problem("settings", "the link does not point to a file in the project");
        assert!(!report.text.contains("login a"), "{}", report.text);
        std::fs::remove_file(&file).unwrap();
    }
    let (code, _, _) = crate::init::output(Command::new("mkfifo").arg(&file));
    assert_eq!(code, 0);
    machine.doctor(&[]).assert_problem("settings", "it is not a regular file");
    std::fs::remove_file(&file).unwrap();
    machine.write("project/reqlore.toml", "login a\npassword of-another\n");
    let report = machine.doctor(&[]);
    report.assert_problem("settings", "reqlore.toml: line 1, column 7");
    assert!(!report.text.contains("login a"), "{}", report.text);
    // A file named by --config may be a pipe, such as a shell's `<(…)`.
    std::fs::remove_file(&file).unwrap();
    let mut command = machine.command();
    command.args(["--config", "/dev/stdin", "--print-config"]);
    let mut echo = Command::new("echo");
    let mut echo = echo.arg("read_only = true").stdout(Stdio::piped()).spawn().unwrap();
    let output = command.stdin(echo.stdout.take().unwrap()).output().unwrap();
    echo.wait().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && shown.contains("read_only = true"), "{shown}");
}

#[test]
fn doctor_does_not_start_another_program_on_path() {
    let machine = Machine::new();
    std::fs::remove_file(machine.at("bin/reqlore")).unwrap();
    machine.doctor(&[]).assert("program", "warning", "reqlore is not on PATH");
    machine.program("bin/reqlore", "echo x > \"$HOME/started\"");
    machine.doctor(&[]).assert("program", "note", "not this binary; it was not started");
}

#[test]
fn doctor_checks_each_storage_and_creates_none() {
    for storage in ["fs:data", "sqlite", "sled"] {
        let machine = Machine::new();
        machine.doctor(&["--storage", storage]).assert("storage", "note", "does not exist yet");
        std::fs::create_dir_all(machine.at("project/data")).unwrap();
        let server = machine.serve_with_epic(&["--storage", storage]);
        let (state, message) = match storage {
            "sled" => ("note", "is served by another process".to_owned()),
            "sqlite" => ("ok", "; sections: 0, backlog items: 1".to_owned()),
            _ => ("ok", "backlog items: 1".to_owned()),
        };
        machine.doctor(&["--storage", storage]).assert("storage", state, &message);
        server.end();
        let ended = if storage == "sled" { "no process has it open" } else { &message };
        machine.doctor(&["--storage", storage]).assert("storage", "ok", ended);
    }
}

#[test]
fn doctor_reports_a_storage_that_cannot_be_opened() {
    let machine = Machine::new();
    machine.write("project/other.db", "no database ".repeat(100));
    let report = machine.doctor(&["--storage", "sqlite:other.db"]);
    report.assert_problem("storage", "other.db: is not an SQLite database");
    machine.write("project/folder/file", "x");
    machine.doctor(&["--storage", "sled:folder"]).assert_problem("storage", "contains other files");
    machine.write("project/.reqlore/local/incomplete", "x");
    machine.doctor(&[]).assert_problem("storage", "a copy into this folder did not finish");
    std::fs::remove_file(machine.at("project/.reqlore/local/incomplete")).unwrap();
    machine.write("project/.reqlore/local/journal", "x");
    machine.doctor(&[]).assert("storage", "note", "a change is in progress or was interrupted");
    machine.write("project/empty.db", "");
    let report = machine.doctor(&["--storage", "sqlite:empty.db"]);
    report.assert_problem("storage", "empty.db: is an empty file");
}

#[test]
fn doctor_keeps_the_files_of_a_killed_server() {
    let machine = Machine::new();
    let sqlite = ["--storage", "sqlite"];
    let mut server = machine.serve_with_epic(&sqlite);
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    machine.doctor(&sqlite).assert("storage", "ok", "backlog items: 1");
    // As after a reboot, or in a copy.
    std::fs::remove_file(machine.at("project/.reqlore/local/reqlore.db-shm")).unwrap();
    machine.doctor(&sqlite).assert("storage", "note", "a change is in progress or was interrupted");
    std::fs::remove_file(machine.at("project/.reqlore/local/reqlore.db")).unwrap();
    let report = machine.doctor(&sqlite);
    report.assert_problem("storage", "is missing, but reqlore.db-commits is not");
}

#[test]
fn doctor_reports_wide_permissions() {
    let machine = Machine::new();
    machine.write("project/.reqlore/local/team.db", "{}");
    let set = |path: &str, mode| {
        std::fs::set_permissions(machine.at(path), PermissionsExt::from_mode(mode)).unwrap();
    };
    set("project/.reqlore/local", 0o755);
    set("project/.reqlore/local/team.db", 0o640);
    let report = machine.doctor(&[]);
    report.assert("permissions", "warning", "run `chmod 700 .reqlore/local`");
    report.assert("permissions", "warning", "run `chmod 600 .reqlore/local/team.db`");
    std::fs::remove_dir_all(machine.at("project/.reqlore/local")).unwrap();
    symlink(machine.at("home"), machine.at("project/.reqlore/local")).unwrap();
    machine.doctor(&[]).assert_problem("permissions", ".reqlore/local is a symbolic link");
    // A path below a file is not writable, even for root.
    machine.write("home/file", "");
    let cache = machine.at("home/file/cache");
    let cache = [("REQLORE_CACHE", cache.to_str().unwrap())];
    machine.doctor_with(&[], &cache).assert(
        "permissions",
        "warning",
        "file/cache can't be written",
    );
    machine
        .doctor(&["--storage", "sled:../home/file/x"])
        .assert_problem("permissions", "serve with --read-only");
}

#[test]
fn doctor_reports_index_and_model() {
    let machine = Machine::new();
    let off = [("REQLORE_SEARCH_MODEL", "off"), ("REQLORE_CACHE", "off")];
    let report = machine.doctor_with(&[], &off);
    report.assert("search", "note", "lexical ranking only");
    report.assert("search", "note", "no cache folder");
    let named = [("REQLORE_SEARCH_MODEL", "all-minilm-l6-v2")];
    machine.doctor_with(&[], &named).assert_problem("search", "is not installed");
    let report = machine.doctor(&[]);
    report.assert("search", "note", "reqlore model install");
    report.assert("search", "note", "there is no index yet");
    let mut server = machine.serve_with_epic(&[]);
    server.call("search_global", json!({ "query": "x" }));
    server.end();
    let search = machine.at("home/.cache/reqlore/search");
    let folder = std::fs::read_dir(search).unwrap().next().unwrap().unwrap().path();
    machine.doctor(&[]).assert("search", "ok", "the index is in");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::write(path.join("meta.json"), "x").unwrap();
        }
    }
    machine.doctor(&[]).assert("search", "note", "outdated or damaged");
}

#[test]
fn doctor_checks_agents_md() {
    let machine = Machine::new();
    machine.doctor(&[]).assert("instructions", "note", "no AGENTS.md");
    for (text, state, message) in [
        (&b"# Mine\n"[..], "note", "has no Reqlore block"),
        (b"<!-- reqlore:begin -->\n", "warning", "is broken"),
        (b"\xff", "warning", "not UTF-8 text"),
    ] {
        machine.write("project/AGENTS.md", text);
        machine.doctor(&[]).assert("instructions", state, message);
    }
    // Claude Code reads another file.
    machine.write("project/AGENTS.md", BLOCK);
    machine.write("project/.claude/settings.json", "{}");
    machine.doctor(&[]).assert("instructions", "ok", "has the Reqlore block");
    machine.write("project/CLAUDE.md", "Be brief.\n");
    machine.doctor(&[]).assert("instructions", "warning", "`@AGENTS.md`");
}

#[test]
fn doctor_reports_ignored_files() {
    let machine = Machine::new();
    machine.doctor(&[]).assert("git", "note", "not in a Git repository");
    machine.git(&["init", "-q"]);
    machine.doctor(&[]).assert("git", "ok", "in a Git repository");
    machine.write("project/.reqlore/local/team.db", "{}");
    machine.doctor(&[]).assert_problem("git", ".reqlore/local is not ignored");
    machine.write("project/.gitignore", ".reqlore/\n*.toml\n");
    machine.write("project/.reqlore/backlog/epics/EP-001.md", "---\ntitle: x\n---\n");
    machine.write("project/reqlore.toml", "");
    let report = machine.doctor(&[]);
    report.assert("git", "warning", ".reqlore/backlog is ignored");
    report.assert("git", "warning", "reqlore.toml is ignored");
    let rule = "`git check-ignore --no-index -v .reqlore/backlog/requirements/REQ-001-000000.md`";
    report.assert("git", "warning", rule);
    machine.write("project/wishes/AGENTS.md", "");
    machine.write("project/.gitignore", ".reqlore/local/\nwishes\n");
    let own = [("REQLIX_REQ_REL_PATH", "wishes")];
    machine.doctor_with(&[], &own).assert("git", "warning", "wishes is ignored");
    machine.write("project/.gitignore", ".reqlore/local/\n");
    // A link out of the repository is not checked.
    symlink(machine.at("home"), machine.at("project/.ixchel")).unwrap();
    machine.doctor(&[]).assert("git", "ok", "documents are shared");
}

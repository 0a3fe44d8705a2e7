//! `reqlore init`: output, written files, and their removal.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use reqlore_client_config::{Client, ClientEnvironment, ConfigScope, Platform, edit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{BINARY, Server, reqlore};

/// Modes and bytes (or link targets) by path.
pub(crate) type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A home folder and a project on a machine with no other programs.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        symlink(BINARY, folder.path().join("bin/reqlore")).unwrap();
        Self { folder }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        // Resolved, so that it equals paths in outputs.
        self.folder.path().canonicalize().unwrap().join(path)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = reqlore();
        command.env("HOME", self.at("home")).env("PATH", self.at("bin"));
        command.current_dir(self.at("project"));
        command
    }

    pub(crate) fn init(&self, arguments: &[&str]) -> (i32, String, String) {
        output(self.command().arg("init").args(arguments))
    }

    /// Runs init, which has to succeed. Returns its output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let (code, shown, errors) = self.init(arguments);
        assert_eq!(code, 0, "{arguments:?}: {shown}{errors}");
        shown
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    pub(crate) fn environment(&self) -> ClientEnvironment {
        ClientEnvironment {
            project: self.at("project"),
            home: self.at("home"),
            platform: Platform::Linux,
            path: vec![self.at("bin")],
            variables: Vec::new(),
        }
    }

    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        add(&self.at("home"), &mut tree);
        add(&self.at("project"), &mut tree);
        tree
    }
}

pub(crate) fn add(path: &Path, tree: &mut Tree) {
    let metadata = fs::symlink_metadata(path).unwrap();
    let bytes = match () {
        () if metadata.is_symlink() => {
            fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
        }
        () if metadata.is_file() => fs::read(path).unwrap(),
        () => Vec::new(),
    };
    tree.insert(path.to_owned(), (metadata.permissions().mode(), bytes));
    if metadata.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            add(&entry.unwrap().path(), tree);
        }
    }
}

pub(crate) fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Calls `check` for each client and scope with a file, with the arguments that select both.
fn each(mut check: impl FnMut(Client, ConfigScope, &[&str])) {
    let mut seen = 0;
    for client in Client::ALL {
        for scope in ConfigScope::ALL {
            if client.config_location(scope, &Place::new().environment()).is_ok() {
                check(client, scope, &["--client", client.name(), "--scope", scope.name()]);
                seen += 1;
            }
        }
    }
    assert!(seen > Client::ALL.len(), "{seen}");
}

/// The result of `initialize`.
pub(crate) fn initialize(server: &mut Server) -> Value {
    let answer = server.ask(&json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" }
        }
    }));
    answer["result"].clone()
}

/// A client's file as users write it: with comments, unknown keys, another server and CRLF.
fn written_by_hand(client: Client) -> String {
    let map = match client {
        Client::VsCode => "servers",
        Client::Zed => "context_servers",
        Client::OpenCode => "mcp",
        _ => "mcpServers",
    };
    let json = format!(
        "// mine\n{{\n\t\"unknown\": [1,2 ,3],\n\t\"{map}\": {{\n\t\t\"other\": {{\"command\": \
         \"other\"}}, // keep\n\t\t}},\n  /* last */ \"x\":null\n}}"
    );
    let toml = "# mine\nmodel = \"o9\"\n\n[mcp_servers.other]   # keep\ncommand = \"other\"\n\n\
                [unknown]\nx = [1,2 ,3]\n";
    let text = if client == Client::Codex { toml } else { &json };
    format!("\u{feff}{}", text.replace('\n', "\r\n"))
}

#[test]
fn init_remove_without_earlier_files_leaves_nothing() {
    each(|client, scope, arguments| {
        let place = Place::new();
        let before = place.tree();
        place.ok(&[arguments, &["--yes"]].concat());
        assert_ne!(place.tree(), before, "{client} {scope:?}");
        let again = place.ok(&[arguments, &["--check"]].concat());
        assert_eq!(again, "Nothing to change.\n", "{client} {scope:?}");
        place.ok(&[arguments, &["--remove"]].concat());
        assert_eq!(place.tree(), before, "{client} {scope:?}");
    });
}

#[test]
fn init_remove_restores_edited_files_to_the_byte() {
    each(|client, scope, arguments| {
        let place = Place::new();
        let file = client.config_location(scope, &place.environment()).unwrap().file;
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, written_by_hand(client)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        place.write("project/AGENTS.md", "# Ours\r\n\r\n- be kind\r\n\r\n## End\r\nno line end");
        let before = place.tree();
        place.ok(&[arguments, &["--yes"]].concat());
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("mine\r\n") && text.contains("[1,2 ,3]"), "{client}: {text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{client}: {text}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        // A second init with other options still restores the first state.
        place.ok(&[arguments, &["--yes", "--storage", "sqlite"]].concat());
        assert!(fs::read_to_string(&file).unwrap().contains("sqlite"), "{client}");
        place.ok(&["--remove"]);
        assert_eq!(place.tree(), before, "{client} {scope:?}");
    });
}

/// Program and arguments of the entry, as the client reads them.
pub(crate) fn entry(client: Client, scope: ConfigScope, place: &Place) -> Vec<String> {
    let found = client.config_location(scope, &place.environment()).unwrap();
    let text = fs::read_to_string(&found.file).unwrap();
    let entry = edit::find_entry(&text, found.slot).unwrap().unwrap();
    let words = match &entry["command"] {
        Value::Array(words) => words.clone(),
        program => {
            let arguments = entry["args"].as_array().cloned().unwrap_or_default();
            [vec![program.clone()], arguments].concat()
        }
    };
    let project = place.at("project");
    let variable = client.project_variable().unwrap_or("no variable");
    let word = |word: &Value| word.as_str().unwrap().replace(variable, project.to_str().unwrap());
    words.iter().map(word).collect()
}

#[test]
fn init_entry_starts_a_server_on_the_project() {
    each(|client, scope, arguments| {
        let place = Place::new();
        let settings = ["--storage", "sqlite", "--toolsets", "backlog", "--log", "error", "--yes"];
        place.ok(&[arguments, &settings].concat());
        let words = entry(client, scope, &place);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().env("PATH", place.at("bin"));
        command.env("HOME", place.at("home")).env("REQLORE_CACHE", "off");
        let is_in_project =
            client.config_location(scope, &place.environment()).unwrap().starts_in_project;
        command.current_dir(if is_in_project { place.at("project") } else { place.at("home") });
        let mut server = Server::start_as(command, &place.at("project"));
        assert_eq!(initialize(&mut server)["serverInfo"]["name"], "reqlore", "{arguments:?}");
        server.call("create_epic", json!({ "title": "x", "priority": 1 }));
        server.end();
        let database = place.at("project/.reqlore/local/reqlore.db");
        assert!(database.is_file(), "{arguments:?}: {words:?}");
    });
}

#[test]
fn init_dry_run_and_check_change_nothing() {
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{\n}\n");
    place.write("home/.claude/x", "");
    let before = place.tree();
    let (code, shown, errors) = place.init(&["--dry-run"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    assert!(shown.contains("── Cursor (project)\n--- .cursor/mcp.json\n"), "{shown}");
    assert!(shown.contains("--- /dev/null\n+++ .mcp.json\n"), "{shown}");
    let (code, shown, _) = place.init(&["--check"]);
    let missing = "missing: .mcp.json (Claude Code)\nmissing: .cursor/mcp.json (Cursor)\n\
                   missing: AGENTS.md (all assistants)\n";
    assert_eq!((code, shown.as_str()), (1, missing));
    // Without a terminal, init cannot ask.
    let (code, shown, errors) = place.init(&[]);
    assert_eq!(code, 1);
    assert!(shown.contains("+++ AGENTS.md") && errors.contains("pass --yes"), "{errors}");
    place.ok(&["--remove"]);
    assert_eq!(place.tree(), before);

    place.ok(&["--yes"]);
    let (code, shown, _) = place.init(&["--check", "--read-only"]);
    let stale = "stale: .mcp.json (Claude Code)\nstale: .cursor/mcp.json (Cursor)\n";
    assert_eq!((code, shown.as_str()), (1, stale));
}

#[test]
fn init_without_clients_shows_names_and_a_snippet() {
    let place = Place::new();
    let before = place.tree();
    let (code, shown, errors) = place.init(&["--yes"]);
    assert_eq!((code, shown.as_str()), (1, ""));
    assert!(errors.contains("claude-code, claude-desktop, cursor"), "{errors}");
    assert!(errors.contains("\"mcpServers\": { \"reqlore\""), "{errors}");
    let (code, shown, _) = place.init(&["--yes", "--json"]);
    let read: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!((code, &read["clients"], &read["files"]), (1, &json!([]), &json!([])));
    let (code, _, errors) = place.init(&["--client", "clippy"]);
    assert!(code == 2 && errors.contains("expected one of claude-code, "), "{errors}");
    assert_eq!(place.tree(), before);
}

#[test]
fn init_continues_after_a_client_that_fails() {
    let place = Place::new();
    let broken = place.write("project/.vscode/mcp.json", "{ \"servers\": { ");
    place.write("project/.zed/settings.json", [0xff, 0xfe, b'{', 0]);
    let names = ["vscode", "cursor", "claude-desktop", "zed"];
    let clients: Vec<&str> = names.iter().flat_map(|name| ["--client", name]).collect();
    let (code, shown, _) = place.init(&[&clients[..], &["--scope", "project", "--yes"]].concat());
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("cannot edit .vscode/mcp.json (VS Code): "), "{shown}");
    assert!(shown.contains("cannot configure Claude Desktop: "), "{shown}");
    assert!(shown.contains("(Zed): not UTF-8 text"), "{shown}");
    assert!(shown.contains("written: .cursor/mcp.json\n"), "{shown}");
    assert_eq!(fs::read_to_string(broken).unwrap(), "{ \"servers\": { ");
}

#[test]
fn init_create_writes_files_and_remove_deletes_them() {
    let place = Place::new();
    place.write("project/.knowledge/config.yaml", "docsets: {}\n");
    let before = place.tree();
    let all = ["--client", "cursor", "--create", "requirements,knowledge,ixchel"];
    place.ok(&[&all[..], &["--yes"]].concat());
    assert!(place.text("project/docs/development/requirements/AGENTS.md").contains("## Sections"));
    assert!(place.at("project/.ixchel/decisions/.gitkeep").is_file());
    assert_eq!(place.text("project/.knowledge/config.yaml"), "docsets: {}\n");
    let (code, _, errors) = place.init(&[&all[..], &["--yes", "--storage", "sqlite"]].concat());
    assert!(code == 2 && errors.contains("--create"), "{errors}");
    place.ok(&["--remove"]);
    assert_eq!(place.tree(), before);

    place.ok(&[&all[..], &["--yes"]].concat());
    let agents = place.at("project/docs/development/requirements/AGENTS.md");
    fs::write(&agents, "# Edited by the user\n").unwrap();
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("kept, because it was edited: docs/"), "{shown}");
    assert!(agents.is_file() && !place.at("project/.ixchel").is_dir());
}

#[test]
fn init_json_lists_clients_and_files() {
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{}");
    let read = |arguments: &[&str]| {
        let (_, shown, _) = place.init(&[arguments, &["--json"]].concat());
        serde_json::from_str::<Value>(&shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
    };
    let planned = read(&["--dry-run"]);
    assert_eq!(planned["clients"], json!([{ "name": "cursor", "title": "Cursor" }]));
    let file = &planned["files"][0];
    assert_eq!(file["clients"], json!(["cursor"]));
    assert_eq!(file["path"], json!(place.at("project/.cursor/mcp.json")));
    assert_eq!([&file["scope"], &file["action"]], ["project", "change"]);
    assert_eq!(file["written"], false);
    assert!(file["diff"].as_str().unwrap().contains("+    \"reqlore\""), "{file}");
    let done = read(&["--yes"]);
    assert_eq!(done["files"][1]["action"], "create");
    assert_eq!(done["files"][1]["written"], true);
    assert_eq!(read(&["--check"])["files"][0]["action"], "none");
    assert_eq!(read(&["--remove"])["files"][1]["action"], "remove");
}

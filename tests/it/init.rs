//! `reqlore init`: what it writes, what it leaves, and that nothing of it is left when it is undone.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use reqlore_client_config::{Client, Platform, Scope, Surroundings, edit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::{BINARY, Server, reqlore};

const SCOPES: [(Scope, &str); 2] = [(Scope::Project, "project"), (Scope::User, "user")];

/// Names, bytes, modes and links below a folder.
type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

/// A person's home and project, with nothing else in reach.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project", "bin"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        symlink(BINARY, folder.path().join("bin/reqlore")).unwrap();
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        // As the kernel names it, so that paths in answers can be compared.
        self.folder.path().canonicalize().unwrap().join(path)
    }

    fn command(&self) -> Command {
        let mut command = reqlore();
        command.env("HOME", self.at("home")).env("PATH", self.at("bin"));
        command.current_dir(self.at("project"));
        command
    }

    fn init(&self, arguments: &[&str]) -> (i32, String, String) {
        output(self.command().arg("init").args(arguments))
    }

    /// It has to work.
    fn ok(&self, arguments: &[&str]) -> String {
        let (code, shown, errors) = self.init(arguments);
        assert_eq!(code, 0, "{arguments:?}: {shown}{errors}");
        shown
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    fn around(&self) -> Surroundings {
        Surroundings {
            project: self.at("project"),
            home: self.at("home"),
            platform: Platform::Linux,
            path: vec![self.at("bin")],
            variables: Vec::new(),
        }
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        add(&self.at("home"), &mut tree);
        add(&self.at("project"), &mut tree);
        tree
    }
}

fn add(path: &Path, tree: &mut Tree) {
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

fn output(command: &mut Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// Every client with each scope that it has a file for.
fn each(mut check: impl FnMut(Client, Scope, &str)) {
    let mut seen = 0;
    for client in Client::ALL {
        for (scope, name) in SCOPES {
            let place = Place::new();
            if client.place(scope, &place.around()).is_ok() {
                check(client, scope, name);
                seen += 1;
            }
        }
    }
    assert!(seen > Client::ALL.len(), "{seen}");
}

/// A file of this client as people write them: comments, unknown keys, another server, and line
/// ends of another system.
fn written_by_hand(client: Client) -> String {
    let text = match client {
        Client::Codex => {
            "# mine\nmodel = \"o9\"\n\n[mcp_servers.other]   # keep\ncommand = \"other\"\n\n\
             [unknown]\nx = [1,2 ,3]\n"
                .to_owned()
        }
        _ => {
            let map = match client {
                Client::VsCode => "servers",
                Client::Zed => "context_servers",
                Client::OpenCode => "mcp",
                _ => "mcpServers",
            };
            format!(
                "// mine\n{{\n\t\"unknown\": [1,2 ,3],\n\t\"{map}\": {{\n\t\t\"other\": {{\"command\": \
                 \"other\"}}, // keep\n\t\t}},\n  /* last */ \"x\":null\n}}"
            )
        }
    };
    format!("\u{feff}{}", text.replace('\n', "\r\n"))
}

#[test]
fn from_nothing_init_and_remove_leave_nothing() {
    each(|client, _, scope| {
        let place = Place::new();
        let before = place.tree();
        let arguments = ["--client", client.name(), "--scope", scope];
        place.ok(&[&arguments[..], &["--yes"]].concat());
        assert_ne!(place.tree(), before, "{client} {scope}");
        let again = place.ok(&[&arguments[..], &["--check"]].concat());
        assert_eq!(again, "Everything is as it shall be.\n", "{client} {scope}");
        place.ok(&[&arguments[..], &["--remove"]].concat());
        assert_eq!(place.tree(), before, "{client} {scope}");
    });
}

#[test]
fn files_that_people_wrote_are_theirs_again_to_the_byte() {
    each(|client, scope, name| {
        let place = Place::new();
        let file = client.place(scope, &place.around()).unwrap().file;
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, written_by_hand(client)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        place.write("project/AGENTS.md", "# Ours\r\n\r\n- be kind\r\n\r\n## End\r\nno line end");
        let before = place.tree();
        place.ok(&["--client", client.name(), "--scope", name, "--yes"]);
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.contains("mine\r\n") && text.contains("[1,2 ,3]"), "{client}: {text}");
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{client}: {text}");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        // With other options it is another entry, and still the same way back.
        place.ok(&["--client", client.name(), "--scope", name, "--yes", "--storage", "sqlite"]);
        assert!(fs::read_to_string(&file).unwrap().contains("sqlite"), "{client}");
        place.ok(&["--remove"]);
        assert_eq!(place.tree(), before, "{client} {name}");
    });
}

/// The entry as a client would read it: program and arguments.
fn entry(client: Client, scope: Scope, place: &Place) -> Vec<String> {
    let found = client.place(scope, &place.around()).unwrap();
    let text = fs::read_to_string(&found.file).unwrap();
    let entry = edit::find(&text, found.slot).unwrap().unwrap();
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
fn what_is_written_starts_a_server_on_the_project() {
    each(|client, scope, name| {
        let place = Place::new();
        let settings = ["--storage", "sqlite", "--toolsets", "backlog", "--log", "error"];
        let how = ["--client", client.name(), "--scope", name, "--yes"];
        place.ok(&[&how[..], &settings].concat());
        let words = entry(client, scope, &place);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear().env("PATH", place.at("bin"));
        command.env("HOME", place.at("home")).env("REQLORE_CACHE", "off");
        let is_in_project = client.place(scope, &place.around()).unwrap().starts_in_project;
        command.current_dir(if is_in_project { place.at("project") } else { place.at("home") });
        let mut server = Server::start_as(command, &place.at("project"));
        let hello = server.ask(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" }
            }
        }));
        assert_eq!(hello["result"]["serverInfo"]["name"], "reqlore", "{client} {name}: {hello}");
        server.call("create_epic", json!({ "title": "x", "priority": 1 }));
        server.end();
        let database = place.at("project/.reqlore/local/reqlore.db");
        assert!(database.is_file(), "{client} {name}: {words:?}");
    });
}

#[test]
fn looking_changes_nothing() {
    let place = Place::new();
    place.write("project/.cursor/mcp.json", "{\n}\n");
    place.write("home/.claude/x", "");
    let before = place.tree();
    let (code, shown, errors) = place.init(&["--dry-run"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for part in ["── Cursor (project)\n--- .cursor/mcp.json\n", "--- /dev/null\n+++ .mcp.json\n"]
    {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
    let (code, shown, _) = place.init(&["--check"]);
    let missing = "missing: .mcp.json (Claude Code)\nmissing: .cursor/mcp.json (Cursor)\n\
                   missing: AGENTS.md (all assistants)\n";
    assert_eq!((code, shown.as_str()), (1, missing));
    // Nobody is there to be asked.
    let (code, shown, errors) = place.init(&[]);
    assert_eq!(code, 1);
    assert!(shown.contains("+++ AGENTS.md") && errors.contains("use --yes"), "{errors}");
    place.ok(&["--remove"]);
    assert_eq!(place.tree(), before);

    place.ok(&["--yes"]);
    let (code, shown, _) = place.init(&["--check", "--read-only"]);
    let stale = "stale: .mcp.json (Claude Code)\nstale: .cursor/mcp.json (Cursor)\n";
    assert_eq!((code, shown.as_str()), (1, stale));
}

#[test]
fn where_no_client_is_found_the_names_and_a_snippet_help() {
    let place = Place::new();
    let before = place.tree();
    let (code, shown, errors) = place.init(&["--yes"]);
    assert_eq!((code, shown.as_str()), (1, ""));
    for part in ["claude-code, claude-desktop, cursor", "\"mcpServers\": { \"reqlore\""] {
        assert!(errors.contains(part), "{errors}");
    }
    let (code, _, errors) = place.init(&["--client", "clippy"]);
    assert!(code == 2 && errors.contains("there are claude-code, "), "{errors}");
    assert_eq!(place.tree(), before);
}

#[test]
fn one_client_that_cannot_be_done_does_not_stop_the_others() {
    let place = Place::new();
    let broken = place.write("project/.vscode/mcp.json", "{ \"servers\": { ");
    let clients = ["--client", "vscode", "--client", "cursor", "--client", "claude-desktop"];
    let (code, shown, _) = place.init(&[&clients[..], &["--scope", "project", "--yes"]].concat());
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("can't do .vscode/mcp.json (VS Code): "), "{shown}");
    assert!(shown.contains("can't do Claude Desktop: "), "{shown}");
    assert!(shown.contains("written: .cursor/mcp.json\n"), "{shown}");
    assert_eq!(fs::read_to_string(broken).unwrap(), "{ \"servers\": { ");
}

#[test]
fn what_is_read_only_stays() {
    let place = Place::new();
    let file = place.write("project/.cursor/mcp.json", "{}");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let folder = place.at("project/.zed");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let before = place.tree();
    let clients = ["--client", "cursor", "--client", "zed", "--yes"];
    let (code, shown, _) = place.init(&clients);
    assert_eq!(code, 1, "{shown}");
    assert!(shown.contains("(Cursor): it is read-only; make it writable"), "{shown}");
    assert!(shown.contains("project/.zed is read-only"), "{shown}");
    assert_eq!(place.tree(), before, "AGENTS.md is not written for nobody");
}

#[test]
fn a_token_gets_into_no_file() {
    let token = "reqlore_pat_0123456789ab_0123456789abcdefghijABCDEFGHIJ01_012345";
    let url = "https://reqlore.example.org/mcp";
    for (name, value) in [("REQLORE_TOKEN", None), ("TEAM_TOKEN", Some("TEAM_TOKEN"))] {
        let place = Place::new();
        let before = place.tree();
        let mut command = place.command();
        command.args(["init", "--client", "cursor", "--client", "zed", "--yes", "--json"]);
        command.args(["--transport", "http", "--url", url]).env(name, token);
        command.args(value.into_iter().flat_map(|value| ["--token-variable", value]));
        let (code, shown, errors) = output(&mut command);
        assert_eq!(code, 1, "Zed can't have a token that stands in no file: {errors}");
        assert!(place.text("project/.cursor/mcp.json").contains(&format!("${{env:{name}}}")));
        for (path, (_, bytes)) in place.tree() {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("0123456789abcdef"), "{}", path.display());
        }
        assert!(!format!("{shown}{errors}").contains("0123456789abcdef"));
        place.ok(&["--remove"]);
        assert_eq!(place.tree(), before);
    }
    let place = Place::new();
    let before = place.tree();
    let http = ["--client", "cursor", "--yes", "--transport", "http", "--url"];
    for (arguments, reason) in [
        (&[url, "--token-variable", token][..], "name of a variable"),
        (&[&format!("{url}?token={token}")], "held a token"),
        (&["http://reqlore.example.org/mcp"], "in the clear"),
        (&["https://ada:0123456789abcdef@example.org"], "a user and a password"),
        (&[url, "--read-only"], "--read-only is for a server that the client starts"),
    ] {
        let (code, shown, errors) = place.init(&[&http[..], arguments].concat());
        assert_eq!((code, shown.as_str()), (2, ""), "{errors}");
        assert!(errors.contains(reason), "{errors}");
        assert!(!errors.contains("0123456789abcdef"), "{errors}");
    }
    for arguments in [&["--transport", "http"][..], &["--url", url]] {
        assert_eq!(place.init(arguments).0, 2);
    }
    assert_eq!(place.tree(), before);
}

#[test]
fn a_token_that_somebody_wrote_by_hand_is_copied_nowhere() {
    let place = Place::new();
    let token = "reqlore_pat_0123456789ab_0123456789abcdefghijABCDEFGHIJ01_012345";
    let by_hand = format!(
        "{{\"mcpServers\":{{\"reqlore\":{{\"type\":\"http\",\"url\":\"https://x\",\"headers\":\
         {{\"Authorization\":\"Bearer {token}\"}}}}}}}}"
    );
    place.write("project/.mcp.json", by_hand);
    place.ok(&["--client", "claude-code", "--yes"]);
    let record = place.text("home/.local/state/reqlore/init.json");
    assert!(!record.contains("0123456789abcdef"), "{record}");
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("only what is Reqlore's goes"), "{shown}");
    assert_eq!(place.text("project/.mcp.json"), "{\"mcpServers\":{}}");
}

#[test]
fn what_others_edited_since_stays() {
    let place = Place::new();
    place.ok(&["--client", "cursor", "--client", "claude-code", "--yes"]);
    // Inside our entry, beside it, and around the block.
    let cursor = place.text("project/.cursor/mcp.json");
    let mine = cursor.replace("\"command\"", "\"env\": { \"A\": \"b\" },\n      \"command\"");
    place.write("project/.cursor/mcp.json", &mine);
    let claude = place.text("project/.mcp.json");
    let other = "\"mcpServers\": {\n    \"other\": { \"command\": \"x\" },";
    place.write("project/.mcp.json", claude.replace("\"mcpServers\": {", other));
    let agents = place.text("project/AGENTS.md");
    place.write("project/AGENTS.md", format!("# Ours\n\n{agents}"));
    // An update keeps what is not ours.
    place.ok(&["--client", "cursor", "--yes", "--read-only"]);
    let cursor = place.text("project/.cursor/mcp.json");
    assert!(cursor.contains("\"A\": \"b\"") && cursor.contains("--read-only"), "{cursor}");
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("note: it was edited since"), "{shown}");
    assert!(!place.at("project/.cursor").is_dir(), "nothing else was in it");
    let claude: Value = serde_json::from_str(&place.text("project/.mcp.json")).unwrap();
    assert_eq!(claude, json!({ "mcpServers": { "other": { "command": "x" } } }));
    assert_eq!(place.text("project/AGENTS.md").trim(), "# Ours");
    assert!(!place.at("home/.local").is_dir());
}

#[test]
fn without_a_record_only_what_is_ours_goes() {
    let place = Place::new();
    let other = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
    place.write("project/.cursor/mcp.json", other);
    place.ok(&["--client", "cursor", "--yes"]);
    fs::remove_dir_all(place.at("home/.local")).unwrap();
    let shown = place.ok(&["--client", "cursor", "--remove"]);
    assert!(shown.contains("note: there is no record of it"), "{shown}");
    assert_eq!(place.text("project/.cursor/mcp.json"), other);
    assert!(!place.text("project/AGENTS.md").contains("reqlore"));
}

#[test]
fn a_record_that_cannot_be_read_stops_everything() {
    for (record, reason) in [("{", "init.json: "), ("{\"version\": 9}", "a newer version")] {
        let place = Place::new();
        place.write("home/.local/state/reqlore/init.json", record);
        let before = place.tree();
        for how in ["--yes", "--remove"] {
            let (code, _, errors) = place.init(&["--client", "cursor", how]);
            assert_eq!(code, 1);
            assert!(errors.contains(reason) && errors.contains("move it away"), "{errors}");
        }
        assert_eq!(place.tree(), before);
    }
}

#[test]
fn links_are_followed_as_long_as_they_stay() {
    let place = Place::new();
    let outside = place.write("home/secret.md", "# Mine\n");
    symlink(&outside, place.at("project/AGENTS.md")).unwrap();
    place.write("project/config/cursor.json", "{}\n");
    fs::create_dir(place.at("project/.cursor")).unwrap();
    symlink("../config/cursor.json", place.at("project/.cursor/mcp.json")).unwrap();
    place.write("home/dotfiles/kiro.json", "{}\n");
    fs::create_dir_all(place.at("home/.kiro/settings")).unwrap();
    symlink(place.at("home/dotfiles/kiro.json"), place.at("home/.kiro/settings/mcp.json")).unwrap();
    let before = place.tree();
    let (code, shown, _) = place.init(&["--client", "cursor", "--yes"]);
    assert_eq!(code, 1);
    assert!(shown.contains("it is a link that leads out of the project"), "{shown}");
    assert!(place.text("project/config/cursor.json").contains("reqlore"));
    place.ok(&["--client", "kiro", "--scope", "user", "--yes"]);
    assert!(place.text("home/dotfiles/kiro.json").contains("reqlore"));
    let (_, shown, _) = place.init(&["--remove"]);
    assert_eq!(place.tree(), before, "{shown}");
}

#[test]
fn new_files_in_a_private_folder_are_private() {
    let place = Place::new();
    let folder = place.at("home/.codex");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    place.ok(&["--client", "codex", "--scope", "user", "--yes"]);
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(folder.join("config.toml")), 0o600);
    assert_eq!(mode(place.at("home/.local/state/reqlore/init.json")), 0o600);
}

#[test]
fn files_to_begin_with_are_made_when_asked_for_and_go_again() {
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
    fs::write(&agents, "# By now it is ours\n").unwrap();
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("left as it is, since it was edited: docs/"), "{shown}");
    assert!(agents.is_file() && !place.at("project/.ixchel").is_dir());
}

#[test]
fn many_at_once_lose_nothing() {
    let place = Place::new();
    let before = place.tree();
    let start = |client: Client| {
        let mut command = place.command();
        command.args(["init", "--client", client.name(), "--scope", "user", "--yes"]);
        command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
    };
    let running: Vec<_> = Client::ALL.map(start).into_iter().collect();
    for mut child in running {
        assert!(child.wait().unwrap().success());
    }
    place.ok(&["--remove"]);
    assert_eq!(place.tree(), before);
}

#[test]
fn a_program_reads_what_was_found_and_done() {
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
    assert_eq!(
        [&file["scope"], &file["action"], &file["written"]],
        ["project", "change", "false"]
            .map(|word| if word == "false" { json!(false) } else { json!(word) })
            .each_ref()
    );
    assert!(file["diff"].as_str().unwrap().contains("+    \"reqlore\""), "{file}");
    let done = read(&["--yes"]);
    assert_eq!(done["files"][1]["action"], "create");
    assert_eq!(done["files"][1]["written"], true);
    assert_eq!(read(&["--check"])["files"][0]["action"], "none");
    assert_eq!(read(&["--remove"])["files"][1]["action"], "remove");
}

#[test]
fn the_program_is_named_so_that_it_is_found() {
    let program = |prepare: &dyn Fn(&Place, &mut Command), scope: (Scope, &str)| {
        let place = Place::new();
        let mut command = place.command();
        command.args(["init", "--client", "claude-code", "--yes", "--scope", scope.1]);
        prepare(&place, &mut command);
        let (code, _, errors) = output(&mut command);
        assert_eq!(code, 0, "{errors}");
        let folder = place.at("");
        let words = entry(Client::ClaudeCode, scope.0, &place).join(" ");
        (words.replace(folder.to_str().unwrap(), "~/"), errors)
    };
    let nothing = |_: &Place, _: &mut Command| {};
    let npx = |_: &Place, command: &mut Command| {
        command.env("REQLORE_LAUNCHER", "npx");
    };
    let nowhere = |_: &Place, command: &mut Command| {
        command.env_remove("PATH");
    };
    assert_eq!(program(&nothing, SCOPES[0]).0, "reqlore");
    assert_eq!(program(&nothing, SCOPES[1]).0, "~/bin/reqlore");
    assert_eq!(program(&npx, SCOPES[0]), ("npx -y reqlore".to_owned(), String::new()));
    let (words, errors) = program(&nowhere, SCOPES[0]);
    assert_eq!(words, BINARY);
    assert!(errors.contains("is a path of this machine"), "{errors}");
    // Places are named from the project in what is for everybody, and as they are elsewhere.
    let file = |place: &Place, command: &mut Command| {
        place.write("project/team.toml", "");
        command.args(["--config", "team.toml", "--storage", "sqlite:x/y.db"]);
    };
    assert_eq!(
        program(&file, SCOPES[0]).0,
        "reqlore --storage sqlite:./x/y.db --config ./team.toml"
    );
    assert_eq!(
        program(&file, SCOPES[1]).0,
        "~/bin/reqlore --storage sqlite:~/project/x/y.db --config ~/project/team.toml"
    );
}

#[test]
fn a_home_folder_is_no_project() {
    let place = Place::new();
    let before = place.tree();
    for arguments in [&["--root", "."][..], &["--root", ".", "--scope", "project"]] {
        let mut command = place.command();
        command.current_dir(place.at("home")).args(["init", "--client", "cursor", "--yes"]);
        let (code, _, errors) = output(command.args(arguments));
        assert!(code == 1 && errors.contains("is no project"), "{errors}");
    }
    let (code, _, errors) = place.init(&["--root", "nowhere", "--client", "cursor", "--yes"]);
    assert!(code == 1 && errors.contains("nowhere can't be used"), "{errors}");
    assert_eq!(place.tree(), before);
}

/// What a model reads of us in each session, in tokens: the server's instructions and the block.
const MAX_TOKENS: usize = 400;

#[test]
fn an_agent_reads_few_words_of_us() {
    let coder = tiktoken_rs::cl100k_base().unwrap();
    let names = ["sections", "backlog", "docsets", "knowledge"];
    for chosen in 1..1 << names.len() {
        let toolsets = names.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        let toolsets = toolsets.map(|(_, name)| *name).collect::<Vec<_>>().join(",");
        let place = Place::new();
        place.ok(&["--client", "cursor", "--yes", "--toolsets", &toolsets]);
        let block = place.text("project/AGENTS.md");
        let mut server = Server::start_with(&place.at("project"), &["--toolsets", &toolsets]);
        let hello = server.ask(&json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" }
            }
        }));
        let instructions = hello["result"]["instructions"].as_str().unwrap();
        let tokens = [instructions, &block].map(|text| coder.encode_ordinary(text).len());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{toolsets}: instructions and block, {tokens:?} tokens").unwrap();
        assert!(tokens.iter().sum::<usize>() <= MAX_TOKENS, "{toolsets}: {tokens:?}");
    }
}

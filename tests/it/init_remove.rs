//! `reqlore init` on edited, linked, read-only and missing files, and in parallel.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::Stdio;

use reqlore_client_config::Client;
use serde_json::{Value, json};

use crate::init::{Place, output};

#[test]
fn init_remove_keeps_text_below_the_block() {
    let place = Place::new();
    let agents = place.write("project/AGENTS.md", "no line end");
    place.ok(&["--yes", "--client", "cursor"]);
    let text = fs::read_to_string(&agents).unwrap() + "## Later\n";
    fs::write(&agents, text).unwrap();
    place.ok(&["--remove"]);
    let left = fs::read_to_string(&agents).unwrap();
    assert_eq!(
        left.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(),
        ["no line end", "## Later"]
    );
}

#[test]
fn init_warns_of_files_that_assistants_do_not_read() {
    let place = Place::new();
    let claude = ["--dry-run", "--client", "claude-code"];
    let (_, _, errors) = place.init(&claude);
    assert_eq!(errors, "");
    place.write("project/CLAUDE.md", "Be brief.\n");
    place.write("project/.git", "gitdir: elsewhere\n");
    let (_, _, errors) = place.init(&claude);
    assert!(errors.contains("add a line `@AGENTS.md` to CLAUDE.md"), "{errors}");
    place.write("project/CLAUDE.md", "@AGENTS.md\n");
    assert_eq!(place.init(&claude).2, "");
    fs::create_dir(place.at("project/part")).unwrap();
    let part = place.at("project/part");
    let mut init = place.command();
    init.current_dir(part).args(["init", "--root", "."]).args(claude);
    let (_, _, errors) = output(&mut init);
    assert!(errors.contains("the root of the Git repository is"), "{errors}");
    // A home folder that is a repository is not the root of the projects in it.
    place.write("home/.git", "gitdir: elsewhere\n");
    fs::create_dir(place.at("home/shop")).unwrap();
    let shop = place.at("home/shop");
    let (_, _, errors) = output(place.command().current_dir(shop).arg("init").args(claude));
    assert_eq!(errors, "");
}

#[test]
fn init_does_not_replace_read_only_files() {
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
    assert!(shown.contains("(Cursor): read-only; make it writable"), "{shown}");
    assert!(shown.contains("project/.zed is read-only"), "{shown}");
    assert_eq!(place.tree(), before, "AGENTS.md is not written without a client");
}

#[test]
fn undo_log_omits_a_token_in_an_entry() {
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
    assert!(shown.contains("only Reqlore's part is removed"), "{shown}");
    assert_eq!(place.text("project/.mcp.json"), "{\"mcpServers\":{}}");
}

#[test]
fn init_remove_keeps_later_edits() {
    let place = Place::new();
    place.ok(&["--client", "cursor", "--client", "claude-code", "--yes"]);
    // Edit our entry, add another entry, and add text before the block.
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
    assert!(shown.contains("note: edited after init"), "{shown}");
    assert!(!place.at("project/.cursor").is_dir(), "nothing else was in it");
    let claude: Value = serde_json::from_str(&place.text("project/.mcp.json")).unwrap();
    assert_eq!(claude, json!({ "mcpServers": { "other": { "command": "x" } } }));
    assert_eq!(place.text("project/AGENTS.md").trim(), "# Ours");
    assert!(!place.at("home/.local").is_dir());
}

#[test]
fn init_remove_without_a_log_removes_only_our_part() {
    let place = Place::new();
    let other = "{\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
    place.write("project/.cursor/mcp.json", other);
    place.ok(&["--client", "cursor", "--yes"]);
    fs::remove_dir_all(place.at("home/.local")).unwrap();
    let shown = place.ok(&["--client", "cursor", "--remove"]);
    assert!(shown.contains("note: not in the undo log"), "{shown}");
    assert_eq!(place.text("project/.cursor/mcp.json"), other);
    assert!(!place.text("project/AGENTS.md").contains("reqlore"));
}

#[test]
fn init_remove_keeps_committed_entries() {
    let place = Place::new();
    place.ok(&["--client", "claude-code", "--yes"]);
    // As in a clone: the files exist, and the undo log is empty.
    fs::remove_dir_all(place.at("home/.local")).unwrap();
    let before = place.tree();
    for own in [&["--client", "zed"][..], &["--client", "claude-code"], &[]] {
        place.ok(&[own, &["--yes"]].concat());
        place.ok(&["--remove"]);
        assert_eq!(place.tree(), before, "{own:?}");
    }
    place.ok(&["--client", "zed", "--yes"]);
    place.ok(&["--client", "zed", "--remove"]);
    assert_eq!(place.tree(), before);
    // Without a committed block, the block is ours.
    fs::rename(place.at("project/AGENTS.md"), place.at("home/AGENTS.md")).unwrap();
    place.ok(&["--client", "zed", "--yes"]);
    place.ok(&["--remove"]);
    assert!(!place.at("project/AGENTS.md").is_file());
    fs::rename(place.at("home/AGENTS.md"), place.at("project/AGENTS.md")).unwrap();
    let (_, _, warning) = place.init(&["--remove"]);
    assert!(warning.contains(".mcp.json: the entry is not in the undo log"), "{warning}");
    let (_, way_out) = warning.split_once("reqlore init ").unwrap();
    place.ok(&way_out.split_whitespace().collect::<Vec<_>>());
    assert!(!place.text("project/.mcp.json").contains("reqlore"));
    // A broken file without our entry is not an error.
    place.write("project/.mcp.json", "{");
    place.ok(&["--client", "claude-code", "--remove"]);
}

#[test]
fn init_rejects_names_that_are_not_utf8() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::new();
    place.ok(&["--client", "cursor", "--yes"]);
    let odd = place.at("project").join(std::ffi::OsStr::from_bytes(b"odd\xff"));
    fs::create_dir(&odd).unwrap();
    fs::create_dir(place.at("home/.cursor")).unwrap();
    symlink(odd.join("cursor.json"), place.at("home/.cursor/mcp.json")).unwrap();
    let before = place.tree();
    let mut command = place.command();
    command.current_dir(&odd).args(["init", "--client", "zed", "--yes", "--json"]);
    let (code, _, errors) = output(&mut command);
    assert!(code == 1 && errors.contains("is not UTF-8"), "{errors}");
    let (code, shown, _) = place.init(&["--client", "cursor", "--scope", "user", "--yes"]);
    assert!(code == 1 && shown.contains("(Cursor): a link to a file whose name"), "{shown}");
    assert_eq!(place.tree(), before);
}

#[test]
fn init_with_an_unreadable_log_writes_nothing() {
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
fn init_follows_links_only_inside_the_project() {
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
    assert!(shown.contains("a link out of the project"), "{shown}");
    assert!(place.text("project/config/cursor.json").contains("reqlore"));
    place.ok(&["--client", "kiro", "--scope", "user", "--yes"]);
    assert!(place.text("home/dotfiles/kiro.json").contains("reqlore"));
    let (_, shown, _) = place.init(&["--remove"]);
    assert_eq!(place.tree(), before, "{shown}");
}

#[test]
fn init_makes_new_files_in_private_folders_private() {
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
fn init_in_parallel_loses_no_entry() {
    // In the project scope, all of them write AGENTS.md as well.
    for scope in [&["--scope", "user"][..], &[]] {
        let place = Place::new();
        let before = place.tree();
        let start = |client: Client| {
            let mut command = place.command();
            command.args(["init", "--client", client.name(), "--yes"]).args(scope);
            command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap()
        };
        let running: Vec<_> = Client::ALL.map(start).into_iter().collect();
        for mut child in running {
            assert!(child.wait().unwrap().success());
        }
        place.ok(&["--remove"]);
        assert_eq!(place.tree(), before);
    }
}

#[test]
fn init_after_a_manual_removal_logs_a_new_edit() {
    let place = Place::new();
    let file = place.write("project/.cursor/mcp.json", "{ \"mcpServers\": {} }\n");
    place.ok(&["--client", "cursor", "--yes"]);
    let tidied = "{ \"mcpServers\": { } } // tidied\n";
    fs::write(&file, tidied).unwrap();
    place.ok(&["--client", "cursor", "--yes", "--storage", "sqlite"]);
    place.ok(&["--client", "cursor", "--yes", "--scope", "user"]);
    let shown = place.ok(&["--remove"]);
    assert!(shown.contains("\nRestart Cursor to apply the change.\n"), "named once: {shown}");
    assert_eq!(fs::read_to_string(&file).unwrap(), tidied);
    assert!(!place.at("home/.local").is_dir() && !place.at("project/AGENTS.md").is_file());
}

#[test]
fn init_remove_can_be_limited_to_a_client_or_project() {
    let place = Place::new();
    let before = place.tree();
    place.ok(&["--client", "cursor", "--client", "zed", "--yes"]);
    let other = place.at("project/other");
    fs::create_dir(&other).unwrap();
    let in_other = ["--client", "gemini", "--root", other.to_str().unwrap()];
    place.ok(&[&in_other[..], &["--yes"]].concat());
    place.ok(&["--client", "cursor", "--remove"]);
    assert!(!place.at("project/.cursor").is_dir());
    assert!(place.text("project/AGENTS.md").contains("reqlore"), "Zed still needs it");
    place.ok(&["--remove"]);
    assert!(!place.at("project/.zed").is_dir() && !place.at("project/AGENTS.md").is_file());
    assert!(place.text("project/other/.gemini/settings.json").contains("reqlore"));
    place.ok(&["--remove", "--root", other.to_str().unwrap()]);
    fs::remove_dir(&other).unwrap();
    assert_eq!(place.tree(), before);
}

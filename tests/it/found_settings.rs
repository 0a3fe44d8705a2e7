//! A `reqlore.toml` that came with a repository leads no command out of the project.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use reqlore_client_config::{Client, ConfigScope};

use crate::client::{Server, text};
use crate::init::{Place, Tree, add, entry, output};

/// Content of the file, and the part of the message that names key and value.
const HOSTILE: [(&str, &str); 17] = [
    ("root = \"../outside\"", "root: \"../outside\""),
    ("root = \"up\"", "root: \"up\""),
    ("root = \"missing/../../outside\"", "root: \"missing/../../outside\""),
    ("storage = \"fs:../outside\"", "storage: \"fs:../outside\""),
    ("storage = \"sqlite:../outside/new.db\"", "storage: \"sqlite:../outside/new.db\""),
    (
        "storage = \"sqlite:/tmp/reqlore-test/new.db\"",
        "storage: \"sqlite:/tmp/reqlore-test/new.db\"",
    ),
    ("storage = \"sqlite:up/new.db\"", "storage: \"sqlite:up/new.db\""),
    ("storage = \"sqlite:new.db\"", "storage: \"sqlite:new.db\""),
    ("storage = \"sled:../outside/sled\"", "storage: \"sled:../outside/sled\""),
    ("storage = \"postgres://eve@example.org/x\"", "storage: \"postgres://"),
    ("cache = \"../outside\"", "cache: \"../outside\""),
    ("cache = \"inside\"", "cache: \"inside\""),
    ("roots = [\"OUTSIDE\"]", "roots: \""),
    ("sections.directory = \"up\"", "sections.directory: \"up\""),
    ("sections.directory = \"../outside\"", "sections.directory: \"../outside\""),
    ("[projects.x]\nroot = \"../outside\"", "projects.x.root: \"../outside\""),
    ("[projects.x]\nroot = \"up\"", "projects.x.root: \"up\""),
];

/// Every command that reads settings.
const COMMANDS: [&[&str]; 23] = [
    &["--print-config"],
    &["serve"],
    &["serve", "--transport", "http", "--listen", "127.0.0.1:0"],
    &["check"],
    &["check", "--fix"],
    &["check", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["backup", "x.dump"],
    &["restore", "../outside/x.dump"],
    &["copy", "--from", "fs", "--to", "sqlite"],
    &["copy", "--from", "sqlite", "--to", "fs:copy"],
    &["history", "EP-001"],
    &["docsets", "import", ".knowledge/config.yaml"],
    &["user", "add", "eve", "--role", "administrator"],
    &["user", "list"],
    &["user", "disable", "eve"],
    &["token", "create", "--user", "eve"],
    &["token", "list"],
    &["audit", "list"],
    &["audit", "verify"],
    &["model", "list"],
    &["model", "remove", "x"],
];

const SECRET: &str = "SECRET-OUTSIDE";

/// A clone with links, and a folder outside it that no command may touch.
fn clone() -> Place {
    let place = Place::new();
    place.write("outside/.reqlore/backlog/epics/EP-001.md", format!("---\ntitle: {SECRET}\n---\n"));
    place.write("outside/AGENTS.md", format!("## Sections\n\n- {SECRET} (key: x)\n"));
    place.write("outside/x.md", format!("**1.** {SECRET}\n"));
    place.write("outside/x.dump", SECRET);
    place.write("project/.knowledge/config.yaml", "docsets: {}\n");
    symlink("../outside", place.at("project/up")).unwrap();
    symlink("../outside/new.db", place.at("project/new.db")).unwrap();
    place
}

/// Without the tests' own setting of the cache, which would replace that of the file.
fn command(place: &Place) -> Command {
    let mut command = place.command();
    command.env_remove("REQLORE_CACHE");
    command
}

fn outside(place: &Place) -> Tree {
    let mut tree = Tree::new();
    add(&place.at("outside"), &mut tree);
    add(&place.at("home"), &mut tree);
    tree
}

/// Ruling: a found settings file may name only places inside the project, in every command.
#[test]
fn found_settings_stay_inside_in_every_command() {
    let place = clone();
    let before = outside(&place);
    for (settings, key_and_value) in HOSTILE {
        let settings = settings.replace("OUTSIDE", place.at("outside").to_str().unwrap());
        place.write("project/reqlore.toml", &settings);
        for arguments in COMMANDS {
            let (code, shown, errors) = output(command(&place).args(arguments));
            let all = format!("{shown}{errors}");
            assert!(code == 1 || code == 2, "{settings} {arguments:?}: {all}");
            let is_json = arguments.contains(&"--json");
            let is_named = all.contains(key_and_value) || is_json;
            assert!(is_named && all.contains("--config"), "{settings} {arguments:?}: {all}");
            assert!(!all.contains(SECRET), "{settings} {arguments:?}: {all}");
        }
        // Neither command reads the file.
        for arguments in [&["demo"][..], &["completions", "bash"]] {
            let mut started = command(&place);
            started.args(arguments).env("TMPDIR", place.at("bin"));
            assert_eq!(output(&mut started).0, 0, "{settings} {arguments:?}");
        }
        assert_eq!(outside(&place), before, "{settings}");
    }
    let created = fs::symlink_metadata(place.at("project/.reqlore"));
    assert!(created.is_err(), "a refused start leaves nothing behind");
}

#[test]
fn found_settings_inside_the_project_are_accepted() {
    let place = clone();
    fs::create_dir_all(place.at("project/sub/docs")).unwrap();
    symlink("sub", place.at("project/down")).unwrap();
    for settings in [
        "root = \"sub\"",
        "root = \"down/../sub\"\nstorage = \"sqlite\"",
        "storage = \"sqlite:data/new.db\"",
        "storage = \"sled:down/sled\"",
        "sections.directory = \"down/docs\"",
        "[projects.x]\nroot = \"down\"",
        "history_keep_days = 30\naudit = \"off\"\nstorage = \"sqlite\"",
    ] {
        place.write("project/reqlore.toml", settings);
        let (code, _, errors) = output(command(&place).arg("--print-config"));
        assert_eq!((code, errors.as_str()), (0, ""), "{settings}");
    }
}

#[test]
fn settings_named_by_the_user_are_trusted() {
    let place = clone();
    for (settings, _) in HOSTILE {
        // These are invalid in any file.
        let is_invalid = ["://", "sections.directory", "missing"];
        if is_invalid.iter().any(|part| settings.contains(part)) {
            continue;
        }
        let settings = settings.replace("OUTSIDE", place.at("outside").to_str().unwrap());
        place.write("project/reqlore.toml", &settings);
        let by_flag = output(command(&place).args(["--print-config", "--config", "reqlore.toml"]));
        assert_eq!(by_flag.0, 0, "{settings}: {}", by_flag.2);
        let mut started = command(&place);
        started.arg("--print-config").env("REQLORE_CONFIG", "reqlore.toml");
        assert_eq!(output(&mut started).0, 0, "{settings}");
    }
    // Flags and variables replace the value of the file.
    place.write("project/reqlore.toml", "root = \"../outside\"\nstorage = \"fs:../outside\"\n");
    let mut started = command(&place);
    started.args(["--print-config", "--storage", "fs:../outside"]);
    assert_eq!(output(started.env("REQLORE_ROOT", place.at("project"))).0, 0);
}

/// The audit and the history of a storage that the user names are not the repository's.
#[test]
fn found_settings_shorten_no_foreign_history() {
    let place = clone();
    for setting in ["history_keep_days = 1", "audit_keep_days = 1", "audit = \"off\""] {
        place.write("project/reqlore.toml", setting);
        let of_storage =
            |storage: &str| output(command(&place).args(["--print-config", "--storage", storage]));
        let (code, _, errors) = of_storage("sqlite:../outside/new.db");
        assert!(code == 2 && errors.contains("for a storage outside the project"), "{errors}");
        assert_eq!(of_storage("sqlite").0, 0, "{setting}");
    }
}

/// A repository may contain a link at the default path of a database.
#[test]
fn default_database_behind_a_link_is_refused() {
    let place = clone();
    fs::create_dir(place.at("project/.reqlore")).unwrap();
    symlink("../../outside", place.at("project/.reqlore/local")).unwrap();
    let before = outside(&place);
    for storage in ["sqlite", "sled"] {
        for words in [&["serve"][..], &["user", "list"], &["doctor"], &["backup", "x.dump"]] {
            let (code, shown, errors) =
                output(command(&place).args(words).args(["--storage", storage]));
            let all = format!("{shown}{errors}");
            assert!(code > 0 && all.contains("a link at .reqlore/local/"), "{all}");
        }
    }
    assert_eq!(outside(&place), before);
}

#[test]
fn init_names_the_file_only_in_its_own_earlier_entry() {
    let place = clone();
    let words = |place: &Place| entry(Client::ClaudeCode, ConfigScope::Project, place).join(" ");
    place.write("project/reqlore.toml", "root = \"../outside\"\n");
    let init = ["--client", "claude-code", "--yes"];
    // A cloned repository may contain the entry, too.
    place.write(
        "project/.mcp.json",
        r#"{"mcpServers":{"reqlore":{"command":"reqlore","args":["serve"]}}}"#,
    );
    let (code, _, errors) = place.init(&init);
    assert!(code == 0 && errors.contains("root: \"../outside\""), "{errors}");
    assert_eq!(words(&place), "reqlore", "the file is not trusted unasked");
    // Now the entry is this user's own.
    let (_, _, errors) = place.init(&init);
    assert!(errors.contains("names reqlore.toml with --config"), "{errors}");
    assert_eq!(words(&place), "reqlore --config ./reqlore.toml");
    assert_eq!(place.init(&["--client", "claude-code", "--check"]).0, 0, "nothing to change");
    // The entry starts, and `doctor` accepts it.
    let mut started = command(&place);
    started.args(["--config", "./reqlore.toml"]);
    let mut server = Server::start_as(started, &place.at("outside"));
    let answer = server.call("list_epics", serde_json::json!({}));
    assert!(text(&answer).contains(SECRET), "{answer}");
    server.end();
    let (_, shown, _) = output(command(&place).args(["doctor", "--config", "reqlore.toml"]));
    assert!(!shown.contains("invalid arguments"), "{shown}");
    // Without it, `doctor` says which flag is missing.
    let (code, shown, _) = output(command(&place).arg("doctor").stdin(Stdio::null()));
    assert!(code == 1 && shown.contains("pass the file with --config"), "{shown}");
}

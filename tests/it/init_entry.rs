//! The entries that `reqlore init` writes: program, settings, no token.

use std::io::Write as _;
use std::process::Command;

use reqlore_client_config::{Client, ConfigScope};
use serde_json::json;

use crate::client::{BINARY, Server};
use crate::init::{Place, entry, initialize, output};

#[test]
fn init_writes_no_token_to_a_file() {
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
        assert_eq!(code, 1, "Zed has no token variable: {errors}");
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
        (&[&format!("{url}?token={token}")], "may contain a token"),
        (&[url, "--read-only"], "--read-only is for a server that the client starts"),
    ] {
        let (code, shown, errors) = place.init(&[&http[..], arguments].concat());
        assert_eq!((code, shown.as_str()), (2, ""), "{errors}");
        assert!(errors.contains(reason), "{errors}");
        assert!(!errors.contains("0123456789abcdef"), "{errors}");
    }
    for arguments in
        [&["--transport", "http"][..], &["--url", url], &["--token-variable", "TEAM_TOKEN"]]
    {
        assert_eq!(place.init(arguments).0, 2, "{arguments:?}");
    }
    assert_eq!(place.tree(), before);
}

#[test]
fn init_entry_names_the_program_for_its_scope() {
    let file = ["--config", "team.toml", "--storage", "sqlite:x/y.db"];
    let program = |scope: ConfigScope, arguments: &[&str], npx: bool, has_path: bool| {
        let place = Place::new();
        place.write("project/team.toml", "");
        let mut command = place.command();
        command.args(["init", "--client", "claude-code", "--yes", "--scope", scope.name()]);
        command.args(arguments);
        if npx {
            command.env("REQLORE_LAUNCHER", "npx");
        }
        if !has_path {
            command.env_remove("PATH");
        }
        let (code, _, errors) = output(&mut command);
        assert_eq!(code, 0, "{errors}");
        let words = entry(Client::ClaudeCode, scope, &place).join(" ");
        (words.replace(place.at("").to_str().unwrap(), "~/"), errors)
    };
    assert_eq!(program(ConfigScope::Project, &[], false, true).0, "reqlore");
    assert_eq!(program(ConfigScope::User, &[], false, true).0, "~/bin/reqlore");
    let npx = ("npx -y reqlore".to_owned(), String::new());
    assert_eq!(program(ConfigScope::Project, &[], true, true), npx);
    let (words, errors) = program(ConfigScope::Project, &[], false, false);
    assert_eq!(words, BINARY);
    assert!(errors.contains("is a path of this machine"), "{errors}");
    // In a clone on a machine with the program elsewhere, the entry is up to date.
    let place = Place::new();
    place.ok(&["--client", "claude-code", "--yes"]);
    let mut command = place.command();
    command.args(["init", "--client", "claude-code", "--check"]).env_remove("PATH");
    assert_eq!(output(&mut command).0, 0);
    // A shared file has paths relative to the project, the user's own file absolute ones.
    let words = program(ConfigScope::Project, &file, false, true).0;
    assert_eq!(words, "reqlore --storage sqlite:./x/y.db --config ./team.toml");
    assert_eq!(
        program(ConfigScope::User, &file, false, true).0,
        "~/bin/reqlore --storage sqlite:~/project/x/y.db --config ~/project/team.toml"
    );
}

#[test]
fn init_started_by_uvx_writes_uvx() {
    let place = Place::new();
    let program = place.write("home/uv/archive-v0/x/bin/reqlore", std::fs::read(BINARY).unwrap());
    std::fs::set_permissions(&program, std::fs::metadata(BINARY).unwrap().permissions()).unwrap();
    for (variable, words) in [("UV", "uvx reqlore"), ("OTHER", "reqlore")] {
        let mut command = Command::new(&program);
        command.env("HOME", place.at("home")).env("PATH", place.at("bin")).env_remove("UV");
        command.args(["init", "--client", "claude-code", "--yes"]).env(variable, "/usr/bin/uv");
        let (code, _, errors) = output(command.current_dir(place.at("project")));
        assert_eq!(code, 0, "{errors}");
        let entry = entry(Client::ClaudeCode, ConfigScope::Project, &place).join(" ");
        assert_eq!(entry, words);
        place.ok(&["--remove"]);
    }
}

#[test]
fn init_keeps_the_package_of_a_shared_entry() {
    let cursor = r#"{"mcpServers":{"reqlore":{"command":"npx","args":["-y","reqlore@1.2"]}}}"#;
    let opencode = r#"{"mcp":{"reqlore":{"command":["uvx","reqlore@1.2"]}}}"#;
    for (client, file, text, package) in [
        (Client::Cursor, ".cursor/mcp.json", cursor, "npx -y reqlore@1.2"),
        (Client::OpenCode, "opencode.json", opencode, "uvx reqlore@1.2"),
    ] {
        let place = Place::new();
        place.write(&format!("project/{file}"), text);
        place.ok(&["--client", client.name(), "--yes", "--read-only"]);
        let words = entry(client, ConfigScope::Project, &place).join(" ");
        assert_eq!(words.split(" --root").next(), Some(&*format!("{package} --read-only")));
    }
}

#[test]
fn init_warns_of_settings_that_the_new_entry_lacks() {
    let place = Place::new();
    let desktop = ["--client", "claude-desktop", "--yes"];
    let cursor = ["--client", "cursor", "--yes"];
    place.ok(&[&cursor[..], &["--storage", "sqlite", "--read-only"]].concat());
    place.ok(&desktop);
    let (_, _, errors) = place.init(&[&cursor[..], &["--read-only"]].concat());
    let warning = "warning: .cursor/mcp.json: `--storage sqlite` is not in the new entry";
    assert!(errors.contains(warning), "{errors}");
    // Its entry names one project, and init replaces it with another.
    let other = place.at("home/other");
    std::fs::create_dir(&other).unwrap();
    let (_, _, errors) = place.init(&[&desktop[..], &["--root", other.to_str().unwrap()]].concat());
    let warning = format!("`{}` is not in the new entry", place.at("project").display());
    assert!(errors.contains(&warning), "{errors}");
    let (_, _, errors) = place.init(&[&cursor[..], &["--read-only"]].concat());
    assert_eq!(errors, "");
}

#[test]
fn init_in_the_home_folder_is_rejected() {
    let place = Place::new();
    let before = place.tree();
    for arguments in [&["--root", "."][..], &["--root", ".", "--scope", "project"]] {
        let mut command = place.command();
        command.current_dir(place.at("home")).args(["init", "--client", "cursor", "--yes"]);
        let (code, _, errors) = output(command.args(arguments));
        assert!(code == 1 && errors.contains("is not a project"), "{errors}");
    }
    let (code, _, errors) = place.init(&["--root", "nowhere", "--client", "cursor", "--yes"]);
    assert!(code == 1 && errors.contains("nowhere can't be used"), "{errors}");
    assert_eq!(place.tree(), before);
}

/// Limit for the server's instructions and the block, which a model reads in each session.
const MAX_TOKENS: usize = 400;
const MAX_INSTRUCTION_CHARS: usize = 700;
/// Some clients show only the beginning.
const SHOWN_CHARS: usize = 150;

#[test]
fn instructions_and_block_stay_within_the_token_limit() {
    let coder = tiktoken_rs::cl100k_base().unwrap();
    let names = ["sections", "backlog", "docsets", "knowledge", "core"];
    for chosen in 1..1 << names.len() {
        let toolsets = names.iter().enumerate().filter(|(at, _)| chosen >> at & 1 == 1);
        let toolsets = toolsets.map(|(_, name)| *name).collect::<Vec<_>>().join(",");
        let place = Place::new();
        place.ok(&["--client", "cursor", "--yes", "--toolsets", &toolsets]);
        let block = place.text("project/AGENTS.md");
        let mut server = Server::start_with(&place.at("project"), &["--toolsets", &toolsets]);
        let hello = initialize(&mut server);
        let instructions = hello["instructions"].as_str().unwrap();
        let tools = server.request("tools/list", json!({}))["result"]["tools"].clone();
        let listed = |name: &str| tools.as_array().unwrap().iter().any(|t| t["name"] == name);
        for text in [instructions, &block] {
            check_words(text, &toolsets, listed);
        }
        assert!(instructions.chars().count() <= MAX_INSTRUCTION_CHARS, "{instructions}");
        let shown: String = instructions.chars().take(SHOWN_CHARS).collect();
        let first_call =
            shown.split_once(" holds ").and_then(|(_, rest)| rest.split_once(". Call "));
        let first_call = first_call.and_then(|(_, rest)| rest.split(' ').next());
        assert!(first_call.is_some_and(listed) && shown.matches('.').count() > 1, "{shown}");
        let tokens = [instructions, &block].map(|text| coder.encode_ordinary(text).len());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{toolsets}: instructions and block, {tokens:?} tokens").unwrap();
        assert!(tokens.iter().sum::<usize>() <= MAX_TOKENS, "{toolsets}: {tokens:?}");
    }
}

/// A text mentions listed tools only, and requirements only if there is a backlog.
fn check_words(text: &str, toolsets: &str, is_listed: impl Fn(&str) -> bool) {
    let has_backlog = toolsets.contains("backlog") || toolsets.contains("core");
    for word in text.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
        if word.contains('_') && !word.ends_with('_') {
            assert!(is_listed(word), "{toolsets}: {word} in {text}");
        } else if word.starts_with("requirement") {
            assert!(has_backlog, "{toolsets}: {text}");
        }
    }
    // Of a section it is a rule.
    assert!(!text.contains("requirements, by section") && !text.contains("change requirements"));
}

//! The entries that `reqlore init` writes: program and settings, no token, few words.

use std::io::Write as _;
use std::process::Command;

use reqlore_client_config::{Client, Scope};
use serde_json::json;

use crate::client::{BINARY, Server};
use crate::init::{Place, SCOPES, entry, output};

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
        assert_eq!(code, 1, "Zed can't have a token that is in no file: {errors}");
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
        (&["http://reqlore.example.org/mcp"], "in the clear"),
        (&["https://ada:0123456789abcdef@example.org"], "a user and a password"),
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
    // As in a clone on a machine that has it elsewhere.
    let place = Place::new();
    place.ok(&["--client", "claude-code", "--yes"]);
    let mut command = place.command();
    command.args(["init", "--client", "claude-code", "--check"]).env_remove("PATH");
    assert_eq!(output(&mut command).0, 0);
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
fn a_shared_npx_entry_keeps_its_package() {
    for (client, command) in [
        ("cursor", r#""command": "npx", "args": ["-y", "reqlore@1.2"]"#),
        ("opencode", r#""type": "local", "command": ["npx", "-y", "reqlore@1.2"]"#),
    ] {
        let place = Place::new();
        let client = Client::named(client).unwrap();
        let map = if client == Client::Cursor { "mcpServers" } else { "mcp" };
        let file = if client == Client::Cursor { ".cursor/mcp.json" } else { "opencode.json" };
        let text = format!("{{ \"{map}\": {{ \"reqlore\": {{ {command} }} }} }}");
        place.write(&format!("project/{file}"), text);
        place.ok(&["--client", client.name(), "--yes", "--read-only"]);
        let words = entry(client, Scope::Project, &place).join(" ");
        assert!(words.starts_with("npx -y reqlore@1.2 --read-only"), "{words}");
    }
}

#[test]
fn lost_settings_are_a_warning() {
    let place = Place::new();
    let desktop = ["--client", "claude-desktop", "--yes"];
    let cursor = ["--client", "cursor", "--yes"];
    place.ok(&[&cursor[..], &["--storage", "sqlite", "--read-only"]].concat());
    place.ok(&desktop);
    let (_, _, errors) = place.init(&[&cursor[..], &["--read-only"]].concat());
    let warning = "warning: `--storage sqlite` goes from the entry in .cursor/mcp.json; give it";
    assert!(errors.contains(warning), "{errors}");
    // It knows one project, and that was another.
    let other = place.at("home/other");
    std::fs::create_dir(&other).unwrap();
    let (_, _, errors) = place.init(&[&desktop[..], &["--root", other.to_str().unwrap()]].concat());
    let warning = format!("warning: `{}` goes from", place.at("project").display());
    assert!(errors.contains(&warning), "{errors}");
    let (_, _, errors) = place.init(&[&cursor[..], &["--read-only"]].concat());
    assert_eq!(errors, "");
}

#[test]
fn a_home_folder_is_no_project() {
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

/// What a model reads of us in each session, in tokens: the server's instructions and the block.
const MAX_TOKENS: usize = 400;

#[test]
fn instructions_and_block_have_few_tokens() {
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

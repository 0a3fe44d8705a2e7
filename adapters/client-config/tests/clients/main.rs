//! Reviewed files: each client's files after an edit, and their locations.
//!
//! Each client has a folder in `../golden/`: a new file in both scopes for both kinds of server,
//! and the edits of `existing`, which is read with CRLF here. A diff there is a decision: the
//! client has to read it. `UPDATE_EXPECT=1` updates them.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod hooks;
mod presence;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect_file;
use reqlore_client_config::{
    Client, ClientEnvironment, ConfigFormat, ConfigLocation, ConfigScope, EntrySlot, Platform,
    ServerSpec, edit,
};
use serde_json::{Value, json};

/// A machine without clients.
fn empty_machine(platform: Platform) -> ClientEnvironment {
    ClientEnvironment {
        project: PathBuf::from("/work-of/ann/shop"),
        home: PathBuf::from("/home/ann"),
        platform,
        path: Vec::new(),
        variables: Vec::new(),
    }
}

fn command(program: &str, arguments: &[&str]) -> ServerSpec {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
    ServerSpec::Command { program: program.to_owned(), arguments }
}

/// The server that `init` writes: without arguments, or with the project if the client needs it.
fn stdio_server(
    client: Client,
    location: &ConfigLocation,
    environment: &ClientEnvironment,
) -> ServerSpec {
    if location.starts_in_project {
        return command("reqlore", &[]);
    }
    let root = client.project_variable().unwrap_or(environment.project.to_str().unwrap());
    command("reqlore", &["--root", root])
}

fn http_server() -> ServerSpec {
    ServerSpec::Url {
        url: "https://reqlore.example.org/mcp".to_owned(),
        token_variable: "REQLORE_TOKEN".to_owned(),
    }
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn extension(format: ConfigFormat) -> &'static str {
    match format {
        ConfigFormat::Json => "json",
        ConfigFormat::Toml => "toml",
    }
}

#[test]
fn client_files_match_the_reviewed_ones() {
    let environment = empty_machine(Platform::Linux);
    for client in Client::ALL {
        let folder = golden(client.name());
        let mut rejected = String::new();
        for scope in ConfigScope::ALL {
            let name = scope.name();
            let location = match client.config_location(scope, &environment) {
                Ok(location) => location,
                Err(reason) => {
                    writeln!(rejected, "{name}: {reason}").unwrap();
                    continue;
                }
            };
            let command = stdio_server(client, &location, &environment);
            for (server, kind) in [(command, "stdio"), (http_server(), "http")] {
                match client.entry(&server) {
                    Ok(entry) => {
                        let file = format!("{name}-{kind}.{}", extension(location.slot.format));
                        let text =
                            edit::put_entry(client.new_file(), location.slot, &entry).unwrap();
                        assert_eq!(read(&text, location.slot), Value::Object(entry.set));
                        expect_file![folder.join(file)].assert_eq(&text);
                    }
                    Err(reason) => writeln!(rejected, "{name}, {kind}: {reason}").unwrap(),
                }
            }
        }
        // If nothing is rejected, the file does not exist.
        expect_file![folder.join("refused.txt")].assert_eq(&rejected);
        check_existing_file(client, &environment);
    }
}

/// Adds a stdio entry to an existing file, replaces it with HTTP, and replaces that with stdio.
fn check_existing_file(client: Client, environment: &ClientEnvironment) {
    let location = client.config_location(ConfigScope::User, environment).unwrap();
    let (slot, ending) = (location.slot, extension(location.slot.format));
    let folder = golden(client.name());
    let before = fs::read_to_string(folder.join(format!("existing.{ending}"))).unwrap();
    let put = |text: &str, server: &ServerSpec| {
        let entry = client.entry(server).unwrap();
        let after = edit::put_entry(text, slot, &entry).unwrap();
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count(), "line ends");
        assert_eq!(edit::put_entry(&after, slot, &entry).unwrap(), after, "put twice");
        // No key of the other kind is left.
        assert_eq!(edit::find_entry(&after, slot).unwrap(), Some(Value::Object(entry.set)));
        after
    };
    let review = |text: &str, name: &str| {
        expect_file![folder.join(format!("{name}.{ending}"))].assert_eq(&text.replace('\r', ""));
    };
    let command = stdio_server(client, &location, environment);
    let with_command = put(&before.replace('\n', "\r\n"), &command);
    review(&with_command, "existing-stdio");
    if client.entry(&http_server()).is_ok() {
        let with_url = put(&with_command, &http_server());
        review(&with_url, "existing-http");
        put(&with_url, &command);
    }
}

/// The entry; JSON is read by a strict parser.
fn read(text: &str, slot: EntrySlot) -> Value {
    if slot.format == ConfigFormat::Toml {
        return edit::find_entry(text, slot).unwrap().unwrap();
    }
    let mut value: Value = serde_json::from_str(text).unwrap();
    for key in slot.path.iter().chain(&[edit::SERVER_NAME]) {
        value = value[*key].take();
    }
    value
}

/// Both clients reject their whole file for one key of the other kind.
#[test]
fn switch_of_server_kind_keeps_the_users_keys() {
    let environment = empty_machine(Platform::Linux);
    for (client, before, after) in [
        (
            Client::Codex,
            "[mcp_servers.reqlore]\ncommand = \"reqlore\"\nenabled = false\ncwd = \"/tmp\"\n\n\
             [mcp_servers.reqlore.env]\nRUST_LOG = \"info\"\n",
            json!({
                "enabled": false,
                "url": "https://reqlore.example.org/mcp",
                "bearer_token_env_var": "REQLORE_TOKEN",
            }),
        ),
        (
            Client::OpenCode,
            r#"{"mcp": {"reqlore": {"type": "local", "command": ["reqlore"], "timeout": 9,
                "environment": {"RUST_LOG": "info"}}}}"#,
            json!({
                "timeout": 9,
                "type": "remote",
                "url": "https://reqlore.example.org/mcp",
                "oauth": false,
                "headers": { "Authorization": "Bearer {env:REQLORE_TOKEN}" },
            }),
        ),
    ] {
        let slot = client.config_location(ConfigScope::User, &environment).unwrap().slot;
        let text = edit::put_entry(before, slot, &client.entry(&http_server()).unwrap()).unwrap();
        assert_eq!(read(&text, slot), after, "{text}");
    }
}

#[test]
fn config_locations_match_the_reviewed_table() {
    let mut table = String::new();
    for (platform, title) in
        [(Platform::Linux, "Linux"), (Platform::MacOs, "macOS"), (Platform::Windows, "Windows")]
    {
        write_places(&mut table, title, &empty_machine(platform));
    }
    let moved = |platform| ClientEnvironment {
        variables: ClientEnvironment::VARIABLES
            .iter()
            .map(|name| ((*name).to_owned(), format!("/moved/{name}")))
            .collect(),
        ..empty_machine(platform)
    };
    write_places(&mut table, "Linux, all variables set", &moved(Platform::Linux));
    write_places(&mut table, "Windows, all variables set", &moved(Platform::Windows));
    expect_file![golden("locations.txt")].assert_eq(&table);
}

fn write_places(table: &mut String, title: &str, environment: &ClientEnvironment) {
    writeln!(table, "# {title}").unwrap();
    for client in Client::ALL {
        for scope in ConfigScope::ALL {
            let line = match client.config_location(scope, environment) {
                Ok(ConfigLocation { file, slot, starts_in_project, .. }) => format!(
                    "{}  {}  {}",
                    file.display().to_string().replace('\\', "/"),
                    slot.path.join("."),
                    if starts_in_project { "starts in the project" } else { "starts elsewhere" },
                ),
                Err(reason) => reason.to_string(),
            };
            writeln!(table, "{:<15} {:<8} {line}", client.name(), scope.name()).unwrap();
        }
    }
    writeln!(table).unwrap();
}

fn rejection(client: Client, server: &ServerSpec) -> Option<String> {
    client.entry(server).err().map(String::from)
}

#[test]
fn entry_with_a_variable_of_the_client_is_rejected() {
    let rejecting = |root: &str| -> Vec<&str> {
        let server = command("reqlore", &["--root", root]);
        let rejects = |client: &Client| rejection(*client, &server).is_some();
        Client::ALL.into_iter().filter(rejects).map(Client::name).collect()
    };
    let braced = ["claude-code", "cursor", "vscode", "zed", "gemini", "copilot", "kiro"];
    assert_eq!(rejecting("/home/ann/${x}"), braced);
    assert_eq!(rejecting("/home/ann/$x"), ["zed", "gemini", "copilot"]);
    assert_eq!(rejecting("/home/ann/{env:x}"), ["opencode"]);
    assert_eq!(rejecting("/home/ann/{file:x}"), ["opencode"]);
    assert_eq!(rejecting("/home/ann/5$ \"'\\ {x} %x% ü/a b$"), [""; 0]);
    assert_eq!(
        rejection(Client::Gemini, &command("/home/ann/$x", &[])).unwrap(),
        "Gemini CLI reads `$` in `/home/ann/$x` as a variable; use another name"
    );
    // Its own variable for the project is written as it is; another client's is a path.
    let variable = Client::Cursor.project_variable().unwrap();
    let server = command("reqlore", &["--root", variable]);
    assert_eq!(Client::Cursor.entry(&server).unwrap().set["args"][1], variable);
    assert!(rejection(Client::VsCode, &server).is_some());
    // A shell quotes arguments, and not a program without them.
    let spaced = "/Users/ann/my tools/reqlore";
    assert!(rejection(Client::Zed, &command(spaced, &[])).unwrap().contains(spaced));
    assert_eq!(rejection(Client::Zed, &command(spaced, &["serve"])), None);
    assert_eq!(rejection(Client::Codex, &command(spaced, &[])), None);
    for program in ["reqlore", "/opt/reqlore-0.1/bin/reqlore", "C:\\Users\\Änne\\reqlore.exe"] {
        assert_eq!(rejection(Client::Zed, &command(program, &[])), None);
    }
}

#[test]
fn entry_never_sets_a_key_that_it_removes() {
    let servers = [command("reqlore", &[]), command("reqlore", &["serve"]), http_server()];
    for client in Client::ALL {
        for entry in servers.iter().filter_map(|server| client.entry(server).ok()) {
            let both = entry.drop.iter().find(|key| entry.set.contains_key(**key));
            assert_eq!(both, None, "{client}");
        }
    }
}

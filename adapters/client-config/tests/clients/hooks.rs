//! Reviewed files of session hooks, and edits of files that have other hooks.

use std::fmt::Write as _;

use expect_test::expect_file;
use reqlore_client_config::{Client, ConfigScope, HookEvent, Platform, edit};
use serde_json::{Value, json};

use crate::{empty_machine, golden};

const COMMAND: &str = "test -x /bin/reqlore && /bin/reqlore hook session --client x || true";

fn clients_and_events() -> impl Iterator<Item = (Client, HookEvent)> {
    Client::ALL.into_iter().flat_map(|client| HookEvent::ALL.map(|event| (client, event)))
}

#[test]
fn hook_files_match_the_reviewed_ones() {
    let environment = empty_machine(Platform::Linux);
    let mut locations = String::new();
    for (client, event) in clients_and_events() {
        let Some(hook) = client.hook(event) else { continue };
        for scope in ConfigScope::ALL {
            let (scope, file) = hook.location(scope, &environment);
            let words = format!("{client} {} {}", event.name(), scope.name());
            writeln!(locations, "{words}: {}", file.display()).unwrap();
        }
        let entries = hook.entries(COMMAND).unwrap();
        let text = edit::put_hook(hook.new_file, hook.path, &entries).unwrap();
        let _: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(edit::find_hook(&text, hook.path).unwrap(), entries);
        assert_eq!(edit::put_hook(&text, hook.path, &entries).unwrap(), text, "put twice");
        let file = if event == HookEvent::Session { "hook.json" } else { "prompt-hook.json" };
        writeln!(locations, "  answer {}", hook.answer("x")).unwrap();
        expect_file![golden(client.name()).join(file)].assert_eq(&text);
    }
    expect_file![golden("hooks.txt")].assert_eq(&locations);
}

#[test]
fn hook_edits_keep_everything_else() {
    let hook = Client::ClaudeCode.hook(HookEvent::Session).unwrap();
    let entries = hook.entries(COMMAND).unwrap();
    let new = hook.entries(&COMMAND.replace("/bin/", "/opt/")).unwrap();
    for text in [
        "{}",
        "{\"a\":1}",
        "{\n}\n",
        "\u{feff}{\n  \"hooks\": {}\n}",
        "{\n\t\"hooks\": {\n\t\t\"SessionStart\": [] // none\n\t}\n}\n",
        "{\"hooks\":{\"SessionStart\":[{\"hooks\":[]}]}}",
        "{ // mine\n  \"hooks\": {\n    \"SessionStart\": [\n      // first\n      { \"hooks\": [] }, \
         // last\n    ],\n    \"Stop\": [1],\n  },\n}\n",
        "{\n  \"hooks\": {\n    \"SessionStart\": [\n      {\n        \"hooks\": [\n          { \
         \"command\": \"other\" }\n        ]\n      }\n    ]\n  }\n}\n",
    ] {
        for text in [text.to_owned(), text.replace('\n', "\r\n")] {
            let with = edit::put_hook(&text, hook.path, &entries).unwrap();
            let line_ends = (text.matches('\n').count(), text.matches("\r\n").count());
            let crlf = line_ends.0 > 0 && line_ends.0 == line_ends.1;
            assert_eq!(crlf, with.contains("\r\n"), "{with}");
            assert_eq!(edit::find_hook(&with, hook.path).unwrap(), entries, "{with}");
            let others = |text: &str| {
                let mut items = edit::find_items(text, hook.path).unwrap();
                items.retain(|item| edit::hook_command(item).is_none_or(|one| one == "other"));
                items
            };
            assert_eq!(others(&with), others(&text), "{with}");
            let patch = reqlore_client_config::UndoPatch::between(&text, &with);
            assert_eq!(patch.undo(&with).as_deref(), Some(&*text));
            let updated = edit::put_hook(&with, hook.path, &new).unwrap();
            assert_eq!(edit::find_hook(&updated, hook.path).unwrap(), new, "{updated}");
            let without = edit::remove_hook(&updated, hook.path).unwrap();
            assert_eq!(edit::find_hook(&without, hook.path).unwrap(), [] as [Value; 0]);
            assert_eq!(others(&without), others(&text), "{without}");
        }
    }
    for (text, problem) in [
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("{\"hooks\": {\"SessionStart\": {}}}", "`SessionStart` is not a list"),
        ("[1]", "not a JSON object"),
        ("{", "invalid JSON"),
    ] {
        let error = edit::put_hook(text, hook.path, &entries).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn entries_of_other_commands_are_not_ours() {
    let path = &["hooks", "SessionStart"];
    for entry in [
        json!({ "hooks": [{ "command": "other hook session x" }] }),
        json!({ "hooks": [{ "command": COMMAND }, { "command": "other" }] }),
        json!({ "command": ["reqlore hook session x"] }),
        json!("reqlore hook session x"),
    ] {
        let text = json!({ "hooks": { "SessionStart": [entry] } }).to_string();
        assert_eq!(edit::find_hook(&text, path).unwrap(), [] as [Value; 0]);
        assert_eq!(edit::remove_hook(&text, path).unwrap(), text);
    }
}

#[test]
fn command_with_a_variable_of_the_client_is_rejected() {
    let entries =
        |client: Client, command| client.hook(HookEvent::Session).unwrap().entries(command);
    assert!(entries(Client::Gemini, "/home/$USER/reqlore hook session ").is_err());
    assert!(entries(Client::Codex, "/home/$USER/reqlore hook session ").is_ok());
}

//! `reqlore demo`: a short session of an assistant with a server in a temporary project.

use std::io;
use std::path::Path;
use std::time::Duration;

use reqlore_probe::{ProbeError, StdioClient};
use serde_json::{Value, json};

use crate::client_environment::isolated_server;
use crate::commands::output::print;
use crate::exit::{CommandError, EXIT_OK, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The entry for an MCP client's configuration.
pub(crate) const SNIPPET: &str = r#"{ "mcpServers": { "reqlore": { "command": "reqlore" } } }"#;

const DECISION_FILE: &str = ".ixchel/decisions/dec-4f1a20.md";
const DECISION: &str = "---\nid: dec-4f1a20\ntitle: No accounts before the first purchase\n\
    status: accepted\n---\n\nHalf of the visitors left at the sign-up form. Buying comes first; we \
    offer an account afterwards.\n";

pub(crate) fn run() -> Result<u8> {
    let failed = |error: io::Error| CommandError::failure(format!("the demo failed: {error}"));
    let folder = tempfile::Builder::new().prefix("reqlore-demo-").tempdir().map_err(failed)?;
    // The user may want to inspect the files.
    let folder = folder.keep();
    play(&folder).map_err(failed)?;
    Ok(EXIT_OK)
}

fn play(folder: &Path) -> io::Result<()> {
    say(&format!(
        "Reqlore demo: a server runs in {}.\n\
         The calls (→) are scripted as an assistant would send them. The answers (←) are real.\n",
        folder.display()
    ))?;
    let program = std::env::current_exe()?;
    let command = isolated_server(&program, &["serve".to_owned()], folder);
    let pipe = StdioClient::start(command, TIMEOUT).map_err(|error| server_error(&error))?;
    let mut assistant = ScriptedAssistant { pipe, project: json!(folder) };
    assistant.pipe.initialize().map_err(|error| server_error(&error))?;
    play_session(folder, &mut assistant)?;
    let status = assistant.pipe.end().map_err(|error| server_error(&error))?;
    if !status.success() {
        return Err(io::Error::other(format!("the server ended with {status}")));
    }
    let snippet =
        SNIPPET.replace("\"command\": \"reqlore\"", &format!("\"command\": {}", json!(program)));
    say(&format!(
        "\nTo connect your assistants, run `reqlore init` in your own project. For most clients it \
         adds:\n\n  {snippet}\n\n\
         Delete {} when you no longer need it.",
        folder.display()
    ))?;
    Ok(())
}

/// The session that the README shows: a backlog, a decision, a search, a rule.
fn play_session(folder: &Path, assistant: &mut ScriptedAssistant) -> io::Result<()> {
    say("You: Visitors should be able to buy without an account. Add this to the backlog.")?;
    assistant.call("create_epic", &json!({ "title": "Checkout", "priority": 2 }), 1)?;
    let story = json!({ "epic": "EP-001", "title": "Pay as a guest", "priority": 2 });
    assistant.call("create_user_story", &story, 1)?;
    let requirement = json!({
        "user_story": "US-001", "type": "Functional", "priority": 1,
        "title": "Require only an e-mail address",
    });
    assistant.call("create_requirement", &requirement, 1)?;

    say(&format!("\nYou write down a decision in your editor, {DECISION_FILE}:\n{DECISION}"))?;
    write(folder, DECISION_FILE, DECISION)?;

    say("You, next week, to another assistant: Should I add a sign-up form to the checkout?")?;
    assistant.call("search_global", &json!({ "query": "sign-up before buying" }), 2)?;

    say("\nYou: Make that a rule for every change of the checkout.")?;
    let rule = json!({
        "section": "checkout", "index": "1", "text": "No step requires an account.",
    });
    assistant.call("reqlix_set_requirements", &rule, 1)?;

    say("\nAll of it is Markdown, ready for Git:")?;
    let mut files = Vec::new();
    for shown in [".ixchel", ".reqlore/backlog", "docs"] {
        list_files(folder, Path::new(shown), &mut files)?;
    }
    files.sort();
    say(&format!("  {}", files.join("\n  ")))?;
    Ok(())
}

/// Adds the paths of all files below `below`, relative to `folder`.
fn list_files(folder: &Path, below: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            list_files(folder, &path, files)?;
        } else {
            files.push(path.display().to_string());
        }
    }
    Ok(())
}

fn write(folder: &Path, path: &str, text: &str) -> io::Result<()> {
    let path = folder.join(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

fn say(part: &str) -> io::Result<()> {
    print(&format!("{part}\n")).map(drop).map_err(|error| io::Error::other(error.message))
}

fn server_error(error: &ProbeError) -> io::Error {
    io::Error::other(format!("the server {}", error.message))
}

struct ScriptedAssistant {
    pipe: StdioClient,
    project: Value,
}

impl ScriptedAssistant {
    /// Calls a tool and prints the call and the first `lines` lines of its answer.
    fn call(&mut self, tool: &str, arguments: &Value, lines: usize) -> io::Result<()> {
        let mut sent = arguments.clone();
        // These tools require both arguments, which would distract from the call that is shown.
        if tool.starts_with("reqlix_") {
            sent["project_root"] = self.project.clone();
            sent["operation_description"] = json!("Trying out Reqlore");
        }
        let mut shown = Vec::new();
        for (name, value) in arguments.as_object().into_iter().flatten() {
            shown.push(format!("{name}: {value}"));
        }
        say(&format!("→ {tool}  {}", shown.join(", ")))?;
        let params = json!({ "name": tool, "arguments": sent });
        let answer =
            self.pipe.request("tools/call", &params).map_err(|error| server_error(&error))?;
        let result = &answer["result"];
        let mut mark = if result["isError"] == true { "✗" } else { "←" };
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        for line in text.lines().take(lines) {
            // A version means nothing to a reader of the demo.
            let line = line.split(" (version ").next().unwrap_or_default();
            say(&format!("{mark} {line}"))?;
            mark = " ";
        }
        Ok(())
    }
}

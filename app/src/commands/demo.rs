//! `reqlore demo`: shows the tools in half a minute, on a real server over a real pipe.

use std::io;
use std::path::Path;
use std::time::Duration;

use reqlore_probe::{ProbeError, StdioClient};
use serde_json::{Value, json};

use super::print;
use crate::client_environment::isolated_server;
use crate::exit::{CommandError, OK};

const TIMEOUT: Duration = Duration::from_secs(60);

/// The entry for an MCP client's configuration.
pub(crate) const SNIPPET: &str = r#"{ "mcpServers": { "reqlore": { "command": "reqlore" } } }"#;

const DECISION_FILE: &str = ".ixchel/decisions/dec-1d2c8f.md";
const DECISION: &str = "---\nid: dec-1d2c8f\ntype: decision\ntitle: Files first\n\
    status: accepted\ntags: [storage]\n---\n\nEverything is kept as markdown in git, because \
    people can read, merge and review it.\n";
const ISSUE_FILE: &str = ".ixchel/issues/iss-5b0e77.md";
const ISSUE: &str = "---\nid: iss-5b0e77\ntitle: Pick a storage backend\nlabels: [storage]\n\
    decided_by: dec-1d2c8f\n---\n\nWhere should requirements live?\n";
const DOCSETS: &str = "docsets:\n  react:\n    version: 18.2\n";

pub(crate) fn run() -> Result<u8, CommandError> {
    let failed = |error: io::Error| CommandError::refused(format!("the demo failed: {error}"));
    let folder = tempfile::Builder::new().prefix("reqlore-demo-").tempdir().map_err(failed)?;
    // The user may want to inspect the files.
    let folder = folder.keep();
    play(&folder).map_err(failed)?;
    Ok(OK)
}

fn play(folder: &Path) -> io::Result<()> {
    say(&format!(
        "Reqlore demo: a sample project in {}\n\
         A real server runs in it; every request and answer crosses a real pipe.\n",
        folder.display()
    ));
    let program = std::env::current_exe()?;
    let command = isolated_server(&program, &["serve".to_owned()], folder);
    let mut client = Client {
        pipe: StdioClient::start(command, TIMEOUT).map_err(|error| server_error(&error))?,
        project: json!(folder),
    };
    let server = client.pipe.initialize().map_err(|error| server_error(&error))?;
    say(&format!("The server speaks MCP {}.\n", server.protocol));
    play_requirements(&mut client)?;
    play_knowledge(folder, &mut client)?;
    say("9. The documentation of libraries: one small file says where it is.");
    write(folder, ".knowledge/config.yaml", DOCSETS)?;
    client.call(
        "search_docs",
        &json!({ "docset": "react", "keywords": ["useEffect"],
                 "generalized_keywords": ["side effects"] }),
    )?;
    let status = client.pipe.end().map_err(|error| server_error(&error))?;
    if !status.success() {
        return Err(io::Error::other(format!("the server ended with {status}")));
    }

    say("The requirements are plain files now, ready for git:\n");
    for file in
        ["docs/development/requirements/AGENTS.md", "docs/development/requirements/accounts.md"]
    {
        let text = std::fs::read_to_string(folder.join(file))?;
        let text: String = text.lines().flat_map(|line| ["   ", line, "\n"]).collect();
        say(&format!("── {file}\n{text}"));
    }
    let snippet =
        SNIPPET.replace("\"command\": \"reqlore\"", &format!("\"command\": {}", json!(program)));
    say(&format!(
        "To give it to your assistants, run `reqlore init` in a project of yours; what it writes \
         for most of them is this:\n\n  {snippet}\n\n\
         The project stays in {}; remove it when you have seen enough.",
        folder.display()
    ));
    Ok(())
}

fn play_requirements(client: &mut Client) -> io::Result<()> {
    let set = "reqlix_set_requirements";
    say("1. What an assistant does first: read the instructions.");
    client.call("reqlix_get_instructions", &json!({}))?;
    say("2. It writes two requirements. The text of the second is too long for one line, and a \
         line\n   of it looks like another requirement: it is wrapped, and stays text.");
    let text = "A password has at least 12 characters.";
    client.call(set, &json!({ "section": "accounts", "index": "1", "text": text }))?;
    let text = "After five failed attempts within ten minutes the account is locked for a quarter \
                of an hour, and its owner is notified by mail.\n\
                **9.** This line belongs to requirement 2.";
    client.call(set, &json!({ "section": "accounts", "index": "2", "text": text }))?;
    say("3. It reads the section back.");
    client.call("reqlix_get_requirements", &json!({ "section": "accounts" }))?;
    say("4. A bad call is refused with the next step, and changes nothing.");
    client.call(set, &json!({ "section": "../../etc/passwd", "index": "1", "text": "" }))?;
    say("5. It deletes a requirement, and gets it back as the answer.");
    client.call("reqlix_delete_requirements", &json!({ "section": "accounts", "index": "1" }))
}

fn play_knowledge(folder: &Path, client: &mut Client) -> io::Result<()> {
    write(folder, DECISION_FILE, DECISION)?;
    write(folder, ISSUE_FILE, ISSUE)?;
    say("6. A team's decisions and issues are files too, here two that were written by hand.\n   \
         They are found by words and by meaning; nothing had to be imported.");
    client
        .call("ixchel_search", &json!({ "query": "why do we keep things in git", "limit": 2 }))?;
    say("7. Everything an issue is linked to.");
    client.call("ixchel_graph", &json!({ "id": "iss-5b0e77" }))?;
    say("8. The decision is changed in an editor. The very next call returns the new text.");
    write(folder, DECISION_FILE, &DECISION.replace("accepted", "superseded"))?;
    client.call("ixchel_show", &json!({ "id": "dec-1d2c8f", "max_tokens": 30 }))
}

fn write(folder: &Path, path: &str, text: &str) -> io::Result<()> {
    let path = folder.join(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

/// A closed standard output does not end the demo.
fn say(part: &str) {
    let _ = print(&format!("{part}\n"));
}

fn server_error(error: &ProbeError) -> io::Error {
    io::Error::other(format!("the server {}", error.message))
}

/// The assistant.
struct Client {
    pipe: StdioClient,
    project: Value,
}

impl Client {
    /// Calls a tool and prints request and answer.
    fn call(&mut self, tool: &str, arguments: &Value) -> io::Result<()> {
        let mut all = arguments.clone();
        if tool.starts_with("reqlix_") {
            all["project_root"] = self.project.clone();
            all["operation_description"] = json!("Trying out what Reqlore does");
        }
        let shown = arguments.as_object().into_iter().flatten();
        let shown: Vec<String> = shown.map(|(name, value)| format!("{name}: {value}")).collect();
        say(&format!("\n   → {tool}  {}", shown.join(", ")));
        let params = json!({ "name": tool, "arguments": all });
        let answer = self
            .pipe
            .json_rpc_request("tools/call", &params)
            .map_err(|error| server_error(&error))?;
        let result = &answer["result"];
        let mark = if result["isError"] == true { "✗" } else { "←" };
        for block in result["content"].as_array().into_iter().flatten() {
            let text = block["text"].as_str().unwrap_or_default();
            for (index, line) in text.trim_end().lines().enumerate() {
                say(&format!("   {} {line}", if index == 0 { mark } else { " " }));
            }
        }
        if let Some(version) = result["structuredContent"]["version"].as_str() {
            say(&format!("     (version {version})"));
        }
        say("");
        Ok(())
    }
}

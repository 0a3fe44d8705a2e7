//! `reqlore demo`: what it does in half a minute, on the real server over a real pipe.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use reqlore_probe::{ProbeError, StdioClient};
use serde_json::{Value, json};

use super::print;
use crate::exit::{CommandError, OK};
use crate::settings::{self, FILE_VARIABLE};

/// Nothing that is shown takes this long.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What an MCP client's configuration needs.
pub(crate) const SNIPPET: &str = r#"{ "mcpServers": { "reqlore": { "command": "reqlore" } } }"#;

pub(crate) fn run() -> Result<u8, CommandError> {
    let failed = |error: io::Error| CommandError::refused(format!("the demo broke off: {error}"));
    let folder = tempfile::Builder::new().prefix("reqlore-demo-").tempdir().map_err(failed)?;
    // It stays, so that its files can be looked at.
    let folder = folder.keep();
    play(&folder).map_err(failed)?;
    Ok(OK)
}

fn play(folder: &Path) -> io::Result<()> {
    say(&format!(
        "Reqlore demo: a sample project in {}\n\
         A real server runs below it; every request and answer crosses a real pipe.\n",
        folder.display()
    ));
    let mut client = Client::start(folder)?;
    let hello = client.pipe.initialize().map_err(|error| silent(&error))?;
    say(&format!("The server speaks MCP {}.\n", hello.protocol));

    say("1. What an assistant does first: read the instructions.");
    client.call("reqlix_get_instructions", &json!({}))?;
    say(
        "2. It writes two requirements down. The text of the second is too long for one line,\n   \
         and a line of it looks like another requirement: it is wrapped, and stays text.",
    );
    client.call(
        "reqlix_set_requirements",
        &json!({
            "section": "accounts", "index": "1", "text": "A password has at least 12 characters."
        }),
    )?;
    client.call(
        "reqlix_set_requirements",
        &json!({ "section": "accounts", "index": "2", "text":
            "After five failed attempts within ten minutes the account is locked for a quarter \
             of an hour, and its owner is told by mail.\n\
             **9.** This line belongs to requirement 2." }),
    )?;
    say("3. It reads the section back.");
    client.call("reqlix_get_requirements", &json!({ "section": "accounts" }))?;
    say("4. A bad call is refused with the way out, and nothing is touched.");
    client.call(
        "reqlix_set_requirements",
        &json!({ "section": "../../etc/passwd", "index": "1", "text": "" }),
    )?;
    say("5. It deletes a requirement, and gets it back as the answer.");
    client.call("reqlix_delete_requirements", &json!({ "section": "accounts", "index": "1" }))?;
    play_knowledge(folder, &mut client)?;
    play_docsets(folder, &mut client)?;
    client.end()?;

    say("What the requirements became are plain files, ready for git:\n");
    for file in
        ["docs/development/requirements/AGENTS.md", "docs/development/requirements/accounts.md"]
    {
        say(&format!("── {file}\n{}", indented(&std::fs::read_to_string(folder.join(file))?)));
    }
    let binary = std::env::current_exe()?;
    let with_path =
        SNIPPET.replace("\"command\": \"reqlore\"", &format!("\"command\": {}", json!(binary)));
    say(&format!(
        "To give it to your assistants, run `reqlore init` in a project of yours; what it writes \
         for most of them is this:\n\n  {with_path}\n\n\
         The project stays in {}; remove it when you have seen enough.",
        folder.display()
    ));
    Ok(())
}

/// The knowledge graph: files that a person wrote, found by what they mean.
fn play_knowledge(folder: &Path, client: &mut Client) -> io::Result<()> {
    let files =
        [(".ixchel/decisions/dec-1d2c8f.md", DECISION), (".ixchel/issues/iss-5b0e77.md", ISSUE)];
    for (path, text) in files {
        write(folder, path, text)?;
    }
    say("6. A team's decisions and issues are files too, here two that were written by hand.\n   \
         They are found by words and by meaning; nothing had to be imported.");
    client
        .call("ixchel_search", &json!({ "query": "why do we keep things in git", "limit": 2 }))?;
    say("7. What an issue leads to.");
    client.call("ixchel_graph", &json!({ "id": "iss-5b0e77" }))?;
    say("8. Somebody edits the decision in an editor. The very next call knows it.");
    write(folder, files[0].0, &DECISION.replace("accepted", "superseded"))?;
    client.call("ixchel_show", &json!({ "id": "dec-1d2c8f", "max_tokens": 30 }))
}

/// Docsets: where a library's documentation lies, and how to search it.
fn play_docsets(folder: &Path, client: &mut Client) -> io::Result<()> {
    say("9. The documentation of libraries: one small file says where it lies.");
    write(folder, ".knowledge/config.yaml", "docsets:\n  react:\n    version: 18.2\n")?;
    client.call(
        "search_docs",
        &json!({ "docset": "react", "keywords": ["useEffect"],
                 "generalized_keywords": ["side effects"] }),
    )
}

const DECISION: &str = "---\nid: dec-1d2c8f\ntype: decision\ntitle: Files first\n\
    status: accepted\ntags: [storage]\n---\n\nEverything is kept as markdown in git, because \
    people can read, merge and review it.\n";
const ISSUE: &str = "---\nid: iss-5b0e77\ntitle: Pick a storage backend\nlabels: [storage]\n\
    decided_by: dec-1d2c8f\n---\n\nWhere shall requirements live?\n";

fn write(folder: &Path, path: &str, text: &str) -> io::Result<()> {
    let path = folder.join(path);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

/// Prints one part. Who stops reading misses the rest, nothing else.
fn say(part: &str) {
    let _ = print(&format!("{part}\n"));
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn indented(text: &str) -> String {
    text.lines().flat_map(|line| ["   ", line, "\n"]).collect()
}

fn silent(error: &ProbeError) -> io::Error {
    io::Error::other(format!("the server {}", error.message))
}

/// The assistant, as far as a demo needs one.
struct Client {
    pipe: StdioClient,
    project: Value,
}

impl Client {
    fn start(folder: &Path) -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        // The demo shows the defaults, whatever is set around it.
        for variable in settings::all().filter_map(|setting| setting.variable) {
            command.env_remove(variable);
        }
        command
            .env_remove(FILE_VARIABLE)
            // Nothing of a demo is worth keeping.
            .env("REQLORE_CACHE", "off")
            .args(["serve", "--storage", "fs", "--transport", "stdio", "--log", "warn", "--root"])
            .arg(folder);
        let pipe = StdioClient::start(command, TIMEOUT).map_err(|error| silent(&error))?;
        Ok(Self { pipe, project: json!(folder) })
    }

    /// Calls a tool and shows both sides of it.
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
        let answer = self.pipe.request("tools/call", &params).map_err(|error| silent(&error))?;
        let result = &answer["result"];
        let mark = if result["isError"] == true { "✗" } else { "←" };
        for block in result["content"].as_array().into_iter().flatten() {
            for (at, line) in text(&block["text"]).trim_end().lines().enumerate() {
                say(&format!("   {} {line}", if at == 0 { mark } else { " " }));
            }
        }
        if let Some(version) = result["structuredContent"]["version"].as_str() {
            say(&format!("     (version {version})"));
        }
        say("");
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        let status = self.pipe.end().map_err(|error| silent(&error))?;
        if status.success() {
            Ok(())
        } else {
            Err(io::Error::other(format!("the server ended with {status}")))
        }
    }
}

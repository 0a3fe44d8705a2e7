//! Copilot CLI: `.github/mcp.json` in a project, `~/.copilot/mcp-config.json` for a person.
//!
//! To be checked again in "Adding MCP servers for GitHub Copilot CLI" and "GitHub Copilot CLI
//! configuration directory" (docs.github.com/copilot):
//!
//! - In a project it reads `.mcp.json` too, which is Claude Code's; `.github/mcp.json` is its own,
//!   so that either can be taken out without the other.
//! - `COPILOT_HOME` is the folder `~/.copilot` itself.
//! - `args` has to be there, and `tools`, which says which tools may be used; `["*"]` is all.
//! - `"stdio"` means the same as its own `"local"`, and other clients that read its file know it.
//! - `$NAME`, `${NAME}` and `${NAME:-default}` are replaced in `command`, `args`, `env`, `url` and
//!   `headers`.
//! - A server is started where `copilot` was, which is in the project.
//! - A project's file counts once the person trusts the folder. `.vscode/mcp.json` does no more.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, SERVERS, Starts, bearer, object};
use crate::edit::Entry;
use crate::surroundings::Surroundings;

pub(crate) const FACTS: Facts = Facts {
    programs: &["copilot"],
    // The folder alone may be VS Code's, which keeps servers there too.
    own: |around| vec![folder(around).join("config.json")],
    in_project: &[".github/mcp.json", ".github/copilot"],
    slot: SERVERS,
    project_file: Ok(|around| around.project.join(".github/mcp.json")),
    user_file: |around| folder(around).join("mcp-config.json"),
    new_file: "",
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Dollar,
    command: |program, arguments| Entry {
        set: object([
            ("type", json!("stdio")),
            ("command", json!(program)),
            ("args", json!(arguments)),
            ("tools", json!(["*"])),
        ]),
        drop: &["url", "headers"],
    },
    remote: Ok(|url, variable| Entry {
        set: object([
            ("type", json!("http")),
            ("url", json!(url)),
            ("headers", bearer(&format!("${{{variable}}}"))),
            ("tools", json!(["*"])),
        ]),
        drop: &["command", "args", "cwd", "env"],
    }),
};

fn folder(around: &Surroundings) -> PathBuf {
    around.moved("COPILOT_HOME").unwrap_or_else(|| around.home.join(".copilot"))
}

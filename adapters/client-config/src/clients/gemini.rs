//! Gemini CLI: `mcpServers` in `.gemini/settings.json`, a project's or a person's.
//!
//! To be checked again in "MCP servers with the Gemini CLI" and "Gemini CLI configuration"
//! (geminicli.com/docs):
//!
//! - `httpUrl` is a server over http for every version. New ones prefer `url` with a `type`;
//!   earlier ones take any `url` for the older protocol with SSE. An entry with one of both is
//!   never started, whatever its `command`.
//! - `$NAME`, `${NAME}` and `${NAME:-default}` are replaced in all values; where there is no such
//!   variable, the text stays.
//! - `GEMINI_CLI_HOME` is the folder in which `.gemini` is.
//! - A server is started where `gemini` was, which is in the project.
//! - In a folder that the person doesn't trust, a project's settings don't count, and no server is
//!   started.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, SERVERS, Starts, bearer, beside_command, command, object};
use crate::edit::Entry;
use crate::surroundings::Surroundings;

pub(crate) const FACTS: Facts = Facts {
    programs: &["gemini"],
    // Other programs of its makers keep things in the folder.
    own: |around| vec![folder(around).join("settings.json")],
    in_project: &[".gemini"],
    slot: SERVERS,
    project_file: Ok(|around| around.project.join(".gemini/settings.json")),
    user_file: |around| folder(around).join("settings.json"),
    new_file: "",
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Dollar,
    command: |program, arguments| Entry {
        set: command(program, arguments),
        drop: beside_command(&["args", "type", "url", "httpUrl", "headers", "oauth"], arguments),
    },
    remote: Ok(|url, variable| Entry {
        set: object([("httpUrl", json!(url)), ("headers", bearer(&format!("${{{variable}}}")))]),
        drop: &["command", "args", "cwd", "type", "url"],
    }),
};

fn folder(around: &Surroundings) -> PathBuf {
    let home = around.moved("GEMINI_CLI_HOME").unwrap_or_else(|| around.home.clone());
    home.join(".gemini")
}

//! Claude Code: `.mcp.json` in a project, `~/.claude.json` for a person.
//!
//! To be checked again in "Connect Claude Code to tools via MCP" and "Environment variables"
//! (code.claude.com/docs):
//!
//! - `~/.claude.json` holds much else (its own state) and moves into `CLAUDE_CONFIG_DIR`.
//! - `${NAME}` and `${NAME:-default}` are replaced in `command`, `args`, `env`, `url` and
//!   `headers`; `$NAME` is not.
//! - A server is started where `claude` was, which is in the project.
//! - What a project's file names is started after the person has agreed to it once.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, SERVERS, Starts, bearer, beside_command, command, object};
use crate::edit::Entry;
use crate::surroundings::Surroundings;

pub(crate) const FACTS: Facts = Facts {
    programs: &["claude"],
    own: |around| vec![folder(around), user_file(around)],
    in_project: &[".claude", ".mcp.json"],
    slot: SERVERS,
    project_file: Ok(|around| around.project.join(".mcp.json")),
    user_file,
    new_file: "",
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Braced,
    command: |program, arguments| {
        let mut set = object([("type", json!("stdio"))]);
        set.extend(command(program, arguments));
        Entry { set, drop: beside_command(&["args", "url", "headers"], arguments) }
    },
    remote: Ok(|url, variable| Entry {
        set: object([
            ("type", json!("http")),
            ("url", json!(url)),
            ("headers", bearer(&format!("${{{variable}}}"))),
        ]),
        drop: &["command", "args"],
    }),
};

fn folder(around: &Surroundings) -> PathBuf {
    around.moved("CLAUDE_CONFIG_DIR").unwrap_or_else(|| around.home.join(".claude"))
}

fn user_file(around: &Surroundings) -> PathBuf {
    let moved = around.moved("CLAUDE_CONFIG_DIR");
    moved.unwrap_or_else(|| around.home.clone()).join(".claude.json")
}

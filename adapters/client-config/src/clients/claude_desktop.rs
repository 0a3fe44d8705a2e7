//! Claude Desktop: one file for a person, and none for a project.
//!
//! To be checked again in "Connect to local MCP servers" (modelcontextprotocol.io/docs) and
//! "Getting started with custom connectors using remote MCP" (support.claude.com):
//!
//! - The file names only servers that are started. Those that run elsewhere are connectors, which
//!   are added in its settings, and are called from Anthropic's machines rather than from this one.
//! - Nothing is replaced in values, and a server is started in no folder in particular, so the
//!   project has to be named.
//! - It reads the file when it starts, as JSON without comments.
//! - Windows may show a program from its store another `%APPDATA%` than everybody else.

use std::path::PathBuf;

use super::{Facts, Replaces, SERVERS, Starts, beside_command, command};
use crate::edit::Entry;
use crate::surroundings::Surroundings;
pub(crate) const FACTS: Facts = Facts {
    programs: &["claude-desktop"],
    own: |around| vec![folder(around)],
    in_project: &[],
    slot: SERVERS,
    project_file: Err("Claude Desktop has no file for a project; use --scope user"),
    user_file: |around| folder(around).join("claude_desktop_config.json"),
    new_file: "",
    starts: Starts::Elsewhere,
    project_variable: None,
    replaces: Replaces::Nothing,
    command: |program, arguments| Entry {
        set: command(program, arguments),
        drop: beside_command(&["args", "type", "url", "headers"], arguments),
    },
    remote: Err("Claude Desktop's file can't name a server over http; use --transport stdio, or \
                 add the URL in its settings under Connectors"),
};

fn folder(around: &Surroundings) -> PathBuf {
    around.applications().join("Claude")
}

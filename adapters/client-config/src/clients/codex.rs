//! Codex CLI: `[mcp_servers]` in `.codex/config.toml`, a project's or a person's.
//!
//! To be checked again in "Model Context Protocol" and "Config basics"
//! (developers.openai.com/codex):
//!
//! - A project's file counts once the person trusts the project.
//! - `CODEX_HOME` is the folder `~/.codex` itself.
//! - Nothing is replaced in values; `bearer_token_env_var` names the variable of the token. A
//!   `bearer_token` or a key of the other kind of server is refused, and the whole file with it.
//! - A server is started where `codex` was, which is in the project, and with few variables of the
//!   environment (`env_vars` adds some).

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, Starts, beside_command, command, object};
use crate::edit::{Entry, Format, Slot};
use crate::surroundings::Surroundings;

pub(crate) const FACTS: Facts = Facts {
    programs: &["codex"],
    own: |around| vec![folder(around)],
    in_project: &[".codex"],
    slot: Slot { format: Format::Toml, path: &["mcp_servers"] },
    project_file: Ok(|around| around.project.join(".codex/config.toml")),
    user_file: |around| folder(around).join("config.toml"),
    new_file: "",
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Nothing,
    command: |program, arguments| Entry {
        set: command(program, arguments),
        drop: beside_command(
            &[
                "args",
                "url",
                "bearer_token_env_var",
                "bearer_token",
                "http_headers",
                "env_http_headers",
                "scopes",
                "oauth_resource",
            ],
            arguments,
        ),
    },
    remote: Ok(|url, variable| Entry {
        set: object([("url", json!(url)), ("bearer_token_env_var", json!(variable))]),
        drop: &["command", "args", "env", "env_vars", "cwd", "bearer_token"],
    }),
};

fn folder(around: &Surroundings) -> PathBuf {
    around.moved("CODEX_HOME").unwrap_or_else(|| around.home.join(".codex"))
}

//! Cursor: `.cursor/mcp.json` in a project and in the home folder.
//!
//! To be checked again in "Model Context Protocol", "Config interpolation" (cursor.com/docs):
//!
//! - `${env:NAME}`, `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}` and
//!   `${pathSeparator}` are replaced in `command`, `args`, `env`, `url` and `headers`.
//! - The folder in which a server is started isn't documented; for a person's file it was seen to
//!   be the home folder. `${workspaceFolder}` is the project's for both files.

use serde_json::json;

use super::{Facts, Replaces, SERVERS, Starts, bearer, beside_command, command, object};
use crate::edit::Entry;

pub(crate) const FACTS: Facts = Facts {
    programs: &["cursor", "cursor-agent"],
    own: |around| vec![around.home.join(".cursor")],
    in_project: &[".cursor"],
    slot: SERVERS,
    project_file: Ok(|around| around.project.join(".cursor/mcp.json")),
    user_file: |around| around.home.join(".cursor/mcp.json"),
    new_file: "",
    starts: Starts::Elsewhere,
    project_variable: Some("${workspaceFolder}"),
    replaces: Replaces::Braced,
    command: |program, arguments| {
        let mut set = object([("type", json!("stdio"))]);
        set.extend(command(program, arguments));
        Entry { set, drop: beside_command(&["args", "url", "headers", "auth"], arguments) }
    },
    remote: Ok(|url, variable| Entry {
        set: object([("url", json!(url)), ("headers", bearer(&format!("${{env:{variable}}}")))]),
        drop: &["type", "command", "args", "envFile"],
    }),
};

//! Kiro: `.kiro/settings/mcp.json` in a project and in the home folder, for its editor and its CLI.
//!
//! To be checked again in "Configuration" and "Security" of its MCP chapter (kiro.dev/docs):
//!
//! - `${NAME}` is replaced in values, and only for variables that the person has approved
//!   ("Mcp Approved Env Vars"); it asks for those it meets.
//! - What a project's file names is started in the project's folder. What a person's file names is
//!   started by the editor in the folder where Kiro is installed (its issue 10486).
//! - `args` has to be there. A URL is one over https, or localhost.
//! - `KIRO_HOME` moves only some of its files, so it isn't followed here.

use serde_json::json;

use super::{Facts, Replaces, SERVERS, Starts, bearer, object};
use crate::edit::Entry;

pub(crate) const FACTS: Facts = Facts {
    programs: &["kiro", "kiro-cli"],
    own: |around| vec![around.home.join(".kiro")],
    in_project: &[".kiro"],
    slot: SERVERS,
    project_file: Ok(|around| around.project.join(".kiro/settings/mcp.json")),
    user_file: |around| around.home.join(".kiro/settings/mcp.json"),
    new_file: "",
    starts: Starts::InItsOwnProject,
    project_variable: None,
    replaces: Replaces::Braced,
    command: |program, arguments| Entry {
        set: object([("command", json!(program)), ("args", json!(arguments))]),
        drop: &["type", "url", "headers", "oauth", "oauthScopes"],
    },
    remote: Ok(|url, variable| Entry {
        set: object([("url", json!(url)), ("headers", bearer(&format!("${{{variable}}}")))]),
        drop: &["command", "args", "type"],
    }),
};

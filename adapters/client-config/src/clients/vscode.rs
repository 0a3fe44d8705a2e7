//! VS Code: `.vscode/mcp.json` in a project, `mcp.json` in the folder of a person's settings.
//!
//! To be checked again in "MCP configuration reference" and "Variables reference"
//! (code.visualstudio.com/docs), and `mainThreadMcp.ts` of its source for the folder:
//!
//! - The map is `servers`; each entry has a `type`.
//! - All predefined variables are replaced, `${env:NAME}` and `${workspaceFolder}` among them; the
//!   latter is an error in a person's file. One report says that headers are left out (its issue
//!   336232); `${input:…}` would ask for the token, and needs a second entry beside `servers`.
//! - What a project's file names is started in the project's folder, what a person's file names in
//!   the home folder.
//! - The folder is the stable release's default profile; other profiles have files of their own.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, Starts, bearer, beside_command, command, object};
use crate::edit::{Entry, Format, Slot};
use crate::surroundings::Surroundings;

pub(crate) const FACTS: Facts = Facts {
    programs: &["code"],
    own: |around| vec![around.home.join(".vscode"), settings(around)],
    in_project: &[".vscode"],
    slot: Slot { format: Format::Json, path: &["servers"] },
    project_file: Ok(|around| around.project.join(".vscode/mcp.json")),
    user_file: |around| settings(around).join("mcp.json"),
    new_file: "",
    starts: Starts::InItsOwnProject,
    project_variable: None,
    replaces: Replaces::Braced,
    command: |program, arguments| {
        let mut set = object([("type", json!("stdio"))]);
        set.extend(command(program, arguments));
        Entry { set, drop: beside_command(&["args", "url", "headers", "oauth"], arguments) }
    },
    remote: Ok(|url, variable| Entry {
        set: object([
            ("type", json!("http")),
            ("url", json!(url)),
            ("headers", bearer(&format!("${{env:{variable}}}"))),
        ]),
        drop: &["command", "args", "cwd", "env", "envFile"],
    }),
};

fn settings(around: &Surroundings) -> PathBuf {
    around.applications().join("Code").join("User")
}

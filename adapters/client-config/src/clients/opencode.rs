//! OpenCode: `mcp` in `opencode.json` or `opencode.jsonc`, a project's or a person's.
//!
//! To be checked again in "Config", "MCP servers" and "Migrate from v1" (opencode.ai/docs):
//!
//! - `command` is a list with the program first; keys of the other kind of server are refused, and
//!   the whole file with them.
//! - `{env:NAME}` and `{file:PATH}` are replaced in the text of the file, before it is read.
//! - Version 2 has the servers in `mcp.servers` and reads this shape as well; version 1 reads only
//!   this one.
//! - It adds `$schema` to a file that has none.
//! - The folder is `~/.config/opencode` on Windows too, and `XDG_CONFIG_HOME` moves it everywhere.
//!   `OPENCODE_CONFIG` and `OPENCODE_CONFIG_DIR` add files and move none.
//! - A server is started in the project's folder.
//! - Without `"oauth": false` it tries to log in at a server that refuses a token.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, Starts, bearer, object};
use crate::edit::{Entry, Format, Slot};
use crate::surroundings::{Surroundings, first_there};

pub(crate) const FACTS: Facts = Facts {
    programs: &["opencode"],
    own: |around| vec![folder(around), around.home.join(".opencode")],
    in_project: &["opencode.json", "opencode.jsonc", ".opencode"],
    slot: Slot { format: Format::Json, path: &["mcp"] },
    project_file: Ok(|around| {
        let names = [
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ];
        first_there(&around.project, names)
    }),
    user_file: |around| first_there(&folder(around), ["opencode.json", "opencode.jsonc"]),
    new_file: NEW_FILE,
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Curly,
    command: |program, arguments| {
        let mut words = vec![program];
        words.extend(arguments.iter().map(String::as_str));
        Entry {
            set: object([("type", json!("local")), ("command", json!(words))]),
            drop: &["args", "env", "url", "headers", "oauth"],
        }
    },
    remote: Ok(|url, variable| Entry {
        set: object([
            ("type", json!("remote")),
            ("url", json!(url)),
            ("oauth", json!(false)),
            ("headers", bearer(&format!("{{env:{variable}}}"))),
        ]),
        drop: &["command", "args", "cwd", "env", "environment"],
    }),
};

/// Without it OpenCode writes the line itself, and then we can't restore the file to the byte.
const NEW_FILE: &str = "{\n  \"$schema\": \"https://opencode.ai/config.json\"\n}\n";

fn folder(around: &Surroundings) -> PathBuf {
    around.dot_config().join("opencode")
}

//! Zed: `context_servers` in its settings, a project's `.zed/settings.json` or a person's.
//!
//! To be checked again in "Model Context Protocol" and "Configuring Zed" (zed.dev/docs):
//!
//! - The files have comments and trailing commas.
//! - Nothing is replaced in headers, so a token could only stand in the file.
//! - A server is started by the person's shell (`shell_builder.rs` of its source): words are
//!   quoted, but not a program without arguments, and some shells' variables are replaced before.
//! - A server is started in the project's first folder, whichever file names it; versions from
//!   before August 2026 may start it before there is a folder.
//! - A project's settings count once the person trusts it.
//! - On macOS the folder is `~/.config/zed` as well.

use std::path::PathBuf;

use serde_json::json;

use super::{Facts, Replaces, Starts, object};
use crate::edit::{Entry, Format, Slot};
use crate::surroundings::{Platform, Surroundings};

pub(crate) const FACTS: Facts = Facts {
    // Distributions name it `zeditor`, since ZFS has a `zed`.
    programs: &["zed", "zeditor"],
    own: |around| vec![folder(around)],
    in_project: &[".zed"],
    slot: Slot { format: Format::Json, path: &["context_servers"] },
    project_file: Ok(|around| around.project.join(".zed/settings.json")),
    user_file: |around| folder(around).join("settings.json"),
    new_file: "",
    starts: Starts::InProject,
    project_variable: None,
    replaces: Replaces::Shell,
    // Earlier versions refuse an entry without `args`.
    command: |program, arguments| Entry {
        set: object([("command", json!(program)), ("args", json!(arguments))]),
        drop: &["url", "headers"],
    },
    remote: Err(
        "Zed can't take a token from its environment, and it shall not stand in the file; use \
         --transport stdio",
    ),
};

fn folder(around: &Surroundings) -> PathBuf {
    match around.platform {
        Platform::Linux => around.dot_config().join("zed"),
        Platform::MacOs => around.home.join(".config/zed"),
        Platform::Windows => around.applications().join("Zed"),
    }
}

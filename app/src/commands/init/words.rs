//! What a person is shown of paths, scopes and texts.

use std::path::Path;

use reqlore_client_config::{Scope, Surroundings};

pub(super) use crate::commands::untrusted_text::printable as plain;

/// The path as a person would write it.
pub(super) fn shown(path: &Path, around: &Surroundings) -> String {
    let shown = match (path.strip_prefix(&around.project), path.strip_prefix(&around.home)) {
        (Ok(inside), _) => inside.display().to_string(),
        (_, Ok(inside)) => format!("~/{}", inside.display()),
        _ => path.display().to_string(),
    };
    plain(&shown)
}

pub(super) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Project => "project",
        Scope::User => "user",
    }
}

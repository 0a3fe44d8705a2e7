//! What a person is shown of paths, scopes and texts.

use std::path::Path;

use reqlore_client_config::{Scope, Surroundings};

use crate::commands::untrusted_text::is_terminal_control;

/// The path as a person would write it.
pub(super) fn shown(path: &Path, around: &Surroundings) -> String {
    let shown = match (path.strip_prefix(&around.project), path.strip_prefix(&around.home)) {
        (Ok(inside), _) => inside.display().to_string(),
        (_, Ok(inside)) => format!("~/{}", inside.display()),
        _ => path.display().to_string(),
    };
    plain(&shown)
}

/// Without what would speak to a terminal; line ends and a byte order mark are not for eyes.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\u{feff}', "");
    let is_quiet = |c: char| !is_terminal_control(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if is_quiet(c) { c } else { '\u{fffd}' }).collect()
}

pub(super) fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Project => "project",
        Scope::User => "user",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_file_speaks_to_the_terminal() {
        assert_eq!(
            plain("\u{feff}a\r\n\tb\x1b[2J\rc\u{9b}1m\n"),
            "a\n\tb\u{fffd}[2J\u{fffd}c\u{fffd}1m\n"
        );
    }
}

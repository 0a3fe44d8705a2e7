//! AGENTS.md: is an assistant told of the server?

use std::path::Path;

use reqlore_client_config::edit::block;

use super::finding::{Area, Findings};
use crate::commands::others::{instructions_of_claude, read};

const FILE: &str = "AGENTS.md";
/// A file of instructions is never longer, in bytes.
const MOST: u64 = 4 << 20;

pub(super) fn look(root: &Path, is_claude_here: bool, findings: &mut Findings) {
    let next = "`reqlore init` puts a few lines into it that tell an assistant when to call the \
                server";
    let text = match read(&root.join(FILE), MOST) {
        Ok(Some(text)) => text,
        Ok(None) => {
            let message = format!("there is no {FILE} in the project's root");
            return findings.note(Area::Instructions, message, Some(next));
        }
        Err(error) => {
            let next = "make it a file that you can read, as text";
            let message = format!("{FILE} can't be read: {error}");
            return findings.warning(Area::Instructions, message, next);
        }
    };
    match block::find(&text) {
        Ok(Some(_)) => {
            findings.ok(Area::Instructions, "it tells of Reqlore");
            let elsewhere = is_claude_here.then(|| instructions_of_claude(root)).flatten();
            if let Some((message, next)) = elsewhere {
                findings.warning(Area::Instructions, message, next);
            }
        }
        Ok(None) => {
            findings.note(Area::Instructions, "it says nothing of Reqlore", Some(next));
        }
        Err(error) => findings.warning(
            Area::Instructions,
            format!("its block for Reqlore is broken: {error}"),
            "mend the markers by hand, then run `reqlore init`",
        ),
    }
}

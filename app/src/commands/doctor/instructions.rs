//! AGENTS.md: is an assistant told of the server?

use std::io::{self, Read};
use std::path::Path;

use reqlore_client_config::edit::block;

use super::finding::{Area, Findings};

const FILE: &str = "AGENTS.md";
/// A file of instructions is never longer, in bytes.
const MOST: u64 = 4 << 20;

pub(super) fn look(root: &Path, findings: &mut Findings) {
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
        Ok(Some(_)) => findings.ok(Area::Instructions, "it tells of Reqlore"),
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

/// A file as text, if it is one and no longer than this; a pipe or a device is none.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
    let found = match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    let read = std::fs::File::open(path)?.take(most).read_to_string(&mut text)?;
    if read as u64 == most {
        return Err(io::Error::other("it is too long"));
    }
    Ok(Some(text))
}

//! What others wrote, before a person at a terminal sees it.
//!
//! Trap: it may come from a repository that somebody cloned, and it may hold secrets of servers
//! that are not ours.

use std::io::{self, Read};
use std::path::Path;

/// A file as text, if it is one and no longer than this; a pipe or a device is none.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
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

/// What Claude Code reads; AGENTS.md only where there is no such file.
const OF_CLAUDE: &str = "CLAUDE.md";
/// Instructions are never longer, in bytes.
const MOST_OF_INSTRUCTIONS: u64 = 4 << 20;

/// Why Claude Code would not come to read a project's AGENTS.md, and what brings it there.
pub(crate) fn instructions_of_claude(project: &Path) -> Option<(&'static str, &'static str)> {
    let text = read(&project.join(OF_CLAUDE), MOST_OF_INSTRUCTIONS).ok()??;
    (!text.contains("AGENTS.md")).then_some((
        "Claude Code reads CLAUDE.md here and not AGENTS.md",
        "a line `@AGENTS.md` in CLAUDE.md brings the other in",
    ))
}

/// Would a terminal take it for more than a text?
pub(crate) fn steers(c: char) -> bool {
    let turns = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || turns.iter().any(|turns| turns.contains(&c))
}

/// No secret is shorter, in bytes.
const SECRET: usize = 16;

/// The text with every quoted string hidden that may be a secret and of which `is_theirs` says that
/// others wrote it. Paths, addresses, variables and words stay: they say where one is.
pub(crate) fn hide(text: &str, is_theirs: impl Fn(&str) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, quote, string, after)) = quoted(rest) {
            shown.push_str(before);
            shown.push(quote);
            shown.push_str(if may_be_secret(string) && is_theirs(string) { "…" } else { string });
            shown.push(quote);
            rest = after;
        }
        shown.push_str(rest);
    }
    shown
}

/// The first string of a line: what stands before it, its quote, what is in it, what comes after.
fn quoted(line: &str) -> Option<(&str, char, &str, &str)> {
    let start = line.find(['"', '\''])?;
    let (before, string) = line.split_at(start);
    let quote = string.chars().next()?;
    let string = &string[1..];
    let mut is_escaped = false;
    let end = string.find(|c| {
        let is_end = c == quote && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some((before, quote, &string[..end], &string[end + 1..]))
}

fn may_be_secret(string: &str) -> bool {
    let value = string.rsplit(' ').next().unwrap_or(string);
    let is_place = ["/", "./", "../", "~", "@"].iter().any(|begin| string.starts_with(begin));
    value.len() >= SECRET && !is_place && !string.contains("${") && !value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_that_others_wrote_and_that_may_be_secrets_are_hidden() {
        let secret = "ghp_0123456789abcdef";
        let of_others = format!(
            "   \"env\": {{ \"KEY\": \"{secret}\" }}, // it's\n   \"x\": 'a\\'{secret}'\n\
             + \"Authorization\": \"Bearer {secret}\", \"command\": \"/usr/bin/a/long/path\"\n"
        );
        let shown = hide(&of_others, |_| true);
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("\"KEY\": \"…\"") && shown.contains("/usr/bin/a/long/path"));
        assert_eq!(hide(&of_others, |_| false), of_others);
        let ours = "+ \"Authorization\": \"Bearer ${REQLORE_TOKEN}\"\n";
        assert_eq!(hide(ours, |_| true), ours);
    }
}

//! Text from other people's files, made safe to read and to print.
//!
//! It may come from a cloned repository and may contain secrets of other servers.

use std::io::Read;
use std::path::Path;

/// The text of a regular file; `None` if there is no file. The error does not name the file.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<String>, String> {
    let unreadable = |error: std::io::Error| format!("it can't be read: {error}");
    let metadata = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        metadata => metadata.map_err(unreadable)?,
    };
    if !metadata.is_file() {
        return Err("it is not a regular file; move it away".into());
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    file.take(max_bytes + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > max_bytes {
        return Err(format!("it is larger than {} MB", max_bytes >> 20));
    }
    String::from_utf8(bytes).map(Some).map_err(|_| "it is not UTF-8 text; save it as UTF-8".into())
}

pub(crate) const AGENTS_MD: &str = "AGENTS.md";
pub(crate) const MAX_AGENTS_MD_BYTES: u64 = 4 << 20;

/// Why Claude Code does not read the project's AGENTS.md, and the fix.
pub(crate) fn agents_md_ignored_by_claude(project: &Path) -> Option<[&'static str; 2]> {
    // Claude Code reads AGENTS.md only where there is no CLAUDE.md.
    let text = read_file(&project.join("CLAUDE.md"), MAX_AGENTS_MD_BYTES).ok()??;
    (!text.contains("AGENTS.md")).then_some([
        "Claude Code reads CLAUDE.md here and not AGENTS.md",
        "a line `@AGENTS.md` in CLAUDE.md brings the other in",
    ])
}

/// True for characters that a terminal interprets: control characters and changes of direction.
pub(crate) fn is_terminal_control(c: char) -> bool {
    let turns = ['\u{200e}'..='\u{200f}', '\u{202a}'..='\u{202e}', '\u{2066}'..='\u{2069}'];
    c.is_control() || turns.iter().any(|turns| turns.contains(&c))
}

/// Text with lines, without terminal controls and byte order marks.
pub(crate) fn printable(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\u{feff}', "");
    let is_plain = |c: char| !is_terminal_control(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if is_plain(c) { c } else { '\u{fffd}' }).collect()
}

/// A word as a POSIX shell reads it.
pub(crate) fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:@=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Shorter strings are not secrets, in bytes.
const MIN_SECRET_BYTES: usize = 16;

/// Replaces each quoted string that may be a secret and that `is_foreign` accepts. Paths, addresses
/// and variables stay.
pub(crate) fn mask_secrets(text: &str, is_foreign: impl Fn(&str) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, quote, string, after)) = split_at_quoted(rest) {
            let string = if may_be_secret(string) && is_foreign(string) { "…" } else { string };
            shown.extend([before, quote, string, quote]);
            rest = after;
        }
        shown.push_str(rest);
    }
    shown
}

/// The first quoted string of a line: text before it, quote, content, text after it.
fn split_at_quoted(line: &str) -> Option<(&str, &str, &str, &str)> {
    let start = line.find(['"', '\''])?;
    let (before, string) = line.split_at(start);
    let (quote, string) = string.split_at(1);
    let mut is_escaped = false;
    let end = string.find(|c: char| {
        let is_end = quote.starts_with(c) && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    })?;
    Some((before, quote, &string[..end], &string[end + 1..]))
}

fn may_be_secret(string: &str) -> bool {
    let value = string.rsplit(' ').next().unwrap_or(string);
    let is_path = ["/", "./", "../", "~", "@"].iter().any(|begin| string.starts_with(begin));
    value.len() >= MIN_SECRET_BYTES && !is_path && !string.contains("${") && !value.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_secrets_hides_foreign_strings() {
        let secret = "ghp_0123456789abcdef";
        let foreign = format!(
            "   \"env\": {{ \"KEY\": \"{secret}\" }}, // it's\n   \"x\": 'a\\'{secret}'\n\
             + \"Authorization\": \"Bearer {secret}\", \"command\": \"/usr/bin/a/long/path\"\n"
        );
        let shown = mask_secrets(&foreign, |_| true);
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("\"KEY\": \"…\"") && shown.contains("/usr/bin/a/long/path"));
        assert_eq!(mask_secrets(&foreign, |_| false), foreign);
        let ours = "+ \"Authorization\": \"Bearer ${REQLORE_TOKEN}\"\n";
        assert_eq!(mask_secrets(ours, |_| true), ours);
    }

    #[test]
    fn printable_removes_terminal_controls() {
        assert_eq!(
            printable("\u{feff}a\r\n\tb\x1b[2J\rc\u{9b}1m\n"),
            "a\n\tb\u{fffd}[2J\u{fffd}c\u{fffd}1m\n"
        );
    }
}

//! Reads text from files that may come from a cloned repository, and masks secrets in it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The text of a regular file. `None` if it does not exist. The error does not name the file.
pub(crate) fn read_file(path: &Path, max_bytes: u64) -> Result<Option<String>, String> {
    let bytes = match read_bytes(path, max_bytes) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Err("not a regular file; move it away".into());
        }
        Err(error) => return Err(format!("can't be read: {error}")),
    };
    if bytes.len() as u64 > max_bytes {
        return Err(format!("larger than {} MB", max_bytes >> 20));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err("not UTF-8 text; save it as UTF-8".into()),
    }
}

/// At most one byte more than `max_bytes`. `InvalidInput` if the path is not a regular file.
fn read_bytes(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    // Opening a pipe would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    // One byte more shows that the file is too large.
    File::open(path)?.take(max_bytes + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub(crate) const AGENTS_MD: &str = "AGENTS.md";
pub(crate) const MAX_AGENTS_MD_BYTES: u64 = 4 << 20;

/// The problem and its fix if Claude Code ignores the project's AGENTS.md.
pub(crate) fn agents_md_ignored_by_claude(project: &Path) -> Option<[&'static str; 2]> {
    // Claude Code reads AGENTS.md only if there is no CLAUDE.md.
    let text = read_file(&project.join("CLAUDE.md"), MAX_AGENTS_MD_BYTES).ok()??;
    if text.contains(AGENTS_MD) {
        return None;
    }
    Some([
        "Claude Code reads CLAUDE.md instead of AGENTS.md",
        "add a line `@AGENTS.md` to CLAUDE.md",
    ])
}

/// True if every shell takes the word as it is, and no program takes it for a flag.
pub(crate) fn is_shell_plain(word: &str) -> bool {
    let starts_plain = word.starts_with(|c: char| c.is_alphanumeric() || "_./".contains(c));
    starts_plain && word.chars().all(|c| c.is_alphanumeric() || "-_./:@,+=%".contains(c))
}

/// A word quoted for a POSIX shell.
pub(crate) fn shell_word(word: &str) -> String {
    // A shell takes flags as they are.
    if is_shell_plain(word.trim_start_matches('-')) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Shorter strings are not secrets.
const MIN_SECRET_BYTES: usize = 16;

/// Replaces each quoted string that may be a secret and that `is_foreign` accepts. Paths, addresses
/// and variables stay.
pub(crate) fn mask_secrets(text: &str, is_foreign: impl Fn(&str) -> bool) -> String {
    let mut masked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        while let Some((before, quote, string, after)) = split_at_quoted(rest) {
            let string = if may_be_secret(string) && is_foreign(string) { "…" } else { string };
            masked.extend([before, quote, string, quote]);
            rest = after;
        }
        masked.push_str(rest);
    }
    masked
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
    // Of `Bearer TOKEN` only the last word may be secret.
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
}

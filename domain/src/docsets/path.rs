//! Paths as words: joined and normalised by their text alone (S3 REQ-5).
//!
//! Forward slashes everywhere, on every system. Links are not followed: there are no files here.

use super::name::shown;

/// The longest path in a configuration, in characters.
const MAX: usize = 1_000;

/// A path of the configuration as an absolute one that ends with a slash; a relative one begins at
/// `base`, which is absolute.
pub(super) fn resolve(base: &str, text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > MAX {
        return Err(format!("a path of 1 to {MAX} characters is required, this has {length}"));
    }
    if text.contains(char::is_control) {
        return Err(format!("{} holds a control character; remove it", shown(text)));
    }
    if text.starts_with('~') {
        return Err(format!(
            "{} is not expanded; write the whole path, or one relative to the project's folder",
            shown(text)
        ));
    }
    let text = text.replace('\\', "/");
    if drive(&text).is_some() || text.starts_with('/') {
        return Ok(normalised(&text));
    }
    Ok(normalised(&format!("{base}/{text}")))
}

/// Is the path this folder, or below it? Both are normalised and end with a slash.
pub(super) fn lies_in(path: &str, folder: &str) -> bool {
    path.starts_with(folder)
}

/// Would searching there be searching the system or its secrets? The path is normalised and ends
/// with a slash.
pub(super) fn belongs_to_system(path: &str) -> bool {
    const SYSTEM: [&str; 7] = ["/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/run/", "/var/run/"];
    path == "/" || path.ends_with(":/") || SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// Without `.`, `..` and empty parts; ends with a slash.
pub(super) fn normalised(path: &str) -> String {
    let drive = drive(path).unwrap_or_default();
    let mut parts: Vec<&str> = Vec::new();
    for part in path[drive.len()..].split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = format!("{drive}/");
    for part in parts {
        whole.push_str(part);
        whole.push('/');
    }
    whole
}

/// `C:` of `C:/docs`.
fn drive(path: &str) -> Option<&str> {
    let letter = path.starts_with(|c: char| c.is_ascii_alphabetic());
    (letter && path.get(1..3) == Some(":/")).then(|| &path[..2])
}

//! Titles, IDs and file names that follow from texts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::file_title;

/// Maximum length of an ID or title, in bytes: other items copy it.
pub(crate) const MAX_NAME_BYTES: usize = 4_000;

/// Refuses an ID or title that is too long to be copied.
pub(crate) fn check_length(object: &str, text: &str) -> Result<(), String> {
    if text.len() <= MAX_NAME_BYTES {
        return Ok(());
    }
    Err(format!("{object} has more than {MAX_NAME_BYTES} bytes; shorten it"))
}

/// True for a file with one of the extensions, which are lower-case.
pub(crate) fn has_extension(path: &str, extensions: &[&str]) -> bool {
    let end = path.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
    end.is_some_and(|end| extensions.contains(&&*end))
}

/// Makes an ID unique in its file: the second `login` is `login~2`.
pub(crate) fn unique_id(used: &mut HashMap<String, usize>, id: &str) -> String {
    loop {
        let count = used.entry(id.to_owned()).or_default();
        *count += 1;
        if *count == 1 {
            return id.to_owned();
        }
        let numbered = format!("{id}~{count}");
        if let Entry::Vacant(entry) = used.entry(numbered.clone()) {
            entry.insert(1);
            return numbered;
        }
    }
}

/// The beginning of a text as its title, on one line.
pub(crate) fn title_of(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match line.char_indices().nth(MAX_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => {
            let cut = &line[..end];
            format!("{}…", cut.rsplit_once(' ').map_or(cut, |(words, _)| words))
        }
    }
}

/// As [`title_of`], without the marks of bold text.
pub(crate) fn plain_title(text: &str) -> String {
    title_of(&text.replace("**", ""))
}

/// The title of a text, and the text if the title is only a part of it.
pub(crate) fn split_title(text: &str) -> (String, &str) {
    let title = title_of(text);
    let rest = if text.trim() == title { "" } else { text };
    (title, rest)
}

/// As [`split_title`], with the first paragraph on one line.
pub(crate) fn split_paragraph(text: &str) -> (String, &str) {
    let paragraph = text.trim().split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let title = title_of(&words.join(" "));
    let rest = if text.trim() == title { "" } else { text };
    (title, rest)
}

/// Adds a paragraph to a text.
pub(crate) fn add_paragraph(text: &mut String, paragraph: &str) {
    let paragraph = paragraph.trim_matches('\n');
    if !paragraph.is_empty() {
        text.truncate(text.trim_end_matches('\n').len());
        text.push_str(if text.is_empty() { "" } else { "\n\n" });
        text.push_str(paragraph);
    }
}

/// The relation of a name such as `Depends On`; `None` if the name is not one.
pub(crate) fn known_relation(name: &str) -> Option<String> {
    let word = name.to_lowercase().replace([' ', '-'], "_");
    is_known_relation(&word).then_some(word)
}

/// A title as the name of a file.
pub(crate) fn slug(title: &str) -> String {
    let mut slug = String::new();
    for c in title.to_lowercase().chars().take(60) {
        if c.is_alphanumeric() {
            slug.push(c);
        } else if !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_matches('-');
    if slug.is_empty() { "untitled".to_owned() } else { slug.to_owned() }
}

/// The folder of a file with this name; the name without its extension if no folder is known.
pub(crate) fn folder_of<'p>(path: &'p str, name: &str) -> Option<&'p str> {
    let folder = path.strip_suffix(name)?;
    if folder.is_empty() {
        return Some(file_title(path));
    }
    folder.strip_suffix('/')?.rsplit('/').next()
}

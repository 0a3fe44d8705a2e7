//! Files that look like items but are not read, for example `REQ-007.txt`, and folders of documents
//! that can't be read.

use cap_std::fs::Dir;
use reqlore_domain::backlog::Reference;
use reqlore_domain::document::{BACKLOG_FOLDER, DocumentKind, backlog_folder_of};
use reqlore_domain::ports::record_list::UnreadFile;
use reqlore_durable_fs::folder::open_folder;

use crate::system::{EntryKind, entries};

/// More files are not reported. A user who fixes these sees the next ones.
const MAX_UNREAD_FILES: usize = 100;
/// Extensions of Markdown other than `md`.
const MARKDOWN_EXTENSIONS: [&str; 5] = ["markdown", "mdown", "mdwn", "mdx", "mkd"];
/// Extensions with which a text that begins with a reference is meant as an item.
const TEXT_EXTENSIONS: [&str; 6] = ["", "adoc", "rst", "text", "txt", "yaml"];

/// The unread files of a listing and the kind of item that each seems to be.
#[derive(Debug, Default)]
pub(crate) struct UnreadFiles(pub(crate) Vec<(DocumentKind, UnreadFile)>);

impl UnreadFiles {
    pub(crate) fn add(&mut self, kind: DocumentKind, path: &str, reason: &str) {
        if self.0.len() >= MAX_UNREAD_FILES {
            return;
        }
        let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        // A line break in a name must not forge a line of a message.
        let is_printable = !path.contains(char::is_control);
        let path = if is_printable { path.to_owned() } else { format!("{path:?}") };
        let reference = reference_of(file);
        self.0.push((kind, UnreadFile { path, reference, reason: reason.to_owned() }));
    }

    /// Adds a file in the folder of a kind whose name does not end with `.md`.
    pub(crate) fn add_other_file(
        &mut self,
        kind: DocumentKind,
        folder_path: &str,
        name: &str,
        file: EntryKind,
    ) {
        if !matches!(kind, DocumentKind::Item(_)) {
            return;
        }
        let path = format!("{folder_path}{name}");
        if file == EntryKind::Link && (looks_like_item(name) || !name.contains('.')) {
            self.add(kind, &path, "is a symbolic link and not followed; put the items there");
        } else if looks_like_item(name) {
            let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
            let reason = format!("is not read; rename it to {stem}.md");
            self.add(kind, &path, &reason);
        }
    }

    /// Adds items in the top folder of the backlog, and its folders that hold items but belong to
    /// no kind.
    pub(crate) fn add_misplaced(&mut self, top: &Dir) {
        for (name, is_folder) in entries_of(top) {
            let path = format!("{BACKLOG_FOLDER}/{name}");
            if !is_folder {
                if let Some(kind) = item_kind(&name) {
                    let folder = backlog_folder_of(kind);
                    self.add(kind, &path, &format!("is not read; move it to {folder}/"));
                }
                continue;
            }
            let is_known = DocumentKind::ALL.iter().any(|kind| backlog_folder_of(*kind) == name);
            let Ok(folder) = open_folder(top, &name) else { continue };
            if is_known || name.starts_with('.') {
                continue;
            }
            if let Some(kind) = entries_of(&folder).iter().find_map(|(name, _)| item_kind(name)) {
                let target = backlog_folder_of(kind);
                let reason = format!("its items are not read; move them to {target}/");
                self.add(kind, &format!("{path}/"), &reason);
            }
        }
    }
}

/// True if a created or removed file of this name may change the unread files. `kind` is `None` in
/// the backlog's top folder.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "only inotify needs it"))]
pub(crate) fn may_be_reported(kind: Option<DocumentKind>, name: &str) -> bool {
    match kind {
        Some(DocumentKind::Item(_)) => {
            // A name without extension may be a link. Some editors create a file `4913`.
            let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
            looks_like_item(name) || (!name.contains('.') && !is_number)
        }
        Some(_) => false,
        None => item_kind(name).is_some(),
    }
}

/// True for any Markdown file, and for a text whose name begins with a reference.
fn looks_like_item(name: &str) -> bool {
    let (_, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let extension = extension.to_ascii_lowercase();
    // A file `.MD` is not read, because most file systems distinguish the case.
    extension == "md"
        || MARKDOWN_EXTENSIONS.contains(&extension.as_str())
        || (TEXT_EXTENSIONS.contains(&extension.as_str()) && reference_of(name).is_some())
}

fn reference_of(file: &str) -> Option<Reference> {
    Reference::from_document_name(file.split('.').next().unwrap_or(file))
}

/// The kind of a file that would be an item in the folder of its kind.
fn item_kind(name: &str) -> Option<DocumentKind> {
    let reference = reference_of(name).filter(|_| looks_like_item(name))?;
    Some(DocumentKind::Item(reference.kind))
}

/// The names in a folder, each with true for a folder. Empty if it cannot be listed, which the
/// listing of documents reports.
fn entries_of(folder: &Dir) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    for entry in entries(folder).into_iter().flatten().flatten() {
        if let Ok(name) = entry.name.into_string() {
            found.push((name, entry.kind == EntryKind::Folder));
        }
    }
    found
}

//! The change of one file by init, before it is written.

use std::fs;
use std::path::{Component, Path, PathBuf};

use reqlore_client_config::{Client, ClientEnvironment, ConfigError, ConfigScope};
use reqlore_domain::untrusted_text::encode_line;
use serde::{Deserialize, Serialize};

use crate::commands::untrusted_text::{self, AGENTS_MD};
use crate::config::paths::resolve_links;

pub(super) const AGENTS_MD_TITLE: &str = "all assistants";

#[derive(Debug, Clone)]
pub(super) struct FileChange {
    pub(super) kind: ChangeKind,
    /// The programs that read the file.
    pub(super) title: String,
    pub(super) clients: Vec<Client>,
    pub(super) scope: ConfigScope,
    /// The path before links are resolved.
    pub(super) path: PathBuf,
    /// As the user would write it.
    pub(super) short_path: String,
    /// The path after links are resolved.
    pub(super) target: PathBuf,
    /// `None` if the file does not exist.
    pub(super) old_text: Option<String>,
    /// True if the file mentions Reqlore already.
    pub(super) mentions_reqlore: bool,
    pub(super) outcome: ChangeOutcome,
}

#[derive(Debug, Clone)]
pub(super) enum ChangeOutcome {
    Unchanged,
    /// The whole new text; `None` removes the file.
    Write {
        after: Option<String>,
        note: Option<String>,
    },
    /// The reason and the next step.
    Refused(String),
}

impl FileChange {
    /// An unchanged file. Refused if a link of a project's file leads out of the project.
    pub(super) fn for_file(
        kind: ChangeKind,
        title: &str,
        scope: ConfigScope,
        path: &Path,
        environment: &ClientEnvironment,
    ) -> Self {
        let folder = (scope == ConfigScope::Project).then_some(&*environment.project);
        let (target, old_text, outcome) = match resolve_and_read(path, folder) {
            Ok((target, text)) => (target, text, ChangeOutcome::Unchanged),
            Err(reason) => (path.to_owned(), None, ChangeOutcome::Refused(reason)),
        };
        Self {
            kind,
            title: title.to_owned(),
            clients: Vec::new(),
            scope,
            path: path.to_owned(),
            short_path: short_path(path, environment),
            target,
            old_text,
            mentions_reqlore: false,
            outcome,
        }
    }

    pub(super) fn agents_md(environment: &ClientEnvironment) -> Self {
        let path = environment.project.join(AGENTS_MD);
        Self::for_file(ChangeKind::Block, AGENTS_MD_TITLE, ConfigScope::Project, &path, environment)
    }

    /// The text after the changes so far.
    pub(super) fn current_text(&self) -> &str {
        match &self.outcome {
            ChangeOutcome::Write { after: Some(after), .. } => after,
            _ => self.old_text.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn set_text(&mut self, text: Result<String, ConfigError>) {
        self.outcome = match text {
            Ok(text) if self.old_text.as_ref() == Some(&text) => ChangeOutcome::Unchanged,
            Ok(text) => self.write_outcome(Some(text), None),
            Err(reason) => ChangeOutcome::Refused(reason.into()),
        };
    }

    pub(super) fn remove_file(&mut self) {
        let note = match &mut self.outcome {
            ChangeOutcome::Write { note, .. } => note.take(),
            _ => None,
        };
        self.outcome = self.write_outcome(None, note);
    }

    fn write_outcome(&self, after: Option<String>, note: Option<String>) -> ChangeOutcome {
        // Checked before the first write, so that the preview shows the problem.
        match check_writable(&self.target) {
            Ok(()) => ChangeOutcome::Write { after, note },
            Err(reason) => ChangeOutcome::Refused(reason),
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Refused(_))
    }

    pub(super) fn is_file_removal(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Write { after: None, .. })
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Write { .. })
    }
}

/// The path as the user would write it.
pub(super) fn short_path(path: &Path, environment: &ClientEnvironment) -> String {
    let path = match (path.strip_prefix(&environment.project), path.strip_prefix(&environment.home))
    {
        (Ok(inside), _) => inside.display().to_string(),
        (_, Ok(inside)) => format!("~/{}", inside.display()),
        _ => path.display().to_string(),
    };
    encode_line(&path).into_owned()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeKind {
    /// The server's entry in a client's configuration.
    Entry,
    /// The block in AGENTS.md.
    Block,
    /// A whole file, for `--create`.
    #[serde(rename = "beginning")]
    Scaffold,
}

/// Resolves links and reads the file. Returns its resolved path, and its text if the file exists.
/// Rejects a link that leads out of `allowed_folder`. Errors do not name the file.
pub(super) fn resolve_and_read(
    path: &Path,
    allowed_folder: Option<&Path>,
) -> Result<(PathBuf, Option<String>), String> {
    let path = link_target(path)?;
    // A cloned repository may contain links to the user's own files.
    if allowed_folder.is_some_and(|folder| !path.starts_with(folder)) {
        return Err(format!(
            "a link out of the project, to {}; replace it with a file in the project",
            path.display()
        ));
    }
    if path.to_str().is_none() {
        return Err("a link to a file whose name is not UTF-8; rename that file".into());
    }
    let text = read_text(&path)?;
    Ok((path, text))
}

/// Rejects read-only files and folders. A rename would replace a read-only file.
pub(super) fn check_writable(target: &Path) -> Result<(), String> {
    if is_read_only(target) {
        return Err("read-only; make it writable with chmod u+w".into());
    }
    for folder in target.ancestors().skip(1) {
        let Ok(metadata) = fs::metadata(folder) else { continue };
        if !metadata.is_dir() {
            return Err(format!("{} is not a folder; move it away", folder.display()));
        }
        if metadata.permissions().readonly() {
            return Err(format!(
                "its folder {} is read-only; make it writable with chmod u+w",
                folder.display()
            ));
        }
        // Only the nearest existing folder decides: the others are created in it.
        break;
    }
    Ok(())
}

/// Follows links, including one to a file that does not exist yet.
pub(super) fn link_target(path: &Path) -> Result<PathBuf, String> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(next) = fs::read_link(&path) else {
            let resolved = resolve_links(&path);
            for part in resolved.components() {
                if part == Component::ParentDir {
                    return Err("a broken link; remove it".into());
                }
            }
            return Ok(resolved);
        };
        path = match path.parent() {
            Some(folder) => folder.join(next),
            None => next,
        };
    }
    Err("a link to itself; remove it".into())
}

pub(super) fn read_text(path: &Path) -> Result<Option<String>, String> {
    untrusted_text::read_file(path, MAX_FILE_BYTES)
}

pub(super) fn is_read_only(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly())
}

pub(super) const MAX_LINKS: usize = 32;

pub(super) const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

//! A private temporary file that a user edits, and that is kept if its text cannot be stored.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_durable_fs::{owner_only_options, set_temp_mode};
use tempfile::TempDir;

use super::write_target::{ask_yes, can_ask};
use crate::config::paths::env_variable;
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_FAILED, Result};
use crate::system::{DEFAULT_EDITOR, user_command};

/// The reason why an edited text was not stored.
#[derive(Debug)]
pub(crate) enum DraftError {
    /// The form is invalid.
    Invalid(String),
    /// The tool rejects the values.
    Refused(Error),
    /// Another edit of the text cannot help.
    Final(CommandError),
}

impl From<Error> for DraftError {
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::InvalidArgument | ErrorKind::NotFound | ErrorKind::Refused => {
                Self::Refused(error)
            }
            _ => Self::Final(error.into()),
        }
    }
}

impl From<CommandError> for DraftError {
    fn from(error: CommandError) -> Self {
        Self::Final(error)
    }
}

/// Opens a text in the user's editor and stores the result. `None` if the user left it unchanged
/// or emptied it.
///
/// On a terminal the user may correct a text that `store` refuses. Otherwise the file is kept and
/// the error names it.
pub(crate) fn edit_draft<T>(
    name: &str,
    text: &str,
    mut store: impl FnMut(&str) -> Result<T, DraftError>,
) -> Result<Option<T>> {
    let draft = DraftFile::create(name, text)?;
    loop {
        let edited = match draft.edit() {
            Ok(edited) => edited,
            Err(error) => return Err(draft.keep(error)),
        };
        if edited.trim().is_empty() || edited == text {
            return Ok(None);
        }
        let problem = match store(&edited) {
            Ok(stored) => return Ok(Some(stored)),
            Err(DraftError::Final(error)) => return Err(draft.keep(error)),
            Err(DraftError::Invalid(problem)) => problem,
            Err(DraftError::Refused(error)) => error.message,
        };
        if !can_ask() {
            return Err(draft.keep(CommandError::failure(problem)));
        }
        eprint_line(&format!("reqlore: {problem}"));
        if !ask_yes("Open the editor again?") {
            return Err(draft.keep(CommandError::failure("nothing was stored")));
        }
    }
}

struct DraftFile {
    folder: TempDir,
    path: PathBuf,
    text: String,
}

impl DraftFile {
    /// In a folder of its own, because editors write copies next to the file.
    fn create(name: &str, text: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            CommandError::failure(format!("temporary file: {error}; set TMPDIR to a usable folder"))
        };
        let mut folder = tempfile::Builder::new();
        set_temp_mode(folder.prefix("reqlore-"), 0o700);
        let folder = folder.tempdir().map_err(failed)?;
        // An ID may be a path. The extension selects the editor's Markdown mode.
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .take(60)
            .collect();
        let path = folder.path().join(name + ".md");
        let file = owner_only_options().write(true).create_new(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(failed)?;
        Ok(Self { folder, path, text: text.to_owned() })
    }

    /// Runs the editor and returns the text.
    fn edit(&self) -> Result<String> {
        let editor = env_variable("VISUAL").or_else(|| env_variable("EDITOR"));
        let editor = match editor {
            Some(editor) => editor,
            None if can_ask() => DEFAULT_EDITOR.to_owned(),
            None => {
                let message = "editor: none is set; set VISUAL or EDITOR";
                return Err(CommandError::usage_error(message));
            }
        };
        let status = user_command(&editor, &self.path)
            .status()
            .map_err(|error| CommandError::failure(format!("editor: {error}; set EDITOR")))?;
        if !status.success() {
            let message = format!("editor: it ended with {status}; nothing was stored");
            return Err(CommandError::failure(message));
        }
        fs::read_to_string(&self.path).map_err(|error| {
            CommandError::failure(format!("temporary file: {error}; nothing was stored"))
        })
    }

    /// Keeps the file if the user changed it, and adds its name to the error.
    fn keep(self, error: CommandError) -> CommandError {
        if fs::read(&self.path).is_ok_and(|bytes| bytes == self.text.as_bytes()) {
            return error;
        }
        let _ = self.folder.keep();
        let message = format!(
            "{}\nYour text is kept in {}; run the command again and copy your changes from it",
            error.message.trim_end(),
            self.path.display()
        );
        CommandError { code: error.code.max(EXIT_FAILED), message }
    }
}

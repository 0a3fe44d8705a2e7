//! What decides where files lie, and the questions to the file system that follow from it.
//!
//! It comes in as values, so that tests can be elsewhere, and another platform. Files are looked at
//! and never run: a program that tells its version may do anything.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone)]
pub struct Surroundings {
    pub project: PathBuf,
    pub home: PathBuf,
    pub platform: Platform,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The variables of the environment that move a client's folder, like `CODEX_HOME`; those that
    /// are looked at are [`Surroundings::VARIABLES`].
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}

impl Surroundings {
    /// The variables that move a file of some client.
    pub const VARIABLES: &[&str] = &[
        "APPDATA",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
        "GEMINI_CLI_HOME",
        "XDG_CONFIG_HOME",
    ];

    /// The folder that a variable names; one that is relative is so to where the client is started.
    pub(crate) fn moved(&self, variable: &str) -> Option<PathBuf> {
        self.variable(variable).map(|value| self.project.join(value))
    }

    /// `~/.config`, unless it was moved. There a relative path is to be ignored (XDG Base Directory
    /// Specification).
    pub(crate) fn dot_config(&self) -> PathBuf {
        self.variable("XDG_CONFIG_HOME")
            .map(PathBuf::from)
            .filter(|moved| moved.is_absolute())
            .unwrap_or_else(|| self.home.join(".config"))
    }

    /// Where programs with windows keep their settings.
    pub(crate) fn applications(&self) -> PathBuf {
        match self.platform {
            Platform::Linux => self.dot_config(),
            Platform::MacOs => self.home.join("Library/Application Support"),
            Platform::Windows => {
                self.moved("APPDATA").unwrap_or_else(|| self.home.join("AppData").join("Roaming"))
            }
        }
    }

    /// Is one of these programs on the path?
    pub(crate) fn has_program(&self, names: &[&str]) -> bool {
        // `npm` installs scripts as `.cmd`, installers put programs as `.exe`.
        let endings: &[&str] = match self.platform {
            Platform::Linux | Platform::MacOs => &[""],
            Platform::Windows => &[".exe", ".cmd", ".bat"],
        };
        self.path.iter().any(|folder| {
            names.iter().any(|name| {
                endings.iter().any(|ending| {
                    let program = folder.join(format!("{name}{ending}"));
                    fs::metadata(program).is_ok_and(|found| found.is_file())
                })
            })
        })
    }

    /// An empty variable counts as unset, as it does for the clients.
    fn variable(&self, name: &str) -> Option<&str> {
        let (_, value) = self.variables.iter().find(|(other, _)| other == name)?;
        (!value.is_empty()).then_some(value.as_str())
    }
}

/// Is there anything of this name? What can't be looked at counts as absent: it can't be edited
/// either.
pub(crate) fn is_there(path: &Path) -> bool {
    fs::metadata(path).is_ok()
}

/// The first of some files that is there, else the usual one, which is the first.
pub(crate) fn first_there<const N: usize>(folder: &Path, names: [&str; N]) -> PathBuf {
    let mut files = names.map(|name| folder.join(name)).into_iter();
    let usual = files.next().unwrap_or_else(|| folder.to_owned());
    if is_there(&usual) {
        return usual;
    }
    files.find(|file| is_there(file)).unwrap_or(usual)
}

//! The environment that decides where clients' files are, and which clients are present.
//!
//! Its parts are values, so that tests can simulate another machine or platform. Programs are
//! never run, not even to ask for their version.

use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct ClientEnvironment {
    pub project: PathBuf,
    pub home: PathBuf,
    pub platform: Platform,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The values of [`ClientEnvironment::VARIABLES`]. An empty one counts as unset, as for the clients.
    pub variables: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    Linux,
    MacOs,
    Windows,
}

impl ClientEnvironment {
    /// The environment variables that move a file of some client.
    pub const VARIABLES: &[&str] = &[
        "APPDATA",
        "CLAUDE_CONFIG_DIR",
        "CODEX_HOME",
        "COPILOT_HOME",
        "GEMINI_CLI_HOME",
        "XDG_CONFIG_HOME",
    ];

    /// The folder that a variable names, relative to the project, else a folder in the home folder.
    pub(crate) fn variable_or_home(&self, variable: &str, folder: &str) -> PathBuf {
        match self.variable(variable) {
            Some(moved) => self.project.join(moved),
            None => self.home.join(folder),
        }
    }

    /// `~/.config` or `XDG_CONFIG_HOME`, which is ignored if relative (XDG Base Directory
    /// Specification).
    pub(crate) fn config_home(&self) -> PathBuf {
        let moved = self.variable("XDG_CONFIG_HOME").map(PathBuf::from);
        moved.filter(|moved| moved.is_absolute()).unwrap_or_else(|| self.home.join(".config"))
    }

    /// The folder for the settings of desktop applications.
    pub(crate) fn application_data(&self) -> PathBuf {
        match self.platform {
            Platform::Linux => self.config_home(),
            Platform::MacOs => self.home.join("Library/Application Support"),
            Platform::Windows => self.variable_or_home("APPDATA", "AppData/Roaming"),
        }
    }

    pub(crate) fn has_program(&self, names: &[&str]) -> bool {
        // `npm` installs scripts as `.cmd`, installers put programs as `.exe`.
        let endings: &[&str] = match self.platform {
            Platform::Linux | Platform::MacOs => &[""],
            Platform::Windows => &[".exe", ".cmd", ".bat"],
        };
        let mut files =
            names.iter().flat_map(|name| endings.iter().map(move |end| format!("{name}{end}")));
        files.any(|file| self.path.iter().any(|folder| folder.join(&file).is_file()))
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let (_, value) = self.variables.iter().find(|(other, _)| other == name)?;
        (!value.is_empty()).then_some(value.as_str())
    }
}

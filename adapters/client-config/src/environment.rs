//! The environment that determines clients' file locations and which clients are present.
//!
//! It holds values, so that tests can simulate another machine. Programs are never run.

use std::path::PathBuf;

#[derive(Debug, Clone)]
pub struct ClientEnvironment {
    pub project: PathBuf,
    pub home: PathBuf,
    pub platform: Platform,
    /// The folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// The values of [`ClientEnvironment::VARIABLES`]. Clients treat an empty one as unset.
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

    /// The folder in the variable, relative to the project; if unset, `folder` in the home folder.
    pub(crate) fn variable_or_home(&self, variable: &str, folder: &str) -> PathBuf {
        match self.variable(variable) {
            // An absolute value replaces the project's path.
            Some(moved) => self.project.join(moved),
            None => self.home.join(folder),
        }
    }

    /// `XDG_CONFIG_HOME` or `~/.config`. A relative value is ignored (XDG Base Directory
    /// Specification).
    pub(crate) fn config_home(&self) -> PathBuf {
        if let Some(folder) = self.variable("XDG_CONFIG_HOME") {
            let folder = PathBuf::from(folder);
            if folder.is_absolute() {
                return folder;
            }
        }
        self.home.join(".config")
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
        // On Windows npm installs scripts as `.cmd`, and installers install `.exe`.
        let extensions: &[&str] = match self.platform {
            Platform::Linux | Platform::MacOs => &[""],
            Platform::Windows => &[".exe", ".cmd", ".bat"],
        };
        for name in names {
            for extension in extensions {
                let file = format!("{name}{extension}");
                // A folder of this name is not a program.
                if self.path.iter().any(|folder| folder.join(&file).is_file()) {
                    return true;
                }
            }
        }
        false
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let (_, value) = self.variables.iter().find(|(other, _)| other == name)?;
        if value.is_empty() { None } else { Some(value) }
    }
}

//! The supported clients: their names, their files, and a server's entry in them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::ConfigError;
use crate::edit::{EntryEdit, EntrySlot};
use crate::environment::ClientEnvironment;
use crate::profiles::PROFILES;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    VsCode,
    Zed,
    Codex,
    Gemini,
    Copilot,
    Kiro,
    OpenCode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigScope {
    /// A file in the project, shared through Git.
    Project,
    /// A file in the home folder, for all projects of the user.
    User,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSpec {
    /// The client starts it and uses standard input and output.
    Command { program: String, arguments: Vec<String> },
    /// A running server. The token is in a variable of the client's environment, never in a file.
    Url { url: String, token_variable: String },
}

impl ConfigScope {
    pub const ALL: [Self; 2] = [Self::Project, Self::User];

    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// The position of a client's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigLocation {
    pub scope: ConfigScope,
    pub file: PathBuf,
    pub slot: EntrySlot,
    /// True if the client starts the server in the project. Else the entry needs `--root`.
    pub starts_in_project: bool,
}

impl Client {
    pub const ALL: [Self; 10] = [
        Self::ClaudeCode,
        Self::ClaudeDesktop,
        Self::Cursor,
        Self::VsCode,
        Self::Zed,
        Self::Codex,
        Self::Gemini,
        Self::Copilot,
        Self::Kiro,
        Self::OpenCode,
    ];

    /// The value of `--client`: `claude-code`, `vscode`.
    pub fn name(self) -> &'static str {
        self.profile().name
    }

    /// `Claude Code`, `VS Code`.
    pub fn title(self) -> &'static str {
        self.profile().title
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// True if its program is on the path, or it left files for the user or in the project. A path
    /// that cannot be inspected counts as absent: it cannot be edited either.
    pub fn is_present(self, environment: &ClientEnvironment) -> bool {
        let profile = self.profile();
        let user_paths = profile
            .user_paths
            .map_or_else(|| vec![(profile.user_folder)(environment)], |paths| paths(environment));
        let project_paths = profile.project_paths.iter().map(|name| environment.project.join(name));
        environment.has_program(profile.programs)
            || user_paths.into_iter().chain(project_paths).any(|path| path.metadata().is_ok())
    }

    /// The file in which the client looks for servers.
    pub fn config_location(
        self,
        scope: ConfigScope,
        environment: &ClientEnvironment,
    ) -> Result<ConfigLocation, ConfigError> {
        let profile = self.profile();
        let file = match scope {
            ConfigScope::Project => first_existing(&environment.project, profile.project_files?),
            ConfigScope::User => {
                first_existing(&(profile.user_folder)(environment), profile.user_files)
            }
        };
        let starts_in_project = match profile.working_directory {
            WorkingDirectory::Project => true,
            WorkingDirectory::ProjectForProjectFile => scope == ConfigScope::Project,
            WorkingDirectory::Other => false,
        };
        Ok(ConfigLocation { scope, file, slot: profile.slot, starts_in_project })
    }

    /// The text of a new file before the entry is added.
    pub fn new_file(self) -> &'static str {
        self.profile().new_file
    }

    /// The variable that the client replaces by the project's folder. `--root` takes it instead of
    /// a path if [`ConfigLocation::starts_in_project`] is false: a path is valid on one machine and for one
    /// project only. It has to be an argument of its own.
    pub fn project_variable(self) -> Option<&'static str> {
        self.profile().project_variable
    }

    /// The variable's name in [`ServerSpec::Url`] is written as it is: the caller checks it.
    pub fn entry(self, server: &ServerSpec) -> Result<EntryEdit, ConfigError> {
        let profile = self.profile();
        let template = match server {
            ServerSpec::Command { program, arguments } => {
                profile.check_command(program, arguments)?;
                &profile.command
            }
            ServerSpec::Url { url, .. } => {
                let template = profile.remote.as_ref().map_err(|reason| *reason)?;
                if let Some(variable) = profile.variable_in(url) {
                    // The URL may contain a secret, so it is not shown.
                    return Err(ConfigError(format!(
                        "{} takes `{variable}` in the URL for the beginning of a variable; give \
                         one without it",
                        profile.title
                    )));
                }
                template
            }
        };
        Ok(template.entry(server))
    }

    fn profile(self) -> &'static ClientProfile {
        PROFILES[self as usize]
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The first of these files that exists, else the first.
fn first_existing(folder: &Path, names: &[&str]) -> PathBuf {
    let existing = names.iter().map(|name| folder.join(name)).find(|file| file.metadata().is_ok());
    existing.unwrap_or_else(|| folder.join(names.first().unwrap_or(&"")))
}

/// The facts of one client. An `Err` says what it lacks and what to do instead.
pub(crate) struct ClientProfile {
    pub name: &'static str,
    pub title: &'static str,
    pub programs: &'static [&'static str],
    pub user_folder: fn(&ClientEnvironment) -> PathBuf,
    /// In the user folder; the first that exists, else the first.
    pub user_files: &'static [&'static str],
    /// In the project, likewise.
    pub project_files: Result<&'static [&'static str], &'static str>,
    /// Files and folders that the client makes for a user, if not the user folder.
    pub user_paths: Option<fn(&ClientEnvironment) -> Vec<PathBuf>>,
    /// Files and folders that a client has in a project.
    pub project_paths: &'static [&'static str],
    pub slot: EntrySlot,
    pub new_file: &'static str,
    pub working_directory: WorkingDirectory,
    pub project_variable: Option<&'static str>,
    /// The beginnings of the texts that the client replaces in values. `$` is one only before a
    /// name.
    pub variables: &'static [&'static str],
    /// True if a shell splits a program without arguments.
    pub has_shell: bool,
    pub command: EntryTemplate,
    pub remote: Result<EntryTemplate, &'static str>,
}

/// The directory in which a client starts a server.
#[derive(Clone, Copy)]
pub(crate) enum WorkingDirectory {
    Project,
    ProjectForProjectFile,
    Other,
}

/// An entry for one kind of server.
pub(crate) struct EntryTemplate {
    pub set: &'static [(&'static str, TemplateField)],
    /// Keys of the other kind. `args` comes first, and is dropped unless it is set.
    pub drop: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub(crate) enum TemplateField {
    Text(&'static str),
    False,
    /// A list with one text.
    List(&'static str),
    Program,
    Arguments,
    /// Left out if there are none.
    OptionalArguments,
    ProgramAndArguments,
    Url,
    /// `Authorization` with the token's variable between these texts.
    Headers(&'static str, &'static str),
    TokenVariable,
}

impl EntryTemplate {
    fn entry(&self, server: &ServerSpec) -> EntryEdit {
        let (mut program, mut arguments, mut url, mut variable) = ("", &[][..], "", "");
        match server {
            ServerSpec::Command { program: name, arguments: list } => {
                (program, arguments) = (name, list);
            }
            ServerSpec::Url { url: at, token_variable } => (url, variable) = (at, token_variable),
        }
        let mut set = Map::new();
        for (key, field) in self.set {
            let value = match *field {
                TemplateField::OptionalArguments if arguments.is_empty() => continue,
                TemplateField::Arguments | TemplateField::OptionalArguments => json!(arguments),
                TemplateField::Text(text) => json!(text),
                TemplateField::False => json!(false),
                TemplateField::List(text) => json!([text]),
                TemplateField::Program => json!(program),
                TemplateField::ProgramAndArguments => {
                    [program].into_iter().chain(arguments.iter().map(String::as_str)).collect()
                }
                TemplateField::Url => json!(url),
                TemplateField::Headers(before, after) => {
                    json!({ "Authorization": format!("Bearer {before}{variable}{after}") })
                }
                TemplateField::TokenVariable => json!(variable),
            };
            set.insert((*key).to_owned(), value);
        }
        let drop = match self.drop.split_first() {
            Some((first, rest)) if set.contains_key(*first) => rest,
            _ => self.drop,
        };
        EntryEdit { set, drop }
    }
}

impl ClientProfile {
    /// Clients replace variables in what they read, so `${` in a path would change it silently.
    /// None documents an escape, so such texts are rejected.
    fn check_command(&self, program: &str, arguments: &[String]) -> Result<(), ConfigError> {
        let title = self.title;
        let is_word = |c: char| c.is_alphanumeric() || "/\\:._-+@".contains(c);
        if self.has_shell && arguments.is_empty() && !program.chars().all(is_word) {
            return Err(ConfigError(format!(
                "{title} passes `{program}` to a shell, which would split or expand it; put the \
                 program on the path, and name it without spaces and signs"
            )));
        }
        let given = arguments.iter().map(String::as_str);
        let given = given.filter(|argument| Some(*argument) != self.project_variable);
        for text in std::iter::once(program).chain(given) {
            if let Some(variable) = self.variable_in(text) {
                return Err(ConfigError(format!(
                    "{title} takes `{variable}` in `{text}` for the beginning of a variable; give \
                     it another name"
                )));
            }
        }
        Ok(())
    }

    fn variable_in(&self, text: &str) -> Option<&'static str> {
        let is_name =
            |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        self.variables.iter().copied().find(|sign| match *sign {
            "$" => text.split('$').skip(1).any(is_name),
            sign => text.contains(sign),
        })
    }
}

//! The supported clients: their names, their files, and a server's entry in them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::ConfigError;
use crate::edit::{Entry, Slot};
use crate::profiles::PROFILES;
use crate::surroundings::Surroundings;

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
pub enum Scope {
    /// A file in the project, shared through Git.
    Project,
    /// A file in the home folder, for all projects of the user.
    User,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// The client starts it and uses standard input and output.
    Command { program: String, arguments: Vec<String> },
    /// A running server. The token is in a variable of the client's environment, never in a file.
    Url { url: String, token_variable: String },
}

impl Scope {
    pub const ALL: [Self; 2] = [Self::Project, Self::User];

    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.name() == name)
    }
}

/// The position of a client's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub scope: Scope,
    pub file: PathBuf,
    pub slot: Slot,
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

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|client| client.name() == name)
    }

    /// True if its program is on the path, or it left files for the user or in the project. A path
    /// that cannot be inspected counts as absent: it cannot be edited either.
    pub fn is_present(self, around: &Surroundings) -> bool {
        let profile = self.profile();
        let user_paths = profile
            .user_paths
            .map_or_else(|| vec![(profile.user_folder)(around)], |paths| paths(around));
        let project_paths = profile.project_paths.iter().map(|name| around.project.join(name));
        around.has_program(profile.programs)
            || user_paths.into_iter().chain(project_paths).any(|path| path.metadata().is_ok())
    }

    /// The file in which the client looks for servers.
    pub fn place(self, scope: Scope, around: &Surroundings) -> Result<Place, ConfigError> {
        let profile = self.profile();
        let file = match scope {
            Scope::Project => first_existing(&around.project, profile.project_files?),
            Scope::User => first_existing(&(profile.user_folder)(around), profile.user_files),
        };
        let starts_in_project = match profile.starts {
            WorkingDirectory::Project => true,
            WorkingDirectory::ProjectForItsOwnFile => scope == Scope::Project,
            WorkingDirectory::Other => false,
        };
        Ok(Place { scope, file, slot: profile.slot, starts_in_project })
    }

    /// The text of a new file before the entry is added.
    pub fn new_file(self) -> &'static str {
        self.profile().new_file
    }

    /// The variable that the client replaces by the project's folder. `--root` takes it instead of
    /// a path if [`Place::starts_in_project`] is false: a path is valid on one machine and for one
    /// project only. It has to be an argument of its own.
    pub fn project_variable(self) -> Option<&'static str> {
        self.profile().project_variable
    }

    /// The variable's name in [`Server::Url`] is written as it is: the caller checks it.
    pub fn entry(self, server: &Server) -> Result<Entry, ConfigError> {
        let profile = self.profile();
        let template = match server {
            Server::Command { program, arguments } => {
                profile.check_command(program, arguments)?;
                &profile.command
            }
            Server::Url { url, .. } => {
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
    pub user_folder: fn(&Surroundings) -> PathBuf,
    /// In the user folder; the first that exists, else the first.
    pub user_files: &'static [&'static str],
    /// In the project, likewise.
    pub project_files: Result<&'static [&'static str], &'static str>,
    /// Files and folders that the client makes for a user, if not the user folder.
    pub user_paths: Option<fn(&Surroundings) -> Vec<PathBuf>>,
    /// Files and folders that a client has in a project.
    pub project_paths: &'static [&'static str],
    pub slot: Slot,
    pub new_file: &'static str,
    pub starts: WorkingDirectory,
    pub project_variable: Option<&'static str>,
    /// The beginnings of the texts that the client replaces in values. `$` is one only before a
    /// name.
    pub variables: &'static [&'static str],
    /// True if a shell splits a program without arguments.
    pub has_shell: bool,
    pub command: Template,
    pub remote: Result<Template, &'static str>,
}

/// The directory in which a client starts a server.
#[derive(Clone, Copy)]
pub(crate) enum WorkingDirectory {
    Project,
    ProjectForItsOwnFile,
    Other,
}

/// An entry for one kind of server.
pub(crate) struct Template {
    pub set: &'static [(&'static str, Field)],
    /// Keys of the other kind. `args` comes first, and is dropped unless it is set.
    pub drop: &'static [&'static str],
}

#[derive(Clone, Copy)]
pub(crate) enum Field {
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

impl Template {
    fn entry(&self, server: &Server) -> Entry {
        let (mut program, mut arguments, mut url, mut variable) = ("", &[][..], "", "");
        match server {
            Server::Command { program: name, arguments: list } => {
                (program, arguments) = (name, list);
            }
            Server::Url { url: at, token_variable } => (url, variable) = (at, token_variable),
        }
        let mut set = Map::new();
        for (key, field) in self.set {
            let value = match *field {
                Field::OptionalArguments if arguments.is_empty() => continue,
                Field::Arguments | Field::OptionalArguments => json!(arguments),
                Field::Text(text) => json!(text),
                Field::False => json!(false),
                Field::List(text) => json!([text]),
                Field::Program => json!(program),
                Field::ProgramAndArguments => {
                    [program].into_iter().chain(arguments.iter().map(String::as_str)).collect()
                }
                Field::Url => json!(url),
                Field::Headers(before, after) => {
                    json!({ "Authorization": format!("Bearer {before}{variable}{after}") })
                }
                Field::TokenVariable => json!(variable),
            };
            set.insert((*key).to_owned(), value);
        }
        let drop = match self.drop.split_first() {
            Some((first, rest)) if set.contains_key(*first) => rest,
            _ => self.drop,
        };
        Entry { set, drop }
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

//! The supported clients: names, file locations and the format of a server's entry.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, json};

use crate::edit::{EntryEdit, EntrySlot};
use crate::environment::ClientEnvironment;
use crate::error::ConfigError;
use crate::profiles::{ClientProfile, EntryTemplate, PROFILES, TemplateField, WorkingDirectory};

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

    /// True if its program is on `PATH`, or its files exist in the home folder or the project. A
    /// path that can't be inspected is absent, because it can't be edited either.
    pub fn is_present(self, environment: &ClientEnvironment) -> bool {
        let profile = self.profile();
        if environment.has_program(profile.programs) {
            return true;
        }
        let mut paths = match profile.user_paths {
            Some(user_paths) => user_paths(environment),
            None => vec![(profile.user_folder)(environment)],
        };
        for name in profile.project_paths {
            paths.push(environment.project.join(name));
        }
        paths.iter().any(|path| path.metadata().is_ok())
    }

    /// The file from which the client reads its servers.
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

    /// The variable that the client replaces with the project's folder. It is the value of `--root`
    /// if [`ConfigLocation::starts_in_project`] is false, because a path is valid on one machine
    /// only. It has to be an argument of its own.
    pub fn project_variable(self) -> Option<&'static str> {
        self.profile().project_variable
    }

    /// The entry for this server. The caller validates the name of the token variable.
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
                        "{} reads `{variable}` in the URL as a variable; use a URL without it",
                        profile.title
                    )));
                }
                template
            }
        };
        Ok(template.entry(server))
    }

    /// The folder of the client's own settings and hooks.
    pub(crate) fn hook_folder(self, environment: &ClientEnvironment) -> PathBuf {
        match self {
            // The entry of its servers is in another file.
            Self::ClaudeCode => environment.variable_or_home("CLAUDE_CONFIG_DIR", ".claude"),
            _ => (self.profile().user_folder)(environment),
        }
    }

    /// Rejects a command in which the client would replace a variable.
    pub(crate) fn check_hook_command(self, command: &str) -> Result<(), ConfigError> {
        match self.profile().variable_in(command) {
            Some(variable) => Err(ConfigError(format!(
                "{} reads `{variable}` in the hook `{command}` as a variable; use another name",
                self.title()
            ))),
            None => Ok(()),
        }
    }

    fn profile(self) -> &'static ClientProfile {
        // The profiles are in the order of the variants.
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
    for name in names {
        let file = folder.join(name);
        if file.metadata().is_ok() {
            return file;
        }
    }
    folder.join(names.first().unwrap_or(&""))
}

impl EntryTemplate {
    fn entry(&self, server: &ServerSpec) -> EntryEdit {
        let (mut program, mut arguments, mut url, mut variable) = ("", &[][..], "", "");
        match server {
            ServerSpec::Command { program: name, arguments: list } => {
                (program, arguments) = (name, list);
            }
            ServerSpec::Url { url: address, token_variable } => {
                (url, variable) = (address, token_variable);
            }
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
                    let mut words = vec![json!(program)];
                    words.extend(arguments.iter().map(|argument| json!(argument)));
                    json!(words)
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
            // The entry sets no `args`, so old ones are removed.
            _ => self.drop,
        };
        EntryEdit { set, drop }
    }
}

impl ClientProfile {
    /// Rejects text that the client would replace as a variable: no client documents an escape.
    fn check_command(&self, program: &str, arguments: &[String]) -> Result<(), ConfigError> {
        let title = self.title;
        // Arguments are quoted, but a program without them is passed as it is.
        if self.has_shell && arguments.is_empty() && !program.chars().all(is_shell_safe) {
            return Err(ConfigError(format!(
                "{title} passes `{program}` to a shell, which would split or expand it; put the \
                 program on PATH under a name without spaces and special characters"
            )));
        }
        for text in std::iter::once(program).chain(arguments.iter().map(String::as_str)) {
            // This one has to be replaced: it is the project's folder.
            if Some(text) == self.project_variable {
                continue;
            }
            if let Some(variable) = self.variable_in(text) {
                return Err(ConfigError(format!(
                    "{title} reads `{variable}` in `{text}` as a variable; use another name"
                )));
            }
        }
        Ok(())
    }

    /// The beginning of the first variable in a text.
    fn variable_in(&self, text: &str) -> Option<&'static str> {
        for prefix in self.variables {
            let is_variable = match *prefix {
                "$" => text.split('$').skip(1).any(|rest| rest.starts_with(is_name_start)),
                prefix => text.contains(prefix),
            };
            if is_variable {
                return Some(prefix);
            }
        }
        None
    }
}

fn is_shell_safe(c: char) -> bool {
    c.is_alphanumeric() || "/\\:._-+@".contains(c)
}

fn is_name_start(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

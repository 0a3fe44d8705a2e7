//! What there is to know of each client, one file per client, and what they have in common.
//!
//! Trap: most clients replace variables in what they read, so a path that has `${` in its name
//! would become another one without a word. None of them documents a way to write such a text as it
//! is, which is why it is refused here rather than escaped.

pub(crate) mod claude_code;
pub(crate) mod claude_desktop;
pub(crate) mod codex;
pub(crate) mod copilot;
pub(crate) mod cursor;
pub(crate) mod gemini;
pub(crate) mod kiro;
pub(crate) mod opencode;
pub(crate) mod vscode;
pub(crate) mod zed;

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use crate::edit::{Entry, Format, Slot};
use crate::place::NoPlace;
use crate::surroundings::Surroundings;

/// Everything about one client. Where it lacks something, a sentence says so, and what to do.
pub(crate) struct Facts {
    /// Its programs, as they are called on the path.
    pub programs: &'static [&'static str],
    /// Files and folders that it makes for a person.
    pub own: fn(&Surroundings) -> Vec<PathBuf>,
    /// Files and folders that tell of its use in a project.
    pub in_project: &'static [&'static str],
    /// Where in its files the servers are.
    pub slot: Slot,
    pub project_file: Result<fn(&Surroundings) -> PathBuf, &'static str>,
    pub user_file: fn(&Surroundings) -> PathBuf,
    /// With what a file of its begins that wasn't there before.
    pub new_file: &'static str,
    pub starts: Starts,
    /// What it replaces by the project's folder.
    pub project_variable: Option<&'static str>,
    /// What it replaces in the values that it reads.
    pub replaces: Replaces,
    /// The entry of a server that it starts: program and arguments.
    pub command: fn(&str, &[String]) -> Entry,
    /// The entry of a server that runs elsewhere: its URL, and the variable that holds the token.
    pub remote: Result<fn(&str, &str) -> Entry, &'static str>,
}

impl Facts {
    /// Refuses a command that this client would read as something else than what was meant.
    pub(crate) fn check_command(
        &self,
        title: &str,
        program: &str,
        arguments: &[String],
    ) -> Result<(), NoPlace> {
        if self.replaces == Replaces::Shell && arguments.is_empty() && !is_one_word(program) {
            return Err(NoPlace(format!(
                "{title} gives `{program}` to a shell, which reads more than a name in it; put the \
             program on the path, and name it without spaces and signs"
            )));
        }
        let given = arguments.iter().map(String::as_str);
        let given = given.filter(|argument| Some(*argument) != self.project_variable);
        for text in std::iter::once(program).chain(given) {
            if let Some(variable) = self.replaces.find(text) {
                return Err(NoPlace(format!(
                    "{title} takes `{variable}` in `{text}` for the beginning of a variable; give \
                     it another name"
                )));
            }
        }
        Ok(())
    }

    /// The same for a server elsewhere. A URL may hold a secret, and what is no name of a variable
    /// may be the token, so neither is shown.
    pub(crate) fn check_url(
        &self,
        title: &str,
        url: &str,
        token_variable: &str,
    ) -> Result<(), NoPlace> {
        if let Some(variable) = self.replaces.find(url) {
            return Err(NoPlace(format!(
                "{title} takes `{variable}` in the URL for the beginning of a variable; give one \
                 without it"
            )));
        }
        if !is_name(token_variable) {
            return Err(NoPlace::because(
                "the token's variable is no name that an environment can have; give the name of a \
             variable like REQLORE_TOKEN, and set it to the token where the client is started",
            ));
        }
        Ok(())
    }
}

/// In which folder a client starts servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Starts {
    InProject,
    /// In the project only what the project's own file names.
    InItsOwnProject,
    Elsewhere,
}

/// Which texts a client takes for variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replaces {
    Nothing,
    /// `${NAME}`, in whatever words.
    Braced,
    /// `${NAME}` and `$NAME`.
    Dollar,
    /// The same, and a shell splits a program that has no arguments.
    Shell,
    /// `{env:NAME}` and `{file:PATH}`.
    Curly,
}

impl Replaces {
    /// The first thing in a text that would be replaced.
    fn find(self, text: &str) -> Option<&'static str> {
        let has = |what: &'static str| text.contains(what).then_some(what);
        match self {
            Self::Nothing => None,
            Self::Braced => has("${"),
            Self::Dollar | Self::Shell => has("${").or_else(|| {
                let mut after = text.split('$').skip(1);
                let named =
                    |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
                after.any(named).then_some("$")
            }),
            Self::Curly => has("{env:").or_else(|| has("{file:")),
        }
    }
}

/// Does every shell take it for one word and nothing else?
fn is_one_word(program: &str) -> bool {
    program.chars().all(|c| c.is_alphanumeric() || "/\\:._-+@".contains(c))
}

/// Letters, digits and `_`: what every client reads as one name. Not our own token, which consists
/// of these as well and would stand in the file then.
fn is_name(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !text.starts_with("reqlore_pat_")
}

/// The map of servers that most clients have.
const SERVERS: Slot = Slot { format: Format::Json, path: &["mcpServers"] };

/// `command`, and `args` where there are any.
fn command(program: &str, arguments: &[String]) -> Map<String, Value> {
    let mut set = object([("command", json!(program))]);
    if !arguments.is_empty() {
        set.insert("args".to_owned(), json!(arguments));
    }
    set
}

/// Keys that contradict a command. An old list of arguments does so too, where there are none now:
/// so `args` stands first in `keys`, and is left out where it is set.
fn beside_command(keys: &'static [&'static str], arguments: &[String]) -> &'static [&'static str] {
    match keys.split_first() {
        Some((&"args", others)) if !arguments.is_empty() => others,
        _ => keys,
    }
}

/// `headers` with a token that the client reads from its environment.
fn bearer(variable: &str) -> Value {
    json!({ "Authorization": format!("Bearer {variable}") })
}

fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

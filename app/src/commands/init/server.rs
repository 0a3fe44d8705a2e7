//! The server as clients are told of it: what is started with which arguments, or where it is.
//!
//! The settings are those given as flags with `init` itself.

use std::path::{Path, PathBuf};

use reqlore_client_config::{Client, Place, Scope, Server, Surroundings};
use serde_json::Value;

use super::{Options, remote};
use crate::client_environment::is_program;
use crate::config::{toolsets, variable};
use crate::exit::CommandError;
use crate::settings::Flags;
use crate::storage::{Storage, resolved};
use crate::telemetry;

/// What the launcher of the npm package says of itself.
const LAUNCHER_VARIABLE: &str = "REQLORE_LAUNCHER";
const PROGRAM: &str = "reqlore";
const NPX: &str = "npx";

/// What every client shall know, before it is told in its own way.
#[derive(Debug)]
pub(super) enum Wanted {
    Command { is_npx: bool, settings: Vec<Argument> },
    Url { url: String, token_variable: String },
}

/// An argument of the server's command.
#[derive(Debug)]
pub(super) enum Argument {
    Word(String),
    /// A place, named from the working directory; what stands before it is part of the argument.
    Place {
        before: String,
        path: PathBuf,
    },
}

impl Wanted {
    pub(super) fn read(
        flags: &Flags,
        options: &Options,
        around: &Surroundings,
    ) -> Result<Self, CommandError> {
        if flags.listen.is_some() || flags.behind_proxy.is_some() {
            return Err(CommandError::usage(
                "--listen and --behind-proxy are for the server itself; clients are told of one \
                 over http with --transport http --url URL",
            ));
        }
        match (flags.transport.as_deref().unwrap_or("stdio"), options.url.as_deref()) {
            ("stdio", None) => Ok(Self::Command {
                is_npx: variable(LAUNCHER_VARIABLE).as_deref() == Some("npx"),
                settings: settings(flags, around)?,
            }),
            ("stdio", Some(_)) => {
                Err(CommandError::usage("--url is for a server over http; add --transport http"))
            }
            ("http", None) => Err(CommandError::usage(
                "--transport http needs --url URL, where the server is, like \
                 https://reqlore.example.org/api/v1/mcp",
            )),
            ("http", Some(url)) => {
                check_no_settings(flags)?;
                remote::check_url(url)?;
                remote::check_variable(&options.token_variable)?;
                let token_variable = options.token_variable.clone();
                Ok(Self::Url { url: url.to_owned(), token_variable })
            }
            (other, _) => {
                Err(CommandError::usage(format!("transport: {other:?} must be stdio or http")))
            }
        }
    }

    /// The same for one client's file, where `known` stands so far, and what a person should know
    /// of it.
    pub(super) fn of(
        &self,
        client: Client,
        scope: Scope,
        place: &Place,
        known: Option<&Value>,
        around: &Surroundings,
    ) -> (Server, Option<String>) {
        let (is_npx, settings) = match self {
            Self::Url { url, token_variable } => {
                let (url, token_variable) = (url.clone(), token_variable.clone());
                return (Server::Url { url, token_variable }, None);
            }
            Self::Command { is_npx, settings } => (*is_npx, settings),
        };
        // What a project's file starts already starts elsewhere too, whatever is on this machine.
        let known = known.filter(|_| scope == Scope::Project);
        let is_on_path = known.is_some_and(|known| words(known).first() == Some(&PROGRAM));
        let package = known.and_then(package).or(is_npx.then(|| PROGRAM.to_owned()));
        let (program, mut arguments) = match package {
            Some(package) => (NPX.to_owned(), vec!["-y".to_owned(), package]),
            None if is_on_path => (PROGRAM.to_owned(), Vec::new()),
            None => (program(scope, around), Vec::new()),
        };
        let is_relative = scope == Scope::Project && place.starts_in_project;
        let project = is_relative.then_some(&*around.project);
        arguments.extend(settings.iter().map(|setting| setting.of(project)));
        if !place.starts_in_project {
            let variable = client.project_variable().map(str::to_owned);
            let path = || around.project.to_string_lossy().into_owned();
            arguments.extend(["--root".to_owned(), variable.unwrap_or_else(path)]);
        }
        let path = |word: &&String| word.split_once(":/").is_some() || word.starts_with('/');
        let path = std::iter::once(&program).chain(&arguments).find(path);
        let warning = path.filter(|_| scope == Scope::Project).map(|path| {
            format!(
                "{} is for everybody who works on the project, but {path} is a path of this \
                 machine; put reqlore on the PATH, name places in the project, or use --scope user",
                place.file.display()
            )
        });
        (Server::Command { program, arguments }, warning)
    }
}

impl Argument {
    /// What is for everybody is named from the `project`, in whose folder the server is started.
    fn of(&self, project: Option<&Path>) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Place { before, path } => {
                match project.and_then(|project| path.strip_prefix(project).ok()) {
                    Some(inside) => format!("{before}./{}", inside.display()),
                    None => format!("{before}{}", path.display()),
                }
            }
        }
    }
}

/// Which package, maybe of a version, an entry gives to npx. It starts for everybody, so who has
/// the program does not take it from the others.
fn package(entry: &Value) -> Option<String> {
    match *words(entry) {
        [NPX, "-y", package, ..] if is_package(package) => Some(package.to_owned()),
        _ => None,
    }
}

fn is_package(word: &str) -> bool {
    word.split('@').next() == Some(PROGRAM)
}

/// The program that an entry starts, and its arguments.
fn words(entry: &Value) -> Vec<&str> {
    let words = ["command", "args"].into_iter().filter_map(|key| entry.get(key));
    let words = words.flat_map(|words| match words {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        word => Vec::from_iter(word.as_str()),
    });
    words.collect()
}

/// The settings of an entry that another one lacks; of how it is started nothing.
pub(super) fn lost(known: &Value, entry: &Value) -> String {
    let kept = words(entry);
    let is_lost = |word: &&str| !kept.contains(word) && *word != "-y" && !is_package(word);
    let lost = words(known).into_iter().skip(1).filter(is_lost);
    if kept.is_empty() { String::new() } else { lost.collect::<Vec<_>>().join(" ") }
}

/// What starts the server where the launcher doesn't. A file for everybody names no path, and a
/// program with a window does not see the PATH of a shell.
fn program(scope: Scope, around: &Surroundings) -> String {
    let names = [PROGRAM.to_owned(), format!("{PROGRAM}.exe")];
    let folders = around.path.iter().filter(|folder| folder.is_absolute());
    let mut candidates = folders.flat_map(|folder| names.each_ref().map(|name| folder.join(name)));
    let found = candidates.find(|candidate| is_program(candidate));
    match (scope, found) {
        (Scope::Project, Some(_)) => PROGRAM.to_owned(),
        (Scope::User, Some(found)) => found.to_string_lossy().into_owned(),
        (_, None) => {
            let own = std::env::current_exe().map(|own| own.to_string_lossy().into_owned());
            own.unwrap_or_else(|_| PROGRAM.to_owned())
        }
    }
}

/// The settings given as flags, as arguments of the command.
fn settings(flags: &Flags, around: &Surroundings) -> Result<Vec<Argument>, CommandError> {
    let mut arguments = Vec::new();
    let mut add = |flag: &str, value: Argument| {
        arguments.extend([Argument::Word(flag.to_owned()), value]);
    };
    if let Some(storage) = &flags.storage {
        let base = absolute(Path::new("."))?;
        let read = Storage::read(storage, &around.project, &base)?;
        let place = storage.split_once(':').map_or("", |(_, place)| place);
        let before = format!("{}:", read.name());
        add(
            "--storage",
            match place {
                "" => Argument::Word(read.name().to_owned()),
                _ => Argument::Place { before, path: read.place().to_owned() },
            },
        );
    }
    if let Some(list) = &flags.toolsets {
        toolsets(list)?;
        add("--toolsets", Argument::Word(list.clone()));
    }
    if let Some(file) = &flags.config {
        let path = absolute(file)?;
        if !path.is_file() {
            let path = path.display();
            return Err(CommandError::refused(format!("--config: {path} is no file; name one")));
        }
        add("--config", Argument::Place { before: String::new(), path });
    }
    if let Some(level) = &flags.log {
        telemetry::targets(level)?;
        add("--log", Argument::Word(level.clone()));
    }
    if flags.read_only {
        arguments.push(Argument::Word("--read-only".to_owned()));
    }
    Ok(arguments)
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    let absolute = std::path::absolute(path).map_err(|error| {
        CommandError::refused(format!("the working directory can't be used: {error}"))
    })?;
    Ok(resolved(&absolute))
}

fn check_no_settings(flags: &Flags) -> Result<(), CommandError> {
    let given = [
        ("--storage", flags.storage.is_some()),
        ("--toolsets", flags.toolsets.is_some()),
        ("--config", flags.config.is_some()),
        ("--log", flags.log.is_some()),
        ("--read-only", flags.read_only),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(CommandError::usage(format!(
            "{flag} is for a server that the client starts; one over http has its own settings"
        ))),
        None => Ok(()),
    }
}

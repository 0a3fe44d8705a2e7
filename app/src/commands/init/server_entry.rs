//! The server as clients are to start or reach it: program and arguments, or address and variable.
//!
//! Addresses and variables get into files. Neither may contain the token, and a rejected value,
//! which may be one, is not repeated in the message.

use std::path::{Path, PathBuf};

use reqlore_client_config::{Client, Place, Scope, Server, Surroundings};
use reqlore_domain::identity::redact;
use reqlore_probe::is_loopback;
use serde_json::Value;

use super::Options;
use crate::client_environment::{NAME, program_on_path};
use crate::commands::client_entry::{CommandEntry, NPX, is_package};
use crate::config::{toolsets, variable};
use crate::exit::CommandError;
use crate::settings::{self, Flags};
use crate::storage::{Storage, resolved};
use crate::telemetry;

/// Set by the launcher of the npm package.
const LAUNCHER_VARIABLE: &str = "REQLORE_LAUNCHER";
const MAX_VARIABLE_CHARS: usize = 64;
/// A longer value in a query may be a secret.
const MAX_QUERY_VALUE_CHARS: usize = 15;
const SECRET_NAMES: [&str; 6] = ["token", "key", "secret", "auth", "pass", "sig"];

/// The server, before it is adapted to a client.
#[derive(Debug)]
pub(super) enum ServerEntry {
    Command {
        is_npx: bool,
        arguments: Vec<String>,
        /// With the paths inside the project relative to it.
        project_arguments: Vec<String>,
    },
    Url {
        url: String,
        token_variable: String,
    },
}

impl ServerEntry {
    /// The server with the settings that are flags of this command line.
    pub(super) fn from_flags(
        flags: &Flags,
        options: &Options,
        around: &Surroundings,
    ) -> Result<Self, CommandError> {
        if flags.listen.is_some() || flags.behind_proxy.is_some() {
            return Err(CommandError::usage(
                "--listen and --behind-proxy are for the server itself; clients of a server over \
                 HTTP are configured with --transport http --url URL",
            ));
        }
        match (flags.transport.as_deref().unwrap_or("stdio"), options.url.as_deref()) {
            ("stdio", None) => Ok(Self::Command {
                is_npx: variable(LAUNCHER_VARIABLE).as_deref() == Some(NPX),
                arguments: arguments(flags, around, None)?,
                project_arguments: arguments(flags, around, Some(&around.project))?,
            }),
            ("stdio", Some(_)) => {
                Err(CommandError::usage("--url is for a server over HTTP; add --transport http"))
            }
            ("http", None) => Err(CommandError::usage(
                "--transport http needs --url URL, the address of the server, like \
                 https://reqlore.example.org/api/v1/mcp",
            )),
            ("http", Some(url)) => {
                check_no_settings(flags)?;
                check_url(url)?;
                check_variable(&options.token_variable)?;
                let token_variable = options.token_variable.clone();
                Ok(Self::Url { url: url.to_owned(), token_variable })
            }
            (other, _) => {
                Err(CommandError::usage(format!("transport: {other:?} must be stdio or http")))
            }
        }
    }

    /// The server for one client's file, whose entry is `known` so far, and a warning.
    pub(super) fn for_client(
        &self,
        client: Client,
        place: &Place,
        known: Option<&Value>,
        around: &Surroundings,
    ) -> (Server, Option<String>) {
        let is_shared = place.scope == Scope::Project;
        let (is_npx, settings) = match self {
            Self::Url { url, token_variable } => {
                let (url, token_variable) = (url.clone(), token_variable.clone());
                return (Server::Url { url, token_variable }, None);
            }
            Self::Command { is_npx, project_arguments, .. }
                if is_shared && place.starts_in_project =>
            {
                (*is_npx, project_arguments)
            }
            Self::Command { is_npx, arguments, .. } => (*is_npx, arguments),
        };
        // A shared entry works for the whole team, so its program and package version stay.
        let known = known.filter(|_| is_shared).and_then(CommandEntry::parse).unwrap_or_default();
        let package = known.npx_package().map(|(package, _)| package);
        let (program, mut arguments) = match package.or(is_npx.then_some(NAME)) {
            Some(package) => (NPX.to_owned(), vec!["-y".to_owned(), package.to_owned()]),
            None if known.program == NAME => (NAME.to_owned(), Vec::new()),
            None => (program(place.scope), Vec::new()),
        };
        arguments.extend(settings.iter().cloned());
        if !place.starts_in_project {
            let root = client.project_variable().map(str::to_owned);
            let root = root.unwrap_or_else(|| around.project.to_string_lossy().into_owned());
            arguments.extend(["--root".to_owned(), root]);
        }
        let is_path = |word: &&String| word.contains(":/") || word.starts_with('/');
        let path = std::iter::once(&program).chain(&arguments).find(is_path);
        let warning = path.filter(|_| is_shared).map(|path| {
            format!(
                "{} is shared with everyone who works on the project, but {path} is a path of \
                 this machine; put reqlore on the PATH, use paths in the project, or --scope user",
                place.file.display()
            )
        });
        (Server::Command { program, arguments }, warning)
    }
}

/// The settings of an entry that the new entry lacks; none if the new one starts no program.
pub(super) fn lost_words(known: &Value, new: &Value) -> String {
    let (Some(known), Some(new)) = (CommandEntry::parse(known), CommandEntry::parse(new)) else {
        return String::new();
    };
    let is_lost =
        |word: &&String| !new.arguments.contains(word) && *word != "-y" && !is_package(word);
    let lost: Vec<&str> = known.arguments.iter().filter(is_lost).map(String::as_str).collect();
    lost.join(" ")
}

/// A shared file names no path; a client with a window does not have the PATH of a shell.
fn program(scope: Scope) -> String {
    match (scope, program_on_path(NAME)) {
        (Scope::Project, Some(_)) => NAME.to_owned(),
        (Scope::User, Some(found)) => found.to_string_lossy().into_owned(),
        (_, None) => std::env::current_exe()
            .map_or_else(|_| NAME.to_owned(), |own| own.to_string_lossy().into_owned()),
    }
}

/// The settings on this command line. Paths inside `base` are relative to it.
fn arguments(
    flags: &Flags,
    around: &Surroundings,
    base: Option<&Path>,
) -> Result<Vec<String>, CommandError> {
    let shown = |path: &Path| match base.and_then(|base| path.strip_prefix(base).ok()) {
        Some(inside) => format!("./{}", inside.display()),
        None => path.display().to_string(),
    };
    let mut arguments = Vec::new();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    if let Some(storage) = &flags.storage {
        let parsed = Storage::read(storage, &around.project, &absolute(Path::new("."))?)?;
        let value = match storage.split_once(':') {
            Some((name, place)) if !place.is_empty() => format!("{name}:{}", shown(parsed.place())),
            _ => parsed.name().to_owned(),
        };
        add("--storage", value);
    }
    if let Some(list) = &flags.toolsets {
        toolsets(list)?;
        add("--toolsets", list.clone());
    }
    if let Some(file) = &flags.config {
        let path = absolute(file)?;
        if !path.is_file() {
            let message = format!("--config: {} is not a file; name one", path.display());
            return Err(CommandError::refused(message));
        }
        add("--config", shown(&path));
    }
    if let Some(level) = &flags.log {
        telemetry::targets(level)?;
        add("--log", level.clone());
    }
    if flags.read_only {
        arguments.push("--read-only".to_owned());
    }
    Ok(arguments)
}

fn absolute(path: &Path) -> Result<PathBuf, CommandError> {
    let path = std::path::absolute(path).map_err(|error| {
        CommandError::refused(format!("the working directory can't be used: {error}"))
    })?;
    Ok(resolved(&path))
}

fn check_no_settings(flags: &Flags) -> Result<(), CommandError> {
    let is_local = |key: &str| !["root", "transport"].contains(&key) && flags.get(key).is_some();
    let given = settings::all_settings().find(|setting| is_local(setting.key));
    let config = flags.config.as_ref().map(|_| "--config");
    match given.and_then(|setting| setting.flag).or(config) {
        Some(flag) => Err(CommandError::usage(format!(
            "{flag} is for a server that the client starts; one over HTTP has its own settings"
        ))),
        None => Ok(()),
    }
}

fn check_url(url: &str) -> Result<(), CommandError> {
    let uri: Option<http::Uri> = url.parse().ok();
    let parts = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri)));
    let wrong = match parts {
        None if uri.is_none() => {
            "must be the address of the server, like https://reqlore.example.org/api/v1/mcp"
        }
        None => "must begin with https:// (or http:// for this machine) and name a host",
        Some((_, authority, _)) if authority.as_str().contains('@') => {
            "must not contain a user and a password: it is written into a file. The token comes \
             from the variable that --token-variable names"
        }
        Some((_, _, uri))
            if redact(url) != url || uri.query().is_some_and(has_secret) || url.contains('#') =>
        {
            "may contain a token, and is written into a file. The token comes from the variable \
             that --token-variable names"
        }
        Some(("https", ..)) => return Ok(()),
        Some(("http", ..)) if is_loopback(url) => return Ok(()),
        Some(("http", ..)) => {
            "must begin with https://, because the token would travel in the clear; http:// is \
             for localhost and 127.0.0.1 only"
        }
        Some(_) => "must begin with https://, or with http:// for this machine",
    };
    Err(CommandError::usage(format!("--url {wrong}")))
}

fn has_secret(query: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let name = name.to_lowercase();
        value.len() > MAX_QUERY_VALUE_CHARS
            || SECRET_NAMES.iter().any(|secret| name.contains(secret))
    })
}

fn check_variable(name: &str) -> Result<(), CommandError> {
    let fits = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
    let is_name = (1..=MAX_VARIABLE_CHARS).contains(&name.len())
        && name.bytes().all(fits)
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_name {
        return Ok(());
    }
    Err(CommandError::usage(
        "--token-variable must be the name of a variable, in capitals, digits and underscores, \
         like REQLORE_TOKEN. Its value is not repeated here: if it is the token itself, put it \
         into that variable, and it stays out of every file",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(checked: Result<(), CommandError>) -> String {
        checked.err().map(|error| error.message).unwrap_or_default()
    }

    #[test]
    fn check_url_rejects_secrets_and_unencrypted_addresses() {
        for url in [
            "https://reqlore.example.org/api/v1/mcp",
            "https://reqlore.example.org:8443/api/v1/mcp?project=shop",
            "http://localhost:8080/api/v1/mcp",
            "http://127.9.9.9/mcp",
            "http://[::1]:8080/api/v1/mcp",
        ] {
            assert_eq!(message(check_url(url)), "", "{url}");
        }
        for (url, reason) in [
            ("", "must be the address"),
            ("reqlore.example.org/api/v1/mcp", "must be"),
            ("/mcp", "must begin with https://"),
            ("ftp://example.org", "must begin with https://"),
            ("http://example.org/mcp", "in the clear"),
            ("http://127.0.0.1.example.org/mcp", "in the clear"),
            ("http://localhost.example.org/mcp", "in the clear"),
            ("https://ada:hunter2@example.org/mcp", "must not contain a user and a password"),
            ("http://localhost@example.org/mcp", "must not contain a user and a password"),
            ("https://example.org/mcp?token=hunter2", "may contain a token"),
            ("https://example.org/mcp?API_KEY=hunter2", "may contain a token"),
            ("https://example.org/mcp?x=hunter2hunter2hunter2", "may contain a token"),
            ("https://example.org/reqlore_pat_hunter2hunter2hunter2", "may contain a token"),
            ("https://example.org/mcp#hunter2", "may contain a token"),
        ] {
            let message = message(check_url(url));
            assert!(message.contains(reason), "{url}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn check_variable_accepts_only_names() {
        for name in ["REQLORE_TOKEN", "_T", "TEAM2"] {
            assert_eq!(message(check_variable(name)), "", "{name}");
        }
        let long = "A".repeat(65);
        for name in ["", "2TEAM", "A B", "A=B", "${A}", "hunter2", "reqlore_pat_hunter2", &long] {
            let message = message(check_variable(name));
            assert!(message.contains("must be the name of a variable"), "{name}: {message}");
            assert!(name.is_empty() || !message.contains(name), "{message}");
        }
    }
}

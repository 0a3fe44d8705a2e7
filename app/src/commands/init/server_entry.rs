//! The server of an entry: program and arguments, or address and token variable.
//!
//! Both are written to files, so they must not contain the token. Messages do not repeat a
//! rejected value, because it may be the token.

use std::path::{Path, PathBuf};

use reqlore_client_config::{
    Client, ClientEnvironment, ConfigError, ConfigLocation, ConfigScope, HookEvent, ServerSpec,
};
use reqlore_domain::identity::redact_secrets;
use reqlore_domain::unreplaced_variable::check_replaced;
use reqlore_probe::{endpoint_url, is_loopback};
use serde_json::Value;

use crate::client_environment::{NAME, program_on_path};
use crate::commands::client_entry::{CommandEntry, PackageRunner, is_package};
use crate::commands::init::options::Options;
use crate::commands::tool_client::TOKEN_VARIABLE;
use crate::commands::untrusted_text::shell_word;
use crate::config::parse_toolsets;
use crate::config::paths::{check_path, resolve_links};
use crate::exit::{CommandError, Result};
use crate::settings::{self, FILE, SettingFlags};
use crate::storage_spec::StorageSpec;
use crate::telemetry;

const MAX_VARIABLE_CHARS: usize = 64;
/// A longer value in a query may be a secret.
const MAX_QUERY_VALUE_CHARS: usize = 15;
const SECRET_NAMES: [&str; 6] = ["token", "key", "secret", "auth", "pass", "sig"];

/// The server, before it is adapted to a client.
#[derive(Debug)]
pub(super) enum ServerEntry {
    Command {
        /// The runner of this process. Its program is in a cache, so clients use it as well.
        runner: Option<PackageRunner>,
        arguments: Vec<String>,
        /// The same with relative paths inside the project.
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
        flags: &SettingFlags,
        options: &Options,
        environment: &ClientEnvironment,
    ) -> Result<Self> {
        if flags.listen.is_some() || flags.behind_proxy.is_some() {
            return Err(CommandError::usage_error(
                "--listen and --behind-proxy configure a server; to configure a client, use \
                 --transport http --url URL",
            ));
        }
        match (flags.transport.as_deref().unwrap_or("stdio"), options.url.as_deref()) {
            ("stdio", None) => Ok(Self::Command {
                runner: PackageRunner::of_process(),
                arguments: setting_arguments(flags, environment, None)?,
                project_arguments: setting_arguments(
                    flags,
                    environment,
                    Some(&environment.project),
                )?,
            }),
            ("stdio", Some(_)) => Err(CommandError::usage_error("--url needs --transport http")),
            ("http", None) => Err(CommandError::usage_error(
                "--transport http needs --url URL, the address of the server, such as \
                 https://reqlore.example.org/api/v1/mcp",
            )),
            ("http", Some(url)) => {
                check_no_settings(flags)?;
                check_url(url)?;
                check_variable(&options.token_variable)?;
                let token_variable = options.token_variable.clone();
                Ok(Self::Url { url: endpoint_url(url), token_variable })
            }
            (other, _) => Err(CommandError::usage_error(format!(
                "transport: {other:?} must be stdio or http"
            ))),
        }
    }

    /// The server for one client's file, and a warning. `old_entry` is the file's entry so far.
    /// With `names_file`, the entry names the project's `reqlore.toml`.
    pub(super) fn for_client(
        &self,
        client: Client,
        location: &ConfigLocation,
        old_entry: Option<&Value>,
        names_file: bool,
        environment: &ClientEnvironment,
    ) -> (ServerSpec, Option<String>) {
        let is_shared = location.scope == ConfigScope::Project;
        let (runner, settings) = match self {
            Self::Url { url, token_variable } => {
                let (url, token_variable) = (url.clone(), token_variable.clone());
                return (ServerSpec::Url { url, token_variable }, None);
            }
            Self::Command { runner, project_arguments, .. }
                if is_shared && location.starts_in_project =>
            {
                (*runner, project_arguments)
            }
            Self::Command { runner, arguments, .. } => (*runner, arguments),
        };
        // A shared entry works for the whole team, so its program and package version stay.
        let old_command = match old_entry {
            Some(entry) if is_shared => CommandEntry::parse(entry).unwrap_or_default(),
            _ => CommandEntry::default(),
        };
        let old_package = old_command.package().map(|(runner, package, _)| (runner, package));
        let new_package = runner.map(|runner| (runner, NAME));
        let (program, mut arguments) = match old_package.or(new_package) {
            Some((runner, package)) => {
                let words = runner.flags().iter().chain([&package]);
                (runner.program().to_owned(), words.map(ToString::to_string).collect())
            }
            None if old_command.program == NAME => (NAME.to_owned(), Vec::new()),
            None => (program_for(location.scope), Vec::new()),
        };
        arguments.extend(settings.iter().cloned());
        let mut folder = ".".to_owned();
        // The client may start the server in any folder.
        if !location.starts_in_project {
            folder = match client.project_variable() {
                Some(variable) => variable.to_owned(),
                None => environment.project.to_string_lossy().into_owned(),
            };
            arguments.extend(["--root".to_owned(), folder.clone()]);
        }
        if names_file {
            arguments.extend(["--config".to_owned(), format!("{folder}/{FILE}")]);
        }
        let mut warning = None;
        if is_shared && let Some(path) = absolute_path_in(&program, &arguments) {
            warning = Some(format!(
                "{} is shared with the team, but {path} is a path of this machine; put reqlore \
                 on PATH, use paths in the project, or pass --scope user",
                location.file.display()
            ));
        }
        (ServerSpec::Command { program, arguments }, warning)
    }
}

impl ServerEntry {
    /// The shell command of a client's hook, which is in a file of this user.
    pub(super) fn hook_command(
        &self,
        client: Client,
        event: HookEvent,
        scope: ConfigScope,
        environment: &ClientEnvironment,
    ) -> Result<String, ConfigError> {
        let mut words = vec![program_for(ConfigScope::User)];
        words.extend(["hook", event.name(), "--client", client.name()].map(str::to_owned));
        words.extend(match scope {
            ConfigScope::User => ["--scope".to_owned(), scope.name().to_owned()],
            // A session may start in another folder of the project.
            ConfigScope::Project => {
                ["--root".to_owned(), environment.project.to_string_lossy().into_owned()]
            }
        });
        match self {
            Self::Command { runner: Some(runner), .. } => {
                let (program, install) = (runner.program(), runner.install_command());
                return Err(format!(
                    "{program} takes longer than a hook may; install the package with \
                     `{install}`, then run `reqlore init --hooks session`"
                )
                .into());
            }
            Self::Command { arguments, .. } => words.extend(arguments.iter().cloned()),
            Self::Url { token_variable, .. } if token_variable != TOKEN_VARIABLE => {
                return Err(format!("a hook reads the token from {TOKEN_VARIABLE}; use it").into());
            }
            Self::Url { url, .. } => words.extend(["--url".to_owned(), url.clone()]),
        }
        Ok(guarded_command(&words))
    }
}

/// A shell command that does nothing if its program is missing, and does not fail.
pub(crate) fn guarded_command(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    let program = words.first().map_or("", |program| program);
    format!("test -x {program} && {} || true", words.join(" "))
}

fn absolute_path_in<'a>(program: &'a String, arguments: &'a [String]) -> Option<&'a String> {
    std::iter::once(program)
        .chain(arguments)
        // A storage has its path after a colon, as in `sqlite:/path`.
        .find(|word| word.contains(":/") || word.starts_with('/'))
}

/// The arguments of an entry that the new entry lacks. Empty if the new one starts no program.
pub(super) fn lost_arguments(old: &Value, new: &Value) -> String {
    let (Some(old), Some(new)) = (CommandEntry::parse(old), CommandEntry::parse(new)) else {
        return String::new();
    };
    let mut lost = Vec::new();
    for word in &old.arguments {
        if !new.arguments.contains(word) && word != "-y" && !is_package(word) {
            lost.push(word.as_str());
        }
    }
    lost.join(" ")
}

fn program_for(scope: ConfigScope) -> String {
    match (scope, program_on_path(NAME)) {
        // A path is valid on this machine only, and the file is shared.
        (ConfigScope::Project, Some(_)) => NAME.to_owned(),
        // Desktop clients do not have the PATH of a shell.
        (ConfigScope::User, Some(program)) => program.to_string_lossy().into_owned(),
        (_, None) => match std::env::current_exe() {
            Ok(program) => program.to_string_lossy().into_owned(),
            Err(_) => NAME.to_owned(),
        },
    }
}

/// The settings on this command line. Paths inside `base` are relative to it.
fn setting_arguments(
    flags: &SettingFlags,
    environment: &ClientEnvironment,
    base: Option<&Path>,
) -> Result<Vec<String>> {
    let mut arguments = Vec::new();
    if let Some(storage) = &flags.storage {
        let parsed =
            StorageSpec::parse(storage, &environment.project, &absolute_path(Path::new("."))?)?;
        let value = match (parsed.path(), storage.split_once(':')) {
            // A URL, which has no password.
            (None, _) => storage.clone(),
            (Some(path), Some((name, written))) if !written.is_empty() => {
                format!("{name}:{}", relative_path(path, base))
            }
            _ => parsed.name().to_owned(),
        };
        arguments.extend(["--storage".to_owned(), value]);
    }
    if let Some(list) = &flags.toolsets {
        // A wrong value is reported here, not by the client that starts the server.
        parse_toolsets(list)?;
        arguments.extend(["--toolsets".to_owned(), list.clone()]);
    }
    if let Some(file) = &flags.config {
        check_path("--config", &file.to_string_lossy())?;
        let path = absolute_path(file)?;
        if !path.is_file() {
            let message = format!("--config: {} is not a file", path.display());
            return Err(CommandError::failure(message));
        }
        arguments.extend(["--config".to_owned(), relative_path(&path, base)]);
    }
    if let Some(level) = &flags.log {
        telemetry::parse_targets(level)?;
        arguments.extend(["--log".to_owned(), level.clone()]);
    }
    if flags.read_only {
        arguments.push("--read-only".to_owned());
    }
    Ok(arguments)
}

fn relative_path(path: &Path, base: Option<&Path>) -> String {
    if let Some(base) = base
        && let Ok(inside) = path.strip_prefix(base)
    {
        return format!("./{}", inside.display());
    }
    path.display().to_string()
}

fn absolute_path(path: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|error| {
        CommandError::failure(format!("the working directory can't be used: {error}"))
    })?;
    Ok(resolve_links(&path))
}

/// Rejects the settings of a stdio server for one over HTTP.
fn check_no_settings(flags: &SettingFlags) -> Result<()> {
    let mut flag = flags.config.as_ref().map(|_| "--config");
    for setting in settings::all_settings() {
        let is_allowed = ["root", "transport"].contains(&setting.key);
        if !is_allowed && flags.get(setting.key).is_some() {
            flag = setting.flag.or(flag);
            break;
        }
    }
    match flag {
        Some(flag) => Err(CommandError::usage_error(format!(
            "{flag} is for a server that the client starts; configure an HTTP server where it runs"
        ))),
        None => Ok(()),
    }
}

fn check_url(url: &str) -> Result<()> {
    check_replaced(url).map_err(|error| CommandError::usage_error(format!("--url: {error}")))?;
    match wrong_url(url) {
        Some(wrong) => Err(CommandError::usage_error(format!("--url {wrong}"))),
        None => Ok(()),
    }
}

/// Why clients can't use this address; `None` if they can.
fn wrong_url(url: &str) -> Option<&'static str> {
    let Ok(uri) = url.parse::<http::Uri>() else {
        return Some(
            "must be the address of the server, such as https://reqlore.example.org/api/v1/mcp",
        );
    };
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Some("must begin with https:// (or http:// for this machine) and name a host");
    };
    if authority.as_str().contains('@') {
        return Some(
            "must not contain a user and a password, because it is written to a file; use \
             --token-variable for the token",
        );
    }
    // A fragment is not sent to the server, so it is a mistake or a secret.
    if redact_secrets(url) != url || uri.query().is_some_and(has_secret) || url.contains('#') {
        return Some(
            "may contain a token, and it is written to a file; use --token-variable for the token",
        );
    }
    match scheme {
        "https" => None,
        "http" if is_loopback(url) => None,
        "http" => Some(
            "must begin with https://, or the token is sent unencrypted; http:// is for \
             localhost and 127.0.0.1 only",
        ),
        _ => Some("must begin with https://, or with http:// for this machine"),
    }
}

fn has_secret(query: &str) -> bool {
    query.split('&').any(|pair| {
        // A value without a name may be a token itself.
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let name = name.to_lowercase();
        value.len() > MAX_QUERY_VALUE_CHARS
            || SECRET_NAMES.iter().any(|secret| name.contains(secret))
    })
}

fn check_variable(name: &str) -> Result<()> {
    let is_name = (1..=MAX_VARIABLE_CHARS).contains(&name.len())
        && name.bytes().all(|c| matches!(c, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_name {
        return Ok(());
    }
    Err(CommandError::usage_error(
        "--token-variable must be the name of a variable, such as REQLORE_TOKEN (A-Z, 0-9 and _); \
         put the token into that variable",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(checked: Result<()>) -> String {
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
            ("http://example.org/mcp", "unencrypted"),
            ("http://127.0.0.1.example.org/mcp", "unencrypted"),
            ("http://localhost.example.org/mcp", "unencrypted"),
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

//! Checks the clients' entries for this server.
//!
//! A project's files may come from a cloned repository. So only this binary is started, with the
//! entry's arguments in an empty folder. A server named by a project's file is contacted, and sent
//! a token, only with `--with-token`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqlore_client_config::{
    Client, ClientEnvironment, ConfigLocation, ConfigScope, ServerSpec, edit,
};
use reqlore_domain::identity::token;
use reqlore_probe::{ProbeError, ServerInfo, StdioClient};
use serde_json::Value;

use super::report::AreaReport;
use crate::client_environment::{
    NAME, VERSION, is_program, isolated_server, own_program, program_on_path,
};
use crate::commands::client_entry::{self, ClientEntry, CommandEntry, TokenSource};
use crate::commands::untrusted_text::{read_file, shell_word};
use crate::config::paths::env_variable;
use crate::settings::SettingFlags;
use crate::storage_spec::StorageSpec;

/// Some clients keep their whole history in the user's file.
const MAX_PROJECT_FILE_BYTES: u64 = 4 << 20;
const MAX_USER_FILE_BYTES: u64 = 256 << 20;
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A project's file may use no other variables for the token.
const TOKEN_VARIABLE_PREFIX: &str = "REQLORE_";

/// `storage` is the one that was checked; `None` if the settings are invalid.
pub(super) fn check_clients(
    environment: &ClientEnvironment,
    storage: Option<&StorageSpec>,
    with_token: bool,
    mut report: AreaReport<'_>,
) {
    let mut other_storages = BTreeSet::new();
    let mut is_any_present = false;
    for client in Client::ALL {
        let mut is_configured = false;
        for scope in ConfigScope::ALL {
            let Ok(mut location) = client.config_location(scope, environment) else { continue };
            // A user's file or a link may be inside the project; then it is as untrusted.
            if is_inside(&location.file, &environment.project) {
                location.scope = ConfigScope::Project;
            }
            let subject = format!("{} ({})", client.title(), location.file.display());
            let mut check = EntryCheck {
                project: &environment.project,
                storage,
                with_token,
                client,
                location,
                report: report.with_subject(&subject),
                other_storages: &mut other_storages,
            };
            is_configured |= check.check_file();
        }
        let is_present = is_configured || client.is_present(environment);
        is_any_present |= is_present;
        if is_present && !is_configured {
            report.note(
                format!("{} is not configured for this server", client.title()),
                format!("run `reqlore init --client {client}`"),
            );
        }
    }
    if !is_any_present {
        let next = "name one with `reqlore init --client NAME`; `reqlore init --help` lists them";
        report.note("no client was found", next);
    }
}

fn is_inside(file: &Path, folder: &Path) -> bool {
    file.starts_with(folder) || dunce::canonicalize(file).is_ok_and(|file| file.starts_with(folder))
}

/// The check of one file of one client, and of the entry in it.
struct EntryCheck<'a> {
    project: &'a Path,
    storage: Option<&'a StorageSpec>,
    with_token: bool,
    client: Client,
    location: ConfigLocation,
    report: AreaReport<'a>,
    /// Storages of entries that were not checked; each is reported once.
    other_storages: &'a mut BTreeSet<String>,
}

impl EntryCheck<'_> {
    /// The command that writes a correct entry.
    fn init_command(&self) -> String {
        format!("`reqlore init --client {} --scope {}`", self.client, self.location.scope.name())
    }

    fn is_of_project(&self) -> bool {
        self.location.scope == ConfigScope::Project
    }

    /// Returns whether the client has a file that mentions this server.
    fn check_file(&mut self) -> bool {
        // A cloned repository may contain a huge file.
        let max_bytes =
            if self.is_of_project() { MAX_PROJECT_FILE_BYTES } else { MAX_USER_FILE_BYTES };
        let text = match read_file(&self.location.file, max_bytes) {
            Ok(Some(text)) => text,
            Ok(None) => return false,
            Err(error) => {
                self.report.warning(error, "make it a readable text file");
                return true;
            }
        };
        match edit::find_entry(&text, self.location.slot) {
            Ok(Some(value)) => self.check_entry(&value),
            Ok(None) => return false,
            Err(error) => {
                let message = format!("the client can't read the file: {error}");
                self.report.problem(message, "correct the file by hand");
            }
        }
        true
    }

    fn check_entry(&mut self, value: &Value) {
        let init = self.init_command();
        if client_entry::collect_strings(value)
            .iter()
            .any(|text| text.contains(token::TOKEN_PREFIX))
        {
            self.report.problem(
                "the file contains a token that every reader of the file can use",
                format!(
                    "replace the token with `reqlore token rotate ID`, set it as a variable, and \
                     run {init} with --transport http --url URL"
                ),
            );
        }
        if client_entry::is_disabled(value) {
            return self.report.note("the entry is disabled", "enable it in the client");
        }
        let entry = ClientEntry::parse(value);
        let server = match &entry {
            // With an argument, so that the expected entry has a list of them.
            ClientEntry::Command(CommandEntry { program, .. }) => ServerSpec::Command {
                program: program.clone(),
                arguments: vec!["serve".to_owned()],
            },
            ClientEntry::Url { url, .. } => {
                ServerSpec::Url { url: url.clone(), token_variable: "REQLORE_TOKEN".to_owned() }
            }
            ClientEntry::Unknown => {
                let message = "the entry has no command and no address";
                return self.report.problem(message, format!("run {init}"));
            }
        };
        if !self.check_types(value, &server) {
            return;
        }
        match entry {
            ClientEntry::Command(command) => self.check_command(&command),
            ClientEntry::Url { url, token } => self.check_url(&url, &token),
            ClientEntry::Unknown => {}
        }
    }

    /// Compares the types of the values with an entry that init would write. Returns whether they
    /// are equal.
    fn check_types(&mut self, value: &Value, server: &ServerSpec) -> bool {
        // Init can't write such an entry, so there are no types to compare.
        let Ok(expected) = self.client.entry(server) else { return true };
        // An older format of Zed nests the command.
        let is_nested = self.client == Client::Zed && value["command"].is_object();
        if !is_nested && let Some(wrong) = client_entry::wrong_type_message(value, &expected.set) {
            self.report.problem(wrong, format!("run {}", self.init_command()));
            return false;
        }
        let needs_type =
            self.client == Client::OpenCode || matches!(server, ServerSpec::Url { .. });
        if needs_type && expected.set.contains_key("type") && value.get("type").is_none() {
            let message = "the entry has no `type`, so the client may ignore it";
            self.report.note(message, format!("run {}", self.init_command()));
        }
        true
    }

    fn check_command(&mut self, command: &CommandEntry) {
        let program = &command.program;
        let foreign = command.foreign_variables();
        if self.is_of_project() && !foreign.is_empty() {
            self.report.warning(
                format!("sets variables unknown to Reqlore: {}", foreign.join(", ")),
                "some variables make a program start another; remove those you do not know",
            );
        }
        let own_path = own_program().unwrap_or_default();
        let path = Path::new(program);
        // The project decides which program a relative path means.
        let is_relative_path = program.contains('/') && !path.is_absolute();
        let program_path = if path.is_absolute() {
            is_program(path).then(|| path.to_owned())
        } else if is_relative_path {
            None
        } else {
            program_on_path(program)
        };
        let is_own = match &program_path {
            Some(path) => dunce::canonicalize(path).is_ok_and(|path| path == own_path),
            None => false,
        };
        let arguments =
            if is_own { Some(&*command.arguments) } else { command.reqlore_arguments() };
        // Arguments are checked for `npx reqlore` too, which is not started.
        if let Some(arguments) = arguments
            && !self.check_arguments(command, arguments)
        {
            return;
        }
        if program_path.is_none() && !is_relative_path {
            let next = format!("install it, or run {}", self.init_command());
            return self.report.problem(format!("program {program:?} not found"), next);
        }
        if !is_own {
            return self.report_not_started(command);
        }
        match start_server(&own_path, &command.arguments) {
            Ok(server) => self.check_server(&format!("`{program}` starts and answers"), &server),
            Err(error) => {
                self.report.problem(format!("`{program}` {}", error.message), error.next);
            }
        }
    }

    fn report_not_started(&mut self, command: &CommandEntry) {
        let program = &command.program;
        let message = format!("`{program}` was not started, because it is not this reqlore binary");
        if self.is_of_project() && command.reqlore_arguments().is_none() {
            // No test by hand is suggested: a cloned project can name any program.
            let init = self.init_command();
            let next =
                format!("check the command before your client starts it; {init} replaces it");
            return self.report.warning(message, next);
        }
        let mut line = shell_word(program);
        for argument in &command.arguments {
            line = line + " " + &shell_word(argument);
        }
        let next = format!("to test it, run `{line} </dev/null`; it must end without an error");
        self.report.note(message, next);
    }

    /// Returns whether a server would start with these arguments.
    fn check_arguments(&mut self, command: &CommandEntry, arguments: &[String]) -> bool {
        let init = self.init_command();
        let flags = command.parse_flags(arguments);
        if let Err(wrong) = flags.and_then(|flags| self.check_storage(flags)) {
            self.report.problem(format!("invalid arguments: {wrong}"), format!("run {init}"));
            return false;
        }
        if !self.location.starts_in_project && !command.names_root() {
            let title = self.client.title();
            self.report.warning(
                "the entry does not name the project",
                format!("run {init}, because {title} does not start servers in the project"),
            );
        }
        true
    }

    /// Notes a storage other than the checked one. Returns the reason if a server would not start.
    fn check_storage(&mut self, mut flags: SettingFlags) -> Result<(), String> {
        let Some(checked) = self.storage else { return Ok(()) };
        let hint = storage_flags(&flags);
        // A client replaces a variable by the project's folder.
        let root = match flags.root.take() {
            Some(root) if !root.to_string_lossy().contains("${") => root,
            _ => PathBuf::new(),
        };
        flags.root = Some(self.project.join(root));
        if let Some(file) = &mut flags.config {
            let path = self.project.join(&*file);
            if !path.is_file() {
                return Err(format!("--config {} is not a file", file.display()));
            }
            *file = path;
        }
        let config = super::resolve_config(&flags).map_err(|error| error.message)?;
        let storage = config.storage;
        // Several clients may use the same storage; it is reported once.
        if storage != *checked && self.other_storages.insert(storage.to_string()) {
            let message = format!("serves {storage}, which was not checked");
            self.report.note(message, format!("`reqlore doctor{hint}` checks it"));
        }
        Ok(())
    }

    fn check_server(&mut self, success: &str, server: &ServerInfo) {
        let ServerInfo { name, version, .. } = server;
        let message = format!("{success} as {name} {version}");
        if name != NAME {
            self.report.warning(message, "check that this entry is meant for another server");
        } else if version != VERSION {
            let message = format!("{message}, but this binary is {VERSION}");
            self.report.warning(message, "update the older one");
        } else {
            self.report.ok(message);
        }
    }

    fn check_url(&mut self, url: &str, token: &TokenSource) {
        // The query may contain a key.
        let shown_url = match url.split_once('?') {
            Some((address, _)) => format!("{address}?…"),
            None => url.to_owned(),
        };
        if !reqlore_probe::is_loopback(url) && !reqlore_probe::is_encrypted(url) {
            return self.report.problem(
                format!("{shown_url} is not encrypted, so the network can read the token"),
                "put a TLS-terminating proxy in front of the server, and use its https:// address",
            );
        }
        // A wrong path is the server's to report: a proxy may have any.
        if url.trim_end_matches('/').matches('/').count() == 2 {
            let next = format!("use the address {}", reqlore_probe::endpoint_url(url));
            return self.report.problem(format!("{shown_url} has no path"), next);
        }
        // Even on this machine: any local user may listen on a port.
        if self.is_of_project() && !self.with_token {
            return self.report.note(
                format!("{shown_url} was not contacted, because a project file names it"),
                "if you trust that server, run `reqlore doctor --with-token`",
            );
        }
        let token = match token {
            TokenSource::Variable(name) => match self.token_from_environment(name) {
                Ok(token) => Some(token),
                Err([why, next]) => {
                    return self
                        .report
                        .warning(format!("{shown_url} was not contacted: {why}"), next);
                }
            },
            TokenSource::Input => {
                let why = "because the client asks its user for the token";
                return self.report.note(format!("{shown_url} was not contacted, {why}"), "");
            }
            TokenSource::None => None,
        };
        match reqlore_probe::http_server_info(url, token.as_deref(), PROBE_TIMEOUT) {
            Ok(server) => self.check_server(&format!("{shown_url} answers"), &server),
            Err(error) => self.report.problem(format!("{shown_url} {}", error.message), error.next),
        }
    }

    /// The token. The error is the reason why there is none, and the next step.
    fn token_from_environment(&self, name: &str) -> Result<String, [String; 2]> {
        if self.is_of_project() && !name.starts_with(TOKEN_VARIABLE_PREFIX) {
            let file = self.location.file.display();
            return Err([
                format!("the entry sends the variable {name}, which is not one of Reqlore's"),
                format!("check {file}, because its author may want another secret of yours"),
            ]);
        }
        let Some(value) = env_variable(name) else {
            return Err([
                format!("the variable {name} is not set"),
                format!("set {name} to the token, in the client's environment and in this one"),
            ]);
        };
        match token::describe_malformed(&value) {
            None => Ok(value),
            // Not sent: it may be another service's secret.
            Some([problem, next]) => {
                Err([format!("the token in the variable {name} {problem}"), next.to_owned()])
            }
        }
    }
}

/// Starts this binary with the entry's arguments in an empty folder.
fn start_server(own_path: &Path, arguments: &[String]) -> Result<ServerInfo, ProbeError> {
    // In an empty folder, relative paths of the entry reach no file of the user.
    let folder = tempfile::Builder::new().prefix("reqlore-doctor-").tempdir();
    let folder = folder.map_err(|error| ProbeError {
        message: format!("was not started: can't create a temporary folder ({error})"),
        next: "set TMPDIR to a folder that you may write to".to_owned(),
    })?;
    let mut command =
        isolated_server(own_path, &client_entry::without_replaced_flags(arguments), folder.path());
    command.current_dir(folder.path());
    let mut client = StdioClient::start(command, PROBE_TIMEOUT)?;
    let server = client.initialize()?;
    // A client expects the server to exit when its input ends.
    client.end()?;
    Ok(server)
}

/// The flags that locate documents, without values that only the client knows.
fn storage_flags(flags: &SettingFlags) -> String {
    let root = flags.root.as_ref().map(|path| path.display().to_string());
    let config = flags.config.as_ref().map(|path| path.display().to_string());
    let mut text = String::new();
    for (flag, value) in
        [("--root", root), ("--storage", flags.storage.clone()), ("--config", config)]
    {
        if let Some(value) = value
            && !value.contains("${")
        {
            text += &format!(" {flag} {}", shell_word(&value));
        }
    }
    text
}

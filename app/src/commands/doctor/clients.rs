//! Checks the clients' entries for this server.
//!
//! A project's files may come from a cloned repository. So only this very program is started, with
//! the entry's arguments but in an empty folder, and an address in a project's file is asked, and
//! sent a token, only with `--with-token`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqlore_client_config::{
    Client, ClientEnvironment, ConfigLocation, ConfigScope, ServerSpec, edit,
};
use reqlore_domain::identity::{PresentedToken, token};
use reqlore_probe::{ProbeError, ServerInfo, StdioClient};
use serde_json::Value;

use super::report::AreaReport;
use crate::client_environment::{
    NAME, VERSION, is_program, isolated_server, own_program, program_on_path,
};
use crate::commands::client_entry::{self, ClientEntry, CommandEntry, TokenSource};
use crate::commands::untrusted_text::{read_file, shell_word};
use crate::config::variable;
use crate::settings::Flags;
use crate::storage::Storage;

/// Some clients keep their whole history in the user's file.
const MAX_PROJECT_FILE_BYTES: u64 = 4 << 20;
const MAX_USER_FILE_BYTES: u64 = 256 << 20;
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// A project's file may name no other variables.
const TOKEN_VARIABLE_PREFIX: &str = "REQLORE_";

/// `storage` is the one that was checked; `None` if the settings are wrong.
pub(super) fn check_clients(
    environment: &ClientEnvironment,
    storage: Option<&Storage>,
    with_token: bool,
    mut report: AreaReport<'_>,
) {
    let mut other_storages = BTreeSet::new();
    let mut is_any = false;
    for client in Client::ALL {
        let mut is_configured = false;
        for scope in ConfigScope::ALL {
            let Ok(mut location) = client.config_location(scope, environment) else { continue };
            // A file in the project is the project's, even if it is the user's or a link to it.
            let is_inside = |file: &Path| file.starts_with(&environment.project);
            if is_inside(&location.file)
                || location.file.canonicalize().is_ok_and(|f| is_inside(&f))
            {
                location.scope = ConfigScope::Project;
            }
            let report = report.about(&format!("{} ({})", client.title(), location.file.display()));
            let other_storages = &mut other_storages;
            let project = &environment.project;
            let mut check = EntryCheck {
                project,
                storage,
                with_token,
                client,
                location,
                report,
                other_storages,
            };
            is_configured |= check.check_file();
        }
        let is_present = is_configured || client.is_present(environment);
        is_any |= is_present;
        if is_present && !is_configured {
            report.note(
                format!("{} is here, and does not know this server", client.title()),
                format!("`reqlore init --client {client}` configures it"),
            );
        }
    }
    if !is_any {
        let next = "`reqlore init --client NAME` writes for one that is not found; see `reqlore \
                    init --help`";
        report.note("no client was found", next);
    }
}

/// The check of one file of one client, and of the entry in it.
struct EntryCheck<'a> {
    project: &'a Path,
    storage: Option<&'a Storage>,
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
        let max_bytes =
            if self.is_of_project() { MAX_PROJECT_FILE_BYTES } else { MAX_USER_FILE_BYTES };
        let text = match read_file(&self.location.file, max_bytes) {
            Ok(Some(text)) => text,
            Ok(None) => return false,
            Err(error) => {
                self.report.warning(error, "make it a file that you can read, as text");
                return true;
            }
        };
        match edit::find_entry(&text, self.location.slot) {
            Ok(Some(value)) => self.check_entry(&value),
            Ok(None) => return false,
            Err(error) => {
                let message = format!("the client can't read it: {error}");
                self.report.problem(message, "correct the file by hand");
            }
        }
        true
    }

    fn check_entry(&mut self, value: &Value) {
        let init = self.init_command();
        let fixes = format!("{init} fixes it");
        if client_entry::collect_strings(value).iter().any(|text| text.contains(token::PREFIX)) {
            self.report.problem(
                "the file contains a token, readable by all who may read the file",
                format!(
                    "make a new one with `reqlore token rotate ID`, put it into a variable, and \
                     run {init} with --transport http --url URL"
                ),
            );
        }
        if client_entry::is_disabled(value) {
            let next = "the client does not start it until you enable it there";
            return self.report.note("the entry is disabled", next);
        }
        let entry = ClientEntry::parse(value);
        let server = match &entry {
            // With an argument, so that the wanted entry has a list of them.
            ClientEntry::Command(CommandEntry { program, .. }) => ServerSpec::Command {
                program: program.clone(),
                arguments: vec!["serve".to_owned()],
            },
            ClientEntry::Url { url, .. } => {
                ServerSpec::Url { url: url.clone(), token_variable: "REQLORE_TOKEN".to_owned() }
            }
            ClientEntry::Unknown => {
                return self.report.problem("the entry names no command and no address", fixes);
            }
        };
        // An older format of Zed nests the command.
        let is_nested = self.client == Client::Zed && value["command"].is_object();
        if let Ok(wanted) = self.client.entry(&server) {
            if let Some(wrong) =
                client_entry::wrong_type_message(value, &wanted.set).filter(|_| !is_nested)
            {
                return self.report.problem(wrong, fixes);
            }
            let needs_type =
                self.client == Client::OpenCode || matches!(server, ServerSpec::Url { .. });
            if needs_type && wanted.set.contains_key("type") && value.get("type").is_none() {
                let message = "the entry has no `type`; the client may ignore it";
                self.report.note(message, format!("{init} writes it"));
            }
        }
        match entry {
            ClientEntry::Command(command) => self.check_command(&command),
            ClientEntry::Url { url, token } => self.check_url(&url, &token),
            ClientEntry::Unknown => {}
        }
    }

    fn check_command(&mut self, command: &CommandEntry) {
        let program = &command.program;
        let foreign = command.foreign_variables();
        if self.is_of_project() && !foreign.is_empty() {
            let message = format!("it sets {} for its program", foreign.join(", "));
            let next = "a client sets them, and some variables make a program start another; check \
                        that you want that";
            self.report.warning(message, next);
        }
        let own = own_program().unwrap_or_default();
        let path = Path::new(program);
        // The project decides which program a relative path means.
        let is_relative_path = program.contains('/') && !path.is_absolute();
        let found = match path {
            path if path.is_absolute() => Some(path.to_owned()).filter(|path| is_program(path)),
            _ if is_relative_path => None,
            _ => program_on_path(program),
        };
        let is_own = found.as_ref().is_some_and(|path| path.canonicalize().is_ok_and(|p| p == own));
        let arguments =
            if is_own { Some(&*command.arguments) } else { command.reqlore_arguments() };
        if let Some(arguments) = arguments
            && !self.check_arguments(command, arguments)
        {
            return;
        }
        if found.is_none() && !is_relative_path {
            let next = format!("install it, or run {}", self.init_command());
            return self.report.problem(format!("there is no program {program:?}"), next);
        }
        if !is_own {
            return self.report_not_started(command);
        }
        match start_server(&own, &command.arguments) {
            Ok(server) => self.check_server(&format!("`{program}` starts and answers"), &server),
            Err(error) => {
                self.report.problem(format!("`{program}` {}", error.message), error.next);
            }
        }
    }

    fn report_not_started(&mut self, command: &CommandEntry) {
        let message = format!("`{}` was not tried, it is not this program", command.program);
        let words = std::iter::once(&command.program).chain(&command.arguments);
        let words = words.map(|word| shell_word(word)).collect::<Vec<_>>().join(" ");
        let next = format!("to try it by hand: `{words} </dev/null` has to end without an error");
        if self.is_of_project() && command.reqlore_arguments().is_none() {
            let next = format!(
                "a project's file may start anything: check it before your client starts it; {} \
                 makes it start Reqlore; {next}",
                self.init_command()
            );
            return self.report.warning(message, next);
        }
        self.report.note(message, next);
    }

    /// Returns whether a server would start with these arguments.
    fn check_arguments(&mut self, command: &CommandEntry, arguments: &[String]) -> bool {
        let init = self.init_command();
        let flags = command.parse_flags(arguments);
        if let Err(wrong) = flags.and_then(|flags| self.check_storage(flags)) {
            let message = format!("its arguments are wrong: {wrong}");
            self.report.problem(message, format!("{init} fixes it"));
            return false;
        }
        if !self.location.starts_in_project && !command.names_root() {
            let title = self.client.title();
            self.report.warning(
                "it does not say which project it serves",
                format!("{title} starts servers in no particular folder; {init} names the project"),
            );
        }
        true
    }

    /// Notes a storage other than the checked one. The error says why a server would not start.
    fn check_storage(&mut self, mut flags: Flags) -> Result<(), String> {
        let Some(checked) = self.storage else { return Ok(()) };
        let hint = storage_flags(&flags);
        // A client replaces a variable by the project's folder.
        let root = flags.root.take().filter(|root| !root.to_string_lossy().contains("${"));
        flags.root = Some(self.project.join(root.unwrap_or_default()));
        if let Some(file) = &mut flags.config {
            let path = self.project.join(&*file);
            if !path.is_file() {
                return Err(format!("--config {} is not a file", file.display()));
            }
            *file = path;
        }
        let config = super::resolve_config(&flags).map_err(|error| error.message)?;
        let storage = config.storage;
        if storage != *checked && self.other_storages.insert(storage.to_string()) {
            let message = format!("it serves {storage}, which was not checked here");
            self.report.note(message, format!("`reqlore doctor{hint}` checks it"));
        }
        Ok(())
    }

    fn check_server(&mut self, how: &str, server: &ServerInfo) {
        let ServerInfo { name, version, .. } = server;
        let message = format!("{how} as {name} {version}");
        if name != NAME {
            self.report.warning(message, "check that this entry is meant to be another server");
        } else if version != VERSION {
            let message = format!("{message}, and this is {VERSION}");
            self.report.warning(message, "update the older one");
        } else {
            self.report.ok(message);
        }
    }

    fn check_url(&mut self, url: &str, token: &TokenSource) {
        // The query may contain a key.
        let shown =
            url.split_once('?').map_or_else(|| url.to_owned(), |(url, _)| format!("{url}?…"));
        if !reqlore_probe::is_loopback(url) && !reqlore_probe::is_encrypted(url) {
            return self.report.problem(
                format!("{shown} is not encrypted; anyone on the way could read the token"),
                "put a proxy with TLS in front of the server, and use its https:// address",
            );
        }
        // Even on this machine: any local user may listen on a port.
        if self.is_of_project() && !self.with_token {
            return self.report.note(
                format!("{shown} was not asked, because the project chose it, not you"),
                "if you know that server, `reqlore doctor --with-token` asks it",
            );
        }
        let token = match token {
            TokenSource::Variable(name) => match self.token_from_environment(name) {
                Ok(token) => Some(token),
                Err([why, next]) => {
                    return self.report.warning(format!("{shown} was not asked: {why}"), next);
                }
            },
            TokenSource::Input => {
                let why = "because the client asks its user for the token";
                return self.report.note(format!("{shown} was not asked, {why}"), "");
            }
            TokenSource::None => None,
        };
        match reqlore_probe::http_server_info(url, token.as_deref(), PROBE_TIMEOUT) {
            Ok(server) => self.check_server(&format!("{shown} answers"), &server),
            Err(error) => self.report.problem(format!("{shown} {}", error.message), error.next),
        }
    }

    /// The token, or why there is none and the next step.
    fn token_from_environment(&self, name: &str) -> Result<String, [String; 2]> {
        if self.is_of_project() && !name.starts_with(TOKEN_VARIABLE_PREFIX) {
            let file = self.location.file.display();
            return Err([
                format!("it wants the variable {name}, which is not one of Reqlore's"),
                format!("check {file}: its author may want another secret of yours"),
            ]);
        }
        match variable(name) {
            Some(value) if PresentedToken::parse(&value).is_some() => Ok(value),
            Some(_) => Err([
                format!("the value of the variable {name} is not a token of Reqlore"),
                format!("set {name} to what `reqlore token create` printed"),
            ]),
            None => Err([
                format!("the variable {name} is not set here"),
                format!("set {name} to the token where the client is started, and here"),
            ]),
        }
    }
}

/// Starts this program with the entry's arguments in an empty folder.
fn start_server(own: &Path, arguments: &[String]) -> Result<ServerInfo, ProbeError> {
    let folder = tempfile::Builder::new().prefix("reqlore-doctor-").tempdir();
    let folder = folder.map_err(|error| ProbeError {
        message: format!("was not started: no temporary folder could be made ({error})"),
        next: "set TMPDIR to a folder that you may write to".to_owned(),
    })?;
    let mut command =
        isolated_server(own, &client_entry::without_replaced_flags(arguments), folder.path());
    command.current_dir(folder.path());
    let mut client = StdioClient::start(command, PROBE_TIMEOUT)?;
    let server = client.initialize()?;
    client.end()?;
    Ok(server)
}

/// The flags that decide where documents are, without values that only the client knows.
fn storage_flags(flags: &Flags) -> String {
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let mut text = String::new();
    for (flag, value) in [
        ("--root", path(&flags.root)),
        ("--storage", flags.storage.clone()),
        ("--config", path(&flags.config)),
    ] {
        if let Some(value) = value.filter(|value| !value.contains("${")) {
            text += &format!(" {flag} {}", shell_word(&value));
        }
    }
    text
}

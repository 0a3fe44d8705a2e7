//! The clients: do they know this server, and does what they know work?

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reqlore_client_config::{Client, Place, Scope, Server, Surroundings, edit};
use reqlore_domain::identity::token;
use reqlore_probe::{Hello, NoAnswer};
use serde_json::Value;

use super::entry::{Entry, Token, all_texts, is_disabled, misread};
use super::finding::{Area, Findings};
use super::programs::Programs;
use super::subject::Subject;
use super::trust::{self, Verdict};
use super::{remote, settings, shown, started};
use crate::commands::others::read;
use crate::settings::Flags;
use crate::storage::Storage;

/// A file is never longer, in bytes. Some clients keep all that they ever did in a person's.
const MOST_OF_PROJECT: u64 = 4 << 20;
const MOST_OF_USER: u64 = 256 << 20;

/// What is known before a client is looked at.
pub(super) struct Known<'a> {
    pub(super) around: &'a Surroundings,
    pub(super) programs: &'a Programs,
    /// The storage that was looked at; `None` where the settings are wrong.
    pub(super) storage: Option<Storage>,
}

pub(super) fn look(known: &Known<'_>, with_token: bool, findings: &mut Findings) {
    let mut clients = Clients {
        known,
        with_token,
        findings,
        answers: BTreeMap::default(),
        told: BTreeSet::default(),
    };
    let mut is_any = false;
    for client in Client::ALL {
        let configured = [Scope::Project, Scope::User].map(|scope| clients.look(client, scope));
        is_any |= configured.contains(&true);
        if !configured.contains(&true) && client.is_present(known.around) {
            is_any = true;
            clients.findings.note(
                Area::Clients,
                format!("{} is here, and does not know this server", client.title()),
                Some(&format!("`reqlore init --client {client}` tells it")),
            );
        }
    }
    if !is_any {
        let next = "`reqlore init --client NAME` writes for one that is not found; `reqlore init \
                    --help` says more";
        findings.note(Area::Clients, "no client was found", Some(next));
    }
}

/// A program with the words before its arguments, or with all of them.
type Started = (PathBuf, Vec<String>);

struct Clients<'a> {
    known: &'a Known<'a>,
    with_token: bool,
    findings: &'a mut Findings,
    /// What was started once is not started again.
    answers: BTreeMap<Started, Result<Hello, NoAnswer>>,
    /// Storages that some client's server keeps documents in, and that were not looked at.
    told: BTreeSet<String>,
}

impl Clients<'_> {
    /// Is there anything to be said of this client's file?
    fn look(&mut self, client: Client, scope: Scope) -> bool {
        let Ok(Place { file, slot, starts_in_project }) = client.place(scope, self.known.around)
        else {
            return false;
        };
        // What lies in the project is the project's, whoever calls it his or links to it.
        let project = &self.known.around.project;
        let is_inside = file.starts_with(project)
            || file.canonicalize().is_ok_and(|file| file.starts_with(project));
        let scope = if is_inside { Scope::Project } else { scope };
        let named = shown(&file);
        let of = Subject { client, scope, file: &named, starts_in_project };
        let most = if is_inside { MOST_OF_PROJECT } else { MOST_OF_USER };
        let text = match read(&file, most) {
            Ok(Some(text)) => text,
            Ok(None) => return false,
            Err(error) => {
                let message = format!("{of}: the file can't be read: {error}");
                let next = "make it a file that you can read, as text";
                self.findings.warning(Area::Clients, message, next);
                return true;
            }
        };
        match edit::find(&text, slot) {
            Ok(Some(value)) => self.entry(&of, &value),
            Ok(None) => return false,
            Err(error) => {
                let message = format!("{of}: the client can't read it: {error}");
                self.findings.problem(Area::Clients, message, "mend the file by hand");
            }
        }
        true
    }

    fn entry(&mut self, of: &Subject<'_>, value: &Value) {
        if all_texts(value).iter().any(|text| text.contains(token::PREFIX)) {
            self.findings.problem(
                Area::Clients,
                format!("{of}: a token stands in the file, for all who may read it"),
                &format!(
                    "make a new one with `reqlore token rotate ID`, put it into a variable, and \
                     run {} with --transport http --url URL",
                    of.init()
                ),
            );
        }
        if is_disabled(value) {
            let next = "the client does not start it until you switch it on there";
            let message = format!("{of}: the entry is switched off");
            return self.findings.note(Area::Clients, message, Some(next));
        }
        let entry = Entry::read(value);
        if !self.is_readable(of, value, &entry) {
            return;
        }
        match entry {
            Entry::Command { program, arguments, variables } => {
                self.command(of, &program, &arguments, &variables);
            }
            Entry::Url { url, token } => {
                remote::look(of, &url, &token, self.with_token, self.findings);
            }
            Entry::Unknown => self.findings.problem(
                Area::Clients,
                format!("{of}: the entry names no command and no address"),
                &format!("{} mends it", of.init()),
            ),
        }
    }

    /// Does the client read it as it was read here? `init` writes what it wants.
    fn is_readable(&mut self, of: &Subject<'_>, value: &Value, entry: &Entry) -> bool {
        let server = match entry {
            // Any argument, so that there is a list of them.
            Entry::Command { program, .. } => {
                Server::Command { program: program.clone(), arguments: vec!["serve".to_owned()] }
            }
            Entry::Url { url, token } => {
                let name = if let Token::Variable(name) = token { name } else { "REQLORE_TOKEN" };
                Server::Url { url: url.clone(), token_variable: name.to_owned() }
            }
            Entry::Unknown => return true,
        };
        // Zed once had one more level.
        let is_older = of.client == Client::Zed && value["command"].is_object();
        let Ok(wanted) = of.client.entry(&server) else { return true };
        if let Some(wrong) = misread(value, &wanted.set).filter(|_| !is_older) {
            let next = format!("{} mends it", of.init());
            self.findings.problem(Area::Clients, format!("{of}: {wrong}"), &next);
            return false;
        }
        // Most take a command without it.
        let has_type = value.get("type").is_some() || !wanted.set.contains_key("type");
        if !has_type && (of.client == Client::OpenCode || matches!(entry, Entry::Url { .. })) {
            let message =
                format!("{of}: the entry has no `type`, without which the client may not take it");
            let next = format!("{} writes it", of.init());
            self.findings.note(Area::Clients, message, Some(&next));
        }
        true
    }

    /// Would a server start with these settings, and is its storage the one that was looked at?
    fn settings(&mut self, of: &Subject<'_>, flags: Flags) -> Result<(), String> {
        let Some(looked_at) = &self.known.storage else { return Ok(()) };
        let words = words(&flags);
        let storage = settings::storage_of(flags, &self.known.around.project)?;
        // Clients mostly agree; once is enough.
        if storage != *looked_at && self.told.insert(storage.to_string()) {
            let message = format!("{of}: it serves {storage}, which was not looked at here");
            let next = format!("`reqlore doctor{words}` looks at it");
            self.findings.note(Area::Clients, message, Some(&next));
        }
        Ok(())
    }

    /// Do its arguments serve what the person wants? Where a server would not start with them, no.
    fn serves(
        &mut self,
        of: &Subject<'_>,
        arguments: &[String],
        variables: &[(String, String)],
    ) -> bool {
        let flags = trust::settings_of(arguments, variables);
        if let Err(wrong) = flags.and_then(|flags| self.settings(of, flags)) {
            let message = format!("{of}: its arguments are wrong: {wrong}");
            let next = format!("{} mends it", of.init());
            self.findings.problem(Area::Clients, message, &next);
            return false;
        }
        if !of.starts_in_project && !trust::names_root(arguments, variables) {
            let message = format!("{of}: it does not say which project it serves");
            let next = format!(
                "{} starts servers in no folder in particular; {} names the project",
                of.client.title(),
                of.init()
            );
            self.findings.warning(Area::Clients, message, &next);
        }
        true
    }

    fn command(
        &mut self,
        of: &Subject<'_>,
        program: &str,
        arguments: &[String],
        variables: &[(String, String)],
    ) {
        let programs = self.known.programs;
        let foreign = trust::foreign(variables);
        if of.scope == Scope::Project && !foreign.is_empty() {
            let message = format!("{of}: it sets {} for what it starts", foreign.join(", "));
            let next = "they were left out here, but a client sets them, and some variables make a \
                        program start others; look whether you want that";
            self.findings.warning(Area::Clients, message, next);
        }
        let (key, answer) = match trust::judge(program, arguments, of.scope, programs) {
            Verdict::Ours { program, before, arguments } => {
                if !self.serves(of, &arguments, variables) {
                    return;
                }
                let key = (program, before);
                let known = self.answers.get(&key).cloned();
                let answer = known.unwrap_or_else(|| started::ours(programs, &key.0, &key.1));
                (key, answer)
            }
            Verdict::Theirs { .. } if is_open(arguments, variables) => {
                let message = format!(
                    "{of}: `{program}` was not started, since only the client knows what ${{…}} is"
                );
                return self.findings.note(Area::Clients, message, None);
            }
            Verdict::Theirs { program } => {
                let answer = started::theirs(programs, &program, arguments, variables);
                ((program, arguments.to_vec()), answer)
            }
            Verdict::Absent => {
                let message = format!("{of}: there is no program {program:?}");
                let next = format!("install it, or run {}", of.init());
                return self.findings.problem(Area::Clients, message, &next);
            }
            Verdict::Refused(why) => {
                let message = format!("{of}: {program:?} was not started: {why}");
                let next = format!(
                    "look at the file before you let a client start that; {} makes it start \
                     Reqlore",
                    of.init()
                );
                return self.findings.warning(Area::Clients, message, &next);
            }
        };
        match &answer {
            Ok(hello) => of.judge(&format!("`{program}` starts and answers"), hello, self.findings),
            Err(error) => {
                let message = format!("{of}: `{program}` {}", error.message);
                self.findings.problem(Area::Clients, message, &error.next);
            }
        }
        self.answers.insert(key, answer);
    }
}

/// Does it leave something to the client?
fn is_open(arguments: &[String], variables: &[(String, String)]) -> bool {
    let mut texts = arguments.iter().chain(variables.iter().map(|(_, value)| value));
    texts.any(|text| text.contains("${"))
}

/// The flags that say where documents are kept, as a shell reads them. What only the client knows
/// is the project, where they are used.
fn words(flags: &Flags) -> String {
    let path = |path: &Option<PathBuf>| path.as_deref().map(shown);
    let all = [
        ("--root", path(&flags.root)),
        ("--storage", flags.storage.clone()),
        ("--config", path(&flags.config)),
    ];
    let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "-_./:@".contains(c));
    let word = |(flag, value): (&str, Option<String>)| match value? {
        plain if is_plain(&plain) => Some(format!(" {flag} {plain}")),
        other => Some(format!(" {flag} '{}'", other.replace('\'', r"'\''"))),
    };
    let is_known = |(_, value): &(&str, Option<String>)| {
        value.as_ref().is_some_and(|value| !value.contains("${"))
    };
    all.into_iter().filter(is_known).filter_map(word).collect()
}

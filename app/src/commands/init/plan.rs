//! What init would change, file by file. Nothing is written here.
//!
//! Trap: two clients may look into one file, so a file's text goes through all of them before it is
//! compared with what stands there.

use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, block};
use reqlore_client_config::{Client, Place, Scope, Surroundings};
use serde_json::Value;

use super::record::What;
use super::server::{self, Wanted};
use super::{Options, agents, files, words};
use crate::config::toolsets;
use crate::exit::CommandError;
use crate::settings::Flags;

/// All that shall be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// The clients that can't be told of this server, and why.
    pub(super) unplaced: Vec<(Client, String)>,
    pub(super) warnings: Vec<String>,
}

/// One file, and what becomes of it.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) what: What,
    /// Whose file it is, in words.
    pub(super) title: String,
    pub(super) clients: Vec<Client>,
    pub(super) scope: Scope,
    /// As its readers name it.
    pub(super) path: PathBuf,
    /// Where links lead.
    pub(super) target: PathBuf,
    /// `None` where there is no file.
    pub(super) before: Option<String>,
    /// Does anything of Reqlore stand there?
    pub(super) is_known: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone)]
pub(super) enum Outcome {
    /// It is as it shall be.
    Same,
    /// The whole new text; `None` removes the file.
    Write { after: Option<String>, note: Option<String> },
    /// Why it can't be done, and what to do.
    Refused(String),
}

impl Change {
    /// A file as it is, for what shall be done with it.
    pub(super) fn see(what: What, title: &str, scope: Scope, path: &Path, within: &Path) -> Self {
        let mut change = Self {
            what,
            title: title.to_owned(),
            clients: Vec::new(),
            scope,
            path: path.to_owned(),
            target: path.to_owned(),
            before: None,
            is_known: false,
            outcome: Outcome::Same,
        };
        match files::see(path, (scope == Scope::Project).then_some(within)) {
            Ok(seen) => (change.target, change.before) = (seen.target, seen.text),
            Err(reason) => change.outcome = Outcome::Refused(reason),
        }
        change
    }

    /// The text as it would be so far.
    pub(super) fn text(&self) -> &str {
        match &self.outcome {
            Outcome::Write { after: Some(after), .. } => after,
            _ => self.before.as_deref().unwrap_or_default(),
        }
    }

    /// The text that it shall have, or why it can't.
    pub(super) fn become_text(&mut self, text: Result<String, String>) {
        self.outcome = match text {
            Err(reason) => Outcome::Refused(reason),
            Ok(text) if self.before.as_ref() == Some(&text) => Outcome::Same,
            Ok(text) => match files::check_writable(&self.target) {
                Err(reason) => Outcome::Refused(reason),
                Ok(()) => Outcome::Write { after: Some(text), note: None },
            },
        };
    }

    /// The file goes, whatever stands in it.
    pub(super) fn remove_file(&mut self) {
        let note = match &self.outcome {
            Outcome::Write { note, .. } => note.clone(),
            _ => None,
        };
        self.outcome = match files::check_writable(&self.target) {
            Ok(()) => Outcome::Write { after: None, note },
            Err(reason) => Outcome::Refused(reason),
        };
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.outcome, Outcome::Write { .. })
    }
}

/// What makes the clients know this server.
pub(super) fn plan(
    wanted: &Wanted,
    flags: &Flags,
    options: &Options,
    clients: &[Client],
    around: &Surroundings,
) -> Result<Plan, CommandError> {
    let mut plan = Plan::default();
    for client in clients {
        if let Err(reason) = plan.add(*client, options.scope(), wanted, around) {
            plan.unplaced.push((*client, reason));
        }
    }
    let is_for_project = |change: &Change| change.scope == Scope::Project && !change.is_refused();
    if !options.no_agents_md && plan.changes.iter().any(is_for_project) {
        let served = flags.toolsets.as_deref().map(toolsets).transpose()?;
        plan.changes.push(agents_md(&agents::block(&served.unwrap_or_default()), around));
    }
    for folder in &options.create {
        for (path, text) in folder.files(&around.project) {
            let what = What::Beginning;
            let mut change =
                Change::see(what, folder.title(), Scope::Project, &path, &around.project);
            change.is_known = change.before.is_some();
            if change.before.is_none() && !change.is_refused() {
                change.become_text(Ok(text.to_owned()));
            }
            plan.changes.push(change);
        }
    }
    Ok(plan)
}

fn agents_md(content: &str, around: &Surroundings) -> Change {
    let path = around.project.join(agents::FILE);
    let mut change =
        Change::see(What::Block, agents::TITLE, Scope::Project, &path, &around.project);
    if !change.is_refused() {
        let text = change.text().to_owned();
        change.is_known = block::find(&text).is_ok_and(|found| found.is_some());
        change.become_text(block::put(&text, content).map_err(|error| error.to_string()));
    }
    change
}

impl Plan {
    fn add(
        &mut self,
        client: Client,
        scope: Option<Scope>,
        wanted: &Wanted,
        around: &Surroundings,
    ) -> Result<(), String> {
        let (scope, place) = place(client, scope, around)?;
        let known = files::see(&place.file, None).ok().and_then(|seen| seen.text);
        let known = known.and_then(|text| edit::find(&text, place.slot).ok()).flatten();
        let (server, warning) = wanted.of(client, scope, &place, known.as_ref(), around);
        let entry = client.entry(&server).map_err(|reason| reason.to_string())?;
        let change = self.change(client, scope, &place, around);
        if change.is_refused() {
            return Ok(());
        }
        let is_first = change.before.is_none() && !change.is_write();
        let text = if is_first { client.new_file() } else { change.text() }.to_owned();
        change.is_known |= known.is_some();
        change.become_text(edit::put(&text, place.slot, &entry).map_err(|e| e.to_string()));
        if change.is_write() {
            self.warnings.extend(warning);
            let lost = known.map(|known| server::lost(&known, &Value::Object(entry.set)));
            let lost = lost.filter(|lost| !lost.is_empty()).map(|lost| {
                let (path, lost) = (words::shown(&place.file, around), words::plain(&lost));
                format!("`{lost}` goes from the entry in {path}; give it with init to keep it")
            });
            self.warnings.extend(lost);
        }
        Ok(())
    }

    /// The change of a file, with this client among its readers.
    pub(super) fn change(
        &mut self,
        client: Client,
        scope: Scope,
        place: &Place,
        around: &Surroundings,
    ) -> &mut Change {
        let title = client.title();
        let mut new = Change::see(What::Entry, title, scope, &place.file, &around.project);
        let known = self.changes.iter().position(|change| change.target == new.target);
        let at = known.unwrap_or_else(|| {
            self.changes.push(new.clone());
            self.changes.len() - 1
        });
        let change = &mut self.changes[at];
        if known.is_some() {
            new.title = format!("{}, {title}", change.title);
            change.title = new.title;
        }
        change.clients.push(client);
        change
    }
}

/// The file of a client. Nobody said whose: the project's, else the person's.
pub(super) fn place(
    client: Client,
    scope: Option<Scope>,
    around: &Surroundings,
) -> Result<(Scope, Place), String> {
    let at = |scope| client.place(scope, around).map(|place| (scope, place));
    let found = match scope {
        Some(scope) => at(scope),
        None => at(Scope::Project).or_else(|_| at(Scope::User)),
    };
    found.map_err(|reason| reason.to_string())
}

//! What init would change, file by file, without writing.
//!
//! Two clients may use one file, so a file's text passes through all of them.

use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, block};
use reqlore_client_config::{Client, Place, Scope, Surroundings};

use super::report::{printable, short_path};
use super::scaffold::{AGENTS_MD, AGENTS_MD_TITLE, agents_md_block};
use super::server_entry::{self, ServerEntry};
use super::undo_log::ChangeKind;
use super::{Options, target_file};
use crate::client_environment::repository_around;
use crate::commands::untrusted_text::agents_md_ignored_by_claude;
use crate::config::toolsets;
use crate::exit::CommandError;
use crate::settings::Flags;

#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) changes: Vec<Change>,
    /// Clients that can't be configured, and why.
    pub(super) unsupported: Vec<(Client, String)>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Change {
    pub(super) what: ChangeKind,
    /// The readers of the file, for the user.
    pub(super) title: String,
    pub(super) clients: Vec<Client>,
    pub(super) scope: Scope,
    /// As its readers name it.
    pub(super) path: PathBuf,
    /// Behind all links.
    pub(super) target: PathBuf,
    /// `None` if there is no file.
    pub(super) before: Option<String>,
    /// Whether the file mentions Reqlore already.
    pub(super) is_known: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone)]
pub(super) enum Outcome {
    Unchanged,
    /// The whole new text; `None` removes the file.
    Write {
        after: Option<String>,
        note: Option<String>,
    },
    /// The reason and the next step.
    Refused(String),
}

impl Change {
    /// A change of a file that leaves it as it is so far. `project` limits links.
    pub(super) fn open(
        what: ChangeKind,
        title: &str,
        scope: Scope,
        path: &Path,
        project: &Path,
    ) -> Self {
        let file = target_file::open(path, (scope == Scope::Project).then_some(project));
        let (target, before, outcome) = match file {
            Ok(file) => (file.path, file.text, Outcome::Unchanged),
            Err(reason) => (path.to_owned(), None, Outcome::Refused(reason)),
        };
        Self {
            what,
            title: title.to_owned(),
            clients: Vec::new(),
            scope,
            path: path.to_owned(),
            target,
            before,
            is_known: false,
            outcome,
        }
    }

    /// The text after the changes so far.
    pub(super) fn text(&self) -> &str {
        match &self.outcome {
            Outcome::Write { after: Some(after), .. } => after,
            _ => self.before.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn set_text(&mut self, text: Result<String, String>) {
        self.outcome = match text {
            Ok(text) if self.before.as_ref() == Some(&text) => Outcome::Unchanged,
            Ok(text) => self.write(Some(text), None),
            Err(reason) => Outcome::Refused(reason),
        };
    }

    pub(super) fn remove_file(&mut self) {
        let note = match &mut self.outcome {
            Outcome::Write { note, .. } => note.take(),
            _ => None,
        };
        self.outcome = self.write(None, note);
    }

    fn write(&self, after: Option<String>, note: Option<String>) -> Outcome {
        match target_file::check_writable(&self.target) {
            Ok(()) => Outcome::Write { after, note },
            Err(reason) => Outcome::Refused(reason),
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.outcome, Outcome::Refused(_))
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.outcome, Outcome::Write { .. })
    }
}

impl Plan {
    /// The changes that configure the clients.
    pub(super) fn configure(
        server: &ServerEntry,
        flags: &Flags,
        options: &Options,
        clients: &[Client],
        around: &Surroundings,
    ) -> Result<Self, CommandError> {
        let mut plan = Self::default();
        for client in clients {
            if let Err(reason) = plan.add_entry(*client, options.scope(), server, around) {
                plan.unsupported.push((*client, reason));
            }
        }
        let is_shared = |change: &Change| change.scope == Scope::Project && !change.is_refused();
        if !options.no_agents_md && plan.changes.iter().any(is_shared) {
            let listed = flags.toolsets.as_deref().map(toolsets).transpose()?;
            plan.add_agents_md(&agents_md_block(&listed.unwrap_or_default()), around);
        }
        for scaffold in &options.create {
            for (path, text) in scaffold.files(&around.project) {
                let (what, title) = (ChangeKind::Beginning, scaffold.title());
                let mut change = Change::open(what, title, Scope::Project, &path, &around.project);
                change.is_known = change.before.is_some();
                if !change.is_known && !change.is_refused() {
                    change.set_text(Ok(text.to_owned()));
                }
                plan.changes.push(change);
            }
        }
        plan.add_warnings(around);
        Ok(plan)
    }

    fn add_entry(
        &mut self,
        client: Client,
        scope: Option<Scope>,
        server: &ServerEntry,
        around: &Surroundings,
    ) -> Result<(), String> {
        let (scope, place) = place(client, scope, around)?;
        let known = target_file::open(&place.file, None).ok().and_then(|file| file.text);
        let known = known.and_then(|text| edit::find(&text, place.slot).ok()).flatten();
        let (server, warning) = server.for_client(client, scope, &place, known.as_ref(), around);
        let entry = client.entry(&server).map_err(|reason| reason.to_string())?;
        let change = self.change_of(client, scope, &place, around);
        if change.is_refused() {
            return Ok(());
        }
        let is_first = change.before.is_none() && !change.is_write();
        let text = if is_first { client.new_file() } else { change.text() }.to_owned();
        change.is_known |= known.is_some();
        change.set_text(edit::put(&text, place.slot, &entry).map_err(|error| error.to_string()));
        if change.is_write() {
            self.warnings.extend(warning);
            let lost = known.map(|known| server_entry::lost_words(&known, &entry.set.into()));
            let lost = lost.filter(|lost| !lost.is_empty());
            self.warnings.extend(lost.map(|lost| {
                let (path, lost) = (short_path(&place.file, around), printable(&lost));
                format!("`{lost}` goes from the entry in {path}; give it with init to keep it")
            }));
        }
        Ok(())
    }

    /// The change of a client's file, possibly one of an earlier client.
    pub(super) fn change_of(
        &mut self,
        client: Client,
        scope: Scope,
        place: &Place,
        around: &Surroundings,
    ) -> &mut Change {
        let (what, title) = (ChangeKind::Entry, client.title());
        let new = Change::open(what, title, scope, &place.file, &around.project);
        let known = self.changes.iter().position(|change| change.target == new.target);
        let index = known.unwrap_or(self.changes.len());
        if known.is_some() {
            self.changes[index].title += &format!(", {title}");
        } else {
            self.changes.push(new);
        }
        let change = &mut self.changes[index];
        change.clients.push(client);
        change
    }

    fn add_agents_md(&mut self, content: &str, around: &Surroundings) {
        let path = around.project.join(AGENTS_MD);
        let (what, project) = (ChangeKind::Block, &around.project);
        let mut change = Change::open(what, AGENTS_MD_TITLE, Scope::Project, &path, project);
        if !change.is_refused() {
            let text = change.text().to_owned();
            change.is_known = block::find(&text).is_ok_and(|found| found.is_some());
            change.set_text(block::put(&text, content).map_err(|error| error.to_string()));
        }
        self.changes.push(change);
    }

    /// Why assistants may not read the project's files. The causes are the user's own files.
    fn add_warnings(&mut self, around: &Surroundings) {
        let is_written = |change: &&Change| change.scope == Scope::Project && change.is_write();
        let written: Vec<&Change> = self.changes.iter().filter(is_written).collect();
        if written.is_empty() {
            return;
        }
        if written.iter().any(|change| change.clients.contains(&Client::ClaudeCode))
            && let Some(why) = agents_md_ignored_by_claude(&around.project)
        {
            self.warnings.push(why.join("; "));
        }
        if let Some(top) = repository_around(&around.project).filter(|top| *top != around.project) {
            self.warnings.push(format!(
                "the Git repository begins further up, at {}; if assistants are opened there, use \
                 --root with it",
                top.display()
            ));
        }
    }
}

/// The file of a client; by default the project's, else the user's.
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

//! The changes of init, file by file, before they are written.
//!
//! Two clients may use one file, so a file's text passes through all of them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reqlore_client_config::edit::{self, block};
use reqlore_client_config::{Client, ConfigError, Place, Scope, Surroundings};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::sections::instructions;

use super::Options;
use super::report::{printable, short_path};
use super::server_entry::{self, ServerEntry};
use super::undo_log::{self, ChangeKind};
use crate::client_environment::repository_around;
use crate::commands::untrusted_text::{AGENTS_MD, agents_md_ignored_by_claude};
use crate::config::toolsets;
use crate::exit::CommandError;
use crate::settings::Flags;

#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) around: &'a Surroundings,
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
    /// As the user would write it.
    pub(super) short_path: String,
    /// Behind all links.
    pub(super) target: PathBuf,
    /// `None` if there is no file.
    pub(super) before: Option<String>,
    /// True if the file mentions Reqlore already.
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
    /// A change of a file that leaves it as it is so far. Links of a project's file may not lead
    /// out of the project.
    pub(super) fn open(
        what: ChangeKind,
        title: &str,
        scope: Scope,
        path: &Path,
        around: &Surroundings,
    ) -> Self {
        let within = (scope == Scope::Project).then_some(&*around.project);
        let (target, before, outcome) = match undo_log::open(path, within) {
            Ok((target, text)) => (target, text, Outcome::Unchanged),
            Err(reason) => (path.to_owned(), None, Outcome::Refused(reason)),
        };
        Self {
            what,
            title: title.to_owned(),
            clients: Vec::new(),
            scope,
            path: path.to_owned(),
            short_path: short_path(path, around),
            target,
            before,
            is_known: false,
            outcome,
        }
    }

    /// The project's AGENTS.md.
    pub(super) fn agents_md(around: &Surroundings) -> Self {
        let path = around.project.join(AGENTS_MD);
        Self::open(ChangeKind::Block, AGENTS_MD_TITLE, Scope::Project, &path, around)
    }

    /// The text after the changes so far.
    pub(super) fn text(&self) -> &str {
        match &self.outcome {
            Outcome::Write { after: Some(after), .. } => after,
            _ => self.before.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn set_text(&mut self, text: Result<String, ConfigError>) {
        self.outcome = match text {
            Ok(text) if self.before.as_ref() == Some(&text) => Outcome::Unchanged,
            Ok(text) => self.write(Some(text), None),
            Err(reason) => Outcome::Refused(reason.into()),
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
        match undo_log::check_writable(&self.target) {
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

impl<'a> Plan<'a> {
    pub(super) fn new(around: &'a Surroundings) -> Self {
        Self { around, changes: Vec::new(), unsupported: Vec::new(), warnings: Vec::new() }
    }

    /// The changes that configure the clients.
    pub(super) fn configure(
        server: &ServerEntry,
        flags: &Flags,
        options: &Options,
        clients: &[Client],
        around: &'a Surroundings,
    ) -> Result<Self, CommandError> {
        let mut plan = Self::new(around);
        for client in clients {
            if let Err(reason) = plan.add_entry(*client, options.scope, server) {
                plan.unsupported.push((*client, reason.into()));
            }
        }
        let is_shared = |change: &Change| change.scope == Scope::Project && !change.is_refused();
        if !options.no_agents_md && plan.changes.iter().any(is_shared) {
            let listed = flags.toolsets.as_deref().map(toolsets).transpose()?;
            plan.add_agents_md(&agents_md_block(&listed.unwrap_or_default()));
        }
        for scaffold in &options.create {
            for (path, text) in scaffold.files(&around.project) {
                let (what, title) = (ChangeKind::Beginning, scaffold.title());
                let mut change = Change::open(what, title, Scope::Project, &path, around);
                change.is_known = change.before.is_some();
                if !change.is_known && !change.is_refused() {
                    change.set_text(Ok(text.to_owned()));
                }
                plan.changes.push(change);
            }
        }
        plan.add_warnings();
        Ok(plan)
    }

    fn add_entry(
        &mut self,
        client: Client,
        scope: Option<Scope>,
        server: &ServerEntry,
    ) -> Result<(), ConfigError> {
        let place = place(client, scope, self.around)?;
        let known = undo_log::find_entry(&place);
        let (server, warning) = server.for_client(client, &place, known.as_ref(), self.around);
        let entry = client.entry(&server)?;
        let change = self.change_of(client, &place);
        if change.is_refused() {
            return Ok(());
        }
        let is_first = change.before.is_none() && !change.is_write();
        let text = if is_first { client.new_file() } else { change.text() }.to_owned();
        change.is_known |= known.is_some();
        change.set_text(edit::put(&text, place.slot, &entry));
        if change.is_write() {
            let path = change.short_path.clone();
            self.warnings.extend(warning);
            let lost = known.map(|known| server_entry::lost_words(&known, &entry.set.into()));
            if let Some(lost) = lost.filter(|lost| !lost.is_empty()) {
                let lost = printable(&lost);
                self.warnings.push(format!(
                    "`{lost}` goes from the entry in {path}; give it with init to keep it"
                ));
            }
        }
        Ok(())
    }

    /// The change of a client's file, possibly one of an earlier client.
    pub(super) fn change_of(&mut self, client: Client, place: &Place) -> &mut Change {
        let title = client.title();
        let new = Change::open(ChangeKind::Entry, title, place.scope, &place.file, self.around);
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

    fn add_agents_md(&mut self, content: &str) {
        let mut change = Change::agents_md(self.around);
        if !change.is_refused() {
            let text = change.text().to_owned();
            change.is_known = block::find(&text).is_ok_and(|found| found.is_some());
            change.set_text(block::put(&text, content));
        }
        self.changes.push(change);
    }

    /// Warns if assistants may not read the project's files, which the user's own files cause.
    fn add_warnings(&mut self) {
        let project = &self.around.project;
        let is_written = |change: &&Change| change.scope == Scope::Project && change.is_write();
        let written: Vec<&Change> = self.changes.iter().filter(is_written).collect();
        if written.is_empty() {
            return;
        }
        if written.iter().any(|change| change.clients.contains(&Client::ClaudeCode))
            && let Some(why) = agents_md_ignored_by_claude(project)
        {
            self.warnings.push(why.join("; "));
        }
        if let Some(top) = repository_around(project).filter(|top| top != project) {
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
) -> Result<Place, ConfigError> {
    match scope {
        Some(scope) => client.place(scope, around),
        None => client.place(Scope::Project, around).or_else(|_| client.place(Scope::User, around)),
    }
}

pub(super) const AGENTS_MD_TITLE: &str = "all assistants";

const KNOWLEDGE_OF: [(Toolset, &str); 4] = [
    (Toolset::Sections, "- requirements, by section: `reqlix_*`\n"),
    (Toolset::Backlog, "- epics, user stories, acceptance criteria: `search_global`, `get_item`\n"),
    (Toolset::Knowledge, "- decisions, issues, ideas and their links: `ixchel_*`\n"),
    (Toolset::Docsets, "- documentation of libraries: `search_docs`\n"),
];

/// The block in AGENTS.md. An empty list means all toolsets.
///
/// Every session pays for it, so it repeats nothing of the server's own instructions.
fn agents_md_block(toolsets: &[Toolset]) -> String {
    let is_served = |toolset: &Toolset| toolsets.is_empty() || toolsets.contains(toolset);
    let lines = KNOWLEDGE_OF.iter().filter(|(toolset, _)| is_served(toolset));
    format!(
        "## Reqlore\n\n\
         The MCP server `reqlore` holds the requirements and knowledge of this project:\n\n\
         {}\n\
         Query it before you plan, write or review, and update it when behaviour changes. If\n\
         these tools are missing, say so instead of guessing; `reqlore doctor` finds the reason.\n",
        lines.map(|(_, line)| *line).collect::<String>()
    )
}

/// A value of `--create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scaffold {
    Requirements,
    Knowledge,
    Ixchel,
}

/// Folders for requirements; the first that exists is used.
const REQUIREMENTS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];
const IXCHEL: [&str; 3] = ["decisions", "ideas", "issues"];

const DOCSETS: &str = "\
# Where the documentation of the libraries that this project uses lies, for search_docs.
docsets:
  # An example; its files are looked for in .knowledge/docs/react-18.2/.
  react:
    version: \"18.2\"
    aliases: [reactjs]
    # Another folder of the project:
    # local_path: vendor/react/docs
";

impl Scaffold {
    fn title(self) -> &'static str {
        match self {
            Self::Requirements => "requirements",
            Self::Knowledge => "documentation of libraries",
            Self::Ixchel => "knowledge graph",
        }
    }

    /// Paths and texts. Git does not track empty folders, so they get a `.gitkeep`.
    fn files(self, project: &Path) -> Vec<(PathBuf, &'static str)> {
        match self {
            Self::Requirements => {
                let folders = REQUIREMENTS.map(|folder| project.join(folder));
                let existing = folders.iter().find(|folder| folder.is_dir());
                let folder = existing.unwrap_or(&folders[0]);
                vec![(folder.join(AGENTS_MD), instructions::PLACEHOLDER)]
            }
            Self::Knowledge => vec![(project.join(".knowledge/config.yaml"), DOCSETS)],
            Self::Ixchel => {
                let file = |name| project.join(".ixchel").join(name).join(".gitkeep");
                IXCHEL.iter().map(|name| (file(name), "")).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::docsets::DocsetConfig;

    use super::*;

    #[test]
    fn docsets_is_a_valid_configuration() {
        let read = DocsetConfig::read(DOCSETS, "/project").unwrap();
        assert_eq!(read.hints, []);
        let place = read.docsets[0].local_path.trim_start_matches("/project/");
        assert!(DOCSETS.contains(&format!("looked for in {place}.")), "{place}");
        let elsewhere = DOCSETS.replace("# local_path", "local_path");
        assert_eq!(DocsetConfig::read(&elsewhere, "/project").unwrap().hints, []);
    }
}

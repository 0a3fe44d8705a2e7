//! The changes of init, file by file, before they are written.
//!
//! Two clients may use one file, so a file's text passes through all of them.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reqlore_client_config::edit::{self, block};
use reqlore_client_config::{Client, ClientEnvironment, ConfigError, ConfigLocation, ConfigScope};
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
pub(super) struct ChangePlan<'a> {
    pub(super) environment: &'a ClientEnvironment,
    pub(super) changes: Vec<FileChange>,
    /// Clients that can't be configured, and why.
    pub(super) unsupported: Vec<(Client, String)>,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) struct FileChange {
    pub(super) kind: ChangeKind,
    /// The readers of the file, for the user.
    pub(super) title: String,
    pub(super) clients: Vec<Client>,
    pub(super) scope: ConfigScope,
    /// As its readers name it.
    pub(super) path: PathBuf,
    /// As the user would write it.
    pub(super) short_path: String,
    /// Behind all links.
    pub(super) target: PathBuf,
    /// `None` if there is no file.
    pub(super) old_text: Option<String>,
    /// True if the file mentions Reqlore already.
    pub(super) mentions_reqlore: bool,
    pub(super) outcome: ChangeOutcome,
}

#[derive(Debug, Clone)]
pub(super) enum ChangeOutcome {
    Unchanged,
    /// The whole new text; `None` removes the file.
    Write {
        after: Option<String>,
        note: Option<String>,
    },
    /// The reason and the next step.
    Refused(String),
}

impl FileChange {
    /// A change of a file that leaves it as it is so far. Links of a project's file may not lead
    /// out of the project.
    pub(super) fn for_file(
        kind: ChangeKind,
        title: &str,
        scope: ConfigScope,
        path: &Path,
        environment: &ClientEnvironment,
    ) -> Self {
        let within = (scope == ConfigScope::Project).then_some(&*environment.project);
        let (target, old_text, outcome) = match undo_log::resolve_and_read(path, within) {
            Ok((target, text)) => (target, text, ChangeOutcome::Unchanged),
            Err(reason) => (path.to_owned(), None, ChangeOutcome::Refused(reason)),
        };
        Self {
            kind,
            title: title.to_owned(),
            clients: Vec::new(),
            scope,
            path: path.to_owned(),
            short_path: short_path(path, environment),
            target,
            old_text,
            mentions_reqlore: false,
            outcome,
        }
    }

    /// The project's AGENTS.md.
    pub(super) fn agents_md(environment: &ClientEnvironment) -> Self {
        let path = environment.project.join(AGENTS_MD);
        Self::for_file(ChangeKind::Block, AGENTS_MD_TITLE, ConfigScope::Project, &path, environment)
    }

    /// The text after the changes so far.
    pub(super) fn current_text(&self) -> &str {
        match &self.outcome {
            ChangeOutcome::Write { after: Some(after), .. } => after,
            _ => self.old_text.as_deref().unwrap_or_default(),
        }
    }

    pub(super) fn set_text(&mut self, text: Result<String, ConfigError>) {
        self.outcome = match text {
            Ok(text) if self.old_text.as_ref() == Some(&text) => ChangeOutcome::Unchanged,
            Ok(text) => self.write_outcome(Some(text), None),
            Err(reason) => ChangeOutcome::Refused(reason.into()),
        };
    }

    pub(super) fn remove_file(&mut self) {
        let note = match &mut self.outcome {
            ChangeOutcome::Write { note, .. } => note.take(),
            _ => None,
        };
        self.outcome = self.write_outcome(None, note);
    }

    fn write_outcome(&self, after: Option<String>, note: Option<String>) -> ChangeOutcome {
        match undo_log::check_writable(&self.target) {
            Ok(()) => ChangeOutcome::Write { after, note },
            Err(reason) => ChangeOutcome::Refused(reason),
        }
    }

    pub(super) fn is_refused(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Refused(_))
    }

    pub(super) fn is_write(&self) -> bool {
        matches!(self.outcome, ChangeOutcome::Write { .. })
    }
}

impl<'a> ChangePlan<'a> {
    pub(super) fn new(environment: &'a ClientEnvironment) -> Self {
        Self { environment, changes: Vec::new(), unsupported: Vec::new(), warnings: Vec::new() }
    }

    /// The changes that configure the clients.
    pub(super) fn configure(
        server: &ServerEntry,
        flags: &Flags,
        options: &Options,
        clients: &[Client],
        environment: &'a ClientEnvironment,
    ) -> Result<Self, CommandError> {
        let mut plan = Self::new(environment);
        for client in clients {
            if let Err(reason) = plan.add_entry(*client, options.scope, server) {
                plan.unsupported.push((*client, reason.into()));
            }
        }
        let is_shared =
            |change: &FileChange| change.scope == ConfigScope::Project && !change.is_refused();
        if !options.no_agents_md && plan.changes.iter().any(is_shared) {
            let listed = flags.toolsets.as_deref().map(toolsets).transpose()?;
            plan.add_agents_md(&agents_md_block(&listed.unwrap_or_default()));
        }
        for scaffold in &options.create {
            for (path, text) in scaffold.files(&environment.project) {
                let (what, title) = (ChangeKind::Scaffold, scaffold.title());
                let mut change =
                    FileChange::for_file(what, title, ConfigScope::Project, &path, environment);
                change.mentions_reqlore = change.old_text.is_some();
                if !change.mentions_reqlore && !change.is_refused() {
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
        scope: Option<ConfigScope>,
        server: &ServerEntry,
    ) -> Result<(), ConfigError> {
        let location = choose_location(client, scope, self.environment)?;
        let known = undo_log::find_entry(&location);
        let (server, warning) =
            server.for_client(client, &location, known.as_ref(), self.environment);
        let entry = client.entry(&server)?;
        let change = self.add_change(client, &location);
        if change.is_refused() {
            return Ok(());
        }
        let is_first = change.old_text.is_none() && !change.is_write();
        let text = if is_first { client.new_file() } else { change.current_text() }.to_owned();
        change.mentions_reqlore |= known.is_some();
        change.set_text(edit::put_entry(&text, location.slot, &entry));
        if change.is_write() {
            let path = change.short_path.clone();
            self.warnings.extend(warning);
            let lost = known.map(|known| server_entry::lost_arguments(&known, &entry.set.into()));
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
    pub(super) fn add_change(
        &mut self,
        client: Client,
        location: &ConfigLocation,
    ) -> &mut FileChange {
        let title = client.title();
        let new = FileChange::for_file(
            ChangeKind::Entry,
            title,
            location.scope,
            &location.file,
            self.environment,
        );
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
        let mut change = FileChange::agents_md(self.environment);
        if !change.is_refused() {
            let text = change.current_text().to_owned();
            change.mentions_reqlore = block::find_block(&text).is_ok_and(|found| found.is_some());
            change.set_text(block::put_block(&text, content));
        }
        self.changes.push(change);
    }

    /// Warns if assistants may not read the project's files, which the user's own files cause.
    fn add_warnings(&mut self) {
        let project = &self.environment.project;
        let is_written =
            |change: &&FileChange| change.scope == ConfigScope::Project && change.is_write();
        let written: Vec<&FileChange> = self.changes.iter().filter(is_written).collect();
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
pub(super) fn choose_location(
    client: Client,
    scope: Option<ConfigScope>,
    environment: &ClientEnvironment,
) -> Result<ConfigLocation, ConfigError> {
    match scope {
        Some(scope) => client.config_location(scope, environment),
        None => client
            .config_location(ConfigScope::Project, environment)
            .or_else(|_| client.config_location(ConfigScope::User, environment)),
    }
}

pub(super) const AGENTS_MD_TITLE: &str = "all assistants";

const TOOLSET_LINES: [(Toolset, &str); 4] = [
    (Toolset::Sections, "- requirements, by section: `reqlix_*`\n"),
    (Toolset::Backlog, "- epics, user stories, acceptance criteria: `search_global`, `get_item`\n"),
    (Toolset::Knowledge, "- decisions, issues, ideas and their links: `ixchel_*`\n"),
    (Toolset::Docsets, "- where libraries are documented: `search_docs`\n"),
];

/// The block in AGENTS.md. An empty list means all toolsets.
///
/// Every session pays for it, so it repeats nothing of the server's own instructions.
fn agents_md_block(toolsets: &[Toolset]) -> String {
    let is_served = |toolset: &Toolset| toolsets.is_empty() || toolsets.contains(toolset);
    let lines = TOOLSET_LINES.iter().filter(|(toolset, _)| is_served(toolset));
    format!(
        "## Reqlore\n\n\
         The MCP server `reqlore` holds what this project requires and knows:\n\n\
         {}\n\
         Ask it before you plan, write or review, and leave it true when behaviour changes. If\n\
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
const REQUIREMENT_FOLDERS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];
const IXCHEL_FOLDERS: [&str; 3] = ["decisions", "ideas", "issues"];

const DOCSETS_TEMPLATE: &str = "\
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
                let folders = REQUIREMENT_FOLDERS.map(|folder| project.join(folder));
                let existing = folders.iter().find(|folder| folder.is_dir());
                let folder = existing.unwrap_or(&folders[0]);
                vec![(folder.join(AGENTS_MD), instructions::PLACEHOLDER)]
            }
            Self::Knowledge => vec![(project.join(".knowledge/config.yaml"), DOCSETS_TEMPLATE)],
            Self::Ixchel => {
                let file = |name| project.join(".ixchel").join(name).join(".gitkeep");
                IXCHEL_FOLDERS.iter().map(|name| (file(name), "")).collect()
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
        let read = DocsetConfig::read(DOCSETS_TEMPLATE, "/project").unwrap();
        assert_eq!(read.hints, []);
        let location = read.docsets[0].local_path.trim_start_matches("/project/");
        assert!(DOCSETS_TEMPLATE.contains(&format!("looked for in {location}.")), "{location}");
        let elsewhere = DOCSETS_TEMPLATE.replace("# local_path", "local_path");
        assert_eq!(DocsetConfig::read(&elsewhere, "/project").unwrap().hints, []);
    }
}

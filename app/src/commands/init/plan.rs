//! The planned changes of init, one per file, before they are written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, block};
use reqlore_client_config::{Client, ClientEnvironment, ConfigError, ConfigLocation, ConfigScope};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::sections::instructions;
use reqlore_domain::skills::{SKILL_FILE, SKILLS};
use reqlore_domain::untrusted_text::encode_line;
use reqlore_git_runner::repository_around;

use super::options::Scaffold;
use super::server_entry::{self, ServerEntry};
use super::undo_log::{self, UndoLog};
use crate::commands::init::file_change::{ChangeKind, FileChange};
use crate::commands::init::options::Options;
use crate::commands::untrusted_text::{AGENTS_MD, agents_md_ignored_by_claude};
use crate::config::{ToolsetChoice, found_file_refusal, parse_toolsets};
use crate::exit::Result;
use crate::settings::{FILE, SettingFlags};

#[derive(Debug)]
pub(super) struct ChangePlan<'a> {
    pub(super) environment: &'a ClientEnvironment,
    pub(super) changes: Vec<FileChange>,
    /// Clients that can't be configured, and why.
    pub(super) unsupported: Vec<(Client, String)>,
    pub(super) warnings: Vec<String>,
}

impl<'a> ChangePlan<'a> {
    pub(super) fn new(environment: &'a ClientEnvironment) -> Self {
        Self { environment, changes: Vec::new(), unsupported: Vec::new(), warnings: Vec::new() }
    }

    /// The changes that configure the clients.
    pub(super) fn configure(
        server: &ServerEntry,
        flags: &SettingFlags,
        options: &Options,
        clients: &[Client],
        log: &UndoLog,
        environment: &'a ClientEnvironment,
    ) -> Result<Self> {
        let mut plan = Self::new(environment);
        let refusal = match server {
            ServerEntry::Command { .. } => found_file_refusal(flags, &environment.project),
            // The file of an HTTP server is on its host.
            ServerEntry::Url { .. } => None,
        };
        if let Some(refusal) = &refusal {
            plan.warnings.push(encode_line(&refusal.message).into_owned());
        }
        let log_of_files = log;
        let log = refusal.is_some().then_some(log);
        for client in clients {
            if let Err(reason) = plan.add_entry(*client, options.scope, server, log) {
                plan.unsupported.push((*client, reason.into()));
            }
        }
        // Without an entry in the project, the block would name tools that the team lacks.
        if !options.no_agents_md && plan.has_shared_change() {
            let toolsets = flags.toolsets.as_deref().map(parse_toolsets).transpose()?;
            plan.add_agents_md(&agents_md_block(toolsets.as_ref()));
        }
        for scaffold in &options.create {
            plan.add_scaffold(*scaffold);
        }
        if options.skills {
            plan.add_skills(options.scope, clients, log_of_files);
        }
        plan.add_warnings();
        Ok(plan)
    }

    fn has_shared_change(&self) -> bool {
        self.changes
            .iter()
            .any(|change| change.scope == ConfigScope::Project && !change.is_refused())
    }

    fn add_scaffold(&mut self, scaffold: Scaffold) {
        for (path, text) in scaffold.files(&self.environment.project) {
            let mut change = FileChange::for_file(
                ChangeKind::Scaffold,
                scaffold.title(),
                ConfigScope::Project,
                &path,
                self.environment,
            );
            change.mentions_reqlore = change.old_text.is_some();
            // An existing file is the user's.
            if !change.mentions_reqlore && !change.is_refused() {
                change.set_text(Ok(text.to_owned()));
            }
            self.changes.push(change);
        }
    }

    /// Adds the skills in the folders that the clients read.
    fn add_skills(&mut self, scope: Option<ConfigScope>, clients: &[Client], log: &UndoLog) {
        let scope = scope.unwrap_or(ConfigScope::Project);
        let root = match scope {
            ConfigScope::Project => &self.environment.project,
            ConfigScope::User => &self.environment.home,
        };
        let mut readers: BTreeMap<&str, Vec<Client>> = BTreeMap::new();
        for client in clients {
            if let Some(folder) = skill_folder(*client) {
                readers.entry(folder).or_default().push(*client);
            }
        }
        for (folder, readers) in readers {
            for skill in &SKILLS {
                let path = root.join(folder).join(skill.name).join(SKILL_FILE);
                let mut change = FileChange::for_file(
                    ChangeKind::Scaffold,
                    SKILL_TITLE,
                    scope,
                    &path,
                    self.environment,
                );
                change.clients.clone_from(&readers);
                let old_text = change.old_text.as_deref();
                change.mentions_reqlore = old_text.is_some();
                // A file that was edited after init is the user's.
                let is_ours = old_text.is_none_or(|text| {
                    let logged = log.files.get(&change.target);
                    logged.is_some_and(|logged| logged.undo(text).is_some())
                });
                if is_ours && !change.is_refused() {
                    change.set_text(Ok(skill.text.to_owned()));
                }
                self.changes.push(change);
            }
        }
    }

    /// With `log`, the server refuses the project's `reqlore.toml` unless the entry names it.
    fn add_entry(
        &mut self,
        client: Client,
        scope: Option<ConfigScope>,
        server: &ServerEntry,
        log: Option<&UndoLog>,
    ) -> Result<(), ConfigError> {
        let location = choose_location(client, scope, self.environment)?;
        let old_entry = undo_log::find_entry(&location);
        // Only for an entry of this user's own: a cloned repository may contain both an entry and a
        // file that leads out of it.
        let names_file = old_entry.is_some()
            && log.is_some_and(|log| log.has_entry(&location, &self.environment.project));
        let (server, warning) =
            server.for_client(client, &location, old_entry.as_ref(), names_file, self.environment);
        let entry = client.entry(&server)?;
        let change = self.add_change(client, location.scope, &location.file);
        if change.is_refused() {
            return Ok(());
        }
        // The file may be planned already, by another client that uses it.
        let is_new_file = change.old_text.is_none() && !change.is_write();
        let text = if is_new_file { client.new_file() } else { change.current_text() }.to_owned();
        change.mentions_reqlore |= old_entry.is_some();
        change.set_text(edit::put_entry(&text, location.slot, &entry));
        if !change.is_write() {
            return Ok(());
        }
        let path = change.short_path.clone();
        self.warnings.extend(warning);
        if names_file {
            self.warnings.push(format!(
                "{path}: the entry names {FILE} with --config, so that it may set this; check \
                 that you trust the file"
            ));
        }
        if let Some(old_entry) = old_entry {
            let lost = server_entry::lost_arguments(&old_entry, &entry.set.into());
            if !lost.is_empty() {
                let lost = encode_line(&lost);
                self.warnings.push(format!(
                    "{path}: `{lost}` is not in the new entry; pass it to init to keep it"
                ));
            }
        }
        Ok(())
    }

    /// Adds a change of a client's file. Two clients may use one file; then both share one change.
    pub(super) fn add_change(
        &mut self,
        client: Client,
        scope: ConfigScope,
        file: &Path,
    ) -> &mut FileChange {
        let title = client.title();
        let new = FileChange::for_file(ChangeKind::Entry, title, scope, file, self.environment);
        let mut index = self.changes.len();
        if let Some(shared) = self.changes.iter().position(|change| change.target == new.target) {
            index = shared;
            if !self.changes[index].clients.contains(&client) {
                self.changes[index].title += &format!(", {title}");
            }
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
            change.mentions_reqlore = matches!(block::find_block(&text), Ok(Some(_)));
            change.set_text(block::put_block(&text, content));
        }
        self.changes.push(change);
    }

    /// Warns if assistants may not read the project's files.
    fn add_warnings(&mut self) {
        let project = &self.environment.project;
        let mut is_any_written = false;
        let mut is_claude_written = false;
        for change in &self.changes {
            if change.scope == ConfigScope::Project && change.is_write() {
                is_any_written = true;
                is_claude_written |= change.clients.contains(&Client::ClaudeCode);
            }
        }
        if !is_any_written {
            return;
        }
        if is_claude_written && let Some(why) = agents_md_ignored_by_claude(project) {
            self.warnings.push(why.join("; "));
        }
        if let Some(top) = repository_around(project, Some(&self.environment.home))
            && top != *project
        {
            self.warnings.push(format!(
                "the root of the Git repository is {}; if you open your assistant there, pass it \
                 with --root",
                top.display()
            ));
        }
    }
}

/// The file of a client: by default the project's, else the user's.
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

pub(super) const SKILL_TITLE: &str = "Skill";
/// The folder of skills that the client reads. Claude Desktop reads none.
fn skill_folder(client: Client) -> Option<&'static str> {
    match client {
        Client::ClaudeCode => Some(".claude/skills"),
        Client::ClaudeDesktop => None,
        _ => Some(".agents/skills"),
    }
}

/// The line of each toolset, with its tools, and those of the core tools.
const TOOLSET_LINES: [(Toolset, &str, &str, &str); 4] = [
    (Toolset::Sections, "rules, by section", "`reqlix_*`", "`reqlix_*`"),
    (Toolset::Backlog, "epics, user stories, requirements", ITEM_TOOLS, ITEM_TOOLS),
    (Toolset::Knowledge, "decisions, issues, ideas and their links", "`ixchel_*`", ITEM_TOOLS),
    (Toolset::Docsets, "documentation of libraries", "`search_docs`", "`search_docs`"),
];
const ITEM_TOOLS: &str = "`search_global`, `get_item`";

/// The block in AGENTS.md. `None` means all toolsets.
///
/// Every session pays for it, so it repeats nothing of the server's own instructions.
fn agents_md_block(toolsets: Option<&ToolsetChoice>) -> String {
    let mut lines = String::new();
    for (toolset, subject, tools, core_tools) in TOOLSET_LINES {
        if toolsets.is_some_and(|choice| !choice.enabled.contains(&toolset)) {
            continue;
        }
        let is_listed = toolsets.is_none_or(|choice| choice.listed.contains(&toolset));
        lines += &format!("- {subject}: {}\n", if is_listed { tools } else { core_tools });
    }
    format!(
        "## Reqlore\n\n\
         The MCP server `reqlore` is the single source of truth of this project for:\n\n\
         {lines}\n\
         Query it before you plan, write or review, and update it when behaviour changes. If\n\
         these tools are missing, say so instead of guessing; `reqlore doctor` finds the reason.\n"
    )
}

/// Folders for requirements; the first that exists is used.
const REQUIREMENT_FOLDERS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];
const IXCHEL_FOLDERS: [&str; 3] = ["decisions", "ideas", "issues"];

const DOCSETS_TEMPLATE: &str = "\
# Documentation of the libraries in this project, for search_docs.
docsets:
  # An example; its files are expected in .knowledge/docs/react-18.2/.
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
            Self::Knowledge => "library documentation",
            Self::Ixchel => "knowledge graph",
        }
    }

    /// Paths and texts of the files.
    fn files(self, project: &Path) -> Vec<(PathBuf, &'static str)> {
        match self {
            Self::Requirements => {
                let folders = REQUIREMENT_FOLDERS.map(|folder| project.join(folder));
                let folder = folders.iter().find(|folder| folder.is_dir()).unwrap_or(&folders[0]);
                vec![(folder.join(AGENTS_MD), instructions::NEW_INSTRUCTIONS)]
            }
            Self::Knowledge => vec![(project.join(".knowledge/config.yaml"), DOCSETS_TEMPLATE)],
            Self::Ixchel => {
                let mut files = Vec::new();
                for name in IXCHEL_FOLDERS {
                    // Git does not track empty folders.
                    files.push((project.join(".ixchel").join(name).join(".gitkeep"), ""));
                }
                files
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::docsets::DocsetConfig;

    use super::*;

    #[test]
    fn docsets_template_is_a_valid_configuration() {
        let read = DocsetConfig::parse(DOCSETS_TEMPLATE, "/project").unwrap();
        assert_eq!(read.warnings, []);
        let location = read.docsets[0].local_path.trim_start_matches("/project/");
        assert!(DOCSETS_TEMPLATE.contains(&format!("expected in {location}.")), "{location}");
        let elsewhere = DOCSETS_TEMPLATE.replace("# local_path", "local_path");
        assert_eq!(DocsetConfig::parse(&elsewhere, "/project").unwrap().warnings, []);
    }
}

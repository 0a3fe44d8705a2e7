//! The command line, its commands, and their output.

pub(crate) mod add;
pub(crate) mod audit;
pub(crate) mod board;
mod board_pages;
mod board_print;
pub(crate) mod check;
mod client_entry;
pub(crate) mod complete;
pub(crate) mod context;
pub(crate) mod delete;
pub(crate) mod demo;
pub(crate) mod diff;
pub(crate) mod docsets;
pub(crate) mod doctor;
mod draft;
pub(crate) mod edit;
mod edit_form;
pub(crate) mod export;
pub(crate) mod history;
pub(crate) mod hook;
pub(crate) mod import;
pub(crate) mod index;
pub(crate) mod init;
mod item_fields;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod migrate;
#[cfg(feature = "semantic")]
pub(crate) mod model;
mod nested_projects;
pub(crate) mod output;
pub(crate) mod picture;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod set;
pub(crate) mod show;
pub(crate) mod site;
mod terminal_markdown;
pub(crate) mod token;
mod tool_client;
pub(crate) mod transfer;
pub(crate) mod tree;
pub(crate) mod unclaim;
pub(crate) mod undo;
mod untrusted_text;
pub(crate) mod user;
mod write_target;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::settings::SettingFlags;

/// An MCP server for a project's backlog, rules and decisions.
///
/// Without a command it serves the project around the working directory to one MCP client over
/// standard input and output; an AI assistant starts it that way, with a configuration like
///
///   { "mcpServers": { "reqlore": { "command": "reqlore" } } }
///
/// For a short demonstration: reqlore demo
#[derive(Debug, Parser)]
#[command(name = "reqlore", version, verbatim_doc_comment)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) settings: SettingFlags,

    /// Show every setting with its value and source, and exit
    #[arg(long, global = true)]
    pub(crate) print_config: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Configure the AI assistants on this machine (shows each change first)
    Init(crate::commands::init::options::Options),
    /// Check everything an assistant needs, and show the next step for each problem
    Doctor(doctor::Options),
    #[command(flatten)]
    Configured(ConfiguredCommand),
    /// Show a short session in a temporary project
    Demo,
    /// Print project data for a hook of a coding client (written by init --hooks)
    #[command(subcommand)]
    Hook(hook::HookCommand),
    /// Print a shell completion script
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Commands that need valid settings.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfiguredCommand {
    /// Serve MCP clients (the default)
    Serve,
    /// List items of one kind, by default the epics
    List(Box<list::ListOptions>),
    /// Show a document with its fields, children and links
    Show(show::ShowOptions),
    /// Show epics with their user stories and requirements
    Tree(tree::TreeOptions),
    /// Search everything by words and meaning
    Search(search::SearchOptions),
    /// Show what a task, items or changed files must respect
    Context(context::ContextOptions),
    /// Show a board with one column per status
    Board(Box<board::BoardOptions>),
    /// Add a backlog item, an entity such as a decision, or a section requirement
    Add(Box<add::AddOptions>),
    /// Change fields of an item, an entity or a section requirement
    Set(set::SetOptions),
    /// Open an item, an entity or a section requirement in your editor
    Edit(edit::EditOptions),
    /// Relate two requirements, link an entity, or move an item to another parent
    #[command(after_help = link::LINK_EXAMPLES)]
    Link(link::LinkOptions),
    /// Remove a relationship of a requirement or a link of an entity
    #[command(after_help = link::UNLINK_EXAMPLE)]
    Unlink(link::LinkOptions),
    /// Delete an item, an entity or a section requirement
    Delete(delete::DeleteOptions),
    /// Undo your last change, or that of one document
    Undo(undo::UndoOptions),
    /// Restore any version of an item, entity, section or rule
    RestoreItem(undo::RestoreItemOptions),
    /// End the claim of a story, also that of another holder
    Unclaim(unclaim::UnclaimOptions),
    /// Report problems in the project's documents; exits 1 if there are any
    Check(check::CheckOptions),
    /// Show the versions of a document, one of them or the difference of two, or list changes
    History(history::HistoryOptions),
    /// Show the difference of two versions of a document
    Diff(diff::DiffOptions),
    /// Write a picture of the backlog or of an item's links as SVG
    Picture(picture::PictureOptions),
    /// Write the project's pages into a folder, for reading without a server
    Site(site::SiteOptions),
    /// Import items of another tool: a spreadsheet, specifications, a Markdown document
    Import(import::ImportCommandOptions),
    /// Export items for another tool
    Export(export::ExportOptions),
    /// Copy everything to another, empty storage
    Copy(transfer::CopyOptions),
    /// Write the whole storage to one file
    Backup(transfer::BackupOptions),
    /// Restore a backup into an empty storage
    Restore(transfer::RestoreOptions),
    /// Add, list and disable users of a server over HTTP
    #[command(subcommand)]
    User(user::UserCommand),
    /// Create, list, revoke and rotate the tokens of users
    #[command(subcommand)]
    Token(token::TokenCommand),
    /// List and verify the audit log
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Show and update the schema of a PostgreSQL database
    #[command(subcommand)]
    Migrate(migrate::MigrateCommand),
    /// Import a docset configuration into a database
    #[command(subcommand)]
    Docsets(docsets::DocsetsCommand),
    /// Rebuild the search index from the documents
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// Install, list and remove models of semantic search
    #[cfg(feature = "semantic")]
    #[command(subcommand)]
    Model(model::ModelCommand),
}

impl ConfiguredCommand {
    /// True if the log of each call would only disturb a user on a terminal.
    pub(crate) fn is_quiet(&self) -> bool {
        matches!(
            self,
            Self::List(_)
                | Self::Show(_)
                | Self::Tree(_)
                | Self::Search(_)
                | Self::Context(_)
                | Self::Board(_)
                | Self::History(_)
                | Self::Diff(_)
                | Self::Add(_)
                | Self::Set(_)
                | Self::Edit(_)
                | Self::Link(_)
                | Self::Unlink(_)
                | Self::Delete(_)
                | Self::Undo(_)
                | Self::RestoreItem(_)
                | Self::Unclaim(_)
                | Self::Import(_)
                | Self::Export(_)
        )
    }

    /// True if the result describes one storage, so that the wrong one would mislead.
    pub(crate) fn targets_single_storage(&self) -> bool {
        matches!(
            self,
            Self::Check(_)
                | Self::Site(_)
                | Self::Index(_)
                | Self::Backup(_)
                | Self::User(_)
                | Self::Token(_)
                | Self::Audit(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::output::format_table;

    #[test]
    fn table_keeps_each_row_on_one_line() {
        let rows = [["a", "x\n\x1b[2J"], ["bcd", ""]].map(|row| row.map(str::to_owned));
        let shown = format_table(["N", "REASON"], rows.to_vec());
        assert_eq!(shown, "N    REASON\na    x\\n\\u{1b}[2J\nbcd\n");
    }
}

//! The options of `init`.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use reqlore_client_config::{Client, ConfigScope, HookEvent};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Configure this client; can be repeated [default: all clients found on this machine]
    #[arg(long, value_name = "NAME", value_parser = parse_client)]
    pub(crate) client: Vec<Client>,
    /// Edit the project's files, shared with the team, or your own, for all projects
    /// [default: project if the client supports it]
    #[arg(long, value_name = "SCOPE", value_parser = scope_parser())]
    pub(crate) scope: Option<ConfigScope>,
    /// Address of the HTTP server, for --transport http
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Environment variable of the client that holds the token, for --transport http
    #[arg(long, value_name = "VARIABLE", default_value = "REQLORE_TOKEN", requires = "url")]
    pub(crate) token_variable: String,
    /// Create the first files of these kinds, if there are none
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) create: Vec<Scaffold>,
    /// Show assistants the state of the project at the start of each session, and with `prompt`
    /// also the texts that matter for each prompt, by hooks in your own files [default: asks for
    /// `session`; hooks stay as they are with --yes]
    #[arg(long, value_name = "CHOICE")]
    pub(crate) hooks: Option<HookChoice>,
    /// Write skills for assistants: how to work on a task, write requirements and record decisions
    #[arg(long)]
    pub(crate) skills: bool,
    /// Do not edit AGENTS.md
    #[arg(long)]
    pub(crate) no_agents_md: bool,
    #[command(flatten)]
    pub(crate) mode: ChangeMode,
    /// Print clients and changes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Handling of the changes. Without a flag, init asks before each one.
#[expect(clippy::struct_excessive_bools, reason = "flags of the command line")]
#[derive(Debug, clap::Args)]
pub(crate) struct ChangeMode {
    /// Write without asking
    #[arg(long, conflicts_with_all = ["dry_run", "check", "remove"])]
    pub(crate) yes: bool,
    /// Show the changes without writing them, also those of --remove
    #[arg(long, conflicts_with = "check")]
    pub(crate) dry_run: bool,
    /// Exit with code 1 if anything would change, also with --remove
    #[arg(long)]
    pub(crate) check: bool,
    /// Remove everything that init wrote, without asking
    #[arg(long)]
    pub(crate) remove: bool,
}

pub(crate) fn parse_client(name: &str) -> Result<Client, String> {
    Client::from_name(name).ok_or_else(|| format!("expected one of {}", client_names()))
}

pub(crate) fn client_names() -> String {
    Client::ALL.map(Client::name).join(", ")
}

pub(crate) fn scope_parser() -> impl TypedValueParser<Value = ConfigScope> {
    let names = PossibleValuesParser::new(ConfigScope::ALL.map(ConfigScope::name));
    names.try_map(|name| ConfigScope::from_name(&name).ok_or("expected project or user"))
}

/// A value of `--create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scaffold {
    Requirements,
    Knowledge,
    Ixchel,
}

/// A value of `--hooks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HookChoice {
    None,
    Session,
    Prompt,
}

impl HookChoice {
    /// True if the choice has the hook of this event.
    pub(crate) fn has(self, event: HookEvent) -> bool {
        match self {
            Self::None => false,
            Self::Session => event == HookEvent::Session,
            Self::Prompt => true,
        }
    }
}

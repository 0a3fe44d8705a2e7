//! The command `reqlore`.

#![expect(clippy::format_push_string, reason = "shorter than `write!`, and not in a hot path")]

mod background;
mod client_environment;
mod commands;
mod composition;
mod config;
mod console;
mod exit;
mod git;
mod progress;
mod settings;
mod storage_spec;
mod system;
mod telemetry;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ContextValue;
use clap::{CommandFactory, Parser};
use reqlore_domain::identity::redact_secrets;
use reqlore_domain::untrusted_text::encode_line;

use commands::{Cli, Command, ConfiguredCommand};
use composition::block_on;
use config::AppConfig;
use console::{encode_console, eprint_line};
use exit::{CommandError, EXIT_FAILED, EXIT_OK, EXIT_USAGE};
use settings::SettingFlags;

fn main() -> ExitCode {
    system::keep_running_at_file_size_limit();
    system::raise_open_file_limit();
    if commands::complete::answer_shell(Cli::command) {
        return ExitCode::SUCCESS;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = print_usage(&encode_arguments(error));
            // A client may take any other code as a reason to stop.
            let is_hook = commands::hook::is_hook_command_line();
            return ExitCode::from(if is_hook { EXIT_OK } else { code });
        }
    };
    let code = run_command(&cli).unwrap_or_else(|failure| {
        if !failure.message.is_empty() {
            eprint_line(&format!("reqlore: {}", failure.message));
        }
        failure.code
    });
    // The error is in the log.
    let is_closed = !reqlore_storage_sled::has_failed_close();
    ExitCode::from(if is_closed { code } else { code.max(EXIT_FAILED) })
}

/// Prints the help, or the error of an invalid command line. Returns the exit code.
fn print_usage(error: &clap::Error) -> u8 {
    let is_error = error.use_stderr();
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        // If printing the error fails, there is nowhere to report it.
        _ if is_error => EXIT_USAGE,
        Ok(()) => EXIT_OK,
        Err(error) => {
            // A reader that leaves early is not reported.
            if error.kind() != io::ErrorKind::BrokenPipe {
                eprint_line(&format!("reqlore: standard output: {error}"));
            }
            EXIT_FAILED
        }
    }
}

/// Encodes the arguments in a message, because a script may pass the name of any file, and masks
/// a token in the wrong argument.
fn encode_arguments(mut error: clap::Error) -> clap::Error {
    let mut encoded = Vec::new();
    for (kind, value) in error.context() {
        if let ContextValue::String(text) = value {
            let text = encode_console(&encode_line(&redact_secrets(text)));
            encoded.push((kind, ContextValue::String(text)));
        }
    }
    for (kind, value) in encoded {
        error.insert(kind, value);
    }
    error
}

fn run_command(cli: &Cli) -> Result<u8, CommandError> {
    match &cli.command {
        _ if cli.print_config => run_with_config(&cli.settings, |config| {
            crate::commands::output::print(&redact_secrets(&config.to_toml()))
        }),
        None => run_with_config(&cli.settings, commands::serve::run),
        Some(Command::Configured(command)) => {
            let config = AppConfig::resolve(&cli.settings)?;
            let log = if command.is_quiet() { config.quiet_log() } else { &config.log };
            // Dropped after the command, because it then exports the last spans.
            let _telemetry = telemetry::start_logging(log, config.log_format)?;
            run_configured(&config, command)
        }
        Some(Command::Init(options)) => commands::init::run(&cli.settings, options),
        Some(Command::Doctor(options)) => commands::doctor::run(&cli.settings, options),
        Some(Command::Demo) => commands::demo::run(),
        Some(Command::Hook(command)) => Ok(commands::hook::run(&cli.settings, command)),
        Some(Command::Completions { shell }) => commands::complete::print_script(*shell),
    }
}

/// Runs a command that needs valid settings, with logging.
fn run_with_config(
    flags: &SettingFlags,
    work: impl FnOnce(&AppConfig) -> Result<u8, CommandError>,
) -> Result<u8, CommandError> {
    let config = AppConfig::resolve(flags)?;
    // Dropped after the command, because it then exports the last spans.
    let _telemetry = telemetry::start_logging(&config.log, config.log_format)?;
    work(&config)
}

fn run_configured(config: &AppConfig, command: &ConfiguredCommand) -> Result<u8, CommandError> {
    if command.targets_single_storage() {
        crate::commands::output::warn_of_unselected_database(config);
    }
    match command {
        ConfiguredCommand::Serve => commands::serve::run(config),
        ConfiguredCommand::Add(options) => commands::add::run(config, options),
        ConfiguredCommand::Set(options) => commands::set::run(config, options),
        ConfiguredCommand::Edit(options) => commands::edit::run(config, options),
        ConfiguredCommand::Link(options) => commands::link::run_link(config, options),
        ConfiguredCommand::Unlink(options) => commands::link::run_unlink(config, options),
        ConfiguredCommand::Delete(options) => commands::delete::run(config, options),
        ConfiguredCommand::Undo(options) => commands::undo::run(config, options),
        ConfiguredCommand::RestoreItem(options) => commands::undo::restore(config, options),
        ConfiguredCommand::Unclaim(options) => commands::unclaim::run(config, options),
        ConfiguredCommand::Board(options) => commands::board::run(config, options),
        ConfiguredCommand::Check(options) => commands::check::run(config, options),
        ConfiguredCommand::List(options) => commands::list::run(config, options),
        ConfiguredCommand::Show(options) => commands::show::run(config, options),
        ConfiguredCommand::Tree(options) => commands::tree::run(config, options),
        ConfiguredCommand::Search(options) => commands::search::run(config, options),
        ConfiguredCommand::Context(options) => commands::context::run(config, options),
        ConfiguredCommand::History(options) => commands::history::run(config, options),
        ConfiguredCommand::Diff(options) => commands::diff::run(config, options),
        ConfiguredCommand::Picture(options) => commands::picture::run(config, options),
        ConfiguredCommand::Site(options) => commands::site::run(config, options),
        ConfiguredCommand::Import(options) => commands::import::run(config, options),
        ConfiguredCommand::Export(options) => commands::export::run(config, options),
        ConfiguredCommand::Copy(options) => {
            block_on(commands::transfer::run_copy(config, options))?
        }
        ConfiguredCommand::Backup(options) => {
            block_on(commands::transfer::run_backup(config, options))?
        }
        ConfiguredCommand::Restore(options) => {
            block_on(commands::transfer::run_restore(config, options))?
        }
        ConfiguredCommand::Migrate(command) => commands::migrate::run(config, command),
        ConfiguredCommand::Docsets(command) => commands::docsets::run(config, command),
        ConfiguredCommand::Index(command) => commands::index::run(config, command),
        #[cfg(feature = "semantic")]
        ConfiguredCommand::Model(command) => commands::model::run(config, command),
        ConfiguredCommand::User(command) => block_on(commands::user::run(config, command))?,
        ConfiguredCommand::Token(command) => block_on(commands::token::run(config, command))?,
        ConfiguredCommand::Audit(command) => block_on(commands::audit::run(config, command))?,
    }
}

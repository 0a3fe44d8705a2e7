//! The command `reqlore`.

#![expect(clippy::format_push_string, reason = "shorter than `write!`, and not in a hot path")]

mod background;
mod client_environment;
mod commands;
mod composition;
mod config;
mod exit;
mod git;
mod settings;
mod storage;
mod system;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, Command, ConfiguredCommand};
use composition::run;
use config::Config;
use exit::{CommandError, OK, USAGE};
use settings::Flags;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { OK };
            // If printing fails, there is nowhere to report it.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    ExitCode::from(run_command(&cli).unwrap_or_else(|failure| {
        eprintln!("reqlore: {}", failure.message);
        failure.code
    }))
}

fn run_command(cli: &Cli) -> Result<u8, CommandError> {
    match &cli.command {
        _ if cli.print_config => {
            run_with_config(&cli.settings, |config| commands::print(&config.describe()))
        }
        None => run_with_config(&cli.settings, commands::serve::run),
        Some(Command::Configured(command)) => {
            run_with_config(&cli.settings, |config| run_configured(config, command))
        }
        Some(Command::Init(options)) => commands::init::run(&cli.settings, options),
        Some(Command::Doctor(options)) => commands::doctor::run(&cli.settings, options),
        Some(Command::Demo) => commands::demo::run(),
        Some(Command::Completions { shell }) => commands::print_completions(*shell),
    }
}

/// Runs a command that needs valid settings, with logging.
fn run_with_config(
    flags: &Flags,
    work: impl FnOnce(&Config) -> Result<u8, CommandError>,
) -> Result<u8, CommandError> {
    let config = Config::resolve(flags)?;
    let _telemetry = telemetry::start(&config.log, config.log_format)?;
    work(&config)
}

fn run_configured(config: &Config, command: &ConfiguredCommand) -> Result<u8, CommandError> {
    if command.targets_single_storage()
        && let Some(other) = config.unselected_database()
    {
        let name = other.name();
        eprintln!(
            "warning: using the project's files, but a database exists; pass --storage {name} or set \
             REQLORE_STORAGE={name} to use it"
        );
    }
    match command {
        ConfiguredCommand::Serve => commands::serve::run(config),
        ConfiguredCommand::Check(options) => commands::check::run(config, options),
        ConfiguredCommand::Copy(options) => run(commands::transfer::run_copy(config, options))?,
        ConfiguredCommand::Backup(options) => run(commands::transfer::run_backup(config, options))?,
        ConfiguredCommand::Restore(options) => {
            run(commands::transfer::run_restore(config, options))?
        }
        ConfiguredCommand::Docsets(command) => commands::docsets::run(config, command),
        #[cfg(feature = "semantic")]
        ConfiguredCommand::Model(command) => commands::model::run(config, command),
        ConfiguredCommand::User(command) => run(commands::user::run(config, command))?,
        ConfiguredCommand::Token(command) => run(commands::token::run(config, command))?,
        ConfiguredCommand::Audit(command) => run(commands::audit::run(config, command))?,
    }
}

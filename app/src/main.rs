//! The command: reads the configuration once, joins everything, and runs.

mod beside;
mod client_environment;
mod clock;
mod commands;
mod composition;
mod config;
mod exit;
mod git;
mod ids;
mod limits;
mod models;
mod person;
mod setting;
mod settings;
mod storage;
mod telemetry;

use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, Command, Configured};
use config::Config;
use exit::{CommandError, OK, USAGE};
use settings::Flags;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let code = if error.use_stderr() { USAGE } else { OK };
            // Nobody is left to tell when even this can't be printed.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    ExitCode::from(run(&cli).unwrap_or_else(|failure| {
        eprintln!("reqlore: {}", failure.message);
        failure.code
    }))
}

fn run(cli: &Cli) -> Result<u8, CommandError> {
    match &cli.command {
        _ if cli.print_config => {
            configured(&cli.settings, |config| commands::print(&config.describe()))
        }
        None => configured(&cli.settings, commands::serve::run),
        Some(Command::Configured(command)) => {
            configured(&cli.settings, |config| run_configured(config, command))
        }
        Some(Command::Init(options)) => commands::init::run(&cli.settings, options),
        Some(Command::Doctor(options)) => commands::doctor::run(&cli.settings, options),
        Some(Command::Demo) => commands::demo::run(),
        Some(Command::Completions(options)) => commands::completions::run(options),
    }
}

/// Reads the settings and listens to the log, for as long as the work takes.
fn configured(
    flags: &Flags,
    work: impl FnOnce(&Config) -> Result<u8, CommandError>,
) -> Result<u8, CommandError> {
    let config = Config::resolve(flags)?;
    let _telemetry = telemetry::start(&config.log, config.log_format)?;
    work(&config)
}

fn run_configured(config: &Config, command: &Configured) -> Result<u8, CommandError> {
    if command.is_of_one_storage()
        && let Some(other) = config.overlooked()
    {
        let name = other.name();
        eprintln!(
            "warning: this is about the project's files; there is a database too, and --storage \
             {name} or REQLORE_STORAGE={name} means that one"
        );
    }
    match command {
        Configured::Serve => commands::serve::run(config),
        Configured::Check(options) => commands::check::run(config, options),
        Configured::Copy(options) => commands::copy::run(config, options),
        Configured::Backup(options) => commands::backup::run(config, options),
        Configured::Restore(options) => commands::restore::run(config, options),
        Configured::Docsets(command) => commands::docsets::run(config, command),
        #[cfg(feature = "semantic")]
        Configured::Model(command) => commands::model::run(config, command),
        Configured::User(command) => commands::user::run(config, command),
        Configured::Token(command) => commands::token::run(config, command),
        Configured::Audit(command) => commands::audit::run(config, command),
    }
}

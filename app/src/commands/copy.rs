//! `reqlore copy`: everything from one storage to another.
//!
//! Trap: a source that is in use goes on changing. The copy shows one moment of it, and a
//! comparison afterwards another one.

use super::moving::{self, Report};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;
use crate::storage::Storage;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[arg(
        long,
        value_name = "STORAGE",
        help = "Where everything is: fs[:DIR], sqlite[:FILE] or sled[:DIR]"
    )]
    from: String,

    /// The empty storage that it goes to, in the same form
    #[arg(long, value_name = "STORAGE")]
    to: String,

    /// Compare both sides afterwards
    #[arg(long)]
    verify: bool,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, CommandError> {
    composition::run(copy(config, options))?
}

async fn copy(config: &Config, options: &Options) -> Result<u8, CommandError> {
    let storage = |text| Storage::read(text, &config.root, &config.working_directory);
    let (from, to) = (storage(&options.from)?, storage(&options.to)?);
    if from == to {
        let message = format!("--from and --to are both {from}; name two storages");
        return Err(CommandError::refused(message));
    }
    if let (Storage::Fs(_), Storage::Fs(_), Some(project)) =
        (&from, &to, config.projects.keys().next())
    {
        return Err(CommandError::refused(format!(
            "the project {project} has its configured folder on both sides, so it can't be copied \
             from there to there; name a file without [projects] with --config"
        )));
    }
    let source = moving::source(config, &from)?;
    let reading = moving::read(&*source).await?;
    let target = composition::store(config, &to)?;
    let copied = moving::copy(reading, &*target).await?;
    let mut verified = None;
    if options.verify {
        verified = Some(moving::verify(&*source, &*target).await?);
    }
    let (from, to) = (from.to_string(), to.to_string());
    Report { from, to, copied, verified }.print(moving::COPIED, options.json)
}

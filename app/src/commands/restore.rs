//! `reqlore restore`: a backup into the storage, which must be empty.
//!
//! The whole file is checked before the storage is even opened; what was written is read from the
//! storage again and compared.

use std::path::PathBuf;

use reqlore_dump::Dump;

use super::moving::{self, Report};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What `reqlore backup` wrote
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, CommandError> {
    composition::run(restore(config, options))?
}

async fn restore(config: &Config, options: &Options) -> Result<u8, CommandError> {
    let dump = Dump::new(&options.file);
    let reading = moving::read(&dump).await?;
    let target = composition::store(config, &config.storage)?;
    let copied = moving::copy(reading, &*target).await?;
    let verified = Some(moving::verify(&dump, &*target).await?);
    let (from, to) = (options.file.display().to_string(), config.storage.to_string());
    Report { from, to, copied, verified }.print(["Restored", moving::COPIED[1]], options.json)
}

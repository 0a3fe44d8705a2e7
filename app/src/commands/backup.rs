//! `reqlore backup`: everything that the storage keeps, in one file.
//!
//! What was written is read back and held against its checksum, which was taken of what the
//! storage gave. It is not held against the storage: that may go on changing meanwhile, and a
//! backup of a busy storage is no worse for it.

use std::path::PathBuf;

use reqlore_application::transfer::Verified;
use reqlore_domain::ports::archive::Archive;
use reqlore_dump::Dump;

use super::moving::{self, Report};
use crate::composition;
use crate::config::Config;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The file to write; it must not be there yet
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &Config, options: &Options) -> Result<u8, CommandError> {
    composition::run(back_up(config, options))?
}

async fn back_up(config: &Config, options: &Options) -> Result<u8, CommandError> {
    let (dump, file) = (Dump::new(&options.file), options.file.display());
    let source = moving::source(config, &config.storage)?;
    let reading = moving::read(&*source).await?;
    let copied = moving::copy(reading, &dump).await?;
    let read = dump.read().await.map_err(|error| {
        CommandError::refused(format!(
            "the backup can't be read back, so don't rely on it: {error}"
        ))
    })?;
    let same = read.total().unwrap_or_default() as u64;
    if same != copied.documents {
        let message = format!("{file} was changed by somebody while it was read back");
        return Err(CommandError::refused(message));
    }
    let verified = Some(Verified { same, ..Verified::default() });
    let (from, to) = (config.storage.to_string(), file.to_string());
    Report { from, to, copied, verified }
        .print(["Backed up", "it was read back and its checksum is right"], options.json)
}

//! `reqlore index rebuild`: replaces the search index of the project with a new one.

use std::sync::Arc;
use std::time::Instant;

use indicatif::BinaryBytes;
use reqlore_application::project_index::index_build::build_index;
use reqlore_domain::ports::service::NoProgress;
use reqlore_domain::project_key::ProjectKey;
use reqlore_search::inspect::inspect_cache;
use reqlore_search::rebuild::set_index_aside;
use serde_json::json;

use crate::commands::output::{print, print_json};
use crate::composition;
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};
use crate::progress::ProgressDisplay;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum IndexCommand {
    /// Build a new index from the documents; running servers keep the old one until they restart
    Rebuild(RebuildOptions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct RebuildOptions {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(config: &AppConfig, command: &IndexCommand) -> Result<u8> {
    let IndexCommand::Rebuild(options) = command;
    let Some(cache) = &config.cache else {
        return Err(CommandError::failure(
            "index: there is no cache folder, so each start builds the index in memory; set \
             REQLORE_CACHE to a folder",
        ));
    };
    let store = composition::open_existing_store(config)?;
    let (cache, name) = (cache.join("search"), composition::index_name(&config.storage));
    let project = ProjectKey::default();
    let failed = |error| {
        let message = format!("index: {} can't be written: {error}", cache.display());
        CommandError::failure(format!("{message}; give your user access to it"))
    };
    let started = Instant::now();
    set_index_aside(&cache, &name, &project).map_err(failed)?;
    let mut ports = composition::ports_over(config, &store, false)?;
    // The display below shows the progress instead.
    ports.progress = Arc::new(NoProgress);
    let progress = ProgressDisplay::on_terminal();
    let built = composition::block_on(build_index(&ports, &project, &progress))?;
    drop(progress);
    // Saves the index, so that the next process starts with it.
    drop(ports);
    built.map_err(CommandError::failure)?;
    let seconds = started.elapsed().as_secs_f64();
    let saved = inspect_cache(&cache, &name, &project).map_err(failed)?;
    let Some(bytes) = saved.and_then(|status| status.index_bytes) else {
        let message =
            "index: built but not saved; fix the cause in the log, then run the command again";
        return Err(CommandError::failure(message));
    };
    if options.json {
        return print_json(&json!({ "seconds": seconds, "bytes": bytes }));
    }
    let size = BinaryBytes(bytes);
    let text = format!("Rebuilt the index of {} in {seconds:.1} s ({size}).", config.storage);
    print(&format!("{text}\nRestart running servers to use it.\n"))
}

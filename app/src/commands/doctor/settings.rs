//! The settings: do they say something that a server can run by?

use std::path::Path;

use super::finding::{Area, Findings};
use super::shown;
use crate::composition;
use crate::config::{Config, variable};
use crate::exit::CommandError;
use crate::settings::{FILE, FILE_VARIABLE, Flags};
use crate::storage::Storage;
use crate::telemetry;

/// Everything that needs the settings is left out where they are wrong.
pub(super) fn look(flags: &Flags, findings: &mut Findings) -> Option<Config> {
    let config = match resolve(flags) {
        Ok(config) => config,
        Err(failure) => {
            let next = "mend that; `reqlore --print-config` shows each setting, its value and \
                        where it came from";
            findings.problem(Area::Settings, failure.message, next);
            return None;
        }
    };
    let named = flags.config.clone().or_else(|| variable(FILE_VARIABLE).map(Into::into));
    let usual = config.root.join(FILE);
    let file = named.or_else(|| usual.symlink_metadata().is_ok().then_some(usual));
    let from = file.map_or_else(
        || format!("there is no {FILE}; the defaults count, and what flags and environment say"),
        |file| format!("{} counts", shown(&file)),
    );
    findings.ok(Area::Settings, format!("the root is {}; {from}", shown(&config.root)));
    Some(config)
}

/// The storage of a server with an entry's settings, which its client starts in the project.
pub(super) fn storage_of(mut flags: Flags, project: &Path) -> Result<Storage, String> {
    // What a client writes in the place of a variable is the project, as far as is known here.
    let root = flags.root.take().filter(|root| !root.to_string_lossy().contains("${"));
    flags.root = Some(root.map_or_else(|| project.to_owned(), |root| project.join(root)));
    if let Some(file) = &mut flags.config {
        let named = project.join(&*file);
        if !named.is_file() {
            return Err(format!("--config {} is no file", file.display()));
        }
        *file = named;
    }
    Ok(resolve(&flags).map_err(|failure| failure.message)?.storage)
}

/// All that a server looks at before it starts.
fn resolve(flags: &Flags) -> Result<Config, CommandError> {
    let config = Config::resolve(flags)?;
    telemetry::targets(&config.log)?;
    composition::check_files(&config)?;
    Ok(config)
}

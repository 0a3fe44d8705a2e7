//! `reqlore site`: writes the project's pages into a folder, for reading without a server.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqlore_application::Application;
use reqlore_domain::identity::Access;
use reqlore_domain::untrusted_text::encode_line;
use reqlore_web::site::{SiteFile, render_site};

use super::tool_client::{URL_VARIABLE, configured_project};
use crate::commands::output::print;
use crate::composition;
use crate::config::AppConfig;
use crate::config::paths::env_variable;
use crate::console::eprint_line;
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK, Result};

/// Lists the files of a site, so that the next run replaces these and no others.
const MARKER: &str = ".reqlore-site";
const MARKER_TITLE: &str = "# Files that `reqlore site` wrote. The next run replaces them.";

#[derive(Debug, clap::Args)]
pub(crate) struct SiteOptions {
    /// The folder: new, empty or an earlier site
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Key of the project [default: that of the working directory]
    #[arg(long, value_name = "KEY")]
    project: Option<String>,
    /// Also write the history of each item, with the names of its authors
    #[arg(long)]
    history: bool,
    /// Exit 0 even if files cannot be read; their pages show the error
    #[arg(long)]
    tolerant: bool,
}

pub(crate) fn run(config: &AppConfig, options: &SiteOptions) -> Result<u8> {
    // Pages of another project than that of all other commands would be a surprise.
    if env_variable(URL_VARIABLE).is_some() {
        return Err(CommandError::usage_error(
            "REQLORE_URL: names a team server, and `reqlore site` writes local documents only; \
             unset it, and name the server's database with --storage on its machine",
        ));
    }
    let folder = SiteFolder::open(&options.folder)?;
    let mut caller = composition::local_caller(config);
    // Pages for readers have no forms.
    caller.access = Access::Read;
    if let Some(key) = &options.project {
        caller.project = configured_project(config, key)?;
    }
    let store = composition::open_project_store(config, false)?;
    let is_audited = config.audit == Some(true);
    let application = Application::new(composition::ports_over(config, &store, is_audited)?);
    let maintenance = is_audited.then(|| application.maintenance(None, config.keep_days));
    let runtime = composition::single_thread_runtime()?;
    let files = runtime.block_on(async {
        let files = render_site(Arc::new(application), Arc::new(caller), options.history).await;
        if let Some(maintenance) = &maintenance {
            maintenance.finish().await;
        }
        files
    })?;
    // Does not wait for an update of the search index.
    runtime.shutdown_background();
    folder.write(&files)?;
    let index = encode_line(&options.folder.join("index.html").display().to_string()).into_owned();
    print(&format!("Wrote {} files. Open {index}.\n", files.len()))?;
    let mut code = EXIT_OK;
    for SiteFile { path, error, .. } in &files {
        if let Some(error) = error {
            eprint_line(&format!("{path} shows an error: {}", encode_line(error)));
            code = if options.tolerant { EXIT_OK } else { EXIT_FAILED };
        }
    }
    Ok(code)
}

/// The folder of a site, and the files that an earlier run wrote there.
struct SiteFolder<'a> {
    path: &'a Path,
    earlier: BTreeSet<String>,
}

impl<'a> SiteFolder<'a> {
    /// Refuses a folder with other content.
    fn open(path: &'a Path) -> Result<Self> {
        let mut earlier = BTreeSet::new();
        let marker = path.join(MARKER);
        if std::fs::symlink_metadata(&marker).is_ok_and(|found| !found.is_file()) {
            return Err(foreign(&marker));
        }
        match std::fs::read_to_string(&marker) {
            Ok(list) => {
                // The marker may come from elsewhere, like all files of a repository.
                let names = list.lines().filter(|name| is_site_path(name));
                earlier.extend(names.map(str::to_owned));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_empty = match std::fs::read_dir(path) {
                    Ok(mut entries) => entries.next().is_none(),
                    Err(error) if error.kind() == ErrorKind::NotFound => true,
                    Err(error) => return Err(failed(path, error)),
                };
                if !is_empty {
                    return Err(CommandError::usage_error(format!(
                        "DIR: {} is not empty and not an earlier site; name a new or empty folder",
                        shown(path)
                    )));
                }
            }
            Err(error) => return Err(failed(&marker, error)),
        }
        Ok(Self { path, earlier })
    }

    fn write(&self, files: &[SiteFile]) -> Result<()> {
        for file in files {
            self.check_target(&file.path)?;
        }
        let written: BTreeSet<String> = files.iter().map(|file| file.path.clone()).collect();
        std::fs::create_dir_all(self.path).map_err(|error| failed(self.path, error))?;
        // Files of both runs: the next run may have to replace those of an interrupted one.
        self.write_marker(&self.earlier | &written)?;
        for file in files {
            let path = self.path.join(&file.path);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| failed(parent, error))?;
            }
            std::fs::write(&path, &file.content).map_err(|error| failed(&path, error))?;
        }
        for name in self.earlier.difference(&written) {
            let path = self.path.join(name);
            match self.check_target(name).map(|()| std::fs::remove_file(&path)) {
                Ok(Err(error)) if error.kind() != ErrorKind::NotFound => {
                    return Err(failed(&path, error));
                }
                // Another program replaced it, so it is not a file of the site.
                _ => {}
            }
        }
        self.write_marker(written)
    }

    fn write_marker(&self, names: BTreeSet<String>) -> Result<()> {
        let mut lines = vec![MARKER_TITLE.to_owned()];
        lines.extend(names);
        let path = self.path.join(MARKER);
        std::fs::write(&path, lines.join("\n") + "\n").map_err(|error| failed(&path, error))
    }

    /// Refuses to replace a file of the user, and to follow a symbolic link.
    fn check_target(&self, name: &str) -> Result<()> {
        if let Some((folder, _)) = name.split_once('/') {
            let folder = self.path.join(folder);
            if std::fs::symlink_metadata(&folder).is_ok_and(|found| !found.is_dir()) {
                return Err(foreign(&folder));
            }
        }
        let path = self.path.join(name);
        match std::fs::symlink_metadata(&path) {
            Ok(found) if !found.is_file() || !self.earlier.contains(name) => Err(foreign(&path)),
            _ => Ok(()),
        }
    }
}

/// True for the form that all paths of a site have.
fn is_site_path(name: &str) -> bool {
    let is_name = |part: &str| {
        !part.starts_with('.')
            && !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
    };
    match name.split_once('/') {
        Some((folder, name)) => is_name(folder) && is_name(name),
        None => is_name(name),
    }
}

fn foreign(path: &Path) -> CommandError {
    CommandError::failure(format!(
        "DIR: {} is not a file of an earlier site; move it away, or name another folder",
        shown(path)
    ))
}

fn failed(path: &Path, error: impl Display) -> CommandError {
    CommandError::failure(format!("DIR: {}: {error}", shown(path)))
}

fn shown(path: &Path) -> String {
    encode_line(&path.display().to_string()).into_owned()
}

//! Reads `reqlore.toml`.
//!
//! A file found in the root may be part of a cloned repository and must not set everything: see
//! [`ConfigFile::is_explicit`].

use std::collections::{BTreeMap, HashSet};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use reqlore_domain::project_key::ProjectKey;
use reqlore_durable_fs::is_private;
use serde::Deserialize;

use crate::config::paths::{check_path, env_variable, is_inside, resolve_links};
use crate::exit::{CommandError, Result};
use crate::settings::{self, FILE, FILE_VARIABLE, SettingFlags};

pub(super) const PROJECTS: &str = "projects";
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The configuration file; empty when there is none.
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    /// Given by `--config` or `REQLORE_CONFIG`.
    pub(super) is_explicit: bool,
    pub(super) is_found: bool,
    /// Values by their full keys. A list has one item per line.
    settings: BTreeMap<String, String>,
    projects: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectEntry {
    root: String,
}

impl ConfigFile {
    pub(super) fn load(flags: &SettingFlags, root: &Path) -> Result<Self> {
        let path = flags.config.clone().or_else(|| env_variable(FILE_VARIABLE).map(PathBuf::from));
        let named = path.is_some();
        let path = path.unwrap_or_else(|| root.join(FILE));
        if named {
            check_path("--config", &path.to_string_lossy())?;
        }
        let path = std::path::absolute(&path).unwrap_or(path);
        // Before it is read: a message could quote a file of the user that a link leads to.
        if !named && path.is_symlink() && !is_inside(&path, &resolve_links(root)) {
            return Err(CommandError::usage_error(format!(
                "{}: the link does not point to a file in the project; replace it with the file, \
                 or pass the file with --config",
                path.display()
            )));
        }
        let (text, is_found) = match read_text(&path, named) {
            Ok(text) => (text, true),
            // The default file is optional, but a named one must exist.
            // A root that is not a folder is reported later.
            Err(error)
                if !named
                    && matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                (String::new(), false)
            }
            Err(error) => {
                let path = path.display();
                return Err(CommandError::failure(format!("{path} can't be read: {error}")));
            }
        };
        let mut table: toml::Table = text.parse().map_err(|error| {
            let error = syntax_error(&error, &text);
            CommandError::usage_error(format!("{}: {error}", path.display()))
        })?;
        let projects = table.remove(PROJECTS);
        let mut settings = BTreeMap::new();
        for (key, value) in table {
            flatten_table(key, &value, &mut settings);
        }
        Ok(Self { path, is_explicit: named, is_found, settings, projects })
    }

    /// The base of relative paths in the file.
    pub(super) fn base_folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn get(&self, key: &str) -> Option<&String> {
        self.settings.get(key)
    }

    /// The roots of the additional projects as written, by name.
    pub(super) fn project_roots(&self) -> Result<BTreeMap<String, String>> {
        let Some(projects) = &self.projects else { return Ok(BTreeMap::new()) };
        let entries: BTreeMap<String, ProjectEntry> =
            projects.clone().try_into().map_err(|_| {
                CommandError::usage_error(format!(
                    "{}: write a project as [{PROJECTS}.KEY] and root = \"FOLDER\"",
                    self.path.display()
                ))
            })?;
        Ok(entries.into_iter().map(|(name, entry)| (name, entry.root)).collect())
    }

    /// Additional projects: `[projects.KEY] root = "…"`, relative to the file.
    pub(super) fn additional_projects(&self, root: &Path) -> Result<BTreeMap<ProjectKey, PathBuf>> {
        let path = self.path.display();
        let mut folders: BTreeMap<ProjectKey, PathBuf> = BTreeMap::new();
        let mut distinct = HashSet::new();
        for (name, folder_name) in self.project_roots()? {
            let key = ProjectKey::new(name.as_str());
            if !key.is_plain() || key.is_default() {
                return Err(CommandError::usage_error(format!(
                    "{path}: {PROJECTS}: {name:?} is not a valid key; use 1 to 64 letters, digits, \
                     '-' and '_', but not \"{}\", which is the root",
                    ProjectKey::DEFAULT
                )));
            }
            check_path(&format!("{path}: {PROJECTS}.{name}"), &folder_name)?;
            let folder = match dunce::canonicalize(self.base_folder().join(&folder_name)) {
                Ok(folder) if folder.is_dir() => folder,
                _ => {
                    return Err(CommandError::usage_error(format!(
                        "{path}: {PROJECTS}.{name}: {folder_name:?} is not a folder; create it or \
                         correct root"
                    )));
                }
            };
            if folder == root || !distinct.insert(folder.clone()) {
                return Err(CommandError::usage_error(format!(
                    "{path}: {PROJECTS}.{name}: {folder_name:?} is also the folder of another \
                     project"
                )));
            }
            folders.insert(key, folder);
        }
        Ok(folders)
    }

    /// True if only its owner can read it.
    pub(super) fn is_private(&self) -> bool {
        self.path.metadata().is_ok_and(|metadata| is_private(&metadata))
    }

    /// Rejects unknown settings.
    pub(super) fn check_keys(&self) -> Result<()> {
        let names: Vec<&str> = settings::all_settings().map(|setting| setting.key).collect();
        match self.settings.keys().find(|key| !names.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(CommandError::usage_error(format!(
                "{}: unknown setting {unknown:?}; the settings are {}",
                self.path.display(),
                names.join(", ")
            ))),
        }
    }
}

fn flatten_table(key: String, value: &toml::Value, found: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                flatten_table(format!("{key}.{name}"), value, found);
            }
        }
        toml::Value::Array(items) => {
            found.insert(key, items.iter().map(|item| plain_text(item) + "\n").collect());
        }
        value => {
            found.insert(key, plain_text(value));
        }
    }
}

/// A string without its quotes; other values as written.
fn plain_text(value: &toml::Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

/// Reads the file. A file found in a cloned repository may be a pipe, which would block.
fn read_text(path: &Path, named: bool) -> io::Result<String> {
    if !named && !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    if text.len() as u64 == MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(text)
}

/// The position and reason of a syntax error. The line is not quoted: a link may have led to a file
/// with secrets.
fn syntax_error(error: &toml::de::Error, text: &str) -> String {
    let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", error.message())
}

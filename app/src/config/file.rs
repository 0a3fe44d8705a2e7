//! Reads `reqlore.toml`.
//!
//! A file that was found in the root, not named, may be part of a cloned repository and must not
//! set everything: see [`File::named`].

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reqlore_domain::project_key::ProjectKey;
use serde::Deserialize;

use super::variable;
use crate::exit::CommandError;
use crate::settings::{self, FILE, FILE_VARIABLE, Flags};

const PROJECTS: &str = "projects";
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The configuration file; empty when there is none.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Given by `--config` or `REQLORE_CONFIG`.
    pub(super) named: bool,
    pub(super) is_found: bool,
    /// By full names. A list has one item a line; an empty one is an empty text.
    settings: BTreeMap<String, String>,
    projects: Option<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    root: String,
}

impl File {
    pub(super) fn read(flags: &Flags, root: &Path) -> Result<Self, CommandError> {
        let path = flags.config.clone().or_else(|| variable(FILE_VARIABLE).map(PathBuf::from));
        let named = path.is_some();
        let path = path.unwrap_or_else(|| root.join(FILE));
        let path = std::path::absolute(&path).unwrap_or(path);
        let (text, is_found) = match text(&path, named) {
            Ok(text) => (text, true),
            Err(error) if error.kind() == io::ErrorKind::NotFound && !named => {
                (String::new(), false)
            }
            Err(error) => {
                let path = path.display();
                return Err(CommandError::refused(format!("{path} can't be read: {error}")));
            }
        };
        let mut table: toml::Table = text.parse().map_err(|error| {
            let error = syntax_error(&error, &text);
            CommandError::usage(format!("{}: {error}", path.display()))
        })?;
        let projects = table.remove(PROJECTS);
        let mut settings = BTreeMap::new();
        for (key, value) in table {
            flatten(key, &value, &mut settings);
        }
        Ok(Self { path, named, is_found, settings, projects })
    }

    /// The base of relative paths in the file.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn get(&self, key: &str) -> Option<&String> {
        self.settings.get(key)
    }

    pub(super) fn has_projects(&self) -> bool {
        self.projects.is_some()
    }

    /// Further projects: `[projects.KEY] root = "…"`, relative to the file.
    pub(super) fn projects(
        &self,
        root: &Path,
    ) -> Result<BTreeMap<ProjectKey, PathBuf>, CommandError> {
        let Some(projects) = &self.projects else { return Ok(BTreeMap::new()) };
        let path = self.path.display();
        let wrong = |what: String| CommandError::usage(format!("{path}: {what}"));
        let projects: BTreeMap<String, Project> = projects.clone().try_into().map_err(|_| {
            wrong(format!("write a project as [{PROJECTS}.KEY] and root = \"FOLDER\""))
        })?;
        let mut found: BTreeMap<ProjectKey, PathBuf> = BTreeMap::new();
        for (key, Project { root: named }) in projects {
            let project_key = ProjectKey::new(key.as_str());
            if !project_key.is_plain() || project_key.is_default() {
                return Err(wrong(format!(
                    "{PROJECTS}: {key:?} is not a key; use 1 to 64 letters, digits, '-' and '_'; \
                     \"{}\" is the root's",
                    ProjectKey::DEFAULT
                )));
            }
            let folder = self.folder().join(&named).canonicalize().ok();
            let folder = folder.filter(|folder| folder.is_dir()).ok_or_else(|| {
                wrong(format!(
                    "{PROJECTS}.{key}: {named:?} is not a folder; create it or correct root"
                ))
            })?;
            if folder == root || found.values().any(|other| *other == folder) {
                return Err(wrong(format!(
                    "{PROJECTS}.{key}: {named:?} is also the folder of another project"
                )));
            }
            found.insert(project_key, folder);
        }
        Ok(found)
    }

    /// Rejects unknown settings.
    pub(super) fn check_keys(&self) -> Result<(), CommandError> {
        let names: Vec<&str> = settings::all().map(|setting| setting.key).collect();
        match self.settings.keys().find(|key| !names.contains(&key.as_str())) {
            None => Ok(()),
            Some(unknown) => Err(CommandError::usage(format!(
                "{}: unknown setting {unknown:?}; known are {}",
                self.path.display(),
                names.join(", ")
            ))),
        }
    }
}

fn flatten(key: String, value: &toml::Value, found: &mut BTreeMap<String, String>) {
    let plain =
        |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                flatten(format!("{key}.{name}"), value, found);
            }
        }
        toml::Value::Array(items) => {
            found.insert(key, items.iter().map(|item| plain(item) + "\n").collect());
        }
        value => {
            found.insert(key, plain(value));
        }
    }
}

/// Reads the file. One in the root may be a pipe from a cloned repository, which would block.
fn text(path: &Path, named: bool) -> io::Result<String> {
    if !named && !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_FILE_BYTES).read_to_string(&mut text)?;
    if text.len() as u64 == MAX_FILE_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    Ok(text)
}

/// The place and reason of a syntax error. The line is not quoted: it may be a secret that a link
/// led to.
fn syntax_error(error: &toml::de::Error, text: &str) -> String {
    let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {}", error.message())
}

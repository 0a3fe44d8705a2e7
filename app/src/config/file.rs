//! Reads `reqlore.toml`.
//!
//! A file that was found in the root, not named, may be part of a cloned repository and must not
//! set everything: see [`File::named`].

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reqlore_domain::project::ProjectKey;

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
    table: toml::Table,
}

impl File {
    pub(super) fn read(flags: &Flags, root: &Path) -> Result<Self, CommandError> {
        let named = flags.config.clone().or_else(|| variable(FILE_VARIABLE).map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| root.join(FILE));
        let path = std::path::absolute(&path).unwrap_or(path);
        let text = match text(&path, named.is_some()) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
                String::new()
            }
            Err(error) => {
                let path = path.display();
                return Err(CommandError::refused(format!("{path} can't be read: {error}")));
            }
        };
        match text.parse() {
            Ok(table) => Ok(Self { path, named: named.is_some(), table }),
            Err(error) => Err(CommandError::usage(format!(
                "{}: {}",
                path.display(),
                syntax_error(&error, &text)
            ))),
        }
    }

    /// The base of relative paths in the file.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn get(&self, key: &str) -> Option<String> {
        let mut names = key.split('.');
        let first = self.table.get(names.next()?)?;
        let value = names.try_fold(first, |value, name| value.get(name))?;
        Some(match value {
            // One item a line; an empty list is an empty text.
            toml::Value::Array(items) => items.iter().map(|item| plain(item) + "\n").collect(),
            value => plain(value),
        })
    }

    pub(super) fn has_projects(&self) -> bool {
        self.table.contains_key(PROJECTS)
    }

    /// Further projects: `[projects.KEY] root = "…"`, relative to the file.
    pub(super) fn projects(
        &self,
        root: &Path,
    ) -> Result<BTreeMap<ProjectKey, PathBuf>, CommandError> {
        let Some(projects) = self.table.get(PROJECTS) else { return Ok(BTreeMap::new()) };
        let path = self.path.display();
        let wrong = |what: String| CommandError::usage(format!("{path}: {what}"));
        let usage = || wrong(format!("write a project as [{PROJECTS}.KEY] and root = \"FOLDER\""));
        let base = self.folder();
        let mut found: BTreeMap<ProjectKey, PathBuf> = BTreeMap::new();
        for (key, project) in projects.as_table().ok_or_else(usage)? {
            let project_key = ProjectKey::new(key.as_str());
            if !project_key.is_plain() || project_key.is_default() {
                return Err(wrong(format!(
                    "{PROJECTS}: {key:?} is not a key; use 1 to 64 letters, digits, '-' and '_'; \
                     \"{}\" is the root's",
                    ProjectKey::DEFAULT
                )));
            }
            let table = project.as_table().ok_or_else(usage)?;
            let named = table.get("root").and_then(toml::Value::as_str).ok_or_else(usage)?;
            if table.len() > 1 {
                return Err(usage());
            }
            let folder = base.join(named).canonicalize().ok().filter(|folder| folder.is_dir());
            let folder = folder.ok_or_else(|| {
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
        let others = self.table.iter().filter(|(key, _)| *key != PROJECTS);
        let keys = others.flat_map(|(key, value)| keys(key.clone(), value));
        let unknown = |key: &String| !settings::all().any(|setting| setting.key == key);
        let Some(unknown) = keys.into_iter().find(unknown) else { return Ok(()) };
        let names: Vec<&str> = settings::all().map(|setting| setting.key).collect();
        let path = self.path.display();
        Err(CommandError::usage(format!(
            "{path}: unknown setting {unknown:?}; known are {}",
            names.join(", ")
        )))
    }
}

fn plain(value: &toml::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
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

/// The full names of the settings in a table.
fn keys(key: String, value: &toml::Value) -> Vec<String> {
    let toml::Value::Table(table) = value else { return vec![key] };
    table.iter().flat_map(|(inner, value)| keys(format!("{key}.{inner}"), value)).collect()
}

//! `reqlore.toml`: what stands in it, and what may not.
//!
//! Trap: a file that nobody named lies in a repository that somebody may have cloned, so it does
//! not choose everything; who reads a setting asks [`File::named`].

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use reqlore_domain::project::ProjectKey;

use super::variable;
use crate::exit::CommandError;
use crate::settings::{self, FILE, FILE_VARIABLE, Flags};

/// The table of further projects.
const PROJECTS: &str = "projects";
/// A file is never longer, in bytes.
const MOST: u64 = 1 << 20;

/// The configuration file; empty when there is none.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Somebody asked for this very file.
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
            Err(error) => {
                Err(CommandError::usage(format!("{}: {}", path.display(), wrong(&error, &text))))
            }
        }
    }

    /// What relative paths in it begin at.
    pub(super) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    pub(super) fn get(&self, key: &str) -> Option<String> {
        let mut names = key.split('.');
        let mut value = self.table.get(names.next()?)?;
        for name in names {
            value = value.get(name)?;
        }
        Some(match value {
            toml::Value::String(text) => text.clone(),
            // One a line; an empty list is an empty text.
            toml::Value::Array(items) => {
                let text = |item: &toml::Value| {
                    item.as_str().map_or_else(|| item.to_string(), str::to_owned)
                };
                items.iter().map(|item| text(item) + "\n").collect()
            }
            other => other.to_string(),
        })
    }

    pub(super) fn has_projects(&self) -> bool {
        self.table.contains_key(PROJECTS)
    }

    /// The projects beside the root: `[projects.KEY] root = "…"`, relative to the file.
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
                    "{PROJECTS}: {key:?} is no key; one has 1 to 64 letters, digits, '-' and '_', \
                     and \"{}\" is the root's",
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
                wrong(format!("{PROJECTS}.{key}: {named:?} is no folder; create it or mend root"))
            })?;
            if folder == root || found.values().any(|other| *other == folder) {
                return Err(wrong(format!(
                    "{PROJECTS}.{key}: {named:?} is the folder of another project as well"
                )));
            }
            found.insert(project_key, folder);
        }
        Ok(found)
    }

    /// A misspelt setting is an error, not a surprise.
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

/// What stands in the file. One that nobody named may be a link or a pipe that a repository came
/// with, which nobody shall wait for.
fn text(path: &Path, named: bool) -> io::Result<String> {
    if !named && !path.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST).read_to_string(&mut text)?;
    if text.len() as u64 == MOST {
        return Err(io::Error::other("it is too long"));
    }
    Ok(text)
}

/// Where it is no TOML, and why. The line itself is not told: a link may have led to a secret.
fn wrong(error: &toml::de::Error, text: &str) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    let (line, begin) =
        (before.matches('\n').count() + 1, before.rfind('\n').map_or(0, |at| at + 1));
    let column = before[begin..].chars().count() + 1;
    format!("line {line}, column {column}: {}", error.message())
}

/// The settings of a table and those in it, by their whole names.
fn keys(key: String, value: &toml::Value) -> Vec<String> {
    let toml::Value::Table(table) = value else { return vec![key] };
    table.iter().flat_map(|(inner, value)| keys(format!("{key}.{inner}"), value)).collect()
}

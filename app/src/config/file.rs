//! `reqlore.toml`: what stands in it, and what may not.
//!
//! Trap: a file that nobody named lies in a repository that somebody may have cloned, so it does
//! not choose everything; who reads a setting asks [`File::named`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use reqlore_domain::project::ProjectKey;

use super::variable;
use crate::Failure;
use crate::settings::{self, FILE, FILE_VARIABLE, Flags};

/// The table of further projects.
const PROJECTS: &str = "projects";

/// The configuration file; empty when there is none.
pub(super) struct File {
    pub(super) path: PathBuf,
    /// Somebody asked for this very file.
    pub(super) named: bool,
    table: toml::Table,
}

impl File {
    pub(super) fn read(flags: &Flags, root: &Path) -> Result<Self, Failure> {
        let named = flags.config.clone().or_else(|| variable(FILE_VARIABLE).map(PathBuf::from));
        let path = named.clone().unwrap_or_else(|| root.join(FILE));
        let path = std::path::absolute(&path).unwrap_or(path);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && named.is_none() => {
                String::new()
            }
            Err(error) => {
                let path = path.display();
                return Err(Failure::refused(format!("{path} can't be read: {error}")));
            }
        };
        match text.parse() {
            Ok(table) => Ok(Self { path, named: named.is_some(), table }),
            Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
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
    pub(super) fn projects(&self, root: &Path) -> Result<BTreeMap<ProjectKey, PathBuf>, Failure> {
        let Some(projects) = self.table.get(PROJECTS) else { return Ok(BTreeMap::new()) };
        let path = self.path.display();
        let wrong = |what: String| Failure::usage(format!("{path}: {what}"));
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
    pub(super) fn check_keys(&self) -> Result<(), Failure> {
        let others = self.table.iter().filter(|(key, _)| *key != PROJECTS);
        let keys = others.flat_map(|(key, value)| keys(key.clone(), value));
        let unknown = |key: &String| !settings::all().any(|setting| setting.key == key);
        let Some(unknown) = keys.into_iter().find(unknown) else { return Ok(()) };
        let names: Vec<&str> = settings::all().map(|setting| setting.key).collect();
        let path = self.path.display();
        Err(Failure::usage(format!(
            "{path}: unknown setting {unknown:?}; known are {}",
            names.join(", ")
        )))
    }
}

/// The settings of a table and those in it, by their whole names.
fn keys(key: String, value: &toml::Value) -> Vec<String> {
    let toml::Value::Table(table) = value else { return vec![key] };
    table.iter().flat_map(|(inner, value)| keys(format!("{key}.{inner}"), value)).collect()
}

//! The configuration, resolved once: flags beat environment, environment beats file, file beats
//! default. Every value remembers where it came from.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use reqlore_domain::ports::projects::Slice;
use reqlore_domain::project::ProjectKey;

use crate::Failure;
use crate::settings::{FILE, FILE_VARIABLE, Flags, SETTINGS, Setting};
use crate::storage::Storage;

/// The table of further projects.
const PROJECTS: &str = "projects";

/// What everything else is built from. Adapters get their own part of it.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) root: PathBuf,
    pub(crate) storage: Storage,
    /// Further projects by their keys.
    pub(crate) projects: BTreeMap<ProjectKey, PathBuf>,
    /// What relative paths on the command line begin at.
    pub(crate) working_directory: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) requirements_directory: Option<String>,
    pub(crate) wrap_columns: usize,
    pub(crate) toolsets: Vec<Slice>,
    /// For indexes and models; `None` where the user has no place for such things.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) model: String,
    pub(crate) log: String,
    pub(crate) home: Option<PathBuf>,
    /// The login.
    pub(crate) user: Option<String>,
    /// Who git is told to name as the author.
    pub(crate) author: Option<String>,
    /// git's configuration of this user, the strongest file first.
    pub(crate) git: Vec<PathBuf>,
    values: Vec<Value>,
}

/// A setting's value as it was written, and where.
#[derive(Debug)]
struct Value {
    setting: Setting,
    text: String,
    source: String,
}

impl Config {
    pub(crate) fn resolve(flags: &Flags) -> Result<Self, Failure> {
        let working_directory = std::env::current_dir().map_err(|error| {
            Failure::refused(format!(
                "the working directory can't be used: {error}; name one with --root"
            ))
        })?;
        let root = flags.root.clone().or_else(|| variable("REQLORE_ROOT").map(PathBuf::from));
        let near =
            root.as_ref().map_or(working_directory.clone(), |root| working_directory.join(root));
        let file = File::read(flags, &near)?;
        let values: Vec<Value> =
            SETTINGS.iter().map(|s| Value::resolve(*s, flags, &file)).collect();
        file.check_keys()?;
        let get = |key| {
            values.iter().find(|value| value.setting.key == key).filter(|v| !v.text.is_empty())
        };

        let named = get("root").map_or_else(PathBuf::new, |value| PathBuf::from(&value.text));
        let root = working_directory.join(named);
        let root = root.canonicalize().map_err(|error| {
            Failure::refused(format!(
                "root: {} can't be used: {error}; name an existing folder",
                root.display()
            ))
        })?;
        let storage = match get("storage") {
            None => Storage::Fs(root.clone()),
            Some(value) if value.source.starts_with("file") && !file.named => {
                Storage::of_project(&value.text, &root, &value.source)?
            }
            Some(value) if value.source.starts_with("file") => {
                Storage::read(&value.text, &root, file.folder())?
            }
            Some(value) => Storage::read(&value.text, &root, &working_directory)?,
        };
        if let Some(value) = get("transport").filter(|value| value.text != "stdio") {
            return Err(Failure::usage(format!(
                "transport: {:?} is not built into this version; use stdio",
                value.text
            )));
        }
        let roots = get("roots").map(|value| roots(&value.text, &value.source)).transpose()?;
        let projects = file.projects(&root)?;
        let toolsets = get("toolsets").map(|value| toolsets(&value.text)).transpose()?;
        let cache = cache(get("cache"), file.named, &working_directory)?;
        Ok(Self {
            toolsets: toolsets.unwrap_or_default(),
            cache,
            model: get("search.model").map(|value| value.text.clone()).unwrap_or_default(),
            storage,
            projects,
            read_only: parse(get("read_only"), "true or false")?.unwrap_or(false),
            roots: roots.unwrap_or_default(),
            requirements_directory: get("sections.directory").map(|value| value.text.clone()),
            wrap_columns: parse(get("sections.wrap_columns"), "a number of characters, 0 for off")?
                .unwrap_or(0),
            log: get("log").map(|value| value.text.clone()).unwrap_or_default(),
            home: variable("HOME").map(PathBuf::from),
            user: variable("USER").or_else(|| variable("LOGNAME")),
            author: variable("GIT_AUTHOR_NAME"),
            git: git(),
            root,
            working_directory,
            values,
        })
    }

    /// Every setting with its value and where that came from, in the form of `reqlore.toml`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for Value { setting, text: value, source } in &self.values {
            let shown = match setting.key {
                "root" => quoted(&self.root.to_string_lossy()),
                "roots" => format!("{:?}", self.roots),
                "read_only" | "sections.wrap_columns" => value.clone(),
                _ => quoted(value),
            };
            let line = format!("{} = {shown}", setting.key);
            let names = [("flag", setting.flag), ("environment", setting.variable)];
            let spelled =
                |(kind, name): (&str, Option<&str>)| name.map(|name| format!("{kind} {name}"));
            let names: Vec<String> = names.into_iter().filter_map(spelled).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {}\n# ({})", setting.meaning, names.join(", "));
            let _ = writeln!(text, "{line:<40} # {source}\n");
        }
        for (key, root) in &self.projects {
            let _ =
                writeln!(text, "[projects.{key}]\nroot = {}\n", quoted(&root.to_string_lossy()));
        }
        text
    }
}

impl Value {
    fn resolve(setting: Setting, flags: &Flags, file: &File) -> Self {
        let found = |text, source: String| Self { setting, text, source };
        if let Some(text) = flags.get(setting.key) {
            return found(text, format!("flag {}", setting.flag.unwrap_or_default()));
        }
        if let Some((name, text)) = setting.variable.and_then(|name| Some((name, variable(name)?)))
        {
            return found(text, format!("environment {name}"));
        }
        if let Some(text) = file.get(setting.key) {
            return found(text, format!("file {}", file.path.display()));
        }
        found(setting.default.to_owned(), "default".to_owned())
    }
}

/// The folders that projects are fenced in by: better none than a hole.
fn roots(text: &str, source: &str) -> Result<Vec<PathBuf>, Failure> {
    let check = |root: &str| match Path::new(root) {
        path if path.is_absolute() && path.is_dir() => Ok(path.to_owned()),
        _ => Err(Failure::usage(format!(
            "roots: {root:?} ({source}) must be the absolute path of an existing folder"
        ))),
    };
    if source.starts_with("file") {
        return text.split_terminator('\n').map(check).collect();
    }
    text.split(':').map(check).collect()
}

/// The toolsets of a list.
fn toolsets(text: &str) -> Result<Vec<Slice>, Failure> {
    let known = |name: &str| Slice::ALL.into_iter().find(|slice| slice.name() == name);
    let names = text.split([',', '\n']).map(str::trim).filter(|name| !name.is_empty());
    let toolset = |name: &str| {
        known(name).ok_or_else(|| {
            let names = Slice::ALL.map(Slice::name).join(", ");
            Failure::usage(format!("toolsets: {name:?} is none; there are {names}"))
        })
    };
    names.map(toolset).collect()
}

/// The folder for caches. A repository that somebody cloned must not choose where models and
/// indexes come from, so a file that nobody named does not count.
fn cache(value: Option<&Value>, named: bool, base: &Path) -> Result<Option<PathBuf>, Failure> {
    match value {
        None => Ok(user_cache()),
        Some(Value { text, source, .. }) if source.starts_with("file") && !named => {
            Err(Failure::usage(format!(
                "cache: {text:?} ({source}) may not be set by a project's own file; use \
                 REQLORE_CACHE, or name the file with --config"
            )))
        }
        Some(value) if value.text == "off" => Ok(None),
        Some(value) => Ok(Some(base.join(&value.text))),
    }
}

/// Where git looks for this user's configuration.
fn git() -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let named = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = named.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let own = home.map(|home| home.join(".gitconfig"));
    own.into_iter().chain(folder.map(|folder| folder.join("git/config"))).collect()
}

/// Where this user's programs keep what they can make again.
fn user_cache() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let named = variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
    named.or_else(home).map(|cache| cache.join("reqlore"))
}

fn parse<T: std::str::FromStr>(value: Option<&Value>, wanted: &str) -> Result<Option<T>, Failure> {
    let Some(value) = value else { return Ok(None) };
    let parsed = value.text.parse().map(Some);
    parsed.map_err(|_| {
        let (key, source) = (value.setting.key, &value.source);
        Failure::usage(format!("{key}: {:?} ({source}) must be {wanted}", value.text))
    })
}

/// The configuration file; empty when there is none.
struct File {
    path: PathBuf,
    /// Somebody asked for this very file.
    named: bool,
    table: toml::Table,
}

impl File {
    fn read(flags: &Flags, root: &Path) -> Result<Self, Failure> {
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
    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("/"))
    }

    fn get(&self, key: &str) -> Option<String> {
        let value = match key.split_once('.') {
            Some((table, key)) => self.table.get(table)?.get(key)?,
            None => self.table.get(key)?,
        };
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

    /// The projects beside the root: `[projects.KEY] root = "…"`, relative to the file.
    fn projects(&self, root: &Path) -> Result<BTreeMap<ProjectKey, PathBuf>, Failure> {
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
    fn check_keys(&self) -> Result<(), Failure> {
        let known = |key: &str| SETTINGS.iter().any(|setting| setting.key == key);
        for (key, value) in self.table.iter().filter(|(key, _)| *key != PROJECTS) {
            let keys: Vec<String> = match value {
                toml::Value::Table(table) => {
                    table.keys().map(|inner| format!("{key}.{inner}")).collect()
                }
                _ => vec![key.clone()],
            };
            if let Some(unknown) = keys.iter().find(|key| !known(key)) {
                let names: Vec<&str> = SETTINGS.iter().map(|setting| setting.key).collect();
                let path = self.path.display();
                return Err(Failure::usage(format!(
                    "{path}: unknown setting {unknown:?}; known are {}",
                    names.join(", ")
                )));
            }
        }
        Ok(())
    }
}

/// The one place where the environment is read. An empty variable is not set.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

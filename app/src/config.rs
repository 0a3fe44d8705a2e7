//! The configuration, resolved once: flags beat environment, environment beats file, file beats
//! default. Every value remembers where it came from.

mod file;
mod http;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project_key::ProjectKey;

use crate::exit::CommandError;
use crate::settings::{self, Flags, Setting, Syntax};
use crate::storage::Storage;
use crate::telemetry::LogFormat;

pub(crate) use http::Http;

use file::File;

/// The resolved settings. Adapters get their own part of them.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) root: PathBuf,
    pub(crate) storage: Storage,
    /// `None` is a server on standard input and output.
    pub(crate) http: Option<Http>,
    /// True if every call is recorded. `None` records calls over HTTP only.
    pub(crate) audit: Option<bool>,
    pub(crate) audit_keep_days: u32,
    /// Further projects by their keys.
    pub(crate) projects: BTreeMap<ProjectKey, PathBuf>,
    /// The base of relative paths on the command line.
    pub(crate) working_directory: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) requirements_directory: Option<String>,
    pub(crate) wrap_columns: usize,
    pub(crate) toolsets: Vec<Toolset>,
    /// For indexes and models; `None` keeps nothing.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) model: String,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) home: Option<PathBuf>,
    /// The configuration file, if there is one.
    pub(crate) file: Option<PathBuf>,
    values: Values,
}

/// A setting's value as it was written, and its source.
#[derive(Debug)]
struct Value {
    setting: Setting,
    text: String,
    source: String,
}

#[derive(Debug)]
struct Values(Vec<Value>);

impl Values {
    fn value(&self, key: &str) -> Result<&Value, CommandError> {
        let found = self.0.iter().find(|value| value.setting.key == key);
        found.ok_or_else(|| CommandError::refused(format!("{key} is not a setting")))
    }

    /// `None` if the value is empty.
    fn get(&self, key: &str) -> Option<&Value> {
        self.value(key).ok().filter(|value| !value.text.is_empty())
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).map_or("", |value| &value.text)
    }

    fn list(&self, key: &str) -> Vec<&str> {
        items(self.text(key)).collect()
    }

    fn parse<T: FromStr>(&self, key: &str, expected: &str) -> Result<T, CommandError> {
        let value = self.value(key)?;
        value.text_or_default().parse().map_err(|_| value.must_be(expected))
    }

    fn number(&self, key: &str) -> Result<u32, CommandError> {
        let value = self.value(key)?;
        let Syntax::Number(least, most) = value.setting.syntax else {
            return Err(value.must_be("a setting with bounds"));
        };
        let number = value.text_or_default().parse().ok();
        number.filter(|number| (least..=most).contains(number)).ok_or_else(|| match most {
            u32::MAX => value.must_be(&format!("a number of at least {least}")),
            _ => value.must_be(&format!("a number from {least} to {most}")),
        })
    }

    fn choice<T: Copy>(&self, key: &str, choices: &[(&str, T)]) -> Result<T, CommandError> {
        let value = self.value(key)?;
        let chosen = choices.iter().find(|(name, _)| *name == value.text_or_default());
        chosen.map(|(_, choice)| *choice).ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            value.must_be(&names.join(" or "))
        })
    }
}

/// The items between commas or line ends.
fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split([',', '\n']).map(str::trim).filter(|item| !item.is_empty())
}

impl Config {
    pub(crate) fn resolve(flags: &Flags) -> Result<Self, CommandError> {
        let working_directory = std::env::current_dir().map_err(|error| {
            CommandError::refused(format!(
                "the working directory can't be used: {error}; name one with --root"
            ))
        })?;
        let file =
            File::read(flags, &working_directory.join(named_root(flags).unwrap_or_default()))?;
        let values = Values(settings::all().map(|s| Value::resolve(s, flags, &file)).collect());
        file.check_keys()?;
        let root = existing(&working_directory.join(values.text("root")))?;
        let get = |key| values.get(key);
        Ok(Self {
            storage: storage(get("storage"), &file, &root, &working_directory)?,
            roots: get("roots").map_or(Ok(Vec::new()), roots)?,
            projects: file.projects(&root)?,
            toolsets: toolsets(values.text("toolsets"))?,
            cache: cache(get("cache"), file.named, &working_directory)?,
            model: values.text("search.model").to_owned(),
            http: http::read(&values, &file)?,
            audit: values
                .choice("audit", &[("on", Some(true)), ("off", Some(false)), ("auto", None)])?,
            audit_keep_days: values.number("audit_keep_days")?,
            read_only: values.choice("read_only", &[("true", true), ("false", false)])?,
            requirements_directory: get("sections.directory").map(|value| value.text.clone()),
            wrap_columns: values.number("sections.wrap_columns")? as usize,
            log: values.text("log").to_owned(),
            log_format: values
                .choice("log_format", &[("text", LogFormat::Text), ("json", LogFormat::Json)])?,
            home: variable("HOME").map(PathBuf::from),
            file: file.is_found.then_some(file.path),
            root,
            working_directory,
            values,
        })
    }

    /// A database at its default place, while the files are used by default.
    pub(crate) fn unselected_database(&self) -> Option<Storage> {
        if self.values.value("storage").ok()?.source != "default" {
            return None;
        }
        ["sqlite", "sled"]
            .iter()
            .filter_map(|name| Storage::read(name, &self.root, &self.root).ok())
            .find(|storage| storage.place().symlink_metadata().is_ok())
    }

    /// The flags that selected the storage, for the next command to suggest.
    pub(crate) fn store_flags(&self) -> String {
        let mut flags = String::new();
        for Value { source, text, .. } in
            ["root", "storage"].iter().filter_map(|k| self.values.get(k))
        {
            if let Some(flag) = source.strip_prefix("flag ") {
                flags += &format!("{flag} {text} ");
            }
        }
        flags
    }

    /// Every setting with its value and source, in the syntax of `reqlore.toml`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for Value { setting, text: value, source } in &self.values.0 {
            let shown = match (setting.key, setting.syntax) {
                ("root", _) => quoted(&self.root.to_string_lossy()),
                ("roots", _) => format!("{:?}", self.roots),
                (_, Syntax::List) => format!("{:?}", items(value).collect::<Vec<_>>()),
                (_, Syntax::Text) => quoted(value),
                (_, Syntax::Bool | Syntax::Number(..)) => value.clone(),
            };
            let flag = setting.flag.map(|name| format!("flag {name}"));
            let variable = setting.variable.map(|name| format!("environment {name}"));
            let names: Vec<String> = flag.into_iter().chain(variable).collect();
            text += &format!("# {}\n", setting.meaning);
            if !names.is_empty() {
                text += &format!("# ({})\n", names.join(", "));
            }
            text += &format!("{:<40} # {source}\n\n", format!("{} = {shown}", setting.key));
        }
        for (key, root) in &self.projects {
            text += &format!("[projects.{key}]\nroot = {}\n\n", quoted(&root.to_string_lossy()));
        }
        text
    }
}

impl Value {
    /// True if it comes from the project's own file, which may be part of a cloned repository.
    fn is_of_project(&self, is_named: bool) -> bool {
        self.source.starts_with("file") && !is_named
    }

    fn text_or_default(&self) -> &str {
        if self.text.is_empty() { self.setting.default } else { &self.text }
    }

    fn must_be(&self, expected: &str) -> CommandError {
        let (key, source) = (self.setting.key, &self.source);
        CommandError::usage(format!("{key}: {:?} ({source}) must be {expected}", self.text))
    }

    fn not_of_project(&self, when: &str) -> CommandError {
        let Self { setting, text, source } = self;
        let other = setting.variable.or(setting.flag).map(|name| format!("use {name}, or "));
        CommandError::usage(format!(
            "{}: {text:?} ({source}) may not be set by a project's own file{when}; {}name the \
             file with --config",
            setting.key,
            other.unwrap_or_default()
        ))
    }

    fn resolve(setting: Setting, flags: &Flags, file: &File) -> Self {
        let found = |text, source: String| Self { setting, text, source };
        if let Some(text) = flags.get(setting.key) {
            return found(text, format!("flag {}", setting.flag.unwrap_or_default()));
        }
        if let Some(name) = setting.variable
            && let Some(text) = variable(name)
        {
            return found(text, format!("environment {name}"));
        }
        if let Some(text) = file.get(setting.key) {
            return found(text.clone(), format!("file {}", file.path.display()));
        }
        found(setting.default.to_owned(), "default".to_owned())
    }
}

/// The root as a flag or the environment names it.
pub(crate) fn named_root(flags: &Flags) -> Option<PathBuf> {
    flags.root.clone().or_else(|| variable("REQLORE_ROOT").map(PathBuf::from))
}

pub(crate) fn existing(root: &Path) -> Result<PathBuf, CommandError> {
    root.canonicalize().map_err(|error| {
        CommandError::refused(format!(
            "root: {} can't be used: {error}; name an existing folder",
            root.display()
        ))
    })
}

fn storage(
    value: Option<&Value>,
    file: &File,
    root: &Path,
    base: &Path,
) -> Result<Storage, CommandError> {
    let Some(value) = value else { return Ok(Storage::Fs(root.to_owned())) };
    if value.is_of_project(file.named) {
        return Storage::of_project(&value.text, root, &value.source);
    }
    let is_of_file = value.source.starts_with("file");
    Storage::read(&value.text, root, if is_of_file { file.folder() } else { base })
}

/// The folders that requests may name as project roots. An invalid one is an error, because a
/// shorter list would not restrict anything.
fn roots(value: &Value) -> Result<Vec<PathBuf>, CommandError> {
    let Value { text, source, .. } = value;
    let separator = if source.starts_with("file") { '\n' } else { ':' };
    let list = text.strip_suffix('\n').unwrap_or(text);
    let mut folders = Vec::new();
    for folder in list.split(separator) {
        if !Path::new(folder).is_absolute() || !Path::new(folder).is_dir() {
            return Err(CommandError::usage(format!(
                "roots: {folder:?} ({source}) must be the absolute path of an existing folder"
            )));
        }
        folders.push(PathBuf::from(folder));
    }
    Ok(folders)
}

/// Parses a list of toolsets.
pub(crate) fn toolsets(text: &str) -> Result<Vec<Toolset>, CommandError> {
    let toolset = |name: &str| {
        Toolset::ALL.into_iter().find(|toolset| toolset.name() == name).ok_or_else(|| {
            let names = Toolset::ALL.map(Toolset::name).join(", ");
            CommandError::usage(format!("toolsets: {name:?} is not a toolset; use {names}"))
        })
    };
    items(text).map(toolset).collect()
}

/// The folder for caches. A project's own file must not set it: a cloned repository could bring
/// its own models and indexes.
fn cache(value: Option<&Value>, named: bool, base: &Path) -> Result<Option<PathBuf>, CommandError> {
    match value {
        None => Ok(user_cache()),
        Some(value) if value.is_of_project(named) => Err(value.not_of_project("")),
        Some(value) if value.text == "off" => Ok(None),
        Some(value) => Ok(Some(base.join(&value.text))),
    }
}

/// The user's cache folder.
fn user_cache() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let named = variable("XDG_CACHE_HOME").map(PathBuf::from).and_then(absolute);
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".cache"));
    named.or_else(home).map(|cache| cache.join("reqlore"))
}

/// The user's folder for state that outlives a process.
pub(crate) fn state(home: &Path) -> PathBuf {
    let named = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    named.unwrap_or_else(|| home.join(".local/state")).join("reqlore")
}

/// The one place where the environment is read. An empty variable is not set.
#[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

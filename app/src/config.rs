//! The configuration, resolved once: flags beat environment, environment beats file, file beats
//! default. Every value remembers where it came from.

mod file;
mod http;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::project::ProjectKey;

use crate::exit::CommandError;
use crate::limits;
use crate::setting::Setting;
use crate::settings::{self, Flags};
use crate::storage::Storage;
use crate::telemetry::Format;

pub(crate) use http::Http;

use file::File;

/// What everything else is built from. Adapters get their own part of it.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) root: PathBuf,
    pub(crate) storage: Storage,
    /// How clients connect: over HTTP, else over standard input and output.
    pub(crate) http: Option<Http>,
    /// Is every call recorded? Not set: where there is a team, and so over HTTP.
    pub(crate) audit: Option<bool>,
    pub(crate) audit_keep_days: u32,
    /// Further projects by their keys.
    pub(crate) projects: BTreeMap<ProjectKey, PathBuf>,
    /// What relative paths on the command line begin at.
    pub(crate) working_directory: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) requirements_directory: Option<String>,
    pub(crate) wrap_columns: usize,
    pub(crate) toolsets: Vec<Toolset>,
    /// For indexes and models; `None` where the user has no place for such things.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) model: String,
    pub(crate) log: String,
    pub(crate) log_format: Format,
    pub(crate) home: Option<PathBuf>,
    /// The login.
    pub(crate) user: Option<String>,
    /// Who git is told to name as the author.
    pub(crate) author: Option<String>,
    /// git's configuration of this user, the strongest file first.
    pub(crate) git: Vec<PathBuf>,
    values: Values,
}

/// A setting's value as it was written, and where.
#[derive(Debug)]
struct Value {
    setting: Setting,
    text: String,
    source: String,
}

#[derive(Debug)]
struct Values(Vec<Value>);

impl Values {
    /// What is set, and not to nothing.
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|value| value.setting.key == key).filter(|v| !v.text.is_empty())
    }

    fn text(&self, key: &str) -> &str {
        self.get(key).map_or("", |value| &value.text)
    }

    /// What stands between commas, or one a line.
    fn list(&self, key: &str) -> impl Iterator<Item = &str> {
        self.text(key).split([',', '\n']).map(str::trim).filter(|item| !item.is_empty())
    }

    fn parse<T: std::str::FromStr>(
        &self,
        key: &str,
        wanted: &str,
    ) -> Result<Option<T>, CommandError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.text.parse().map(Some).map_err(|_| value.must_be(wanted))
    }
}

impl Config {
    pub(crate) fn resolve(flags: &Flags) -> Result<Self, CommandError> {
        let working_directory = std::env::current_dir().map_err(|error| {
            CommandError::refused(format!(
                "the working directory can't be used: {error}; name one with --root"
            ))
        })?;
        let root = flags.root.clone().or_else(|| variable("REQLORE_ROOT").map(PathBuf::from));
        let near =
            root.as_ref().map_or(working_directory.clone(), |root| working_directory.join(root));
        let file = File::read(flags, &near)?;
        let values = settings::all().map(|s| Value::resolve(s, flags, &file)).collect();
        let values = Values(values);
        file.check_keys()?;
        let get = |key| values.get(key);

        let root = existing(&working_directory.join(values.text("root")))?;
        let storage = storage(get("storage"), &file, &root, &working_directory)?;
        let roots = get("roots").map(|value| roots(&value.text, &value.source)).transpose()?;
        let projects = file.projects(&root)?;
        let toolsets = get("toolsets").map(|value| toolsets(&value.text)).transpose()?;
        let cache = cache(get("cache"), file.named, &working_directory)?;
        Ok(Self {
            toolsets: toolsets.unwrap_or_default(),
            cache,
            model: values.text("search.model").to_owned(),
            storage,
            projects,
            http: http::read(&values, &file)?,
            audit: audit(get("audit"))?,
            audit_keep_days: values
                .parse("audit_keep_days", "a number of days, at least 1")?
                .map_or(400, NonZeroU32::get),
            read_only: values.parse("read_only", "true or false")?.unwrap_or(false),
            roots: roots.unwrap_or_default(),
            requirements_directory: get("sections.directory").map(|value| value.text.clone()),
            wrap_columns: values
                .parse("sections.wrap_columns", "a number of characters, 0 for off")?
                .unwrap_or(0),
            log: values.text("log").to_owned(),
            log_format: values.parse("log_format", "text or json")?.unwrap_or(Format::Text),
            home: variable("HOME").map(PathBuf::from),
            user: variable("USER").or_else(|| variable("LOGNAME")),
            author: variable("GIT_AUTHOR_NAME"),
            git: git(),
            root,
            working_directory,
            values,
        })
    }

    /// A database at its usual place, while nobody said which storage is meant and the files are.
    pub(crate) fn overlooked(&self) -> Option<Storage> {
        let of_storage = |value: &&Value| value.setting.key == "storage";
        let value = self.values.0.iter().find(of_storage)?;
        let usual = |name| Storage::read(name, &self.root, &self.root).ok();
        let is_there = |storage: &Storage| storage.place().symlink_metadata().is_ok();
        let mut databases = ["sqlite", "sled"].into_iter().filter_map(usual);
        databases.find(is_there).filter(|_| value.source == "default")
    }

    /// The flags of this command line that say of which store it speaks, for one that comes next.
    pub(crate) fn store_flags(&self) -> String {
        let of_store = |value: &&Value| {
            value.source.starts_with("flag") && ["root", "storage"].contains(&value.setting.key)
        };
        let given = self.values.0.iter().filter(of_store);
        let flag = |value: &Value| Some(format!("{} {} ", value.setting.flag?, value.text));
        given.filter_map(flag).collect()
    }

    /// Every setting with its value and where that came from, in the form of `reqlore.toml`.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for Value { setting, text: value, source } in &self.values.0 {
            let shown = match setting.key {
                "root" => quoted(&self.root.to_string_lossy()),
                "roots" => format!("{:?}", self.roots),
                key @ ("http.hosts" | "http.origins") => {
                    format!("{:?}", self.values.list(key).collect::<Vec<_>>())
                }
                "read_only" | "sections.wrap_columns" | "audit_keep_days" => value.clone(),
                key if key.starts_with(limits::PREFIX) => value.clone(),
                _ => quoted(value),
            };
            let line = format!("{} = {shown}", setting.key);
            let names = [("flag", setting.flag), ("environment", setting.variable)];
            let spelled =
                |(kind, name): (&str, Option<&str>)| name.map(|name| format!("{kind} {name}"));
            let names: Vec<String> = names.into_iter().filter_map(spelled).collect();
            // Writing to a string does not fail.
            let _ = writeln!(text, "# {}", setting.meaning);
            if !names.is_empty() {
                let _ = writeln!(text, "# ({})", names.join(", "));
            }
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
    /// Did a file say so that nobody named?
    fn is_of_project(&self, is_named: bool) -> bool {
        self.source.starts_with("file") && !is_named
    }

    fn must_be(&self, wanted: &str) -> CommandError {
        let (key, source) = (self.setting.key, &self.source);
        CommandError::usage(format!("{key}: {:?} ({source}) must be {wanted}", self.text))
    }

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
    match value {
        None => Ok(Storage::Fs(root.to_owned())),
        Some(value) if value.is_of_project(file.named) => {
            Storage::of_project(&value.text, root, &value.source)
        }
        Some(value) if value.source.starts_with("file") => {
            Storage::read(&value.text, root, file.folder())
        }
        Some(value) => Storage::read(&value.text, root, base),
    }
}

/// `None` is for the transport to decide.
fn audit(value: Option<&Value>) -> Result<Option<bool>, CommandError> {
    match value.map(|value| (value, &*value.text)) {
        None | Some((_, "auto")) => Ok(None),
        Some((_, "on")) => Ok(Some(true)),
        Some((_, "off")) => Ok(Some(false)),
        Some((value, _)) => Err(value.must_be("on, off or auto")),
    }
}

/// The folders that projects are fenced in by: better none than a hole.
fn roots(text: &str, source: &str) -> Result<Vec<PathBuf>, CommandError> {
    let check = |root: &str| match Path::new(root) {
        path if path.is_absolute() && path.is_dir() => Ok(path.to_owned()),
        _ => Err(CommandError::usage(format!(
            "roots: {root:?} ({source}) must be the absolute path of an existing folder"
        ))),
    };
    if source.starts_with("file") {
        return text.split_terminator('\n').map(check).collect();
    }
    text.split(':').map(check).collect()
}

/// The toolsets of a list.
pub(crate) fn toolsets(text: &str) -> Result<Vec<Toolset>, CommandError> {
    let known = |name: &str| Toolset::ALL.into_iter().find(|slice| slice.name() == name);
    let names = text.split([',', '\n']).map(str::trim).filter(|name| !name.is_empty());
    let toolset = |name: &str| {
        known(name).ok_or_else(|| {
            let names = Toolset::ALL.map(Toolset::name).join(", ");
            CommandError::usage(format!("toolsets: {name:?} is none; there are {names}"))
        })
    };
    names.map(toolset).collect()
}

/// The folder for caches. A repository that somebody cloned must not choose where models and
/// indexes come from, so a file that nobody named does not count.
fn cache(value: Option<&Value>, named: bool, base: &Path) -> Result<Option<PathBuf>, CommandError> {
    match value {
        None => Ok(user_cache()),
        Some(value) if value.is_of_project(named) => {
            let Value { text, source, .. } = value;
            Err(CommandError::usage(format!(
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

/// Where this user's programs keep what outlives them and is no document.
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

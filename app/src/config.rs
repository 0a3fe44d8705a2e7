//! The configuration: flags override the environment, which overrides the file and the defaults.
//! Every value keeps its source.

mod file;
mod found_file;
mod http;
pub(crate) mod paths;
mod values;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use reqlore_application::RetentionDays;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::AnswerFormat;
use reqlore_domain::project_key::ProjectKey;
use reqlore_storage_fs::{FoundRoot, RootSearch};

pub(crate) use http::HttpSettings;

use self::paths::{check_path, env_variable, home_folder, local_data_folder, resolve_links};
use self::values::{SettingValue, SettingValues, split_list};
use crate::exit::{CommandError, Result};
use crate::settings::{SettingFlags, ValueSyntax};
use crate::storage_spec::StorageSpec;
use crate::system::{PATH_SEPARATOR, TEMPORARY_VARIABLE};
use crate::telemetry::LogFormat;
use file::ConfigFile;

/// The resolved settings. Adapters get their own part of them.
#[derive(Debug)]
pub(crate) struct AppConfig {
    pub(crate) root: PathBuf,
    /// `None` if a setting names the root.
    pub(crate) found_root: Option<FoundRoot>,
    pub(crate) storage: StorageSpec,
    /// `None` is a server on standard input and output.
    pub(crate) http: Option<HttpSettings>,
    /// True if every call is recorded. `None` records calls over HTTP only.
    pub(crate) audit: Option<bool>,
    pub(crate) keep_days: RetentionDays,
    /// Further projects by their keys.
    pub(crate) projects: BTreeMap<ProjectKey, PathBuf>,
    /// The base of relative paths on the command line.
    pub(crate) working_directory: PathBuf,
    pub(crate) read_only: bool,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) requirements_directory: Option<String>,
    pub(crate) wrap_columns: usize,
    pub(crate) write_guard: bool,
    pub(crate) index_memory_bytes: usize,
    pub(crate) toolsets: ToolsetChoice,
    pub(crate) answers: AnswerFormat,
    /// For indexes and models; `None` keeps nothing.
    pub(crate) cache: Option<PathBuf>,
    pub(crate) model: String,
    pub(crate) log: String,
    pub(crate) log_format: LogFormat,
    pub(crate) home: Option<PathBuf>,
    /// The configuration file, if there is one.
    pub(crate) file: Option<PathBuf>,
    values: SettingValues,
}

impl AppConfig {
    pub(crate) fn resolve(flags: &SettingFlags) -> Result<Self> {
        let working_directory = std::env::current_dir().map_err(|error| {
            CommandError::failure(format!(
                "the working directory can't be used: {error}; pass --root"
            ))
        })?;
        // The root that locates the file can't come from the file itself.
        let mut base = working_directory.clone();
        let mut file = ConfigFile::load(flags, &base.join(named_root(flags).unwrap_or_default()))?;
        let mut values = SettingValues::read(flags, &file);
        let mut found_root = None;
        if values.non_empty("root").is_none() {
            let found = find_root(&base, values.text_or_empty("sections.directory"))?;
            base.clone_from(&found.folder);
            // A named file is the same, and may be a pipe.
            if !file.is_explicit {
                file = ConfigFile::load(flags, &base)?;
                values = SettingValues::read(flags, &file);
            }
            found_root = values.non_empty("root").is_none().then_some(found);
        }
        file.check_keys()?;
        found_file::check_values(&values, &file, &base)?;
        for key in ["root", "sections.directory", "cache"] {
            check_path(key, values.text_or_empty(key))?;
        }
        let root = existing_folder(&base.join(values.text_or_empty("root")))?;
        let roots = match values.non_empty("roots") {
            Some(value) => parse_roots(value)?,
            None => Vec::new(),
        };
        let (storage, cache) = (values.non_empty("storage"), values.non_empty("cache"));
        let requirements_directory = values.non_empty("sections.directory");
        let storage = resolve_storage(storage, &file, &root, &working_directory)?;
        found_file::check_storage_settings(&values, &file, &storage)?;
        Ok(Self {
            storage,
            roots,
            projects: file.additional_projects(&root)?,
            toolsets: parse_toolsets(values.text_or_empty("toolsets"))?,
            answers: values
                .parse_choice("answers", &AnswerFormat::ALL.map(|form| (form.name(), form)))?,
            cache: cache_folder(cache, &working_directory),
            model: values.text_or_empty("search.model").to_owned(),
            http: http::read_http(&values)?,
            audit: values.parse_choice(
                "audit",
                &[("on", Some(true)), ("off", Some(false)), ("auto", None)],
            )?,
            keep_days: RetentionDays {
                audit: values.parse_number("audit_keep_days")?,
                history: values.parse_number("history_keep_days")?,
            },
            read_only: values.parse_choice("read_only", &[("true", true), ("false", false)])?,
            requirements_directory: requirements_directory.map(|value| value.text.clone()),
            write_guard: values.parse_choice("write_guard", &[("on", true), ("off", false)])?,
            wrap_columns: values.parse_number("sections.wrap_columns")? as usize,
            index_memory_bytes: (values.parse_number("search.memory_mib")? as usize) << 20,
            log: values.text_or_empty("log").to_owned(),
            log_format: values.parse_choice(
                "log_format",
                &[("text", LogFormat::Text), ("json", LogFormat::Json)],
            )?,
            home: home_folder(),
            file: file.is_found.then_some(file.path),
            root,
            found_root,
            working_directory,
            values,
        })
    }

    /// The log level of a command that prints its own result: without a setting, warnings only.
    pub(crate) fn quiet_log(&self) -> &str {
        let is_set = self.values.require_value("log").is_ok_and(|value| value.source != "default");
        if is_set { &self.log } else { "warn" }
    }

    /// The address of the local pages: that of `--listen` only, because a project's file and the
    /// environment configure a server.
    pub(crate) fn board_address(&self) -> Result<Option<SocketAddr>> {
        let value = self.values.require_value("http.listen")?;
        if !value.source.starts_with("flag") {
            return Ok(None);
        }
        match value.text.parse::<SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(Some(address)),
            _ => Err(value.invalid_value("an address of this machine, like 127.0.0.1:8080")),
        }
    }

    /// A database at its default path, while the files are used by default.
    pub(crate) fn unselected_database(&self) -> Option<StorageSpec> {
        if self.values.require_value("storage").ok()?.source != "default" {
            return None;
        }
        for name in ["sqlite", "sled"] {
            if let Ok(storage) = StorageSpec::parse(name, &self.root, &self.root)
                && storage.path().is_some_and(|path| path.symlink_metadata().is_ok())
            {
                return Some(storage);
            }
        }
        None
    }

    /// The flags that selected the storage, for the next command to suggest.
    pub(crate) fn store_flags(&self) -> String {
        let mut flags = String::new();
        for key in ["root", "storage"] {
            // Only flags: a variable or a file applies to the next command, too.
            if let Some(SettingValue { source, text, .. }) = self.values.non_empty(key)
                && let Some(flag) = source.strip_prefix("flag ")
            {
                flags += &format!("{flag} {text} ");
            }
        }
        flags
    }

    /// Every setting with its value and source, in the syntax of `reqlore.toml`.
    pub(crate) fn to_toml(&self) -> String {
        let mut text = String::new();
        for SettingValue { setting, text: value, source } in &self.values.0 {
            let shown = match (setting.key, setting.syntax) {
                ("root", _) => toml_string(&self.root.to_string_lossy()),
                ("roots", _) => format!("{:?}", self.roots),
                (_, ValueSyntax::List) => format!("{:?}", split_list(value)),
                (_, ValueSyntax::Text) => toml_string(value),
                (_, ValueSyntax::Bool | ValueSyntax::Number(..)) => value.clone(),
            };
            let mut names = Vec::new();
            if let Some(flag) = setting.flag {
                names.push(format!("flag {flag}"));
            }
            if let Some(variable) = setting.variable {
                names.push(format!("environment {variable}"));
            }
            text += &format!("# {}\n", setting.meaning);
            if !names.is_empty() {
                text += &format!("# ({})\n", names.join(", "));
            }
            if let Some(rule) = setting.found_file.description() {
                text += &format!("# (found file: {rule})\n");
            }
            let found = self.found_root.as_ref().filter(|_| setting.key == "root");
            let source = found.and_then(|found| found.reason.as_ref()).unwrap_or(source);
            text += &format!("{:<40} # {source}\n\n", format!("{} = {shown}", setting.key));
        }
        for (key, root) in &self.projects {
            text +=
                &format!("[projects.{key}]\nroot = {}\n\n", toml_string(&root.to_string_lossy()));
        }
        text
    }
}

/// Returns the error of a server in the project, if its `reqlore.toml` sets what only a named file
/// may set.
pub(crate) fn found_file_refusal(flags: &SettingFlags, project: &Path) -> Option<CommandError> {
    let file = ConfigFile::load(flags, project).ok()?;
    let flags = SettingFlags { root: None, ..flags.clone() };
    let values = SettingValues::read(&flags, &file);
    found_file::check_values(&values, &file, project).err()
}

/// The root as a flag or the environment names it.
fn named_root(flags: &SettingFlags) -> Option<PathBuf> {
    flags.root.clone().or_else(|| env_variable("REQLORE_ROOT").map(PathBuf::from))
}

/// Finds the root of the project around a folder. The error names a folder that can't be one.
fn find_root(folder: &Path, requirements_directory: &str) -> Result<FoundRoot> {
    let temporary = env_variable(TEMPORARY_VARIABLE).map(PathBuf::from);
    let [home, temporary] =
        [home_folder(), temporary].map(|folder| folder.map(|folder| resolve_links(&folder)));
    let requirements_directory = Some(requirements_directory.to_owned());
    let search = RootSearch { home, temporary, requirements_directory };
    search.find(folder).map_err(CommandError::failure)
}

/// The root without the settings of a file, which may be invalid.
pub(crate) fn project_folder(flags: &SettingFlags) -> Result<PathBuf> {
    let root = named_root(flags).unwrap_or_else(|| PathBuf::from("."));
    check_path("root", &root.to_string_lossy())?;
    let folder = existing_folder(&root)?;
    if named_root(flags).is_some() {
        return Ok(folder);
    }
    let requirements = env_variable("REQLIX_REQ_REL_PATH").unwrap_or_default();
    Ok(find_root(&folder, &requirements)?.folder)
}

fn existing_folder(root: &Path) -> Result<PathBuf> {
    let resolved = dunce::canonicalize(root).and_then(|folder| {
        if folder.is_dir() { Ok(folder) } else { Err(ErrorKind::NotADirectory.into()) }
    });
    resolved.map_err(|error| {
        CommandError::failure(format!(
            "root: {} can't be used: {error}; choose an existing folder",
            root.display()
        ))
    })
}

fn resolve_storage(
    value: Option<&SettingValue>,
    file: &ConfigFile,
    root: &Path,
    base: &Path,
) -> Result<StorageSpec> {
    let Some(value) = value else {
        return StorageSpec::Fs(root.to_owned()).require_supported();
    };
    if value.source.starts_with("flag") {
        return StorageSpec::parse(&value.text, root, base);
    }
    let base = match (value.is_from_file(), file.is_explicit) {
        (false, _) => base,
        (true, true) => file.base_folder(),
        (true, false) => root,
    };
    let storage = StorageSpec::parse_private(&value.text, root, base)?;
    if storage.has_password() && value.is_from_file() && !file.is_private() {
        return Err(CommandError::usage_error(format!(
            "storage: the URL in {} has a password, and other users can read the file; run `chmod \
             600` on it, or set PGPASSFILE to the path of a password file",
            file.path.display()
        )));
    }
    Ok(storage)
}

/// The folders that requests may name as project roots. An invalid folder is an error: without it
/// the list could become empty, which allows every folder.
fn parse_roots(value: &SettingValue) -> Result<Vec<PathBuf>> {
    let SettingValue { text, source, .. } = value;
    // The file has one folder per line; the variable is separated like PATH.
    let separator = if source.starts_with("file") { '\n' } else { PATH_SEPARATOR };
    let list = text.strip_suffix('\n').unwrap_or(text);
    let mut folders = Vec::new();
    for folder in list.split(separator) {
        check_path("roots", folder)?;
        if !Path::new(folder).is_absolute() || !Path::new(folder).is_dir() {
            return Err(CommandError::usage_error(format!(
                "roots: {folder:?} ({source}) must be the absolute path of an existing folder"
            )));
        }
        folders.push(PathBuf::from(folder));
    }
    Ok(folders)
}

/// The value of the setting `toolsets`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ToolsetChoice {
    pub(crate) enabled: Vec<Toolset>,
    /// The toolsets whose tools are all listed. Of the others, only the core tools are.
    pub(crate) listed: Vec<Toolset>,
}

/// Parses a list of toolsets, which may contain `core`.
pub(crate) fn parse_toolsets(text: &str) -> Result<ToolsetChoice> {
    let mut choice = ToolsetChoice::default();
    let mut is_core = false;
    for name in split_list(text) {
        if name == Toolset::CORE_NAME {
            is_core = true;
            continue;
        }
        let Some(toolset) = Toolset::ALL.into_iter().find(|toolset| toolset.name() == name) else {
            let names = Toolset::ALL.map(Toolset::name).join(", ");
            return Err(CommandError::usage_error(format!(
                "toolsets: {name:?} is not a toolset; use core, {names}"
            )));
        };
        choice.listed.push(toolset);
    }
    choice.enabled.extend(Toolset::ALL.into_iter().filter(|toolset| {
        choice.listed.contains(toolset) || (is_core && Toolset::CORE.contains(toolset))
    }));
    Ok(choice)
}

/// The folder for caches.
fn cache_folder(value: Option<&SettingValue>, base: &Path) -> Option<PathBuf> {
    match value {
        None => user_cache(),
        Some(value) if value.text == "off" => None,
        Some(value) => Some(base.join(&value.text)),
    }
}

/// The user's cache folder.
fn user_cache() -> Option<PathBuf> {
    let cache = match env_variable("XDG_CACHE_HOME") {
        Some(cache) => PathBuf::from(cache),
        None => match local_data_folder() {
            Some(folder) => return Some(folder.join("reqlore").join("cache")),
            None => home_folder()?.join(".cache"),
        },
    };
    Some(cache.join("reqlore"))
}

/// The user's folder for state that outlives a process.
pub(crate) fn state_folder(home: &Path) -> PathBuf {
    let named = env_variable("XDG_STATE_HOME").map(PathBuf::from).or_else(local_data_folder);
    named.unwrap_or_else(|| home.join(".local/state")).join("reqlore")
}

fn toml_string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

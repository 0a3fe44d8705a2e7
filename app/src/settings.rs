//! The settings there are: name, flag, environment variable, default and meaning, in one table.
//!
//! `--print-config` and docs/configuration.md come from here; `--help` says it shorter.

use std::path::PathBuf;

use crate::limits::LIMITS;
use crate::setting::Setting;

/// All but the limits, which have a table of their own.
const SETTINGS: [Setting; 19] = [
    Setting {
        key: "root",
        flag: Some("--root"),
        variable: Some("REQLORE_ROOT"),
        default: "",
        meaning: "The default project's folder. Not set: the working directory.",
    },
    Setting {
        key: "storage",
        flag: Some("--storage"),
        variable: Some("REQLORE_STORAGE"),
        default: "fs",
        meaning: "Where documents are kept: `fs` (markdown below the root) or `fs:DIR`, `sqlite` \
                  (.reqlore/local/reqlore.db below the root) or `sqlite:FILE`, `sled` \
                  (.reqlore/local/sled, for one process) or `sled:DIR`. In a project's own \
                  reqlore.toml the place must be inside the project.",
    },
    Setting {
        key: "transport",
        flag: Some("--transport"),
        variable: Some("REQLORE_TRANSPORT"),
        default: "stdio",
        meaning: "How clients connect: `stdio`, one client over standard input and output, or \
                  `http`, many with tokens. Not taken from a project's own reqlore.toml.",
    },
    Setting {
        key: "http.listen",
        flag: Some("--listen"),
        variable: Some("REQLORE_LISTEN"),
        default: "127.0.0.1:8080",
        meaning: "Where http listens, an address and a port. Other addresses than those of the \
                  loopback need http.behind_proxy.",
    },
    Setting {
        key: "http.hosts",
        flag: None,
        variable: Some("REQLORE_HTTP_HOSTS"),
        default: "",
        meaning: "Names by which clients may call the server besides localhost, with or without a \
                  port (in the variable separated by commas).",
    },
    Setting {
        key: "http.origins",
        flag: None,
        variable: Some("REQLORE_HTTP_ORIGINS"),
        default: "",
        meaning: "Web pages that may call the server besides those of this machine, like \
                  https://tools.example.org (in the variable separated by commas).",
    },
    Setting {
        key: "http.behind_proxy",
        flag: Some("--behind-proxy"),
        variable: Some("REQLORE_BEHIND_PROXY"),
        default: "false",
        meaning: "Is there a proxy in front that keeps TLS? `true` believes what a proxy on this \
                  machine says of where requests come from; a list of addresses or networks \
                  believes those; `false`.",
    },
    Setting {
        key: "http.forwarded_by",
        flag: None,
        variable: None,
        default: "x-forwarded-for",
        meaning: "The header in which the proxy says that: `x-forwarded-for` or `forwarded`.",
    },
    Setting {
        key: "read_only",
        flag: Some("--read-only"),
        variable: Some("REQLORE_READ_ONLY"),
        default: "false",
        meaning: "Serve only the tools that change nothing, whoever calls: `true` or `false`.",
    },
    Setting {
        key: "audit",
        flag: None,
        variable: Some("REQLORE_AUDIT"),
        default: "auto",
        meaning: "Is every call recorded with who made it, in the storage? `on`, `off` or `auto`: \
                  over http, not on stdio. The commands for users and tokens are recorded unless \
                  it is `off`.",
    },
    Setting {
        key: "audit_keep_days",
        flag: None,
        variable: Some("REQLORE_AUDIT_KEEP_DAYS"),
        default: "400",
        meaning: "How many days the rows of the audit are kept, at least 1.",
    },
    Setting {
        key: "roots",
        flag: None,
        variable: Some("REQLORE_ROOTS"),
        default: "",
        meaning: "Only these folders and those below can be named as `project_root` (in the \
                  variable separated by colons). Not set: any.",
    },
    Setting {
        key: "sections.directory",
        flag: None,
        variable: Some("REQLIX_REQ_REL_PATH"),
        default: "",
        meaning: "Where AGENTS.md and the sections are, relative to a project. Not set: \
                  docs/development/requirements, else docs/dev/req.",
    },
    Setting {
        key: "sections.wrap_columns",
        flag: None,
        variable: Some("REQLORE_SECTIONS_WRAP_COLUMNS"),
        default: "120",
        meaning: "Where lines of requirements are wrapped, in characters; 0 is off.",
    },
    Setting {
        key: "toolsets",
        flag: Some("--toolsets"),
        variable: Some("REQLORE_TOOLSETS"),
        default: "sections,backlog,docsets,knowledge",
        meaning: "Which tools are served, separated by commas: `sections`, `backlog`, `docsets`, \
                  `knowledge`.",
    },
    Setting {
        key: "cache",
        flag: None,
        variable: Some("REQLORE_CACHE"),
        default: "",
        meaning: "The folder for search indexes and models, which can be made again; `off` keeps \
                  nothing. Not taken from a project's own reqlore.toml. Not set: reqlore in the \
                  user's cache folder ($XDG_CACHE_HOME, else ~/.cache).",
    },
    Setting {
        key: "search.model",
        flag: None,
        variable: Some("REQLORE_SEARCH_MODEL"),
        default: "best",
        meaning: "What ranks by meaning: `best` (an installed model, else the built-in table), \
                  `static` (the built-in table), the name of an installed model, or `off`.",
    },
    Setting {
        key: "log",
        flag: Some("--log"),
        variable: Some("REQLORE_LOG"),
        default: "info",
        meaning: "What is logged to stderr: `error`, `warn`, `info`, `debug`, `trace` or `off`, \
                  also by module: `info,rmcp=debug`.",
    },
    Setting {
        key: "log_format",
        flag: None,
        variable: Some("REQLORE_LOG_FORMAT"),
        default: "text",
        meaning: "How it is logged: `text`, or `json`, an object a line.",
    },
];

/// Every setting there is.
pub(crate) fn all() -> impl Iterator<Item = Setting> {
    SETTINGS.into_iter().chain(LIMITS)
}

/// The file that is read when it is there and nothing else is named.
pub(crate) const FILE: &str = "reqlore.toml";
/// Names another file.
pub(crate) const FILE_VARIABLE: &str = "REQLORE_CONFIG";

/// The settings that flags can carry.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Settings (flags beat environment, environment beats reqlore.toml)")]
pub(crate) struct Flags {
    /// The default project's folder [default: the working directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    #[arg(
        long,
        global = true,
        value_name = "STORAGE",
        help = "Where documents are kept: fs[:DIR] (markdown files), sqlite[:FILE] or sled[:DIR]"
    )]
    pub(crate) storage: Option<String>,

    /// How clients connect: stdio, or http with tokens
    #[arg(long, global = true, value_name = "TRANSPORT")]
    pub(crate) transport: Option<String>,

    /// Where http listens [default: 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,

    #[arg(
        long,
        global = true,
        value_name = "ADDRESSES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help = "A proxy with TLS stands in front, on this machine or at =ADDRESSES"
    )]
    pub(crate) behind_proxy: Option<String>,

    /// Which tools are served: sections,backlog,docsets,knowledge
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) toolsets: Option<String>,

    /// Serve only the tools that change nothing
    #[arg(long, global = true)]
    pub(crate) read_only: bool,

    /// What is logged to stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// A configuration file [default: reqlore.toml in the root, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Flags {
    /// The value that a flag gives to a setting.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        match key {
            "root" => self.root.as_ref().map(|root| root.to_string_lossy().into_owned()),
            "storage" => self.storage.clone(),
            "transport" => self.transport.clone(),
            "http.listen" => self.listen.clone(),
            "http.behind_proxy" => self.behind_proxy.clone(),
            "read_only" => self.read_only.then(|| "true".to_owned()),
            "toolsets" => self.toolsets.clone(),
            "log" => self.log.clone(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::ports::project_resolver::Toolset;

    use super::*;

    #[test]
    fn the_meaning_of_toolsets_names_each_of_them() {
        let toolsets = all().find(|setting| setting.key == "toolsets").unwrap();
        let name = |slice: Toolset| slice.name().to_owned();
        assert_eq!(toolsets.default, Toolset::ALL.map(name).join(","));
        let names = Toolset::ALL.map(|slice| format!("`{}`", slice.name())).join(", ");
        assert!(toolsets.meaning.ends_with(&format!(": {names}.")), "{}", toolsets.meaning);
    }
}

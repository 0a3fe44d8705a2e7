//! Every setting with its flag, variable, default, bounds and meaning, in one table.
//!
//! `--print-config` and docs/configuration.md are generated from it; `--help` has shorter texts.

use std::path::PathBuf;

/// One setting as users meet it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The name in `reqlore.toml`.
    pub(crate) key: &'static str,
    pub(crate) flag: Option<&'static str>,
    pub(crate) variable: Option<&'static str>,
    /// Empty means not set.
    pub(crate) default: &'static str,
    pub(crate) syntax: Syntax,
    pub(crate) meaning: &'static str,
}

/// How `reqlore.toml` spells a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Syntax {
    Text,
    List,
    Bool,
    /// Within these bounds.
    Number(u32, u32),
}

const fn setting(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting { key, flag: None, variable: None, default, syntax: Syntax::Text, meaning }
}

impl Setting {
    const fn flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn env(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    const fn syntax(self, syntax: Syntax) -> Self {
        Self { syntax, ..self }
    }
}

const SETTINGS: [Setting; 19] = [
    setting("root", "", "The default project's folder. Not set: the working directory.")
        .flag("--root")
        .env("REQLORE_ROOT"),
    setting(
        "storage",
        "fs",
        "Storage of the documents: `fs` (Markdown below the root) or `fs:DIR`, `sqlite` \
         (.reqlore/local/reqlore.db below the root) or `sqlite:FILE`, `sled` (.reqlore/local/sled, \
         for one process) or `sled:DIR`. In a project's own reqlore.toml the place must be inside \
         the project.",
    )
    .flag("--storage")
    .env("REQLORE_STORAGE"),
    setting(
        "transport",
        "stdio",
        "How clients connect: `stdio`, one client over standard input and output, or `http`, many \
         with tokens. Not taken from a project's own reqlore.toml.",
    )
    .flag("--transport")
    .env("REQLORE_TRANSPORT"),
    setting(
        "http.listen",
        "127.0.0.1:8080",
        "Address and port of the HTTP server. Addresses other than loopback need \
         http.behind_proxy.",
    )
    .flag("--listen")
    .env("REQLORE_LISTEN"),
    setting(
        "http.hosts",
        "",
        "Host names of the server besides localhost, with or without a port (in the variable \
         separated by commas).",
    )
    .env("REQLORE_HTTP_HOSTS")
    .syntax(Syntax::List),
    setting(
        "http.origins",
        "",
        "Web pages that may call the server besides those of this machine, like \
         https://tools.example.org (in the variable separated by commas).",
    )
    .env("REQLORE_HTTP_ORIGINS")
    .syntax(Syntax::List),
    setting(
        "http.behind_proxy",
        "false",
        "Trust the client address from a TLS-terminating proxy: `true` for proxies on this \
         machine, a list of addresses or networks, or `false`.",
    )
    .flag("--behind-proxy")
    .env("REQLORE_BEHIND_PROXY"),
    setting(
        "http.forwarded_by",
        "x-forwarded-for",
        "The proxy's header with the client address: `x-forwarded-for` or `forwarded`.",
    ),
    setting(
        "read_only",
        "false",
        "Serve only tools that change nothing, to all callers: `true` or `false`.",
    )
    .flag("--read-only")
    .env("REQLORE_READ_ONLY")
    .syntax(Syntax::Bool),
    setting(
        "audit",
        "auto",
        "Record every call with its caller in the storage: `on`, `off` or `auto` (on over http, \
         off on stdio). The commands for users and tokens are recorded unless it is `off`.",
    )
    .env("REQLORE_AUDIT"),
    setting("audit_keep_days", "400", "Days that audit rows are kept, at least 1.")
        .env("REQLORE_AUDIT_KEEP_DAYS")
        .syntax(Syntax::Number(1, u32::MAX)),
    setting(
        "roots",
        "",
        "Only these folders and those below can be named as `project_root` (in the variable \
         separated by colons). Not set: any.",
    )
    .env("REQLORE_ROOTS")
    .syntax(Syntax::List),
    setting(
        "sections.directory",
        "",
        "Folder of AGENTS.md and the sections, relative to a project. Not set: \
         docs/development/requirements, else docs/dev/req.",
    )
    .env("REQLIX_REQ_REL_PATH"),
    setting(
        "sections.wrap_columns",
        "120",
        "Line length at which requirements are wrapped, in characters; 0 is off.",
    )
    .env("REQLORE_SECTIONS_WRAP_COLUMNS")
    .syntax(Syntax::Number(0, u32::MAX)),
    setting(
        "toolsets",
        "sections,backlog,docsets,knowledge",
        "Toolsets that are served, separated by commas: `sections`, `backlog`, `docsets`, \
         `knowledge`.",
    )
    .flag("--toolsets")
    .env("REQLORE_TOOLSETS"),
    setting(
        "cache",
        "",
        "Folder of search indexes and models, which can be rebuilt; `off` keeps nothing. Not taken \
         from a project's own reqlore.toml. Not set: reqlore in the user's cache folder \
         ($XDG_CACHE_HOME, else ~/.cache).",
    )
    .env("REQLORE_CACHE"),
    setting(
        "search.model",
        "best",
        "Model of semantic search: `best` (an installed model, else the built-in table), `static` \
         (the built-in table), the name of an installed model, or `off`.",
    )
    .env("REQLORE_SEARCH_MODEL"),
    setting(
        "log",
        "info",
        "Log level on stderr: `error`, `warn`, `info`, `debug`, `trace` or `off`, also by module: \
         `info,rmcp=debug`.",
    )
    .flag("--log")
    .env("REQLORE_LOG"),
    setting("log_format", "text", "Log format: `text`, or `json`, one object a line.")
        .env("REQLORE_LOG_FORMAT"),
];

/// The limits of a server over HTTP. A test compares the defaults with the transport's own.
const LIMITS: [Setting; 21] = [
    count("http.limits.connections", "256", "Connections in all; one more is closed."),
    count(
        "http.limits.connections_per_address",
        "64",
        "Connections from one address; trusted proxies are not counted.",
    ),
    seconds("http.limits.header_seconds", "10", "Time for the headers of a request."),
    // hyper accepts no smaller buffer.
    bytes("http.limits.header_bytes", "16384", "A request line with its headers.")
        .syntax(Syntax::Number(8 * 1024, GIB)),
    count("http.limits.header_fields", "64", "Headers of a request.")
        .syntax(Syntax::Number(1, 1000)),
    seconds("http.limits.idle_seconds", "60", "Idle time of a connection between requests."),
    bytes("http.limits.body_bytes", "4194304", "The body of a request."),
    seconds("http.limits.body_seconds", "15", "Time for the body of a request."),
    bytes("http.limits.bodies_bytes", "67108864", "All bodies that are held at once."),
    seconds("http.limits.unread_seconds", "20", "Time in which a client reads none of a response."),
    seconds("http.limits.request_seconds", "30", "Time for a request to wait and run."),
    count("http.limits.in_flight", "64", "Requests that run at once."),
    count("http.limits.in_flight_per_token", "8", "Of them with one token."),
    count("http.limits.queue", "64", "Requests that wait to run; one more is rejected."),
    count("http.limits.listens_per_token", "8", "Open subscription streams with one token."),
    rate("http.limits.requests_per_second", "100", "Requests with one token; 0 is off."),
    count("http.limits.requests_burst", "200", "Burst of requests with one token."),
    rate(
        "http.limits.failed_logins_per_minute",
        "5",
        "Failed logins from one address, also as a burst; 0 is off.",
    ),
    rate(
        "http.limits.look_ups_per_second",
        "100",
        "Look-ups of tokens not seen before, from all addresses; 0 is off.",
    ),
    count("http.limits.look_ups_burst", "200", "Burst of look-ups of tokens not seen before."),
    seconds("http.limits.drain_seconds", "9", "Time for accepted requests at shutdown."),
];

const GIB: u32 = 1 << 30;
const MAX_COUNT: u32 = 1_000_000;

const fn count(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    setting(key, default, meaning).syntax(Syntax::Number(1, MAX_COUNT))
}

/// A count that can be switched off.
const fn rate(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    setting(key, default, meaning).syntax(Syntax::Number(0, MAX_COUNT))
}

const fn bytes(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    setting(key, default, meaning).syntax(Syntax::Number(1, GIB))
}

const fn seconds(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    setting(key, default, meaning).syntax(Syntax::Number(1, 24 * 60 * 60))
}

pub(crate) fn all() -> impl Iterator<Item = Setting> {
    SETTINGS.into_iter().chain(LIMITS)
}

/// The configuration file in the root, read unless another one is named.
pub(crate) const FILE: &str = "reqlore.toml";
/// Names the configuration file, as `--config` does.
pub(crate) const FILE_VARIABLE: &str = "REQLORE_CONFIG";

/// Settings given on the command line.
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
        help = "Storage of the documents: fs[:DIR] (Markdown files), sqlite[:FILE] or sled[:DIR]"
    )]
    pub(crate) storage: Option<String>,

    /// How clients connect: stdio, or http with tokens
    #[arg(long, global = true, value_name = "TRANSPORT")]
    pub(crate) transport: Option<String>,

    /// Address and port of the HTTP server [default: 127.0.0.1:8080]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,

    #[arg(
        long,
        global = true,
        value_name = "ADDRESSES",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        help = "Trust a TLS-terminating proxy on this machine or at =ADDRESSES"
    )]
    pub(crate) behind_proxy: Option<String>,

    /// Toolsets that are served: sections,backlog,docsets,knowledge
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) toolsets: Option<String>,

    /// Serve only tools that change nothing
    #[arg(long, global = true)]
    pub(crate) read_only: bool,

    /// Log level on stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// A configuration file [default: reqlore.toml in the root, if there is one]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Flags {
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
    fn toolsets_meaning_and_default_name_every_toolset() {
        let toolsets = all().find(|setting| setting.key == "toolsets").unwrap();
        let name = |toolset: Toolset| toolset.name().to_owned();
        assert_eq!(toolsets.default, Toolset::ALL.map(name).join(","));
        let names = Toolset::ALL.map(|toolset| format!("`{}`", toolset.name())).join(", ");
        assert!(toolsets.meaning.ends_with(&format!(": {names}.")), "{}", toolsets.meaning);
    }
}

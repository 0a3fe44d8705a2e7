//! The table of all settings: flag, variable, default, bounds and meaning.
//!
//! `--print-config` and docs/configuration.md are generated from it; `--help` has shorter texts.

use std::path::PathBuf;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// The name in `reqlore.toml`.
    pub(crate) key: &'static str,
    pub(crate) flag: Option<&'static str>,
    pub(crate) variable: Option<&'static str>,
    /// Empty means not set.
    pub(crate) default: &'static str,
    pub(crate) syntax: ValueSyntax,
    pub(crate) found_file: FoundFileRule,
    pub(crate) meaning: &'static str,
}

/// The limit of a `reqlore.toml` that no flag or variable names: anyone who can commit to the
/// repository writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FoundFileRule {
    /// The value names no path and no other machine, and grants nothing.
    Allowed,
    /// The value names a path, which must be inside the project.
    Inside,
    /// As `Inside`, but not over HTTP, where the operator decides which folders are served.
    InsideOnStdio,
    /// Access, logs and limits of a server over HTTP are the operator's.
    OnStdio,
    /// Also the audit and the history of a storage outside the project are not the repository's.
    OwnStorage,
    /// A repository could bring its own indexes and models.
    Never,
}

impl FoundFileRule {
    /// For the page of all settings.
    pub(crate) fn description(self) -> Option<&'static str> {
        match self {
            Self::Allowed => None,
            Self::Inside => Some("inside the project"),
            Self::InsideOnStdio => Some("inside the project, on stdio"),
            Self::OnStdio => Some("on stdio"),
            Self::OwnStorage => Some("on stdio, for a storage inside the project"),
            Self::Never => Some("never"),
        }
    }
}

/// How `reqlore.toml` spells a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ValueSyntax {
    Text,
    List,
    Bool,
    /// Within these bounds.
    Number(u32, u32),
}

const fn text_setting(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    Setting {
        key,
        flag: None,
        variable: None,
        default,
        syntax: ValueSyntax::Text,
        found_file: FoundFileRule::Allowed,
        meaning,
    }
}

impl Setting {
    const fn with_flag(self, flag: &'static str) -> Self {
        Self { flag: Some(flag), ..self }
    }

    const fn with_variable(self, variable: &'static str) -> Self {
        Self { variable: Some(variable), ..self }
    }

    const fn with_found_file(self, found_file: FoundFileRule) -> Self {
        Self { found_file, ..self }
    }

    const fn with_syntax(self, syntax: ValueSyntax) -> Self {
        Self { syntax, ..self }
    }
}

const SETTINGS: [Setting; 25] = [
    text_setting(
        "root",
        "",
        "The default project's folder. Not set: the nearest folder with Reqlore's files, from the \
         working directory up to the root of its Git repository; else that root; else the working \
         directory.",
    )
    .with_flag("--root")
    .with_variable("REQLORE_ROOT")
    .with_found_file(FoundFileRule::InsideOnStdio),
    text_setting(
        "storage",
        "fs",
        "Storage of the documents: `fs` (Markdown below the root) or `fs:DIR`, `sqlite` \
         (.reqlore/local/reqlore.db below the root) or `sqlite:FILE`, `sled` (.reqlore/local/sled, \
         for one process) or `sled:DIR`, or `postgres://HOST/NAME` with parameters of libpq. \
         The password comes from PGPASSWORD, a password file (`passfile`, PGPASSFILE or \
         ~/.pgpass), or a URL outside the command line.",
    )
    .with_flag("--storage")
    .with_variable("REQLORE_STORAGE")
    .with_found_file(FoundFileRule::Inside),
    text_setting(
        "transport",
        "stdio",
        "How clients connect: `stdio` for one client over standard input and output, or `http` for \
         many clients with tokens.",
    )
    .with_flag("--transport")
    .with_variable("REQLORE_TRANSPORT")
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "http.listen",
        "127.0.0.1:8080",
        "Address and port of the HTTP server. Addresses other than loopback need \
         http.behind_proxy.",
    )
    .with_flag("--listen")
    .with_variable("REQLORE_LISTEN")
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "http.hosts",
        "",
        "Host names of the server in addition to localhost, with or without a port (in the \
         variable separated by commas).",
    )
    .with_variable("REQLORE_HTTP_HOSTS")
    .with_found_file(FoundFileRule::OnStdio)
    .with_syntax(ValueSyntax::List),
    text_setting(
        "http.origins",
        "",
        "Origins of web pages that may call the server in addition to those of this machine, such \
         as https://tools.example.org (in the variable separated by commas).",
    )
    .with_variable("REQLORE_HTTP_ORIGINS")
    .with_found_file(FoundFileRule::OnStdio)
    .with_syntax(ValueSyntax::List),
    text_setting(
        "http.behind_proxy",
        "false",
        "Trust the client address from a TLS-terminating proxy: `true` for proxies on this \
         machine, a list of addresses or networks, or `false`.",
    )
    .with_flag("--behind-proxy")
    .with_variable("REQLORE_BEHIND_PROXY")
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "http.forwarded_by",
        "x-forwarded-for",
        "Header in which the proxy passes the client address: `x-forwarded-for` or `forwarded`.",
    )
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "http.base_path",
        "/",
        "URL path of the pages if a proxy does not serve them at `/`, such as `/reqlore`. The \
         proxy removes it from requests.",
    )
    .with_variable("REQLORE_HTTP_BASE_PATH")
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "http.web",
        "true",
        "Serve pages for people at `/` of the HTTP server: `true` or `false`.",
    )
    .with_flag("--no-web")
    .with_variable("REQLORE_HTTP_WEB")
    .with_syntax(ValueSyntax::Bool)
    .with_found_file(FoundFileRule::OnStdio),
    text_setting(
        "read_only",
        "false",
        "Serve only tools that read, to all callers: `true` or `false`.",
    )
    .with_flag("--read-only")
    .with_variable("REQLORE_READ_ONLY")
    .with_syntax(ValueSyntax::Bool),
    text_setting(
        "audit",
        "auto",
        "Record every call with its caller in the audit log: `on`, `off` or `auto` (on over http, \
         off on stdio). Changes of users and tokens are recorded unless it is `off`.",
    )
    .with_variable("REQLORE_AUDIT")
    .with_found_file(FoundFileRule::OwnStorage),
    text_setting("audit_keep_days", "400", "Days that audit rows are kept, at least 1.")
        .with_variable("REQLORE_AUDIT_KEEP_DAYS")
        .with_found_file(FoundFileRule::OwnStorage)
        .with_syntax(ValueSyntax::Number(1, u32::MAX)),
    text_setting(
        "history_keep_days",
        "0",
        "Days that a database keeps a version of a document after it was replaced or deleted; 0 \
         for ever.",
    )
    .with_variable("REQLORE_HISTORY_KEEP_DAYS")
    .with_found_file(FoundFileRule::OwnStorage)
    .with_syntax(ValueSyntax::Number(0, u32::MAX)),
    text_setting(
        "roots",
        "",
        "Folders that a call may name as `project_root`, with all folders below them (in the \
         variable separated as in PATH). Not set: any folder.",
    )
    .with_variable("REQLORE_ROOTS")
    .with_found_file(FoundFileRule::Inside)
    .with_syntax(ValueSyntax::List),
    text_setting(
        "sections.directory",
        "",
        "Folder of AGENTS.md and the sections, relative to a project. Not set: \
         docs/development/requirements, else docs/dev/req.",
    )
    .with_variable("REQLIX_REQ_REL_PATH")
    .with_found_file(FoundFileRule::Inside),
    text_setting(
        "sections.wrap_columns",
        "120",
        "Line length at which rules are wrapped, in characters; 0 turns wrapping off.",
    )
    .with_variable("REQLORE_SECTIONS_WRAP_COLUMNS")
    .with_syntax(ValueSyntax::Number(0, u32::MAX)),
    text_setting(
        "write_guard",
        "on",
        "Refuses writes without `if_version` that would replace a change that their caller was not \
         shown: `on` or `off`.",
    )
    .with_variable("REQLORE_WRITE_GUARD"),
    text_setting(
        "toolsets",
        "sections,backlog,docsets,knowledge",
        "Toolsets to serve, separated by commas: `sections`, `backlog`, `docsets`, \
         `knowledge`. `core` lists thirteen tools that read and write sections, items and \
         entities, for clients that load every schema; `core,docsets` adds documentation.",
    )
    .with_flag("--toolsets")
    .with_variable("REQLORE_TOOLSETS"),
    text_setting(
        "answers",
        "text",
        "Answers to MCP clients: `text` for models, within 1,900 tokens unless a call asks for \
         more, or `both` for programs: whole pages, also as structured data with output schemas. A \
         client chooses with `_meta[\"reqlore/answers\"]` in a request or in `initialize`.",
    )
    .with_flag("--answers")
    .with_variable("REQLORE_ANSWERS"),
    text_setting(
        "cache",
        "",
        "Folder of search indexes and models, which can be rebuilt; `off` keeps nothing on disk. \
         Not set: reqlore in the user's cache folder ($XDG_CACHE_HOME, else ~/.cache).",
    )
    .with_variable("REQLORE_CACHE")
    .with_found_file(FoundFileRule::Never),
    text_setting(
        "search.model",
        "best",
        "Model of semantic search: `best` (an installed model, else the built-in table), `static` \
         (the built-in table), the name of an installed model, or `off`.",
    )
    .with_variable("REQLORE_SEARCH_MODEL"),
    text_setting(
        "search.memory_mib",
        "128",
        "Memory in MiB that indexing may use in addition to the search index itself. Of a \
         document, the first 512 KiB of text are indexed; an answer names documents that are \
         longer or unreadable.",
    )
    .with_variable("REQLORE_SEARCH_MEMORY_MIB")
    .with_syntax(ValueSyntax::Number(32, 64 * 1024))
    .with_found_file(FoundFileRule::Never),
    text_setting(
        "log",
        "info",
        "Log level on stderr: `error`, `warn`, `info`, `debug`, `trace` or `off`, also by module: \
         `info,rmcp=debug`.",
    )
    .with_flag("--log")
    .with_variable("REQLORE_LOG")
    .with_found_file(FoundFileRule::OnStdio),
    text_setting("log_format", "text", "Log format: `text`, or `json`, one object per line.")
        .with_variable("REQLORE_LOG_FORMAT")
        .with_found_file(FoundFileRule::OnStdio),
];

/// The limits of a server over HTTP. A test compares the defaults with the transport's own.
const LIMITS: [Setting; 21] = [
    count_limit(
        "http.limits.connections",
        "256",
        "Open connections. A further one replaces an idle one, or is closed. At most three \
         quarters are event streams.",
    ),
    count_limit(
        "http.limits.connections_per_address",
        "64",
        "Connections from one address; trusted proxies are not counted.",
    ),
    time_limit("http.limits.header_seconds", "10", "Time to receive the headers of a request."),
    // hyper accepts no smaller buffer.
    byte_limit("http.limits.header_bytes", "16384", "Size of a request line with its headers.")
        .with_syntax(ValueSyntax::Number(8 * 1024, GIB)),
    count_limit("http.limits.header_fields", "64", "Number of headers of a request.")
        .with_syntax(ValueSyntax::Number(1, 1000)),
    time_limit("http.limits.idle_seconds", "60", "Idle time of a connection between requests."),
    byte_limit("http.limits.body_bytes", "4194304", "Size of a request body."),
    time_limit("http.limits.body_seconds", "15", "Time to receive the body of a request."),
    byte_limit(
        "http.limits.bodies_bytes",
        "67108864",
        "Total size of the request bodies in memory.",
    ),
    time_limit(
        "http.limits.unread_seconds",
        "20",
        "Seconds that a client may pause while it reads a response.",
    ),
    time_limit(
        "http.limits.request_seconds",
        "30",
        "Time for a token lookup, and for a request including its time in the queue.",
    ),
    count_limit("http.limits.in_flight", "64", "Requests that run at the same time."),
    count_limit(
        "http.limits.in_flight_per_token",
        "8",
        "Requests of one token that run at the same time.",
    ),
    count_limit("http.limits.queue", "64", "Requests in the queue; further ones are rejected."),
    count_limit("http.limits.listens_per_token", "8", "Open subscription streams of one token."),
    rate_limit(
        "http.limits.requests_per_second",
        "100",
        "Requests of one token; 0 turns the limit off.",
    ),
    count_limit("http.limits.requests_burst", "200", "Burst of requests of one token."),
    rate_limit(
        "http.limits.failed_logins_per_minute",
        "5",
        "Failed logins from one address per minute, and at once; 0 turns the limit off.",
    ),
    rate_limit(
        "http.limits.look_ups_per_second",
        "100",
        "Look-ups of unknown tokens, from all addresses; 0 turns the limit off.",
    ),
    count_limit("http.limits.look_ups_burst", "200", "Burst of look-ups of unknown tokens."),
    time_limit("http.limits.drain_seconds", "9", "Time to finish accepted requests at shutdown."),
];

const GIB: u32 = 1 << 30;
const MAX_COUNT: u32 = 1_000_000;

const fn count_limit(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    limit(key, default, meaning, 1, MAX_COUNT)
}

const fn limit(
    key: &'static str,
    default: &'static str,
    meaning: &'static str,
    min: u32,
    max: u32,
) -> Setting {
    text_setting(key, default, meaning)
        .with_syntax(ValueSyntax::Number(min, max))
        .with_found_file(FoundFileRule::OnStdio)
}

/// A limit that 0 turns off.
const fn rate_limit(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    limit(key, default, meaning, 0, MAX_COUNT)
}

const fn byte_limit(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    limit(key, default, meaning, 1, GIB)
}

const fn time_limit(key: &'static str, default: &'static str, meaning: &'static str) -> Setting {
    limit(key, default, meaning, 1, 24 * 60 * 60)
}

pub(crate) fn all_settings() -> impl Iterator<Item = Setting> {
    SETTINGS.into_iter().chain(LIMITS)
}

/// The configuration file in the root, read unless another one is named.
pub(crate) const FILE: &str = "reqlore.toml";
/// Names the configuration file, as `--config` does.
pub(crate) const FILE_VARIABLE: &str = "REQLORE_CONFIG";

/// Settings given on the command line.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(
    next_help_heading = "Settings (flags override the environment, which overrides reqlore.toml)"
)]
pub(crate) struct SettingFlags {
    /// The default project's folder [default: searched upwards from the working directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,

    #[arg(
        long,
        global = true,
        value_name = "STORAGE",
        help = "Storage of the documents: fs[:DIR] (Markdown files), sqlite[:FILE], sled[:DIR] or \
                postgres://HOST/NAME"
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

    /// Serve no pages for people over HTTP
    #[arg(long, global = true)]
    pub(crate) no_web: bool,

    /// Toolsets to serve: sections,backlog,docsets,knowledge; core lists thirteen tools
    #[arg(long, global = true, value_name = "LIST")]
    pub(crate) toolsets: Option<String>,

    /// Answers to MCP clients: text, or both text and structured data
    #[arg(long, global = true, value_name = "FORMAT")]
    pub(crate) answers: Option<String>,

    /// Serve only tools that read
    #[arg(long, global = true)]
    pub(crate) read_only: bool,

    /// Log level on stderr: error, warn, info, debug, trace or off
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,

    /// The configuration file [default: reqlore.toml in the root, if it exists]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl SettingFlags {
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        match key {
            "root" => self.root.as_ref().map(|root| root.to_string_lossy().into_owned()),
            "storage" => self.storage.clone(),
            "transport" => self.transport.clone(),
            "http.listen" => self.listen.clone(),
            "http.behind_proxy" => self.behind_proxy.clone(),
            "http.web" => self.no_web.then(|| "false".to_owned()),
            "read_only" => self.read_only.then(|| "true".to_owned()),
            "toolsets" => self.toolsets.clone(),
            "answers" => self.answers.clone(),
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
    fn toolsets_setting_names_every_toolset() {
        let toolsets = all_settings().find(|setting| setting.key == "toolsets").unwrap();
        let name = |toolset: Toolset| toolset.name().to_owned();
        assert_eq!(toolsets.default, Toolset::ALL.map(name).join(","));
        let names = Toolset::ALL.map(|toolset| format!("`{}`", toolset.name())).join(", ");
        assert!(toolsets.meaning.contains(&format!(": {names}.")), "{}", toolsets.meaning);
    }
}

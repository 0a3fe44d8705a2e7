//! Connection URLs: the parameters of libpq, with its meaning but safer defaults, `pool_size` and
//! `write_isolation`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use reqlore_domain::identity::redact_echo;
use reqlore_domain::unreplaced_variable::check_replaced;
use tokio_postgres::config::{Host, LoadBalanceHosts, SslMode, TargetSessionAttrs};
use tokio_postgres::{Config, Error};

use super::password_file::PasswordFile;
use super::system::is_socket;

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];
/// Parameters that tokio-postgres reads, with the same meaning as libpq.
const CLIENT_PARAMETERS: [&str; 13] = [
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "keepalives",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "port",
    "sslnegotiation",
    "user",
];
const OWN_PARAMETERS: [&str; 11] = [
    "keepalives_count",
    "lossy_settings",
    "passfile",
    "pool_size",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "write_isolation",
];
const DEFAULT_SOCKET_FOLDER: &str = "/var/run/postgresql";
const DEFAULT_PORT: u16 = 5432;
const MAX_POOL_SIZE: u32 = 1_000;
/// For one host, from its name to an authenticated session.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that vanished is noticed after about 20 seconds on an idle connection.
const DEFAULT_KEEPALIVE_IDLE: Duration = Duration::from_secs(10);
const DEFAULT_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(3);
const DEFAULT_KEEPALIVE_COUNT: u32 = 3;
/// Limit for data that the server does not acknowledge.
const DEFAULT_TCP_USER_TIMEOUT: Duration = Duration::from_secs(10);

/// Connection target, TLS settings and credentials of a database. Its text form names the database
/// for operators and contains no password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PostgresConfig {
    /// One for each host, in the order of the URL.
    pub(crate) targets: Vec<Config>,
    pub(crate) tls: TlsOptions,
    pub(crate) password_file: Option<PasswordFile>,
    /// Maximum number of connections that read.
    pub(crate) pool_size: usize,
    /// True if a read-only standby is not accepted.
    pub(crate) needs_writable: bool,
    pub(crate) write_isolation: WriteIsolation,
    /// True if the database may have settings that lose acknowledged writes.
    pub(crate) accepts_loss: bool,
    has_url_password: bool,
}

/// Passwords from outside the URL. `PGPASSWORD` and `PGPASSFILE` have the meaning of libpq.
#[derive(Debug, Clone, Default)]
pub struct PasswordSources {
    pub password: Option<String>,
    pub password_file: Option<PathBuf>,
    /// The user's home, which may contain `.pgpass`.
    pub home: Option<PathBuf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) mode: TlsMode,
    /// `None` means the certificate authorities of the system.
    pub(crate) root_file: Option<PathBuf>,
    /// The certificate of this client and its key.
    pub(crate) client_files: Option<(PathBuf, PathBuf)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum TlsMode {
    Disable,
    /// Encrypts, but accepts any server.
    Require,
    /// Verifies the certificate, but not the host name.
    VerifyCa,
    #[default]
    VerifyFull,
}

impl PostgresConfig {
    /// True if a text is meant as the URL of a database.
    pub fn is_url(text: &str) -> bool {
        SCHEMES.iter().any(|scheme| text.starts_with(scheme))
    }

    /// Parses a URL. No error contains a part of it that may be secret.
    pub fn parse(url: &str, sources: &PasswordSources) -> Result<Self, String> {
        let parts = UrlParts::split(url)?;
        let mut targets = Vec::new();
        for host in parts.hosts.split(',') {
            targets.push(parts.client_config(host)?);
        }
        let mut config = Self {
            has_url_password: targets.iter().any(|target| target.get_password().is_some()),
            tls: TlsOptions::default(),
            password_file: sources.find_file(),
            pool_size: default_pool_size(),
            needs_writable: true,
            write_isolation: WriteIsolation::default(),
            accepts_loss: false,
            targets,
        };
        for target in &mut config.targets {
            set_defaults(target, &parts, sources.password.as_deref());
        }
        if config.is_local() {
            config.tls.mode = TlsMode::Disable;
        }
        if let Some(file) = &sources.password_file {
            check_replaced(&file.to_string_lossy())
                .map_err(|error| format!("PGPASSFILE: {error}"))?;
        }
        for (name, value) in &parts.own {
            check_replaced(value).map_err(|error| format!("{name}: {error}"))?;
            config.set_parameter(name, value)?;
        }
        config.tls.client_files = parts.client_files()?;
        config.finish_tls();
        if config.targets[0].get_load_balance_hosts() == LoadBalanceHosts::Random {
            let first = getrandom::u32().unwrap_or_default() as usize % config.targets.len();
            config.targets.rotate_left(first);
        }
        Ok(config)
    }

    /// True if the URL itself contains a password.
    pub fn has_url_password(&self) -> bool {
        self.has_url_password
    }

    /// True if the traffic stays on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.targets.iter().all(is_local)
    }

    fn set_parameter(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "keepalives_count" => {
                let count = parse_number(name, value, 1, 100)?;
                self.each_target(|target| target.keepalives_retries(count));
            }
            // In milliseconds; tokio-postgres would read seconds.
            "tcp_user_timeout" => {
                let timeout = Duration::from_millis(parse_number(name, value, 0, u32::MAX)?.into());
                self.each_target(|target| target.tcp_user_timeout(timeout));
            }
            "lossy_settings" if value == "accept" => self.accepts_loss = true,
            "lossy_settings" => return Err(invalid(name, value, "accept")),
            "passfile" => self.password_file = Some(PasswordFile::required(value.into())),
            "pool_size" => {
                self.pool_size = parse_number(name, value, 1, MAX_POOL_SIZE)? as usize;
            }
            "sslmode" => {
                self.tls.mode = match value {
                    "disable" => TlsMode::Disable,
                    "require" => TlsMode::Require,
                    "verify-ca" => TlsMode::VerifyCa,
                    "verify-full" => TlsMode::VerifyFull,
                    // `allow` and `prefer` permit a downgrade to plain text.
                    _ => {
                        return Err(invalid(
                            name,
                            value,
                            "disable, verify-full, verify-ca or \
                                                         require",
                        ));
                    }
                }
            }
            "sslrootcert" if value == "system" => {}
            "sslrootcert" => self.tls.root_file = Some(value.into()),
            "target_session_attrs" => {
                self.needs_writable = match value {
                    "read-write" | "primary" => true,
                    "any" => false,
                    _ => return Err(invalid(name, value, "read-write, primary or any")),
                }
            }
            "write_isolation" => {
                self.write_isolation = match value {
                    "read-committed" => WriteIsolation::ReadCommitted,
                    "repeatable-read" => WriteIsolation::RepeatableRead,
                    "serializable" => WriteIsolation::Serializable,
                    _ => {
                        let valid = "read-committed, repeatable-read or serializable";
                        return Err(invalid(name, value, valid));
                    }
                }
            }
            // `sslcert` and `sslkey` are read together.
            _ => {}
        }
        Ok(())
    }

    /// The time that a connection takes at most: that of all hosts.
    pub(crate) fn connect_timeout(&self) -> Duration {
        self.targets.iter().filter_map(Config::get_connect_timeout).sum()
    }

    fn each_target(&mut self, mut change: impl FnMut(&mut Config) -> &mut Config) {
        for target in &mut self.targets {
            change(target);
        }
    }

    fn finish_tls(&mut self) {
        // As in libpq: a root certificate that is given is also used.
        if self.tls.mode == TlsMode::Require && self.tls.root_file.is_some() {
            self.tls.mode = TlsMode::VerifyCa;
        }
        // As in libpq: sockets of this machine are never encrypted.
        let is_socket = |target: &Config| matches!(target.get_hosts(), [host] if is_socket(host));
        if self.targets.iter().all(is_socket) {
            self.tls.mode = TlsMode::Disable;
        }
        let mode =
            if self.tls.mode == TlsMode::Disable { SslMode::Disable } else { SslMode::Require };
        self.each_target(|target| target.ssl_mode(mode));
    }
}

impl fmt::Display for PostgresConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.targets[0];
        f.write_str(SCHEMES[0])?;
        if let Some(user) = first.get_user() {
            write!(f, "{user}@")?;
        }
        let mut addresses: Vec<String> = self.targets.iter().map(address_of).collect();
        // The order says nothing about the database, and is random for balanced loads.
        addresses.sort();
        f.write_str(&addresses.join(","))?;
        if let Some(name) = first.get_dbname() {
            write!(f, "/{name}")?;
        }
        // A search path selects another schema.
        if let Some(options) = first.get_options() {
            write!(f, "?options={options}")?;
        }
        Ok(())
    }
}

/// The host and port of a target, for operators.
pub(crate) fn address_of(target: &Config) -> String {
    let port = target.get_ports().first().copied().unwrap_or(DEFAULT_PORT);
    match target.get_hosts().first() {
        #[cfg(unix)]
        Some(Host::Unix(folder)) => format!("{}:{port}", folder.display()),
        Some(Host::Tcp(host)) if host.contains(':') => format!("[{host}]:{port}"),
        Some(Host::Tcp(host)) => format!("{host}:{port}"),
        None => format!(":{port}"),
    }
}

/// The parts of a URL, as written.
struct UrlParts<'a> {
    credentials: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    /// Parameters that tokio-postgres reads.
    client: Vec<&'a str>,
    /// The decoded names and values of the other parameters.
    own: Vec<(&'a str, String)>,
}

impl<'a> UrlParts<'a> {
    fn split(url: &'a str) -> Result<Self, String> {
        let scheme = SCHEMES.iter().find(|scheme| url.starts_with(**scheme));
        let Some(scheme) = scheme else {
            return Err("it must begin with postgres:// or postgresql://".to_owned());
        };
        let (location, query) =
            url[scheme.len()..].split_once('?').unwrap_or((&url[scheme.len()..], ""));
        let (authority, path) = location.split_once('/').unwrap_or((location, ""));
        let (credentials, hosts) = match authority.split_once('@') {
            Some((credentials, hosts)) => (Some(credentials), hosts),
            None => (None, authority),
        };
        // Otherwise a part of a password would be taken for a host or a parameter, and be shown.
        if [hosts, path, query].iter().any(|part| part.contains('@')) {
            return Err(
                "in a user, a password or a parameter, write @ as %40, / as %2F, ? as %3F \
                        and : as %3A"
                    .to_owned(),
            );
        }
        let mut parts = Self { credentials, hosts, path, client: Vec::new(), own: Vec::new() };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            parts.add_parameter(parameter)?;
        }
        Ok(parts)
    }

    fn add_parameter(&mut self, parameter: &'a str) -> Result<(), String> {
        let Some((name, value)) = parameter.split_once('=') else {
            return Err("a parameter after ? has no value; write it as name=value".to_owned());
        };
        if CLIENT_PARAMETERS.contains(&name) {
            if matches!(name, "host" | "port") && (!self.hosts.is_empty() || value.contains(',')) {
                return Err(format!(
                    "{name}: write it between // and /, as in //db1:5432,db2/name"
                ));
            }
            self.client.push(parameter);
        } else if OWN_PARAMETERS.contains(&name) {
            let Ok(value) = percent_decode_str(value).decode_utf8() else {
                return Err(format!("{name}: its value is not UTF-8"));
            };
            self.own.push((name, value.into_owned()));
        } else if name == "password" {
            // Only a password before the host is hidden wherever a URL is shown.
            return Err("password: set PGPASSWORD or PGPASSFILE instead".to_owned());
        } else {
            let mut names = [&CLIENT_PARAMETERS[..], &OWN_PARAMETERS].concat();
            names.sort_unstable();
            return Err(format!(
                "{:?} is not a parameter of this version; it has {}",
                redact_echo(name),
                names.join(", ")
            ));
        }
        Ok(())
    }

    fn client_config(&self, host: &str) -> Result<Config, String> {
        let mut url = SCHEMES[0].to_owned();
        if let Some(credentials) = self.credentials {
            url += credentials;
            url += "@";
        }
        for part in [host, "/", self.path, "?", &self.client.join("&")] {
            url += part;
        }
        let mut config: Config = url.parse().map_err(|error: Error| match error.into_source() {
            Some(reason) => reason.to_string(),
            None => "it is not a valid URL".to_owned(),
        })?;
        if config.get_hosts().is_empty() {
            let folder = std::path::Path::new(DEFAULT_SOCKET_FOLDER);
            config.host(if folder.is_dir() { DEFAULT_SOCKET_FOLDER } else { "localhost" });
        }
        Ok(config)
    }

    fn client_files(&self) -> Result<Option<(PathBuf, PathBuf)>, String> {
        let file = |name| self.own.iter().find(|own| own.0 == name).map(|own| own.1.clone().into());
        match (file("sslcert"), file("sslkey")) {
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            (None, None) => Ok(None),
            _ => Err("sslcert, sslkey: one is missing; name both files".to_owned()),
        }
    }

    fn names(&self, name: &str) -> bool {
        self.client.iter().any(|parameter| parameter.split_once('=').is_some_and(|p| p.0 == name))
    }
}

impl PasswordSources {
    fn find_file(&self) -> Option<PasswordFile> {
        if let Some(file) = &self.password_file {
            return Some(PasswordFile::required(file.clone()));
        }
        Some(PasswordFile::optional(self.home.as_ref()?.join(".pgpass")))
    }
}

fn set_defaults(target: &mut Config, parts: &UrlParts<'_>, password: Option<&str>) {
    if target.get_password().is_none()
        && let Some(password) = password
    {
        target.password(password);
    }
    if target.get_connect_timeout().is_none() {
        target.connect_timeout(DEFAULT_CONNECT_TIMEOUT);
    }
    if target.get_application_name().is_none() {
        target.application_name("reqlore");
    }
    if !parts.names("keepalives_idle") {
        target.keepalives_idle(DEFAULT_KEEPALIVE_IDLE);
    }
    if !parts.names("keepalives_interval") {
        target.keepalives_interval(DEFAULT_KEEPALIVE_INTERVAL);
    }
    target.keepalives_retries(DEFAULT_KEEPALIVE_COUNT);
    target.tcp_user_timeout(DEFAULT_TCP_USER_TIMEOUT);
    // Checked by the connector, which also knows engines without this notion.
    target.target_session_attrs(TargetSessionAttrs::Any);
}

/// Two for each core: requests wait for the database, not for this process.
fn default_pool_size() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (2 * cores).clamp(4, 16)
}

/// True if the traffic stays on this machine.
fn is_local(target: &Config) -> bool {
    target.get_hosts().iter().all(|host| match host {
        Host::Tcp(name) => {
            name == "localhost"
                || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    })
}

fn parse_number(name: &str, value: &str, min: u32, max: u32) -> Result<u32, String> {
    match value.parse() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(invalid(name, value, &format!("a number from {min} to {max}"))),
    }
}

fn invalid(name: &str, value: &str, expected: &str) -> String {
    format!("{name}: {:?} is not accepted; use {expected}", redact_echo(value))
}

/// Isolation of the transactions of writers. Each level is safe: all writers change one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum WriteIsolation {
    /// After the wait for [`LOCK`], statements see the newest state: writers queue.
    #[default]
    ReadCommitted,
    /// Conflicting transactions fail and are retried. The only level of Aurora DSQL.
    RepeatableRead,
    /// As [`Self::RepeatableRead`]. The default of CockroachDB.
    Serializable,
}

impl WriteIsolation {
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

//! Parses a client's entry for this server, in the format of any client.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Parser, Subcommand};
use serde_json::{Map, Value};

use crate::client_environment::NAME;
use crate::config::paths::env_variable;
use crate::settings::{self, FILE_VARIABLE, SettingFlags};

/// Set by the launcher of the npm package.
const LAUNCHER_VARIABLE: &str = "REQLORE_LAUNCHER";
/// Set by uv for the programs that it starts.
const UV_VARIABLE: &str = "UV";
/// Beginnings of a variable in a value, before its name.
const VARIABLE_PREFIXES: [&str; 3] = ["${env:", "{env:", "${"];
/// Beginning of a variable whose value the client requests from its user.
const INPUT_PREFIX: &str = "${input:";
const SETTING_PREFIXES: [&str; 2] = ["REQLORE_", "REQLIX_"];
/// Flags that `doctor` replaces when it starts an entry, so that it changes no file of the user.
const REPLACED_FLAGS: [&str; 5] = ["--root", "--storage", "--config", "--transport", "--log"];

/// A program that downloads a package if needed and starts its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PackageRunner {
    Npx,
    Uvx,
}

impl PackageRunner {
    const ALL: [Self; 2] = [Self::Npx, Self::Uvx];

    /// The runner that started this process.
    pub(super) fn of_process() -> Option<Self> {
        if env_variable(LAUNCHER_VARIABLE).as_deref() == Some(Self::Npx.program()) {
            return Some(Self::Npx);
        }
        let program = std::env::current_exe().ok()?;
        let is_in_cache = program.iter().filter_map(OsStr::to_str).any(is_uv_archive);
        (is_in_cache && env_variable(UV_VARIABLE).is_some()).then_some(Self::Uvx)
    }

    pub(super) fn program(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }

    /// The arguments before the package.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            // Without it, npx asks before it installs and the client waits.
            Self::Npx => &["-y"],
            Self::Uvx => &[],
        }
    }

    /// Installs the program permanently.
    pub(super) fn install_command(self) -> &'static str {
        match self {
            Self::Npx => "npm install -g reqlore",
            Self::Uvx => "uv tool install reqlore",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientEntry {
    Command(CommandEntry),
    Url { url: String, token: TokenSource },
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenSource {
    Variable(String),
    /// The client requests the token from its user.
    Input,
    None,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandEntry {
    pub(super) program: String,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(String, String)>,
}

impl ClientEntry {
    pub(super) fn parse(value: &Value) -> Self {
        let Some(entry) = value.as_object() else { return Self::Unknown };
        // Each client has its own name for the address.
        let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry.get(*key)?.as_str());
        match url {
            Some(url) => Self::Url { url: url.to_owned(), token: token_source(entry) },
            None => CommandEntry::parse(value).map_or(Self::Unknown, Self::Command),
        }
    }
}

impl CommandEntry {
    /// `None` if the entry names no program.
    pub(super) fn parse(value: &Value) -> Option<Self> {
        // An older format of Zed nests the command.
        let (entry, command) = match value.get("command")? {
            nested @ Value::Object(_) => (nested, nested.get("path")?),
            command => (value, command),
        };
        let mut words = Vec::new();
        match command {
            Value::Array(items) => words.extend(items.iter().map(text_of)),
            Value::String(program) => words.push(program.clone()),
            _ => {}
        }
        if let Some(Value::Array(items)) = entry.get("args") {
            words.extend(items.iter().map(text_of));
        }
        if words.is_empty() {
            return None;
        }
        let program = words.remove(0);
        let mut variables = Vec::new();
        for key in ["env", "environment"] {
            if let Some(Value::Object(map)) = entry.get(key) {
                variables.extend(map.iter().map(|(name, value)| (name.clone(), text_of(value))));
            }
        }
        Some(Self { program, arguments: words, variables })
    }

    /// The package, possibly with a version, and its arguments in `npx -y reqlore@1.2 …`.
    pub(super) fn package(&self) -> Option<(PackageRunner, &str, &[String])> {
        let runner = PackageRunner::ALL.into_iter().find(|one| one.program() == self.program)?;
        let (flags, words) = self.arguments.split_at_checked(runner.flags().len())?;
        let (package, rest) = words.split_first()?;
        (flags == runner.flags() && is_package(package)).then_some((runner, package, rest))
    }

    /// The arguments for Reqlore; `None` if the command does not name Reqlore.
    pub(super) fn reqlore_arguments(&self) -> Option<&[String]> {
        if Path::new(&self.program).file_stem()? == NAME {
            return Some(&self.arguments);
        }
        self.package().map(|(_, _, arguments)| arguments)
    }

    /// The variables that are not settings of this server.
    pub(super) fn foreign_variables(&self) -> Vec<&str> {
        let mut foreign = Vec::new();
        for (name, _) in &self.variables {
            if !SETTING_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                foreign.push(name.as_str());
            }
        }
        foreign
    }

    pub(super) fn names_root(&self) -> bool {
        // The root may also come from a variable of the entry.
        let has_flag = self
            .arguments
            .iter()
            .any(|argument| argument == "--root" || argument.starts_with("--root="));
        has_flag || self.variables.iter().any(|(name, _)| name == "REQLORE_ROOT")
    }

    /// The settings of a stdio server with these arguments and the entry's variables. The error
    /// is the reason why such a server would not start.
    pub(super) fn parse_flags(&self, arguments: &[String]) -> Result<SettingFlags, String> {
        let mut words = vec![NAME.to_owned()];
        words.extend(arguments.iter().cloned());
        words.extend(self.variables_as_flags(arguments));
        let cli = ServerCommandLine::try_parse_from(words).map_err(|error| {
            let text = error.to_string();
            // The other lines show the usage of the command line.
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })?;
        if cli.print_config {
            return Err("--print-config starts no server".to_owned());
        }
        if !matches!(cli.command, None | Some(ServerCommand::Serve)) {
            return Err("another command than `serve`".to_owned());
        }
        // The client talks to the server over its standard streams.
        if cli.settings.transport.as_deref().is_some_and(|transport| transport != "stdio") {
            return Err("a server that a client starts needs --transport stdio".to_owned());
        }
        match &cli.settings.root {
            // The client replaces variables, so such a path can't be checked here.
            Some(root) if !root.to_string_lossy().contains("${") && !root.is_dir() => {
                Err(format!("--root {} is not a folder", root.display()))
            }
            _ => Ok(cli.settings),
        }
    }

    /// Variables as flags, except those that a flag overrides.
    fn variables_as_flags(&self, arguments: &[String]) -> Vec<String> {
        let mut flags = Vec::new();
        for (name, value) in &self.variables {
            if let Some(flag) = flag_of_variable(name)
                && !arguments.iter().any(|argument| argument.starts_with(flag))
            {
                flags.push(format!("{flag}={value}"));
            }
        }
        flags
    }
}

fn flag_of_variable(name: &str) -> Option<&'static str> {
    if name == FILE_VARIABLE {
        return Some("--config");
    }
    let setting = settings::all_settings().find(|setting| setting.variable == Some(name))?;
    // This flag takes no value, and does not decide where documents are.
    setting.flag.filter(|flag| *flag != "--read-only")
}

/// True for the folder of uv's cache with the programs that uvx starts.
fn is_uv_archive(folder: &str) -> bool {
    folder.strip_prefix("archive-v").is_some_and(|version| version.parse::<u32>().is_ok())
}

/// True for the package of Reqlore, possibly with a version.
pub(super) fn is_package(word: &str) -> bool {
    word.split('@').next() == Some(NAME)
}

/// The arguments without [`REPLACED_FLAGS`] and their values.
pub(super) fn without_replaced_flags(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if !REPLACED_FLAGS.contains(&flag) {
            kept.push(word.clone());
        } else if flag == word {
            // Without `=`, the next word is the value of the flag.
            words.next();
        }
    }
    kept
}

pub(super) fn is_disabled(value: &Value) -> bool {
    value["disabled"] == true || value["enabled"] == false
}

/// The message for the first key whose type differs from the expected one.
pub(super) fn wrong_type_message(value: &Value, expected: &Map<String, Value>) -> Option<String> {
    for (key, expected) in expected {
        if let Some(actual) = value.get(key)
            && std::mem::discriminant(actual) != std::mem::discriminant(expected)
        {
            return Some(format!("`{key}` has the wrong type; expected a value like {expected}"));
        }
    }
    None
}

pub(super) fn collect_strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(collect_strings).collect(),
        Value::Object(items) => items.values().flat_map(collect_strings).collect(),
        _ => Vec::new(),
    }
}

fn token_source(entry: &Map<String, Value>) -> TokenSource {
    if let Some(Value::String(name)) = entry.get("bearer_token_env_var") {
        return TokenSource::Variable(name.clone());
    }
    let Some(headers) = entry.get("headers") else { return TokenSource::None };
    for text in collect_strings(headers) {
        if text.contains(INPUT_PREFIX) {
            return TokenSource::Input;
        }
        if let Some(name) = variable_in(text) {
            return TokenSource::Variable(name);
        }
    }
    TokenSource::None
}

/// The name of the first variable in a value.
fn variable_in(text: &str) -> Option<String> {
    for prefix in VARIABLE_PREFIXES {
        if let Some((_, rest)) = text.split_once(prefix) {
            // A default value may follow the name after a colon.
            return rest.split(['}', ':']).next().map(str::to_owned);
        }
    }
    let (_, rest) = text.split_once('$')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    if end == 0 { None } else { Some(rest[..end].to_owned()) }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The command line of an entry. Other commands than `serve` are parsed, because they get an error
/// of their own.
#[derive(Parser)]
#[command(name = NAME, version)]
struct ServerCommandLine {
    #[command(subcommand)]
    command: Option<ServerCommand>,
    #[command(flatten)]
    settings: SettingFlags,
    #[arg(long, global = true)]
    print_config: bool,
}

#[derive(Subcommand)]
enum ServerCommand {
    Serve,
    #[command(external_subcommand)]
    Other(#[expect(dead_code, reason = "clap fills it")] Vec<String>),
}

#[cfg(test)]
mod tests {
    use reqlore_client_config::{Client, ServerSpec};
    use serde_json::json;

    use super::*;

    #[test]
    fn parse_reads_what_init_writes_for_each_client() {
        let command = CommandEntry {
            program: NAME.to_owned(),
            arguments: ["--read-only", "--log", "warn"].map(str::to_owned).to_vec(),
            variables: Vec::new(),
        };
        let (url, token_variable) = ("https://a/mcp".to_owned(), "REQLORE_TOKEN".to_owned());
        for client in Client::ALL {
            let arguments = command.arguments.clone();
            let server = ServerSpec::Command { program: NAME.to_owned(), arguments };
            match ClientEntry::parse(&Value::Object(client.entry(&server).unwrap().set)) {
                ClientEntry::Command(parsed) => assert_eq!(parsed, command, "{client}"),
                other => panic!("{client}: {other:?}"),
            }
            let server =
                ServerSpec::Url { url: url.clone(), token_variable: token_variable.clone() };
            let Ok(entry) = client.entry(&server) else { continue };
            match ClientEntry::parse(&Value::Object(entry.set)) {
                ClientEntry::Url { url, token: TokenSource::Variable(name) } => {
                    assert_eq!((&*url, &*name), ("https://a/mcp", "REQLORE_TOKEN"), "{client}");
                }
                ClientEntry::Url { token: TokenSource::Input, .. } => {}
                other => panic!("{client}: {other:?}"),
            }
        }
    }

    #[test]
    fn parse_reads_other_spellings() {
        let read = |value: Value| match ClientEntry::parse(&value) {
            ClientEntry::Command(CommandEntry { program, arguments, variables }) => {
                format!("{program} {arguments:?} {variables:?}")
            }
            ClientEntry::Url { url, token } => format!("{url} {token:?}"),
            ClientEntry::Unknown => "unknown".to_owned(),
        };
        let zed = json!({ "command": { "path": "a", "args": ["b"], "env": { "C": "d" } } });
        assert_eq!(read(zed), r#"a ["b"] [("C", "d")]"#);
        let header = |text: &str| json!({ "url": "u", "headers": { "Authorization": text } });
        assert_eq!(read(header("Bearer $TOKEN")), r#"u Variable("TOKEN")"#);
        assert_eq!(read(header("Bearer ${TOKEN:-none}")), r#"u Variable("TOKEN")"#);
        assert_eq!(read(header("Bearer ${input:token}")), "u Input");
        assert_eq!(read(header("Bearer x")), "u None");
        for nothing in [json!(null), json!([]), json!({ "command": [] }), json!({ "args": [] })] {
            assert_eq!(read(nothing), "unknown");
        }
        assert!(is_disabled(&json!({ "disabled": true })) && !is_disabled(&json!({})));
    }

    #[test]
    fn flags_rejects_arguments_that_do_not_serve() {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let check = |text: &str| CommandEntry::default().parse_flags(&words(text)).map(|_| ());
        for good in ["", "serve", "--root ${workspaceFolder}", "--storage sqlite --read-only"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("--sotrage fs", "unexpected argument"),
            ("user add eve --role administrator", "another command"),
            ("--transport http", "--transport stdio"),
            ("--root /no/such/folder", "is not a folder"),
            ("--print-config", "starts no server"),
        ] {
            assert!(check(bad).is_err_and(|error| error.contains(why)), "{bad}");
        }
        let kept = without_replaced_flags(&words(
            "serve --root x --read-only --storage=sled:y --toolsets a",
        ));
        assert_eq!(kept, words("serve --read-only --toolsets a"));
    }
}

//! A client's entry for this server, parsed independently of the client that wrote it.

use std::path::Path;

use clap::Parser;
use serde_json::{Map, Value};

use super::{Cli, Command, ConfiguredCommand};
use crate::client_environment::NAME;
use crate::settings::{self, FILE_VARIABLE, Flags};

pub(super) const NPX: &str = "npx";
/// Spellings of a variable in a value: `${env:NAME}`, `{env:NAME}`, `${NAME}`.
const VARIABLES: [&str; 3] = ["${env:", "{env:", "${"];
/// A variable that the client asks its user for.
const INPUT: &str = "${input:";
const SETTING_PREFIXES: [&str; 2] = ["REQLORE_", "REQLIX_"];
/// Flags that `doctor` replaces when it starts an entry, so that no file of the user is touched.
const REPLACED: [&str; 5] = ["--root", "--storage", "--config", "--transport", "--log"];

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClientEntry {
    Command(CommandEntry),
    Url { url: String, token: TokenSource },
    Unknown,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum TokenSource {
    Variable(String),
    /// The client asks its user.
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
        let words =
            std::iter::once(command).chain(entry.get("args").filter(|args| args.is_array()));
        let mut words = words.flat_map(|word| match word {
            Value::Array(words) => words.iter().map(text).collect(),
            Value::String(program) => vec![program.clone()],
            _ => Vec::new(),
        });
        let program = words.next()?;
        let maps = ["env", "environment"].iter().filter_map(|key| entry.get(*key)?.as_object());
        let variables = maps.flatten().map(|(name, value)| (name.clone(), text(value))).collect();
        Some(Self { program, arguments: words.collect(), variables })
    }

    /// The package and its arguments of `npx -y reqlore…`.
    pub(super) fn npx_package(&self) -> Option<(&str, &[String])> {
        match &*self.arguments {
            [yes, package, rest @ ..] if yes == "-y" && is_package(package) => {
                (self.program == NPX).then_some((package, rest))
            }
            _ => None,
        }
    }

    /// The arguments for Reqlore after a program of that name or `npx -y reqlore`.
    pub(super) fn own_arguments(&self) -> Option<&[String]> {
        if Path::new(&self.program).file_stem()? == NAME {
            return Some(&self.arguments);
        }
        self.npx_package().map(|(_, arguments)| arguments)
    }

    /// The variables that are not settings of this server.
    pub(super) fn foreign_variables(&self) -> Vec<&str> {
        let is_setting = |name: &str| SETTING_PREFIXES.iter().any(|p| name.starts_with(p));
        let names = self.variables.iter().map(|(name, _)| name.as_str());
        names.filter(|name| !is_setting(name)).collect()
    }

    pub(super) fn names_root(&self) -> bool {
        let is_root = |argument: &String| argument == "--root" || argument.starts_with("--root=");
        self.arguments.iter().any(is_root)
            || self.variables.iter().any(|(name, _)| name == "REQLORE_ROOT")
    }

    /// The settings of a stdio server with these arguments and the entry's variables, or the error.
    pub(super) fn flags(&self, arguments: &[String]) -> Result<Flags, String> {
        let words = [NAME.to_owned()].into_iter().chain(arguments.iter().cloned());
        let cli = Cli::try_parse_from(words.chain(self.variables_as_flags(arguments)));
        let cli = cli.map_err(|error| {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        })?;
        if cli.print_config {
            return Err("--print-config does not serve".to_owned());
        }
        if !matches!(cli.command, None | Some(Command::Configured(ConfiguredCommand::Serve))) {
            return Err("they name another command than `serve`".to_owned());
        }
        if cli.settings.transport.as_deref().is_some_and(|transport| transport != "stdio") {
            return Err("a client that starts a server needs --transport stdio".to_owned());
        }
        match &cli.settings.root {
            Some(root) if !root.to_string_lossy().contains("${") && !root.is_dir() => {
                Err(format!("--root {} is not a folder", root.display()))
            }
            _ => Ok(cli.settings),
        }
    }

    /// Variables as flags, except those that a flag overrides.
    fn variables_as_flags(&self, arguments: &[String]) -> Vec<String> {
        let flag = |name: &str| {
            if name == FILE_VARIABLE {
                return Some("--config");
            }
            let setting = settings::all_settings().find(|setting| setting.variable == Some(name));
            // This flag has no value, and does not decide where documents are.
            setting?.flag.filter(|flag| *flag != "--read-only")
        };
        let mut flags = Vec::new();
        for (name, value) in &self.variables {
            if let Some(flag) = flag(name)
                && !arguments.iter().any(|argument| argument.starts_with(flag))
            {
                flags.push(format!("{flag}={value}"));
            }
        }
        flags
    }
}

/// True for our package of npm, possibly with a version.
pub(super) fn is_package(word: &str) -> bool {
    word.split('@').next() == Some(NAME)
}

/// The arguments without those in [`REPLACED`].
pub(super) fn isolated(arguments: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let flag = word.split('=').next().unwrap_or_default();
        if !REPLACED.contains(&flag) {
            kept.push(word.clone());
        } else if flag == word {
            words.next();
        }
    }
    kept
}

pub(super) fn is_disabled(value: &Value) -> bool {
    value["disabled"] == true || value["enabled"] == false
}

/// The first key of another type than the client reads, as a message.
pub(super) fn wrong_type(value: &Value, wanted: &Map<String, Value>) -> Option<String> {
    let is_same = |a: &Value, b: &Value| std::mem::discriminant(a) == std::mem::discriminant(b);
    let (key, wanted) =
        wanted.iter().find(|(key, wanted)| value.get(key).is_some_and(|v| !is_same(v, wanted)))?;
    Some(format!("`{key}` has another type than it should, for example {wanted}"))
}

pub(super) fn all_texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(all_texts).collect(),
        Value::Object(items) => items.values().flat_map(all_texts).collect(),
        _ => Vec::new(),
    }
}

fn token_source(entry: &Map<String, Value>) -> TokenSource {
    if let Some(name) = entry.get("bearer_token_env_var").and_then(Value::as_str) {
        return TokenSource::Variable(name.to_owned());
    }
    for text in entry.get("headers").map(all_texts).unwrap_or_default() {
        if text.contains(INPUT) {
            return TokenSource::Input;
        }
        if let Some(name) = variable_in(text) {
            return TokenSource::Variable(name);
        }
    }
    TokenSource::None
}

fn variable_in(text: &str) -> Option<String> {
    if let Some((_, rest)) = VARIABLES.iter().find_map(|begin| text.split_once(begin)) {
        return rest.split(['}', ':']).next().map(str::to_owned);
    }
    let (_, rest) = text.split_once('$')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|name| !name.is_empty())
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use reqlore_client_config::{Client, Server};
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
            let server = Server::Command { program: NAME.to_owned(), arguments };
            match ClientEntry::parse(&Value::Object(client.entry(&server).unwrap().set)) {
                ClientEntry::Command(parsed) => assert_eq!(parsed, command, "{client}"),
                other => panic!("{client}: {other:?}"),
            }
            let server = Server::Url { url: url.clone(), token_variable: token_variable.clone() };
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
        let check = |text: &str| CommandEntry::default().flags(&words(text)).map(|_| ());
        for good in ["", "serve", "--root ${workspaceFolder}", "--storage sqlite --read-only"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("--sotrage fs", "unexpected argument"),
            ("user add eve --role administrator", "another command"),
            ("--transport http", "--transport stdio"),
            ("--root /no/such/folder", "is not a folder"),
            ("--print-config", "does not serve"),
        ] {
            assert!(check(bad).is_err_and(|error| error.contains(why)), "{bad}");
        }
        let kept = isolated(&words("serve --root x --read-only --storage=sled:y --toolsets a"));
        assert_eq!(kept, words("serve --read-only --toolsets a"));
    }
}

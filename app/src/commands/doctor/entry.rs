//! A client's entry for this server, as far as it can be read whichever client wrote it.

use serde_json::{Map, Value};

/// What stands around a variable's name in a value: `${NAME}`, `${env:NAME}`, `{env:NAME}`.
const VARIABLES: [(&str, char); 3] = [("${env:", '}'), ("{env:", '}'), ("${", '}')];
/// A variable that a client asks its person for.
const ASKED: &str = "${input:";

/// What an entry tells a client to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Command {
        program: String,
        arguments: Vec<String>,
        variables: Vec<(String, String)>,
    },
    Url {
        url: String,
        token: Token,
    },
    /// Neither, or what is no such thing.
    Unknown,
}

/// Where the token comes from.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    Variable(String),
    /// The client asks for it.
    Asked,
    /// Nowhere.
    None,
}

impl Entry {
    pub(super) fn read(value: &Value) -> Self {
        let Some(entry) = value.as_object() else { return Self::Unknown };
        let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|key| entry.get(*key)?.as_str());
        if let Some(url) = url {
            return Self::Url { url: url.to_owned(), token: token(entry) };
        }
        // Zed once had one more level.
        let inner = entry.get("command").and_then(Value::as_object);
        let (program, mut arguments) =
            match inner.map_or_else(|| entry.get("command"), |c| c.get("path")) {
                Some(Value::String(program)) => (program.clone(), Vec::new()),
                Some(Value::Array(words)) => match &*texts(words) {
                    [program, rest @ ..] => (program.clone(), rest.to_vec()),
                    [] => return Self::Unknown,
                },
                _ => return Self::Unknown,
            };
        let entry = inner.unwrap_or(entry);
        if let Some(Value::Array(words)) = entry.get("args") {
            arguments.extend(texts(words));
        }
        let variables =
            ["env", "environment"].iter().filter_map(|key| entry.get(*key)?.as_object());
        let variable = |(name, value): (&String, &Value)| (name.clone(), text(value));
        Self::Command { program, arguments, variables: variables.flatten().map(variable).collect() }
    }
}

/// Is it switched off in the file?
pub(super) fn is_disabled(value: &Value) -> bool {
    value["disabled"] == true || value["enabled"] == false
}

/// What a client can't read, since it wants it to be of another type.
pub(super) fn misread(value: &Value, wanted: &Map<String, Value>) -> Option<String> {
    let looked_at = ["command", "args", "url", "httpUrl", "headers"];
    let kind = |value: &Value| match value {
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
        _ => "something else",
    };
    looked_at.into_iter().find_map(|key| {
        let (found, wanted) = (kind(value.get(key)?), kind(wanted.get(key)?));
        (found != wanted).then(|| format!("`{key}` has to be {wanted}, and is {found}"))
    })
}

/// Every text in a value.
pub(super) fn all_texts(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(all_texts).collect(),
        Value::Object(items) => items.values().flat_map(all_texts).collect(),
        _ => Vec::new(),
    }
}

fn token(entry: &Map<String, Value>) -> Token {
    if let Some(name) = entry.get("bearer_token_env_var").and_then(Value::as_str) {
        return Token::Variable(name.to_owned());
    }
    for text in entry.get("headers").map(all_texts).unwrap_or_default() {
        if text.contains(ASKED) {
            return Token::Asked;
        }
        if let Some(name) = variable(text) {
            return Token::Variable(name);
        }
    }
    Token::None
}

/// The variable that a text names.
fn variable(text: &str) -> Option<String> {
    for (begin, end) in VARIABLES {
        let Some((_, rest)) = text.split_once(begin) else { continue };
        let name = rest.split([end, ':']).next().unwrap_or_default();
        return Some(name.to_owned());
    }
    let (_, rest) = text.split_once('$')?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|name| !name.is_empty())
}

fn texts(words: &[Value]) -> Vec<String> {
    words.iter().map(text).collect()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use reqlore_client_config::{Client, Server};
    use serde_json::json;

    use super::*;

    /// What `init` writes is what is read here, for each client.
    #[test]
    fn each_clients_entry_is_understood() {
        let arguments = vec!["--read-only".to_owned(), "--log".to_owned(), "warn".to_owned()];
        let (url, token_variable) = ("https://a/mcp".to_owned(), "REQLORE_TOKEN".to_owned());
        for client in Client::ALL {
            let program = "reqlore".to_owned();
            let server = Server::Command { program, arguments: arguments.clone() };
            let entry = client.entry(&server).unwrap();
            let expected = Entry::Command {
                program: "reqlore".to_owned(),
                arguments: arguments.clone(),
                variables: Vec::new(),
            };
            assert_eq!(Entry::read(&Value::Object(entry.set)), expected, "{client}");
            let server = Server::Url { url: url.clone(), token_variable: token_variable.clone() };
            let Ok(entry) = client.entry(&server) else { continue };
            match Entry::read(&Value::Object(entry.set)) {
                Entry::Url { url, token: Token::Variable(name) } => {
                    assert_eq!((&*url, &*name), ("https://a/mcp", "REQLORE_TOKEN"), "{client}");
                }
                Entry::Url { token: Token::Asked, .. } => {}
                other => panic!("{client}: {other:?}"),
            }
        }
    }

    #[test]
    fn other_spellings_are_understood_too() {
        let read = |value: Value| match Entry::read(&value) {
            Entry::Command { program, arguments, variables } => {
                format!("{program} {arguments:?} {variables:?}")
            }
            Entry::Url { url, token } => format!("{url} {token:?}"),
            Entry::Unknown => "unknown".to_owned(),
        };
        let zed = json!({ "command": { "path": "a", "args": ["b"], "env": { "C": "d" } } });
        assert_eq!(read(zed), r#"a ["b"] [("C", "d")]"#);
        let header = |text: &str| json!({ "url": "u", "headers": { "Authorization": text } });
        assert_eq!(read(header("Bearer $TOKEN")), r#"u Variable("TOKEN")"#);
        assert_eq!(read(header("Bearer ${TOKEN:-none}")), r#"u Variable("TOKEN")"#);
        assert_eq!(read(header("Bearer ${input:token}")), "u Asked");
        assert_eq!(read(header("Bearer x")), "u None");
        for nothing in [json!(null), json!([]), json!({ "command": [] }), json!({ "args": [] })] {
            assert_eq!(read(nothing), "unknown");
        }
        assert!(is_disabled(&json!({ "disabled": true })) && !is_disabled(&json!({})));
    }
}

//! The client of all commands that read or change content: calls tools in this process, or through
//! a team server.

use std::sync::Arc;
use std::time::Duration;

use reqlore_application::{Application, Maintenance};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller, redact_echo, redact_secrets, token};
use reqlore_domain::ports::service::{
    AnswerFormat, NoProgress, RenderedAnswer, ToolCall, ToolService,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::record_schema::RecordSchemaAnswer;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::unreplaced_variable::check_replaced;
use reqlore_probe::{ENDPOINT_PATH, HttpClient, endpoint_url, is_encrypted, is_loopback};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;

use crate::composition;
use crate::config::AppConfig;
use crate::config::paths::env_variable;
use crate::exit::{CommandError, Result};
use crate::progress::ProgressDisplay;

/// Time limit of one call of a team server.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// A user who completes a line does not wait longer.
const COMPLETION_TIMEOUT: Duration = Duration::from_secs(2);
pub(crate) const URL_VARIABLE: &str = "REQLORE_URL";
pub(crate) const TOKEN_VARIABLE: &str = "REQLORE_TOKEN";
/// The `_meta` key for the structured error of a failed tool call.
const ERROR_META: &str = "reqlore/error";

/// The project that a command works on.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Project (the local one, unless a server is named)")]
pub(crate) struct ProjectOptions {
    /// Use a team server, with the token in REQLORE_TOKEN [environment: REQLORE_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Key of the project [default: that of the token or the working directory]
    #[arg(long, value_name = "KEY")]
    pub(crate) project: Option<String>,
    /// Send the token unencrypted, over http:// to another machine
    #[arg(long)]
    pub(crate) allow_http: bool,
}

impl ProjectOptions {
    /// The address of the team server; `None` is the local project.
    pub(crate) fn server_url(&self) -> Option<String> {
        self.url.clone().or_else(|| env_variable(URL_VARIABLE))
    }
}

/// Purpose for which a command opens the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientPurpose {
    /// Calls tools without the right to write: some create a missing file, which a command that
    /// only reads must not do.
    Read,
    /// Changes what exists.
    Change,
    /// May add the first content, which creates a database at its default path.
    Add,
}

/// Calls tools, which decide about permissions, validation and conflicts.
pub(crate) struct ToolClient {
    connection: Connection,
    /// The project for tools that require one.
    project: String,
}

enum Connection {
    Local(Box<LocalConnection>),
    Remote { client: HttpClient, url: String },
}

struct LocalConnection {
    application: Application,
    caller: Arc<Caller>,
    /// Set if calls are audited: their rows are written at the end.
    maintenance: Option<Maintenance>,
    /// `None` after the end.
    runtime: Option<Runtime>,
}

impl ToolClient {
    /// Opens the local project, or connects to the team server that the options or the environment
    /// name.
    pub(crate) fn open(
        config: &AppConfig,
        options: &ProjectOptions,
        purpose: ClientPurpose,
    ) -> Result<Self> {
        if options.server_url().is_none() {
            crate::commands::output::warn_of_unselected_database(config);
        }
        Self::connect(config, options, purpose, CALL_TIMEOUT)
    }

    /// Opens it for a shell that completes a line: without warnings, and with a short time limit.
    pub(crate) fn open_quietly(config: &AppConfig, options: &ProjectOptions) -> Result<Self> {
        Self::connect(config, options, ClientPurpose::Read, COMPLETION_TIMEOUT)
    }

    fn connect(
        config: &AppConfig,
        options: &ProjectOptions,
        purpose: ClientPurpose,
        timeout: Duration,
    ) -> Result<Self> {
        let project = options.project.clone();
        let connection = match options.server_url() {
            Some(url) => connect_remote(&url, options, timeout)?,
            None => open_local(config, project.as_deref(), purpose)?,
        };
        Ok(Self { connection, project: project.unwrap_or_else(|| ProjectKey::DEFAULT.to_owned()) })
    }

    /// Calls a tool and returns its answer. The error has the tool's kind and text, so that `?`
    /// makes it the command's error.
    pub(crate) fn call<Answer: DeserializeOwned>(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<Answer, Error> {
        self.call_for_answer(tool, arguments)?.answer()
    }

    /// The custom fields and statuses of the project.
    pub(crate) fn record_schema(&self) -> Result<RecordSchema, Error> {
        self.schema_document(json!({})).map(|answer| RecordSchema::parse(&answer.text))
    }

    /// The document with the custom fields and statuses.
    pub(crate) fn schema_document(&self, arguments: Value) -> Result<RecordSchemaAnswer, Error> {
        match self.call("get_record_schema", arguments) {
            // The toolsets with records are turned off.
            Err(error) if error.kind == ErrorKind::UnknownTool => Ok(RecordSchemaAnswer::default()),
            answer => answer,
        }
    }

    /// Calls a tool and returns its data and its texts.
    pub(crate) fn call_for_answer(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<RenderedAnswer, Error> {
        let mut arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        if tool.starts_with("reqlix_") {
            // Required by these tools, and the same for all commands.
            for (name, value) in [("project_root", &*self.project), ("operation_description", tool)]
            {
                arguments.entry(name).or_insert_with(|| json!(value));
            }
        }
        let answer = match &self.connection {
            Connection::Local(local) => local.call(tool, arguments),
            Connection::Remote { client, url } => {
                let response = client.call_tool(tool, &Value::Object(arguments));
                let response = response.map_err(|error| {
                    Error::new(ErrorKind::Unavailable, format!("{url} {error}"))
                })?;
                read_response(response)
            }
        };
        answer.map_err(name_commands)
    }
}

/// Replaces tools and their arguments in the advice of an error by commands and options.
fn name_commands(mut error: Error) -> Error {
    for (tool, command) in [
        ("search_global finds", "`reqlore search` finds"),
        ("get_item lists all", "`reqlore show` lists all"),
        ("pass cascade: true", "pass --cascade"),
    ] {
        error.message = error.message.replace(tool, command);
    }
    if let Some(name) = error.field.as_ref().and_then(|field| field.strip_prefix("fields.")) {
        error.message = error.message.replace(&format!("fields.{name}"), name);
    }
    error
}

impl LocalConnection {
    fn call(&self, tool: &str, arguments: Map<String, Value>) -> Result<RenderedAnswer, Error> {
        let Some(runtime) = &self.runtime else {
            return Err(Error::new(ErrorKind::Internal, "the client is closed"));
        };
        let call = ToolCall {
            caller: Arc::clone(&self.caller),
            client_name: None,
            correlation_id: "command".to_owned(),
            name: tool.to_owned(),
            arguments,
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited: false,
        };
        runtime.block_on(self.application.call(call))
    }
}

impl Drop for LocalConnection {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take() else { return };
        if let Some(maintenance) = &self.maintenance {
            runtime.block_on(maintenance.finish());
        }
        // Does not wait for background tasks, such as an update of the search index.
        runtime.shutdown_background();
    }
}

fn open_local(
    config: &AppConfig,
    project: Option<&str>,
    purpose: ClientPurpose,
) -> Result<Connection> {
    let mut caller = composition::local_caller(config);
    if purpose == ClientPurpose::Read {
        caller.access = Access::Read;
    }
    if let Some(key) = project {
        caller.project = configured_project(config, key)?;
    }
    let store = composition::open_project_store(config, purpose == ClientPurpose::Add)?;
    let is_audited = config.audit == Some(true);
    let mut ports = composition::ports_over(config, &store, is_audited)?;
    ports.settings.awaits_index_builds = true;
    ports.progress = Arc::new(ProgressDisplay::on_terminal());
    let application = Application::new(ports);
    let maintenance = is_audited.then(|| application.maintenance(None, config.keep_days));
    Ok(Connection::Local(Box::new(LocalConnection {
        application,
        caller: Arc::new(caller),
        maintenance,
        runtime: Some(composition::single_thread_runtime()?),
    })))
}

pub(super) fn configured_project(config: &AppConfig, key: &str) -> Result<ProjectKey> {
    let project = ProjectKey::new(key);
    if project.is_default() || config.projects.contains_key(&project) {
        return Ok(project);
    }
    let mut known = ProjectKey::DEFAULT.to_owned();
    for key in config.projects.keys() {
        known += &format!(", {key}");
    }
    Err(CommandError::usage_error(format!(
        "--project: {:?} is not a project of the configuration; use one of {known}",
        redact_echo(key)
    )))
}

fn connect_remote(url: &str, options: &ProjectOptions, timeout: Duration) -> Result<Connection> {
    let (url, shown) = check_url(url)?;
    if !options.allow_http && !is_loopback(&url) && !is_encrypted(&url) {
        return Err(CommandError::usage_error(format!(
            "--url: {shown} is not encrypted, so the network can read the token; use https://, or \
             pass --allow-http in a trusted network"
        )));
    }
    let Some(token) = env_variable(TOKEN_VARIABLE) else {
        return Err(CommandError::usage_error(format!(
            "{TOKEN_VARIABLE}: is not set; set it to a token for {shown} from `reqlore token \
             create`"
        )));
    };
    // Anything else is not sent: it may be another service's secret.
    if let Some([problem, next]) = token::describe_malformed(token.trim()) {
        let message = format!("{TOKEN_VARIABLE}: the token {problem}; {next}");
        return Err(CommandError::usage_error(message));
    }
    let mut client = HttpClient::new(&url, Some(token.trim()), timeout);
    if let Some(key) = &options.project {
        if !ProjectKey::new(&**key).is_plain() {
            return Err(CommandError::usage_error(format!(
                "--project: {:?} is not a key; use letters, digits, '-' and '_'",
                redact_echo(key)
            )));
        }
        client = client.with_project(key);
    }
    Ok(Connection::Remote { client, url: shown })
}

/// The address of the endpoint, and its form for messages. The path may be left out.
fn check_url(url: &str) -> Result<(String, String)> {
    check_replaced(url).map_err(|error| CommandError::usage_error(format!("--url: {error}")))?;
    let address = url.trim().trim_end_matches('/');
    let host_and_path =
        address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    let invalid = |problem: &str| {
        CommandError::usage_error(format!(
            "--url: the address of the server {problem}; use https://HOST or \
             https://HOST{ENDPOINT_PATH}"
        ))
    };
    let Some(host_and_path) = host_and_path.filter(|rest| !rest.is_empty()) else {
        return Err(invalid("does not begin with https:// or http://"));
    };
    // The token is the only credential, and messages print the address.
    if host_and_path.contains(['@', '?', '#']) {
        return Err(invalid("has a user, password or query"));
    }
    if host_and_path.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(invalid("contains a space"));
    }
    let url = endpoint_url(address);
    let shown = redact_secrets(&url).into_owned();
    Ok((url, shown))
}

/// The answer in a JSON-RPC response of a server, or its error.
fn read_response(mut response: Value) -> Result<RenderedAnswer, Error> {
    if let Some(message) = response["error"]["message"].as_str() {
        return Err(tool_error(&response["error"]["data"], message));
    }
    let mut result = response["result"].take();
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    if result["isError"] == true {
        let detail = &result["_meta"][ERROR_META];
        let message = detail["message"].as_str().unwrap_or(&text);
        return Err(tool_error(detail, message));
    }
    let data = Arc::new(result["structuredContent"].take());
    Ok(RenderedAnswer { text, data, written_at: None })
}

fn tool_error(detail: &Value, message: &str) -> Error {
    let kind = ErrorKind::ALL.into_iter().find(|kind| detail["kind"] == kind.name());
    let mut error = Error::new(kind.unwrap_or(ErrorKind::Unavailable), message);
    error.hint = detail["hint"].as_str().map(str::to_owned);
    error.field = detail["field"].as_str().map(str::to_owned);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_url_adds_the_path_and_refuses_credentials() {
        for (url, expected) in [
            ("https://a.org", "https://a.org/api/v1/mcp"),
            ("http://127.0.0.1:80/", "http://127.0.0.1:80/api/v1/mcp"),
            ("https://a.org/team/mcp", "https://a.org/team/mcp"),
            ("https://a.org/reqlore/", "https://a.org/reqlore/api/v1/mcp"),
        ] {
            assert_eq!(check_url(url).unwrap().0, expected);
        }
        let refused =
            ["a.org", "ftp://a", "https://", "https://u:p@a.org", "https://a?k=v", "http://a b"];
        for url in refused {
            assert_eq!(check_url(url).unwrap_err().code, crate::exit::EXIT_USAGE, "{url}");
        }
    }

    #[test]
    fn read_response_keeps_the_kind_of_an_error() {
        let detail = json!({ "kind": "conflict", "message": "changed; read it again" });
        let failed = json!({ "isError": true, "content": [], "_meta": { ERROR_META: detail } });
        let error = read_response(json!({ "result": failed })).unwrap_err();
        assert_eq!((error.kind, &*error.message), (ErrorKind::Conflict, "changed; read it again"));
        let refused = json!({ "message": "no", "data": { "kind": "forbidden" } });
        let error = read_response(json!({ "error": refused })).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden);
    }
}

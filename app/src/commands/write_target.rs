//! The document that a writing command changes, and the tool calls that change it.

use std::io::{self, IsTerminal, Write};

use reqlore_domain::backlog::Reference;
use reqlore_domain::backlog::reference::fold_look_alikes;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::records::answers::details::ItemDetails;
use reqlore_domain::records::values::is_built_in;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::{Map, Value, json};

use super::item_fields::WritableKind;
use super::tool_client::{ProjectOptions, ToolClient};
use crate::commands::output::{print, print_json};
use crate::console::encode_console;
use crate::exit::CommandError;

/// The options of all writing commands.
#[derive(Debug, clap::Args)]
pub(crate) struct WriteOptions {
    /// Print the tool's data as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) project: ProjectOptions,
}

impl WriteOptions {
    /// Prints the outcome of a write.
    pub(crate) fn print_answer(&self, answer: &RenderedAnswer) -> Result<u8, CommandError> {
        if self.json {
            print_json(&*answer.data)
        } else {
            print(&format!("{}\n", answer.text.trim_end()))
        }
    }
}

/// A tool and its arguments.
pub(crate) struct ToolRequest {
    pub(crate) tool: String,
    pub(crate) arguments: Map<String, Value>,
}

impl ToolRequest {
    pub(crate) fn new(tool: impl Into<String>) -> Self {
        Self { tool: tool.into(), arguments: Map::new() }
    }

    #[must_use]
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.arguments.insert(name.to_owned(), value.into());
        self
    }

    /// A tool for one requirement of a section. `verb` begins the reason in the history.
    pub(crate) fn of_section(tool: &str, verb: &str, id: &str) -> Self {
        let (section, index) = id.rsplit_once(':').unwrap_or((id, ""));
        let reason = format!("{verb} requirement {id}");
        let request = Self::new(tool).with("operation_description", reason);
        request.with("section", section).with("index", index)
    }

    /// Adds values as arguments. Custom fields share one argument.
    #[must_use]
    pub(crate) fn with_values(mut self, values: Map<String, Value>) -> Self {
        for (name, value) in values {
            if is_built_in(&name) {
                self.arguments.insert(name, value);
            } else {
                self.arguments.entry("fields").or_insert_with(|| json!({}))[name] = value;
            }
        }
        self
    }

    pub(crate) fn send(self, client: &ToolClient) -> Result<RenderedAnswer> {
        client.call_for_answer(&self.tool, Value::Object(self.arguments))
    }
}

/// A stored document at one version.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    pub(crate) kind: WritableKind,
    /// As answers print it.
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) version: String,
    /// The fields under the names of arguments.
    pub(crate) fields: Map<String, Value>,
}

impl WriteTarget {
    /// Reads the document that an ID names. One that no command can write is an error.
    pub(crate) fn read(client: &ToolClient, id: &str) -> Result<Self> {
        check_exact_id(id)?;
        let details: ItemDetails = client.call("get_item", json!({ "reference": id }))?;
        let item = &details.item;
        let id = item.id().to_owned();
        let (title, version) = (item.title().to_owned(), item.version().to_owned());
        let kind = match item.kind() {
            "" => {
                let reference = Reference::parse(&id).ok_or_else(|| {
                    let problem = "its file name has no reference; rename it, such as REQ-012.md";
                    unwritable_error(&id, problem)
                })?;
                WritableKind::Item(reference.kind)
            }
            "section_requirement" => WritableKind::SectionRequirement,
            "section" => {
                let problem =
                    format!("a section has no fields; name a requirement of it, such as {id}:1");
                return Err(unwritable_error(&id, &problem));
            }
            "docset" => {
                let problem = "only .knowledge/config.yaml defines a docset; edit that file";
                return Err(unwritable_error(&id, problem));
            }
            kind => WritableKind::Entity(kind.to_owned()),
        };
        let fields = kind.values_of(item);
        Ok(Self { kind, id, title, version, fields })
    }

    /// The kind, ID and title on one line.
    pub(crate) fn subject(&self) -> String {
        let (id, title) = (encode_id(&self.id), encode_line(&self.title));
        match &self.kind {
            WritableKind::Entity(_) => format!("{id}: {title}"),
            kind => format!("{} {id}: {title}", kind.noun()),
        }
    }

    /// The call that changes these fields.
    pub(crate) fn update_request(&self, changed: Map<String, Value>) -> ToolRequest {
        let request = match (self.kind.row(), &self.kind) {
            (Some(row), WritableKind::Item(kind)) => {
                ToolRequest::new(row.update_tool).with(kind.name(), &*self.id)
            }
            (Some(row), _) => ToolRequest::new(row.update_tool).with("id", &*self.id),
            (None, _) => ToolRequest::of_section("reqlix_set_requirements", "change", &self.id),
        };
        request.with_values(changed)
    }
}

/// Rejects an ID with look-alikes, such as another dash. Reading tools accept them; a write must
/// not guess.
pub(crate) fn check_exact_id(id: &str) -> Result<()> {
    let Some(folded) = fold_look_alikes(id.trim()) else { return Ok(()) };
    let reference = Reference::parse(&folded.to_ascii_uppercase());
    let meant = reference.map_or(folded, |reference| reference.to_string());
    let (id, meant) = (encode_id(id), encode_id(&meant));
    let message = format!("{id} is not an ID; did you mean {meant}");
    Err(Error::new(ErrorKind::InvalidArgument, message))
}

fn unwritable_error(id: &str, problem: &str) -> Error {
    // Not an invalid argument: the ID is valid.
    Error::new(ErrorKind::Refused, format!("{}: {problem}", encode_id(id)))
}

/// True if the command can ask a user.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal. Only `y` and `yes` accept.
pub(crate) fn ask_yes(question: &str) -> bool {
    let question = encode_console(question);
    let _ = write!(io::stderr().lock(), "{question} [y/N] ");
    let mut line = String::new();
    // Input that is not UTF-8 is treated as no.
    let is_read = io::stdin().read_line(&mut line).is_ok();
    is_read && matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

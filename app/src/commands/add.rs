//! `reqlore add`: creates a backlog item, an entity or a section requirement.

use reqlore_domain::backlog::{ItemKind, Priority, RequirementType};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::records::answers::sections::SectionDetails;
use reqlore_domain::untrusted_text::encode_id;
use serde_json::{Map, Value, json};

use super::draft::{DraftError, edit_draft};
use super::edit_form::{parse_form, render_form};
use super::item_fields::{WritableKind, field_value};
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions};
use crate::commands::output::print;
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore add requirement \"Pay by card\" --in US-001 \
                        --priority high")]
pub(crate) struct AddOptions {
    /// epic, story, requirement, criterion, decision, issue, idea, report, source, citation,
    /// agent or session
    kind: String,
    /// The title; the text of an acceptance criterion or a section requirement, `-` to read it
    /// from standard input
    #[arg(required_unless_present = "edit")]
    title: Option<String>,
    /// The parent: the epic of a story, the story of a requirement or criterion, or
    /// SECTION:INDEX for a section requirement
    #[arg(long = "in", value_name = "PARENT", add = super::complete::all_ids())]
    parent: Option<String>,
    /// Default: Backlog for epics and stories, Draft for requirements
    #[arg(long)]
    status: Option<String>,
    /// Critical, High, Medium or Low [default: Medium]
    #[arg(long)]
    priority: Option<String>,
    /// Functional, Non-Functional, Business Rule, Interface or Data [default: Functional]
    #[arg(long = "type", value_name = "TYPE")]
    requirement_type: Option<String>,
    /// User name
    #[arg(long, value_name = "USER")]
    assignee: Option<String>,
    /// Tags, separated by commas
    #[arg(long, value_name = "TAG")]
    tags: Option<String>,
    /// The Markdown text; `-` reads it from standard input
    #[arg(long, visible_alias = "body", value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Open the new document in $VISUAL or $EDITOR first
    #[arg(long)]
    edit: bool,
    #[command(flatten)]
    write: WriteOptions,
}

/// A document before it is created.
struct NewDocument {
    kind: WritableKind,
    parent: Option<String>,
    /// The fields under the names of arguments.
    fields: Map<String, Value>,
}

pub(crate) fn run(config: &AppConfig, options: &AddOptions) -> Result<u8, CommandError> {
    let document = options.new_document()?;
    let open = || ToolClient::open(config, &options.write.project, ClientPurpose::Add);
    if !options.edit {
        return options.write.print_answer(&document.create(&open()?)?);
    }
    let kind = document.kind;
    let subject = format!("New {}", kind.noun());
    let form = render_form(kind, &subject, &document.fields);
    let stored = edit_draft(&format!("new-{}", kind.noun()), &form, |text| {
        let fields = parse_form(kind, text).map_err(DraftError::Invalid)?;
        let document = NewDocument { kind, parent: document.parent.clone(), fields };
        // Opened now, because the editor must not lock a database.
        Ok(document.create(&open()?)?)
    });
    match stored? {
        Some(answer) => options.write.print_answer(&answer),
        None => print("The text is empty or unchanged; nothing was added.\n"),
    }
}

impl AddOptions {
    fn new_document(&self) -> Result<NewDocument, CommandError> {
        let mut kind = WritableKind::parse_new(&self.kind)?;
        let parent = self.parent.clone();
        if kind == WritableKind::Item(ItemKind::Requirement)
            && parent.as_ref().is_some_and(|parent| parent.contains(':'))
        {
            kind = WritableKind::SectionRequirement;
        }
        let problem = match (kind.parent_field(), &parent) {
            (Some(field), None) => format!("needs the ID of its {}", field.replace('_', " ")),
            (None, Some(_)) if kind != WritableKind::SectionRequirement => "has no parent".into(),
            _ => String::new(),
        };
        if !problem.is_empty() {
            let problem = format!("--in: a new {} {problem}", kind.noun());
            return Err(CommandError::usage_error(problem));
        }
        let mut fields = Map::new();
        for (name, value) in [
            ("text", &self.description),
            ("status", &self.status),
            ("priority", &self.priority),
            ("type", &self.requirement_type),
            ("assignee", &self.assignee),
            ("tags", &self.tags),
        ] {
            let Some(value) = value else { continue };
            let field = kind.find_field(name).map_err(CommandError::usage_error)?;
            fields.insert(field.to_owned(), field_value(field, value)?);
        }
        if let Some(title) = &self.title
            && fields
                .insert(kind.title_field().to_owned(), field_value(kind.title_field(), title)?)
                .is_some()
        {
            let problem = format!("the text of this {} is given twice; remove one", kind.noun());
            return Err(CommandError::usage_error(problem));
        }
        for (field, value) in
            [("priority", Priority::DEFAULT.name()), ("type", RequirementType::DEFAULT.name())]
        {
            if kind.fields().contains(&field) {
                fields.entry(field).or_insert_with(|| json!(value));
            }
        }
        if let (Some(field), Some(parent)) = (kind.parent_field(), &parent) {
            fields.insert(field.to_owned(), json!(parent));
        }
        Ok(NewDocument { kind, parent, fields })
    }
}

impl NewDocument {
    fn create(self, client: &ToolClient) -> Result<RenderedAnswer> {
        let mut request = match self.kind {
            WritableKind::Item(kind) => ToolRequest::new(format!("create_{}", kind.name())),
            WritableKind::Entity(kind) => {
                let kind = kind.map_or("", EntityKind::name);
                ToolRequest::new("ixchel_create").with("kind", kind)
            }
            WritableKind::SectionRequirement => {
                section_request(client, self.parent.as_deref().unwrap_or_default())?
            }
        };
        if let (Some(field), Some(parent)) = (self.kind.parent_field(), self.parent) {
            request = request.with(field, parent);
        }
        for (name, value) in self.fields {
            // A form has all fields, also empty ones.
            let is_empty = value == json!("") || value == json!([]);
            if !is_empty || name == self.kind.title_field() {
                request.arguments.insert(name, value);
            }
        }
        request.send(client)
    }
}

/// The call that adds a requirement at an unused index: the tool would replace an existing one.
fn section_request(client: &ToolClient, id: &str) -> Result<ToolRequest> {
    let request = ToolRequest::of_section("reqlix_set_requirements", "add", id);
    let section = json!({ "section": request.arguments["section"] });
    let section: SectionDetails = client.call("reqlix_get_requirements", section)?;
    match client.call_for_answer("get_item", json!({ "reference": format!("section:{id}") })) {
        Ok(_) => {
            let id = encode_id(id);
            let message = format!("{id} exists; change it with `reqlore set {id} text=…`");
            return Err(Error::new(ErrorKind::Refused, message));
        }
        Err(error) if error.kind == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match section.version {
        Some(version) => Ok(request.with("if_version", version)),
        None => Ok(request),
    }
}

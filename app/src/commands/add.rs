//! `reqlore add`: creates a backlog item, an entity or a section requirement.

use reqlore_domain::backlog::{ItemKind, Priority, RequirementType};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::records::answers::sections::SectionDetails;
use reqlore_domain::records::kinds::{KINDS, RecordKind};
use reqlore_domain::records::template::TemplateList;
use reqlore_domain::untrusted_text::encode_id;
use serde_json::{Map, Value, json};

use super::draft::{DraftError, edit_draft};
use super::edit_form::{parse_form, render_form};
use super::item_fields::{DocumentForm, WritableKind, assignment_pairs, parse_assignment};
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{ToolRequest, WriteOptions};
use crate::commands::output::print;
use crate::config::AppConfig;
use crate::exit::CommandError;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore add requirement \"Pay by card\" --in US-001 \
                        --priority high")]
pub(crate) struct AddOptions {
    #[arg(help = kind_help())]
    kind: String,
    /// The title; the text of an acceptance criterion or a section requirement, `-` to read it
    /// from standard input
    #[arg(required_unless_present = "edit")]
    title: Option<String>,
    /// The parent: the epic of a story, the story of a requirement or criterion, or
    /// SECTION:INDEX for a section requirement
    #[arg(
        long = "in",
        aliases = ["parent", "epic", "user-story"],
        value_name = "PARENT",
        add = super::complete::all_ids()
    )]
    parent: Option<String>,
    /// The template to begin with: .reqlore/templates/KIND-NAME.md, or KIND.md for the name KIND
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
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
    /// Any field, including custom ones, such as risk=High; repeatable
    #[arg(
        long = "field",
        value_name = "FIELD=VALUE",
        value_parser = parse_assignment,
        add = super::complete::assignments(false)
    )]
    fields: Vec<(String, String)>,
    /// The Markdown text; `-` reads it from standard input
    #[arg(long, visible_alias = "body", value_name = "TEXT", allow_hyphen_values = true)]
    description: Option<String>,
    /// Open the new document in $VISUAL or $EDITOR first
    #[arg(long)]
    edit: bool,
    #[command(flatten)]
    write: WriteOptions,
}

fn kind_help() -> String {
    let names = KINDS.iter().map(RecordKind::short_name).collect::<Vec<_>>().join(", ");
    names.rsplit_once(", ").map(|(first, last)| format!("{first} or {last}")).unwrap_or_default()
}

pub(crate) fn run(config: &AppConfig, options: &AddOptions) -> Result<u8, CommandError> {
    let kind = options.document_kind()?;
    let open = || ToolClient::open(config, &options.write.project, ClientPurpose::Add);
    let client = open()?;
    let form = DocumentForm::read(kind, &client)?;
    let mut values = options.values(&form)?;
    if let Some(name) = &options.template {
        for (field, value) in read_template(&client, &form.kind, name)? {
            values.entry(field).or_insert(value);
        }
    }
    options.add_defaults(&form, &mut values);
    let create = |client: &ToolClient, values| {
        create_document(client, &form.kind, options.parent.as_deref(), values)
    };
    if !options.edit {
        return options.write.print_answer(&create(&client, values)?);
    }
    // A client is opened again at the end, because an open editor must not lock a database.
    drop(client);
    let noun = form.kind.noun();
    let text = render_form(&form, &format!("New {noun}"), &values);
    let stored = edit_draft(&format!("new-{noun}"), &text, |text| {
        let values = parse_form(&form, text).map_err(DraftError::Invalid)?;
        Ok(create(&open()?, values)?)
    });
    match stored? {
        Some(answer) => options.write.print_answer(&answer),
        None => print("The text is empty or unchanged; nothing was added.\n"),
    }
}

impl AddOptions {
    fn document_kind(&self) -> Result<WritableKind, CommandError> {
        let mut kind = WritableKind::parse_new(&self.kind)?;
        if kind == WritableKind::Item(ItemKind::Requirement)
            && self.parent.as_ref().is_some_and(|parent| parent.contains(':'))
        {
            kind = WritableKind::SectionRequirement;
        }
        let problem = match (kind.parent_field(), &self.parent) {
            (Some(field), None) => format!("needs the ID of its {}", field.replace('_', " ")),
            (None, Some(_)) if kind != WritableKind::SectionRequirement => "has no parent".into(),
            _ => return Ok(kind),
        };
        let problem = format!("--in: a new {} {problem}", kind.noun());
        Err(CommandError::usage_error(problem))
    }

    fn values(&self, form: &DocumentForm) -> Result<Map<String, Value>, CommandError> {
        let given = [
            ("text", &self.description),
            ("status", &self.status),
            ("priority", &self.priority),
            ("type", &self.requirement_type),
            ("assignee", &self.assignee),
            ("tags", &self.tags),
            (form.kind.title_field(), &self.title),
        ];
        let given = given.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        form.parse_values(given.chain(assignment_pairs(&self.fields)))
    }

    /// Adds the values that a tool requires.
    fn add_defaults(&self, form: &DocumentForm, values: &mut Map<String, Value>) {
        for (name, value) in
            [("priority", Priority::DEFAULT.name()), ("type", RequirementType::DEFAULT.name())]
        {
            if form.find_field(name).is_ok() {
                values.entry(name).or_insert_with(|| json!(value));
            }
        }
        if let (Some(field), Some(parent)) = (form.kind.parent_field(), &self.parent) {
            values.insert(field.to_owned(), json!(parent));
        }
    }
}

/// The values of the template with this name or file name.
fn read_template(
    client: &ToolClient,
    kind: &WritableKind,
    name: &str,
) -> Result<Map<String, Value>, CommandError> {
    let list: TemplateList = client.call("list_record_templates", json!({}))?;
    let kind_name = kind.name();
    let templates = list.templates.into_iter().filter(|template| template.kind == kind_name);
    let mut names = Vec::new();
    for template in templates {
        let file_name = [&*template.kind, &template.name].join("-");
        let own = if template.name.is_empty() { &template.kind } else { &template.name };
        if own == name || file_name == name {
            return Ok(template.values);
        }
        names.push(own.clone());
    }
    let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let (name, noun) = (truncate_echo(name), kind.noun());
    Err(CommandError::usage_error(format!(
        "--template: {name:?} is not a template of the kind {noun}; known: {known}"
    )))
}

fn create_document(
    client: &ToolClient,
    kind: &WritableKind,
    parent: Option<&str>,
    mut values: Map<String, Value>,
) -> Result<RenderedAnswer> {
    let mut request = match (kind, kind.row()) {
        (WritableKind::Entity(kind), Some(row)) => {
            ToolRequest::new(row.create_tool).with("kind", &**kind)
        }
        (_, Some(row)) => ToolRequest::new(row.create_tool),
        (_, None) => section_request(client, parent.unwrap_or_default())?,
    };
    // A form has all fields, also empty ones.
    values.retain(|name, value| {
        name == kind.title_field() || *value != json!("") && *value != json!([])
    });
    // The parent of a criterion is not in its form.
    if let (Some(field), Some(parent)) = (kind.parent_field(), parent) {
        request = request.with(field, parent);
    }
    request.with_values(values).send(client)
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

//! Checks fields whose values depend on the project: the assignee, the status, custom fields.

use reqlore_domain::backlog::{ItemKind, Status};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge;
use reqlore_domain::records::custom_field::CustomType;
use reqlore_domain::records::edit::RecordEdit;
use reqlore_domain::records::extra::check_extra;
use reqlore_domain::records::schema::RecordSchema;
use serde_json::Value;

use crate::tools::arguments::{CUSTOM_FIELDS, EXTRA};
use crate::writes::change::PlanContext;
use crate::writes::record_links::{LinkChange, Target};

/// The kind of a record.
#[derive(Clone, Copy)]
pub(crate) enum KindName<'a> {
    Item(ItemKind),
    /// May be any text, because files are not restricted.
    Entity(&'a str),
}

/// Validates the given fields and converts them to the spelling of files. Adds warnings about
/// words that are probably misspelled.
pub(crate) async fn check_fields(
    context: PlanContext<'_>,
    schema: &RecordSchema,
    kind: KindName<'_>,
    (fields, links): (&mut RecordEdit, &LinkChange<Target>),
    is_new: bool,
    notes: &mut Vec<String>,
) -> Result<()> {
    if let Some(assignee) = &mut fields.assignee {
        check_user(context, "assignee", assignee).await?;
    }
    let refused = |field: String, problem: String| {
        // The reason may be an invalid entry of the schema.
        let invalid = schema.diagnostics.first().map(|Diagnostic { line, message, .. }| {
            format!(" ({}:{}: {message})", DocumentId::schema(), line.unwrap_or(1))
        });
        let message = format!("{field}: {problem}{}", invalid.unwrap_or_default());
        Error::new(ErrorKind::InvalidArgument, message).field(field)
    };
    let status_error = |problem| refused("status".to_owned(), problem);
    let status = match (kind, fields.status.as_deref()) {
        (KindName::Item(kind), Some(given)) => {
            let found = schema.find_status(kind, given).map_err(status_error)?;
            Some(found.name().to_owned())
        }
        (KindName::Entity(kind), Some(given)) => {
            let known = schema.find_entity_status(kind, given).map_err(status_error)?;
            let usual = knowledge::usual_status(given).filter(|_| known.is_none());
            notes.extend(usual.map(|usual| format!("status: {given:?} is stored as {usual:?}")));
            Some(known.or(usual).unwrap_or(given).to_owned())
        }
        (KindName::Item(kind), None) if is_new => {
            schema.initial_status(kind).as_ref().map(Status::name).map(str::to_owned)
        }
        (KindName::Entity(kind), None) if is_new => {
            schema.initial_entity_status(kind).map(str::to_owned)
        }
        (_, None) => None,
    };
    fields.status = status;
    let kind = match kind {
        KindName::Item(kind) => (kind.name(), false),
        KindName::Entity(kind) => (kind, true),
    };
    fields.custom = schema
        .parse_values(kind, &fields.custom, is_new)
        .map_err(|(name, problem)| refused(format!("{CUSTOM_FIELDS}.{name}"), problem))?;
    for (name, value) in &mut fields.custom {
        let field = schema.field(name).filter(|field| field.field_type == CustomType::User);
        if let (Some(_), Value::String(user)) = (field, value) {
            check_user(context, &format!("{CUSTOM_FIELDS}.{name}"), user).await?;
        }
    }
    for (name, text) in &fields.extra {
        check_extra(name, text, schema)
            .map_err(|problem| refused(format!("{EXTRA}.{}", truncate_echo(name)), problem))?;
    }
    for relation in links.relations() {
        if schema.field(relation).is_some() {
            let problem = format!("{relation} is a custom field; send it in fields");
            return Err(refused("links".to_owned(), problem));
        }
        if let Some(similar) = knowledge::similar_relation(relation) {
            notes.push(format!("links: {relation:?} is unknown; did you mean {similar}?"));
        }
    }
    Ok(())
}

/// Spells a user like the user's name. Over HTTP it must be a user of the server; a disabled one
/// may keep items.
async fn check_user(context: PlanContext<'_>, argument: &str, given: &mut String) -> Result<()> {
    if given.trim().is_empty() {
        return Ok(());
    }
    let Some(users) = context.tools.ports.user_names().await? else { return Ok(()) };
    match users.iter().find(|user| user.eq_ignore_ascii_case(given.trim())) {
        Some(user) => given.clone_from(user),
        None => return Err(unknown_user(argument, given, users)),
    }
    Ok(())
}

fn unknown_user(argument: &str, given: &str, mut names: Vec<String>) -> Error {
    const MAX_LISTED: usize = 20;
    let more = if names.len() > MAX_LISTED { " and others" } else { "" };
    names.truncate(MAX_LISTED);
    let message = format!(
        "{argument}: {:?} is not a user of this server; use one of {}{more}, or an empty text for \
         none",
        truncate_echo(given),
        names.join(", ")
    );
    Error::new(ErrorKind::InvalidArgument, message).field(argument)
}

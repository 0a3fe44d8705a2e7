//! `reqlore edit`: opens a document in the user's editor.

use reqlore_application::history::word_diff;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::untrusted_text::encode_id;
use serde_json::{Map, Value, json};

use super::draft::{DraftError, edit_draft};
use super::edit_form::{changed_values, parse_form, render_fields, render_form};
use super::item_fields::DocumentForm;
use super::tool_client::{ClientPurpose, ToolClient};
use super::write_target::{WriteOptions, WriteTarget};
use crate::commands::output::{print, print_json};
use crate::config::AppConfig;
use crate::exit::{CommandError, Result};

/// Attempts to store a text while other writers change the rest of its document.
const MAX_ATTEMPTS: usize = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  EDITOR=nano reqlore edit US-001")]
pub(crate) struct EditOptions {
    /// A backlog item, entity or section requirement: REQ-001, dec-1d2c8f, general:2.1
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    #[command(flatten)]
    write: WriteOptions,
}

pub(crate) fn run(config: &AppConfig, options: &EditOptions) -> Result<u8> {
    // Each client is closed before the editor opens, because it locks some databases.
    let open = || ToolClient::open(config, &options.write.project, ClientPurpose::Change);
    let client = open()?;
    let target = WriteTarget::read(&client, &options.reference)?;
    let form = DocumentForm::read(target.kind.clone(), &client)?;
    drop(client);
    let version = target.version.get(..8).unwrap_or_default();
    let subject = format!("{} at version {version}", target.id);
    let text = render_form(&form, &subject, &target.fields);
    let stored = edit_draft(&target.id, &text, |text| {
        let edited = parse_form(&form, text).map_err(DraftError::Invalid)?;
        let changed = changed_values(&form, &target.fields, &edited);
        if changed.is_empty() {
            Ok(None)
        } else {
            store_changes(&open()?, &target, &form, &changed)
        }
    });
    match stored?.flatten() {
        Some(answer) => options.write.print_answer(&answer),
        None if options.write.json => print_json(&json!({ "changed": false })),
        None => print(&format!("No change in {}; nothing was stored.\n", target.subject())),
    }
}

/// Writes the changed fields if nothing else changed them since `target` was read.
fn store_changes(
    client: &ToolClient,
    target: &WriteTarget,
    form: &DocumentForm,
    changed: &Map<String, Value>,
) -> Result<Option<RenderedAnswer>, DraftError> {
    let mut version = target.version.clone();
    for _ in 0..MAX_ATTEMPTS {
        let request = target.update_request(changed.clone()).with("if_version", version);
        let current = match request.send(client) {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) if error.kind != ErrorKind::Conflict => return Err(error.into()),
            Err(_) => WriteTarget::read(client, &target.id)?,
        };
        // A link, or another requirement of the section, may be the only change.
        if current.fields != target.fields {
            return Err(DraftError::Final(conflict_error(target, &current, form, changed)));
        }
        version = current.version;
    }
    let message = format!("{} changes too often", encode_id(&target.id));
    Err(DraftError::Final(CommandError::failure(message)))
}

/// Shows the stored and the typed change to the version that the user opened.
fn conflict_error(
    target: &WriteTarget,
    current: &WriteTarget,
    form: &DocumentForm,
    changed: &Map<String, Value>,
) -> CommandError {
    let mut own_fields = target.fields.clone();
    own_fields.extend(changed.clone());
    let render = |fields: &Map<String, Value>| render_fields(form, fields);
    let before = render(&target.fields);
    let (id, version) = (encode_id(&target.id), &current.version);
    CommandError::failure(format!(
        "Conflict: {id} changed while it was open in the editor; it is now at version {version}. \
         Nothing was stored.\n\nThe stored change:\n{}\nYour change:\n{}",
        word_diff(&before, &render(&current.fields)),
        word_diff(&before, &render(&own_fields)),
    ))
}

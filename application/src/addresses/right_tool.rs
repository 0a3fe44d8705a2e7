//! Completes the errors of tools: the tool that takes an ID, or the change that a caller missed.

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::ports::service::ToolSpec;

use crate::addresses::address::{Address, AddressSpace, with_article};
use crate::context::ToolContext;
use crate::ports::ApplicationPorts;
use crate::writes::write_guard::SINCE_SHOWN;
use reqlore_domain::records::answers::history::VersionRecord;

/// Completes the error for a malformed reference or unknown docset that is an ID of another kind or
/// toolset: it names the tool that takes the ID.
pub(crate) async fn name_right_tool(
    context: &ToolContext,
    caller: &Caller,
    spec: &ToolSpec,
    mut error: Error,
) -> Error {
    let (Some(field), Some(reference)) = (&error.field, &error.reference) else { return error };
    let is_unseen = error.message.contains(SINCE_SHOWN);
    // An unknown docset is "not found", as its name has no form of its own.
    if error.kind != ErrorKind::InvalidArgument && field != "docset" && !is_unseen {
        return error;
    }
    // A failure here must not replace the error of the call itself.
    let Ok(space) = AddressSpace::of_caller(context, caller).await else { return error };
    let Ok(Some(address)) = space.find(reference).await else { return error };
    if is_unseen {
        name_change(&context.ports, &address, &mut error).await;
        return error;
    }
    let Address { target, .. } = address;
    // `apply_changes` names the item of an entry by `changes[0].update`.
    let (is_updated, is_deleted) = (field.ends_with("].update"), field.ends_with("].delete"));
    let is_own_item = is_updated
        || is_deleted
        || field == "reference"
        || spec.name.strip_prefix("update_") == Some(field);
    let sentence = if !spec.may_change {
        format!("{} is {}; get_item reads it", target.id(), with_article(target.kind()))
    } else if is_own_item {
        target.right_tool(is_deleted || (spec.is_destructive && !is_updated))
    } else {
        format!("{} is {}", target.id(), with_article(target.kind()))
    };
    error.message = format!("{}. {sentence}", error.message);
    error.hint = Some(sentence);
    error
}

/// Adds time and user of the last change to a refusal, if the history has them.
async fn name_change(ports: &ApplicationPorts, at: &Address, error: &mut Error) {
    let query = HistoryQuery { after: None, limit: 1 };
    let history = ports.history.history(&at.project, &at.target.document_id(), &query).await;
    let Some(newest) = history.ok().and_then(|mut page| page.entries.pop()) else { return };
    let change = VersionRecord::from(&newest).line(|_| true);
    // Another change may have followed since.
    if error.message.contains(&change[..8]) {
        let named = format!("{SINCE_SHOWN} (last change of the document: {change})");
        error.message = error.message.replacen(SINCE_SHOWN, &named, 1);
    }
}

//! The undo of a change that a page made, the restoration of a version, and the notices of both.

use std::sync::Arc;

use axum::Router;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::records::answers::history::UndoAnswer;
use reqlore_domain::timestamp::Timestamp;
use serde_json::json;

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::{FormFields, accepts_json};
use crate::page_error::{PageResult, error_status, public_message};
use crate::session::local_target;

/// The parameter of a page's URL that holds the notice of a change.
const NOTICE: &str = "done";

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/undo", post(undo))
}

/// The notice of a change on the page that follows it.
pub(crate) struct ChangeNotice {
    pub(crate) message: String,
    /// The time of the change in nanoseconds, which names it to its undo. Empty if there is none.
    pub(crate) change: String,
}

impl ChangeNotice {
    /// Reads the notice that [`with_notice`] wrote.
    pub(crate) fn parse(query: &FormFields) -> Option<Self> {
        let mut words = query.text(NOTICE).splitn(3, '-');
        let (verb, change, name) = (words.next()?, words.next()?, words.next()?);
        let change = if change.parse::<i64>().is_ok() { change } else { "" };
        Some(Self { message: notice_text(verb, name)?, change: change.to_owned() })
    }
}

fn notice_text(verb: &str, name: &str) -> Option<String> {
    Some(match verb {
        "created" | "deleted" | "moved" | "restored" | "saved" => {
            let was = if name.ends_with(" items") { "were" } else { "was" };
            format!("{name} {was} {verb}.")
        }
        "undone" => format!("The change of {name} was undone."),
        "same" => "Nothing was changed.".to_owned(),
        _ => return None,
    })
}

/// Answers a form that was saved: a script gets the notice, a browser the page with it.
pub(crate) fn show_change(
    headers: &HeaderMap,
    url: &str,
    verb: &str,
    name: &str,
    change: Option<Timestamp>,
) -> Response {
    if accepts_json(headers) {
        let notice = notice_text(verb, name);
        return axum::Json(json!({ "notice": notice, "change": change_text(change) }))
            .into_response();
    }
    Redirect::to(&with_notice(url, verb, name, change)).into_response()
}

/// The URL of a page with a notice. `name` is the ID of the changed document.
pub(crate) fn with_notice(url: &str, verb: &str, name: &str, change: Option<Timestamp>) -> String {
    let (url, fragment) = url.split_at(url.find('#').unwrap_or(url.len()));
    let (path, query) = url.split_once('?').unwrap_or((url, ""));
    let notice = format!("{verb}-{}-{name}", change_text(change));
    format!("{path}?{}{fragment}", FormFields::parse(query.as_bytes()).with(NOTICE, &notice))
}

/// The query of a page without the notice of an earlier change.
pub(crate) fn query_without_notice(query: &FormFields) -> String {
    query.with(NOTICE, "")
}

/// The text by which a page names a change: numbers of scripts are less exact.
pub(crate) fn change_text(change: Option<Timestamp>) -> String {
    change.map(|at| at.0.to_string()).unwrap_or_default()
}

/// Undoes the change of the field `change`, or restores the version or the deleted document of the
/// field `reference`.
async fn undo(headers: HeaderMap, PostedForm { session, fields }: PostedForm) -> PageResult {
    let reference = fields.filled("reference");
    let arguments = json!({
        "reference": reference,
        "version": fields.filled("version"),
        "change": fields.text("change").parse::<i64>().ok(),
    });
    let outcome = match arguments {
        // The tool would undo another change.
        _ if arguments["change"].is_null() && fields.filled("version").is_none() => {
            Err(Error::new(ErrorKind::InvalidArgument, "change: it is missing; reload the page"))
        }
        _ => session.change::<UndoAnswer>("undo", arguments).await,
    };
    match outcome {
        Ok((answer, change)) => {
            let name = match &*answer.documents {
                [] => String::new(),
                [one] => one.id.clone(),
                [first, rest @ ..] => format!("{} and {} more", first.id, rest.len()),
            };
            let verb = if reference.is_some() { "restored" } else { "undone" };
            let target = with_notice(
                local_target(&session.config, fields.text("next")),
                verb,
                &name,
                change,
            );
            if !accepts_json(&headers) {
                return Ok(Redirect::to(&target).into_response());
            }
            let mut message = vec![format!("The change of {name} was undone.")];
            message.extend(answer.notes);
            let answer = json!({ "message": message.join(" "), "change": change_text(change) });
            Ok(axum::Json(answer).into_response())
        }
        Err(error) if accepts_json(&headers) => {
            let message = json!({ "message": public_message(&error) });
            Ok((error_status(error.kind).0, axum::Json(message)).into_response())
        }
        Err(mut error) => {
            // The page exists; its change does not.
            if error.kind == ErrorKind::NotFound {
                error.kind = ErrorKind::Refused;
            }
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests;

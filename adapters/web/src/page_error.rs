//! Errors of pages. A layer renders them, because a page needs the session of its request.

use std::borrow::Cow;
use std::sync::Arc;

use axum::Extension;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use reqlore_domain::error::{Error, ErrorKind};

use crate::form_fields::UnsentForm;

pub(crate) type PageResult = Result<Response, PageError>;

/// The reason why a request has no page.
#[derive(Debug)]
pub(crate) enum PageError {
    /// No such page, or none that the caller may see.
    NotFound,
    /// The caller must sign in at this URL.
    SignIn(String),
    /// A form that was not processed.
    Unsent(Arc<UnsentForm>),
    Failed(Box<Error>),
}

impl From<Error> for PageError {
    fn from(error: Error) -> Self {
        if matches!(error.kind, ErrorKind::NotFound | ErrorKind::UnknownTool) {
            return Self::NotFound;
        }
        Self::Failed(Box::new(error))
    }
}

impl IntoResponse for PageError {
    fn into_response(self) -> Response {
        match self {
            Self::SignIn(target) => Redirect::to(&target).into_response(),
            Self::Unsent(form) => {
                let (title, message, hint) = ("Not sent".to_owned(), form.message(), String::new());
                let message = message.to_owned();
                let texts = ErrorTexts { title, message, hint, unsent: Some(form) };
                (StatusCode::FORBIDDEN, Extension(texts)).into_response()
            }
            Self::NotFound => error_page(
                StatusCode::NOT_FOUND,
                "Page not found",
                "This page does not exist, or you may not see it.",
                "Check the address, or find the item on the board or with the search.",
            ),
            Self::Failed(error) => {
                if error.kind == ErrorKind::Internal {
                    tracing::error!(error = ?error, "a page failed");
                }
                let (status, title) = error_status(error.kind);
                let hint = error.hint.as_deref().unwrap_or_default();
                error_page(status, title, &public_message(&error), hint)
            }
        }
    }
}

/// The message of an error for a page. Only the log has the details of an internal error.
pub(crate) fn public_message(error: &Error) -> Cow<'_, str> {
    if error.kind == ErrorKind::Internal {
        return "The server has a bug here. Its log has the details.".into();
    }
    error.message.as_str().into()
}

/// The texts of the page of an error, which [`render_errors`] renders.
#[derive(Clone)]
pub(crate) struct ErrorTexts {
    pub(crate) title: String,
    pub(crate) message: String,
    pub(crate) hint: String,
    pub(crate) unsent: Option<Arc<UnsentForm>>,
}

/// The status and title of the page of an error.
pub(crate) fn error_status(kind: ErrorKind) -> (StatusCode, &'static str) {
    match kind {
        ErrorKind::InvalidArgument => (StatusCode::BAD_REQUEST, "Invalid input"),
        ErrorKind::UnknownTool | ErrorKind::NotFound => (StatusCode::NOT_FOUND, "Page not found"),
        ErrorKind::Conflict => (StatusCode::CONFLICT, "Changed in the meantime"),
        ErrorKind::Refused => (StatusCode::UNPROCESSABLE_ENTITY, "Not possible"),
        ErrorKind::Forbidden => (StatusCode::FORBIDDEN, "Not allowed"),
        ErrorKind::Busy | ErrorKind::Cancelled => {
            (StatusCode::SERVICE_UNAVAILABLE, "Busy at the moment")
        }
        ErrorKind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "Storage unavailable"),
        ErrorKind::Unreadable => (StatusCode::UNPROCESSABLE_ENTITY, "Content can't be read"),
        ErrorKind::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "Server error"),
    }
}

fn error_page(status: StatusCode, title: &str, message: &str, hint: &str) -> Response {
    let [title, message, hint] = [title, message, hint].map(str::to_owned);
    (status, Extension(ErrorTexts { title, message, hint, unsent: None })).into_response()
}

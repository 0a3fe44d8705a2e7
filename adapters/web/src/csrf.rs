//! Protection of forms: a token that only pages of the same session know, and their extractor.

use std::sync::Arc;

use axum::extract::{FromRequest, FromRequestParts, RawForm, Request};
use reqlore_domain::error::{Error, ErrorKind};
use subtle::ConstantTimeEq;

use crate::config::WebConfig;
use crate::form_fields::{CSRF_FIELD, FormFields, UnsentForm};
use crate::page_error::PageError;
use crate::session::PageSession;

/// A form that a page of the caller's session has sent. The only way to handle a POST request with
/// a session, because [`PageSession`] alone rejects it.
pub(crate) struct PostedForm {
    pub(crate) session: PageSession,
    pub(crate) fields: FormFields,
}

impl FromRequest<Arc<WebConfig>> for PostedForm {
    type Rejection = PageError;

    async fn from_request(
        request: Request,
        config: &Arc<WebConfig>,
    ) -> Result<Self, Self::Rejection> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path().trim_start_matches('/');
        let path = format!("{}{path}", config.base_path);
        let authenticated = PageSession::authenticate(&mut parts, config).await;
        let form = RawForm::from_request(Request::from_parts(parts, body), config).await;
        let RawForm(encoded) =
            form.map_err(|_| unusable("The form can't be read; send it again"))?;
        let fields = FormFields::parse(&encoded);
        let session = match authenticated {
            Err(PageError::SignIn(_)) => {
                let csrf_token = String::new();
                return Err(PageError::Unsent(Arc::new(UnsentForm { path, fields, csrf_token })));
            }
            authenticated => authenticated?,
        };
        let sent = fields.text(CSRF_FIELD).as_bytes();
        if bool::from(sent.ct_eq(session.csrf_token.as_bytes())) {
            return Ok(Self { session, fields });
        }
        session.record_refusal("form").await;
        let csrf_token = session.csrf_token;
        Err(PageError::Unsent(Arc::new(UnsentForm { path, fields, csrf_token })))
    }
}

fn unusable(message: &str) -> PageError {
    PageError::from(Error::new(ErrorKind::Forbidden, message))
}

/// Rejects all methods with effects, so that a handler can't forget the token.
impl FromRequestParts<Arc<WebConfig>> for PageSession {
    type Rejection = PageError;

    async fn from_request_parts(
        parts: &mut axum::http::request::Parts,
        config: &Arc<WebConfig>,
    ) -> Result<Self, Self::Rejection> {
        if !parts.method.is_safe() {
            return Err(unusable("The request is not a form of a page"));
        }
        Self::authenticate(parts, config).await
    }
}

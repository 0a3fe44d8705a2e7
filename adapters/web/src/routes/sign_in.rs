//! Sign-in with a personal access token, and sign-out.

use std::sync::Arc;

use askama::Template;
use axum::extract::{FromRequest, Path, RawForm, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect};
use axum::routing::{get, post};
use axum::{Extension, Router};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::token;
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use reqlore_domain::ports::transport::{FailedSignIn, SIGN_IN_PATH};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, render};
use crate::page_error::{PageError, PageResult};
use crate::session::{PageSession, local_target, request_origin, session_cookie, theme_choice};

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route(SIGN_IN_PATH, get(show_form).post(sign_in))
        .route("/signin/{link}", get(follow_link))
        .route("/signout", post(sign_out))
}

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage<'a> {
    frame: PageFrame,
    next: &'a str,
    error: &'a str,
    has_link: bool,
}

async fn show_form(State(config): State<Arc<WebConfig>>, request: Request) -> PageResult {
    let query = FormFields::parse(request.uri().query().unwrap_or_default().as_bytes());
    let frame = PageFrame::anonymous(&config, theme_choice(request.headers()), "Sign in");
    let next = local_target(&config, query.text("next"));
    render(&SignInPage { frame, next, error: "", has_link: config.has_link })
}

async fn sign_in(State(config): State<Arc<WebConfig>>, request: Request) -> PageResult {
    let (parts, body) = request.into_parts();
    let (correlation_id, address) = request_origin(&parts);
    let headers = parts.headers.clone();
    let RawForm(encoded) =
        RawForm::from_request(Request::from_parts(parts, body), &config)
            .await
            .map_err(|_| Error::new(ErrorKind::InvalidArgument, "The form can't be read"))?;
    let fields = FormFields::parse(&encoded);
    let next = local_target(&config, fields.text("next"));
    let credentials = Credentials {
        token: Some(fields.text("token").trim()),
        project: None,
        address: &address,
        correlation_id: &correlation_id,
    };
    match config.sessions.sign_in(credentials).await {
        Ok(session) => {
            let cookie = session_cookie(&config, &headers, &session.secret);
            Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
        }
        Err(AuthenticationError::Failed(error)) => Err(error.into()),
        Err(AuthenticationError::Token(_) | AuthenticationError::Project(_)) => {
            let frame = PageFrame::anonymous(&config, theme_choice(&headers), "Sign in");
            let error = match token::describe_malformed(fields.text("token").trim()) {
                Some([problem, next]) => format!("The token {problem}; {next}"),
                None => "The token is not valid here; paste a current personal access token".into(),
            };
            let has_link = config.has_link;
            let page = render(&SignInPage { frame, next, error: &error, has_link })?;
            Ok((StatusCode::UNAUTHORIZED, Extension(FailedSignIn), page).into_response())
        }
    }
}

/// Exchanges a link for a session. The redirect removes the secret from the address.
async fn follow_link(
    State(config): State<Arc<WebConfig>>,
    Path(secret): Path<String>,
    request: Request,
) -> PageResult {
    if !config.has_link {
        return Err(PageError::NotFound);
    }
    let (mut parts, _) = request.into_parts();
    let is_signed_in = PageSession::authenticate(&mut parts, &config).await.is_ok();
    let query = FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let (correlation_id, address) = request_origin(&parts);
    let (token, address, correlation_id) = (Some(&*secret), &*address, &*correlation_id);
    let credentials = Credentials { token, project: None, address, correlation_id };
    match config.sessions.sign_in(credentials).await {
        Ok(session) => {
            let next = local_target(&config, query.text("next"));
            if is_signed_in {
                // Keep the session of this browser, because open pages have forms of that session.
                let token = Some(&*session.secret);
                config.sessions.sign_out(Credentials { token, ..credentials }).await?;
                return Ok(Redirect::to(next).into_response());
            }
            let cookie = session_cookie(&config, &parts.headers, &session.secret);
            Ok(([(SET_COOKIE, cookie)], Redirect::to(next)).into_response())
        }
        Err(AuthenticationError::Failed(error)) => Err(error.into()),
        // The form says how to get another link.
        Err(_) => {
            Ok((Extension(FailedSignIn), Redirect::to(&sign_in_url(&config))).into_response())
        }
    }
}

fn sign_in_url(config: &WebConfig) -> String {
    format!("{}{}", config.base_path, SIGN_IN_PATH.trim_start_matches('/'))
}

async fn sign_out(headers: HeaderMap, PostedForm { session, .. }: PostedForm) -> PageResult {
    session.config.sessions.sign_out(session.credentials()).await?;
    let cookie = session_cookie(&session.config, &headers, "");
    Ok(([(SET_COOKIE, cookie)], Redirect::to(&sign_in_url(&session.config))).into_response())
}

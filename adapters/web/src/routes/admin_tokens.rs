//! The tokens of all users: list, create and revoke.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Token, TokenId, User, UserName};
use reqlore_domain::ports::administration::{AdminRequest, AdministrationService, NewToken};
use reqlore_domain::project_key::ProjectKey;

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, error_status, public_message};
use crate::session::PageSession;

const DEFAULT_LIFETIME: &str = "90d";
/// The states of tokens that the list shows without `all`.
const ACTIVE: &str = "active";

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/admin/tokens", get(show_tokens).post(change_tokens))
}

#[derive(Template)]
#[template(path = "admin_tokens.html")]
struct TokensPage<'a> {
    frame: PageFrame,
    /// The newest first.
    tokens: Vec<(Token, &'static str)>,
    total: usize,
    shows_all: bool,
    users: Vec<User>,
    scopes: [Access; 3],
    outcome: FormOutcome<'a>,
}

/// The result of a form on the page.
#[derive(Default)]
struct FormOutcome<'a> {
    /// A new token with its secret, which is shown once.
    created: Option<(String, Token)>,
    error: String,
    /// The fields of a rejected form.
    sent: Option<&'a FormFields>,
}

impl FormOutcome<'_> {
    fn value(&self, name: &str, default: &str) -> String {
        self.sent.map_or(default, |fields| fields.text(name)).to_owned()
    }
}

async fn show_tokens(session: PageSession) -> Result<Response, PageError> {
    tokens_page(&session, FormOutcome::default()).await
}

async fn tokens_page(
    session: &PageSession,
    outcome: FormOutcome<'_>,
) -> Result<Response, PageError> {
    let (admin, request) = session.administration().await?;
    let users = admin.users(request.clone()).await?;
    let mut tokens = admin.tokens(request).await?;
    let (total, shows_all) = (tokens.len(), !session.query.text("all").is_empty());
    tokens.retain(|(_, state)| shows_all || *state == ACTIVE);
    tokens.reverse();
    let frame = PageFrame::new(session, PageSection::Tokens, "Tokens");
    let scopes = [Access::Write, Access::Read, Access::Metrics];
    render(&TokensPage { frame, tokens, total, shows_all, users, scopes, outcome })
}

async fn change_tokens(PostedForm { session, fields }: PostedForm) -> Result<Response, PageError> {
    let (admin, request) = session.administration().await?;
    let mut outcome = FormOutcome::default();
    let mut status = StatusCode::OK;
    match apply_form(&*admin, request, &fields).await {
        // The only page that shows the secret, so it cannot be a redirect.
        Ok(Some(created)) => outcome.created = Some(created),
        Ok(None) => return Ok(Redirect::to(&session.url("admin/tokens")).into_response()),
        Err(error) => {
            status = error_status(error.kind).0;
            outcome.error = public_message(&error).into_owned();
            outcome.sent = Some(&fields);
        }
    }
    Ok((status, tokens_page(&session, outcome).await?).into_response())
}

/// Returns a new token with its secret.
async fn apply_form(
    admin: &dyn AdministrationService,
    request: AdminRequest,
    fields: &FormFields,
) -> Result<Option<(String, Token)>> {
    let invalid = |message: &str| Error::new(ErrorKind::InvalidArgument, message);
    match fields.text("action") {
        "create" => {
            let user = UserName::parse(fields.text("user"))
                .map_err(|_| invalid("user: unknown; choose one from the list"))?;
            let scope =
                Access::ALL.into_iter().find(|access| access.name() == fields.text("scope"));
            let scope = scope.ok_or_else(|| invalid("scope: unknown; choose one from the list"))?;
            let mut projects = Vec::new();
            for key in fields.text("projects").split(',') {
                if !key.trim().is_empty() {
                    projects.push(ProjectKey::new(key.trim()));
                }
            }
            let lifetime = fields.filled("lifetime").unwrap_or(DEFAULT_LIFETIME).to_owned();
            let token = NewToken { user, scope, projects, lifetime };
            let (presented, token) = admin.create_token(request, token).await?;
            Ok(Some((presented.reveal(), token)))
        }
        "revoke" => {
            let id = TokenId::parse(fields.text("id"));
            let id = id.ok_or_else(|| invalid("id: not a token; load the page again"))?;
            admin.revoke_token(request, id).await.map(|_| None)
        }
        _ => Err(invalid("action: unknown; reload the page")),
    }
}

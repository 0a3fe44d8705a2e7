//! Tokens: list, create and revoke. Administrators see those of all users, others their own.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Token, TokenId, UserName};
use reqlore_domain::ports::administration::{AdminRequest, AdministrationService, NewToken};
use reqlore_domain::project_key::ProjectKey;

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult, error_status, public_message};
use crate::session::PageSession;

const DEFAULT_LIFETIME: &str = "90d";
/// The states of tokens that the list shows without `all`.
const ACTIVE: &str = "active";

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/admin/tokens", get(show_tokens).post(change_tokens))
        .route("/p/{project}/tokens", get(show_tokens).post(change_tokens))
}

#[derive(Template)]
#[template(path = "admin_tokens.html")]
struct TokensPage<'a> {
    frame: PageFrame,
    /// The newest first.
    tokens: Vec<(Token, &'static str)>,
    total: usize,
    shows_all: bool,
    /// The names that a new token can have; only the caller's own on their page.
    users: Vec<String>,
    scopes: Vec<Access>,
    is_own: bool,
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

async fn show_tokens(session: PageSession) -> PageResult {
    tokens_page(&session, FormOutcome::default()).await
}

/// Only administrators have the page of all tokens.
async fn authorize(
    session: &PageSession,
) -> Result<(Arc<dyn AdministrationService>, AdminRequest), PageError> {
    if session.address.starts_with(&session.url("admin/")) {
        return session.administration().await;
    }
    session.own_administration()
}

async fn tokens_page(session: &PageSession, outcome: FormOutcome<'_>) -> PageResult {
    let (admin, request) = authorize(session).await?;
    let is_own = !session.is_administrator();
    let mut users = vec![session.caller.name.to_string()];
    let mut tokens = admin.tokens(request.clone()).await?;
    if !is_own {
        let all = admin.users(AdminRequest { is_audited: true, ..request }).await?;
        let enabled = all.into_iter().filter(|user| user.disabled_at.is_none());
        users = enabled.map(|user| user.name.to_string()).collect();
    }
    let (total, shows_all) = (tokens.len(), !session.query.text("all").is_empty());
    tokens.retain(|(_, state)| shows_all || *state == ACTIVE);
    tokens.reverse();
    let title = if is_own { "My tokens" } else { "Tokens" };
    let frame = PageFrame::new(session, PageSection::Tokens, title);
    let mut scopes = vec![Access::Write, Access::Read, Access::Metrics];
    if is_own {
        scopes.retain(|scope| *scope != Access::Metrics && session.caller.is_allowed(*scope));
    }
    render(&TokensPage { frame, tokens, total, shows_all, users, scopes, is_own, outcome })
}

async fn change_tokens(PostedForm { session, fields }: PostedForm) -> PageResult {
    let (admin, request) = authorize(&session).await?;
    let mut outcome = FormOutcome::default();
    let mut status = StatusCode::OK;
    match apply_form(&*admin, request, &fields).await {
        // The only page that shows the secret, so it cannot be a redirect.
        Ok(Some(created)) => outcome.created = Some(created),
        Ok(None) => return Ok(Redirect::to(&session.address).into_response()),
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

//! The users of the server: list, add, change the role, disable and enable.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::{IntoResponse, Redirect};
use axum::routing::get;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{User, UserName, UserRole};
use reqlore_domain::ports::administration::{AdminRequest, AdministrationService, UserAction};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageResult, error_status, public_message};
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/admin/users", get(show_users).post(change_users))
}

#[derive(Template)]
#[template(path = "admin_users.html")]
struct UsersPage<'a> {
    frame: PageFrame,
    users: Vec<User>,
    roles: [UserRole; 3],
    error: &'a str,
    /// The name that a rejected form has sent.
    name: &'a str,
}

async fn show_users(session: PageSession) -> PageResult {
    users_page(&session, "", "").await
}

async fn users_page(session: &PageSession, error: &str, name: &str) -> PageResult {
    let (admin, request) = session.administration().await?;
    let users = admin.users(request).await?;
    let frame = PageFrame::new(session, PageSection::Users, "Users");
    render(&UsersPage { frame, users, roles: UserRole::ALL, error, name })
}

async fn change_users(PostedForm { session, fields }: PostedForm) -> PageResult {
    let (admin, request) = session.administration().await?;
    match apply_form(&*admin, request, &fields).await {
        Ok(()) => Ok(Redirect::to(&session.url("admin/users")).into_response()),
        Err(error) => {
            let (status, _) = error_status(error.kind);
            let message = public_message(&error);
            // A name in the list needs no repetition in the form.
            let name = if fields.text("action") == "add" { fields.text("name") } else { "" };
            Ok((status, users_page(&session, &message, name).await?).into_response())
        }
    }
}

async fn apply_form(
    admin: &dyn AdministrationService,
    request: AdminRequest,
    fields: &FormFields,
) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
    let name = UserName::parse(fields.text("name").trim())
        .map_err(|problem| invalid(format!("name: {problem}")).field("name"))?;
    let role = || {
        let role = UserRole::parse(fields.text("role"));
        role.ok_or_else(|| invalid("role: unknown; choose one from the list".to_owned()))
    };
    let change = match fields.text("action") {
        "add" => return admin.add_user(request, name, role()?).await.map(drop),
        "role" => UserAction::SetRole(role()?),
        "disable" => UserAction::Disable,
        "enable" => UserAction::Enable,
        _ => return Err(invalid("action: unknown; reload the page".to_owned())),
    };
    admin.change_user(request, name, change).await.map(drop)
}

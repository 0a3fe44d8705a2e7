//! The address without a path, and the choice of the theme.

use std::sync::Arc;

use axum::Router;
use axum::http::header::SET_COOKIE;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::session::{PageSession, THEME_COOKIE, ThemeChoice, local_target};

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/", get(show_home)).route("/theme", post(choose_theme))
}

async fn show_home(session: PageSession) -> Redirect {
    Redirect::to(&session.url("board"))
}

async fn choose_theme(PostedForm { session, fields }: PostedForm) -> Response {
    let theme = ThemeChoice::parse(fields.text("theme")).name();
    let (config, path) = (&session.config, &session.config.base_path);
    let cookie = format!("{THEME_COOKIE}={theme}; Path={path}; SameSite=Lax; Max-Age=31536000");
    let next = local_target(config, fields.text("next"));
    ([(SET_COOKIE, cookie)], Redirect::to(next)).into_response()
}

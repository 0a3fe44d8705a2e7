//! The board: items in columns by status.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Response;
use axum::routing::get;

use crate::WebConfig;
use crate::page::{PageError, PageFrame, PageSection, render};
use crate::session::PageSession;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/p/{project}/board", get(show_board))
}

#[derive(Template)]
#[template(path = "board.html")]
struct BoardPage {
    frame: PageFrame,
}

async fn show_board(session: PageSession) -> Result<Response, PageError> {
    render(&BoardPage { frame: PageFrame::new(&session, PageSection::Board, "Board") })
}

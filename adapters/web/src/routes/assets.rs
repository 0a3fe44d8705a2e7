//! Files of the pages.

use std::sync::Arc;

use axum::Router;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::assets::{FAVICON, SCRIPT, STYLE};
use crate::config::WebConfig;
use crate::page_error::PageError;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new().route("/assets/{name}", get(serve))
}

async fn serve(Path(name): Path<String>) -> Response {
    for asset in [&STYLE, &SCRIPT, &FAVICON] {
        if asset.name == name {
            let caching = "public, max-age=31536000, immutable";
            let headers = [(CONTENT_TYPE, asset.content_type), (CACHE_CONTROL, caching)];
            return (headers, asset.content.as_str()).into_response();
        }
    }
    PageError::NotFound.into_response()
}

//! Pages for people: routes, sessions, templates and assets over the application's service port.

mod assets;
mod config;
mod csrf;
mod form_fields;
mod icons;
mod item_lists;
mod markdown;
mod page;
mod page_error;
mod project_schema;
mod routes;
mod session;
pub mod site;
mod snippet;
pub mod svg;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod tool_calls;

use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn_with_state, map_response};

pub use axum::Router;
pub use config::WebConfig;

/// Maximum bytes of a form. Larger than any text that a tool accepts, encoded for a URL.
const MAX_FORM_BYTES: usize = 8 << 20;

/// The pages, for a transport that checks Host and Origin and adds a `PageOrigin` to requests.
pub fn router(config: WebConfig) -> Router {
    let config = Arc::new(config);
    routes::all_routes()
        .fallback(page::not_found)
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn_with_state(Arc::clone(&config), page::render_errors))
        .layer(map_response(page::add_security_headers))
        .with_state(config)
}

//! Pages for people: routes, sessions, templates and assets over the application's service port.

mod assets;
mod csrf;
pub mod csv;
mod form_fields;
mod item_lists;
mod markdown;
mod page;
mod routes;
mod session;
pub mod site;
pub mod svg;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod tool_calls;

use std::sync::Arc;

pub use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::{from_fn, map_response};
use reqlore_domain::ports::administration::AdministrationService;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::sessions::SessionService;

/// Maximum bytes of a form. Larger than any text that a tool accepts, encoded for a URL.
const MAX_FORM_BYTES: usize = 8 << 20;

/// The ports of the pages, and the properties of the server that serves them.
#[derive(Clone)]
pub struct WebConfig {
    pub service: Arc<dyn ApplicationService>,
    pub sessions: Arc<dyn SessionService>,
    /// `None` if the server has no users.
    pub administration: Option<Arc<dyn AdministrationService>>,
    /// True for a local server: `/signin/SECRET` is the link that signs in once. Otherwise a page
    /// never takes a secret from a URL.
    pub has_link: bool,
    /// True if browsers reach the server through a proxy with TLS. Cookies are secure then.
    pub has_tls: bool,
}

impl std::fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebConfig").field("has_tls", &self.has_tls).finish_non_exhaustive()
    }
}

/// The pages, for a transport that checks Host and Origin and adds a `PageOrigin` to requests.
pub fn router(config: WebConfig) -> Router {
    routes::all_routes()
        .fallback(page::not_found)
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn(page::render_errors))
        .layer(map_response(page::add_security_headers))
        .with_state(Arc::new(config))
}

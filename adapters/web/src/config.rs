//! The parts of the server that pages need.

use std::sync::Arc;

use reqlore_domain::ports::administration::AdministrationService;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::sessions::SessionService;

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
    /// The URL path below which a proxy serves the pages; begins and ends with `/`. The proxy
    /// removes it from requests.
    pub base_path: String,
    /// The folder name of the local project, shown on pages. Empty on a team server.
    pub folder_name: String,
}

impl std::fmt::Debug for WebConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebConfig").field("has_tls", &self.has_tls).finish_non_exhaustive()
    }
}

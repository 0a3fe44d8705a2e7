//! The session of a page request: its caller, project, query and appearance.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::HeaderMap;
use axum::http::header::{COOKIE, HOST};
use axum::http::request::Parts;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::administration::{AdminRequest, AdministrationService};
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use reqlore_domain::ports::transport::PageOrigin;
use reqlore_domain::project_key::ProjectKey;
use sha2::{Digest, Sha256};

use crate::config::WebConfig;
use crate::form_fields::{FormFields, encode_component};
use crate::page_error::PageError;
use crate::project_schema::ProjectSchema;

/// The theme's cookie. Scripts may change it; it holds no secret.
pub(crate) const THEME_COOKIE: &str = "reqlore-theme";

/// A header with [`PageSession::refresh_token`].
const REFRESH_HEADER: &str = "reqlore-refresh";

/// The caller of a page, and everything that a page needs to know of its request.
pub(crate) struct PageSession {
    pub(crate) caller: Arc<Caller>,
    pub(crate) correlation_id: Arc<str>,
    /// The project in the page's URL.
    pub(crate) project: ProjectKey,
    /// The query of the page's URL.
    pub(crate) query: FormFields,
    /// The path and query of the page's URL.
    pub(crate) address: String,
    /// True if the page answers a form, so that a GET request of its URL shows something else.
    pub(crate) is_form_answer: bool,
    /// The value of the hidden field `csrf` of each form.
    pub(crate) csrf_token: String,
    pub(crate) theme: ThemeChoice,
    /// False for a site without the histories of its items.
    pub(crate) has_history: bool,
    pub(crate) config: Arc<WebConfig>,
    /// Empty before [`Self::with_schema`].
    pub(crate) schema: Arc<ProjectSchema>,
    /// True if the audit log has a row of this view.
    is_audited: AtomicBool,
    secret: String,
    client_address: String,
}

/// The theme that a user has chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ThemeChoice {
    /// The theme of the user's system.
    #[default]
    System,
    Light,
    Dark,
}

impl ThemeChoice {
    /// The names with the labels of their buttons.
    pub(crate) const LABELS: [(&str, &str); 3] =
        [("system", "System theme"), ("light", "Light theme"), ("dark", "Dark theme")];

    pub(crate) fn parse(name: &str) -> Self {
        match name {
            "light" => Self::Light,
            "dark" => Self::Dark,
            _ => Self::System,
        }
    }

    /// The value of the page's `color-scheme`, which browsers use before the style sheet.
    pub(crate) fn color_scheme(self) -> &'static str {
        match self {
            Self::System => "light dark",
            theme => theme.name(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

impl PageSession {
    /// Authenticates the cookie of a request of any method. Handlers use the extractors.
    pub(crate) async fn authenticate(
        parts: &mut Parts,
        config: &Arc<WebConfig>,
    ) -> Result<Self, PageError> {
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let address = format!("{}{}", config.base_path, path.trim_start_matches('/'));
        if let Some(caller) = parts.extensions.get() {
            return Ok(Self::of_site(caller, &address, parts, config));
        }
        let Some(secret) = cookie(&parts.headers, &session_cookie_name(config, &parts.headers))
        else {
            return Err(sign_in_first(config, &address));
        };
        let project = project_in_path(parts.uri.path())?;
        let (correlation_id, client_address) = request_origin(parts);
        let credentials = Credentials {
            token: Some(secret),
            project,
            address: &client_address,
            correlation_id: &correlation_id,
        };
        let caller = match config.sessions.caller(credentials).await {
            Ok(caller) => caller,
            Err(AuthenticationError::Token(_)) => return Err(sign_in_first(config, &address)),
            // A project that may not be seen answers like one that does not exist.
            Err(AuthenticationError::Project(_)) => return Err(PageError::NotFound),
            Err(AuthenticationError::Failed(error)) => return Err(error.into()),
        };
        if caller.access == Access::Metrics {
            return Err(PageError::NotFound);
        }
        Ok(Self {
            project: caller.project.clone(),
            caller,
            has_history: true,
            query: FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes()),
            is_audited: is_refresh(&parts.headers, secret, &address).into(),
            address,
            is_form_answer: !parts.method.is_safe(),
            csrf_token: derived_token("csrf", secret),
            theme: theme_choice(&parts.headers),
            config: config.clone(),
            schema: Arc::default(),
            secret: secret.to_owned(),
            correlation_id,
            client_address,
        })
    }

    /// The session of a page that becomes a file.
    fn of_site(
        StaticCaller { caller, has_history }: &StaticCaller,
        address: &str,
        parts: &Parts,
        config: &Arc<WebConfig>,
    ) -> Self {
        Self {
            project: caller.project.clone(),
            caller: caller.clone(),
            has_history: *has_history,
            query: FormFields::parse(parts.uri.query().unwrap_or_default().as_bytes()),
            address: address.to_owned(),
            is_form_answer: false,
            csrf_token: String::new(),
            is_audited: AtomicBool::new(false),
            theme: ThemeChoice::System,
            config: config.clone(),
            schema: Arc::default(),
            secret: String::new(),
            correlation_id: "site".into(),
            client_address: String::new(),
        }
    }

    /// True if the page becomes a file, without a server for forms.
    pub(crate) fn is_static(&self) -> bool {
        self.secret.is_empty()
    }

    /// The credentials of this session, to validate it again or to end it.
    pub(crate) fn credentials(&self) -> Credentials<'_> {
        Credentials {
            token: Some(&self.secret),
            project: Some(self.project.as_str()),
            address: &self.client_address,
            correlation_id: &self.correlation_id,
        }
    }

    /// Proves that this session has loaded the page with this address.
    pub(crate) fn refresh_token(&self) -> String {
        derived_token(&format!("refresh {} ", self.address), &self.secret)
    }

    /// True from the second call on, and for a refresh: the audit log gets one row of a view.
    pub(crate) fn take_audited(&self) -> bool {
        self.is_audited.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn can_write(&self) -> bool {
        self.caller.is_allowed(Access::Write)
    }

    pub(crate) fn is_administrator(&self) -> bool {
        self.config.administration.as_ref().is_some_and(|admin| admin.is_allowed(&self.caller))
    }

    /// The administration and a request of this caller. `NotFound` if the caller may not use it,
    /// which is recorded.
    pub(crate) async fn administration(
        &self,
    ) -> Result<(Arc<dyn AdministrationService>, AdminRequest), PageError> {
        match &self.config.administration {
            Some(admin) if self.is_administrator() => Ok((admin.clone(), self.admin_request())),
            _ => {
                self.record_refusal("administration").await;
                Err(PageError::NotFound)
            }
        }
    }

    /// As [`Self::administration`], for the tokens and the activity of the caller only.
    pub(crate) fn own_administration(
        &self,
    ) -> Result<(Arc<dyn AdministrationService>, AdminRequest), PageError> {
        let admin = self.config.administration.clone();
        Ok((admin.ok_or(PageError::NotFound)?, self.admin_request()))
    }

    /// Records a refused attempt of this session in the audit log.
    pub(crate) async fn record_refusal(&self, action: &'static str) {
        if let Some(admin) = &self.config.administration {
            let method = if self.is_form_answer { "POST" } else { "GET" };
            let path = self.address.split('?').next().unwrap_or_default();
            let page = format!("{method} {path}");
            // The caller returns an error of its own.
            let _ = admin.refuse(self.admin_request(), action, &page).await;
        }
    }

    fn admin_request(&self) -> AdminRequest {
        let (caller, correlation_id) = (self.caller.clone(), self.correlation_id.clone());
        AdminRequest { caller, correlation_id, is_audited: self.take_audited() }
    }

    /// The URL of a page of this project, such as `board`.
    pub(crate) fn url(&self, page: &str) -> String {
        self.url_in(&self.project, page)
    }

    pub(crate) fn url_in(&self, project: &ProjectKey, page: &str) -> String {
        format!("{}p/{project}/{page}", self.config.base_path)
    }
}

/// The name of the session's cookie. The prefix makes browsers require TLS and refuse a cookie of
/// another path or domain. Without TLS all servers of this machine share their cookies, so that the
/// name has the port.
fn session_cookie_name(config: &WebConfig, headers: &HeaderMap) -> Cow<'static, str> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    match host.and_then(|host| host.rsplit_once(':')) {
        _ if config.has_tls && config.base_path == "/" => "__Host-reqlore".into(),
        // Browsers accept `__Host-` only with the path `/`.
        _ if config.has_tls => "__Secure-reqlore".into(),
        Some((_, port)) if port.parse::<u16>().is_ok() => format!("reqlore-{port}").into(),
        _ => "reqlore".into(),
    }
}

/// The value of a `Set-Cookie` header for the request with these headers; an empty `secret` removes
/// the cookie.
pub(crate) fn session_cookie(config: &WebConfig, headers: &HeaderMap, secret: &str) -> String {
    let name = session_cookie_name(config, headers);
    let secure = if config.has_tls { "; Secure" } else { "" };
    let expiry = match secret {
        "" => "; Max-Age=0",
        // Bookmarks keep working after a restart of the browser, until the session ends.
        _ if config.has_link => "; Max-Age=43200",
        _ => "",
    };
    let path = &config.base_path;
    format!("{name}={secret}; Path={path}; HttpOnly; SameSite=Lax{secure}{expiry}")
}

/// Returns the value of a cookie. A second one with the same name makes both invalid.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut found = None;
    for header in headers.get_all(COOKIE) {
        // Other servers of this machine share their cookies, which may have any bytes.
        for pair in header.as_bytes().split(|byte| *byte == b';') {
            let Ok(pair) = std::str::from_utf8(pair) else { continue };
            let Some((key, value)) = pair.trim().split_once('=') else { continue };
            if key == name && found.replace(value).is_some() {
                return None;
            }
        }
    }
    found.filter(|value| !value.is_empty())
}

pub(crate) fn theme_choice(headers: &HeaderMap) -> ThemeChoice {
    ThemeChoice::parse(cookie(headers, THEME_COOKIE).unwrap_or_default())
}

/// Returns the request ID and the client's address, from the transport if there is one.
pub(crate) fn request_origin(parts: &Parts) -> (Arc<str>, String) {
    match parts.extensions.get::<PageOrigin>() {
        Some(origin) => (origin.request_id.clone(), origin.address.to_string()),
        None => ("page".into(), String::new()),
    }
}

/// The target of a redirect after a form, which must be a page of this server.
pub(crate) fn local_target<'a>(config: &'a WebConfig, target: &'a str) -> &'a str {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    // Browsers resolve `..` and its encoded form, which could lead to another path.
    let page = target.strip_prefix(&*config.base_path);
    let is_local = page.is_some_and(|page| page.starts_with("p/"))
        && target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\')
        && !path.contains("//")
        && !path.contains("..")
        && !path.to_ascii_lowercase().contains("%2e");
    if is_local { target } else { &config.base_path }
}

fn project_in_path(path: &str) -> Result<Option<&str>, PageError> {
    let Some(rest) = path.strip_prefix("/p/") else { return Ok(None) };
    let key = rest.split('/').next().unwrap_or_default();
    if ProjectKey::new(key).is_plain() { Ok(Some(key)) } else { Err(PageError::NotFound) }
}

fn sign_in_first(config: &WebConfig, address: &str) -> PageError {
    PageError::SignIn(format!("{}signin?next={}", config.base_path, encode_component(address)))
}

/// Returns a token that only the pages of a session know.
pub(crate) fn derived_token(purpose: &str, session_secret: &str) -> String {
    hex::encode(Sha256::digest(format!("{purpose}{session_secret}")))
}

/// True for the refresh of a page that this session has loaded, which the audit log has a row of.
fn is_refresh(headers: &HeaderMap, secret: &str, address: &str) -> bool {
    headers.get(REFRESH_HEADER).is_some_and(|sent| {
        sent.as_bytes() == derived_token(&format!("refresh {address} "), secret).as_bytes()
    })
}

/// The caller of a request for a page of a site, instead of a session.
#[derive(Debug, Clone)]
pub(crate) struct StaticCaller {
    pub(crate) caller: Arc<Caller>,
    pub(crate) has_history: bool,
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use serde_json::Value;

    use super::*;
    use crate::test_support::PageClient;

    #[test]
    fn redirect_target_outside_the_server_is_replaced() {
        let mut config = PageClient::new(&[], |_, _| Ok(Value::Null)).config();
        for target in ["/p/default/board?kind=epic", "/p/a/search?q=../x//y#z", "/p/a/item/A-1"] {
            assert_eq!(local_target(&config, target), target);
        }
        for target in [
            "https://evil.example",
            "javascript:alert(1)",
            "//evil.example",
            "/\\evil",
            "",
            "/p/\r\nx",
            "/p/..//evil.example",
            "/p//evil.example",
            "/p/../theme",
            "/p/%2e%2E/theme",
            "/p/.%2e/theme",
            "/p/a\\..\\b",
            "p/default/board",
        ] {
            assert_eq!(local_target(&config, target), "/", "{target}");
        }
        config.base_path = "/reqlore/".to_owned();
        assert_eq!(local_target(&config, "/reqlore/p/a/item/A-1"), "/reqlore/p/a/item/A-1");
        for target in ["/p/a/item/A-1", "/reqlore//p/a", "/reqlorep/a", "/reqlore/../p/a"] {
            assert_eq!(local_target(&config, target), "/reqlore/", "{target}");
        }
    }

    #[test]
    fn cookie_that_appears_twice_is_invalid() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; reqlore=secret".parse().unwrap());
        assert_eq!(cookie(&headers, "reqlore"), Some("secret"));
        headers.append(COOKIE, "reqlore=other".parse().unwrap());
        assert_eq!(cookie(&headers, "reqlore"), None);
    }

    #[test]
    fn cookie_next_to_one_of_other_bytes_is_read() {
        let mut headers = HeaderMap::new();
        let foreign = HeaderValue::from_bytes(b"a=\xc3\xbc; b=\xff; reqlore=secret");
        headers.append(COOKIE, foreign.unwrap());
        assert_eq!(cookie(&headers, "reqlore"), Some("secret"));
    }
}

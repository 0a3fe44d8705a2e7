//! A session service and a client for tests of pages.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, COOKIE};
use axum::http::{Request, Response};
use http_body_util::BodyExt;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller, TokenError};
use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
use reqlore_domain::ports::service::ToolReply;
use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::test_support::StubService;
use reqlore_domain::timestamp::Timestamp;
use serde_json::{Map, Value};
use tower_service::Service;

use crate::csrf::form_token;
use crate::{WebConfig, router};

/// The secret of the session that exists.
pub(crate) const SECRET: &str = "session-secret";
/// The token that begins it.
pub(crate) const TOKEN: &str = "access-token";

/// Knows one session, of a caller with this access to the project `default`.
#[derive(Debug)]
pub(crate) struct StubSessions(pub(crate) Access);

#[async_trait]
impl SessionService for StubSessions {
    async fn sign_in(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<IssuedSession, AuthenticationError> {
        if credentials.token == Some(TOKEN) {
            return Ok(IssuedSession { secret: SECRET.into(), expires_at: Timestamp::default() });
        }
        Err(AuthenticationError::Token(TokenError::Unknown))
    }

    async fn caller(
        &self,
        credentials: Credentials<'_>,
    ) -> Result<Arc<Caller>, AuthenticationError> {
        if credentials.token != Some(SECRET) {
            return Err(AuthenticationError::Token(TokenError::Unknown));
        }
        match credentials.project {
            None | Some(ProjectKey::DEFAULT) => Ok(Arc::new(Caller::local("ada", self.0))),
            Some(_) => {
                Err(AuthenticationError::Project(Error::new(ErrorKind::NotFound, "project")))
            }
        }
    }

    async fn sign_out(&self, _: Credentials<'_>) -> Result<()> {
        Ok(())
    }
}

/// A response with its body as text.
pub(crate) struct PageResponse {
    pub(crate) response: Response<()>,
    pub(crate) body: String,
}

impl PageResponse {
    pub(crate) fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Sends requests to the pages in this process, with the cookie of the session.
pub(crate) struct PageClient {
    config: WebConfig,
}

impl PageClient {
    /// Pages whose tools answer with `on_call`, from their name and arguments.
    pub(crate) fn new(
        tools: &[&'static str],
        on_call: impl Fn(&str, &Map<String, Value>) -> Result<Value> + Send + Sync + 'static,
    ) -> Self {
        let service = StubService::default().with_tools(tools).on_call(move |call| {
            let data = on_call(&call.name, &call.arguments);
            Box::pin(async move { Ok(ToolReply { text: String::new(), data: Arc::new(data?) }) })
        });
        let sessions = Arc::new(StubSessions(Access::Write));
        let service = Arc::new(service);
        let (administration, has_link, has_tls) = (None, false, false);
        Self { config: WebConfig { service, sessions, administration, has_link, has_tls } }
    }

    /// The same pages for a caller with this access.
    pub(crate) fn with_access(mut self, access: Access) -> Self {
        self.config.sessions = Arc::new(StubSessions(access));
        self
    }

    pub(crate) fn config(&self) -> WebConfig {
        self.config.clone()
    }

    pub(crate) async fn get(&self, path: &str) -> PageResponse {
        let request = Request::get(path).header(COOKIE, format!("reqlore={SECRET}"));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Sends a form with its token.
    pub(crate) async fn post(&self, path: &str, form: &str) -> PageResponse {
        let form = format!("{form}&csrf={}", form_token(SECRET));
        let request = Request::post(path)
            .header(COOKIE, format!("reqlore={SECRET}"))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(form)).unwrap()).await
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> PageResponse {
        let response = router(self.config.clone()).call(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = String::from_utf8(bytes.to_vec()).unwrap();
        PageResponse { response: Response::from_parts(parts, ()), body }
    }
}

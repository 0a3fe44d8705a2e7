//! Server-sent events that report changes of a project to open pages.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Extension, Router};
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::unfold;
use reqlore_domain::identity::TokenId;
use reqlore_domain::ports::transport::StreamOwner;
use reqlore_domain::project_key::ProjectKey;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::config::WebConfig;
use crate::page_error::PageResult;
use crate::session::PageSession;

/// Time between two reads of the change counter of a project with open pages, which hear of a
/// change through any server within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time between two validations of the session of an open stream.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The change counters of the projects with open streams, one poller for each.
#[derive(Default)]
struct EventHub {
    projects: Mutex<HashMap<ProjectKey, watch::Sender<u64>>>,
}

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    let hub = Arc::new(EventHub::default());
    Router::new().route("/p/{project}/events", get(stream_events)).layer(Extension(hub))
}

async fn stream_events(
    Extension(hub): Extension<Arc<EventHub>>,
    session: PageSession,
) -> PageResult {
    let revision = session.config.service.resources_changed(&session.caller).await?;
    let changes = hub.subscribe(&session, revision);
    let caller = &session.caller;
    let owner = caller.token.as_ref().map_or(&*caller.name, TokenId::as_str);
    let owner = Extension(StreamOwner(owner.into()));
    let body = Body::from_stream(event_stream(session, changes));
    Ok(([(CONTENT_TYPE, "text/event-stream")], owner, body).into_response())
}

/// An event for each change of the counter, and a comment after each validation of the session.
/// Ends with the session.
fn event_stream(
    session: PageSession,
    changes: watch::Receiver<u64>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    let first = Bytes::from_static(b": connected\n\n");
    unfold((session, changes, Some(first)), |(session, mut changes, first)| async move {
        if let Some(first) = first {
            return Some((Ok(first), (session, changes, None)));
        }
        let is_changed = match timeout(RECHECK_INTERVAL, changes.changed()).await {
            Ok(Ok(())) => true,
            // The poller has ended after an error; the browser connects again.
            Ok(Err(_)) => return None,
            Err(_) => false,
        };
        session.config.sessions.caller(session.credentials()).await.ok()?;
        let event = if is_changed {
            format!("event: change\ndata: {}\n\n", *changes.borrow_and_update())
        } else {
            ": open\n\n".to_owned()
        };
        Some((Ok(Bytes::from(event)), (session, changes, None)))
    })
}

impl EventHub {
    fn subscribe(self: &Arc<Self>, session: &PageSession, revision: u64) -> watch::Receiver<u64> {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        match projects.entry(session.project.clone()) {
            Entry::Occupied(sender) => sender.get().subscribe(),
            Entry::Vacant(entry) => {
                let changes = entry.insert(watch::Sender::new(revision)).subscribe();
                let (hub, config) = (self.clone(), session.config.clone());
                let caller = session.caller.clone();
                tokio::spawn(async move {
                    loop {
                        sleep(POLL_INTERVAL).await;
                        let revision = config.service.resources_changed(&caller).await.ok();
                        if !hub.publish(&caller.project, revision) {
                            break;
                        }
                    }
                });
                changes
            }
        }
    }

    /// Returns false if the poller must end: after an error, or without a stream.
    fn publish(&self, project: &ProjectKey, revision: Option<u64>) -> bool {
        let mut projects = self.projects.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(sender) = projects.get(project) else { return false };
        // Under the lock, so that no stream subscribes to a poller that ends.
        match revision {
            Some(revision) if sender.receiver_count() > 0 => {
                sender.send_if_modified(|old| std::mem::replace(old, revision) != revision);
                true
            }
            _ => {
                projects.remove(project);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;
    use axum::http::Request;
    use axum::http::header::COOKIE;
    use http_body_util::BodyExt;
    use reqlore_domain::error::Result;
    use reqlore_domain::identity::{Access, Caller, TokenError};
    use reqlore_domain::ports::authenticator::{AuthenticationError, Credentials};
    use reqlore_domain::ports::sessions::{IssuedSession, SessionService};
    use reqlore_domain::test_support::StubService;
    use tower_service::Service;

    use super::*;
    use crate::router;
    use crate::test_support::{PageClient, SECRET, StubSessions};

    /// A session that a test revokes.
    struct RevocableSession(AtomicBool);

    #[async_trait]
    impl SessionService for RevocableSession {
        async fn sign_in(
            &self,
            credentials: Credentials<'_>,
        ) -> Result<IssuedSession, AuthenticationError> {
            StubSessions(Access::Read).sign_in(credentials).await
        }

        async fn caller(
            &self,
            credentials: Credentials<'_>,
        ) -> Result<Arc<Caller>, AuthenticationError> {
            if self.0.load(Ordering::Relaxed) {
                return Err(AuthenticationError::Token(TokenError::Unknown));
            }
            StubSessions(Access::Read).caller(credentials).await
        }

        async fn sign_out(&self, _: Credentials<'_>) -> Result<()> {
            Ok(())
        }
    }

    async fn next_event(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn stream_reports_changes_until_its_session_is_revoked() {
        let service = Arc::new(StubService::with_resources(&[("EP-1", "one")]));
        let session = Arc::new(RevocableSession(AtomicBool::new(false)));
        let mut config = PageClient::new(&[], |_, _| Ok(serde_json::json!({}))).config();
        (config.service, config.sessions) = (service.clone(), session.clone());
        let mut pages = router(config);
        let mut bodies = Vec::new();
        for _ in 0..2 {
            let request =
                Request::get("/p/default/events").header(COOKIE, format!("reqlore={SECRET}"));
            let response = pages.call(request.body(Body::empty()).unwrap()).await.unwrap();
            assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
            assert_eq!(&*response.extensions().get::<StreamOwner>().unwrap().0, "ada");
            bodies.push(response.into_body());
        }
        for body in &mut bodies {
            assert_eq!(next_event(body).await.unwrap(), ": connected\n\n");
        }
        service.touch_all();
        for body in &mut bodies {
            let event = next_event(body).await.unwrap();
            assert!(event.starts_with("event: change\ndata: "), "{event}");
        }
        assert_eq!(next_event(&mut bodies[0]).await.unwrap(), ": open\n\n");
        session.0.store(true, Ordering::Relaxed);
        for body in &mut bodies {
            assert_eq!(next_event(body).await, None);
        }
        // Without a stream the poller ends.
        drop(bodies);
        sleep(POLL_INTERVAL * 2).await;
        let polls = service.polls();
        sleep(POLL_INTERVAL * 5).await;
        assert_eq!(service.polls(), polls);
    }
}

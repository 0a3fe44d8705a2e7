//! Pages for people: a router of another crate behind the checks and the limits of this transport.
//!
//! The transport does not know the sessions of the pages, so it limits them by address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, EXPECT, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderValue, Method, Response, StatusCode};
use axum::{Extension, Router};
use futures_util::{FutureExt, StreamExt};
use http_body_util::BodyStream;
use reqlore_domain::identity::redact_secrets;
use reqlore_domain::ports::transport::{FailedSignIn, PageOrigin, SIGN_IN_PATH, StreamOwner};
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use crate::error_response::ErrorResponse;
use crate::guards::{DetachOnDrop, GaugeGuard};
use crate::handler::{
    EVENT_STREAM, body_with_permits, catch_panic, complete_response, discard_unread, names_type,
    request_id,
};
use crate::health;
use crate::origin_check::has_user;
use crate::state::ServerState;

pub(crate) async fn serve_page(
    State(shared): State<Arc<ServerState>>,
    Extension(peer): Extension<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, body) = request.into_parts();
    let request_id = request_id(&parts.headers);
    // Outside the future, because it is needed after an error or a panic too.
    let (mut body, sent) = (Some(body), parts.clone());
    let responding = async {
        let response = match shared.pages.clone() {
            _ if is_oauth_path(parts.uri.path()) => return Ok(health::no_oauth()),
            Some(pages) => {
                let page = respond_to_page(&shared, pages, peer, &request_id, parts, &mut body);
                stream_events(&shared, &sent.extensions, page.await?)?
            }
            None => return Err(health::not_found()),
        };
        let is_page = match response.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => !is_program(&sent),
            // A client of MCP does not expect to sign in. Streams of pages have other paths.
            StatusCode::SEE_OTHER if sent.uri.path() == "/" => {
                !names_type(&sent.headers, ACCEPT, EVENT_STREAM)
            }
            _ => true,
        };
        if is_page { Ok(response) } else { Err(health::not_found()) }
    };
    let outcome = catch_panic(&request_id, responding).await;
    let outcome = discard_unread(outcome, body).await;
    let response = outcome.unwrap_or_else(|error| {
        if error.status == StatusCode::NOT_FOUND {
            shared.log_anonymous(&error, &sent, peer, &request_id);
        }
        if is_program(&sent) { error.into_response() } else { error.into_text_response() }
    });
    complete_response(&shared, &request_id, None, Ok(response), started)
}

async fn respond_to_page(
    shared: &Arc<ServerState>,
    mut pages: Router,
    peer: SocketAddr,
    request_id: &Arc<str>,
    mut parts: Parts,
    body: &mut Option<Body>,
) -> Result<Response<Body>, ErrorResponse> {
    let checked = shared.origin_check.check_page_request(&parts);
    let checked = checked.and_then(|()| check_page_target(&parts));
    checked.inspect_err(|error| shared.log_anonymous(error, &parts, peer, request_id))?;
    if shared.is_shutting_down() {
        let message = "The server is shutting down. Nothing was changed; try again.";
        return Err(ErrorResponse::busy(message).closing_connection());
    }
    let address = shared.client_address(&parts.headers, peer);
    let limit = shared.page_clients.limit_of_address(address);
    shared.page_clients.count_request(&limit)?;
    if parts.method == Method::POST && parts.uri.path() == SIGN_IN_PATH {
        shared.logins.count_look_up(address)?;
    }
    let expects = parts.headers.contains_key(EXPECT);
    let unread = body.take().unwrap_or_default();
    let reading = shared.bodies.read_body(unread, expects, &limit.body_budget);
    let (read, body_permit) = reading.await?;
    // An error for a program has the id of its message.
    *body = Some(read.clone().into());
    // Starts after the body: a slow upload has its own limit.
    let due = Instant::now() + shared.config.limits.request_timeout;
    let permit = shared.page_clients.acquire_run_permit(&limit, due).await?;
    let in_flight = GaugeGuard::new(&shared.config.counters, |counters| &counters.in_flight);
    // Pages never use it, so no page can log it.
    parts.headers.remove(AUTHORIZATION);
    parts.extensions.insert(PageOrigin { address, request_id: request_id.clone() });
    let handling = async move {
        let response = pages.call(Request::from_parts(parts, Body::from(read))).await;
        drop((permit, body_permit, in_flight));
        response.unwrap_or_else(|never| match never {})
    };
    // A form that changes something completes, also if its client disconnects.
    let handling =
        DetachOnDrop { handling: Some(handling.boxed()), work: shared.running_requests.clone() };
    let Ok(mut response) = timeout_at(due, handling).await else {
        let message = "The request took too long. A started change still finishes; check it \
                       before you try again.";
        return Err(ErrorResponse::busy(message));
    };
    if response.extensions().get::<FailedSignIn>().is_some() {
        if let Some(seconds) = shared.logins.count_failure(address) {
            // The page with its reason stays.
            *response.status_mut() = StatusCode::TOO_MANY_REQUESTS;
            response.headers_mut().insert(RETRY_AFTER, seconds.max(1).into());
        } else {
            shared.config.counters.failed_logins.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(response)
}

/// A stream of events holds only the permit of a subscription. It ends with the server.
fn stream_events(
    shared: &Arc<ServerState>,
    extensions: &Extensions,
    response: Response<Body>,
) -> Result<Response<Body>, ErrorResponse> {
    let content_type = response.headers().get(CONTENT_TYPE).map_or(&[][..], HeaderValue::as_bytes);
    if !content_type.starts_with(EVENT_STREAM) {
        return Ok(response);
    }
    // Not by address, because the people of an office may share one, and not by cookies, because a
    // client may add any to those of its session.
    let owner = response.extensions().get::<StreamOwner>().map_or("", |owner| &*owner.0);
    let fingerprint = shared.page_clients.hash_token(owner);
    let permit = shared.page_clients.insert_valid(fingerprint).acquire_subscription()?;
    let stream = shared.connections.open_stream(extensions, &shared.config)?;
    let finish = shared.shutdown.finish.clone().cancelled_owned();
    let streamed = response.map(|body| {
        let frames = BodyStream::new(body).take_until(finish);
        body_with_permits((permit, stream), frames)
    });
    Ok(streamed)
}

/// True for a request of a program, which gets errors as JSON.
fn is_program(Parts { method, headers, .. }: &Parts) -> bool {
    let is_form = names_type(headers, CONTENT_TYPE, b"application/x-www-form-urlencoded");
    !names_type(headers, ACCEPT, b"text/html") || method == Method::POST && !is_form
}

/// True for paths at which clients look for an OAuth server after a 401.
fn is_oauth_path(path: &str) -> bool {
    ["/register", "/authorize", "/token"].contains(&path) || path.contains("/.well-known/")
}

/// Rejects a user and a secret in a URL, which would end up in logs and in the browser's history.
fn check_page_target(parts: &Parts) -> Result<(), ErrorResponse> {
    let target = parts.uri.path_and_query().map_or("", |target| target.as_str());
    if redact_secrets(target) == target && !has_user(parts) {
        return Ok(());
    }
    let message = "URL: must have no user and no token; revoke a token that was in a URL, and sign \
                   in with another one";
    Err(ErrorResponse::invalid_request(StatusCode::BAD_REQUEST, message))
}

//! What operators ask: does it live, is it ready, how does it do.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use reqlore_domain::identity::{Caller, Role};
use tokio::time::Instant;

use crate::caught::caught;
use crate::checks::check_target;
use crate::refusal::{FORBIDDEN, Refusal};
use crate::{PATH, Peer, Shared, correlation, edge};

/// Prometheus' text format.
const FIGURES: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Orchestrators ask by address, so no Host is looked at here and below.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

pub(crate) async fn ready(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let request_id = correlation::request_id(request.headers());
    let asking = async {
        let (status, said) = if shared.is_ending() {
            (StatusCode::SERVICE_UNAVAILABLE, "ending\n")
        } else if (shared.ready)() {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "the storage can't be used now\n")
        };
        Ok((status, said).into_response())
    };
    caught(&request_id, asking).await.unwrap_or_else(Refusal::into_response)
}

/// For administrators alone: the figures tell who does what.
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, _) = request.into_parts();
    let request_id = correlation::request_id(&parts.headers);
    let mut caller = None;
    let asking = figures(&shared, peer, &request_id, &parts, &mut caller);
    let answered = caught(&request_id, asking).await;
    edge::tell(&shared, &request_id, caller.as_deref(), answered, started)
}

async fn figures(
    shared: &Shared,
    peer: SocketAddr,
    request_id: &str,
    parts: &Parts,
    told: &mut Option<Arc<Caller>>,
) -> Result<Response<Body>, Refusal> {
    shared.door.check(parts)?;
    let admitted = edge::login(shared, &parts.headers, peer, request_id).await?;
    let role = admitted.caller.role;
    *told = Some(admitted.caller);
    check_target(parts)?;
    if role != Role::Administrator {
        let message = "Only administrators may see the server's figures.";
        return Err(Refusal::new(StatusCode::FORBIDDEN, FORBIDDEN, message));
    }
    let mut response = Response::new(Body::from((shared.metrics)()));
    response.headers_mut().insert(CONTENT_TYPE, FIGURES);
    Ok(response)
}

/// Any other path.
pub(crate) async fn nothing_here() -> Response<Body> {
    let message = format!("There is nothing here; calls go to POST {PATH}.");
    Refusal::invalid(StatusCode::NOT_FOUND, message).into_response()
}

//! The paths for operators: liveness, readiness and metrics.

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

use crate::error_response::{ErrorResponse, FORBIDDEN};
use crate::handler::{catch_panic, check_target, complete, login, request_id};
use crate::{PATH, Peer, Shared};

/// Prometheus' text format.
const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Orchestrators call by address, so probes check no Host.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

pub(crate) async fn ready(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let request_id = request_id(request.headers());
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
    catch_panic(&request_id, asking).await.unwrap_or_else(ErrorResponse::into_response)
}

/// For administrators only.
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, _) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let mut caller = None;
    let asking = figures(&shared, peer, &request_id, &parts, &mut caller);
    let answered = catch_panic(&request_id, asking).await;
    complete(&shared, &request_id, caller.as_deref(), answered, started)
}

async fn figures(
    shared: &Shared,
    peer: SocketAddr,
    request_id: &str,
    parts: &Parts,
    logged_caller: &mut Option<Arc<Caller>>,
) -> Result<Response<Body>, ErrorResponse> {
    shared.origin_check.check(parts)?;
    let admitted = login(shared, &parts.headers, peer, request_id).await?;
    let role = admitted.caller.role;
    *logged_caller = Some(admitted.caller);
    check_target(parts)?;
    if role != Role::Administrator {
        let message = "Only administrators may see the server's figures.";
        return Err(ErrorResponse::new(StatusCode::FORBIDDEN, FORBIDDEN, message));
    }
    let mut response = Response::new(Body::from((shared.metrics)()));
    response.headers_mut().insert(CONTENT_TYPE, OPENMETRICS);
    Ok(response)
}

/// Any other path.
pub(crate) async fn nothing_here() -> Response<Body> {
    let message = format!("There is nothing here; calls go to POST {PATH}.");
    ErrorResponse::invalid(StatusCode::NOT_FOUND, message).into_response()
}

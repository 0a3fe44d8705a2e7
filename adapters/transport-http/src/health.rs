//! The paths for operators: liveness, readiness and metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use reqlore_domain::identity::Role;
use tokio::time::Instant;

use crate::error_response::{ErrorResponse, FORBIDDEN};
use crate::handler::{catch_panic, check_target, complete_response, request_id};
use crate::{PATH, ServerState};

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Orchestrators call by address, so probes check no Host.
pub(crate) async fn serve_liveness() -> &'static str {
    "alive\n"
}

pub(crate) async fn serve_readiness(
    State(shared): State<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let request_id = request_id(request.headers());
    if shared.is_shutting_down() {
        return (StatusCode::SERVICE_UNAVAILABLE, "ending\n").into_response();
    }
    let (status, text) = match catch_panic(&request_id, async { Ok((shared.config.ready)()) }).await
    {
        Err(error) => return error.into_response(),
        Ok(true) => (StatusCode::OK, "ready\n"),
        Ok(false) => (StatusCode::SERVICE_UNAVAILABLE, "the storage can't be used now\n"),
    };
    (status, text).into_response()
}

/// For administrators only.
pub(crate) async fn serve_metrics(
    State(shared): State<Arc<ServerState>>,
    Extension(peer): Extension<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, _) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let mut caller = None;
    let asking = async {
        shared.origin_check.check_request(&parts)?;
        let admitted = shared.authenticate_request(&parts.headers, peer, &request_id).await?;
        let role = caller.insert(admitted.caller).role;
        check_target(&parts)?;
        if role != Role::Administrator {
            let message = "Only administrators may see the server's figures.";
            return Err(ErrorResponse::new(StatusCode::FORBIDDEN, FORBIDDEN, message));
        }
        let mut response = Response::new(Body::from((shared.config.metrics)()));
        response.headers_mut().insert(CONTENT_TYPE, OPENMETRICS);
        Ok(response)
    };
    let answered = catch_panic(&request_id, asking).await;
    complete_response(&shared, &request_id, caller.as_deref(), answered, started)
}

/// Any other path.
pub(crate) async fn serve_not_found() -> Response<Body> {
    let message = format!("There is nothing here; calls go to POST {PATH}.");
    ErrorResponse::invalid_request(StatusCode::NOT_FOUND, message).into_response()
}

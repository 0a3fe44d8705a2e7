//! What operators ask: does it live, is it ready, how does it do.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use reqlore_domain::identity::Role;

use crate::refusal::{FORBIDDEN, Refusal};
use crate::{PATH, Peer, Shared, correlation, edge};

/// Prometheus' text format.
const FIGURES: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Orchestrators ask by address, so no Host is looked at here and below.
pub(crate) async fn alive() -> &'static str {
    "alive\n"
}

pub(crate) async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, &'static str) {
    if shared.is_ending() {
        (StatusCode::SERVICE_UNAVAILABLE, "ending\n")
    } else if (shared.ready)() {
        (StatusCode::OK, "ready\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "the storage can't be used now\n")
    }
}

/// For administrators alone: the figures tell who does what.
pub(crate) async fn metrics(
    State(shared): State<Arc<Shared>>,
    Extension(Peer(peer)): Extension<Peer>,
    request: Request,
) -> Response<Body> {
    let (parts, _) = request.into_parts();
    let request_id = correlation::request_id(&parts.headers);
    let admitted = match shared.door.check(&parts) {
        Ok(()) => edge::login(&shared, &parts.headers, peer, &request_id).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = match admitted {
        Ok(admitted) if admitted.caller.role == Role::Administrator => {
            let mut response = Response::new(Body::from((shared.metrics)()));
            response.headers_mut().insert(CONTENT_TYPE, FIGURES);
            response
        }
        Ok(_) => {
            let message = "Only administrators may see the server's figures.";
            Refusal::new(StatusCode::FORBIDDEN, FORBIDDEN, message).into_response()
        }
        Err(refusal) => refusal.into_response(),
    };
    correlation::name(&mut response, &request_id);
    response
}

/// Any other path.
pub(crate) async fn nothing_here() -> Response<Body> {
    let message = format!("There is nothing here; calls go to POST {PATH}.");
    Refusal::invalid(StatusCode::NOT_FOUND, message).into_response()
}

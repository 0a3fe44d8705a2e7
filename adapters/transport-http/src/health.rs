//! Liveness, readiness and metrics, for operators.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use reqlore_domain::identity::{Access, Caller, UserRole};
use serde_json::json;
use tokio::time::Instant;

use crate::config::PATH;
use crate::error_response::{ErrorResponse, FORBIDDEN, json_response};
use crate::handler::{catch_panic, complete_response, request_id};
use crate::origin_check::check_target;
use crate::readiness::Readiness;
use crate::state::ServerState;

const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Probes do not check the Host header, because orchestrators call by address.
pub(crate) async fn serve_liveness() -> &'static str {
    "alive\n"
}

pub(crate) async fn serve_readiness(
    State(shared): State<Arc<ServerState>>,
    request: Request,
) -> Response<Body> {
    let request_id = request_id(request.headers());
    // Load balancers then send requests elsewhere during the drain.
    if shared.is_shutting_down() {
        return (StatusCode::SERVICE_UNAVAILABLE, "shutting down\n").into_response();
    }
    // The check is configured by the application and may panic.
    let (status, text) =
        match catch_panic(&request_id, async { Ok((shared.config.readiness)()) }).await {
            Err(error) => return error.into_response(),
            Ok(Readiness::Ready) => (StatusCode::OK, "ready\n"),
            Ok(Readiness::Unavailable) => {
                (StatusCode::SERVICE_UNAVAILABLE, "the storage is unavailable\n")
            }
            Ok(Readiness::Damaged) => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the storage is damaged, so writes are refused; see the log\n",
            ),
        };
    (status, text).into_response()
}

/// Requires an administrator's token, or one of scope `metrics`.
pub(crate) async fn serve_metrics(
    State(shared): State<Arc<ServerState>>,
    Extension(peer): Extension<SocketAddr>,
    request: Request,
) -> Response<Body> {
    let started = Instant::now();
    let (parts, _) = request.into_parts();
    let request_id = request_id(&parts.headers);
    let mut caller = None;
    let responding = async {
        // The same order as for the MCP endpoint: pages first, then the token, then the target.
        let is_permitted = shared.origin_check.check_request(&parts);
        is_permitted.inspect_err(|error| shared.log_anonymous(error, &parts, peer, &request_id))?;
        let admitted = shared.authenticate_request(&parts.headers, peer, &request_id).await?;
        let Caller { role, access, .. } = **caller.insert(admitted.caller);
        check_target(&parts)?;
        if role != UserRole::Administrator && access != Access::Metrics {
            let message = "Only administrators and tokens of scope metrics may read metrics.";
            return Err(ErrorResponse::new(StatusCode::FORBIDDEN, FORBIDDEN, message));
        }
        let mut response = Response::new(Body::from((shared.config.render_metrics)()));
        response.headers_mut().insert(CONTENT_TYPE, OPENMETRICS);
        Ok(response)
    };
    let outcome = catch_panic(&request_id, responding).await;
    complete_response(&shared, &request_id, caller.as_deref(), outcome, started)
}

/// Rejects any other path.
pub(crate) fn not_found() -> ErrorResponse {
    let message = format!("path: not found; send calls to POST {PATH}");
    ErrorResponse::invalid_request(StatusCode::NOT_FOUND, message)
}

/// Rejects the discovery of an OAuth server, in the form of RFC 6749, section 5.2.
pub(crate) fn no_oauth() -> Response<Body> {
    let description = "This server has no OAuth; send a token in the Authorization header. Clients \
                       that `reqlore init` has configured read it from REQLORE_TOKEN.";
    let error = json!({ "error": "invalid_request", "error_description": description });
    json_response(StatusCode::NOT_FOUND, error.to_string().into_bytes())
}

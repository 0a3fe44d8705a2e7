//! The audit log with filters, and the verification of its hashes.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::{Redirect, Response};
use axum::routing::get;
use reqlore_domain::audit_log::{AuditEvent, AuditRow};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::administration::{AuditFilter, AuditPage, AuditState};
use reqlore_domain::timestamp::Timestamp;

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::FormFields;
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::PageError;
use crate::session::PageSession;

const PAGE_ROWS: usize = 50;
const DAY_SECONDS: i64 = 24 * 60 * 60;

pub(super) fn routes() -> Router<Arc<WebConfig>> {
    Router::new()
        .route("/p/{project}/activity", get(show_activity).post(verify_log))
        .route("/p/{project}/admin/audit", get(redirect_to_activity))
}

#[derive(Template)]
#[template(path = "activity.html")]
struct ActivityPage<'a> {
    frame: PageFrame,
    query: &'a FormFields,
    rows: Vec<ActivityRow>,
    /// The query of the next page; empty on the last page.
    older: String,
    is_cut: bool,
    verified: Option<AuditState>,
}

struct ActivityRow {
    number: u64,
    /// `None` if a later version of Reqlore wrote the row.
    event: Option<AuditEvent>,
}

impl ActivityRow {
    fn new(row: &AuditRow) -> Self {
        Self { number: row.number, event: row.parse_event() }
    }
}

async fn show_activity(session: PageSession) -> Result<Response, PageError> {
    activity_page(&session, None).await
}

async fn verify_log(PostedForm { session, .. }: PostedForm) -> Result<Response, PageError> {
    let (admin, request) = session.administration().await?;
    let verified = admin.verify_audit(request).await?;
    activity_page(&session, Some(verified)).await
}

async fn redirect_to_activity(session: PageSession) -> Result<Redirect, PageError> {
    session.administration().await?;
    Ok(Redirect::to(&session.url("activity")))
}

async fn activity_page(
    session: &PageSession,
    verified: Option<AuditState>,
) -> Result<Response, PageError> {
    let (admin, request) = session.administration().await?;
    let query = &session.query;
    let owned = |name| query.filled(name).map(str::to_owned);
    let until = read_date(query, "to")?;
    let filter = AuditFilter {
        user: owned("user"),
        action: owned("action"),
        target: owned("item"),
        from: read_date(query, "from")?,
        // The last day is included.
        until: until.map(|day| Timestamp::new(day.seconds() + DAY_SECONDS, 0)),
        before: query.text("before").parse().ok(),
        limit: PAGE_ROWS,
    };
    let AuditPage { rows, next, is_cut } = admin.audit_page(request, filter).await?;
    let older = next.map(|number| query.with("before", &number.to_string())).unwrap_or_default();
    let frame = PageFrame::new(session, PageSection::Activity, "Activity");
    let rows = rows.iter().map(ActivityRow::new).collect();
    render(&ActivityPage { frame, query, rows, older, is_cut, verified })
}

fn read_date(query: &FormFields, name: &str) -> Result<Option<Timestamp>, Error> {
    let Some(text) = query.filled(name) else { return Ok(None) };
    let date = Timestamp::parse(text).ok_or_else(|| {
        let message = format!("{name}: not a date; write it as 2026-01-31");
        Error::new(ErrorKind::InvalidArgument, message).field(name)
    })?;
    Ok(Some(date))
}

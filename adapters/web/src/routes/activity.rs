//! The audit log with filters, and the verification of its hashes. Administrators see the rows of
//! all users, others their own.

use std::sync::Arc;

use askama::Template;
use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use reqlore_domain::audit_log::{AuditEvent, AuditRow};
use reqlore_domain::backlog::Reference;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::administration::{AuditFilter, AuditPage, AuditState};
use reqlore_domain::timestamp::Timestamp;

use crate::config::WebConfig;
use crate::csrf::PostedForm;
use crate::form_fields::{FormFields, encode_component};
use crate::page::{PageFrame, PageSection, render};
use crate::page_error::{PageError, PageResult};
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
    /// The rows to show: changes, reads or all.
    show: &'a str,
    is_own: bool,
    rows: Vec<ActivityRow>,
    /// The query of the next page; empty on the last page.
    older: String,
    is_cut: bool,
    verified: Option<AuditState>,
}

struct ActivityRow {
    number: u64,
    /// The targets: their texts and pages.
    targets: Vec<(String, Option<String>)>,
    /// `None` if a later version of Reqlore wrote the row.
    event: Option<AuditEvent>,
}

impl ActivityRow {
    fn new(session: &PageSession, row: &AuditRow) -> Self {
        let event = row.parse_event();
        let mut targets = Vec::new();
        for target in event.iter().flat_map(|event| &event.targets) {
            let project = event.as_ref().and_then(|event| event.project.as_ref());
            let (text, page) = target_page(&target.name);
            let page = page.map(|page| session.url_in(project.unwrap_or(&session.project), &page));
            let is_kept = target.before.is_some() == target.after.is_some();
            let effect = match target.after {
                _ if is_kept => "",
                Some(_) => " (new)",
                None => " (deleted)",
            };
            targets.push((format!("{text}{effect}"), page));
        }
        Self { number: row.number, targets, event }
    }
}

/// The shown name of a target, and its page below the project. A change names the path of a
/// document, a read what its caller sent.
fn target_page(name: &str) -> (&str, Option<String>) {
    if let Some(key) = name.strip_prefix("section ").or(name.strip_prefix("section=")) {
        return (name, Some(format!("sections/{}", encode_component(key))));
    }
    let path = [".reqlore/backlog/", ".ixchel/"].iter().find_map(|root| name.strip_prefix(root));
    let file = path.and_then(|path| path.rsplit('/').next()?.strip_suffix(".md"));
    let id = file.unwrap_or(name);
    // The name of an item's file begins with its reference.
    let end = id.match_indices('-').nth(1).map_or(id.len(), |(end, _)| end);
    let reference = id.get(..end).filter(|id| Reference::parse(id).is_some());
    let page = reference.or(file).map(|id| format!("item/{}", encode_component(id)));
    (reference.unwrap_or(id), page)
}

async fn show_activity(session: PageSession) -> PageResult {
    activity_page(&session, None).await
}

async fn verify_log(PostedForm { session, .. }: PostedForm) -> PageResult {
    let (admin, request) = session.administration().await?;
    let verified = admin.verify_audit(request).await?;
    activity_page(&session, Some(verified)).await
}

async fn redirect_to_activity(session: PageSession) -> Result<Redirect, PageError> {
    session.administration().await?;
    Ok(Redirect::to(&session.url("activity")))
}

async fn activity_page(session: &PageSession, verified: Option<AuditState>) -> PageResult {
    let (admin, request) = session.own_administration()?;
    let query = &session.query;
    let owned = |name| query.filled(name).map(str::to_owned);
    let until = read_date(query, "to")?;
    // An action names the rows already.
    let default = if query.filled("action").is_some() { "all" } else { "changes" };
    let show = query.filled("show").unwrap_or(default);
    let filter = AuditFilter {
        user: owned("user"),
        action: owned("action"),
        target: owned("item"),
        is_change: match show {
            "changes" => Some(true),
            "reads" => Some(false),
            _ => None,
        },
        from: read_date(query, "from")?,
        // The last day is included.
        until: until.map(|day| Timestamp::new(day.seconds() + DAY_SECONDS, 0)),
        before: query.text("before").parse().ok(),
        limit: PAGE_ROWS,
        ..AuditFilter::default()
    };
    let AuditPage { rows, next, is_cut } = admin.audit_page(request, filter).await?;
    let older = next.map(|number| query.with("before", &number.to_string())).unwrap_or_default();
    let is_own = !session.is_administrator();
    let title = if is_own { "My activity" } else { "Activity" };
    let frame = PageFrame::new(session, PageSection::Activity, title);
    let rows = rows.iter().map(|row| ActivityRow::new(session, row)).collect();
    render(&ActivityPage { frame, query, show, is_own, rows, older, is_cut, verified })
}

fn read_date(query: &FormFields, name: &str) -> Result<Option<Timestamp>, Error> {
    let Some(text) = query.filled(name) else { return Ok(None) };
    let date = Timestamp::parse(text).ok_or_else(|| {
        let message = format!("{name}: not a date; write it as 2026-01-31");
        Error::new(ErrorKind::InvalidArgument, message).field(name)
    })?;
    Ok(Some(date))
}

//! The part of `reqlore check` that examines which records have ended.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::backlog::Status;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::ended::{
    REVIEW_BY, SUPERSEDED, SUPERSEDES, Successions, is_ended, overdue_review,
};

use super::finding::{CheckFinding, line_containing};
use crate::documents::get_one;
use crate::ports::ApplicationPorts;

/// Finds records that supersede each other, and those whose status does not tell that another
/// record has ended them. Notes overdue reviews.
pub(super) async fn check_freshness(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    metas: &[Arc<DocumentMeta>],
) -> Result<Vec<CheckFinding>> {
    let mut findings = Vec::new();
    let successions = Successions::from_metadata(metas);
    for meta in metas {
        let problem = succession_problem(&successions, metas, meta);
        let review = overdue_review(meta, ports.clock.now()).map(|day| {
            let message = format!("review overdue since {day}; review it and set a later day");
            (REVIEW_BY, message)
        });
        if problem.is_none() && review.is_none() {
            continue;
        }
        let document = get_one(&*ports.documents, project, &meta.id).await?;
        let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
        for ((word, message), is_note) in
            problem.map(|one| (one, false)).into_iter().chain(review.map(|one| (one, true)))
        {
            let diagnostic = Diagnostic::new(line_containing(text, word), message);
            findings.push(CheckFinding { is_note, ..CheckFinding::new(&meta.id, diagnostic) });
        }
    }
    Ok(findings)
}

/// The problem, and a word of its line.
fn succession_problem(
    successions: &Successions,
    metas: &[Arc<DocumentMeta>],
    meta: &DocumentMeta,
) -> Option<(&'static str, String)> {
    let name = |id: &DocumentId| {
        let named = metas.iter().find(|meta| meta.id == *id).and_then(|meta| meta.reference());
        named.map_or_else(|| id.name.clone(), Cow::into_owned)
    };
    if let Some(rival) = successions.rival(&meta.id) {
        let rival = name(rival);
        let message =
            format!("it and {rival} supersede each other, so both are valid; remove one link");
        return Some((SUPERSEDES, message));
    }
    let successor = successions.successor(&meta.id)?;
    let (status, is_item) = (meta.status(), meta.item.is_some());
    let wanted = if is_item { Status::Obsolete.name() } else { SUPERSEDED };
    if status.is_some_and(is_ended) {
        return None;
    }
    let (status, successor) = (status.unwrap_or("missing"), name(successor));
    let message = format!(
        "the status is {status}, but {successor} supersedes it; set the status to {wanted}"
    );
    Some(("status", message))
}

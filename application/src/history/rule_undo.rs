//! Undo of one rule, which keeps the other changes of its section.

use reqlore_domain::document::{Document, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery};
use reqlore_domain::sections::Section;
use reqlore_domain::sections::requirement_index::RequirementIndex;
use reqlore_domain::untrusted_text::encode_id;

use super::changed_document::{ChangedDocument, Restoration, read_text};
use super::{FIRST_PAGE, HistoryTarget, find_version};
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::sections::editable_text;

/// Restores a rule in the present text of its section: to a version, or to its state before its
/// last change. `None` if the whole section is to be restored, because its newest change is that
/// of the rule.
pub(super) async fn restore_rule(
    ports: &ApplicationPorts,
    target: &HistoryTarget,
    index: &str,
    version: Option<VersionPrefix>,
) -> Result<Option<Restoration>> {
    let HistoryTarget { project, id, name, .. } = target;
    let (undone, earlier) = if version.is_some() {
        (None, Some(find_version(ports, target, version, "version").await?.document))
    } else {
        match last_change(ports, target, index).await? {
            Some((change, before)) => (Some(change), before),
            None => return Ok(None),
        }
    };
    let present = get_one(&*ports.documents, project, id).await?;
    let source = present.as_ref().map_or(Ok(""), editable_text)?;
    let section = Section::parse(source);
    let (own, _) = split_rules(earlier.as_ref(), index);
    let index = RequirementIndex::try_from(index.to_owned())
        .map_err(|reason| Error::new(ErrorKind::InvalidArgument, reason))?;
    let body = match (own, section.delete(&index)) {
        // Not wrapped again, so that the lines stay as they were.
        (Some(text), _) => Some(section.set(&index, &text, 0)?.body),
        (None, Some(deleted)) => deleted.body,
        (None, None) => return Err(refused(ErrorKind::NotFound, name, "neither text has it")),
    };
    let before = body.map(|body| Document::new(id.clone(), body.into()));
    let changed = ChangedDocument::new(id.clone(), before, present).named(name.clone());
    let documents = vec![changed];
    Ok(Some(Restoration { project: project.clone(), undone, documents, note: None }))
}

/// Finds the last change of a rule and the text of the section before it. `None` if it is the
/// newest one of the section and changed no other rule, except by renumbering.
async fn last_change(
    ports: &ApplicationPorts,
    HistoryTarget { project, id, name, .. }: &HistoryTarget,
    index: &str,
) -> Result<Option<(HistoryEntry, Option<Document>)>> {
    let mut query = HistoryQuery { after: None, limit: FIRST_PAGE };
    let mut newer: Option<(HistoryEntry, Option<String>, Vec<String>)> = None;
    let mut is_newest = true;
    loop {
        let page = ports.history.history(project, id, &query).await?;
        for entry in page.entries {
            let document = read_text(ports, project, id, &entry).await?;
            let (old, others) = split_rules(document.as_ref(), index);
            if let Some((change, new, new_others)) = newer {
                if old != new {
                    let is_renumbered = others.len() != new_others.len();
                    if is_newest && (is_renumbered || others == new_others) {
                        return Ok(None);
                    }
                    if is_renumbered {
                        let problem = "its last change renumbered other rules; restore the section";
                        return Err(refused(ErrorKind::Refused, name, problem));
                    }
                    return Ok(Some((change, document)));
                }
                is_newest = false;
            }
            newer = Some((entry, old, others));
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    if is_newest && newer.is_some_and(|(_, own, _)| own.is_some()) {
        return Ok(None);
    }
    Err(refused(ErrorKind::Refused, name, "no text before this one is known"))
}

/// The text of a rule, and those of the other rules.
fn split_rules(document: Option<&Document>, index: &str) -> (Option<String>, Vec<String>) {
    let section = Section::parse(document.and_then(|one| one.text().ok()).unwrap_or_default());
    let own = section.find(index);
    let others = section.requirements().iter().filter(|rule| Some(*rule) != own);
    (own.map(|rule| section.text(rule)), others.map(|rule| section.text(rule)).collect())
}

fn refused(kind: ErrorKind, name: &str, problem: &str) -> Error {
    let message = format!("{}: {problem}. Nothing was changed", encode_id(name));
    Error::new(kind, message).reference(name)
}

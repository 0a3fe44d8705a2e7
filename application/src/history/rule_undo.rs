//! Undo of one rule, which keeps the other changes of its section.

use reqlore_domain::document::{Document, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::history::{HistoryEntry, HistoryQuery};
use reqlore_domain::sections::Section;
use reqlore_domain::sections::requirement_index::RequirementIndex;

use super::undo::{ChangedDocument, Restoration, read_text};
use super::{FIRST_PAGE, HistoryTarget, find_version};
use crate::ApplicationPorts;
use crate::sections::editable_text;
use crate::transaction::get_one;

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
    let index = RequirementIndex::try_from(index.to_owned())
        .map_err(|reason| Error::new(ErrorKind::InvalidArgument, reason))?;
    let body =
        match (SectionRules::of(earlier.as_ref(), index.as_str()).own, section.delete(&index)) {
            // Not wrapped again, so that the lines stay as they were.
            (Some(text), _) => Some(section.set(&index, &text, 0)?.body),
            (None, Some(deleted)) => deleted.body,
            (None, None) => {
                let message = format!("{name}: neither text has this rule; nothing was changed");
                return Err(Error::new(ErrorKind::NotFound, message).reference(name));
            }
        };
    let before = body.map(|body| Document::new(id.clone(), body.into()));
    let changed = ChangedDocument::new(id.clone(), before, present).named(name.clone());
    Ok(Some(Restoration { project: project.clone(), undone, documents: vec![changed], note: None }))
}

/// Finds the last change of a rule and the text of the section before it. `None` if it is the
/// newest one of the section and changed no other rule, except by renumbering.
async fn last_change(
    ports: &ApplicationPorts,
    HistoryTarget { project, id, name, .. }: &HistoryTarget,
    index: &str,
) -> Result<Option<(HistoryEntry, Option<Document>)>> {
    let mut query = HistoryQuery { after: None, limit: FIRST_PAGE };
    let mut newer: Option<(HistoryEntry, SectionRules)> = None;
    let mut is_newest = true;
    loop {
        let page = ports.history.history(project, id, &query).await?;
        for entry in page.entries {
            let document = read_text(ports, project, id, &entry).await?;
            let old = SectionRules::of(document.as_ref(), index);
            if let Some((change, new)) = newer {
                let is_renumbered = old.indices != new.indices;
                match old.own != new.own {
                    true if is_newest && (is_renumbered || old.texts == new.texts) => {
                        return Ok(None);
                    }
                    true if !is_renumbered => return Ok(Some((change, document))),
                    true => {
                        let message = format!(
                            "{name}: its last change renumbered other rules; `reqlore history \
                             {name}` and `restore-item` restore the section"
                        );
                        return Err(Error::new(ErrorKind::Refused, message).reference(name));
                    }
                    false => is_newest = false,
                }
            }
            newer = Some((entry, old));
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    if is_newest && newer.is_some_and(|(_, oldest)| oldest.own.is_some()) {
        return Ok(None);
    }
    let message = format!("{name}: no text before this one is known; nothing was changed");
    Err(Error::new(ErrorKind::Refused, message).reference(name))
}

/// A rule of a section, and the indices and texts of the others.
struct SectionRules {
    own: Option<String>,
    indices: Vec<String>,
    texts: Vec<String>,
}

impl SectionRules {
    fn of(document: Option<&Document>, index: &str) -> Self {
        let text = document.and_then(|document| document.text().ok()).unwrap_or_default();
        let section = Section::parse(text);
        let own = section.find(index);
        let others = section.requirements().iter().filter(|rule| Some(*rule) != own);
        let (indices, texts) =
            others.map(|rule| (rule.index.to_owned(), section.text(rule))).unzip();
        Self { own: own.map(|rule| section.text(rule)), indices, texts }
    }
}

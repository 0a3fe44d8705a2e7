//! The argument `supersedes`: a record ends those that it replaces, in its own commit.

use std::mem;
use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Status};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::edit::RecordEdit;
use reqlore_domain::records::ended::{SUPERSEDED, SUPERSEDES, can_supersede, is_ended};
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::{Map, Value, json};

use crate::addresses::links::LinkReader;
use crate::writes::change::PlanContext;
use crate::writes::commit_state::{CommitState, Successor};
use crate::writes::record_links::{LinkChange, PlanTarget};
use crate::writes::stored_record::StoredRecord;

/// Removes the argument and returns its IDs. No schema has it, because few calls need it.
pub(crate) fn take_superseded(arguments: &mut Map<String, Value>) -> Result<Option<Vec<String>>> {
    let ids: Option<Vec<String>> = match arguments.remove(SUPERSEDES) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => {
            Some(text.split(',').map(str::trim).map(str::to_owned).collect())
        }
        Some(value) => serde_json::from_value(value).ok(),
    };
    let message = "supersedes: send a list of IDs such as [\"dec-1d2c8f\"]";
    let error = || Error::new(ErrorKind::InvalidArgument, message).field(SUPERSEDES);
    ids.map(Some).ok_or_else(error)
}

/// Moves the argument of an entity into its links.
pub(crate) fn add_superseded_link(arguments: &mut Map<String, Value>) -> Result<()> {
    let Some(ids) = take_superseded(arguments)? else { return Ok(()) };
    let links = arguments.entry("links").or_insert(Value::Null);
    if links.is_null() {
        *links = json!({});
    }
    if links.get(SUPERSEDES).is_some_and(|given| *given != json!(ids)) {
        let message = "supersedes: links already sets it; remove supersedes";
        return Err(Error::new(ErrorKind::InvalidArgument, message).field(SUPERSEDES));
    }
    if let Value::Object(links) = links {
        links.insert(SUPERSEDES.to_owned(), json!(ids));
    }
    Ok(())
}

/// The stored records that a change of a record supersedes: those that it names, or those that an
/// accepted proposal names. Records that supersede each other end nothing.
pub(crate) async fn superseded_records(
    context: PlanContext<'_>,
    stored: Option<&Arc<DocumentMeta>>,
    links: &LinkChange<PlanTarget>,
) -> Result<Vec<Arc<DocumentMeta>>> {
    let mut superseded = Vec::new();
    for target in links.superseded() {
        if let PlanTarget::Stored(.., Some(meta)) = target {
            superseded.push(Arc::clone(meta));
        }
    }
    let Some(stored) = stored else { return Ok(superseded) };
    let reader = LinkReader { ports: &context.tools.ports, project: context.project };
    if superseded.is_empty() && !can_supersede(stored) {
        for link in reader.outgoing(stored, None).await? {
            if let (SUPERSEDES, Some(target)) = (&*link.relation, link.target) {
                superseded.push(target.meta);
            }
        }
    }
    if !superseded.is_empty() {
        let (successions, _) = reader.successions([stored]).await?;
        superseded.retain(|old| !successions.leads(&stored.id, &old.id));
    }
    Ok(superseded)
}

/// Notes on records that a change no longer supersedes, because their status stays.
pub(crate) async fn released_notes(
    context: PlanContext<'_>,
    stored: Option<&Arc<DocumentMeta>>,
    links: &LinkChange<PlanTarget>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let Some(stored) = stored.filter(|_| links.may_release()) else { return Ok(notes) };
    let reader = LinkReader { ports: &context.tools.ports, project: context.project };
    for link in reader.outgoing(stored, None).await? {
        let (SUPERSEDES, Some(target)) = (&*link.relation, link.target) else { continue };
        if let Some(status) = target.meta.status().filter(|status| is_ended(status))
            && links.releases(&target.meta.id)
        {
            let name =
                target.meta.reference().unwrap_or_else(|| target.meta.id.name.as_str().into());
            notes.push(format!(
                "the status of {} stays {}; set it if that record is valid again",
                encode_id(&name),
                encode_line(status)
            ));
        }
    }
    Ok(notes)
}

impl CommitState<'_> {
    /// Sets the status of superseded records. After all decisions, because a later change may edit
    /// or delete them.
    pub(super) fn end_superseded(&mut self) -> Result<()> {
        for (entry, successor) in mem::take(&mut self.successors) {
            let Some(new) = self.document(&successor.id) else { continue };
            if !can_supersede(&DocumentMeta::from_document(new, successor.at)) {
                continue;
            }
            self.entry = entry;
            for old in &successor.superseded {
                self.end_record(old, &successor)?;
            }
        }
        Ok(())
    }

    fn end_record(&mut self, old: &DocumentMeta, successor: &Successor) -> Result<()> {
        let Some(document) = self.document(&old.id).cloned() else { return Ok(()) };
        let record = StoredRecord::parse(old, &document)?;
        let name = record.name(&document);
        let (current, status) = match &record {
            StoredRecord::Item(item) if item.kind == ItemKind::Requirement => {
                (item.status.as_ref().map(Status::name), Status::Obsolete.name())
            }
            StoredRecord::Item(_) => return Ok(()),
            StoredRecord::Entity(entity) => {
                match successor.schema.find_entity_status(&entity.kind, SUPERSEDED) {
                    Ok(known) => (entity.status.as_deref(), known.unwrap_or(SUPERSEDED)),
                    // The link alone ends it.
                    Err(problem) => {
                        self.add_notes([format!("the status of {name} stays: {problem}")]);
                        return Ok(());
                    }
                }
            }
        };
        if current.is_some_and(is_ended) {
            return Ok(());
        }
        let edit = RecordEdit { status: Some(status.to_owned()), ..RecordEdit::default() };
        let Some(edited) = record.edit(&document, &edit, successor.at)? else { return Ok(()) };
        if !self.is_changed(&old.id) {
            // The caller asked for this status, so a note that it replaces one adds nothing.
            self.guard.check(&document, Some(&edited), document.version)?;
        }
        self.put(edited);
        self.add_notes([format!("{name} is now {status}")]);
        Ok(())
    }
}

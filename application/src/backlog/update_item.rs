//! Updates an item in one commit, decided on its newest text.

use std::sync::Arc;

use reqlore_domain::backlog::{Edit, Reference};
use reqlore_domain::document::{Document, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::time::Timestamp;

use super::find::{self, Backlog};
use super::item_view;
use crate::Context;
use crate::edit::{act, edit};
use crate::tool::reply;

pub(crate) struct UpdateItem {
    pub(crate) item: Reference,
    /// The new parent.
    pub(crate) parent: Option<Reference>,
    pub(crate) edit: Edit,
    pub(crate) if_version: Option<Version>,
}

impl UpdateItem {
    pub(crate) async fn run(
        self,
        context: &Context,
        call: &Call,
        spec: &ToolSpec,
    ) -> Result<Reply> {
        if self.edit == Edit::default() && self.parent.is_none() {
            return Err(nothing_asked(spec));
        }
        let backlog = Backlog::of(&context.ports, &call.caller);
        let act = act(context, call, spec, format!("a change of {}", self.item));
        let head = backlog.find(self.item, self.item.kind.name()).await?;
        let mut ids = vec![head.id.clone()];
        let Self { item: reference, parent, edit: mut wanted, if_version } = self;
        if let Some(parent) = parent {
            let found = backlog.find(parent, parent.kind.name()).await?;
            wanted.parent = Some(find::linked(parent, &found.id.name));
            ids.push(found.id.clone());
        }
        let at = act.at.whole();
        let decide = move |snapshot: &Snapshot| {
            let mut documents = snapshot.documents.iter();
            let document = find::still_there(documents.next(), reference)?;
            check_version(if_version, document, reference)?;
            if let Some(parent) = parent {
                find::still_there(documents.next(), parent)?;
            }
            changed(&head, document, &wanted, at)
        };
        let (document, committed) =
            edit(backlog.ports, backlog.project, ReadSet::of(ids), act, decide).await?;
        let is_unchanged = committed.versions.is_empty();
        let done = if is_unchanged { "Nothing to change in" } else { "Updated" };
        let record = item_view::written(backlog, &document, reference.kind, at)?;
        reply(item_view::sentence(done, reference.kind, &record), &record)
    }
}

/// The item's document as it shall be, and the change that makes it so.
pub(crate) fn changed(
    head: &Arc<DocumentMeta>,
    document: &Document,
    wanted: &Edit,
    at: Timestamp,
) -> Result<(Vec<Change>, Document)> {
    let text = find::text(document)?;
    let item = find::read(head, document, text);
    let edited = reqlore_domain::backlog::edit(&item, text, wanted, at).map_err(|fault| {
        let message = format!("{}: {fault}. Nothing was changed.", document.id);
        Error::new(ErrorKind::Refused, message).reference(item.called(&document.id.name))
    })?;
    let Some(edited) = edited else { return Ok((Vec::new(), document.clone())) };
    let document = Document::new(document.id.clone(), edited.into());
    let change = Change::Put { document: document.clone() };
    Ok((vec![change], document))
}

/// The version that the caller expects must be the one there is (rulings 1).
pub(crate) fn check_version(
    expected: Option<Version>,
    document: &Document,
    reference: Reference,
) -> Result<()> {
    let Some(expected) = expected.filter(|expected| *expected != document.version) else {
        return Ok(());
    };
    let message = format!(
        "Conflict: {reference} changed since version {expected}; it is now at {}. Nothing was \
         changed. It reads:\n{}",
        document.version,
        find::text(document)?
    );
    let error = Error::new(ErrorKind::Conflict, message).field("if_version");
    Err(error.reference(reference.to_string()))
}

fn nothing_asked(spec: &ToolSpec) -> Error {
    let properties = spec.input_schema.get("properties").and_then(|found| found.as_object());
    let required = spec.input_schema.get("required").and_then(|found| found.as_array());
    let is_required =
        |name: &str| required.into_iter().flatten().any(|found| found.as_str() == Some(name));
    let names = properties.into_iter().flatten().map(|(name, _)| name.as_str());
    let names: Vec<&str> =
        names.filter(|name| !is_required(name) && *name != "if_version").collect();
    let message = format!("Nothing to change was given. Give one of {}.", names.join(", "));
    Error::new(ErrorKind::InvalidArgument, message)
        .field(names.first().copied().unwrap_or_default())
}

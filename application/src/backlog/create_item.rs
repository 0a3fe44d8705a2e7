//! Creates an item: one commit allots the reference, checks the parent and writes the file.

use std::sync::Arc;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{Edit, ItemKind, New, Reference};
use reqlore_domain::document::{Document, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::time::Timestamp;

use super::find::{self, Backlog};
use super::item_view;
use crate::Context;
use crate::edit::{act, edit};
use crate::tool::reply;

/// Characters of the uid at the end of a file's name.
const SUFFIX_CHARS: usize = 6;

/// Creates an item of this kind; tools give only the fields that the kind has.
pub(crate) async fn create_item(
    context: &Context,
    call: &Call,
    spec: &ToolSpec,
    kind: ItemKind,
    parent: Option<Reference>,
    fields: Edit,
) -> Result<Reply> {
    let backlog = Backlog::of(&context.ports, &call.caller);
    let act = act(context, call, spec, format!("a new {}", kind.name()));
    let parent = match parent {
        Some(parent) => Some((parent, backlog.find(parent, parent.kind.name()).await?)),
        None => None,
    };
    // The uid orders two items of the same second.
    let uid = backlog.ports.ids.uid(act.at);
    let at = act.at.whole();
    let documents = parent.iter().map(|(_, head)| head.id.clone()).collect();
    let reads = ReadSet { numbers: vec![kind], ..ReadSet::of(documents) };
    let creator = call.caller.name.to_string();
    let draft = Draft { kind, parent, fields, uid, creator, at };
    let decide = move |snapshot: &Snapshot| draft.decide(snapshot);
    let (document, _) = edit(backlog.ports, backlog.project, reads, act, decide).await?;
    let record = item_view::written(backlog, &document, kind, at)?;
    reply(item_view::sentence("Created", kind, &record), &record)
}

/// The new item without its reference, which the commit allots.
struct Draft {
    kind: ItemKind,
    parent: Option<(Reference, Arc<DocumentMeta>)>,
    fields: Edit,
    uid: String,
    creator: String,
    at: Timestamp,
}

impl Draft {
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<Change>, Document)> {
        let Self { kind, parent, fields, uid, creator, at } = self;
        if let Some((parent, _)) = parent {
            find::still_there(snapshot.documents.first(), *parent)?;
        }
        let number = snapshot.numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "There are no references left: {} is the highest. Nothing was written.",
                Reference { kind: *kind, number: MAX_NUMBER }
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let parent = parent.as_ref().map(|(parent, head)| find::linked(*parent, &head.id.name));
        let new = New {
            kind: *kind,
            uid,
            title: fields.title.as_deref(),
            description: fields.description.as_deref().unwrap_or_default(),
            status: fields.status.or_else(|| kind.statuses().first().copied()),
            priority: fields.priority,
            requirement_type: fields.requirement_type,
            parent: parent.as_ref(),
            assignee: fields.assignee.as_ref().and_then(Option::as_deref),
            tags: fields.tags.as_deref().unwrap_or_default(),
            creator,
            at: *at,
        };
        let text = new.text().map_err(|fault| Error::new(ErrorKind::Refused, fault))?;
        let suffix = uid.get(uid.len().saturating_sub(SUFFIX_CHARS)..).unwrap_or(uid);
        let document =
            Document::new(Reference { kind: *kind, number }.document(suffix), text.into());
        Ok((vec![Change::Put { document: document.clone() }], document))
    }
}

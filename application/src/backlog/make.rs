//! Making an item: the reference is allotted, the parent looked at and the file written in one
//! commit.

use std::sync::Arc;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, New, Priority, Reference, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Change, ReadSet, Snapshot};
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};

use super::find::{self, Backlog};
use super::record;
use crate::Context;
use crate::edit::{act, edit};
use crate::tool::reply;

/// So many characters of the uid end a file's name.
const MARK: usize = 6;

/// A new item, as its tool was asked for it.
pub(crate) struct Make {
    pub(crate) kind: ItemKind,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) status: Option<Status>,
    pub(crate) priority: Option<Priority>,
    pub(crate) requirement_type: Option<RequirementType>,
    pub(crate) parent: Option<Reference>,
    pub(crate) assignee: Option<String>,
    pub(crate) tags: Vec<String>,
}

impl Make {
    pub(crate) async fn run(
        self,
        context: &Context,
        call: &Call,
        spec: &ToolSpec,
    ) -> Result<Reply> {
        let backlog = Backlog::of(&context.ports, &call.caller);
        let act = act(context, call, spec, format!("a new {}", self.kind.name()));
        let parent = match self.parent {
            Some(parent) => {
                let field = parent.kind.name();
                Some(backlog.head(parent).await.map_err(|error| error.field(field))?)
            }
            None => None,
        };
        // Of two items of one second the identity tells which is younger.
        let uid = backlog.ports.ids.uid(act.at);
        let at = act.at.whole();
        let draft = Draft { uid, creator: call.caller.name.to_string(), at, parent };
        let documents = draft.parent.iter().map(|head| head.id.clone()).collect();
        let reads = ReadSet { numbers: vec![self.kind], ..ReadSet::of(documents) };
        let kind = self.kind;
        let decide = move |snapshot: &Snapshot| self.decide(&draft, snapshot);
        let (document, _) = edit(backlog.ports, backlog.project, reads, act, decide).await?;
        let record = record::written(backlog, &document, kind, at)?;
        reply(record::sentence("Created", kind, &record), &record)
    }

    fn decide(&self, draft: &Draft, snapshot: &Snapshot) -> Result<(Vec<Change>, Document)> {
        let Draft { uid, creator, at, parent } = draft;
        if let Some(parent) = self.parent {
            find::still_there(snapshot.documents.first(), parent)?;
        }
        let number = snapshot.numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "There are no references left: {} is the highest. Nothing was written.",
                Reference { kind: self.kind, number: MAX_NUMBER }
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let parent = parent.as_ref().zip(self.parent);
        let parent = parent.map(|(head, reference)| find::linked(reference, &head.id.name));
        let new = New {
            kind: self.kind,
            uid,
            title: self.title.as_deref(),
            description: &self.description,
            status: self.status.or_else(|| self.kind.statuses().first().copied()),
            priority: self.priority,
            requirement_type: self.requirement_type,
            parent: parent.as_ref(),
            assignee: self.assignee.as_deref(),
            tags: &self.tags,
            creator,
            at: *at,
        };
        let text = new.text().map_err(|fault| Error::new(ErrorKind::Refused, fault))?;
        let id = Reference { kind: self.kind, number }.document(mark(uid));
        let document = Document::new(id, text.into());
        Ok((vec![Change::Put { document: document.clone() }], document))
    }
}

/// What the decision must not ask for.
struct Draft {
    uid: String,
    creator: String,
    at: reqlore_domain::time::Timestamp,
    parent: Option<Arc<DocumentMeta>>,
}

fn mark(uid: &str) -> &str {
    uid.get(uid.len().saturating_sub(MARK)..).unwrap_or(uid)
}

//! What a person should mend in the backlog; `reqlore check` prints it.
//!
//! The trap: a file made by hand needs only a title (rulings 3), so an item without a parent is
//! none of the findings; one whose parent is not there is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::reference::mark_of;
use reqlore_domain::backlog::{Item, Linked, Reference, check_keys};
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, DocumentMeta, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::ports::documents::{Filter, Refresh, Revision};
use reqlore_domain::project::ProjectKey;

use super::find::{self, item};
use crate::Ports;
use crate::check::Finding;

/// Everything there is to mend in a project's backlog: kind by kind, by document and line.
pub(crate) async fn check(ports: &Ports, project: &ProjectKey) -> Result<Vec<Finding>> {
    let names = Names::read(ports, project).await?;
    let mut findings = Vec::new();
    for head in &names.heads {
        // One that can't be read has its fault.
        let read = ports.documents.get(project, std::slice::from_ref(&head.id)).await;
        let document = read.unwrap_or_default().into_iter().flatten().next();
        let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
        names.check(head, text, &mut findings);
    }
    for tomb in &names.tombs {
        names.check(tomb, "", &mut findings);
    }
    Ok(findings)
}

/// What references name in a project.
#[derive(Default)]
pub(crate) struct Names {
    /// By kind and name.
    heads: Vec<Arc<DocumentMeta>>,
    tombs: Vec<Arc<DocumentMeta>>,
    items: BTreeMap<Reference, Vec<Arc<DocumentMeta>>>,
    deleted: BTreeMap<Reference, Vec<Arc<DocumentMeta>>>,
    uids: BTreeMap<String, Vec<DocumentId>>,
}

/// A tombstone whose reference a live item has.
pub(crate) enum Tomb<'a> {
    /// Somebody deleted the very item.
    Own(&'a DocumentMeta),
    /// Two branches gave one reference, and one of them deleted its item.
    OfAnother(&'a DocumentMeta),
}

struct Broken {
    key: &'static str,
    target: Reference,
    message: String,
}

/// A link that shall lead to another document.
pub(crate) struct Move {
    pub(crate) from: Linked,
    pub(crate) to: Linked,
    /// The document that it means.
    pub(crate) id: DocumentId,
}

impl Names {
    /// Looks at every file, whatever the storage believes.
    pub(crate) async fn read(ports: &Ports, project: &ProjectKey) -> Result<Self> {
        let mut names = Self::default();
        for kind in Kind::ITEMS {
            for head in heads(ports, project, kind).await? {
                if let Some(reference) = item(&head).and_then(|item| item.reference) {
                    names.items.entry(reference).or_default().push(Arc::clone(&head));
                }
                if let Some(uid) = item(&head).and_then(|item| item.uid.clone()) {
                    names.uids.entry(uid).or_default().push(head.id.clone());
                }
                names.heads.push(head);
            }
        }
        names.tombs = heads(ports, project, Kind::Deleted).await?;
        for head in &names.tombs {
            if let Some(reference) = item(head).and_then(|item| item.reference) {
                names.deleted.entry(reference).or_default().push(Arc::clone(head));
            }
        }
        Ok(names)
    }

    /// Why a link leads nowhere; `None` if it does not.
    pub(crate) fn why_broken(&self, target: Reference) -> Option<String> {
        match self.deleted.get(&target) {
            _ if self.items.contains_key(&target) => None,
            Some(_) => Some(format!("{target}, which was deleted; mend or remove it")),
            None => Some(format!("{target}, which is not there; mend or remove it")),
        }
    }

    /// What there is to mend in one document, by line.
    fn check(&self, head: &DocumentMeta, text: &str, findings: &mut Vec<Finding>) {
        let mut found: Vec<Diagnostic> = head.fault.iter().cloned().collect();
        found.extend(
            self.claimed_twice(head).into_iter().map(|message| Diagnostic::new(None, message)),
        );
        found.extend(item(head).map(|item| check_keys(item.kind, text)).unwrap_or_default());
        for link in self.broken_links(head) {
            found.push(Diagnostic::new(line_of(text, link.key, link.target), link.message));
        }
        found.sort_by_key(|found| found.line);
        findings.extend(found.into_iter().map(|found| Finding::new(&head.id, found)));
    }

    /// The items of each reference.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (Reference, &[Arc<DocumentMeta>])> {
        self.items.iter().map(|(reference, heads)| (*reference, heads.as_slice()))
    }

    /// Whose tombstone has an item's reference; its own, where there are several.
    pub(crate) fn tomb(&self, head: &DocumentMeta) -> Option<Tomb<'_>> {
        let tombs = self.deleted.get(&item(head)?.reference?)?;
        let own = tombs.iter().find(|tomb| is_of(tomb, head)).map(|tomb| Tomb::Own(tomb));
        own.or_else(|| tombs.first().map(|tomb| Tomb::OfAnother(tomb)))
    }

    /// Is there nothing, and was there never anything?
    pub(crate) fn is_empty(&self) -> bool {
        self.heads.is_empty() && self.tombs.is_empty()
    }

    fn broken_links(&self, head: &DocumentMeta) -> Vec<Broken> {
        let Some(item) = item(head).filter(|item| item.deleted.is_none()) else {
            return Vec::new();
        };
        let broken = |(key, target): (&'static str, Reference)| {
            let why = if Some(target) == item.reference {
                Some(format!("{target}, which is itself; remove it"))
            } else {
                let astray = self.astray(head, item, target);
                astray.map(|astray| astray.message(target)).or_else(|| self.why_broken(target))
            };
            why.map(|why| Broken { key, target, message: format!("{key} leads to {why}") })
        };
        links(item).filter_map(broken).collect()
    }

    /// The links that can be pointed to the item that they mean, by the document that keeps them.
    pub(crate) fn moves(&self) -> impl Iterator<Item = (&Arc<DocumentMeta>, Vec<Move>)> {
        let of = |head: &Arc<DocumentMeta>| -> Vec<Move> {
            let Some(item) = item(head) else { return Vec::new() };
            let targets: BTreeSet<Reference> = links(item).map(|(_, target)| target).collect();
            let targets = targets.into_iter().filter(|target| Some(*target) != item.reference);
            let moved = |target| {
                let astray = self.astray(head, item, target)?;
                let meant = astray.meant()?;
                let to = find::linked(reference_of(meant)?, &meant.id.name);
                let from = Linked { reference: target, mark: Some(astray.mark.to_owned()) };
                Some(Move { from, to, id: meant.id.clone() })
            };
            targets.filter_map(moved).collect()
        };
        self.heads.iter().map(move |head| (head, of(head))).filter(|(_, all)| !all.is_empty())
    }

    /// A link with a mark that no item of its reference has.
    fn astray<'a>(
        &'a self,
        head: &DocumentMeta,
        item: &'a Item,
        target: Reference,
    ) -> Option<Astray<'a>> {
        let mark = item.linked.iter().find(|(known, _)| *known == target)?.1.as_str();
        let has_mark = |head: &&Arc<DocumentMeta>| mark_of(&head.id.name) == Some(mark);
        let claims = self.items.get(&target).map(Vec::as_slice).unwrap_or_default();
        if claims.iter().any(|head| has_mark(&head)) {
            return None;
        }
        let tombs = self.deleted.get(&target);
        let meaning = if tombs.into_iter().flatten().any(|head| has_mark(&head)) {
            Meaning::Deleted
        } else {
            let all = self.items.iter().filter(|(known, _)| known.kind == target.kind);
            let marked = all.flat_map(|(_, heads)| heads).filter(has_mark);
            Meaning::Live(marked.filter(|found| found.id != head.id).collect())
        };
        let is_told = matches!(&meaning, Meaning::Live(marked) if !marked.is_empty());
        // Where nothing has the reference, that is what there is to say.
        (is_told || !claims.is_empty()).then_some(Astray { mark, claims, meaning })
    }

    /// Who else has the reference or the uid of a document.
    fn claimed_twice(&self, head: &DocumentMeta) -> Vec<String> {
        let Some(item) = item(head).filter(|_| head.id.kind != Kind::Deleted) else {
            return Vec::new();
        };
        let others = |all: Vec<&DocumentId>| -> Option<String> {
            let others = all.into_iter().filter(|id| **id != head.id);
            let others: Vec<String> = others.map(ToString::to_string).collect();
            (!others.is_empty()).then(|| others.join(", "))
        };
        let Item { reference, uid, .. } = item;
        let called = reference.map(|reference| reference.to_string()).unwrap_or_default();
        let twins = reference.and_then(|reference| self.items.get(&reference));
        let twin = others(twins.into_iter().flatten().map(|head| &head.id).collect());
        let copies = uid.as_ref().and_then(|uid| self.uids.get(uid));
        let copy = others(copies.into_iter().flatten().collect());
        let messages = [
            twin.map(|twin| {
                format!(
                    "{twin} has the reference {called} as well; `reqlore check --fix` gives the \
                     younger a new one"
                )
            }),
            self.tomb(head).map(|tomb| match tomb {
                Tomb::Own(tomb) => {
                    format!("{called} was deleted, says {}; remove one of the files", tomb.id)
                }
                Tomb::OfAnother(tomb) => format!(
                    "{} has the reference {called} as well, of another item, which was deleted; \
                     `reqlore check --fix` gives this one a new one",
                    tomb.id
                ),
            }),
            copy.map(|copy| format!("{copy} has the same uid; remove the line from the copy")),
        ];
        messages.into_iter().flatten().collect()
    }
}

/// A link with a mark that no item of its reference has: another branch renumbered the one that it
/// means, or a person renamed or removed that file.
struct Astray<'a> {
    mark: &'a str,
    /// Who has the reference.
    claims: &'a [Arc<DocumentMeta>],
    meaning: Meaning<'a>,
}

enum Meaning<'a> {
    Deleted,
    /// Those that have the mark, of whatever reference.
    Live(Vec<&'a Arc<DocumentMeta>>),
}

impl Astray<'_> {
    /// The one document that it can mean.
    fn meant(&self) -> Option<&DocumentMeta> {
        match &self.meaning {
            Meaning::Live(marked) => match (marked.as_slice(), self.claims) {
                ([one], _) => Some(one),
                ([], [one]) => Some(one),
                _ => None,
            },
            Meaning::Deleted => None,
        }
    }

    fn message(&self, target: Reference) -> String {
        let mark = self.mark;
        if matches!(self.meaning, Meaning::Deleted) {
            return format!(
                "{target}, and the item that it means (`linked` says {mark}) was deleted; mend or \
                 remove it"
            );
        }
        match self.meant() {
            Some(meant) if mark_of(&meant.id.name) == Some(mark) => format!(
                "{target}, and the item that it means (`linked` says {mark}) is {} now; `reqlore \
                 check --fix` points it there",
                reference_of(meant).unwrap_or(target)
            ),
            Some(meant) => format!(
                "{target}, and `linked` says {mark}, which no file of such items ends with; \
                 `reqlore check --fix` makes it mean {}",
                meant.id
            ),
            None => format!(
                "{target}, and `linked` says {mark}, which is the end of no file of {target}; say \
                 there how the file ends that it means"
            ),
        }
    }
}

fn reference_of(head: &DocumentMeta) -> Option<Reference> {
    item(head)?.reference
}

/// The links of an item, each with its key.
fn links(item: &Item) -> impl Iterator<Item = (&'static str, Reference)> {
    let parent = item.parent.map(|parent| (parent.kind.name(), parent));
    let related = item.relationships.iter().map(|link| (link.kind.name(), link.target));
    parent.into_iter().chain(related)
}

/// Is it this very item's? Uids tell it where both say one, else the ends of the names.
fn is_of(tomb: &DocumentMeta, head: &DocumentMeta) -> bool {
    let uid = |head| item(head).and_then(|item: &Item| item.uid.as_deref());
    match (uid(tomb), uid(head)) {
        (Some(one), Some(other)) => one == other,
        _ => mark_of(&tomb.id.name) == mark_of(&head.id.name),
    }
}

async fn heads(ports: &Ports, project: &ProjectKey, kind: Kind) -> Result<Vec<Arc<DocumentMeta>>> {
    let documents = &ports.documents;
    documents.changes(project, kind, Revision::default(), Refresh::Full).await?;
    Ok(documents.find(project, &Filter::all(kind)).await?.heads)
}

/// The line of the front matter where a key names a reference, however it is spelled; counted from
/// 1.
fn line_of(text: &str, key: &str, target: Reference) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    let is_key = |line: &str| line.trim_start().trim_start_matches('"').starts_with(key);
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_');
    let names =
        |line: &str| line.split(|c| !is_part(c)).any(|word| Reference::parse(word) == Some(target));
    let mut lines = yaml.lines().enumerate().skip_while(|(_, line)| !is_key(line));
    lines.find(|(_, line)| names(line)).map(|(at, _)| at + 2)
}

//! From references to what is stored.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::backlog::reference;
use reqlore_domain::backlog::{Item, ItemKind, Linked, Reference, order};
use reqlore_domain::document::{Document, Head, Kind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Filter, Links};
use reqlore_domain::project::ProjectKey;

use super::given::not_found;
use crate::Ports;

/// The backlog is the connection's project (rulings 1).
pub(crate) fn project() -> ProjectKey {
    ProjectKey::default()
}

/// The head of the one item of a reference.
pub(crate) async fn head(ports: &Ports, reference: Reference) -> Result<Arc<Head>> {
    let found = heads(ports, &[reference]).await?;
    found.into_iter().next().unwrap_or_else(|| Err(not_found(reference.kind, "")))
}

/// The heads of these items, all of one kind, each of them or why there is none.
pub(crate) async fn heads(
    ports: &Ports,
    references: &[Reference],
) -> Result<Vec<Result<Arc<Head>>>> {
    let Some(Reference { kind, .. }) = references.first() else { return Ok(Vec::new()) };
    let words: Vec<String> = references.iter().map(ToString::to_string).collect();
    let named = ports.documents.named(&project(), Kind::Item(*kind), &words).await?;
    let mut heads = Vec::with_capacity(words.len());
    for (reference, mut found) in references.iter().zip(named) {
        heads.push(match (found.pop(), found.is_empty()) {
            (Some(head), true) => Ok(head),
            (Some(head), false) => {
                found.push(head);
                Err(ambiguous(*reference, &found))
            }
            (None, _) => Err(missing(ports, *reference).await?),
        });
    }
    Ok(heads)
}

fn ambiguous(reference: Reference, found: &[Arc<Head>]) -> Error {
    let files: Vec<String> = found.iter().map(|head| head.id.to_string()).collect();
    let message = format!(
        "{} items have the reference {reference}: {}. `reqlore check --fix` gives the younger a \
         new one.",
        files.len(),
        files.join(", ")
    );
    Error::new(ErrorKind::Refused, message).reference(reference.to_string())
}

/// It was never there, or somebody deleted it.
async fn missing(ports: &Ports, reference: Reference) -> Result<Error> {
    let printed = reference.to_string();
    let words = std::slice::from_ref(&printed);
    let tombs = ports.documents.named(&project(), Kind::Deleted, words).await?;
    let mut error = not_found(reference.kind, &printed);
    let item = tombs.first().and_then(|heads| heads.first()).and_then(|head| head.item.as_ref());
    if let Some(deleted) = item.and_then(|item| item.deleted.as_ref()) {
        let by = deleted.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let when = format!("deleted on {}{by}", deleted.at.rfc3339());
        error.message = format!("{} (it was {when})", error.message);
        error.hint = Some(format!("it was {when}; its text is kept among the deleted items"));
    }
    Ok(error)
}

/// The one document that each of these names, a question for each kind among them.
pub(crate) async fn named(
    ports: &Ports,
    project: &ProjectKey,
    words: impl Iterator<Item = String>,
) -> Result<HashMap<String, Arc<Head>>> {
    let mut of_kind: HashMap<Kind, Vec<String>> = HashMap::new();
    for word in words {
        let kind = Reference::parse(&word).map_or(Kind::Entity, |found| Kind::Item(found.kind));
        of_kind.entry(kind).or_default().push(word);
    }
    let mut known = HashMap::new();
    for (kind, words) in of_kind {
        let found = ports.documents.named(project, kind, &words).await?;
        for (word, heads) in words.into_iter().zip(found) {
            if let [head] = &heads[..] {
                known.insert(word, Arc::clone(head));
            }
        }
    }
    Ok(known)
}

/// The document of a head.
pub(crate) async fn document(ports: &Ports, head: &Head) -> Result<Document> {
    let documents = documents(ports, std::slice::from_ref(head)).await?;
    let gone = || {
        let message = format!("{} was removed just now; ask again.", head.id);
        Error::new(ErrorKind::NotFound, message)
    };
    documents.into_iter().flatten().next().ok_or_else(gone)
}

/// The documents of heads, `None` for one that went meanwhile.
pub(crate) async fn documents<H: std::borrow::Borrow<Head>>(
    ports: &Ports,
    heads: &[H],
) -> Result<Vec<Option<Document>>> {
    let ids: Vec<_> = heads.iter().map(|head| head.borrow().id.clone()).collect();
    Ok(ports.documents.get(&project(), &ids).await?)
}

/// A document's text, or an error that names it.
pub(crate) fn text(document: &Document) -> Result<&str> {
    document
        .text()
        .map_err(|fault| Error::new(ErrorKind::Unreadable, format!("{}: {fault}", document.id)))
}

/// The children of an item that are of this kind, in the one order.
pub(crate) async fn children(
    ports: &Ports,
    parent: Reference,
    kind: ItemKind,
) -> Result<Vec<Arc<Head>>> {
    let all = children_of(ports, &[parent], kind).await?;
    Ok(all.into_iter().next().unwrap_or_default())
}

/// The children of each of these, in the one order.
pub(crate) async fn children_of(
    ports: &Ports,
    parents: &[Reference],
    kind: ItemKind,
) -> Result<Vec<Vec<Arc<Head>>>> {
    let targets = parents.iter().map(ToString::to_string).collect();
    let links = Links { kinds: vec![Kind::Item(kind)], targets };
    let mut linking = ports.documents.linking(&project(), &links).await?;
    for (heads, parent) in linking.iter_mut().zip(parents) {
        // It may only speak of it.
        heads.retain(|head| item(head).is_some_and(|item| item.parent == Some(*parent)));
        sort(heads);
    }
    Ok(linking)
}

/// All items of a kind, in the one order.
pub(crate) async fn all(ports: &Ports, kind: ItemKind) -> Result<Vec<Arc<Head>>> {
    let page = ports.documents.find(&project(), &Filter::all(Kind::Item(kind))).await?;
    let mut heads = page.heads;
    heads.retain(|head| item(head).is_some_and(|item| item.reference.is_some()));
    sort(&mut heads);
    Ok(heads)
}

/// Into the one order.
pub(crate) fn sort(heads: &mut [Arc<Head>]) {
    heads.sort_by(|a, b| match (item(a), item(b)) {
        (Some(one), Some(other)) => order(one, other).then_with(|| a.id.cmp(&b.id)),
        _ => a.id.cmp(&b.id),
    });
}

/// A document that a decision needs; it may have gone since it was found.
pub(crate) fn still_there(found: Option<&Option<Document>>, of: Reference) -> Result<&Document> {
    found.and_then(Option::as_ref).ok_or_else(|| not_found(of.kind, &of.to_string()))
}

/// A link to the item of this reference and document.
pub(crate) fn linked(reference: Reference, name: &str) -> Linked {
    Linked { reference, mark: reference::mark_of(name).map(str::to_owned) }
}

/// What a document says now; times that it does not say are those of its head.
pub(crate) fn read(head: &Head, document: &Document, text: &str) -> Item {
    let known = item(head);
    if let Some(item) = known.filter(|_| head.version == document.version) {
        return item.clone();
    }
    let modified = known.map(|item| item.created_at).unwrap_or_default();
    // Whoever asks for an item has the id of one.
    let kind = match document.id.kind {
        Kind::Item(kind) => kind,
        _ => known.map_or(ItemKind::Requirement, |item| item.kind),
    };
    Item::read(kind, &document.id.name, text, modified).0
}

/// What a head of the backlog says.
pub(crate) fn item(head: &Head) -> Option<&Item> {
    head.item.as_deref()
}

/// What should be mended in an item's file, and where; what it says there reads as a default.
pub(crate) fn fault(head: &Head) -> Option<String> {
    let fault = head.fault.as_ref()?;
    let line = fault.line.map(|line| format!(":{line}")).unwrap_or_default();
    Some(format!("{}{line}: {}", head.id, fault.reason))
}

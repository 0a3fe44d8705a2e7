//! After a merge of two branches two items may have one reference: the younger gets a new one, and
//! the links that mean it follow (rulings 3). `reqlore check --fix` does this.
//!
//! The trap: a link names a reference, so which of the two it means is told by the mark that its
//! file keeps beside it (`linked`). Without one it means the older.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{Item, ItemKind, Linked, Reference, reference, relink};
use reqlore_domain::document::{Document, DocumentId, Head, Kind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{Act, Change, Filter, Links, Reads, Snapshot};

use super::find;
use super::mended::{Mended, Renumbered};
use crate::Ports;
use crate::edit::edit;
use crate::finding::Finding;

/// So often it is looked for anew.
const ATTEMPTS: usize = 5;

/// Gives the younger of equal references new ones, kind by kind. What refuses one keeps no other
/// from it; an error means that nothing was begun.
pub(crate) async fn renumber(ports: &Ports, act: &Act) -> Result<Mended> {
    let mut all = Vec::new();
    for kind in ItemKind::ALL {
        all.extend(younger(ports, kind).await?);
    }
    let mut mended = Mended::default();
    for (from, head) in all {
        match one(ports, from, &head, act).await {
            Ok(done) => mended.renumbered.extend(done),
            Err(error) => {
                let message = format!("it keeps {from}: {}", error.message);
                mended.refused.push(Finding::whole(&head.id, message));
            }
        }
    }
    Ok(mended)
}

/// The items whose reference an older one has, the oldest first.
async fn younger(ports: &Ports, kind: ItemKind) -> Result<Vec<(Reference, Arc<Head>)>> {
    let page = ports.documents.find(&find::project(), &Filter::all(Kind::Item(kind))).await?;
    let mut claims: BTreeMap<Reference, Vec<Arc<Head>>> = BTreeMap::new();
    for head in page.heads {
        if let Some(reference) = find::item(&head).and_then(|item| item.reference) {
            claims.entry(reference).or_default().push(head);
        }
    }
    let age = |head: &Arc<Head>| {
        let item = find::item(head);
        let made = item.map(|item| (item.created_at, item.uid.clone()));
        (made, head.id.name.clone())
    };
    let mut younger = Vec::new();
    for (reference, mut heads) in claims {
        heads.sort_by_key(age);
        younger.extend(heads.into_iter().skip(1).map(|head| (reference, head)));
    }
    Ok(younger)
}

/// `None` where the item went meanwhile.
async fn one(
    ports: &Ports,
    from: Reference,
    head: &Arc<Head>,
    act: &Act,
) -> Result<Option<Renumbered>> {
    let kinds = Kind::ITEMS.to_vec();
    let links = Links { kinds, targets: vec![from.to_string()] };
    for _ in 0..ATTEMPTS {
        let linking = ports.documents.linking(&find::project(), &links).await?;
        let mut holders: Vec<Arc<Head>> = linking.into_iter().flatten().collect();
        holders.retain(|holder| holder.id != head.id);
        let mut documents = vec![head.id.clone()];
        documents.extend(holders.iter().map(|holder| holder.id.clone()));
        let reads =
            Reads { links: links.clone(), numbers: vec![from.kind], ..Reads::of(documents) };
        let moving = Moving { from, head: Arc::clone(head), holders };
        let decide = move |snapshot: &Snapshot| moving.decide(snapshot);
        let (decided, _) = edit(ports, &find::project(), reads, act.clone(), decide).await?;
        match decided {
            Decided::Renumbered(done) => return Ok(Some(done)),
            Decided::Gone => return Ok(None),
            Decided::LinkedMeanwhile => {}
        }
    }
    let message = format!("others kept linking to {from}; run `reqlore check --fix` again");
    Err(Error::new(ErrorKind::Busy, message))
}

struct Moving {
    from: Reference,
    head: Arc<Head>,
    holders: Vec<Arc<Head>>,
}

enum Decided {
    Renumbered(Renumbered),
    /// The item is not there any more.
    Gone,
    /// Somebody else links to it since it was looked for.
    LinkedMeanwhile,
}

impl Moving {
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<Change>, Decided)> {
        let known: BTreeSet<&DocumentId> = self.holders.iter().map(|head| &head.id).collect();
        let mut now = snapshot.links.iter().flatten().filter(|head| head.id != self.head.id);
        let Some(Some(document)) = snapshot.documents.first() else {
            return Ok((Vec::new(), Decided::Gone));
        };
        if now.any(|head| !known.contains(&head.id)) {
            return Ok((Vec::new(), Decided::LinkedMeanwhile));
        }
        let number = snapshot.numbers.first().copied().unwrap_or(1);
        if number > MAX_NUMBER {
            let message = format!(
                "no number is left below {MAX_NUMBER}; give it a free number by hand, in its \
                 file's name"
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let to = Reference { kind: self.from.kind, number };
        let id = named(to, &document.id.name);
        let mut changes = vec![
            Change::put(id.clone(), document.body.clone()),
            Change::Delete { id: document.id.clone() },
        ];
        let from = find::linked(self.from, &document.id.name);
        let to = find::linked(to, &id.name);
        let mut relinked = Vec::new();
        for (holder, found) in self.holders.iter().zip(snapshot.documents.iter().skip(1)) {
            let Some(found) = found else { continue };
            if let Some(change) = relinked_change(holder, found, &from, &to)? {
                relinked.push(found.id.to_string());
                changes.push(change);
            }
        }
        let done = Renumbered {
            document: document.id.to_string(),
            from: self.from.to_string(),
            to: to.reference.to_string(),
            relinked,
        };
        Ok((changes, Decided::Renumbered(done)))
    }
}

fn relinked_change(
    holder: &Head,
    found: &Document,
    from: &Linked,
    to: &Linked,
) -> Result<Option<Change>> {
    let text = find::text(found)?;
    let item: Item = find::read(holder, found, text);
    let text = relink(&item, text, from, to).map_err(|fault| {
        let message = format!("its link in {} can't be changed: {fault}", found.id);
        Error::new(ErrorKind::Refused, message)
    })?;
    Ok(text.map(|text| Change::put(found.id.clone(), text)))
}

/// The same name with another reference.
fn named(to: Reference, name: &str) -> DocumentId {
    match reference::mark_of(name) {
        Some(mark) => to.document(mark),
        None => DocumentId { kind: Kind::Item(to.kind), name: to.to_string() },
    }
}

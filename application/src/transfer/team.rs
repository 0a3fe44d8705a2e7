//! The users, the tokens and the audit, which belong to no project and come behind all documents.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use reqlore_domain::audit::AuditRow;
use reqlore_domain::error::{Error, Result};
use reqlore_domain::ports::archive::{Identities, Sink, Source};
use reqlore_domain::ports::documents::StoreError;

use super::{Copied, Verified, What, at};

pub(super) async fn copy(
    source: &mut dyn Source,
    sink: &mut dyn Sink,
    copied: &mut Copied,
) -> Result<()> {
    let identities = source.identities().await.map_err(at_identities)?;
    copied.users = identities.users.len() as u64;
    copied.tokens = identities.tokens.len() as u64;
    sink.identities(identities).await.map_err(at_identities)?;
    let mut last = 0;
    loop {
        let rows = source.audit().await.map_err(|error| after_row(error, last))?;
        let Some(newest) = rows.last().map(|row| row.number) else { return Ok(()) };
        copied.rows += rows.len() as u64;
        sink.audit(rows).await.map_err(|error| after_row(error, last))?;
        last = newest;
    }
}

pub(super) async fn compare(
    here: &mut dyn Source,
    there: &mut dyn Source,
    verified: &mut Verified,
) -> Result<()> {
    let ours = here.identities().await.map_err(at_identities)?;
    let theirs = there.identities().await.map_err(at_identities)?;
    identities(&ours, &theirs, verified);
    let (mut here, mut there) = (Rows::of(here), Rows::of(there));
    let (mut left, mut right) = (here.next().await?, there.next().await?);
    loop {
        let order = match (&left, &right) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.number.cmp(&right.number),
        };
        let (mut one, mut other) = (None, None);
        if order.is_le() {
            one = std::mem::replace(&mut left, here.next().await?);
        }
        if order.is_ge() {
            other = std::mem::replace(&mut right, there.next().await?);
        }
        if let Some(what) = difference(one.as_ref(), other.as_ref()) {
            let number = one.or(other).map(|row| row.number).unwrap_or_default();
            verified.differ(format!("row {number} of the audit"), vec![what]);
        }
    }
}

fn identities(ours: &Identities, theirs: &Identities, verified: &mut Verified) {
    let users = |all: &Identities| -> BTreeMap<_, _> {
        all.users.iter().map(|user| (user.name.key(), user.clone())).collect()
    };
    let tokens = |all: &Identities| -> BTreeMap<_, _> {
        all.tokens.iter().map(|token| (token.id.clone(), token.clone())).collect()
    };
    each(&users(ours), &users(theirs), "user", verified);
    each(&tokens(ours), &tokens(theirs), "token", verified);
}

fn each<K: Ord + std::fmt::Display, T: PartialEq>(
    ours: &BTreeMap<K, T>,
    theirs: &BTreeMap<K, T>,
    noun: &str,
    verified: &mut Verified,
) {
    for key in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        if let Some(what) = difference(ours.get(key), theirs.get(key)) {
            verified.differ(format!("{noun} {key}"), vec![what]);
        }
    }
}

fn difference<T: PartialEq>(here: Option<&T>, there: Option<&T>) -> Option<What> {
    match (here, there) {
        (Some(here), Some(there)) => (here != there).then_some(What::Other),
        (Some(_), None) => Some(What::MissingThere),
        (None, Some(_)) => Some(What::ExtraThere),
        (None, None) => None,
    }
}

/// The audit of a source, row by row.
struct Rows<'a> {
    source: &'a mut dyn Source,
    part: std::vec::IntoIter<AuditRow>,
    last: u64,
}

impl<'a> Rows<'a> {
    fn of(source: &'a mut dyn Source) -> Self {
        Self { source, part: Vec::new().into_iter(), last: 0 }
    }

    async fn next(&mut self) -> Result<Option<AuditRow>> {
        if self.part.as_slice().is_empty() {
            let part = self.source.audit().await.map_err(|error| after_row(error, self.last))?;
            self.part = part.into_iter();
        }
        let row = self.part.next();
        self.last = row.as_ref().map_or(self.last, |row| row.number);
        Ok(row)
    }
}

fn at_identities(error: StoreError) -> Error {
    at(error, "at the users and tokens")
}

fn after_row(error: StoreError, row: u64) -> Error {
    at(error, &format!("after row {row} of the audit"))
}

//! Reading the audit, and finding out whether it is whole.
//!
//! Trap: the chain proves what stands in it and what was taken out of its middle. That nobody cut
//! its end off is proved only against a row's number and hash that somebody wrote down elsewhere.

use reqlore_domain::audit::{AuditEvent, AuditRow, ChainError, ChainHead, Hash, Verifier};
use reqlore_domain::error::Result;
use reqlore_domain::ports::audit::AuditLog;

/// How many rows are read at once.
const PART: usize = 1_000;

/// Which rows somebody wants to see.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// So many of the newest.
    pub last: usize,
    /// Only of this user.
    pub user: Option<String>,
    /// Only of this action: a tool's name, or a method.
    pub action: Option<String>,
}

impl Wanted {
    /// A row that this version can't read is of nobody and of no action.
    fn includes(&self, row: &AuditRow) -> bool {
        let (None, None) = (&self.user, &self.action) else {
            let fits = |entry: AuditEvent| {
                let user = self.user.as_ref().is_none_or(|u| u.eq_ignore_ascii_case(&entry.user));
                user && self.action.as_ref().is_none_or(|action| *action == entry.action)
            };
            return row.entry().is_some_and(fits);
        };
        true
    }
}

/// The newest rows that are wanted, by number.
pub async fn list(log: &dyn AuditLog, wanted: &Wanted) -> Result<Vec<AuditRow>> {
    let mut found = Vec::new();
    let mut end = log.newest().await?.number + 1;
    while end > 1 && found.len() < wanted.last {
        let from = end.saturating_sub(PART as u64).max(1);
        let mut part = log.rows(from, PART).await?;
        // Where the first rows are gone, those behind them come instead.
        part.retain(|row| row.number < end);
        if part.is_empty() {
            break;
        }
        found.extend(part.into_iter().rev().filter(|row| wanted.includes(row)));
        end = from;
    }
    found.truncate(wanted.last);
    found.reverse();
    Ok(found)
}

/// What is to be said of the audit as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verified {
    /// How many rows there are, up to the first that is wrong.
    pub rows: u64,
    /// The newest of these.
    pub newest: ChainHead,
    pub broken: Option<ChainError>,
    pub noted: Noted,
}

/// What became of the row that somebody wrote down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// Nobody told of one.
    None,
    /// It is there, as it was.
    Found,
    /// It is too old and gone, so it proves nothing.
    Pruned,
    /// It is not there, or it is another one.
    Missing,
}

impl Verified {
    pub fn is_whole(&self) -> bool {
        self.broken.is_none() && self.noted != Noted::Missing
    }
}

/// Reads all rows and holds them against their seals, and one of them against what was noted.
pub async fn verify(log: &dyn AuditLog, noted: Option<ChainHead>) -> Result<Verified> {
    let mut verifier = Verifier::default();
    let (mut rows, mut newest, mut first) = (0, ChainHead::default(), None);
    let mut seen = noted.filter(|noted| noted.number == 0).map(|noted| noted.hash == Hash::FIRST);
    let mut broken = None;
    while broken.is_none() {
        let part = log.rows(newest.number + 1, PART).await?;
        let Some(last) = part.last().map(AuditRow::head) else { break };
        if let Err(found) = verifier.next(&part) {
            broken = Some(found);
        }
        let end = match broken {
            Some(ChainError::Changed { number } | ChainError::Missing { number }) => number,
            None => last.number + 1,
        };
        let sound = part.iter().take_while(|row| row.number < end);
        for row in sound {
            first = first.or(Some(row.number));
            rows += 1;
            newest = row.head();
            if let Some(noted) = noted.filter(|noted| noted.number == row.number) {
                seen = Some(noted.hash == row.hash);
            }
        }
    }
    if broken.is_none() {
        broken = verifier.finish().err();
    }
    let is_gone = |noted: ChainHead| first.is_some_and(|first| noted.number < first);
    let noted = match (noted, seen) {
        (None, _) => Noted::None,
        (Some(_), Some(true)) => Noted::Found,
        (Some(noted), None) if is_gone(noted) => Noted::Pruned,
        _ => Noted::Missing,
    };
    Ok(Verified { rows, newest, broken, noted })
}

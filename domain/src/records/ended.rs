//! The rule that decides if a record has ended: it is kept, but no longer valid.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use super::fields::REVIEW_BY;
use crate::document::{DocumentId, DocumentMeta};
use crate::timestamp::Timestamp;
use crate::untrusted_text::encode_id;

/// The relation of a record to those that it replaces.
pub const SUPERSEDES: &str = "supersedes";
/// The same in the file of the replaced entity.
pub const SUPERSEDED_BY: &str = "superseded_by";

/// The status of an entity that another replaced.
pub const SUPERSEDED: &str = "superseded";

/// The mark of an entity after the day of its review.
pub const REVIEW_OVERDUE: &str = "review overdue";

/// Statuses of items and entities that end a record, in lower case.
const ENDED_STATUSES: [&str; 5] = ["cancelled", "deprecated", "obsolete", "rejected", "superseded"];
/// Statuses of an entity that was never valid, in lower case.
const INVALID_STATUSES: [&str; 4] = ["cancelled", "draft", "proposed", "rejected"];

/// True if a record with this status has ended. Ignores case and surrounding blanks.
///
/// A record that is done stays valid.
pub fn is_ended(status: &str) -> bool {
    is_one_of(&ENDED_STATUSES, status)
}

fn is_one_of(statuses: &[&str], status: &str) -> bool {
    statuses.iter().any(|one| one.eq_ignore_ascii_case(status.trim()))
}

/// Why a record has ended, such as `superseded by dec-9c01aa`. `None` if it has not.
pub fn stale_reason(status: Option<&str>, superseded_by: Option<&str>) -> Option<String> {
    match superseded_by {
        Some(id) => Some(format!("superseded by {}", encode_id(id))),
        None => status.filter(|status| is_ended(status)).map(|one| one.trim().to_lowercase()),
    }
}

/// The freshness of a record, which its own status does not tell.
#[derive(Debug, Clone, Default)]
pub struct Freshness {
    /// The ID of the record that ended it.
    pub superseded_by: Option<String>,
    /// The review of a valid record is overdue.
    pub is_overdue: bool,
}

/// The day of the review of a valid entity if that day has ended in UTC.
pub fn overdue_review(meta: &DocumentMeta, now: Timestamp) -> Option<&str> {
    const DAY_SECONDS: i64 = 24 * 60 * 60;
    let entity = meta.entity.as_ref().filter(|one| !one.status.as_deref().is_some_and(is_ended))?;
    let day = entity.custom.get(REVIEW_BY).first()?;
    let end = Timestamp::parse(day.trim())?.seconds() + DAY_SECONDS;
    (now.seconds() >= end).then_some(day)
}

/// True if the record ends those that it supersedes. A proposal ends nothing, but a requirement
/// does: it is created as a draft.
pub fn can_supersede(meta: &DocumentMeta) -> bool {
    match (&meta.entity, &meta.item) {
        (Some(entity), _) => !entity.status.as_deref().is_some_and(was_never_valid),
        (None, item) => item.is_some(),
    }
}

/// True if an entity with this status was never valid, such as a proposal.
pub fn was_never_valid(status: &str) -> bool {
    is_one_of(&INVALID_STATUSES, status)
}

/// The records that supersede others.
#[derive(Debug, Default)]
pub struct Successions(BTreeMap<DocumentId, BTreeSet<DocumentId>>);

impl Successions {
    /// The successions among these documents.
    pub fn from_metadata(metas: &[Arc<DocumentMeta>]) -> Self {
        let mut by_name: HashMap<Cow<'_, str>, Vec<&DocumentMeta>> = HashMap::new();
        for meta in metas {
            for name in meta.reference().into_iter().chain([Cow::from(&meta.id.name)]) {
                by_name.entry(name).or_default().push(meta);
            }
        }
        let mut successions = Self::default();
        for meta in metas {
            for (relation, target) in meta.links() {
                for other in by_name.get(&target).into_iter().flatten() {
                    let (old, new) = match relation {
                        SUPERSEDES => (*other, &**meta),
                        SUPERSEDED_BY => (&**meta, *other),
                        _ => continue,
                    };
                    if can_supersede(new) {
                        successions.0.entry(old.id.clone()).or_default().insert(new.id.clone());
                    }
                }
            }
        }
        successions
    }

    /// The record that ended this one. Records that supersede each other end nothing.
    pub fn successor(&self, id: &DocumentId) -> Option<&DocumentId> {
        self.0.get(id)?.iter().find(|new| !self.leads(new, id))
    }

    /// The record that supersedes this one and is superseded by it, directly or not.
    pub fn rival(&self, id: &DocumentId) -> Option<&DocumentId> {
        self.0.get(id)?.iter().find(|new| self.leads(new, id))
    }

    /// True if `to` is `from`, or supersedes it, directly or not.
    pub fn leads(&self, from: &DocumentId, to: &DocumentId) -> bool {
        let (mut reached, mut open) = (BTreeSet::from([from]), vec![from]);
        while let Some(id) = open.pop() {
            if id == to {
                return true;
            }
            open.extend(self.0.get(id).into_iter().flatten().filter(|new| reached.insert(new)));
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

    #[test]
    fn five_statuses_end_a_record_in_any_case() {
        for status in ["Obsolete", "Cancelled", "superseded", " Rejected ", "DEPRECATED"] {
            assert!(is_ended(status), "{status}");
        }
        for status in ["Done", "Met", "accepted", "closed", "Draft", "proposed", ""] {
            assert!(!is_ended(status), "{status}");
        }
        assert_eq!(stale_reason(Some("Obsolete"), None).as_deref(), Some("obsolete"));
        let reason = stale_reason(Some("accepted"), Some("dec-b"));
        assert_eq!(reason.as_deref(), Some("superseded by dec-b"));
        assert_eq!(stale_reason(Some("accepted"), None), None);
    }

    fn meta(id: DocumentId, front_matter: &str) -> Arc<DocumentMeta> {
        let text = format!("---\n{front_matter}\n---\n");
        Arc::new(DocumentMeta::from_document(&Document::new(id, text.into()), Timestamp(0)))
    }

    /// The successors of decisions `a` and `b`. `a` is accepted.
    fn successors(a: &str, b: &str) -> (Option<String>, Option<String>) {
        let metas = [("dec-a", a), ("dec-b", b)]
            .map(|(id, text)| meta(DocumentId::entity(id), &format!("id: {id}\n{text}")));
        let successions = Successions::from_metadata(&metas);
        let of = |at: usize| successions.successor(&metas[at].id).map(|id| id.name.clone());
        (of(0), of(1))
    }

    #[test]
    fn successor_is_named_by_either_file_unless_it_was_never_valid() {
        let b = Some("dec-b".to_owned());
        let supersedes = "supersedes: [dec-a]";
        assert_eq!(successors("status: accepted", supersedes), (b.clone(), None));
        assert_eq!(successors("superseded_by: dec-b", "status: accepted"), (b.clone(), None));
        for status in ["accepted", "superseded", "Deprecated", "done"] {
            let text = format!("status: {status}\n{supersedes}");
            assert_eq!(successors("", &text), (b.clone(), None), "{status}");
        }
        for status in ["proposed", "Draft", "rejected", "cancelled"] {
            let text = format!("status: {status}\n{supersedes}");
            assert_eq!(successors("", &text), (None, None), "{status}");
            let text = format!("status: {status}");
            assert_eq!(successors("superseded_by: dec-b", &text), (None, None), "{status}");
        }
    }

    #[test]
    fn review_is_overdue_after_its_day_in_utc() {
        let meta = meta(DocumentId::entity("dec-a"), "review_by: 2027-03-01");
        for (now, is_overdue) in [("2027-03-01T23:59:59Z", false), ("2027-03-02T00:00:00Z", true)] {
            let found = overdue_review(&meta, Timestamp::parse(now).unwrap());
            assert_eq!(found, is_overdue.then_some("2027-03-01"), "{now}");
        }
    }

    #[test]
    fn records_that_supersede_each_other_end_nothing() {
        assert_eq!(successors("supersedes: dec-b", "supersedes: dec-a"), (None, None));
        assert_eq!(successors("supersedes: dec-a", ""), (None, None));
        // A circle of three, and a fourth that supersedes one of them.
        let links = [(1, 2), (2, 3), (3, 1), (4, 1)];
        let metas = links.map(|(from, to)| {
            let id = DocumentId::entity(format!("dec-{from}"));
            meta(id, &format!("id: dec-{from}\nsupersedes: dec-{to}"))
        });
        let successions = Successions::from_metadata(&metas);
        let names = |found: Option<&DocumentId>| found.map(|id| id.name.clone());
        let successors = metas.each_ref().map(|meta| names(successions.successor(&meta.id)));
        assert_eq!(successors, [Some("dec-4".to_owned()), None, None, None]);
        assert_eq!(names(successions.rival(&metas[0].id)).as_deref(), Some("dec-3"));
        assert_eq!(successions.rival(&metas[3].id), None);
    }
}

//! Claims: the holders of user stories, each until a time. A claim is no part of its story.

use serde::{Deserialize, Serialize};

use crate::backlog::ItemMeta;
use crate::timestamp::Timestamp;

/// The claim of a story. It is live until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// See [`claim_key`].
    pub story: String,
    /// Random. Only the holder knows it.
    pub id: String,
    /// For display.
    pub holder: String,
    pub until: Timestamp,
}

/// The key of a story's claim, which survives a renumbering; `None` for a file that has neither a
/// permanent ID nor a reference.
pub fn claim_key(story: &ItemMeta) -> Option<String> {
    story.uid.clone().or_else(|| story.reference.as_ref().map(ToString::to_string))
}

/// A change of the claim of a story.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimChange {
    pub story: String,
    pub action: ClaimAction,
    /// The time of the change, for storages without a clock of their own.
    pub at: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimAction {
    /// Claims a story that has no live claim, or one with the same ID.
    Claim { id: String, holder: String, seconds: i64 },
    /// Moves the end of the live claim with this ID.
    Renew { id: String, seconds: i64 },
    /// Ends the live claim with this ID; without an ID, any claim.
    Release { id: Option<String> },
}

/// Why a claim was not changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimRefusal {
    /// The live claim has another ID.
    Held(Claim),
    /// No claim is live.
    Ended,
}

/// The claim after a change, `None` if it was released.
pub type ClaimDecision = Result<Option<Claim>, ClaimRefusal>;

impl Claim {
    pub fn is_live(&self, now: Timestamp) -> bool {
        self.until > now
    }
}

impl ClaimChange {
    /// Decides the change at a time on the stored claim. Pure, because a storage may repeat it.
    pub fn decide(&self, stored: Option<&Claim>, now: Timestamp) -> ClaimDecision {
        let live = stored.filter(|claim| claim.is_live(now));
        let (id, holder, seconds) = match (&self.action, live) {
            (ClaimAction::Claim { id, holder, seconds }, None) => (id, holder, seconds),
            (_, None) => return Err(ClaimRefusal::Ended),
            (
                ClaimAction::Claim { id, .. }
                | ClaimAction::Renew { id, .. }
                | ClaimAction::Release { id: Some(id) },
                Some(claim),
            ) if *id != claim.id => return Err(ClaimRefusal::Held(claim.clone())),
            (ClaimAction::Release { .. }, Some(_)) => return Ok(None),
            (
                ClaimAction::Claim { id, seconds, .. } | ClaimAction::Renew { id, seconds },
                Some(claim),
            ) => (id, &claim.holder, seconds),
        };
        let until = Timestamp::new(now.seconds().saturating_add(*seconds), now.nanoseconds());
        let (story, id, holder) = (self.story.clone(), id.clone(), holder.clone());
        Ok(Some(Claim { story, id, holder, until }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_id_of_the_live_claim_changes_it() {
        let now = Timestamp::new(1_000, 5);
        let claim = |id: &str| ClaimAction::Claim {
            id: id.to_owned(),
            holder: "ann".to_owned(),
            seconds: 60,
        };
        let decide = |action: ClaimAction, stored: Option<&Claim>, now| {
            ClaimChange { story: "u1".to_owned(), action, at: now }.decide(stored, now)
        };
        let held = decide(claim("a"), None, now).unwrap().unwrap();
        assert_eq!((&*held.holder, held.until), ("ann", Timestamp::new(1_060, 5)));
        let later = Timestamp::new(1_059, 0);
        let refused = Err(ClaimRefusal::Held(held.clone()));
        let renew = |id: &str| ClaimAction::Renew { id: id.to_owned(), seconds: 60 };
        let release = |id: &str| ClaimAction::Release { id: Some(id.to_owned()) };
        for action in [claim("b"), renew("b"), release("b")] {
            assert_eq!(decide(action, Some(&held), later), refused);
        }
        let renewed = decide(renew("a"), Some(&held), later).unwrap().unwrap();
        assert_eq!(renewed.until, Timestamp::new(1_119, 0));
        assert_eq!(decide(claim("a"), Some(&held), later), Ok(Some(renewed)));
        assert_eq!(decide(release("a"), Some(&held), later), Ok(None));
        assert_eq!(decide(ClaimAction::Release { id: None }, Some(&held), later), Ok(None));
        // The last moment is not part of the claim.
        let ended = held.until;
        assert_eq!(decide(renew("a"), Some(&held), ended), Err(ClaimRefusal::Ended));
        for release in [release("a"), ClaimAction::Release { id: None }] {
            assert_eq!(decide(release, None, now), Err(ClaimRefusal::Ended));
        }
        assert_eq!(decide(claim("b"), Some(&held), ended).unwrap().unwrap().id, "b");
    }
}

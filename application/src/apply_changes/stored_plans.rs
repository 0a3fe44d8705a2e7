//! Plans of valid dry runs, in memory, until their caller applies them or they expire.

use std::sync::{Mutex, PoisonError};

use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, CallerName, TokenId};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::writes::read_versions::ReadVersions;

const LIFETIME_SECONDS: i64 = 600;
const MAX_CALLER_PLANS: usize = 16;
const MAX_CALLER_BYTES: usize = 4 << 20;
/// Of all callers.
const MAX_PLANS: usize = 1_024;
const MAX_BYTES: usize = 64 << 20;

/// The oldest first.
#[derive(Default)]
pub(crate) struct StoredPlans(Mutex<Vec<StoredPlan>>);

pub(super) struct StoredPlan {
    id: String,
    owner: PlanOwner,
    expires_at: Timestamp,
    /// As JSON.
    pub(super) entries: String,
    pub(super) reads: ReadVersions,
}

/// The caller of a dry run: the connection on stdio, the token over HTTP.
#[derive(PartialEq, Eq)]
struct PlanOwner {
    name: CallerName,
    token: Option<TokenId>,
    project: ProjectKey,
}

impl PlanOwner {
    fn new(caller: &Caller) -> Self {
        let Caller { name, token, project, .. } = caller;
        Self { name: name.clone(), token: token.clone(), project: project.clone() }
    }
}

impl StoredPlan {
    pub(super) fn new(
        id: String,
        caller: &Caller,
        now: Timestamp,
        entries: String,
        reads: ReadVersions,
    ) -> Self {
        let expires_at = Timestamp::new(now.seconds() + LIFETIME_SECONDS, now.nanoseconds());
        Self { id, owner: PlanOwner::new(caller), expires_at, entries, reads }
    }

    fn size(&self) -> usize {
        self.entries.len() + self.reads.size()
    }
}

impl StoredPlans {
    /// Stores a plan in place of the oldest ones. False if it is too large.
    pub(super) fn insert(&self, plan: StoredPlan, now: Timestamp) -> bool {
        if plan.size() > MAX_CALLER_BYTES {
            return false;
        }
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // An equal ID of the caller would be ambiguous.
        plans.retain(|other| {
            other.expires_at > now && !(other.owner == plan.owner && other.id == plan.id)
        });
        let (mut count, mut bytes) = (1, plan.size());
        let (mut all_count, mut all_bytes) = (1, plan.size());
        // From the newest on.
        let mut kept = Vec::with_capacity(plans.len() + 1);
        for other in plans.drain(..).rev() {
            if other.owner == plan.owner {
                count += 1;
                bytes += other.size();
                if count > MAX_CALLER_PLANS || bytes > MAX_CALLER_BYTES {
                    continue;
                }
            }
            all_count += 1;
            all_bytes += other.size();
            if all_count <= MAX_PLANS && all_bytes <= MAX_BYTES {
                kept.push(other);
            }
        }
        kept.reverse();
        kept.push(plan);
        *plans = kept;
        true
    }

    /// Takes a plan of the caller out, so that it is applied once.
    pub(super) fn take(&self, id: &str, caller: &Caller, now: Timestamp) -> Result<StoredPlan> {
        let owner = PlanOwner::new(caller);
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = plans
            .iter()
            .position(|plan| plan.id == id.trim() && plan.owner == owner && plan.expires_at > now);
        let Some(position) = found else {
            let message = format!(
                "plan: {:?} is unknown, expired or already applied; send the changes",
                truncate_echo(id)
            );
            return Err(Error::new(ErrorKind::NotFound, message).field("plan"));
        };
        Ok(plans.remove(position))
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::identity::Access;

    use super::*;

    fn plan(id: usize, caller: &Caller, size: usize) -> StoredPlan {
        let now = Timestamp::default();
        StoredPlan::new(format!("p{id}"), caller, now, "x".repeat(size), ReadVersions::default())
    }

    #[test]
    fn oldest_plans_of_a_caller_go_first() {
        let (plans, now) = (StoredPlans::default(), Timestamp::default());
        let [ada, bob] = ["ada", "bob"].map(|name| Caller::local(name, Access::Write));
        plans.insert(plan(99, &bob, 1), now);
        for id in 0..=MAX_CALLER_PLANS {
            assert!(plans.insert(plan(id, &ada, 1), now));
        }
        assert!(plans.take("p0", &ada, now).is_err());
        assert!(plans.take("p1", &ada, now).is_ok());
        assert!(plans.insert(plan(20, &ada, MAX_CALLER_BYTES), now));
        assert!(plans.take("p2", &ada, now).is_err(), "the new one needs the memory");
        assert!(plans.take("p20", &ada, now).is_ok());
        assert!(!plans.insert(plan(21, &ada, MAX_CALLER_BYTES + 1), now));
        assert!(plans.take("p99", &bob, now).is_ok());
    }

    #[test]
    fn plans_of_many_callers_are_bounded() {
        let (plans, now) = (StoredPlans::default(), Timestamp::default());
        for id in 0..40 {
            let caller = Caller::local(format!("caller-{id}"), Access::Write);
            plans.insert(plan(id, &caller, MAX_CALLER_BYTES), now);
        }
        let kept = plans.0.lock().unwrap();
        assert_eq!(kept.iter().map(StoredPlan::size).sum::<usize>(), MAX_BYTES);
        assert_eq!(kept.last().unwrap().id, "p39");
    }
}

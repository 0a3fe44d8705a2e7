//! What the store as a whole does with it: when it opens, copies, is filled, or changes users.

use std::time::SystemTime;

use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::ports::archive;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::identity::IdentityCommit;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;

use super::{Team, chain, doubt, folder, identity, keys};
use crate::error::refused;
use crate::layout::{Root, Tree};
use crate::local::LOCAL;
use crate::lock::{Lock, Turn};
use crate::shared::Shared;

/// So many rows are copied at a time.
const BATCH: usize = 5_000;

/// The time for what is settled outside of any act.
fn now() -> Timestamp {
    #[expect(clippy::disallowed_methods, reason = "opening a store is no act that has a time")]
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::new(now.as_secs().try_into().unwrap_or_default(), now.subsec_nanos())
}

impl Shared {
    /// Settles what a killed process left open in a project, for those who do nothing with the
    /// audit. The project's lock is held.
    pub(crate) fn settle_project(&self, project: &ProjectKey, root: &Root) {
        let settled = doubt::settle(self, project, &Tree::new(root, &self.layout), now(), false);
        // It was told already.
        drop(settled);
    }

    /// The folder that holds it.
    pub(super) fn team_root(&self) -> StoreResult<Root> {
        Root::open(self.folders.base())
    }

    /// Runs something under a project's lock, unless somebody else has it: then it is theirs.
    pub(super) fn with_free(
        &self,
        project: &ProjectKey,
        run: impl FnOnce(&Root) -> StoreResult<()>,
    ) -> StoreResult<()> {
        let root = self.open(project)?;
        let Some(taken) = self.turns.take_now(project) else { return Ok(()) };
        match taken.lock_now(&root)? {
            Turn::Locked(_lock) => run(&root),
            Turn::Waiting(_) => Ok(()),
        }
    }

    /// Settles what killed processes left, when the store is opened. What can't be settled now, as
    /// where nothing may be written, waits for the next one.
    pub(crate) fn settle_team(&self) {
        let now = now();
        let settled = || -> StoreResult<()> {
            let root = self.team_root()?;
            let Some(local) = folder::local(&root)? else { return Ok(()) };
            if let Some(taken) = self.turns.take_now(&ProjectKey::default())
                && let Turn::Locked(lock) = taken.lock_now(&root)?
            {
                let recovered = identity::recover(&self.team.chain, &root, now, &lock);
                if let Err(error) = recovered {
                    tracing::warn!(%error, "an interrupted change of users stays open");
                }
            }
            doubt::settle_all(self, &local, now)
        };
        if let Err(error) = settled() {
            tracing::warn!(%error, "what an interrupted commit left in the audit stays open");
        }
    }

    /// Refuses to act under a key that was used. The project's lock is held.
    pub(crate) fn check_idempotency(&self, act: &WriteContext) -> StoreResult<()> {
        let Some(once) = &act.once else { return Ok(()) };
        let local = folder::local(&self.team_root()?)?;
        let kept = local.map(|local| keys::find(&local, &once.key)).transpose()?.flatten();
        act.check_idempotency(kept.map(|kept| kept.earlier))
    }

    /// Refuses a place that has users or rows, before it is filled.
    pub(crate) fn check_no_team(&self) -> StoreResult<()> {
        let root = self.team_root()?;
        let archive::Identities { users, tokens } = self.team.identities.load(&root)?.all();
        let rows = folder::local(&root)?.map(|local| chain::newest(&local)).transpose()?;
        let found = if !users.is_empty() || !tokens.is_empty() {
            "users"
        } else if rows.unwrap_or_default().number > 0 {
            "rows of an audit"
        } else {
            return Ok(());
        };
        Err(refused(LOCAL, &format!("is not empty: it holds {found}. Name an empty place")))
    }

    /// Changes users and tokens; the lock is the default project's.
    pub(crate) fn commit_identities(&self, commit: IdentityCommit, lock: &Lock) -> StoreResult<()> {
        let Team { chain, identities } = &self.team;
        identities.commit(chain, &self.team_root()?, commit, lock)
    }

    pub(crate) fn all_identities(&self) -> StoreResult<archive::Identities> {
        Ok(self.team.identities.load(&self.team_root()?)?.all())
    }

    pub(crate) fn fill_identities(
        &self,
        identities: archive::Identities,
        lock: &Lock,
    ) -> StoreResult<()> {
        identity::fill(&self.team_root()?, identities, lock)
    }

    /// The numbers of the first and the newest row; none where there is no row.
    pub(crate) fn span(&self) -> StoreResult<Option<(u64, u64)>> {
        let Some(local) = folder::local(&self.team_root()?)? else { return Ok(None) };
        let newest = chain::newest(&local)?.number;
        let first = chain::rows(&local, 0, 1)?.first().map(|row| row.number);
        Ok(first.map(|first| (first, newest)))
    }

    /// The next rows of a copy, from this number to that one.
    pub(crate) fn copied_rows(&self, from: u64, to: u64) -> StoreResult<Vec<AuditRow>> {
        let Some(local) = folder::local(&self.team_root()?)? else { return Ok(Vec::new()) };
        let mut rows = chain::rows(&local, from, BATCH)?;
        rows.retain(|row| row.number <= to);
        if rows.first().is_some_and(|row| row.number != from) {
            return Err(refused(LOCAL, "old rows of the audit went while it was read; try again"));
        }
        Ok(rows)
    }

    /// Takes rows in as they are, if nobody has appended one since.
    pub(crate) fn fill_rows(&self, rows: Vec<AuditRow>) -> StoreResult<()> {
        let local = folder::writable(&self.team_root()?)?;
        let fitting = |head: ChainHead| match rows.first() {
            Some(first) if head.number > 0 && first.number != head.number + 1 => Err(refused(
                LOCAL,
                "got rows of an audit from another process while it was being filled; stop the \
                 servers that use this place, remove what was copied and copy again",
            )),
            _ => Ok(rows),
        };
        self.team.chain.append(&local, fitting).map(drop)
    }

    /// Appends rows of their own; not where a copy of another audit is about to be.
    pub(super) fn record_rows(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        self.check_complete(&ProjectKey::default())?;
        let local = folder::writable(&self.team_root()?)?;
        self.team.chain.record(&local, entries).map(drop)
    }

    /// What was filled in is in no doubt.
    pub(crate) fn finish_team(&self) -> StoreResult<()> {
        match folder::local(&self.team_root()?)? {
            Some(local) => doubt::all_came(self, &local),
            None => Ok(()),
        }
    }
}

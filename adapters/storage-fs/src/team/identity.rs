//! Users and tokens in one file that is replaced whole, and last uses in another.
//!
//! They are asked for at every request: so they are kept in memory and believed while `stat` shows
//! the same file, which also sees other processes. Each new file has a later time than the one
//! before it, so no two ever look alike. A last use rewrites no identities and keeps the epoch. The
//! trap: the staged file of a change is its journal too, so it goes only after the row of a change
//! that never came was taken back.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::Dir;
use reqlore_domain::audit::{AuditRow, ChainHead};
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::archive;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::time::Timestamp;
use rustix::fs::{AtFlags, CWD};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::chain::{self, Chain};
use super::file_kind::FileKind;
use super::folder;
use super::private::{Place, Unread};
use crate::error::failed;
use crate::failpoint::{Step, reached};
use crate::layout::Root;
use crate::local::LOCAL;
use crate::lock::{self, Lock};
use crate::read::Stamp;

const NAME: &str = "identity.json";
const SHOWN: &str = ".reqlore/local/identity.json";
/// A change that was staged, and did not replace [`NAME`] yet.
const STAGED: &str = "identity.next";
const USES: &str = "uses.json";
const USES_TEMP: &str = ".uses.new";

/// What is known of both files.
#[derive(Debug, Default)]
pub(crate) struct Identities {
    users: Kept<Users>,
    latest: Kept<Uses>,
}

/// What was read of a file, and which one it was.
type Kept<T> = Mutex<Option<(Option<Stamp>, Arc<T>)>>;

#[derive(Debug, Default, Clone)]
struct Users {
    /// By the key of the name.
    users: BTreeMap<String, User>,
    tokens: BTreeMap<TokenId, Token>,
}

type Uses = BTreeMap<TokenId, Timestamp>;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    users: Vec<User>,
    tokens: Vec<Token>,
    /// The row of the change that made this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    row: Option<Announced>,
}

/// A row that is about to be written.
#[derive(Debug, Serialize, Deserialize)]
struct Announced {
    /// It has a higher number than this.
    behind: u64,
    text: Arc<str>,
}

impl Users {
    fn of(identities: archive::Identities) -> Self {
        let mut users = Self::default();
        for user in identities.users {
            users.users.insert(user.name.key(), user);
        }
        for token in identities.tokens {
            users.tokens.insert(token.id.clone(), token);
        }
        users
    }

    fn apply(&mut self, change: IdentityChange) {
        match change {
            IdentityChange::User(user) => drop(self.users.insert(user.name.key(), user)),
            IdentityChange::Token(token) => drop(self.tokens.insert(token.id.clone(), token)),
        }
    }

    fn stored(&self, row: Option<Announced>) -> Stored {
        let (users, tokens) = (self.users.values(), self.tokens.values());
        Stored { users: users.cloned().collect(), tokens: tokens.cloned().collect(), row }
    }
}

/// Both files, as they were at one moment.
pub(super) struct Known {
    users: Arc<Users>,
    latest: Arc<Uses>,
}

impl Known {
    /// A token with its user.
    pub(super) fn holder(&self, id: &TokenId) -> Option<TokenOwner> {
        let token = self.token(id)?;
        let user = self.users.users.get(&token.user.key())?.clone();
        Some(TokenOwner { token, user })
    }

    /// Users by name, and tokens by age.
    pub(super) fn all(&self) -> archive::Identities {
        let Users { users, tokens } = &*self.users;
        let mut tokens: Vec<Token> = tokens.keys().filter_map(|id| self.token(id)).collect();
        tokens.sort_by_key(|token| token.created_at);
        archive::Identities { users: users.values().cloned().collect(), tokens }
    }

    fn token(&self, id: &TokenId) -> Option<Token> {
        let token = self.users.tokens.get(id)?;
        let last_used_at = token.last_used_at.max(self.latest.get(id).copied());
        Some(Token { last_used_at, ..token.clone() })
    }
}

impl Identities {
    /// Different after every change of the file. A link on the way there is followed; all that it
    /// could do is to have the file read again.
    pub(super) fn epoch(base: &Path) -> StoreResult<u64> {
        let mut hash = DefaultHasher::new();
        stamp(&path(base, NAME))?.hash(&mut hash);
        Ok(hash.finish())
    }

    /// What is known already, if both files are still the same and nobody is just reading them.
    pub(super) fn now(&self, base: &Path) -> Option<Known> {
        let users = unchanged(&self.users, &path(base, NAME))?;
        let latest = unchanged(&self.latest, &path(base, USES))?;
        Some(Known { users, latest })
    }

    pub(super) fn load(&self, root: &Root) -> StoreResult<Known> {
        let local = folder::local(root)?;
        let users = loaded(&self.users, local.as_ref(), NAME, |place| {
            let found = place.read::<Stored>(FileKind::Identity)?;
            Ok(found.map(|(stored, metadata)| {
                let Stored { users, tokens, .. } = stored;
                (Users::of(archive::Identities { users, tokens }), Stamp::of(&metadata))
            }))
        })?;
        let latest = loaded(&self.latest, local.as_ref(), USES, |place| {
            let found = place.read::<Uses>(FileKind::Uses)?;
            Ok(found.map(|(latest, metadata)| (latest, Stamp::of(&metadata))))
        })?;
        Ok(Known { users, latest })
    }

    /// Applies what is decided on the newest state. The lock of the default project is held.
    pub(super) fn commit(
        &self,
        chain: &Chain,
        root: &Root,
        mut commit: IdentityCommit,
        lock: &Lock,
    ) -> StoreResult<()> {
        recover(chain, root, commit.act.at, lock)?;
        let known = self.load(root)?;
        let users = commit.users.iter().map(|name| known.users.users.get(&name.key()).cloned());
        let tokens = commit.tokens.iter().map(|id| known.token(id));
        let (changes, audit) =
            commit.decide(&users.collect::<Vec<_>>(), &tokens.collect::<Vec<_>>())?;
        if changes.is_empty() {
            return Ok(());
        }
        let mut users = (*known.users).clone();
        for change in changes {
            users.apply(change);
        }
        let local = folder::writable(root)?;
        let row = match &audit {
            Some(entry) => {
                let behind = chain::newest(&local)?.number;
                let text = AuditRow::after(ChainHead::default(), entry.clone()).text;
                Some(Announced { behind, text })
            }
            None => None,
        };
        let staged = stage(&local, &users.stored(row))?;
        let mut written = None;
        if let Some(entry) = audit {
            let rows = chain.record(&local, vec![entry]).inspect_err(|_| staged.remove())?;
            written = rows.last().map(|row| row.number);
        }
        put(staged).inspect_err(|_| {
            let taken_back =
                written.map_or(Ok(()), |number| chain.take_back(&local, number, commit.act.at));
            match taken_back {
                Ok(()) => staged.remove(),
                // Whoever comes next finds the staged file, and does it.
                Err(error) => tracing::error!(%error, "a row could not be taken back"),
            }
        })?;
        // From here on it shows. What is not durable now may be gone after a power cut.
        let synced = staged.named(NAME).sync_folder();
        synced.and_then(|()| step(staged, Step::IdentitiesSynced)).inspect_err(|error| {
            tracing::error!(%error, "a change of users shows and may not outlive a power cut");
        })
    }

    /// Notes when tokens were last used, never to an earlier time.
    pub(super) fn used(&self, root: &Root, used: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        if used.is_empty() || folder::local(root)?.is_none() {
            return Ok(());
        }
        let local = folder::writable(root)?;
        let _lock = lock::hold(&local, LOCAL, "the last uses")?;
        let Known { users, latest } = self.load(root)?;
        let mut noted = (*latest).clone();
        // Nobody removes a token; what is not there was never one of ours.
        for (id, at) in used.into_iter().filter(|(id, _)| users.tokens.contains_key(id)) {
            let last = noted.entry(id).or_insert(at);
            *last = (*last).max(at);
        }
        if noted == *latest {
            return Ok(());
        }
        Place { dir: &local, folder: "", name: USES }.replace(USES_TEMP, FileKind::Uses, &noted)
    }
}

/// Puts these in the place of all there is; for what is being filled.
pub(super) fn fill(root: &Root, identities: archive::Identities, _lock: &Lock) -> StoreResult<()> {
    let local = folder::writable(root)?;
    put(stage(&local, &Users::of(identities).stored(None))?)?;
    Place { dir: &local, folder: "", name: NAME }.sync_folder()
}

/// Finishes what a killed process left: a row that was written for a staged file, which never came.
pub(super) fn recover(chain: &Chain, root: &Root, at: Timestamp, _lock: &Lock) -> StoreResult<()> {
    let Some(local) = folder::local(root)? else { return Ok(()) };
    let staged = Place { dir: &local, folder: "", name: STAGED };
    if local.symlink_metadata(STAGED).is_err() {
        return Ok(());
    }
    let row = match staged.examine::<Stored>(FileKind::Identity) {
        // Its row was not begun.
        Err(Unread::Torn(error)) => {
            tracing::warn!(%error, "a change of users that was not staged whole is dropped");
            None
        }
        found => found?.and_then(|(stored, _)| stored.row),
    };
    if let Some(Announced { behind, text }) = row {
        let rows = chain::rows(&local, behind + 1, usize::MAX)?;
        if let Some(row) = rows.iter().find(|row| row.text == text) {
            chain.take_back(&local, row.number, at)?;
        }
    }
    staged.remove();
    Ok(())
}

fn stage<'a>(local: &'a Dir, stored: &Stored) -> StoreResult<Place<'a>> {
    let staged = Place { dir: local, folder: "", name: STAGED };
    let current = stamp_in(staged.named(NAME))?;
    drop(staged.create(FileKind::Identity, stored, current.as_ref())?);
    let done = staged.sync_folder().and_then(|()| step(staged, Step::IdentitiesStaged));
    done.inspect_err(|_| staged.remove())?;
    Ok(staged)
}

fn put(staged: Place<'_>) -> StoreResult<()> {
    // What is there is nobody's to replace but ours.
    drop(staged.named(NAME).open(rustix::fs::OFlags::RDONLY)?);
    step(staged, Step::IdentitiesReplaced)?;
    staged.rename(NAME)
}

fn step(at: Place<'_>, step: Step) -> StoreResult<()> {
    reached(step).map_err(|error| at.named(NAME).not_written("write it", error))
}

fn path(base: &Path, name: &str) -> PathBuf {
    base.join(LOCAL).join(name)
}

fn stamp(path: &Path) -> StoreResult<Option<Stamp>> {
    match rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(Stamp::of_stat(&stat))),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(error) => Err(failed(SHOWN, "look at it", error.into())),
    }
}

fn stamp_in(place: Place<'_>) -> StoreResult<Option<Stamp>> {
    Ok(place.open(rustix::fs::OFlags::RDONLY)?.map(|(_, metadata)| Stamp::of(&metadata)))
}

/// What was read of a file, while `stat` shows the same one.
fn unchanged<T>(kept: &Kept<T>, path: &Path) -> Option<Arc<T>> {
    let now = stamp(path).ok()?;
    let kept = kept.try_lock().ok()?;
    let (stamp, known) = kept.as_ref()?;
    (*stamp == now).then(|| Arc::clone(known))
}

/// The same, read again where it is another one.
fn loaded<T: Default>(
    kept: &Kept<T>,
    local: Option<&Dir>,
    name: &str,
    read: impl FnOnce(Place<'_>) -> StoreResult<Option<(T, Stamp)>>,
) -> StoreResult<Arc<T>> {
    let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
    let place = local.map(|dir| Place { dir, folder: "", name });
    let now = place.map(stamp_in).transpose()?.flatten();
    if let Some((stamp, known)) = kept.as_ref()
        && *stamp == now
    {
        return Ok(Arc::clone(known));
    }
    let found = place.map(read).transpose()?.flatten();
    let (value, stamp) = found.map_or((T::default(), None), |(value, stamp)| (value, Some(stamp)));
    let value = Arc::new(value);
    *kept = Some((stamp, Arc::clone(&value)));
    Ok(value)
}

//! Keys of writes that may come twice: one small file each.
//!
//! A key is written before its change shows, under a name that does not count yet, and gets its own
//! name when the change stands; so a key whose change never came was never used. The trap: all
//! projects share one folder, so what is in doubt is settled only by the project whose write it is.

use cap_std::fs::Dir;
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::idempotency::IdempotencyRecord;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::file_kind::FileKind;
use super::folder;
use super::private::{Place, set_modified};
use crate::error::failed;
use crate::failpoint::{Step, reached};
use crate::lock;
use crate::read::Stamp;

const FOLDER: &str = "once";
const BELOW: &str = "once/";
const SHOWN: &str = ".reqlore/local/once";
const TEMP: &str = ".new";
/// Behind the name of a key whose change may not have come.
const DOUBT: &str = ".doubt";
const MOST: usize = 64;
/// Of an answer; in JSON it may take six times that.
const MOST_KEPT: usize = 4 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) project: ProjectKey,
    pub(super) earlier: IdempotencyRecord,
}

/// A key as the name of a file.
fn check(key: &str) -> StoreResult<()> {
    let fits = (1..=MOST).contains(&key.len()) && key.bytes().all(|b| b.is_ascii_alphanumeric());
    let why = || StoreError::Internal(format!("a key has 1 to {MOST} letters and digits"));
    if fits { Ok(()) } else { Err(why()) }
}

fn place<'a>(dir: &'a Dir, name: &'a str) -> Place<'a> {
    Place { dir, folder: BELOW, name }
}

/// The write that counts under this key.
pub(super) fn find(local: &Dir, key: &str) -> StoreResult<Option<Kept>> {
    check(key)?;
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(None) };
    Ok(place(&dir, key).read(FileKind::Key)?.map(|(kept, _)| kept))
}

/// The write under this key of which nobody knows yet whether it came.
pub(super) fn doubtful(local: &Dir, key: &str, project: &ProjectKey) -> StoreResult<Option<Kept>> {
    check(key)?;
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(None) };
    let found = place(&dir, &format!("{key}{DOUBT}")).read::<Kept>(FileKind::Key)?;
    Ok(found.map(|(kept, _)| kept).filter(|kept| kept.project == *project))
}

/// Writes a key down, durably; it does not count yet. Refuses one that another project has used
/// meanwhile, or is just using.
pub(super) fn begin(local: &Dir, key: &str, kept: &Kept, at: Timestamp) -> StoreResult<()> {
    check(key)?;
    let dir = folder::create(local, FOLDER)?;
    let _lock = lock::hold(&dir, SHOWN, "the keys of writes")?;
    let used = place(&dir, key).read::<Kept>(FileKind::Key)?.map(|(kept, _)| kept.earlier);
    if let Some(earlier) = used.filter(|earlier| earlier.is_valid_at(at)) {
        return Err(StoreError::Repeated(Box::new(earlier)));
    }
    let name = format!("{key}{DOUBT}");
    let at = place(&dir, &name);
    if let Some((other, _)) = at.read::<Kept>(FileKind::Key)?
        && other.project != kept.project
    {
        let reason = "another call under the same key is just being made; try again in a moment. \
                      Nothing was written";
        return Err(StoreError::Busy { reason: reason.to_owned() });
    }
    let step = |step| reached(step).map_err(|error| at.not_written("write it", error));
    let staged = place(&dir, TEMP);
    staged.remove();
    create(staged, kept)?;
    step(Step::KeyWritten)?;
    staged.rename(&name)?;
    at.sync_folder()?;
    step(Step::KeySynced)
}

/// The change of this key came.
pub(super) fn confirm(local: &Dir, key: &str, project: &ProjectKey) -> StoreResult<()> {
    let Some(_) = doubtful(local, key, project)? else { return Ok(()) };
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(()) };
    place(&dir, &format!("{key}{DOUBT}")).rename(key)
}

/// The change of this key never came.
pub(super) fn withdraw(local: &Dir, key: &str, project: &ProjectKey) -> StoreResult<()> {
    let Some(_) = doubtful(local, key, project)? else { return Ok(()) };
    if let Some(dir) = folder::find(local, FOLDER)? {
        place(&dir, &format!("{key}{DOUBT}")).remove();
    }
    Ok(())
}

/// All keys of which nobody knows yet whether their changes came.
pub(super) fn all_doubtful(local: &Dir) -> StoreResult<Vec<(String, Kept)>> {
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for name in names(&dir)? {
        let Some(key) = name.strip_suffix(DOUBT) else { continue };
        match place(&dir, &name).read(FileKind::Key) {
            Ok(kept) => found.extend(kept.map(|(kept, _)| (key.to_owned(), kept))),
            Err(error) => tracing::warn!(%error, "the key of a write is passed over"),
        }
    }
    Ok(found)
}

/// Keeps the answer of what happened under a key.
pub(super) fn keep(local: &Dir, key: &str, answer: String) -> StoreResult<()> {
    check(key)?;
    if answer.len() > MOST_KEPT {
        tracing::warn!(bytes = answer.len(), "an answer is too large to be kept");
        return Ok(());
    }
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(()) };
    let _lock = lock::hold(&dir, SHOWN, "the keys of writes")?;
    let at = place(&dir, key);
    let Some((mut kept, _)) = at.read::<Kept>(FileKind::Key)? else { return Ok(()) };
    kept.earlier.answer = Some(answer.into());
    let staged = place(&dir, TEMP);
    staged.remove();
    create(staged, &kept)?;
    staged.rename(key)?;
    at.sync_folder()
}

/// Its time is that of the write, so old ones are found without reading all.
fn create(staged: Place<'_>, kept: &Kept) -> StoreResult<()> {
    let file = staged.create(FileKind::Key, kept, None)?;
    let Timestamp(nanoseconds) = kept.earlier.at;
    let part = nanoseconds.rem_euclid(1_000_000_000);
    set_modified(&file, kept.earlier.at.seconds(), part)
        .map_err(|error| staged.not_written("write it", error))
}

/// Forgets all keys of writes before this. Writers wait for one removal at most.
pub(super) fn forget(local: &Dir, before: Timestamp) -> StoreResult<()> {
    let Some(dir) = folder::find(local, FOLDER)? else { return Ok(()) };
    for name in names(&dir)? {
        let is_key = check(name.strip_suffix(DOUBT).unwrap_or(&name)).is_ok();
        if !is_key || !is_older(&dir, &name, before) {
            continue;
        }
        let _lock = lock::hold(&dir, SHOWN, "the keys of writes")?;
        let at = place(&dir, &name);
        match at.read::<Kept>(FileKind::Key) {
            Ok(Some((kept, _))) if kept.earlier.at < before => at.unlink()?,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the key of a write is passed over"),
        }
    }
    Ok(())
}

/// By its time alone, which is that of the write or later.
fn is_older(dir: &Dir, name: &str, before: Timestamp) -> bool {
    let found = dir.symlink_metadata(name);
    found.is_ok_and(|found| Stamp::of(&found).modified() < before)
}

fn names(dir: &Dir) -> StoreResult<Vec<String>> {
    let fail = |error| failed(SHOWN, "list it", error);
    let mut names = Vec::new();
    for entry in dir.entries().map_err(fail)? {
        names.extend(entry.map_err(fail)?.file_name().into_string().ok());
    }
    Ok(names)
}

//! Tells whether a file changed, without reading it.

use std::time::{Duration, SystemTime};

use reqlore_domain::timestamp::Timestamp;
use serde::{Deserialize, Serialize};

/// A file that changed later may change again without another time stamp.
const MIN_RELIABLE_AGE: Duration = Duration::from_secs(2);

/// Size, times and identity of a file, to detect a change. On Windows the time of creation replaces
/// device and inode, and the last write the change time, so a change that keeps size and times is
/// missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
    pub(crate) modified_nanos: u32,
    pub(crate) changed_nanos: u32,
    pub(crate) has_hard_links: bool,
}

impl FileStamp {
    /// The file's modification time, which programs can set.
    pub(crate) fn modified_at(&self) -> Timestamp {
        Timestamp::new(self.modified, self.modified_nanos)
    }

    /// True if the file may be written by a name in another folder, which is not watched.
    pub(crate) fn has_hard_links(&self) -> bool {
        self.has_hard_links
    }

    /// True if the next change of the file will change the stamp. `now` must be from before the
    /// stamp was taken: a change while the file is read may leave the same stamp.
    pub(crate) fn is_reliable_at(&self, now: ClockTime) -> bool {
        // Not the modification time: programs can set it, even to the future.
        now.0.saturating_sub(self.changed.unsigned_abs()) > MIN_RELIABLE_AGE.as_secs()
    }
}

/// Time of this machine's clock, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockTime(u64);

impl ClockTime {
    pub(crate) fn now() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the age of a file on this machine's clock")]
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // With a clock before 1970 no stamp is reliable.
        Self(now.map_or(0, |now| now.as_secs()))
    }
}

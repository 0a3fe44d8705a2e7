//! The differences between Unix systems that `durable-fs` does not cover.

use rustix::fs::Stat;

#[cfg(target_os = "linux")]
pub(crate) fn device(stat: &Stat) -> u64 {
    stat.st_dev
}

/// Widened as the standard library does, so that both report the same device.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::cast_sign_loss, reason = "an identifier, not a quantity")]
pub(crate) fn device(stat: &Stat) -> u64 {
    i64::from(stat.st_dev) as u64
}

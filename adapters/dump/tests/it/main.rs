//! Dumps through their public interface: round trips and damage.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

mod damage;
mod history;
mod round_trips;
mod support;

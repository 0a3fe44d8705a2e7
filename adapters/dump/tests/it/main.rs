//! Dumps through their one door: what goes in comes out, and what was damaged does not.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod damage;
mod round_trips;
mod support;
mod team;

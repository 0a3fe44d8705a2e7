//! A block of our own in a markdown file of others, between two markers.

/// What begins and ends the block; each stands on a line of its own.
pub const BEGIN: &str = "<!-- reqlore:begin -->";
pub const END: &str = "<!-- reqlore:end -->";

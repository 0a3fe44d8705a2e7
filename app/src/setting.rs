//! What a setting is to people: its names, what it is when nobody says, and what it means.

/// One setting, as people meet it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setting {
    /// Its name in `reqlore.toml`.
    pub(crate) key: &'static str,
    pub(crate) flag: Option<&'static str>,
    pub(crate) variable: Option<&'static str>,
    /// As `reqlore.toml` would spell it; empty means not set.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

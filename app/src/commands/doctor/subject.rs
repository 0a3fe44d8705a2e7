//! One entry of one client, as findings call it.

use std::fmt;

use reqlore_client_config::{Client, Scope};
use reqlore_probe::Hello;

use super::finding::{Area, Findings};
use super::program::{NAME, VERSION};

/// One entry of one client.
pub(super) struct Subject<'a> {
    pub(super) client: Client,
    pub(super) scope: Scope,
    pub(super) file: &'a str,
    pub(super) starts_in_project: bool,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.client.title(), self.file)
    }
}

impl Subject<'_> {
    /// What a server said of itself.
    pub(super) fn judge(&self, how: &str, hello: &Hello, findings: &mut Findings) {
        let Hello { name, version, .. } = hello;
        let message = format!("{self}: {how} as {name} {version}");
        if name != NAME {
            let next = "look whether this entry is meant to start something else";
            findings.warning(Area::Clients, message, next);
        } else if version != VERSION {
            let message = format!("{message}, and this is {VERSION}");
            findings.warning(Area::Clients, message, "update the older one");
        } else {
            findings.ok(Area::Clients, message);
        }
    }

    /// The command that makes it right.
    pub(super) fn init(&self) -> String {
        let scope = match self.scope {
            Scope::Project => "project",
            Scope::User => "user",
        };
        format!("`reqlore init --client {} --scope {scope}`", self.client)
    }
}

//! The one gate before every tool, resource and prompt: role, scope and project (S5 4.3, 4.4, 6.8,
//! 7.9, 8.8).
//!
//! Role and scope are one [`Access`] by now. Which project a call means is found by the tools,
//! within the caller's reach; who reaches none at all gets no further than this.

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller, ProjectScope, Role};
use reqlore_domain::ports::project_resolver::ProjectResolver;

/// May this caller do `what`, which needs `access`?
pub(crate) fn admit(
    projects: &dyn ProjectResolver,
    caller: &Caller,
    access: Access,
    what: &str,
) -> Result<()> {
    let forbidden = |reason: String| Err(Error::new(ErrorKind::Forbidden, reason));
    if !caller.may(access) {
        let way_out = match (&caller.token, caller.role) {
            (None, _) => "this server is read-only",
            (Some(_), Role::Commenter) => "your role is commenter, which reads",
            (Some(_), _) => {
                "your role may write, so your token is of scope read, or this server is read-only"
            }
        };
        return forbidden(format!("{what} writes, and {} may only read: {way_out}.", caller.name));
    }
    if caller.reach == ProjectScope::Anywhere {
        return Ok(());
    }
    let project = &caller.project;
    if caller.reach.includes(project) && projects.keys().contains(project) {
        return Ok(());
    }
    let reason = "This token is only for projects that this server does not have (any more); ask \
                  an administrator for another one.";
    forbidden(reason.to_owned())
}

#[cfg(test)]
mod tests;

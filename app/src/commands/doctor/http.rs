//! A server over http: is there anybody who may use it?

use std::sync::Arc;

use reqlore_domain::identity::{Role, Token, User};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::clock::Clock;
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::time::Timestamp;

use super::finding::{Area, Findings};
use crate::clock::SystemClock;
use crate::composition;
use crate::config::Config;

const FIRST: &str = "add one with `reqlore user add NAME --role administrator`";

pub(super) fn look(config: &Config, store: Option<&Arc<dyn Store>>, findings: &mut Findings) {
    let Some(http) = &config.http else { return };
    let proxy = match http.behind_proxy {
        Some(_) => "behind a proxy that keeps TLS",
        None => "without TLS, for this machine alone",
    };
    findings.ok(Area::Http, format!("listens at {}, {proxy}", http.listen));
    let Some(store) = store else {
        let next = format!("`reqlore user list` lists them; where there is none, {FIRST}");
        return findings.note(Area::Http, "users were not looked at", Some(&next));
    };
    let asked = composition::run(async {
        Ok::<_, StoreError>((store.users().await?, store.tokens().await?))
    });
    match asked {
        Ok(Ok((users, tokens))) => judge(&users, &tokens, SystemClock.now(), findings),
        Ok(Err(error)) => {
            findings.problem(Area::Http, format!("users can't be read: {error}"), "mend that");
        }
        Err(failure) => findings.problem(Area::Http, failure.message, "try again"),
    }
}

fn judge(users: &[User], tokens: &[Token], now: Timestamp, findings: &mut Findings) {
    let active: Vec<&User> = users.iter().filter(|user| user.disabled_at.is_none()).collect();
    if active.is_empty() {
        return findings.problem(Area::Http, "nobody may use it: there is no active user", FIRST);
    }
    let counts = |token: &&Token| {
        token.revoked_at.is_none()
            && token.expires_at > now
            && active.iter().any(|user| user.name.key() == token.user.key())
    };
    let tokens = tokens.iter().filter(counts).count();
    if tokens == 0 {
        let next = "make one with `reqlore token create --user NAME`";
        return findings.problem(Area::Http, "nobody may use it: no token counts", next);
    }
    let text = format!("active users: {}, tokens that count: {tokens}", active.len());
    findings.ok(Area::Http, text);
    if !active.iter().any(|user| user.role == Role::Administrator) {
        let next = "give somebody the role with `reqlore user set-role NAME --role administrator`";
        findings.note(Area::Http, "no active user is an administrator", Some(next));
    }
}

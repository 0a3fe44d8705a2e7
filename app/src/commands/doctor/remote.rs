//! An entry that names a server at an address.
//!
//! The rule: a token goes only where a person decided. A project's file decides nothing, so the
//! server that it names is asked only with `--with-token`, one on this machine too: on a port here
//! anybody who works on the machine may listen. The variable has to be one of Reqlore's then, and
//! what goes out has to be a token of Reqlore's in any case. Nothing goes unencrypted to another
//! machine.

use std::time::Duration;

use reqlore_client_config::Scope;
use reqlore_domain::identity::PresentedToken;
use reqlore_probe::url;

use super::entry::Token;
use super::finding::{Area, Findings};
use super::subject::Subject;
use crate::config::variable;

const TIMEOUT: Duration = Duration::from_secs(10);
/// How variables are called that a project's file may name.
const OURS: &str = "REQLORE_";

pub(super) fn look(
    of: &Subject<'_>,
    url: &str,
    token: &Token,
    with_token: bool,
    findings: &mut Findings,
) {
    // What follows may be a key.
    let named = url.split_once('?').map_or_else(|| url.to_owned(), |(url, _)| format!("{url}?…"));
    if !url::is_loopback(url) && !url::is_encrypted(url) {
        return findings.problem(
            Area::Clients,
            format!("{of}: {named} is not encrypted; a token would be read by all between"),
            "put a proxy with TLS before the server, and name its https:// address",
        );
    }
    if of.scope == Scope::Project && !with_token {
        return findings.note(
            Area::Clients,
            format!("{of}: {named} was not asked, since the project chose it and not you"),
            Some("if you know that server, `reqlore doctor --with-token` asks it"),
        );
    }
    let name = match token {
        Token::Asked => {
            let message =
                format!("{of}: {named} was not asked, since the client asks for the token");
            return findings.note(Area::Clients, message, None);
        }
        Token::None => None,
        Token::Variable(name) => Some(name),
    };
    let token = match name.map(|name| from_environment(of, name)).transpose() {
        Ok(token) => token,
        Err((message, next)) => {
            let message = format!("{of}: {named} was not asked: {message}");
            return findings.warning(Area::Clients, message, &next);
        }
    };
    match url::hello(url, token.as_deref(), TIMEOUT) {
        Ok(hello) => of.judge(&format!("{named} answers"), &hello, findings),
        Err(error) => {
            let message = format!("{of}: {named} {}", error.message);
            findings.problem(Area::Clients, message, &error.next);
        }
    }
}

/// The token, or why there is none to send, and what to do.
fn from_environment(of: &Subject<'_>, name: &str) -> Result<String, (String, String)> {
    if of.scope == Scope::Project && !name.starts_with(OURS) {
        return Err((
            format!("it wants the variable {name}, which is none of Reqlore's"),
            format!("look at {}: whoever wrote it may be after a secret of yours", of.file),
        ));
    }
    let Some(value) = variable(name) else {
        return Err((
            format!("the variable {name} is not set here"),
            format!("set {name} to the token where the client is started, and here"),
        ));
    };
    if PresentedToken::parse(&value).is_none() {
        return Err((
            format!("what the variable {name} holds is no token of Reqlore's"),
            format!("set {name} to what `reqlore token create` printed"),
        ));
    }
    Ok(value)
}

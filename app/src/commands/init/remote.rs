//! What clients are told of a server over http: its address and the variable of the token.
//!
//! Trap: both get into files, so neither may hold the token, and what was mistaken for one of them
//! is not repeated in a message.

use reqlore_domain::identity::redact;
use reqlore_probe::is_loopback;

use crate::exit::CommandError;

/// Longer names of variables are mistakes.
const MAX_NAME: usize = 64;
/// So long a value in a query is more than a choice.
const LONG_VALUE: usize = 16;
const SECRET_NAMES: [&str; 6] = ["token", "key", "secret", "auth", "pass", "sig"];

/// What is wrong with the address is said without the address, which may hold a secret.
pub(super) fn check_url(url: &str) -> Result<(), CommandError> {
    let wrong = |what: &str| Err(CommandError::usage(format!("--url {what}")));
    let Ok(parsed) = url.parse::<http::Uri>() else {
        return wrong(
            "must be the address of the server, like https://reqlore.example.org/api/v1/mcp",
        );
    };
    let (Some(scheme), Some(authority)) = (parsed.scheme_str(), parsed.authority()) else {
        return wrong("must begin with https:// (or http:// for this machine) and name a host");
    };
    if authority.as_str().contains('@') {
        return wrong(
            "must not hold a user and a password: it stands in a file. The token comes from the \
             variable that --token-variable names",
        );
    }
    if redact(url) != url || parsed.query().is_some_and(has_secret) || url.contains('#') {
        return wrong(
            "looks as if it held a token: it stands in a file. The token comes from the variable \
             that --token-variable names",
        );
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_loopback(url) => Ok(()),
        "http" => wrong(
            "must begin with https://, because the token would travel in the clear; http:// is \
             for localhost and 127.0.0.1 alone",
        ),
        _ => wrong("must begin with https://, or with http:// for this machine"),
    }
}

fn has_secret(query: &str) -> bool {
    query.split('&').any(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or(("", pair));
        let name = name.to_lowercase();
        value.len() >= LONG_VALUE || SECRET_NAMES.iter().any(|secret| name.contains(secret))
    })
}

pub(super) fn check_variable(name: &str) -> Result<(), CommandError> {
    let fits =
        |letter: u8| letter.is_ascii_uppercase() || letter.is_ascii_digit() || letter == b'_';
    let is_name = !name.is_empty()
        && name.len() <= MAX_NAME
        && name.bytes().all(fits)
        && !name.starts_with(|first: char| first.is_ascii_digit());
    if is_name {
        return Ok(());
    }
    Err(CommandError::usage(
        "--token-variable must be the name of a variable, in capitals, digits and underscores, \
         like REQLORE_TOKEN. What was given is not repeated here: if it is the token itself, put \
         it into that variable, and it stays out of every file",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(checked: Result<(), CommandError>) -> String {
        checked.err().map(|failure| failure.message).unwrap_or_default()
    }

    #[test]
    fn an_address_holds_no_secret_and_sends_none_in_the_clear() {
        for url in [
            "https://reqlore.example.org/api/v1/mcp",
            "https://reqlore.example.org:8443/api/v1/mcp?project=shop",
            "http://localhost:8080/api/v1/mcp",
            "http://127.0.0.1:8080/api/v1/mcp",
            "http://127.9.9.9/mcp",
            "http://[::1]:8080/api/v1/mcp",
        ] {
            assert_eq!(said(check_url(url)), "", "{url}");
        }
        for (url, reason) in [
            ("", "must be the address"),
            ("reqlore.example.org/api/v1/mcp", "must be"),
            ("/mcp", "must begin with https://"),
            ("ftp://example.org", "must begin with https://"),
            ("http://example.org/mcp", "in the clear"),
            ("http://127.0.0.1.example.org/mcp", "in the clear"),
            ("http://localhost.example.org/mcp", "in the clear"),
            ("https://ada:hunter2@example.org/mcp", "must not hold a user and a password"),
            ("http://localhost@example.org/mcp", "must not hold a user and a password"),
            ("https://example.org/mcp?token=hunter2", "held a token"),
            ("https://example.org/mcp?API_KEY=hunter2", "held a token"),
            ("https://example.org/mcp?x=hunter2hunter2hunter2", "held a token"),
            ("https://example.org/reqlore_pat_hunter2hunter2hunter2", "held a token"),
            ("https://example.org/mcp#hunter2", "held a token"),
        ] {
            let message = said(check_url(url));
            assert!(message.contains(reason), "{url}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_variable_has_a_name_and_no_secret_for_one() {
        for name in ["REQLORE_TOKEN", "_T", "TEAM2"] {
            assert_eq!(said(check_variable(name)), "", "{name}");
        }
        let long = "A".repeat(65);
        for name in ["", "2TEAM", "A B", "A=B", "${A}", "hunter2", "reqlore_pat_hunter2", &long] {
            let message = said(check_variable(name));
            assert!(message.contains("must be the name of a variable"), "{name}: {message}");
            assert!(name.is_empty() || !message.contains(name), "{message}");
        }
    }
}

//! Events in, lines out.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::time::Timestamp;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";
const TOKEN: &str = "reqlore_pat_Ab3dEf6hIj9l_0123456789abcdefghijklmnopqrstuv_A1b2C3";

/// What is written while this runs.
fn logged(format: Format, filter: &str, act: impl FnOnce()) -> Vec<String> {
    let written = Arc::new(Mutex::new(Vec::new()));
    let kept = written.clone();
    let write = move |line: &str| kept.lock().unwrap().push(line.to_owned());
    let at = Timestamp::parse("2026-11-22T07:48:05Z").unwrap();
    let clock = Timestamp(at.0 + 7_999_999);
    let lines = Lines::new(format, false, Arc::new(clock), write);
    let lines = lines.with_filter(targets(filter).ok().unwrap());
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), act);
    std::mem::take(&mut written.lock().unwrap())
}

fn json_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

// S5: 5.1, 5.2
#[test]
fn a_line_tells_when_how_bad_where_and_for_which_call() {
    let act = || {
        let span = tracing::info_span!("call", tool = "list_epics", id = %"c0ffee");
        span.in_scope(|| tracing::warn!(target: "x", tries = 3, why = "so so", "it is slow"));
        tracing::info!(target: "x", "ready");
    };
    assert_eq!(
        logged(Format::Text, "info", act),
        [
            "2026-11-22T07:48:05.007Z  WARN x: it is slow id=c0ffee tries=3 why=\"so so\" \
             tool=list_epics\n",
            "2026-11-22T07:48:05.007Z  INFO x: ready\n",
        ]
    );
    let lines = logged(Format::Json, "info", act);
    assert_eq!(
        json_of(&lines[0]),
        json!({
            "timestamp": "2026-11-22T07:48:05.007Z",
            "severity": "WARN",
            "target": "x",
            "id": "c0ffee",
            "message": "it is slow",
            "fields": { "tries": 3, "why": "so so", "tool": "list_epics" },
        })
    );
    assert_eq!(json_of(&lines[1])["message"], "ready");
}

#[test]
fn the_innermost_field_of_a_name_counts_and_later_ones_are_seen() {
    let lines = logged(Format::Json, "info", || {
        let outer = tracing::info_span!("a", id = "outer", user = tracing::field::Empty);
        let _outer = outer.enter();
        outer.record("user", "ann");
        let _inner = tracing::info_span!("b", id = "inner").entered();
        tracing::info!("seen");
    });
    let line = json_of(&lines[0]);
    assert_eq!((&line["id"], &line["fields"]["user"]), (&json!("inner"), &json!("ann")));
}

/// Everywhere a text can stand: message, field, span, later field, Debug, error, panic.
fn tell(text: &str) {
    let span = tracing::info_span!("call", uri = text, later = tracing::field::Empty);
    span.record("later", text);
    let error = Error::new(ErrorKind::Internal, text);
    let cause = &error as &dyn std::error::Error;
    span.in_scope(|| tracing::error!(field = text, shown = ?[text], error = cause, "{text}"));
}

// S5: 5.3
#[test]
fn no_secret_gets_into_a_line_wherever_it_stands() {
    for secret in [
        TOKEN.to_owned(),
        format!("Authorization: Bearer {SECRET}"),
        format!("postgres://me:{SECRET}@db/x"),
    ] {
        for format in [Format::Text, Format::Json] {
            let lines = logged(format, "trace", || tell(&secret)).concat();
            assert_eq!(lines.matches("****").count(), 6, "{lines}");
            for part in SECRET.as_bytes().windows(8) {
                assert!(!lines.contains(std::str::from_utf8(part).unwrap()), "{lines}");
            }
        }
    }
}

#[test]
fn a_line_stays_one_line_and_commands_no_terminal() {
    let strange = "one\ntwo\r\n\u{1b}[2J\u{85}\u{2028}three\" severity=\"INFO\" \\";
    let text = logged(Format::Text, "trace", || tell(strange));
    let controls =
        |line: &str| line.trim_end().chars().filter(|letter| letter.is_control()).count();
    assert_eq!((text.len(), text[0].lines().count(), controls(&text[0])), (1, 1, 0), "{text:?}");
    assert!(text[0].contains(r#" field="one\ntwo\r\n\u{1b}[2J\u{85}\u{2028}three\" "#), "{text:?}");
    let json = logged(Format::Json, "trace", || tell(strange));
    assert_eq!((json.len(), json[0].lines().count()), (1, 1), "{json:?}");
    assert_eq!(json_of(&json[0])["fields"]["uri"], strange);
}

#[test]
fn a_text_without_end_is_cut_after_its_secrets_were_hidden() {
    let long = format!("{}{TOKEN}", "é ".repeat(22 * 1024 - 10));
    let line = logged(Format::Text, "info", || tracing::info!("{long}")).concat();
    assert!(line.len() < 70 * 1024 && line.contains('…'), "{}", line.len());
    assert!(!line.contains(&SECRET[..8]));
}

// S5: 5.7
#[test]
fn a_panic_is_one_line_with_its_place_and_a_backtrace() {
    fn faulty() {
        panic!("no {TOKEN}\nfor you");
    }
    for format in [Format::Text, Format::Json] {
        let lines = logged(format, "error", || {
            let before = std::panic::take_hook();
            panics::report_as_events();
            let span = tracing::error_span!("call", id = "c0ffee");
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| span.in_scope(faulty)));
            std::panic::set_hook(before);
            assert!(outcome.is_err());
        });
        assert_eq!((lines.len(), lines[0].lines().count()), (1, 1), "{lines:?}");
        assert!(!lines[0].contains(SECRET), "{lines:?}");
        for part in ["ERROR", "c0ffee", "tests.rs:", "faulty", r"9l_****\nfor you", "thread"] {
            assert!(lines[0].contains(part), "no {part} in {lines:?}");
        }
    }
}

// S5: 5.7
#[test]
fn the_backtrace_of_an_internal_error_shows_where_it_arose() {
    fn faulty() -> Error {
        Error::new(ErrorKind::Internal, "a fault")
    }
    let error = faulty();
    let lines = logged(Format::Json, "error", || {
        let backtrace = error.backtrace().map(tracing::field::display);
        tracing::error!(id = "c0ffee", message = error.message, backtrace, "internal error");
    });
    let line = json_of(&lines[0]);
    assert!(line["fields"]["backtrace"].as_str().unwrap().contains("faulty"), "{line}");
}

#[test]
fn levels_are_checked_and_the_protocol_is_quiet() {
    for wrong in ["loud", "info,loud"] {
        assert!(targets(wrong).err().unwrap().message.contains("use error, warn"), "{wrong}");
    }
    let act = || {
        tracing::info!(target: "rmcp::service", "chatter");
        tracing::error!(target: "rmcp::service", "trouble");
        tracing::debug!(target: "x", "detail");
    };
    assert_eq!(logged(Format::Text, "info", act).len(), 1);
    assert_eq!(logged(Format::Text, "debug,rmcp=info", act).len(), 3);
    assert_eq!(logged(Format::Text, "off", act).len(), 0);
    assert_eq!("json".parse(), Ok(Format::Json));
    assert_eq!("JSON".parse::<Format>(), Err(()));
}

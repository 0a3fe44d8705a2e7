//! Log lines of events, spans and panics.

use std::io::Seek;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind};

use super::*;

const SECRET: &str = "0123456789abcdefghijklmnopqrstuv";
const TOKEN: &str = "reqlore_pat_Ab3dEf6hIj9l_0123456789abcdefghijklmnopqrstuv_A1b2C3";

/// Returns the text that is logged while `action` runs.
fn logged(format: LogFormat, filter: &str, action: impl FnOnce()) -> String {
    let mut file = tempfile::tempfile().unwrap();
    let targets = parse_targets(filter).ok().unwrap();
    let writer = Arc::new(file.try_clone().unwrap());
    let lines = log_lines(format, false, shows_modules(&targets), writer).with_filter(targets);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), action);
    file.rewind().unwrap();
    std::io::read_to_string(file).unwrap()
}

#[test]
fn log_lines_have_module_paths_only_above_the_default_level() {
    for (filter, has_module) in
        [("info", false), ("warn", false), ("debug", true), ("info,reqlore=debug", true)]
    {
        let line = logged(LogFormat::Text, filter, || tracing::warn!("words"));
        assert_eq!(line.contains("telemetry"), has_module, "{filter}: {line}");
    }
}

/// Returns the only line that is logged as JSON, without its time.
fn json_of(action: impl FnOnce()) -> Value {
    let mut line: Value = serde_json::from_str(&logged(LogFormat::Json, "info", action)).unwrap();
    let time = line.as_object_mut().unwrap().remove("timestamp").unwrap();
    assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
    line
}

// S5: 5.1, 5.2
#[test]
fn line_has_time_level_call_id_and_fields() {
    let action = || {
        let span = tracing::info_span!("call", tool = "list_epics", id = %"c0ffee");
        span.in_scope(|| tracing::warn!(target: "x", tries = 3, why = "so so", "it is slow"));
    };
    let text = logged(LogFormat::Text, "info", action);
    let line = "Z  WARN call{tool=list_epics id=c0ffee}: it is slow tries=3 why=\"so so\"\n";
    assert!(text.ends_with(line), "{text}");
    let fields = json!({ "tries": 3, "why": "so so", "tool": "list_epics" });
    assert_eq!(
        json_of(action),
        json!({
            "severity": "WARN", "target": "x", "id": "c0ffee", "message": "it is slow",
            "fields": fields,
        })
    );
}

#[test]
fn inner_span_field_hides_outer_and_later_fields_appear() {
    let line = json_of(|| {
        let outer = tracing::info_span!("a", id = "outer", user = tracing::field::Empty);
        let _outer = outer.enter();
        outer.record("user", "ann");
        let _inner = tracing::info_span!("b", id = "inner").entered();
        tracing::info!("seen");
    });
    assert_eq!((&line["id"], &line["fields"]["user"]), (&json!("inner"), &json!("ann")));
}

/// Logs the text in every part of a line: message, field, span, later field, `Debug` and error.
fn log_everywhere(text: &str) {
    let span = tracing::info_span!("call", uri = text, later = tracing::field::Empty);
    span.record("later", text);
    let error = Error::new(ErrorKind::Internal, text);
    let cause = &error as &dyn std::error::Error;
    span.in_scope(|| tracing::error!(field = text, shown = ?[text], error = cause, "{text}"));
}

// S5: 5.3
#[test]
fn secret_is_redacted_in_every_part_of_a_line() {
    for secret in [
        TOKEN.to_owned(),
        format!("Authorization: Bearer {SECRET}"),
        format!("postgres://me:{SECRET}@db/x"),
    ] {
        for format in [LogFormat::Text, LogFormat::Json] {
            let lines = logged(format, "trace", || log_everywhere(&secret));
            assert_eq!(lines.matches("****").count(), 6, "{lines}");
            for part in SECRET.as_bytes().windows(8) {
                assert!(!lines.contains(std::str::from_utf8(part).unwrap()), "{lines}");
            }
        }
    }
}

#[test]
fn control_characters_are_escaped() {
    let strange = "one\ntwo\r\n\u{1b}[2J\u{85}\u{2028}three\" severity=\"INFO\" \\";
    let text = logged(LogFormat::Text, "trace", || log_everywhere(strange));
    assert_eq!(text.chars().filter(|c| c.is_control()).count(), 1, "{text:?}");
    assert!(text.contains(r#" field="one\ntwo\r\n\u{1b}[2J\u{85}\u{2028}three\" "#), "{text:?}");
    let line = json_of(|| log_everywhere(strange));
    assert_eq!(line["fields"]["uri"], strange);
}

#[test]
fn long_text_is_cut_after_redaction() {
    let long = format!("{}{TOKEN}", "é ".repeat(22 * 1024 - 10));
    let line = logged(LogFormat::Text, "info", || tracing::info!("{long}"));
    assert!(line.len() < 70 * 1024 && line.contains('…'), "{}", line.len());
    assert!(!line.contains(&SECRET[..8]));
}

// S5: 5.7
#[test]
fn panic_is_one_line_with_location_and_backtrace() {
    fn faulty() {
        panic!("no {TOKEN}\nfor you");
    }
    for format in [LogFormat::Text, LogFormat::Json] {
        let line = logged(format, "error", || {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(log_panic));
            let span = tracing::error_span!("call", id = "c0ffee");
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| span.in_scope(faulty)));
            std::panic::set_hook(before);
            assert!(outcome.is_err());
        });
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(!line.contains(SECRET), "{line}");
        for part in ["ERROR", "c0ffee", "tests.rs:", "faulty", r"9l_****\nfor you", "thread"] {
            assert!(line.contains(part), "no {part} in {line}");
        }
    }
}

// S5: 5.7
#[test]
fn backtrace_of_an_internal_error_shows_its_origin() {
    fn faulty() -> Error {
        Error::new(ErrorKind::Internal, "a fault")
    }
    let error = faulty();
    let line = json_of(|| {
        let backtrace = error.backtrace().map(tracing::field::display);
        tracing::error!(id = "c0ffee", message = error.message, backtrace, "internal error");
    });
    assert!(line["fields"]["backtrace"].as_str().unwrap().contains("faulty"), "{line}");
}

#[test]
fn invalid_level_is_rejected_and_rmcp_logs_only_errors() {
    for wrong in ["loud", "info,loud"] {
        assert!(parse_targets(wrong).err().unwrap().message.contains("use error, warn"), "{wrong}");
    }
    let action = || {
        tracing::info!(target: "rmcp::service", "chatter");
        tracing::error!(target: "rmcp::service", "trouble");
        tracing::debug!(target: "x", "detail");
    };
    for (filter, lines) in [("info", 1), ("debug,rmcp=info", 3), ("off", 0)] {
        assert_eq!(logged(LogFormat::Text, filter, action).lines().count(), lines, "{filter}");
    }
}

//! What holds for any JSON with comments, however it is written.

use proptest::prelude::*;
use reqlore_client_config::{Trace, edit};
use serde_json::{Map, Value};

use super::{JSON, command, ink, put, take, url};

/// White space and comments, which may stand anywhere.
fn gap() -> impl Strategy<Value = String> {
    let gaps = ["", "", " ", "\n", "\n    ", "\t", "\n\n", "/* \" { , */", " // } \" ,\n", "/**/"];
    prop::collection::vec(prop::sample::select(gaps.to_vec()), 0..3).prop_map(|gaps| gaps.concat())
}

fn key() -> impl Strategy<Value = String> {
    let keys = ["a", "b // c", "{", "\\\"", "ü\\u00fc", "\\ud83d\\ude00", "env", "command", "url"];
    prop::sample::select(keys.to_vec()).prop_map(|key| format!("\"{key}\""))
}

fn value() -> impl Strategy<Value = String> {
    let scalars =
        ["1", "-0.5e3", "null", "true", "\"\"", "\"/* } */\"", "\"\\\\\"", "\"//\"", "[]"];
    let scalar = prop::sample::select(scalars.to_vec()).prop_map(str::to_owned);
    scalar.prop_recursive(3, 12, 3, |inner| {
        let items = prop::collection::vec((gap(), inner.clone(), gap()), 0..3);
        let array = (items, gap(), any::<bool>()).prop_map(|(items, end, comma)| {
            let items: Vec<String> =
                items.into_iter().map(|(before, item, after)| before + &item + &after).collect();
            format!("[{}]", listed(&items, &end, comma))
        });
        prop_oneof![array, object(prop::collection::vec((key(), inner), 0..3))]
    })
}

/// An object with these properties; of two with the same key only the first is written.
fn object(
    properties: impl Strategy<Value = Vec<(String, String)>>,
) -> impl Strategy<Value = String> {
    let gaps = prop::collection::vec((gap(), gap(), gap(), gap()), 8);
    (properties, gaps, gap(), any::<bool>()).prop_map(|(mut properties, gaps, end, comma)| {
        let mut seen = std::collections::HashSet::new();
        properties.retain(|(key, _)| seen.insert(key.clone()));
        let properties: Vec<String> = properties
            .into_iter()
            .zip(gaps)
            .map(|((key, value), (a, b, c, d))| format!("{a}{key}{b}:{c}{value}{d}"))
            .collect();
        format!("{{{}}}", listed(&properties, &end, comma))
    })
}

fn listed(items: &[String], end: &str, comma: bool) -> String {
    let comma = if comma && !items.is_empty() { "," } else { "" };
    format!("{}{comma}{end}", items.join(","))
}

/// A client's file: with servers or without, ours among them or not.
fn file() -> impl Strategy<Value = String> {
    let ours = object(prop::collection::vec((key(), value()), 0..4));
    let ours = prop::option::of(ours.prop_map(|ours| ("\"reqlore\"".to_owned(), ours)));
    let servers = object(with(ours, 3));
    let servers =
        prop::option::of(servers.prop_map(|servers| ("\"mcp\\u0053ervers\"".to_owned(), servers)));
    let around = (gap(), gap(), any::<bool>(), any::<bool>());
    (object(with(servers, 2)), around).prop_map(|(root, (before, after, has_bom, has_cr))| {
        let bom = if has_bom { "\u{feff}" } else { "" };
        let text = format!("{bom}{before}{root}{after}");
        if has_cr { text.replace('\n', "\r\n") } else { text }
    })
}

/// Other properties, and this one somewhere among them.
fn with(
    one: impl Strategy<Value = Option<(String, String)>>,
    others: usize,
) -> impl Strategy<Value = Vec<(String, String)>> {
    let others = prop::collection::vec((key(), value()), 0..=others);
    (one, others, any::<prop::sample::Index>()).prop_map(|(one, mut others, at)| {
        if let Some(one) = one {
            others.insert(at.index(others.len() + 1), one);
        }
        others
    })
}

/// What a strict reader sees, without comments and trailing commas; read in another way than the
/// product does.
fn plain(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}');
    let mut plain = String::new();
    let mut rest = text.chars().peekable();
    while let Some(sign) = rest.next() {
        match (sign, rest.peek()) {
            ('"', _) => {
                plain.push('"');
                while let Some(sign) = rest.next() {
                    plain.push(sign);
                    match sign {
                        '\\' => plain.extend(rest.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ('/', Some('/')) => while rest.next_if(|sign| *sign != '\n').is_some() {},
            ('/', _) => {
                let mut before = ' ';
                rest.next();
                while let Some(sign) = rest.next().filter(|sign| (before, *sign) != ('*', '/')) {
                    before = sign;
                }
            }
            ('}' | ']', _) => {
                let is_trailing = plain.trim_end().ends_with(',');
                plain.truncate(plain.trim_end().len() - usize::from(is_trailing));
                plain.push(sign);
            }
            _ => plain.push(sign),
        }
    }
    if plain.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(&plain).unwrap_or_else(|error| panic!("{error}\n{text}\n{plain}"))
}

/// What isn't ours.
fn others(text: &str) -> Value {
    let mut value = plain(text);
    let root = value.as_object_mut().expect("an object");
    let servers = root.entry("mcpServers").or_insert_with(|| Value::Object(Map::new()));
    servers.as_object_mut().expect("an object").shift_remove("reqlore");
    value
}

proptest! {
    #![proptest_config(super::cases(250))]

    #[test]
    fn any_file_keeps_all_that_is_not_ours(text in file()) {
        let first = put(&text, JSON, &command());
        let read = plain(&first)["mcpServers"]["reqlore"]["command"].clone();
        prop_assert_eq!(read, "reqlore");
        let second = put(&first, JSON, &url());
        let read: Value = plain(&second)["mcpServers"]["reqlore"].clone();
        prop_assert_eq!(edit::find(&second, JSON), Ok(Some(read)));
        let taken = take(&second, JSON);
        for after in [&first, &second, &taken] {
            prop_assert_eq!(others(after).to_string(), others(&text).to_string(), "{}", after);
        }
        let undone = Trace::between(&first, &second).undo(&second).expect("the second edit");
        prop_assert_eq!(&undone, &first);
    }

    #[test]
    fn any_file_keeps_every_sign_around_our_entry(text in file()) {
        let without = take(&text, JSON);
        let with = put(&without, JSON, &command());
        let again = take(&with, JSON);
        if ink(&plain(&text).to_string()).contains("\"mcpServers\"") {
            prop_assert_eq!(ink(&again), ink(&without), "{}", with);
        } else {
            prop_assert_eq!(&without, &text);
        }
        let mut rest = ink(&with).into_bytes().into_iter();
        prop_assert!(ink(&without).bytes().all(|byte| rest.any(|other| other == byte)), "{}", with);
        let is_windows = text.contains("\r\n");
        prop_assert_eq!(is_windows && with.replace("\r\n", "").contains('\n'), false, "{:?}", with);
        prop_assert_eq!(text.ends_with('\n'), with.ends_with('\n'));
    }

    #[test]
    fn a_damaged_file_is_edited_well_or_not_at_all(
        text in file(),
        cut in any::<prop::sample::Index>(),
        length in 0..3_usize,
        signs in "[\"{}\\[\\],:/*\\\\\n 1au]{0,3}",
    ) {
        // Half of the pair would be too much for the reader of this test.
        let mut text: Vec<char> = text.replace("\\ud83d\\ude00", "x").chars().collect();
        let at = cut.index(text.len() + 1);
        text.splice(at..(at + length).min(text.len()), signs.chars());
        let text: String = text.into_iter().collect();
        match edit::put(&text, JSON, &command()) {
            Ok(_) => prop_assert_eq!(others(&put(&text, JSON, &command())), others(&text)),
            Err(refused) => prop_assert!(refused.to_string().ends_with("again"), "{}", refused),
        }
        if let Ok(taken) = edit::take(&text, JSON) {
            prop_assert_eq!(others(&taken), others(&text));
        }
    }
}

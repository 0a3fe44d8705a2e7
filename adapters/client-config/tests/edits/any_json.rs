//! Properties of any JSON with comments, however it is written.

use jsonc_parser::{CollectOptions, ParseOptions};
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{
    JSON, check_characters_stay, check_damaged, check_other_values_stay, command, put, take,
    without_space,
};

/// White space and comments, which are valid between any two tokens.
fn gap() -> impl Strategy<Value = String> {
    let gaps = ["", "", " ", "\n", "\n    ", "\t", "\n\n", "/* \" { , */", " // } \" ,\n", "/**/"];
    prop::collection::vec(prop::sample::select(gaps.to_vec()), 0..3).prop_map(|gaps| gaps.concat())
}

fn key() -> impl Strategy<Value = String> {
    let keys = ["a", "b // c", "{", "\\\"", "ü\\u00fc", "\\ud83d\\ude00", "env", "command", "url"];
    prop::sample::select(keys.to_vec()).prop_map(|key| format!("\"{key}\""))
}

fn value() -> impl Strategy<Value = String> {
    let values = [
        "1",
        "-0.5e3",
        "null",
        "true",
        "\"\"",
        "\"/* } */\"",
        "\"\\\\\"",
        "\"//\"",
        "[]",
        "[ 1,2 , ]",
        "[{\"url\": []}, // ]\n {}\n]",
        "{\n\t\"a\": { \"}\": [[ ]] },\n}",
        "{\"url\":{/* , */}}",
    ];
    prop::sample::select(values.to_vec()).prop_map(str::to_owned)
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

/// Up to `others` properties, with this one at a random position.
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

fn parse(text: &str) -> Value {
    let text = text.trim_start_matches('\u{feff}');
    let parsed =
        jsonc_parser::parse_to_ast(text, &CollectOptions::default(), &ParseOptions::default());
    let value = parsed.unwrap_or_else(|error| panic!("{error}\n{text}")).value;
    value.map_or_else(|| Value::Object(Map::new()), Value::from)
}

/// Everything except our entry.
fn others(text: &str) -> String {
    let mut value = parse(text);
    let root = value.as_object_mut().expect("an object");
    let servers = root.entry("mcpServers").or_insert_with(|| Value::Object(Map::new()));
    servers.as_object_mut().expect("an object").shift_remove("reqlore");
    value.to_string()
}

proptest! {
    #![proptest_config(super::cases(250))]

    #[test]
    fn edit_keeps_all_other_values(text in file()) {
        check_other_values_stay(&text, JSON, others);
    }

    #[test]
    fn edit_keeps_every_character_around_the_entry(text in file()) {
        let without = check_characters_stay(&text, JSON);
        let again = take(&put(&without, JSON, &command()), JSON);
        if parse(&text).get("mcpServers").is_some() {
            prop_assert_eq!(without_space(&again), without_space(&without));
        } else {
            prop_assert_eq!(&without, &text);
        }
    }

    #[test]
    fn damaged_file_is_edited_correctly_or_rejected(
        text in file(),
        at in any::<usize>(),
        length in 0..3_usize,
        signs in "[\"{}\\[\\],:/*\\\\\n 1au]{0,3}",
    ) {
        // The parser rejects half of the pair, which the product accepts.
        let text = text.replace("\\ud83d\\ude00", "x");
        check_damaged(&text, (at, length, &signs), JSON, others);
    }
}

//! A second YAML parser, a port of libyaml, reads the same keys and values.

use proptest::prelude::*;
use serde_norway::Value;

use super::*;
use crate::yaml::YamlValue;

/// Checks that the second parser reads the value of a node. It also has types.
fn assert_same(value: &Value, node: &YamlNode, text: &str) {
    match (value, &node.value) {
        (Value::Null, YamlValue::Null) => {}
        (Value::String(value), YamlValue::Scalar(found)) => assert_eq!(found, value, "{text:?}"),
        (Value::Bool(_) | Value::Number(_), YamlValue::Scalar(found)) => {
            assert_eq!(&serde_norway::from_str::<Value>(found).unwrap(), value, "{text:?}");
        }
        (Value::Sequence(values), YamlValue::List(nodes)) => {
            assert_eq!(values.len(), nodes.len(), "{text:?}");
            values.iter().zip(nodes).for_each(|(value, node)| assert_same(value, node, text));
        }
        (Value::Mapping(values), YamlValue::Map(entries)) => {
            assert_eq!(values.len(), entries.len(), "{text:?}");
            for ((key, value), entry) in values.iter().zip(entries) {
                if let Value::String(key) = key {
                    assert_eq!(key, &entry.key, "{text:?}");
                }
                assert_same(value, &entry.node, text);
            }
        }
        (value, found) => panic!("{value:?} is read as {found:?}: {text:?}"),
    }
}

/// Compares both readings of front matter. False if one of them finds an error.
fn is_read_by_both(text: &str) -> bool {
    let parts = split(text);
    let (Some(yaml), Ok(front_matter)) = (parts.yaml, parse(parts)) else { return false };
    let Ok(value) = serde_norway::from_str::<Value>(yaml) else { return false };
    if front_matter.duplicate.is_none() && value != Value::Null {
        let position = yaml::SourcePosition { line: 1, column: 1, span: 0..0 };
        let value_of_keys = YamlValue::Map(front_matter.entries);
        let root = YamlNode { position, is_alias: false, value: value_of_keys };
        assert_same(&value, &root, text);
    }
    true
}

#[test]
fn usual_values_are_read_as_by_a_second_parser() {
    for yaml in [
        "title: Fix #12 now",
        "title: \"Fix #12 now\" # remark",
        "title: 'it''s'",
        "title: a\n  b\n  c",
        "title: |\n  a\n  b",
        "title: >-\n  a\n  b\n\n  c",
        "title: \"a\\tb\\u00e9\\\n  c\"",
        "title: http://a.b/c?d=e&f#g",
        "title: 010",
        "title: 1.50",
        "title: no",
        "title: true",
        "title: ~",
        "title:",
        "title: # nothing",
        "tags: [a, 'b, c', \"d\"]",
        "tags: [\n  a, # one\n  b,\n]",
        "tags:\n- a\n- b",
        "tags:\n  - a\n  # remark\n  - \"b: c\"",
        "affects: [[REQ-001]]",
        "affects: \"[[REQ-001]]\"",
        "affects: REQ-001, REQ-002",
        "depends_on: [{id: x, type: blocks}]",
        "depends_on:\n  - id: x\n    type: blocks\n  - y",
        "depends_on: [dec-1d2c8f: why]",
        "linked: {US-001: \"12\", REQ-2: 3f9a1c}",
        "date: 2026-11-26 09:00",
        "a: &x {b: 1}\nc: *x",
        "größe: \u{e9}\u{1f980}",
        "\"quoted key\": v",
        "a: - b",
        "a:   b   ",
    ] {
        for end in ["\n", "\r\n"] {
            let text = format!("---\n{yaml}\nz: last\n---\nbody\n").replace('\n', end);
            let is_invalid = yaml == "a: - b";
            assert_eq!(is_read_by_both(&text), !is_invalid, "{text:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn edited_values_are_read_by_a_second_parser(
        texts in prop::collection::vec("(?s).{0,12}|[-#:!&*\\[\\]{}'\"|>%@` a]{1,8}", 1..5),
        title in "[ -~]{1,12}",
    ) {
        let texts: Vec<String> = texts;
        let items = KeyEdit { key: "items", value: Some(FieldValue::List(texts.clone())) };
        let text = edit("", &[set("first", &*texts[0]), items, set("title", &*title)]).unwrap();
        let value: Value = serde_norway::from_str(split(&text).yaml.unwrap()).unwrap();
        prop_assert_eq!(&value["first"], &Value::String(texts[0].clone()), "{}", text);
        let found: Vec<&str> =
            value["items"].as_sequence().unwrap().iter().filter_map(Value::as_str).collect();
        prop_assert_eq!(found, texts.iter().map(String::as_str).collect::<Vec<_>>(), "{}", text);
        prop_assert!(is_read_by_both(&text));
    }

    #[test]
    fn any_line_is_read_as_by_a_second_parser(
        lines in prop::collection::vec("[a-c]{1,2}: ?[-#:'\", \\[\\]a-z0-9.~é]{0,10}| {1,3}(- )?[a-z:#]{1,4}", 1..4),
    ) {
        is_read_by_both(&format!("---\n{}\n---\nbody\n", lines.join("\n")));
    }
}

//! Parses YAML into an untyped tree with source positions.
//!
//! Scalars keep their source spelling: `010` is not ten and `no` is not false.

mod plain;
mod syntax_errors;
mod tree;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

pub use self::tree::{SourcePosition, YamlEntry, YamlNode, YamlTree, YamlValue, find_key};

use self::syntax_errors::explain_syntax_error;
use crate::diagnostic::Diagnostic;

/// The parsing rules for a kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YamlDialect {
    /// Ignores unknown tags.
    FrontMatter,
    /// Rejects unknown tags.
    Configuration,
}

const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 32;

impl YamlDialect {
    fn max_aliases(self) -> usize {
        if self == Self::FrontMatter { 20 } else { 100 }
    }

    fn options(self) -> Options {
        let mut options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                // Untrusted files: bounds time and memory, also against alias bombs.
                max_documents: 1,
                max_nodes: MAX_NODES,
                max_events: 4 * MAX_NODES,
                max_depth: MAX_DEPTH,
                flow_nesting_limit: MAX_DEPTH,
                max_aliases: self.max_aliases(),
                max_anchors: self.max_aliases(),
                max_merge_keys: self.max_aliases(),
                max_recorded_anchor_events: MAX_NODES,
                max_recorded_anchor_bytes: 4 << 20,
            },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: MAX_NODES,
                max_replay_stack_depth: MAX_DEPTH,
            },
            // The tree reports duplicates itself, with a position.
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
            // `no` and `on` stay text, as in YAML 1.2.
            strict_booleans: true,
            reject_unsupported_tags: self == Self::Configuration,
            non_finite_float_policy: serde_saphyr::NonFiniteFloatPolicy::PassThrough,
            // Messages must be short; diagnostics have a position anyway.
            with_snippet: false,
        };
        if let (Self::FrontMatter, Some(budget)) = (self, &mut options.budget) {
            // A configuration is already bounded by its file size.
            budget.max_total_scalar_bytes = 1 << 20;
        }
        options
    }
}

/// Parses a text within the limits of its dialect.
pub fn parse_yaml(text: &str, dialect: YamlDialect) -> Result<YamlTree, Diagnostic> {
    match plain::parse_plain(text) {
        Some(tree) => Ok(tree),
        None => parse_any(text, dialect),
    }
}

fn parse_any(text: &str, dialect: YamlDialect) -> Result<YamlTree, Diagnostic> {
    let root: Option<Spanned<RawNode>> =
        serde_saphyr::from_str_with_options(text, dialect.options())
            .map_err(|error| explain_error(&error, dialect))?;
    let mut duplicate = None;
    let root = match root {
        Some(raw) => build_node(raw, text, &mut duplicate),
        None => {
            YamlNode { position: source_position(None), is_alias: false, value: YamlValue::Null }
        }
    };
    Ok(YamlTree { root, duplicate })
}

fn source_position(location: Option<Location>) -> SourcePosition {
    let location = location.unwrap_or(Location::UNKNOWN);
    let start = to_usize(location.span().byte_offset().unwrap_or_default());
    let length = to_usize(location.span().byte_len().unwrap_or_default());
    SourcePosition {
        // Positions of an unknown location are 0.
        line: to_usize(location.line()).max(1),
        column: to_usize(location.column()).max(1),
        span: start..start.saturating_add(length),
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Rephrases a parser error for the author of the text.
fn explain_error(error: &Error, dialect: YamlDialect) -> Diagnostic {
    let inner = match error {
        // The wrapped error names the cause.
        Error::AliasError { error, .. } => error,
        error => error,
    };
    let message = match inner {
        Error::UnknownAnchor { .. } => {
            "this alias has no anchor; define the anchor above with '&', or quote the text"
                .to_owned()
        }
        Error::UnsupportedTag { tag, .. } => {
            format!("the tag {} is not supported; remove it", quote_excerpt(tag))
        }
        Error::MultipleDocuments { .. }
        | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second YAML document begins here; only one is supported; remove this line".to_owned()
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "the YAML is too large; use at most {MAX_NODES} values, {MAX_DEPTH} levels and {} \
             aliases",
            dialect.max_aliases()
        ),
        Error::Unexpected { expected: "string scalar", .. } | Error::NullIntoString { .. } => {
            "this key must be text; quote it or remove it".to_owned()
        }
        other => {
            let reason = UserMessageFormatter.format_message(other);
            explain_syntax_error(&reason).to_owned()
        }
    };
    source_position(error.location()).diagnostic(message)
}

/// Quotes the first 64 characters of an untrusted text for a message.
pub(crate) fn quote_excerpt(text: &str) -> String {
    let short: String = text.chars().take(64).collect();
    if short.len() == text.len() { format!("{short:?}") } else { format!("{short:?}…") }
}

/// A deserialized node. Typed scalars get their source spelling in [`build_node`].
enum RawNode {
    Null,
    Text(String),
    /// A scalar that the parser read as a number or a boolean.
    Typed,
    List(Vec<Spanned<RawNode>>),
    Map(Vec<(Spanned<String>, Spanned<RawNode>)>),
}

fn build_node(raw: Spanned<RawNode>, source: &str, duplicate: &mut Option<Diagnostic>) -> YamlNode {
    let value = match raw.value {
        RawNode::Null => YamlValue::Null,
        RawNode::Text(text) => YamlValue::Scalar(text),
        RawNode::Typed => {
            // At the definition, because an alias has no text of its own.
            let spelling = source.get(source_position(Some(raw.defined)).span);
            YamlValue::Scalar(spelling.unwrap_or_default().trim().to_owned())
        }
        RawNode::List(items) => YamlValue::List(
            items.into_iter().map(|raw| build_node(raw, source, duplicate)).collect(),
        ),
        RawNode::Map(pairs) => {
            let mut entries: Vec<YamlEntry> = Vec::with_capacity(pairs.len());
            for (key, raw) in pairs {
                let node = build_node(raw, source, duplicate);
                let (key, key_at) = (key.value, source_position(Some(key.referenced)));
                // The first value wins, as in every text with a duplicate key.
                if find_key(&entries, &key).is_none() {
                    entries.push(YamlEntry { key, key_position: key_at, node });
                // One diagnostic per file is enough.
                } else if duplicate.is_none() {
                    let message =
                        format!("the key {} is duplicated; keep one", quote_excerpt(&key));
                    *duplicate = Some(key_at.diagnostic(message));
                }
            }
            YamlValue::Map(entries)
        }
    };
    // The definition of an alias is at its anchor.
    let is_alias = raw.referenced != raw.defined;
    YamlNode { position: source_position(Some(raw.referenced)), is_alias, value }
}

impl<'de> Deserialize<'de> for RawNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

macro_rules! typed {
    ($($visit:ident: $type:ty),*) => {$(
        fn $visit<E>(self, _: $type) -> Result<RawNode, E> {
            Ok(RawNode::Typed)
        }
    )*};
}

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawNode;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text, a list or a map")
    }

    fn visit_unit<E>(self) -> Result<RawNode, E> {
        Ok(RawNode::Null)
    }

    typed!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_i128: i128, visit_u128: u128);
    typed!(visit_f64: f64);

    fn visit_str<E>(self, text: &str) -> Result<RawNode, E> {
        Ok(RawNode::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(RawNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawNode, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }
        Ok(RawNode::Map(pairs))
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use proptest::prelude::*;

    use super::*;

    const SPECIAL_WORDS: [&str; 11] =
        ["null", "~", "true", "No", "NaN", "#", "#a", ":", "a:", "-", ""];

    /// Texts that are mostly plain.
    fn sample_texts() -> impl Strategy<Value = String> {
        let word = prop_oneof![
            8 => "[a-zA-Z0-9é]{1,6}",
            4 => "[-+0-9a-fxobeEn._:TZ,]{1,12}",
            2 => "[ -~\u{80}-\u{a0}\u{2028}é🦀\t]{1,5}",
            3 => proptest::sample::select(&SPECIAL_WORDS).prop_map(str::to_owned),
        ];
        let value = prop::collection::vec(word, 1..4).prop_map(|words| words.join(" "));
        let key = prop_oneof![8 => "[a-c][a-z_-]{0,2}", 1 => "[ -~]{0,4}"];
        let line = prop_oneof![
            8 => (key.clone(), value.clone()).prop_map(|(key, value)| format!("{key}: {value}")),
            2 => (key.clone(), prop::collection::vec(value.clone(), 0..4))
                .prop_map(|(key, items)| format!("{key}: [{}]", items.join(", "))),
            3 => (key, 0..4_usize, prop::collection::vec(value.clone(), 0..4)).prop_map(
                |(key, indent, items)| {
                    let indent = " ".repeat(indent);
                    let items: Vec<_> =
                        items.iter().map(|item| format!("\n{indent}- {item}")).collect();
                    format!("{key}:{}", items.concat())
                }
            ),
            1 => value,
        ];
        let lines = prop::collection::vec(line, 0..5);
        (lines, prop_oneof![Just(""), Just("---\n")], prop_oneof![Just(""), Just("\n")])
            .prop_map(|(lines, fence, end)| format!("{fence}{}{end}", lines.join("\n")))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

        #[test]
        fn plain_text_has_the_tree_of_the_yaml_parser(text in sample_texts()) {
            if let Some(tree) = plain::parse_plain(&text) {
                prop_assert_eq!(Ok(tree), parse_any(&text, YamlDialect::FrontMatter));
            }
        }
    }

    #[test]
    fn usual_front_matter_is_plain() {
        for text in [
            "---\nid: dec-0001\ntype: decision\ntitle: Pay by card, \"now\" & é\n",
            "---\ncreated_at: 2026-01-02T03:04:05Z\ntags: [a, b c]\nrelates_to:\n  - x\n  - y z\n",
            "title: One",
        ] {
            assert_eq!(plain::parse_plain(text), parse_any(text, YamlDialect::FrontMatter).ok());
        }
    }

    fn parse(text: &str) -> YamlTree {
        parse_yaml(text, YamlDialect::FrontMatter).unwrap()
    }

    fn scalar<'a>(tree: &'a YamlTree, key: &str) -> Option<&'a str> {
        find_key(tree.root.entries(), key)?.text()
    }

    #[test]
    fn scalar_keeps_its_spelling_and_position() {
        let text = "a: 010\nb: no\nc: 1.0\nd: '2'\ne: ~\nf: 2026-01-04\ng: 1e3\nh: true # yes\n\
                    i: \"x\\ty\"\nj: 0x1F\nk: .5\nl: 123456789012345678901234567890\nm: é🦀 x\nn: 7\n";
        let tree = parse(text);
        assert_eq!(tree.duplicate, None);
        for (key, expected) in [
            ("a", "010"),
            ("b", "no"),
            ("c", "1.0"),
            ("d", "2"),
            ("f", "2026-01-04"),
            ("g", "1e3"),
            ("h", "true"),
            ("i", "x\ty"),
            ("j", "0x1F"),
            ("k", ".5"),
            ("l", "123456789012345678901234567890"),
            ("m", "é🦀 x"),
            ("n", "7"),
        ] {
            assert_eq!(scalar(&tree, key), Some(expected), "{key}");
        }
        let entries = tree.root.entries();
        assert_eq!(entries[4].node.value, YamlValue::Null);
        assert_eq!((entries[0].node.position.line, entries[13].key_position.line), (1, 14));
        assert_eq!(&text[entries[3].node.position.span.clone()], "'2'");
        assert_eq!(&text[entries[12].node.position.span.clone()], "é🦀 x");
    }

    #[test]
    fn invalid_yaml_is_reported_with_its_line() {
        let mut alias_bomb = "l0: &l0 [x]\n".to_owned();
        for level in 1..9 {
            let aliases = vec![format!("*l{}", level - 1); 9].join(",");
            writeln!(alias_bomb, "l{level}: &l{level} [{aliases}]").unwrap();
        }
        let deep = "a: ".to_owned() + &"[".repeat(250_000);
        for (text, line, message) in [
            ("a: 1\nb: [1, 2\nc: 3\n", 3, ""),
            ("a:\n\t- x\n", 2, ""),
            ("a: *nowhere\n", 1, "anchor"),
            ("a: 1\n---\nb: 2\n", 2, "second YAML document"),
            (&alias_bomb, 4, "at most"),
            (&deep, 1, ""),
        ] {
            let error = parse_yaml(text, YamlDialect::FrontMatter).unwrap_err();
            let start: String = text.chars().take(40).collect();
            assert_eq!(error.line, Some(line), "{start}: {error:?}");
            assert!(error.message.contains(message) && !error.message.is_empty(), "{error:?}");
        }
        assert_eq!(parse("").root.value, YamlValue::Null);
        assert_eq!(parse("# nothing\n").root.value, YamlValue::Null);
    }

    #[test]
    fn alias_is_resolved_and_first_duplicate_key_wins() {
        let merged = parse("a: &base {x: 1, y: 2}\nb: {<<: *base, x: 3}\n");
        let merged = find_key(merged.root.entries(), "b").unwrap().entries();
        assert_eq!(find_key(merged, "x").and_then(YamlNode::text), Some("3"));
        assert_eq!(find_key(merged, "y").and_then(YamlNode::text), Some("2"));
        let tree = parse("a: &me Kevin\nb: *me\na: other\nc: {d: 1, d: 2}\n");
        assert_eq!((scalar(&tree, "a"), scalar(&tree, "b")), (Some("Kevin"), Some("Kevin")));
        let is_alias = |key| find_key(tree.root.entries(), key).unwrap().is_alias;
        assert!(is_alias("b") && !is_alias("a"));
        assert_eq!(tree.root.entries().len(), 3);
        let duplicate = tree.duplicate.unwrap();
        assert_eq!(
            (duplicate.line, duplicate.message.contains("\"a\" is duplicated")),
            (Some(3), true)
        );
    }
}

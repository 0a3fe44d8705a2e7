//! YAML that people wrote, as a tree with lines: front matter of any shape.
//!
//! Scalars stay text as they were written: `010` is no ten and `no` is no false. Whoever knows the
//! shape beforehand (the docsets' configuration) reads into types of its own.

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Options, Spanned};

/// What is wrong with a text, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1.
    pub column: usize,
    pub reason: String,
}

/// A value and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Counted from 1, within the text that was read.
    pub line: usize,
    pub value: Value,
}

/// What YAML can say, without its types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Null,
    Scalar(String),
    List(Vec<Node>),
    /// In the order of the text; no key twice.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The text of a scalar that is not blank, without the spaces around it.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text.trim()).filter(|text| !text.is_empty()),
            _ => None,
        }
    }

    /// The value under a key of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else { return None };
        entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The items of a list; of anything else itself.
    pub fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }
}

/// A map that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map {
    /// In the order of the text; of two equal keys the first.
    pub entries: Vec<(String, Node)>,
    /// What should be mended in it all the same.
    pub fault: Option<Fault>,
}

const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 32;
const MAX_ALIASES: usize = 20;

/// How much a text may ask of us (reliability 6).
fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_depth: MAX_DEPTH,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_documents: 1,
            max_total_scalar_bytes: 1 << 20,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: MAX_DEPTH,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Reads a map; an empty text is an empty one.
pub fn read_map(text: &str) -> Result<Map, Fault> {
    let read: Result<Option<Spanned<Raw>>, _> =
        serde_saphyr::from_str_with_options(text, options());
    let empty = Map { entries: Vec::new(), fault: None };
    let Some(raw) = read.map_err(|error| fault(&error))? else { return Ok(empty) };
    let mut twice = None;
    match node(raw, text, &mut twice) {
        Node { value: Value::Map(entries), .. } => Ok(Map { entries, fault: twice }),
        Node { value: Value::Null, .. } => Ok(empty),
        Node { line, .. } => {
            let reason = "keys with values are expected here, such as `title: …`".to_owned();
            Err(Fault { line, column: 1, reason })
        }
    }
}

/// The place and the words of a reader's error.
fn fault(error: &Error) -> Fault {
    let number = |value: u64| usize::try_from(value).unwrap_or(1).max(1);
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (number(location.line()), number(location.column())));
    let reason = explain(error).unwrap_or_else(|| {
        let words = error.without_snippet().to_string();
        // The place is told by us.
        let words = words.split(" at line ").next().unwrap_or_default();
        words.trim_end_matches([':', ' ']).replace(char::is_control, " ")
    });
    Fault { line, column, reason }
}

/// An error in words for whoever wrote the text, where the reader's own are for programmers.
fn explain(error: &Error) -> Option<String> {
    let inner = match error {
        Error::AliasError { error, .. } => error,
        error => error,
    };
    Some(match inner {
        Error::UnknownAnchor { .. } => {
            "this alias names an anchor that is not there; put the text in quotes".to_owned()
        }
        Error::MultipleDocuments { .. }
        | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "a second YAML document begins here, and only one is read".to_owned()
        }
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => format!(
            "too large or too deeply nested; at most {MAX_NODES} values, {MAX_DEPTH} levels and \
             {MAX_ALIASES} aliases are read"
        ),
        _ => return None,
    })
}

/// What the reader tells of a node before its source is looked up.
enum Raw {
    Null,
    Text(String),
    /// Something that the reader took for a number or a truth value: its source says what it was.
    Typed,
    List(Vec<Spanned<Raw>>),
    Map(Vec<(String, Spanned<Raw>)>),
}

/// `twice` gets the first key that stands there a second time.
fn node(raw: Spanned<Raw>, source: &str, twice: &mut Option<Fault>) -> Node {
    let line = usize::try_from(raw.referenced.line()).unwrap_or(1);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => Value::Scalar(text),
        Raw::Typed => Value::Scalar(written(&raw, source)),
        Raw::List(items) => {
            Value::List(items.into_iter().map(|raw| node(raw, source, twice)).collect())
        }
        Raw::Map(entries) => {
            let mut known: Vec<(String, Node)> = Vec::with_capacity(entries.len());
            for (key, raw) in entries {
                let node = node(raw, source, twice);
                if known.iter().all(|(other, _)| *other != key) {
                    known.push((key, node));
                } else if twice.is_none() {
                    let reason = format!("the key {key:?} is there twice; the first one counts");
                    *twice = Some(Fault { line: node.line, column: 1, reason });
                }
            }
            Value::Map(known)
        }
    };
    Node { line, value }
}

fn written(raw: &Spanned<Raw>, source: &str) -> String {
    let span = raw.defined.span();
    let number = |value: Option<u64>| value.and_then(|value| usize::try_from(value).ok());
    let (start, length) = (number(span.byte_offset()), number(span.byte_len()));
    let part = start.zip(length).and_then(|(start, length)| source.get(start..start + length));
    part.unwrap_or_default().trim().to_owned()
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text, a list or keys with values")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Raw, D::Error> {
        Raw::deserialize(deserializer)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Raw, E> {
        Ok(Raw::Typed)
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary values are not supported"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Raw, A::Error> {
        let mut entries: Vec<(String, Spanned<Raw>)> = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, _>()? {
            entries.push((key, value));
        }
        Ok(Raw::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalar<'a>(map: &'a [(String, Node)], key: &str) -> Option<&'a str> {
        map.iter().find(|(name, _)| name == key)?.1.text()
    }

    #[test]
    fn scalars_stay_as_they_were_written() {
        let Map { entries: map, fault } = read_map(
            "a: 010\nb: no\nc: 1.0\nd: '2'\ne: ~\nf: 2026-01-04\
             \ng: 1e3\nh: true # yes\ni: \"x\\ty\"\n\
             j: 0x1F\nk: .5\nl: 123456789012345678901234567890\nm: é🦀 x\nn: 7\n",
        )
        .unwrap();
        assert_eq!(fault, None);
        for (key, text) in [
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
            assert_eq!(scalar(&map, key), Some(text), "{key}");
        }
        assert_eq!(map[4].1.value, Value::Null);
        assert_eq!((map[0].1.line, map[13].1.line), (1, 14));
    }

    // Catalogue 67
    #[test]
    fn faults_name_their_line() {
        let level =
            |at: usize| format!("l{at}: &l{at} [{}]\n", vec![format!("*l{}", at - 1); 9].join(","));
        let bomb = "l0: &l0 [x]\n".to_owned() + &(1..9).map(level).collect::<String>();
        let deep = "a: ".to_owned() + &"[".repeat(250_000);
        for (text, line, says) in [
            ("a: 1\nb: [1, 2\nc: 3\n", 3, ""),
            ("a:\n\t- x\n", 2, ""),
            ("a: *nowhere\n", 1, "anchor"),
            ("- a\n- b\n", 1, "keys with values"),
            ("just words\n", 1, "keys with values"),
            (&bomb, 4, "at most"),
            (&deep, 1, ""),
        ] {
            let fault = read_map(text).unwrap_err();
            let shown: String = text.chars().take(40).collect();
            assert_eq!(fault.line, line, "{shown}: {fault:?}");
            assert!(fault.reason.contains(says) && !fault.reason.is_empty(), "{fault:?}");
        }
        assert!(read_map("a: 1\n---\nb: 2\n").is_err(), "two documents");
        let empty = Ok(Map { entries: vec![], fault: None });
        assert_eq!(read_map(""), empty);
        assert_eq!(read_map("# nothing\n"), empty);
    }

    #[test]
    fn anchors_are_followed_and_of_two_equal_keys_the_first_counts() {
        let map = read_map("a: &me Kevin\nb: *me\na: other\nc: {d: 1, d: 2}\n").unwrap();
        let fault = map.fault.unwrap();
        assert_eq!(
            (scalar(&map.entries, "a"), scalar(&map.entries, "b")),
            (Some("Kevin"), Some("Kevin"))
        );
        assert_eq!((fault.line, fault.reason.contains("\"a\" is there twice")), (3, true));
        assert_eq!(map.entries.len(), 3);
    }
}

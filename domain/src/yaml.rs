//! YAML that people wrote, as a tree with lines: front matter of any shape.
//!
//! Scalars stay text as they were written: `010` is no ten and `no` is no false. Whoever knows the
//! shape beforehand (the docsets' configuration) reads into its own types with the same
//! [`options`].

use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Options, Spanned};

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

/// How much a text may ask of us (reliability 6); duplicate keys are errors.
pub fn options(max_aliases: usize) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: 20_000,
            max_depth: 32,
            max_aliases: max_aliases,
            max_anchors: max_aliases,
            max_documents: 1,
            max_total_scalar_bytes: 1 << 20,
        },
        strict_booleans: true,
        with_snippet: false,
    }
}

/// Reads a map; an empty text is an empty one.
pub fn read_map(text: &str) -> Result<Vec<(String, Node)>, Fault> {
    let read: Result<Option<Spanned<Raw>>, _> =
        serde_saphyr::from_str_with_options(text, options(0));
    match read.map_err(|error| fault(&error))? {
        None => Ok(Vec::new()),
        Some(raw) => match node(raw, text) {
            Node { value: Value::Map(entries), .. } => Ok(entries),
            Node { value: Value::Null, .. } => Ok(Vec::new()),
            Node { line, .. } => {
                let reason = "keys with values are expected here, such as `title: …`".to_owned();
                Err(Fault { line, column: 1, reason })
            }
        },
    }
}

/// The place and the words of a reader's error.
pub fn fault(error: &serde_saphyr::Error) -> Fault {
    let number = |value: u64| usize::try_from(value).unwrap_or(1).max(1);
    let (line, column) = error
        .location()
        .map_or((1, 1), |location| (number(location.line()), number(location.column())));
    let words = error.without_snippet().to_string();
    // The place is told by us.
    let reason = words.split(" at line ").next().unwrap_or_default();
    Fault { line, column, reason: reason.trim_end_matches([':', ' ']).to_owned() }
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

fn node(raw: Spanned<Raw>, source: &str) -> Node {
    let line = usize::try_from(raw.referenced.line()).unwrap_or(1);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Text(text) => Value::Scalar(text),
        Raw::Typed => Value::Scalar(written(&raw, source)),
        Raw::List(items) => Value::List(items.into_iter().map(|raw| node(raw, source)).collect()),
        Raw::Map(entries) => {
            Value::Map(entries.into_iter().map(|(key, raw)| (key, node(raw, source))).collect())
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
            if entries.iter().any(|(known, _)| *known == key) {
                return Err(A::Error::custom(format!("the key {key:?} is there twice")));
            }
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
        let map = read_map(
            "a: 010\nb: no\nc: 1.0\nd: '2'\ne: ~\nf: 2026-01-04\ng: 1e3\nh: true # yes\ni: \"x\\ty\"\n\
             j: 0x1F\nk: .5\nl: 123456789012345678901234567890\nm: é🦀 x\nn: 7\n",
        )
        .unwrap();
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
        let bomb = "a: &a [1,1,1]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n".to_owned();
        let deep = "a: ".to_owned() + &"[".repeat(250_000);
        for (text, line, says) in [
            ("a: 1\nb: [1, 2\nc: 3\n", 3, ""),
            ("a: 1\na: 2\n", 2, "uplicate"),
            ("a:\n\t- x\n", 2, ""),
            ("a: *nowhere\n", 1, "anchor"),
            ("- a\n- b\n", 1, "keys with values"),
            ("just words\n", 1, "keys with values"),
            (&bomb, 1, ""),
            (&deep, 1, ""),
        ] {
            let fault = read_map(text).unwrap_err();
            let shown: String = text.chars().take(40).collect();
            assert_eq!(fault.line, line, "{shown}: {fault:?}");
            assert!(fault.reason.contains(says) && !fault.reason.is_empty(), "{fault:?}");
        }
        assert!(read_map("a: 1\n---\nb: 2\n").is_err(), "two documents");
        assert_eq!(read_map(""), Ok(vec![]));
        assert_eq!(read_map("# nothing\n"), Ok(vec![]));
    }
}

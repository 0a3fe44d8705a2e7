//! Text files with a byte order mark.

use super::{FORMATS, ImportMapping, SourceFile};
use std::io::Cursor;

const SOURCES: [(&str, &str, &str); 12] = [
    ("openspec", "specs/a/spec.md", "# A\n\n### Requirement: B\nText\n"),
    ("kiro", ".kiro/specs/a/requirements.md", "# A\n\n### Requirement 1: B\n\nText\n"),
    ("spec-kit", "specs/1-a/spec.md", "# Feature Specification: A\n"),
    ("backlog-md", "backlog/tasks/1.md", "---\nid: 1\ntitle: A\nstatus: Done\n---\nText\n"),
    ("doorstop", "a/.doorstop.yml", "settings:\n  prefix: A\n"),
    ("strictdoc", "a.sdoc", "[DOCUMENT]\nTITLE: A\n"),
    ("markdown", "a.md", "# A\n\nText\n"),
    ("csv", "a.csv", "Title,Kind\nA,epic\n"),
    ("github", "a.json", r#"[{"number": 1, "title": "A"}]"#),
    ("needs-json", "a.json", r#"{"versions": {"1": {"needs": {"A": {"title": "A"}}}}}"#),
    ("reqif", "a.reqif", "<REQ-IF><SPEC-OBJECT IDENTIFIER=\"A\"/></REQ-IF>"),
    ("json", "a.json", r#"{"items": [{"reference_id": "A", "kind": "epic", "title": "A"}]}"#),
];

fn read_bytes(path: &str, bytes: &[u8]) -> (&'static str, Result<Vec<String>, String>) {
    let beginning = String::from_utf8_lossy(bytes);
    let format = FORMATS.iter().find(|format| format.recognizes(path, &beginning)).unwrap();
    let content = Box::new(Cursor::new(bytes.to_vec()));
    let file = SourceFile { path: path.to_owned(), content };
    let read = format.read(vec![file], &mut ImportMapping::default());
    let titles = |item: super::ImportedItem| item.title;
    (format.name(), read.map(|read| read.items.into_iter().map(titles).collect()))
}

#[test]
fn byte_order_marks_of_utf8_are_ignored() {
    for (format, path, text) in SOURCES {
        let expected = read_bytes(path, text.as_bytes());
        assert_eq!(expected.0, format);
        assert!(expected.1.as_ref().is_ok_and(|titles| !titles.is_empty()), "{expected:?}");
        assert_eq!(read_bytes(path, format!("\u{feff}{text}").as_bytes()), expected);
    }
}

#[test]
fn utf16_is_refused() {
    for (_, path, text) in SOURCES.iter().filter(|(format, ..)| *format != "doorstop") {
        for encode in [u16::to_le_bytes, u16::to_be_bytes] {
            let units = "\u{feff}".encode_utf16().chain(text.encode_utf16());
            let bytes: Vec<u8> = units.flat_map(encode).collect();
            let error = read_bytes(path, &bytes).1.unwrap_err();
            assert!(error.starts_with(&format!("{path}: it is UTF-16; save it as ")), "{error}");
        }
    }
}

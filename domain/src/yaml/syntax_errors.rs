//! Replaces the messages of the YAML parser by sentences for authors.

/// Words of the parser's messages, and the sentence for authors. The first match counts.
const SYNTAX_ERRORS: [(&[&str], &str); 6] = [
    (
        &["escape", "hexadecimal"],
        "`\\` begins an unknown escape; write `\\\\`, or use single quotes",
    ),
    (&["tab"], "a tab is used instead of spaces; indent with spaces"),
    (&["quote"], "a text in quotes does not end, or more follows it; quote the whole value"),
    (
        &["bracket", "flow sequence", "flow mapping", "placement of ':'"],
        "a bracket is not closed, or a text has `: ` in it; close the bracket, or quote the text",
    ),
    (
        &["expected key", "'-'", "indent", "block scalar"],
        "the line does not fit those above; align it, or quote it",
    ),
    (
        &["mapping", "simple key", "sequence entries"],
        "the line has a second `: ` or a `- `, or is not `key: value`; quote the text",
    ),
];
const OTHER_SYNTAX_ERROR: &str =
    "this is special in YAML or not allowed; quote the text, or remove it";

/// The parser's words are for programmers, so its message only selects a sentence.
pub(super) fn explain_syntax_error(reason: &str) -> &'static str {
    let has_words = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    let known = SYNTAX_ERRORS.iter().find(|(words, _)| has_words(words));
    known.map_or(OTHER_SYNTAX_ERROR, |(_, message)| message)
}

#[cfg(test)]
mod tests {
    use crate::yaml::{YamlDialect, parse_yaml};

    /// Invalid texts, and words of their sentences.
    const INVALID_TEXTS: &[(&str, &str)] = &[
        ("a:\n\tb: 1\n", "a tab"),
        ("a: \"x\nb: 1\n", "in quotes"),
        ("a: 'x\nb: 1\n", "in quotes"),
        ("a: \"x\" y\n", "in quotes"),
        ("a: 'x' y\n", "in quotes"),
        ("a: [1, 2\nb: 1\n", "a bracket is not closed"),
        ("a: {b: 1\nc: 1\n", "a bracket is not closed"),
        ("a: [1}\n", "a bracket is not closed"),
        ("a: ]\n", "a bracket is not closed"),
        ("a: [x] y\n", "does not fit"),
        ("a: \"\\d\"\n", "unknown escape"),
        ("a: \"\\xZZ\"\n", "unknown escape"),
        ("a: b: c\n", "`: `"),
        ("a: - b\n", "`- `"),
        ("a: 1\nb\n", "`key: value`"),
        ("a\nb: 1\n", "`key: value`"),
        ("- a\nb: 1\n", "does not fit"),
        ("a: 1\n b: 2\n", "second"),
        ("a:\n  b: 1\n c: 2\n", ""),
        ("? a\n? [\n", ""),
        ("a: ? b\n", ""),
        ("a: @b\n", "special"),
        ("a: `b`\n", "special"),
        ("a: %b\n", ""),
        ("%YAML 9\n%YAML 9\n---\na: 1\n", ""),
        ("%FOO\n", ""),
        ("a: &\n", ""),
        ("a: *\n", ""),
        ("a: *b c\n", ""),
        ("a: &b *c\n", "does not fit"),
        ("a: !<x\n", ""),
        ("a: !x!y z\n", "special"),
        ("a: |x\n", "does not fit"),
        ("a: >9\n b\n", ""),
        ("a: |\n\tb\n", ""),
        ("a: |\n   b\n  c\n", ""),
        ("a: \u{7}\n", "not allowed"),
        ("a: \u{fffe}\n", ""),
        ("a: b\n... c\n", ""),
        ("--- a: 1\n", ""),
        ("[a: {]}\n", ""),
        ("<<: 1\n", ""),
        ("a: {<<: [1]}\n", ""),
        ("a: *a\n", "no anchor"),
        ("a: &a [*a]\n", "special"),
        ("{a: 1, [b]: 2}\n", "must be text"),
        ("{{a: 1}: 2}\n", "must be text"),
        ("<<<<<<< HEAD\na: 1\n=======\na: 2\n>>>>>>> x\n", ""),
    ];

    #[test]
    fn syntax_errors_have_our_own_words() {
        for (text, message) in INVALID_TEXTS {
            for dialect in [YamlDialect::FrontMatter, YamlDialect::Configuration] {
                let Err(error) = parse_yaml(text, dialect) else { continue };
                assert!(error.message.contains(message), "{text:?}: {error:?}");
                assert!(error.message.contains("; "), "without a fix: {text:?}: {error:?}");
                for word in [
                    "expected",
                    "mapping",
                    "sequence",
                    "scalar",
                    "token",
                    "flow",
                    "simple key",
                    "context",
                    "scanner",
                    "parser",
                    "unclosed",
                    "indicator",
                    "construct",
                    "stream",
                    "saphyr",
                    "serde",
                    "invalid type",
                    "deserializ",
                    "recursive",
                    "Rc",
                    "node",
                    "illegal",
                    "encountered",
                    "while parsing",
                    "correct the YAML",
                ] {
                    assert!(!error.message.contains(word), "{text:?}: {error:?}");
                }
            }
        }
    }
}

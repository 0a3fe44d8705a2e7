//! Invalid configurations: each diagnostic has file, line, column and a fix.

use std::fmt::Write as _;

use super::super::{DocsetConfig, MAX_CONFIG_BYTES, format_diagnostic};
use super::FOLDER;

/// The errors of a configuration, or those of single docsets.
fn errors(text: &str) -> Vec<String> {
    let errors = match DocsetConfig::parse(text, FOLDER) {
        Ok(configuration) => configuration.docset_errors,
        Err(errors) => errors,
    };
    errors.iter().map(format_diagnostic).collect()
}

#[track_caller]
fn check(text: &str, position: &str, message: &str) {
    let found = errors(text);
    let start = format!(".knowledge/config.yaml:{position}: ");
    let is_expected = found[0].starts_with(&start) && found[0].contains(message);
    assert!(is_expected, "{found:?}\n{}", text.chars().take(300).collect::<String>());
}

// S3: REQ-4.1, REQ-4.2; catalogue 67
#[test]
fn invalid_yaml_is_reported_with_its_position() {
    for (text, position, message) in [
        (
            "docsets:\n  react: {version: 1}\n  react: {version: 2}\n",
            "3:3",
            "is duplicated; keep one",
        ),
        ("x: 1\nx: 2\ndocsets:\n", "2:1", "\"x\" is duplicated"),
        ("docsets:\n  a: {version: 1, version: 2}\n", "2:19", "is duplicated; keep one"),
        ("docsets:\n\treact: {}\n", "2:2", "a tab"),
        ("docsets:\n  react: *nope\n", "2:10", "this alias has no anchor"),
        ("docsets:\n  react: !!python/object:os.system {}\n", "2:36", "is not supported"),
        ("docsets: !include /etc/passwd\n", "1:19", "is not supported"),
        ("docsets:\n  a: {version: !include /etc/passwd}\n", "2:25", "is not supported"),
        ("docsets: {}\n---\ndocsets: {}\n", "2:1", "a second YAML document"),
        ("\u{feff}docsets:\r\n  a:\r\n    version: [1]\r\n", "3:14", "text is expected here"),
        ("docsets:\n  a: {version: 'x\n", "2:16", "in quotes does not end"),
        ("docsets:\n  a:\n    version: 1\n   aliases: []\n", "4:4", "does not fit"),
        ("docsets:\n  a: {aliases: r}\n", "2:16", "a list is expected"),
        ("docsets:\n  a: {aliases: [~]}\n", "2:17", "text is expected here"),
        ("docsets:\n  [a]: {}\n", "2:3", "this key must be text"),
        ("docsets:\n  ~: {}\n", "2:3", "this key must be text"),
        ("docsets:\n  - react\n", "2:5", "properties (`key: value`) are expected"),
        ("docsets:\n  - name: a\n  -\n", "3:4", "properties (`key: value`) are expected"),
        ("- a\n", "1:1", "properties (`key: value`) are expected"),
        ("hello\n", "1:1", "properties (`key: value`) are expected"),
        ("docsets:\n  a\0b: {}\n", "2:4", "special in YAML"),
    ] {
        check(text, position, message);
    }
}

// S3: REQ-4.4
#[test]
fn missing_docsets_section_is_reported_with_an_example() {
    for text in ["", "# only\n# comments\n", "docs_root: docs\n", "\u{feff}"] {
        check(
            text,
            "1:1",
            "the section docsets is missing; add it, for instance:\ndocsets:\n  react:\n",
        );
    }
    check("x: 1\ndocset: {a: }\n", "2:1", "did you mean `docsets`?");
    for text in ["x: 1\ndocsets: hello\n", "x: 1\ndocsets: 1.5\n", "x: 1\ndocsets: true\n"] {
        check(text, "2:10", "a map of docsets or a list is expected");
    }
}

// S3: REQ-7.1, REQ-7.5; catalogue 44
#[test]
fn name_version_or_path_with_invalid_characters_is_rejected() {
    for name in
        ["../x", "a/b", "a\\b", ".hidden", "-rf", "_a", "a b", "a'b", "50%", "ä", "", "a\u{a0}"]
    {
        let quoted = name.replace('\'', "''");
        check(&format!("docsets:\n  '{quoted}': {{}}\n"), "2:3", "is not a docset name");
        check(&format!("docsets:\n  - name: '{quoted}'\n"), "2:11", "is not a docset name");
        check(
            &format!("docsets:\n  a: {{aliases: [b, '{quoted}']}}\n"),
            "2:20",
            "is not a docset name",
        );
    }
    check("docsets:\n  \"a\\nb\": {}\n", "2:3", "is not a docset name");
    check("docsets:\n  - id: my docs\n    name: x\n", "2:9", "is not a docset name");
    check(&format!("docsets:\n  {}: {{}}\n", "x".repeat(65)), "2:3", "has 1 to 64");
    assert!(DocsetConfig::parse(&format!("docsets: {{{}: }}", "x".repeat(64)), FOLDER).is_ok());
    for version in ["..", "1..2", "1/2", "1 2", "1\\2", "", "1%"] {
        check(&format!("docsets:\n  a:\n    version: '{version}'\n"), "3:14", "is not a version");
    }
    for (path, message) in [("", "1 to 1000"), ("~/docs", "not expanded"), ("a\tb", "control")] {
        check(&format!("docs_root: \"{path}\"\ndocsets:\n"), "1:12", message);
    }
}

#[test]
fn duplicate_name_or_alias_in_any_case_is_rejected() {
    check(
        "docsets:\n  a: {}\n  b:\n    aliases: [a]\n",
        "4:15",
        "\"a\" is taken by \"a\" on line 2",
    );
    check("docsets:\n  a: {aliases: [x]}\n  b: {aliases: [x]}\n", "3:17", "is taken");
    check("docsets:\n  a: {}\n  A: {}\n", "3:3", "rename one");
    check("docsets: [{name: a}, {name: a}]\n", "1:29", "is taken");
    check("docsets: {a: {aliases: [a]}}\n", "1:25", "is taken");
    let same = DocsetConfig::parse("docsets: {react: {aliases: [React, REACT]}}", FOLDER);
    assert!(same.is_ok(), "one docset may have both");
}

// S3: REQ-7.5
#[test]
fn all_errors_are_reported_in_line_order() {
    let text = "template: ''\ndocsets:\n  a: {version: 1/2, template: ' '}\n  b: {local_path: /etc}\n  a b:\n";
    let found = errors(text);
    let positions: Vec<&str> = found.iter().map(|error| &error[23..27]).collect();
    assert_eq!(positions, ["1:11", "3:16", "3:31", "4:19", "5:3:"], "{found:?}");
}

// Catalogue 67: the parser has a budget, so the test measures no time.
#[test]
fn yaml_above_a_size_limit_is_rejected() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(",");
        writeln!(bomb, "a{level}: &a{level} [{aliases}]").unwrap();
    }
    check(&(bomb + "docsets: *a8\n"), "5:10", "at most 20000 values");
    check(&format!("x: {}", "[".repeat(500_000)), "1:36", "special in YAML");
    check(&format!("x:\n  {}", "- ".repeat(250_000)), "2:65", "32 levels");
    check(&format!("x: [{}]\ndocsets:", "1,".repeat(30_000)), "1:39999", "at most 20000 values");
    check(&format!("x: &a 1\ny: [{}]\ndocsets:", "*a,".repeat(200)), "2:305", "100 aliases");
    let anchors: Vec<String> = (0..200).map(|n| format!("k{n}: &n{n} 1\n")).collect();
    check(&(anchors.concat() + "docsets:"), "101:13", "at most");
    check(&format!("docsets:\n#{}", "x".repeat(MAX_CONFIG_BYTES)), "1:1", "shorten it");
    let huge = format!("template: '{}'\ndocsets:", "{keywords}".repeat(51));
    check(&huge, "1:11", "at most 50 variables");
    check(&format!("template: '{}'\ndocsets:", "x".repeat(10_001)), "1:11", "at most 10000");
}

//! Splitting, rendering and editing of front matter.

mod second_reader;

use proptest::prelude::*;

use super::field_value::render_scalar;
use super::*;
use crate::yaml::{self, YamlNode};

#[test]
fn text_is_split_into_front_matter_and_body() {
    for (text, yaml, body) in [
        ("---\nid: x\n---\nbody\n", Some("id: x\n"), "body\n"),
        ("\u{feff}---\r\nid: x\r\n---\r\n\r\nbody", Some("id: x\r\n"), "\r\nbody"),
        ("---\nid: x\n...\nbody", Some("id: x\n"), "body"),
        ("---  \nid: x\n---\t\n", Some("id: x\n"), ""),
        ("---\nid: x\n---", Some("id: x\n"), ""),
        ("---\n---\nbody", Some(""), "body"),
        ("# Title\n---\nid: x\n---\n", None, "# Title\n---\nid: x\n---\n"),
        ("---\nid: x\nno end\n", None, "---\nid: x\nno end\n"),
        ("----\nid: x\n---\n", None, "----\nid: x\n---\n"),
        ("", None, ""),
        ("---", None, "---"),
    ] {
        let parts = split(text);
        assert_eq!((parts.yaml, parts.body), (yaml, body), "{text:?}");
    }
}

#[test]
fn diagnostic_has_the_line_of_the_file() {
    let front_matter = parse(split("---\nid: x\nid: y\n---\n")).unwrap();
    assert_eq!(front_matter.duplicate.unwrap().line, Some(3));
    let error = parse(split("---\nid: x\nt: T: colon\n---\n")).unwrap_err();
    assert_eq!(error.line, Some(3));
    let error = parse(split("---\n- a\n---\n")).unwrap_err();
    assert!(error.line == Some(2) && error.message.contains("has no keys"), "{error:?}");
}

#[test]
fn lines_of_invalid_front_matter_are_salvaged() {
    let text = "---\nid: dec-1d2c8f\ntitle: T: colon\ntags: [a\nquoted: 'x y' # z\nl: [b]\n---\n";
    let entries = salvage_lines(split(text));
    for (key, value) in [
        ("id", Some("dec-1d2c8f")),
        ("title", Some("T: colon")),
        ("tags", None),
        ("quoted", Some("x y")),
        ("none", None),
    ] {
        assert_eq!(yaml::find_key(&entries, key).and_then(YamlNode::text), value, "{key}");
    }
    assert_eq!(yaml::find_key(&entries, "l").unwrap().items()[0].position.line, 6);
}

#[test]
fn scalar_is_quoted_unless_every_parser_reads_it_as_text() {
    for plain in [
        "Reset the password",
        "it's \"quoted\" inside",
        "a:b #c",
        "0192f3a0-7b1c-7def-8a90-3f9a1c20aabb",
        "Überweisung [alt]",
        "🚀 Start",
        "(draft) a, b",
        "3 tries",
    ] {
        let expected = if plain == "a:b #c" { format!("\"{plain}\"") } else { plain.to_owned() };
        assert_eq!(render_scalar(plain, false), expected);
    }
    let odd = "\n a\na \na: b\na:\na #b\n- a\n? a\n[a\n{a\n*a\n&a\n!a\n%a\n@a\n`a\n|\n>\n'a'\n\"a\"\n#a\n~\n\
               null\nYes\nno\n1.0\n1e3\n0x1F\n1_000\n12:30\n2026-11-22\n2026-11-22T08:10:43Z\n.inf\n\
               nan\n---\n...\n<<\n=\na\tb\na\u{85}b\na\u{2028}b\n\u{feff}a";
    for odd in odd.split('\n') {
        let rendered = render_scalar(odd, false);
        assert!(rendered.starts_with('"') && rendered.ends_with('"'), "{rendered}");
    }
    assert_eq!(render_scalar("a, b", true), "\"a, b\"");
    assert_eq!(render_scalar("a\u{2028}\\\"\t", false), "\"a\\u2028\\\\\\\"\\t\"");
}

/// Edits without trailing keys.
fn edit(text: &str, edits: &[KeyEdit<'_>]) -> Result<String, String> {
    super::edit(text, edits, &[])
}

#[test]
fn new_key_is_inserted_before_the_trailing_keys() {
    let text = "---\ntitle: T\n# when\ncreated_at: x\nuid: u\n---\n";
    let sets = [set("tags", list(&["a"])), set("linked", "l")];
    let edited = super::edit(text, &sets, &["created_at", "uid", "linked"]).unwrap();
    let expected = "---\ntitle: T\n# when\ntags: [a]\ncreated_at: x\nuid: u\nlinked: l\n---\n";
    assert_eq!(edited, expected);
}

fn set(key: &'static str, value: impl Into<FieldValue>) -> KeyEdit<'static> {
    KeyEdit { key, value: Some(value.into()) }
}

fn list(items: &[&str]) -> FieldValue {
    FieldValue::List(items.iter().map(|item| (*item).to_owned()).collect())
}

fn remove(key: &'static str) -> KeyEdit<'static> {
    KeyEdit { key, value: None }
}

#[test]
fn replaced_value_changes_no_other_byte() {
    for (before, value, after) in [
        ("k: old\n", FieldValue::from("new"), "k: new\n"),
        ("k: old # why\n", "new".into(), "k: new # why\n"),
        ("k:   'old'   # why\n", "new".into(), "k:   new   # why\n"),
        ("\"k\" : \"old\"\n", "new".into(), "\"k\" : new\n"),
        ("k:\n", "new".into(), "k: new\n"),
        ("k: # none yet\n", "new".into(), "k: new # none yet\n"),
        ("k: ~\n", "null".into(), "k: \"null\"\n"),
        ("k: two\n  lines\n", "new".into(), "k: new\n"),
        ("k:\n  below # why\n", "new".into(), "k: new # why\n"),
        ("k: |\n  a\n\n  b\n\n", "new".into(), "k: new\n\n"),
        ("k: >- # folded\n  a\n", "new".into(), "k: new # folded\n"),
        ("k: [a,\n  b] # two\n", list(&["c", "d, e"]), "k: [c, \"d, e\"] # two\n"),
        ("k: # two\n  - a\n  - b\n", "new".into(), "k: new # two\n"),
        (
            "k:\n  a: b\n",
            FieldValue::Map(vec![("US-001".into(), "12".into())]),
            "k: {US-001: \"12\"}\n",
        ),
        ("k: old\n", FieldValue::Number(3), "k: 3\n"),
        ("k: old\n", list(&[]), "k: []\n"),
    ] {
        for end in ["\n", "\r\n"] {
            for mark in ["", "\u{feff}"] {
                let text = |yaml: &str| {
                    let text = "---\n# first\na: 010   # odd\n\n".to_owned()
                        + yaml
                        + "# then\nz: {x: [1, 2]}\nblock: |\n  k: no\n---\n\nk: old\n\n---\n";
                    mark.to_owned() + &text.replace('\n', end)
                };
                let edited = edit(&text(before), &[set("k", value.clone())]);
                assert_eq!(edited.as_deref(), Ok(text(after).as_str()), "{before:?}");
            }
        }
    }
}

#[test]
fn list_edit_keeps_the_lines_of_unchanged_items() {
    let text = "---\nk: # all\n- a # one\n# between\n- 'b' # two\n# behind\nz: 1\n---\n";
    for (items, lines) in [
        (&["a", "b", "c"][..], "- a # one\n# between\n- 'b' # two\n- c\n# behind\n"),
        (&["b"], "# between\n- 'b' # two\n# behind\n"),
        (&["a"], "- a # one\n# between\n# behind\n"),
        (&["b", "x: y"], "# between\n- 'b' # two\n- \"x: y\"\n# behind\n"),
        (&["c", "b"], "- c # one\n# between\n- 'b' # two\n# behind\n"),
        (&["a", "c"], "- a # one\n# between\n- c\n# behind\n"),
    ] {
        let edited = edit(text, &[set("k", list(items))]).unwrap();
        assert_eq!(edited, format!("---\nk: # all\n{lines}z: 1\n---\n"), "{items:?}");
    }
    let nested = "---\nk:\n  - a\n  - - b\n---\n";
    assert_eq!(edit(nested, &[set("k", list(&["c"]))]).unwrap(), "---\nk: [c]\n---\n");
}

#[test]
fn new_key_is_appended_and_removed_key_loses_its_lines() {
    for (before, sets, after) in [
        ("---\na: 1\n---\nb", vec![set("k", "v")], "---\na: 1\nk: v\n---\nb"),
        ("---\na: 1\n...", vec![set("k", "v"), set("l", "w")], "---\na: 1\nk: v\nl: w\n..."),
        ("---\n  a: 1\n---\n", vec![set("k", "v")], "---\n  a: 1\n  k: v\n---\n"),
        ("---\n# only\n---\n", vec![set("k", "v")], "---\n# only\nk: v\n---\n"),
        ("---\n---\n", vec![set("k", "v")], "---\nk: v\n---\n"),
        ("", vec![set("k", "v")], "---\nk: v\n---\n"),
        ("\u{feff}Text\r\n", vec![set("k", "v")], "\u{feff}---\r\nk: v\r\n---\r\n\r\nText\r\n"),
        ("---\n\nA rule.\n", vec![set("k", "v")], "---\nk: v\n---\n\n---\n\nA rule.\n"),
        ("---\na: 1\nk: v # x\n# y\n---\n", vec![remove("k")], "---\na: 1\n# y\n---\n"),
        ("---\nk:\n- v\n\na: 1\n---\n", vec![remove("k")], "---\n\na: 1\n---\n"),
        ("---\nk:\n---\n", vec![remove("k"), remove("l")], "---\n---\n"),
        ("---\nk: 1\nl: 2\n---\n", vec![remove("l"), set("k", "v")], "---\nk: v\n---\n"),
        ("no front matter", vec![remove("k")], "no front matter"),
        ("---\n<<: {b: 1}\n---\n", vec![set("k", "v")], "---\n<<: {b: 1}\nk: v\n---\n"),
    ] {
        assert_eq!(edit(before, &sets).as_deref(), Ok(after), "{before:?}");
    }
}

#[test]
fn edit_of_unsupported_yaml_is_rejected() {
    for (yaml, reason) in [
        ("k: 1\nk: 2\n", "line 3: the key \"k\" is duplicated"),
        ("a: {b: 1, b: 2}\n", "is duplicated"),
        ("k: &x 1\na: *x\n", "`k` has an anchor"),
        ("k: &x\na: 1\n", "`k` has an anchor"),
        ("a: &x 1\nk: *x\n", "`k` has an alias"),
        ("k: !t 1\n", "`k` has a tag"),
        ("&x k: 1\n", "`k` has a form of key"),
        ("? k\n: 1\n", "`k` has a form of key"),
        ("{k: 1}\n", "`k` has a form of key"),
        ("{}\n", "another key"),
        ("k: [\n", "line "),
        ("- k\n", "has no keys"),
    ] {
        let text = format!("---\n{yaml}---\nBody\n");
        let error = edit(&text, &[set("k", "new")]).unwrap_err();
        assert!(error.contains(reason), "{yaml:?}: {error}");
        assert!(error.starts_with("the front matter can't be edited safely: "), "{error}");
        assert!(error.ends_with("; edit the file by hand"), "{error}");
    }
    let error = edit("---\ntitle: T\n\nBody\n", &[set("k", "v")]).unwrap_err();
    assert!(error.contains("the front matter has no closing `---` line; add one"), "{error}");
    // A lone CR ends a line in YAML.
    let error = edit("---\nk: 1\ra: 2\n---\n", &[remove("k")]).unwrap_err();
    assert!(error.contains("another key"), "{error}");
    // Unsupported forms of other keys do not matter.
    let text = "---\na: &x [1]\nb: *x\nc: !t v\n? d\n: 1\nk: 1\n---\n";
    assert_eq!(edit(text, &[set("k", "2")]).unwrap(), text.replace("k: 1", "k: \"2\""));
}

#[test]
fn body_follows_one_blank_line() {
    for (before, description, after) in [
        ("---\na: 1\n---\n\n\nold\n\n", "new", "---\na: 1\n---\n\nnew\n"),
        ("---\r\na: 1\r\n---\r\nold", "a\nb\r\n", "---\r\na: 1\r\n---\r\n\r\na\r\nb\r\n"),
        ("---\na: 1\n---", "\n\nnew", "---\na: 1\n---\n\nnew\n"),
        ("---\na: 1\n---\n\nold\n", "\r\n", "---\na: 1\n---\n"),
        ("---\na: 1\n---\n", "---\nb: 2\n---", "---\na: 1\n---\n\n---\nb: 2\n---\n"),
        ("\u{feff}old", "new", "\u{feff}new\n"),
    ] {
        assert_eq!(with_body(before, description), after, "{before:?}");
    }
}

/// Scalars, blocks, lists and meaningless lines, as authors write them.
fn any_entry() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,3}: [a-zA-Z0-9 ]{0,8}( # [a-z]{0,4})?",
        "[a-z]{1,3}: [ -~]{0,12}",
        "[a-z]{1,3}: \"[^\"\\\\\\p{C}]{0,8}\"",
        "'[a-z]{1,3}' : '[^'\\p{C}]{0,8}'",
        "[a-z]{1,3}: [|>][+-]?\n( {2}[a-z]{1,3}\n| *\n){1,3}",
        "[a-z]{1,3}:( # [a-z]{1,3})?\n( {0,2}- [a-z0-9]{1,3}( # [a-z]{1,3})?\n){1,3}",
        "[a-z]{1,3}: \\[[a-z, ]{0,6}\\]",
        "[a-z]{1,3}:\n  [a-z]: [a-z]\n  [a-z]: \\{[a-z]: 1\\}",
        "[a-z]{1,3}: [&*!]?[a-z] [a-z]",
        "# .{0,8}",
        " *",
        "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn any_rendered_text_parses_to_the_same_text(
        text in "(\\PC|[\t\u{85}\u{2028}\u{feff}#:,\\[\\]{}'\"\\\\ &*!|>%@`~?-]){0,12}",
        key in "[a-z]{1,4}",
    ) {
        let pairs = [
            set("text", text.as_str()),
            set("list", FieldValue::List(vec![text.clone(), text.clone()])),
            set("map", FieldValue::Map(vec![(key, text.clone())])),
            set("last", "x"),
        ];
        let new = edit("", &pairs).unwrap();
        prop_assert_eq!(new.lines().count(), 6, "{}", new);
    }

    #[test]
    fn any_edit_keeps_all_other_lines_or_is_rejected(
        entries in prop::collection::vec(any_entry(), 0..6),
        body in "(\\PC|\r?\n){0,20}",
        is_crlf in any::<bool>(),
        value in prop_oneof![
            "[ -~]{0,8}".prop_map(|text| FieldValue::from(text.as_str())),
            prop::collection::vec("[a-z]{1,3}", 0..3).prop_map(FieldValue::List),
        ],
        at in any::<prop::sample::Index>(),
    ) {
        let mut yaml = String::new();
        for entry in &entries {
            yaml.push_str(entry.trim_end_matches('\n'));
            yaml.push('\n');
        }
        let longest = 2 * entries.iter().map(String::len).max().unwrap_or_default() + 2;
        let yaml = if is_crlf { yaml.replace('\n', "\r\n") } else { yaml };
        let text = format!("---\n{yaml}---\n{body}");
        let parts = split(&text);
        let Ok(before) = parse(parts) else { return Ok(()) };
        let keys: Vec<&str> = before.entries.iter().map(|entry| entry.key.as_str()).collect();
        let key = if keys.is_empty() { "new" } else { keys[at.index(keys.len())] };
        for value in [Some(value), None] {
            let Ok(edited) = edit(&text, &[KeyEdit { key, value }]) else { continue };
            prop_assert_eq!(split(&edited).body, parts.body);
            // At most the lines of one entry differ.
            let bytes = text.bytes().zip(edited.bytes());
            let prefix = bytes.take_while(|(a, b)| a == b).count();
            let bytes = text.bytes().rev().zip(edited.bytes().rev());
            let suffix = bytes.take_while(|(a, b)| a == b).count();
            prop_assert!(prefix + suffix + longest >= text.len(), "{text}\n{edited}");
        }
    }
}

#[test]
fn misplaced_front_matter_is_reported_and_not_edited() {
    let begins = "the front matter seems to begin at line";
    for (text, line, message) in [
        ("\n---\ntitle: T\n---\nbody\n", 2, "after a blank line"),
        ("\r\n\r\n---\r\ntitle: T\r\n---\r\n", 3, "after a blank line"),
        (" \t\n---\na_key: 1\n---\n", 2, "after a blank line"),
        ("\u{200b}\n---\na: 1\n---\n", 2, "after a blank line"),
        ("---\rtitle: T\r---\rbody", 1, "in a file whose line ends are CR"),
        ("\n\n---\na: 1\n\nNever closed\n", 3, "after a blank line"),
        ("\u{feff}\u{feff}---\ntitle: T\n---\n", 1, "after a byte order mark or a blank"),
        (" ---\ntitle: T\n---\n", 1, "after a byte order mark or a blank"),
        ("\u{200b}---\ntitle: T\n---\n", 1, "after a byte order mark or a blank"),
        ("\u{feff}\n---\ntitle: T\n---\n", 2, "after a blank line"),
        ("+++\ntitle = \"T\"\n+++\nbody\n", 1, "with a line other than `---`"),
        ("\n+++\na = 1\n+++\n", 2, "with a line other than `---`"),
        (
            "{\n  \"title\": \"T\",\n  \"status\": \"Done\"\n}\nbody\n",
            1,
            "with a line other than `---`",
        ),
        ("{ \"title\": \"T\" }\n\nbody\n", 1, "with a line other than `---`"),
        ("---yaml\ntitle: T\n---\n", 1, "with a line other than `---`"),
        ("--- # metadata\ntitle: T\n---\n", 1, "with a line other than `---`"),
        ("-----\ntitle: T\n-----\n", 1, "with a line other than `---`"),
        ("—-\ntitle: T\n—-\n", 1, "with a line other than `---`"),
        ("<!-- licence -->\n---\ntitle: T\n---\n", 2, "after other text"),
        ("```yaml\n---\nid: dec-1a2b3c\nstatus: open\n---\n```\n", 2, "after other text"),
        ("# Heading\n\n---\nk: 1\ntags: [a]\n...\n", 3, "after other text"),
        ("%YAML 1.2\n---\ntitle: T\n---\n", 2, "after other text"),
    ] {
        let problem = parse(split(text)).unwrap_err();
        assert_eq!(problem.line, Some(line), "{text:?}: {problem:?}");
        let expected = format!("{begins} {line} {message}");
        assert!(problem.message.starts_with(&expected), "{text:?}: {problem:?}");
        let error = edit(text, &[set("status", "Done")]).unwrap_err();
        assert!(error.contains(&expected), "{text:?}: {error}");
    }
}

#[test]
fn second_front_matter_is_reported_and_not_edited() {
    for second in ["---\ntitle: B\n---\n", "+++\nk = 1\n+++\n", "{ \"k\": 1 }\n", "---\r\nk: v"] {
        let text = format!("---\ntitle: A\n---\n{second}");
        let front_matter = parse(split(&text)).unwrap();
        assert_eq!(front_matter.entries.len(), 1, "{text:?}");
        let problem = front_matter.duplicate.unwrap();
        assert_eq!(problem.line, Some(4), "{text:?}");
        assert!(
            problem
                .message
                .starts_with("the front matter seems to begin at line 4 after the first one")
        );
        assert!(edit(&text, &[set("status", "Done")]).is_err(), "{text:?}");
    }
}

#[test]
fn text_that_resembles_front_matter_is_edited() {
    for text in [
        "Body\n",
        "---\n\nA line above\n",
        "A title\n---\nNote: a remark\n",
        "Text\n\n---\nOwner: Ann\n\nMore\n",
        "Text\n\n---\ntitle: no closing line\n",
        "- a: 1\n- b: 2\n",
        "---\n- a\n- b\n",
        "--\nk: v\n",
        "{not json}\n",
        "{\n}\n",
        "+++ a/file\n@@\n",
        "Status: Done\n---\n",
        "---\nhttps://example.org\n",
        "| a | b |\n|---|---|\n| k: 1 | 2 |\n",
    ] {
        assert!(parse(split(text)).is_ok(), "{text:?}");
        let edited = edit(text, &[set("status", "Done")]).unwrap();
        assert!(edited.ends_with(text), "{text:?}: {edited:?}");
        // The text may follow front matter, as in every new document.
        assert!(edit(&edited, &[set("status", "Open")]).is_ok(), "{edited:?}");
    }
}

#[test]
fn misplaced_keys_are_salvaged() {
    for text in [
        "\n---\ntitle: T\nstatus: Done\n---\nbody\n",
        "\u{feff}\u{feff}---\ntitle: T\nstatus: Done\n\nbody: x\n",
        "<!-- x -->\n---\ntitle: T\nstatus: Done\n---\n",
    ] {
        let entries = salvage_lines(split(text));
        let values: Vec<_> = entries.iter().map(|entry| entry.node.text().unwrap()).collect();
        assert_eq!(values, ["T", "Done"], "{text:?}");
    }
}

#[test]
fn title_that_yaml_cuts_is_shown_whole() {
    for (line, shown, problem) in [
        ("Fix #12 now", "Fix #12 now", "the title ends before ` #12 now`; quote it"),
        ("Fix  # a remark", "Fix  # a remark", "the title ends before `  # a remark`; quote it"),
        ("2026 #1", "2026 #1", "the title ends before ` #1`; quote it"),
        ("true #", "true #", "the title ends before ` #`; quote it"),
        ("C# and F#, #3 of 4", "C# and F#, #3 of 4", "the title ends before ` #3 of 4`; quote it"),
        ("Größe #1 prüfen", "Größe #1 prüfen", "the title ends before ` #1 prüfen`; quote it"),
        ("a\n  b #c", "a b #c", "the title ends before ` #c`; quote it"),
        ("! bang", "! bang", "the title is read as \"bang\"; quote it"),
        ("!important fix", "!important fix", "the title is read as \"fix\"; quote it"),
        ("&anchor text", "&anchor text", "the title is read as \"text\"; quote it"),
        ("#12 is open", "#12 is open", "the title is read as empty; quote it"),
        ("!todo", "!todo", "the title is read as empty; quote it"),
        ("[draft]", "[draft]", "the title is read as a list or a map; quote it"),
        ("{draft}", "{draft}", "the title is read as a list or a map; quote it"),
        ("{a: b} #c", "{a: b} #c", "the title is read as a list or a map; quote it"),
    ] {
        for end in ["\n", "\r\n"] {
            let text = format!("---{end}id: x{end}title: {line}{end}status: Done{end}---{end}");
            let parts = split(&text);
            let entries = parse(parts).unwrap().entries;
            let (title, found) = find_title(parts, &entries).unwrap();
            let found = found.unwrap();
            assert_eq!((&*title, &*found.message), (shown, problem), "{text:?}");
            assert_eq!(found.line, Some(3), "{text:?}");
            // Quoted, it is whole. A tag or an anchor is left to the author.
            if let Ok(edited) = edit(&text, &[set("title", shown)]) {
                let parts = split(&edited);
                let entries = parse(parts).unwrap().entries;
                assert_eq!(find_title(parts, &entries), Some((shown.to_owned(), None)), "{edited}");
            }
        }
    }
}

#[test]
fn title_that_yaml_reads_whole_has_no_problem() {
    for (line, shown) in [
        ("One", "One"),
        ("C#", "C#"),
        ("a#b", "a#b"),
        ("\"Fix #12\" # remark", "Fix #12"),
        ("'Fix #12' # remark", "Fix #12"),
        ("!!str 2026", "2026"),
        ("|\n  Fix #12 now", "Fix #12 now"),
        (">-\n  Fix #12 now", "Fix #12 now"),
        ("\n  Below", "Below"),
        ("a & b", "a & b"),
        ("wow!", "wow!"),
        ("# remark\n  Below", "Below"),
    ] {
        let text = format!("---\ntitle: {line}\n---\n");
        let parts = split(&text);
        let entries = parse(parts).unwrap().entries;
        assert_eq!(find_title(parts, &entries), Some((shown.to_owned(), None)), "{text:?}");
    }
}

#[test]
fn title_of_invalid_front_matter_is_its_line() {
    for (line, shown) in [
        ("[draft] x", "[draft] x"),
        ("Pay: by card", "Pay: by card"),
        ("Pay: by card #1", "Pay: by card #1"),
        ("\"Quoted\" and more", "\"Quoted\" and more"),
        ("say \"no\"", "say \"no\""),
        ("*urgent* fix", "*urgent* fix"),
        ("{a} b", "{a} b"),
        ("@home", "@home"),
        ("`code` first", "`code` first"),
        ("%s is shown", "%s is shown"),
        ("- dash", "- dash"),
        ("Fix #12 now", "Fix #12 now"),
    ] {
        let text = format!("---\ntitle: {line}\nbroken: [\n---\n");
        let parts = split(&text);
        assert!(parse(parts).is_err(), "{text:?}");
        let found = find_title(parts, &salvage_lines(parts));
        assert_eq!(found, Some((shown.to_owned(), None)), "{text:?}");
    }
}

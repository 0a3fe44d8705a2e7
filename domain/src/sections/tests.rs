//! Setting and deleting requirements, checked by the resulting file.

mod properties;

use super::requirement_index::RequirementIndex;
use super::upsert::SetOutcome;
use super::*;

fn index(text: &str) -> RequirementIndex {
    RequirementIndex::try_from(text.to_owned()).unwrap()
}

fn set(source: &str, at: &str, text: &str) -> SetOutcome {
    Section::parse(source).set(&index(at), text, text::WRAP_COLUMNS).unwrap()
}

#[track_caller]
fn check_set(source: &str, at: &str, text: &str, expected: &str) {
    assert_eq!(set(source, at, text).body, expected);
}

#[track_caller]
fn check_delete(source: &str, at: &str, expected: Option<&str>) {
    let deleted = Section::parse(source).delete(&index(at)).unwrap();
    assert_eq!(deleted.body.as_deref(), expected);
}

// S1: C.2, S.3.1
#[test]
fn set_in_a_missing_file_creates_it() {
    check_set("", "1", "One.", "**1.** One.\n");
    check_set("\u{feff}", "1", "One.", "\u{feff}**1.** One.\n");
    check_set("Prose", "1", "One.", "Prose\n\n**1.** One.");
    check_set("# A\r\n", "1", "One.\nTwo.", "# A\r\n\r\n**1.** One.\r\nTwo.\r\n");
}

// S1: S.3.2
#[test]
fn set_replaces_all_paragraphs_of_a_requirement() {
    check_set(
        "# A\n\n**1.** Old\n\n- list\n\n```\n**2.** no\n```\n\n<!-- mine -->\n\n## B\n\n**2.** Two",
        "1",
        "New",
        "# A\n\n**1.** New\n\n## B\n\n**2.** Two",
    );
    check_set("**01.** Old  \n**2.** b", "1", "New", "**01.** New\n**2.** b");
    check_set("**1.** a\n```\n```\nH\n===", "1", "b", "**1.** b\n\nH\n===");
}

// S1: S.3.2
#[test]
fn set_of_the_same_text_changes_no_byte() {
    let mixed = "**1.** a\r\nb\n\n**2.** c\n\n# H\n";
    check_set(mixed, "1", "a\nb", mixed);
    check_set(mixed, "01", " a\r\nb\n", mixed);
}

// S1: S.3.3
#[test]
fn set_inserts_after_the_greatest_smaller_index() {
    let source = "# A\n\n**1.** a\n\n## B\n\n**3.** c\n";
    check_set(source, "2", "b", "# A\n\n**1.** a\n\n**2.** b\n\n## B\n\n**3.** c\n");
    check_set(source, "4", "d", "# A\n\n**1.** a\n\n## B\n\n**3.** c\n\n**4.** d\n");
    check_set(source, "0", "z", "# A\n\n**0.** z\n\n**1.** a\n\n## B\n\n**3.** c\n");
    check_set("**1.** a\n**3.** c", "2", "b", "**1.** a\n\n**2.** b\n\n**3.** c");
    check_set("**2.** b", "10", "j", "**2.** b\n\n**10.** j");
}

// S1: S.3.3
#[test]
fn set_of_a_new_group_appends_it_but_numbers_first() {
    let source = "## R\n\n**R.1.** r\n\n## P\n\n**P.1.** p\n\nEnd of p.\n\n## Rest\n\nprose\n";
    let with = |old: &str, new: &str| source.replace(old, new);
    check_set(source, "R.2", "x", &with("**R.1.** r\n", "**R.1.** r\n\n**R.2.** x\n"));
    check_set(source, "1", "x", &with("**R.1.**", "**1.** x\n\n**R.1.**"));
    check_set(source, "A.1", "x", &with("End of p.\n", "End of p.\n\n**A.1.** x\n"));
    check_set(source, "P.0", "x", &with("**P.1.**", "**P.0.** x\n\n**P.1.**"));
}

// S1: S.3.4
#[test]
fn set_renumbers_indices_that_are_out_of_order() {
    let source = "**1.** a\n\n**3.** b\n\n**2.** c\n\n**2.** d\n\n**7.** e\n\n**8.** f\n";
    let set = set(source, "8", "F");
    assert_eq!(set.body, "**1.** a\n\n**3.** b\n\n**4.** c\n\n**5.** d\n\n**7.** e\n\n**8.** F\n");
    let pairs: Vec<_> = set.renumbered.iter().map(|r| (&*r.from, &*r.to)).collect();
    assert_eq!(pairs, [("2", "4"), ("2", "5")]);
}

// S1: S.3.4, S.3.6
#[test]
fn set_outcome_has_the_index_after_renumbering() {
    let set = set("**3.** a\n\n**2.** b\n", "2", "B");
    assert_eq!((set.index.as_str(), set.requirement.as_str()), ("4", "**4.** B"));
    assert_eq!(set.body, "**3.** a\n\n**4.** B\n");
    let error = Section::parse("**9999999999.** a\n\n**2.** b\n").set(&index("2"), "B", 120);
    assert!(error.unwrap_err().message.contains("No index of at most 10"));
}

// S1: S.3.4
#[test]
fn set_keeps_gaps_and_delete_does_not_renumber() {
    assert_eq!(set("**1.** a\n\n**9.** b\n", "5", "x").renumbered, []);
    check_delete("**3.** a\n\n**2.** b\n\n**1.** c\n", "2", Some("**3.** a\n\n**1.** c\n"));
}

// S1: S.3.2, D.3.3
#[test]
fn set_and_delete_use_the_first_of_equal_indices() {
    check_delete("**1.** a\n\n**1.** b\n", "1", Some("**1.** b\n"));
    check_set("**1.** a\n\n**1.** b\n", "1", "x", "**1.** x\n\n**2.** b\n");
}

#[test]
fn text_with_many_unclosed_fences_parses_in_linear_time() {
    let source = format!("**1.** a\n{}", "~~~a\n```b\n<!-- c\n".repeat(100_000));
    let section = Section::parse(&source);
    assert_eq!(section.text(section.find("1").unwrap()).lines().count(), 300_001);
}

// S1: D.3.3, D.3.4
#[test]
fn delete_of_the_last_requirement_removes_the_file() {
    check_delete("# A\n\n**1.** a\n\n**2.** b\n", "1", Some("# A\n\n**2.** b\n"));
    check_delete("# A\n\n**1.** a\n\n**2.** b\n", "2", Some("# A\n\n**1.** a\n"));
    check_delete("**1.** a\r\n\r\n**2.** b", "2", Some("**1.** a"));
    check_delete("# A\n\n**1.** a\n", "1", Some("# A\n"));
    check_delete("\u{feff}\n\n**1.** a\n\n", "1", None);
    check_delete("**1.** a\n**2.** b\n\nH\n---", "2", Some("**1.** a\n\nH\n---"));
    let fenced = "**1.** a\n**2.** b\n```\n```\nH\n===";
    check_delete(fenced, "2", Some("**1.** a\n\nH\n==="));
    let between = "prose\n**1.** a\n```\nx\n```\nTitle\n---\n";
    check_delete(between, "1", Some("prose\n\nTitle\n---\n"));
}

// S1: S.3.2, D.3.3
#[test]
fn fence_in_a_list_or_comment_ends_with_it() {
    for fence in ["- ```\n  code\n  ```", "1. a\n   ```\n   code\n   ```", "<!--\n```\n-->"] {
        let source = format!("**1.** a\n\n{fence}\n\n**2.** b\n\n**3.** c\n");
        check_set(&source, "1", "new", "**1.** new\n\n**2.** b\n\n**3.** c\n");
        check_delete(&source, "1", Some("**2.** b\n\n**3.** c\n"));
    }
}

// S1: S.3.2, D.3.3
#[test]
fn example_in_html_or_code_belongs_to_the_rule_around_it() {
    for example in [
        "<pre>\n**2.** example\n\n# no\n</pre>",
        "<script>\n**2.** example\n</script>",
        "<?php\n\n**2.** example\n?>",
        "Some text <!-- hidden\n**2.** example\n-->",
        "A code ``span\n**2.** example\nof three lines``",
        "<div>\n**2.** example\n</div>",
    ] {
        let source = format!("# C\n\n**1.** a\n\n{example}\n\n**2.** real\n**3.** c\n");
        check_set(&source, "2", "changed", &source.replace("real", "changed"));
        check_set(&source, "1", "b", "# C\n\n**1.** b\n\n**2.** real\n**3.** c\n");
        check_delete(&source, "2", Some(&source.replace("**2.** real\n", "")));
        check_delete(&source, "1", Some("# C\n\n**2.** real\n**3.** c\n"));
        let section = Section::parse(&source);
        let text = section.text(section.find("1").unwrap());
        assert_eq!(text, format!("a\n\n{example}"));
        assert_eq!(set(&source, "4", &text).renumbered, []);
        assert_eq!(set(&source, "4", &text).warnings, [""; 0]);
        let added = set(&source.replace("**2.** real", "**2.1.** real"), "02", "new");
        let line = source.lines().position(|line| line == "**2.** example").unwrap() + 1;
        let warning = format!("index: line {line} shows 02 in code, HTML or a comment");
        assert!(added.warnings[0].starts_with(&warning), "{:?}", added.warnings);
    }
}

#[test]
fn html_that_is_not_closed_is_escaped() {
    for (text, expected) in [
        ("a\n<pre>\nb", "a\n\\<pre>\nb"),
        ("a\n<!X\n# b", "a\n\\<!X\n\\# b"),
        ("a\n <![CDATA[\n<?b", "a\n \\<![CDATA[\n\\<?b"),
        ("<textarea", "<textarea"),
        ("a\n<Script>\n**2.** b\n</style>", "a\n<Script>\n**2.** b\n</style>"),
        ("a\n<prelude>\n<!- b", "a\n<prelude>\n<!- b"),
    ] {
        let source = format!("**1.** {expected}\n\n**2.** c\n");
        check_set("**1.** x\n\n**2.** c\n", "1", text, &source);
        let section = Section::parse(&source);
        assert_eq!(section.text(section.find("1").unwrap()), text);
    }
}

#[test]
fn set_below_an_unclosed_fence_is_rejected_with_its_line() {
    let error = Section::parse("**1.** a\n\n```\n").set(&index("2"), "x", 120).unwrap_err();
    assert!(error.message.contains("line 3 opens a code fence"), "{}", error.message);
}

#[test]
fn set_in_a_section_above_the_size_limit_is_rejected() {
    let large = format!("{}\n\n**1.** a\n", "x".repeat(8 << 20));
    let many: String = (0..50_000).flat_map(|n| [format!("**{n}.** x"), "\n".into()]).collect();
    for source in [large, many] {
        let refused = Section::parse(&source).set(&index("60000"), "x", 120).unwrap_err();
        assert!(refused.message.contains("at most"), "{refused}");
    }
}

#[test]
fn diagnostics_have_line_and_reason() {
    let section = Section::parse("# A\n**12345678901.** x\n\n**2.** b\n**2.** c\n~~~\n");
    let lines: Vec<_> = section.diagnostics().iter().map(|f| f.line).collect();
    assert_eq!(lines, [Some(2), Some(5), Some(6)]);
}

fn messages(source: &str) -> Vec<String> {
    let diagnostics = Section::parse(source).diagnostics().into_iter();
    diagnostics.map(|problem| format!("{}: {}", problem.line.unwrap(), problem.message)).collect()
}

#[test]
fn bold_word_in_prose_belongs_to_the_requirement() {
    let source = "**1.** One.\n\n**Note.** Only here.\n\n**2.** Two.\n";
    let section = Section::parse(source);
    assert_eq!(section.requirements().len(), 2);
    let text = section.text(section.find("1").unwrap());
    assert_eq!(text, "One.\n\n**Note.** Only here.");
    check_set(source, "1", &text, source);
    check_delete(source, "1", Some("**2.** Two.\n"));
    assert_eq!(messages(source), [""; 0]);
}

#[test]
fn invalid_token_with_digit_ends_the_requirement_above() {
    let source = "**1.** One.\n\n**1.2.3-beta.4.** Odd.\n\n**2.** Two.\n";
    assert_eq!(Section::parse(source).requirements().len(), 2);
    check_set(source, "1", "Uno.", &source.replace("One", "Uno"));
    let found = messages(source);
    assert!(found[0].starts_with("3: `**1.2.3-beta.4.**` is not a rule"), "{found:?}");
}

// S1: C.3
#[test]
fn single_letter_is_prose_of_the_rule_around_it() {
    for letter in ["Q", "A", "B", "R", "a", "q", "x", "Z", "_", "-"] {
        let text = format!("One?\n\n**{letter}.** So.\n**{letter}.**");
        let source = format!("**1.** {text}\n\n**2.** Two.\n");
        assert_eq!(messages(&source), [""; 0]);
        assert_eq!(Section::parse(&source).find("1").map(|rule| rule.index), Some("1"));
        check_set(&source, "2", "Due.", &source.replace("Two", "Due"));
        check_set("**1.** a\n\n**2.** Two.\n", "1", &text, &source);
        check_delete(&source, "1", Some("**2.** Two.\n"));
        assert!(RequirementIndex::try_from(letter.to_owned()).is_err());
    }
}

#[test]
fn text_with_its_own_marker_is_stored_without_it() {
    for (at, text) in
        [("2", "**2.** Two."), ("2", " **02.** **2.**\tTwo.\r\n"), ("02", "**2.** Two.")]
    {
        let set = set("**1.** One.\n", at, text);
        assert_eq!(set.text, "Two.");
        assert_eq!(set.requirement, format!("**{at}.** Two."));
    }
    check_set("", "1", "**2.** Two.", "**1.** **2.** Two.\n");
    let fenced = "**1.**\n\n```\ncode\n```\n";
    check_set(fenced, "1", fenced, fenced);
    let error = Section::parse("").set(&index("1"), "**1.** ", 120).unwrap_err();
    assert!(error.message.contains("only the marker of rule 1"), "{error}");
}

#[test]
fn stored_requirement_written_back_changes_no_byte() {
    let long = "word ".repeat(40);
    for text in [
        "a\n\\**9.** b\n\\## c\n  \\# d\n\\\\# e",
        "a\n\\```\nb\n\\---",
        "a\n\n\\---",
        long.trim_end(),
    ] {
        let source = format!("**1.** {text}\n\n**2.** b\n");
        let section = Section::parse(&source);
        let requirement = section.find("1").unwrap();
        for read in [section.stored_text(requirement), text, &section.text(requirement)] {
            check_set(&source, "1", read, &source);
        }
    }
}

fn add(source: &str, before: Option<&str>) -> SetOutcome {
    let before = before.map(index);
    Section::parse(source).add(before.as_ref(), "New.", text::WRAP_COLUMNS).unwrap().unwrap()
}

// S1: S.3.3
#[test]
fn add_appends_to_the_group_of_numbers_at_its_smallest_depth() {
    for (source, expected) in [
        ("", "**1.** New.\n"),
        ("**R.1.** r\n", "**1.** New.\n\n**R.1.** r\n"),
        (
            "**1.** a\n\n**2.1.** b\n\n**R.9.** r\n",
            "**1.** a\n\n**2.1.** b\n\n**3.** New.\n\n**R.9.** r\n",
        ),
        ("**1.1.** a\n\n**1.2.** b\n", "**1.1.** a\n\n**1.2.** b\n\n**1.3.** New.\n"),
        ("**1.** a\n\n## B\n", "**1.** a\n\n**2.** New.\n\n## B\n"),
    ] {
        assert_eq!(add(source, None).body, expected);
    }
    let error = Section::parse("**9999999999.** a\n").add(None, "x", 120).unwrap_err();
    assert!(error.message.starts_with("No index of at most 10"), "{error}");
}

// S1: S.3.3, S.3.4
#[test]
fn add_before_takes_the_index_and_renumbers_as_far_as_needed() {
    let source = "**1.** a\n\n## B\n\n**2.** b\n\n**2.1.** c\n\n**4.** d\n";
    let added = add(source, Some("2"));
    let expected = "**1.** a\n\n## B\n\n**2.** New.\n\n**3.** b\n\n**3.1.** c\n\n**4.** d\n";
    assert_eq!((&*added.index, &*added.body), ("2", expected));
    let pairs: Vec<_> = added.renumbered.iter().map(|r| (&*r.from, &*r.to)).collect();
    assert_eq!(pairs, [("2", "3"), ("2.1", "3.1")]);
    let first = add("# A\n\n**R.1.** a\n\n**1.** b\n", Some("R.1")).body;
    assert_eq!(first, "# A\n\n**R.1.** New.\n\n**R.2.** a\n\n**1.** b\n");
    let disordered = add("**3.** a\n\n**2.** b\n", Some("2"));
    assert_eq!(disordered.body, "**3.** a\n\n**4.** New.\n\n**5.** b\n");
    assert_eq!(Section::parse("**1.** a\n").add(Some(&index("2")), "x", 120).unwrap(), None);
}

// S1: S.3.3
#[test]
fn fr_10_is_inserted_after_fr_3() {
    let source = "**FR-1.** a\n\n**FR-3.** c\n\n**NFR-1.** n\n";
    check_set(source, "FR-10", "j", &source.replace("c\n", "c\n\n**FR-10.** j\n"));
    check_set(source, "FR-2", "b", &source.replace("a\n", "a\n\n**FR-2.** b\n"));
    check_set(source, "FR-02", "b", &source.replace("a\n", "a\n\n**FR-02.** b\n"));
    check_set(source, "UI-1", "u", &format!("{source}\n**UI-1.** u\n"));
    check_set(source, "FR-01", "A", &source.replace("** a", "** A"));
    assert_eq!(set(source, "FR-10", "j").renumbered, []);
    check_set("**1-9.** a\n", "1-10", "b", "**1-9.** a\n\n**1-10.** b\n");
}

// S1: S.3.3, S.3.4
#[test]
fn order_is_repaired_before_a_requirement_is_placed() {
    let disordered = "**1.** a\n\n**5.** b\n\n**3.** c\n";
    let inserted = set(disordered, "4", "x");
    assert_eq!(inserted.body, "**1.** a\n\n**4.** x\n\n**5.** b\n\n**6.** c\n");
    assert_eq!(inserted.index, "4");
    let taken = set(disordered, "6", "x");
    assert_eq!(taken.body, "**1.** a\n\n**5.** b\n\n**6.** x\n\n**7.** c\n");
    let pairs: Vec<_> = taken.renumbered.iter().map(|r| (&*r.from, &*r.to)).collect();
    assert_eq!(pairs, [("3", "7")]);
    let groups = "**FR-3.** a\n\n**FR-2.** b\n\n**1.** c\n";
    let renumbered = set(groups, "FR-9", "x").body;
    assert_eq!(renumbered, "**FR-3.** a\n\n**FR-4.** b\n\n**FR-9.** x\n\n**1.** c\n");
}

//! Differences of texts: words, hunks and limits.

use super::*;

const REMOVED: [&str; 2] = ["[-", "-]"];
const ADDED: [&str; 2] = ["{+", "+}"];

#[expect(clippy::disallowed_methods, reason = "the real clock bounds the time of a test")]
fn deadline() -> Instant {
    Instant::now() + TIME_LIMIT
}

fn word_diff(old: &str, new: &str) -> String {
    difference_text(&compare_texts(old, new, deadline()))
}

#[test]
fn word_diff_marks_changed_words_in_hunks() {
    let old = "a\nb\nc\nd\nGuests pay by card.\nx\ny\nz\nw\nv\n";
    let new = "a\nb\nc\nd\nGuests can pay by invoice.\nx\ny\nz\nw\nv\nnew line\n";
    assert_eq!(
        word_diff(old, new),
        "@@ -2,9 +2,10 @@\nb\nc\nd\nGuests {+can +}pay by [-card.-]{+invoice.+}\nx\ny\nz\nw\nv\n\
         {+new line+}\n"
    );
}

#[test]
fn word_diff_of_unlike_blocks_shows_whole_lines() {
    let shown = word_diff("one two three\nkept\n", "four five six\nkept\n");
    assert_eq!(shown, "@@ -1,2 +1,2 @@\n[-one two three-]\n{+four five six+}\nkept\n");
    let indented = word_diff("a b\n", "  a b\n");
    assert_eq!(indented, "@@ -1,1 +1,1 @@\n[-a b-]\n{+  a b+}\n");
    assert_eq!(word_diff("", "a\n"), "@@ -1,0 +1,1 @@\n{+a+}\n");
}

#[test]
fn word_diff_joins_rewrapped_lines() {
    let shown = word_diff("one two three four\nfive six\n", "one two 3 four five six\n");
    assert_eq!(shown, "@@ -1,2 +1,1 @@\none two [-three-]{+3+} four five six\n");
}

#[test]
fn word_diff_without_a_different_line_says_so() {
    assert_eq!(word_diff("a", "a"), "The texts are the same.");
    assert_eq!(word_diff("a\r\nb", "a\nb\n"), "Only line ends differ.");
}

#[test]
fn values_are_compared_whole_and_by_words() {
    let expected = [
        (DiffKind::Kept, "a [-b-]\npay "),
        (DiffKind::Removed, "by"),
        (DiffKind::Added, "with"),
        (DiffKind::Kept, " card\n"),
    ];
    let parts = compare_values("a [-b-]\npay by card", "a [-b-]\npay with card", deadline());
    let shown: Vec<_> = parts.iter().map(|part| (part.kind, part.text.as_str())).collect();
    assert_eq!(shown, expected);
}

/// The words of one side of a difference: without the marked words of the other.
fn words_of_side(shown: &str, [open, close]: [&str; 2], other: [&str; 2]) -> Vec<String> {
    let mut text = String::new();
    for line in shown.lines().filter(|line| !line.starts_with("@@")) {
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(other[0]) {
            text += before;
            rest = after.split_once(other[1]).unwrap().1;
        }
        text += rest;
        text += "\n";
    }
    let text = text.replace(open, "").replace(close, "");
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn word_diff_contains_the_words_of_both_texts() {
    let mut texts = vec![String::new()];
    for start in 0..84 {
        for part in ["a", "b", " ", "\n"] {
            texts.push(format!("{}{part}", texts[start]));
        }
    }
    for old in &texts {
        for new in texts.iter().filter(|new| !old.lines().eq(new.lines())) {
            let shown = word_diff(old, new);
            for (text, side, other) in [(old, REMOVED, ADDED), (new, ADDED, REMOVED)] {
                let words: Vec<&str> = text.split_whitespace().collect();
                assert_eq!(words_of_side(&shown, side, other), words, "{old:?} {new:?}: {shown}");
            }
        }
    }
}

#[test]
fn word_diff_of_large_texts_is_bounded() {
    let many = |prefix: &str| {
        let lines: Vec<String> = (0..60_000).map(|line| format!("{prefix}{line}")).collect();
        lines.join("\n")
    };
    let long = |word: &str| format!("{word} ").repeat(400_000) + "\u{e9}";
    for (old, new) in [(many("a"), many("b")), (long("x"), long("y")), (many(""), long("z"))] {
        let shown = word_diff(&old, &new);
        assert!(shown.len() < MAX_BYTES + 100, "{}", shown.len());
        assert!(shown.ends_with("(cut off after 100000 bytes)\n"));
    }
}

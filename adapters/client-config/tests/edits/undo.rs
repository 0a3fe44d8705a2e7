//! The undo of an edit.

use proptest::prelude::*;
use reqlore_client_config::UndoPatch;
use serde_json::json;

#[test]
fn patch_has_the_least_context_that_makes_it_unique() {
    for (before, after, removed, inserted) in [
        ("secret, a, secret", "secret, b, secret", "a", "b"),
        ("ab", "axyb", "", "xy"),
        ("one two", "one\r\ntwo", " ", "\r\n"),
        ("x\r\ny", "x\ny", "\r\n", "\n"),
        ("x\r\ny", "x\r\nz\r\ny", "", "z\r\n"),
        ("ü", "ö", "ü", "ö"),
        ("", "new", "", "new"),
        ("a,b,c", "a,b,,c", ",c", ",,c"),
        ("one two three", "one three", "two th", "th"),
        ("aaa", "aaaa", "aaa", "aaaa"),
        // Three bytes on each side suffice; a doubling search alone would take four.
        ("1abXcd2 3abcd4", "1abXcd2 3abXcd4", "3abcd4", "3abXcd4"),
    ] {
        let trace = UndoPatch::between(before, after);
        let written = serde_json::to_value(&trace).expect("it can be written");
        assert_eq!(written, json!({"removed": removed, "inserted": inserted}));
        assert_eq!(trace.undo(after).as_deref(), Some(before));
    }
}

#[test]
fn undo_works_after_other_edits() {
    let trace = UndoPatch::between("a\nz\n", "a\nours\nz\n");
    assert_eq!(trace.undo("b\nours\ny\n").as_deref(), Some("b\ny\n"));
    assert_eq!(trace.undo("b\ny\n"), None, "it is gone");
    assert_eq!(trace.undo("ours\nours\n"), None, "which of the two?");
    // Nothing is left to find.
    assert_eq!(UndoPatch::between("same", "same").undo("same"), None);
    assert_eq!(UndoPatch::between("gone", "").undo(""), None);
}

#[test]
fn undo_restores_a_long_repetitive_text() {
    let before = "{}, ".repeat(250_000);
    let after = format!("{}{{}}, {}", &before[..500_000], &before[500_000..]);
    assert_eq!(UndoPatch::between(&before, &after).undo(&after), Some(before));
}

proptest! {
    #![proptest_config(super::cases(256))]

    #[test]
    fn undo_in_reverse_order_restores_each_text(
        texts in prop::collection::vec("[ab\r\nü😀]{1,12}", 2..5),
    ) {
        let edits = texts.windows(2);
        let traces: Vec<UndoPatch> = edits.map(|two| UndoPatch::between(&two[0], &two[1])).collect();
        let mut text = texts[texts.len() - 1].clone();
        for (trace, two) in traces.iter().zip(texts.windows(2)).rev() {
            if two[0] != two[1] {
                text = trace.undo(&text).expect("the inserted text occurs once");
            }
            prop_assert_eq!(&text, &two[0]);
        }
    }
}

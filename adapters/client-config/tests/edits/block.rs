//! The block in a markdown file.

use proptest::prelude::*;
use reqlore_client_config::UndoPatch;
use reqlore_client_config::edit::block;

use super::cases::check;
use super::in_lines;

fn put(text: &str, content: &str) -> String {
    let put = block::put_block(text, content).expect("a text that can be edited");
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let found = block::find_block(&put).expect("it can be read").expect("a block");
    assert_eq!(lines(&found), lines(content), "the block is found\n{text}\n{put}");
    assert_eq!(block::put_block(&put, content), Ok(put.clone()), "nothing changes the second time");
    if put != text {
        assert_eq!(UndoPatch::between(text, &put).undo(&put).as_deref(), Some(text));
    }
    put
}

fn taken(text: &str) -> String {
    block::remove_block(text).expect("a text that can be edited")
}

#[test]
fn block_edits_match_the_reviewed_cases() {
    check("edits-block.txt", |verb, text| match verb {
        "put two lines" => put(text, "a\nb"),
        "put one line" => put(text, "a"),
        "put nothing" => put(text, ""),
        "put refused" => {
            in_lines(&block::put_block(text, "x").expect_err("a rejection").to_string())
        }
        "take" => taken(text),
        _ => rejected(text),
    });
}

fn rejected(text: &str) -> String {
    let rejected = block::put_block(text, "x").expect_err("a text that can't be edited");
    assert_eq!(block::remove_block(text).as_ref(), Err(&rejected));
    assert_eq!(block::find_block(text).as_ref(), Err(&rejected));
    in_lines(&rejected.to_string())
}

#[test]
fn block_removal_removes_one_blank_line() {
    for text in ["", "# Mine\n", "a\n\nb\n", "# Mine\r\n\r\n# More\r\n"] {
        assert_eq!(taken(&put(text, "x\ny")), text);
        assert_eq!(taken(text), text);
    }
    let after = "<!-- reqlore:begin -->\n<!-- reqlore:end -->\n```\n";
    assert_eq!(taken(&put(after, "x")), "```\n");
}

#[test]
fn markers_in_code_are_ignored() {
    for text in [
        "```html\n<!-- reqlore:begin -->\n```\n",
        "~~~~\n~~~\n<!-- reqlore:end -->\n~~~~\n",
        "   ```\n``\n<!-- reqlore:begin -->\n````\n",
        "    <!-- reqlore:begin -->\n",
        "Write `<!-- reqlore:begin -->` first.\n<!-- reqlore:begin --> and more\n",
    ] {
        assert_eq!(block::find_block(text), Ok(None), "{text}");
        assert_eq!(taken(&put(text, "x")), text);
    }
    let inline = "``` `x` ```\n<!-- reqlore:begin -->\n<!-- reqlore:end -->\n";
    assert_eq!(block::find_block(inline), Ok(Some(String::new())));
    // Content that would end the block.
    for content in ["a\n<!-- reqlore:end -->\nb", "<!-- reqlore:begin -->"] {
        assert!(block::put_block("", content).is_err(), "{content}");
    }
}

proptest! {
    #![proptest_config(super::cases(256))]

    #[test]
    fn block_edit_keeps_every_byte_around_it(
        text in "\u{feff}?([a#` \r]{0,3}\n|```\n|é\n|<!-- reqlore:(begin|end) -->\n){0,8}[a ]?",
        content in "([b`é]{0,4}\n){0,3}",
        other in "[cd]{1,3}",
    ) {
        let Ok(first) = block::put_block(&text, &content) else { return Ok(()) };
        let first = { let put = put(&text, &content); prop_assert_eq!(&put, &first); put };
        let second = put(&first, &other);
        let there = |text: &str| block::find_block(text).expect("it can be read").is_some();
        if !there(&text) {
            prop_assert!(first.starts_with(&text));
            let taken = taken(&second);
            prop_assert_eq!(taken.trim_end(), text.trim_end());
        }
        let undone = UndoPatch::between(&first, &second).undo(&second).expect("the second edit");
        prop_assert_eq!(&undone, &first);
        prop_assert!(!there(&taken(&second)));
    }
}

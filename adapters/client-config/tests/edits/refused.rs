//! What is not edited, and what a person is told then.

use expect_test::{Expect, expect};
use reqlore_client_config::edit;

use super::{JSON, TOML, command, in_lines, refusal};

#[test]
fn json_that_no_client_reads_is_refused() {
    let texts = r#"{'a': 1} {a:1} {1:1} {"a"1} {"a":1"b":2} {"a":[1"b"]} {"a":0x1} {"a":+1} {"a":.5}
        {"a":5.} {"a":01} {"a":-} {"a":1e} {"a":NaN} {"a":-Infinity} {"a":undefined} {"a":True}
        {"a":"\x41"} {"a":"\'"} {,} {"a":1,,} {"a":[,]} {}{} {}x {"a":1 {"a": {] #x{} {}/*x {"a":"}
        ' {"a":`x`} {"a":1/2} {"a":1;} {"a":(1)} {"a":\u0031}"#;
    let spaces = [
        "{\u{a0}}",
        "{\u{b}}",
        "{\u{2028}}",
        "{\0}",
        "{}\u{feff}",
        "[\"\n\"]",
        "[\"\t\"]",
        "{// x\r}",
    ];
    let texts = texts.split_whitespace().chain(spaces);
    for text in texts {
        let refused = refusal(text, JSON);
        assert!(refused.starts_with("line "), "{text}: {refused}");
        assert!(refused.contains("; correct it there"), "{text}: {refused}");
    }
}

fn check_json(text: &str, expected: &Expect) {
    expected.assert_eq(&in_lines(&refusal(text, JSON)));
}

#[test]
fn a_refusal_of_json_names_the_place_and_the_way_out() {
    check_json(
        "{\n  \"ä\": 1,\n  \"ü\": 'x'\n}",
        &expect![[r#"
        line 3, column 8:
        the file is not the JSON that its client reads:
        single-quoted strings are not allowed;
        correct it there, or move the file away,
        then run this again
    "#]],
    );
    check_json(
        "[]",
        &expect![[r#"
        line 1, column 1:
        the file is no JSON object;
        write `{}` instead of what is there, or move the file away,
        then run this again
    "#]],
    );
    check_json(
        "{\n  \"mcpServers\": []\n}",
        &expect![[r#"
        line 2, column 17:
        the value of `mcpServers` has to be an object;
        remove `mcpServers`, or write `{}` as its value,
        then run this again
    "#]],
    );
    check_json(
        "{\"mcpServers\": {\"reqlore\": \"x\"}}",
        &expect![[r#"
        line 1, column 28:
        the value of `reqlore` has to be an object;
        remove `reqlore`, or write `{}` as its value,
        then run this again
    "#]],
    );
    check_json(
        "{\n\"a\": \"x\r\ny\"}",
        &expect![[r#"
        line 2, column 8:
        the file is not the JSON that its client reads:
        a line break or tab in a string, where `\n` or `\t` has to stand;
        correct it there, or move the file away,
        then run this again
    "#]],
    );
}

#[test]
fn what_stands_twice_is_refused() {
    check_json(
        "{\"mcpServers\": {},\n\"mcp\\u0053ervers\": {}}",
        &expect![[r#"
        line 2, column 1:
        `mcpServers` stands twice in this object, and clients differ in which they take;
        remove one,
        then run this again
    "#]],
    );
    check_json(
        "{\"mcpServers\": {\"reqlore\": {},\n \"reqlore\": {}}}",
        &expect![[r#"
        line 2, column 2:
        `reqlore` stands twice in this object, and clients differ in which they take;
        remove one,
        then run this again
    "#]],
    );
    let twice = "{\"mcpServers\": {\"reqlore\": {\"url\": 1, \"url\": 2}}}";
    let refused = edit::put(twice, JSON, &command()).expect_err("two urls").to_string();
    expect![[r#"
        line 1, column 39:
        `url` stands twice in this object, and clients differ in which they take;
        remove one,
        then run this again
    "#]]
    .assert_eq(&in_lines(&refused));
}

#[test]
fn json_that_is_too_deep_or_too_long_is_refused() {
    for open in ["[", "{\"a\":", "{\"mcpServers\":{\"reqlore\":[{\"a\":"] {
        let refused = refusal(&open.repeat(100_000), JSON);
        assert!(refused.contains("nesting depth"), "{refused}");
    }
    let refused = refusal(&" ".repeat(17 * 1024 * 1024), JSON);
    expect!["it has 17825792 bytes, which is more than 16777216; is it the right file?"]
        .assert_eq(&refused);
}

#[test]
fn a_refusal_of_toml_names_the_place_and_the_way_out() {
    let check = |text: &str, expected: Expect| expected.assert_eq(&in_lines(&refusal(text, TOML)));
    check(
        "x",
        expect![[r#"
        line 1, column 2:
        the file is not the TOML that its client reads:
        key with no value, expected `=`;
        correct it there, or move the file away,
        then run this again
    "#]],
    );
    check(
        "a = 1\na = 2",
        expect![[r#"
        line 2, column 1:
        the file is not the TOML that its client reads:
        duplicate key;
        correct it there, or move the file away,
        then run this again
    "#]],
    );
    check(
        "mcp_servers = 1",
        expect![[r#"
        line 1, column 15:
        `mcp_servers` has to be a table;
        remove it,
        then run this again
    "#]],
    );
    check(
        "[[mcp_servers]]",
        expect![[r#"
        line 1, column 1:
        `mcp_servers` has to be a table;
        remove it,
        then run this again
    "#]],
    );
    check(
        "[mcp_servers]\n\n  reqlore = []",
        expect![[r#"
        line 3, column 13:
        `reqlore` has to be a table;
        remove it,
        then run this again
    "#]],
    );
    check(
        "{\"a\": 1}",
        expect![[r#"
        line 1, column 1:
        the file is not the TOML that its client reads:
        invalid key-value pair, expected key;
        correct it there, or move the file away,
        then run this again
    "#]],
    );
}

#[test]
fn toml_that_is_too_deep_is_refused() {
    for open in ["a=[", "a={a=", "[", "a."] {
        let rest = open.chars().skip_while(|sign| *sign == 'a' || *sign == '=');
        let deep = rest.collect::<String>().repeat(100_000);
        refusal(&format!("{open}{deep}"), TOML);
    }
}

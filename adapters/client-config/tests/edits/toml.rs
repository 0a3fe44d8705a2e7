//! TOML files, each as a person may have written it.

use expect_test::{Expect, expect};
use reqlore_client_config::edit;
use serde_json::json;

use super::{TOML, command, entry, in_lines, put, refusal, take};

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&put(text, TOML, &command()));
}

#[test]
fn a_new_table_comes_last() {
    check("", &expect![[r#"
        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]]);
    check("# mine", &expect![[r##"
        # mine

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]"##]]);
    check("model = \"x\" # good\n\n[mcp_servers.a]\ncommand = \"b\"\n\n", &expect![[r#"
        model = "x" # good

        [mcp_servers.a]
        command = "b"

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]]);
    check("mcp_servers.a.command = '''\n[mcp_servers.reqlore]\n'''\n[[z]]\n", &expect![[r#"
        mcp_servers.a.command = '''
        [mcp_servers.reqlore]
        '''
        [[z]]

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]]);
}

#[test]
fn windows_line_ends_are_kept() {
    let put = put("\u{feff}model = 1\r\n", TOML, &command());
    assert_eq!(put.matches('\n').count(), put.matches("\r\n").count());
    assert!(put.starts_with("\u{feff}model = 1\r\n\r\n[mcp"), "{put:?}");
}

#[test]
fn a_table_keeps_its_owners_keys_and_comments() {
    let text = r#"[mcp_servers.reqlore] # ours
# before
url = "http://127.0.0.1" # old
startup_timeout_sec = 20 # slow
  args = [
    "x", # one
  ]
# after

[mcp_servers.reqlore.env]
A = "b"

[profiles.x]
"#;
    check(text, &expect![[r#"
        [mcp_servers.reqlore] # ours
        # before
        # old
        startup_timeout_sec = 20 # slow
          args = ["serve", "--root", "/a b"]
          command = "reqlore"
        # after

        [mcp_servers.reqlore.env]
        A = "b"

        [profiles.x]
    "#]]);
    expect![[r#"
        # after

        [profiles.x]
    "#]].assert_eq(&take(text, TOML));
}

#[test]
fn each_way_to_write_a_table_is_kept() {
    let check = |text: &str, expected: Expect| {
        let short = entry(json!({"command": "reqlore", "args": ["serve"]}), &["url"]);
        expected.assert_eq(&put(text, TOML, &short));
    };
    check("[mcp_servers]\nreqlore = { url = 'x', timeout = 3 } # c\n[z]\n", expect![[r#"
        [mcp_servers]
        reqlore = { timeout = 3, command = "reqlore", args = ["serve"] } # c
        [z]
    "#]]);
    check("mcp_servers = { a = { b = 1 } }", expect![[r#"mcp_servers = { a = { b = 1 }, reqlore = { command = "reqlore", args = ["serve"] } }"#]]);
    check("mcp_servers = {}", expect![[r#"mcp_servers = { reqlore = { command = "reqlore", args = ["serve"] } }"#]]);
    check("mcp_servers = {\n  a.b = 1, # c, d\n}", expect![[r#"
        mcp_servers = {
          a.b = 1, reqlore = { command = "reqlore", args = ["serve"] }, # c, d
        }"#]]);
    check("mcp_servers.reqlore.url = 1 # u\n mcp_servers.reqlore.x = 2 # x\nz = 1", expect![[r##"
        # u
         mcp_servers.reqlore.x = 2 # x
         mcp_servers.reqlore.command = "reqlore"
         mcp_servers.reqlore.args = ["serve"]
        z = 1"##]]);
    check("mcp_servers = { reqlore.url = 1, reqlore.x = 2, b = 3 }", expect![[r#"mcp_servers = { reqlore.x = 2, b = 3, reqlore.command = "reqlore", reqlore.args = ["serve"] }"#]]);
    check("[mcp_servers]\na.b = 1\n\"reqlore\".c = '#'\n[z]\n", expect![[r#"
        [mcp_servers]
        a.b = 1
        "reqlore".c = '#'
        reqlore.command = "reqlore"
        reqlore.args = ["serve"]
        [z]
    "#]]);
    check("[mcp_servers.reqlore.env]\nA = 'b'\n[z]\n", expect![[r#"
        [mcp_servers.reqlore.env]
        A = 'b'
        [z]

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve"]
    "#]]);
    check("[mcp_servers.reqlore]\n[z]\n", expect![[r#"
        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve"]
        [z]
    "#]]);
}

#[test]
fn a_table_where_a_value_shall_be_is_replaced() {
    let env = entry(json!({"env": {"A": "b"}, "n": 1.5, "z": null}), &["old"]);
    let text = "[mcp_servers.reqlore]\nn = 1\n\n[mcp_servers.reqlore.env]\nA = 'c'\n\n\
                [[mcp_servers.reqlore.old]]\nx = 1\n\n[z]\n";
    let edited = edit::put(text, TOML, &env).expect("it can be edited");
    expect![[r#"
        [mcp_servers.reqlore]
        n = 1.5
        env = { A = "b" }

        [z]
    "#]].assert_eq(&edited);
    let dotted = "mcp_servers.reqlore.env.A = 1\nmcp_servers.reqlore.env.B = 2\n";
    let edited = edit::put(dotted, TOML, &env).expect("it can be edited");
    expect![[r#"
        [mcp_servers.reqlore]
        env = { A = "b" }
        n = 1.5
    "#]].assert_eq(&edited);
}

#[test]
fn strings_and_keys_are_quoted() {
    let odd = entry(json!({"a b": ["\"\\\n\u{7f}\u{1}é"], "": {"c.d": true}}), &[]);
    expect![[r#"
        [mcp_servers.reqlore]
        "a b" = ["\"\\\n\u007F\u0001é"]
        "" = { "c.d" = true }
    "#]].assert_eq(&put("", TOML, &odd));
}

#[test]
fn each_way_to_write_a_table_is_taken_out() {
    let taken = |text: &str| take(text, TOML);
    expect![[r#"
        a = 1

        # z
        [z]
    "#]].assert_eq(&taken("a = 1\n\n[mcp_servers.reqlore]\nb = 1\n\n# z\n[z]\n"));
    expect!["mcp_servers = { b = 2 }"].assert_eq(&taken("mcp_servers = { reqlore = { a = 1 }, b = 2 }"));
    expect!["mcp_servers = { b = 2 } # c"].assert_eq(&taken("mcp_servers = { b = 2, reqlore = { a = 1 } } # c"));
    expect!["mcp_servers = { b = 3 }"].assert_eq(&taken("mcp_servers = { reqlore.x = 2, b = 3, reqlore.y = 4 }"));
    expect![[r#"
        mcp_servers = {
          a = 1, # c, d
          # e
        }"#]].assert_eq(&taken("mcp_servers = {\n  a = 1, # c, d\n  reqlore = {}, # e\n}"));
    expect![[r#"
        mcp_servers = {
          a = 1 # c, d
        }"#]].assert_eq(&taken("mcp_servers = {\n  a = 1, # c, d\n  reqlore = {}\n}"));
    expect![[r#"
        # x
        mcp_servers.b.y = 4"#]].assert_eq(&taken("mcp_servers.reqlore.x = 2 # x\nmcp_servers.b.y = 4"));
    expect![[r#"
        [z]
    "#]].assert_eq(&taken(
        "[mcp_servers.reqlore.env]\nA = 1\n[z]\n[mcp_servers.reqlore]\nb.c = 1\n\
         [[mcp_servers.reqlore.d]]\n",
    ));
}

#[test]
fn a_refusal_names_the_place_and_the_way_out() {
    let check = |text: &str, expected: Expect| expected.assert_eq(&in_lines(&refusal(text, TOML)));
    check("x", expect![[r#"
        line 1, column 2:
        the file is not the TOML that its client reads:
        key with no value, expected `=`;
        correct it there, or move the file away,
        then run this again
    "#]]);
    check("a = 1\na = 2", expect![[r#"
        line 2, column 1:
        the file is not the TOML that its client reads:
        duplicate key;
        correct it there, or move the file away,
        then run this again
    "#]]);
    check("mcp_servers = 1", expect![[r#"
        line 1, column 15:
        `mcp_servers` has to be a table;
        remove it,
        then run this again
    "#]]);
    check("[[mcp_servers]]", expect![[r#"
        line 1, column 1:
        `mcp_servers` has to be a table;
        remove it,
        then run this again
    "#]]);
    check("[mcp_servers]\n\n  reqlore = []", expect![[r#"
        line 3, column 13:
        `reqlore` has to be a table;
        remove it,
        then run this again
    "#]]);
    check("{\"a\": 1}", expect![[r#"
        line 1, column 1:
        the file is not the TOML that its client reads:
        invalid key-value pair, expected key;
        correct it there, or move the file away,
        then run this again
    "#]]);
}

#[test]
fn a_file_that_is_too_deep_is_refused_and_a_long_one_is_not() {
    for open in ["a=[", "a={a=", "[", "a."] {
        let rest = open.chars().skip_while(|sign| *sign == 'a' || *sign == '=');
        let deep = rest.collect::<String>().repeat(100_000);
        refusal(&format!("{open}{deep}"), TOML);
    }
    let tables: String =
        (0..10_000).map(|i| format!("[mcp_servers.a{i}]\nb = {{ c = 1 }}\n\n")).collect();
    let put = put(&tables, TOML, &command());
    assert_eq!(take(&put, TOML).trim_end(), tables.trim_end());
}

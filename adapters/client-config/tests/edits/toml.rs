//! TOML files, each as a person may have written it.

use expect_test::{Expect, expect};
use reqlore_client_config::edit;
use serde_json::json;

use super::{TOML, command, entry, put, take};

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&put(text, TOML, &command()));
}

fn check_short(text: &str, expected: &Expect) {
    let short = entry(json!({"command": "reqlore", "args": []}), &["url"]);
    expected.assert_eq(&put(text, TOML, &short));
}

#[test]
fn a_new_table_comes_last() {
    check(
        "",
        &expect![[r#"
        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]],
    );
    check(
        "# mine",
        &expect![[r##"
        # mine

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]"##]],
    );
    check(
        "model = \"x\" # good\n\n[mcp_servers.a]\ncommand = \"b\"\n\n",
        &expect![[r#"
        model = "x" # good

        [mcp_servers.a]
        command = "b"

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]],
    );
    check(
        "mcp_servers.a.command = '''\n[mcp_servers.reqlore]\n'''\n[[z]]\n",
        &expect![[r#"
        mcp_servers.a.command = '''
        [mcp_servers.reqlore]
        '''
        [[z]]

        [mcp_servers.reqlore]
        command = "reqlore"
        args = ["serve", "--root", "/a b"]
    "#]],
    );
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
    check(
        text,
        &expect![[r#"
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
    "#]],
    );
    expect![[r#"
        # after

        [profiles.x]
    "#]]
    .assert_eq(&take(text, TOML));
}

#[test]
fn a_table_in_braces_stays_in_them() {
    check_short(
        "[mcp_servers]\nreqlore = { url = 'x', timeout = 3 } # c\n[z]\n",
        &expect![[r#"
            [mcp_servers]
            reqlore = { timeout = 3, command = "reqlore", args = [] } # c
            [z]
        "#]],
    );
    check_short(
        "mcp_servers = { a = { b = 1 } }",
        &expect![[
            r#"mcp_servers = { a = { b = 1 }, reqlore = { command = "reqlore", args = [] } }"#
        ]],
    );
    check_short(
        "mcp_servers = {}",
        &expect![[r#"mcp_servers = { reqlore = { command = "reqlore", args = [] } }"#]],
    );
    check_short(
        "mcp_servers = {\n  a.b = 1, # c, d\n}",
        &expect![[r#"
            mcp_servers = {
              a.b = 1, reqlore = { command = "reqlore", args = [] }, # c, d
            }"#]],
    );
    check_short(
        "mcp_servers = { reqlore.url = 1, reqlore.command = 2, b = 3 }",
        &expect![[r#"mcp_servers = { reqlore.command = "reqlore", b = 3, reqlore.args = [] }"#]],
    );
}

#[test]
fn dotted_keys_stay_dotted() {
    check_short(
        "mcp_servers.reqlore.url = 1 # u\n mcp_servers.reqlore.x = 2 # x\nz = 1",
        &expect![[r##"
            # u
             mcp_servers.reqlore.x = 2 # x
             mcp_servers.reqlore.command = "reqlore"
             mcp_servers.reqlore.args = []
            z = 1"##]],
    );
    check_short(
        "[mcp_servers]\na.b = 1\n\"reqlore\".c = '#'\n[z]\n",
        &expect![[r#"
            [mcp_servers]
            a.b = 1
            "reqlore".c = '#'
            reqlore.command = "reqlore"
            reqlore.args = []
            [z]
        "#]],
    );
}

#[test]
fn a_table_that_has_no_keys_gets_them() {
    check_short(
        "[mcp_servers.reqlore.env]\nA = 'b'\n[z]\n",
        &expect![[r#"
            [mcp_servers.reqlore.env]
            A = 'b'
            [z]

            [mcp_servers.reqlore]
            command = "reqlore"
            args = []
        "#]],
    );
    check_short(
        "[mcp_servers.reqlore]\n[z]\n",
        &expect![[r#"
            [mcp_servers.reqlore]
            command = "reqlore"
            args = []
            [z]
        "#]],
    );
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
    "#]]
    .assert_eq(&edited);
    let dotted = "mcp_servers.reqlore.env.A = 1\nmcp_servers.reqlore.env.B = 2\n";
    let edited = edit::put(dotted, TOML, &env).expect("it can be edited");
    expect![[r#"
        [mcp_servers.reqlore]
        env = { A = "b" }
        n = 1.5
    "#]]
    .assert_eq(&edited);
    let inline = "mcp_servers = { reqlore.env.A = 1, b = 1, reqlore.env.B = 2 }";
    let edited = edit::put(inline, TOML, &env).expect("it can be edited");
    expect![[r#"mcp_servers = { b = 1, reqlore = { env = { A = "b" }, n = 1.5 } }"#]]
        .assert_eq(&edited);
}

#[test]
fn what_toml_can_not_say_is_refused() {
    let odd = entry(json!({"env": {"A": null}}), &[]);
    let refused = edit::put("", TOML, &odd).expect_err("there is no null");
    expect![
        "`mcp_servers.reqlore` can't be written into this file without breaking it; add it by hand"
    ]
    .assert_eq(&refused.to_string());
}

#[test]
fn strings_and_keys_are_quoted() {
    let odd = entry(json!({"a b": ["\"\\\n\u{7f}\u{1}é"], "": {"c.d": true}}), &[]);
    expect![[r#"
        [mcp_servers.reqlore]
        "a b" = ["\"\\\n\u007F\u0001é"]
        "" = { "c.d" = true }
    "#]]
    .assert_eq(&put("", TOML, &odd));
}

#[test]
fn each_way_to_write_a_table_is_taken_out() {
    let taken = |text: &str| take(text, TOML);
    expect![[r#"
        a = 1

        # z
        [z]
    "#]]
    .assert_eq(&taken("a = 1\n\n[mcp_servers.reqlore]\nb = 1\n\n# z\n[z]\n"));
    expect!["mcp_servers = { b = 2 }"]
        .assert_eq(&taken("mcp_servers = { reqlore = { a = 1 }, b = 2 }"));
    expect!["mcp_servers = { b = 2 } # c"]
        .assert_eq(&taken("mcp_servers = { b = 2, reqlore = { a = 1 } } # c"));
    expect!["mcp_servers = { b = 3 }"]
        .assert_eq(&taken("mcp_servers = { reqlore.x = 2, b = 3, reqlore.y = 4 }"));
    expect![[r#"
        mcp_servers = {
          a = 1, # c, d
          # e
        }"#]]
    .assert_eq(&taken("mcp_servers = {\n  a = 1, # c, d\n  reqlore = {}, # e\n}"));
    expect![[r#"
        mcp_servers = {
          a = 1 # c, d
        }"#]]
    .assert_eq(&taken("mcp_servers = {\n  a = 1, # c, d\n  reqlore = {}\n}"));
    expect![[r#"
        mcp_servers = {
          # x, y
           b = 1
        }"#]]
    .assert_eq(&taken("mcp_servers = {\n  reqlore = {} # x, y\n  , b = 1\n}"));
    expect![[r#"
        # x
        mcp_servers.b.y = 4"#]]
    .assert_eq(&taken("mcp_servers.reqlore.x = 2 # x\nmcp_servers.b.y = 4"));
    expect![[r#"
        [z]
    "#]]
    .assert_eq(&taken(
        "[mcp_servers.reqlore.env]\nA = 1\n[z]\n[mcp_servers.reqlore]\nb.c = 1\n\
         [[mcp_servers.reqlore.d]]\n",
    ));
}

#[test]
fn a_long_file_is_edited_like_a_short_one() {
    let tables: Vec<_> =
        (0..3_000).map(|i| format!("[mcp_servers.a{i}]\nb = {{ c = 1 }}\n\n")).collect();
    let tables = tables.concat();
    let put = put(&tables, TOML, &command());
    assert_eq!(take(&put, TOML).trim_end(), tables.trim_end());
}

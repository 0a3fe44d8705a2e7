//! JSON files, each as a person may have written it.

use expect_test::{Expect, expect};
use reqlore_client_config::edit;
use serde_json::json;

use super::{JSON, command, entry, put, take, url};

fn check(text: &str, expected: &Expect) {
    expected.assert_eq(&put(text, JSON, &command()).replace("\r\n", "\n"));
}

#[test]
fn a_new_file_is_written_whole() {
    check(
        "",
        &expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              "command": "reqlore",
              "args": ["serve", "--root", "/a b"]
            }
          }
        }
    "#]],
    );
    check(
        " \r\n",
        &expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              "command": "reqlore",
              "args": ["serve", "--root", "/a b"]
            }
          }
        }
    "#]],
    );
    check(
        "{}",
        &expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              "command": "reqlore",
              "args": ["serve", "--root", "/a b"]
            }
          }
        }"#]],
    );
    check(
        "{ }\n",
        &expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              "command": "reqlore",
              "args": ["serve", "--root", "/a b"]
            }
          }
        }
    "#]],
    );
    check(
        "// empty as yet",
        &expect![[r#"
        // empty as yet
        {
          "mcpServers": {
            "reqlore": {
              "command": "reqlore",
              "args": ["serve", "--root", "/a b"]
            }
          }
        }
    "#]],
    );
}

#[test]
fn a_new_entry_comes_last_and_comments_stay() {
    check(
        r#"{
  // the model
  "model": "x", /* a good one */
  "mcpServers": {
    "other": { "command": "{ // \" }" } // theirs
    // "old": {}
  }
}
"#,
        &expect![[r#"
            {
              // the model
              "model": "x", /* a good one */
              "mcpServers": {
                "other": { "command": "{ // \" }" }, // theirs
                // "old": {}
                "reqlore": {
                  "command": "reqlore",
                  "args": ["serve", "--root", "/a b"]
                }
              }
            }
        "#]],
    );
}

#[test]
fn a_trailing_comma_is_kept_as_a_habit() {
    check(
        "{\n    \"mcpServers\": {\n        \"a\": {}, // one\n        \"b\": {}, // two\n    },\n}",
        &expect![[r#"
            {
                "mcpServers": {
                    "a": {}, // one
                    "b": {}, // two
                    "reqlore": {
                        "command": "reqlore",
                        "args": ["serve", "--root", "/a b"]
                    },
                },
            }"#]],
    );
}

#[test]
fn tabs_and_windows_line_ends_are_kept() {
    let text = "{\r\n\t\"mcpServers\": {\r\n\t\t// none yet\r\n\t}\r\n}\r\n";
    let put = put(text, JSON, &command());
    assert_eq!(put.matches('\n').count(), put.matches("\r\n").count());
    expect![[r#"
        {
        	"mcpServers": {
        		// none yet
        		"reqlore": {
        			"command": "reqlore",
        			"args": ["serve", "--root", "/a b"]
        		}
        	}
        }
    "#]]
    .assert_eq(&put.replace("\r\n", "\n"));
}

#[test]
fn what_stands_on_one_line_stays_on_it() {
    let check = |text: &str, expected: Expect| {
        let short = entry(json!({"command": "reqlore", "args": []}), &[]);
        expected.assert_eq(&put(text, JSON, &short));
    };
    check(
        r#"{"a":1}"#,
        expect![[r#"{"a":1,"mcpServers":{"reqlore":{"command":"reqlore","args":[]}}}"#]],
    );
    check(
        r#"{ "mcpServers": { "a": {}, } }"#,
        expect![[
            r#"{ "mcpServers": { "a": {}, "reqlore": { "command": "reqlore", "args": [] }, } }"#
        ]],
    );
    check(
        r#"{"mcpServers": { /* none */ }}"#,
        expect![[
            r#"{"mcpServers": { /* none */ "reqlore": { "command": "reqlore", "args": [] } }}"#
        ]],
    );
    check(
        "{\n  \"mcpServers\": { \"a\": {} }\n}",
        expect![[r#"
            {
              "mcpServers": { "a": {}, "reqlore": { "command": "reqlore", "args": [] } }
            }"#]],
    );
}

#[test]
fn an_entry_keeps_its_owners_keys_and_their_order() {
    let text = r#"{
  "mcpServers": {
    "reqlore": {
      // slow disk
      "timeout": 30000, // 30 s
      "command": "npx", // from npm
      "url": "http://127.0.0.1:8080/mcp", // old
      "env": { "A": "b" }
    },
    "other": {}
  }
}
"#;
    check(
        text,
        &expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              // slow disk
              "timeout": 30000, // 30 s
              "command": "reqlore", // from npm
              // old
              "env": { "A": "b" },
              "args": ["serve", "--root", "/a b"]
            },
            "other": {}
          }
        }
    "#]],
    );
    expect![[r#"
        {
          "mcpServers": {
            "reqlore": {
              // slow disk
              "timeout": 30000, // 30 s
              // from npm
              "url": "https://example.org/mcp", // old
              "env": { "A": "b" },
              "headers": {
                "Authorization": "Bearer ${T}"
              }
            },
            "other": {}
          }
        }
    "#]]
    .assert_eq(&put(text, JSON, &url()));
    expect![[r#"
        {
          "mcpServers": {
            "other": {}
          }
        }
    "#]]
    .assert_eq(&take(text, JSON));
}

#[test]
fn an_entry_as_it_shall_be_is_left_as_it_is_written() {
    let text = r#"{"mcpServers":{"reqlore":{"args":["serve" , "--root",
        "/a b"],"x":1,"command":"\u0072eqlore"}}}"#;
    assert_eq!(put(text, JSON, &command()), text);
}

#[test]
fn lists_of_objects_are_written_in_lines() {
    let nested = entry(json!({"a": [{"b": []}, [1, null]], "c": {}, "d": "\"\n"}), &[]);
    expect![[r#"
        {
        	"b": 1,
        	"mcpServers": {
        		"reqlore": {
        			"a": [
        				{
        					"b": []
        				},
        				[1, null]
        			],
        			"c": {},
        			"d": "\"\n"
        		}
        	}
        }"#]]
    .assert_eq(&put("{\n\t\"b\": 1\n}", JSON, &nested));
    expect![[r#"{"b":1,"mcpServers":{"reqlore":{"a":[{"b":[]},[1,null]],"c":{},"d":"\"\n"}}}"#]]
        .assert_eq(&put("{\"b\":1}", JSON, &nested));
}

#[test]
fn an_entry_is_taken_out_with_its_comma() {
    let taken = |text: &str| take(text, JSON).replace("\r\n", "¶\n");
    expect![[r#"{ "mcpServers": { "a": 1, "b": 2 } }"#]]
        .assert_eq(&taken(r#"{ "mcpServers": { "a": 1, "reqlore": {}, "b": 2 } }"#));
    expect![[r#"{ "mcpServers": { "b": 2 } }"#]]
        .assert_eq(&taken(r#"{ "mcpServers": { "reqlore": {}, "b": 2 } }"#));
    expect![[r#"{ "mcpServers": { "a": 1 } }"#]]
        .assert_eq(&taken(r#"{ "mcpServers": { "a": 1, "reqlore": {} } }"#));
    expect![[r#"{ "mcpServers": { "a": 1, } }"#]]
        .assert_eq(&taken(r#"{ "mcpServers": { "a": 1, "reqlore": {}, } }"#));
    expect![[r#"{ "mcpServers": { "a": 1 /* x */ /* y */ } }"#]]
        .assert_eq(&taken(r#"{ "mcpServers": { "a": 1, /* x */ "reqlore": {} /* y */ } }"#));
    expect![[r#"{"mcpServers": {}}"#]]
        .assert_eq(&taken("{\"mcpServers\": {\n  \"reqlore\": {\n  }\n}}"));
    expect![[r#"
        {"mcpServers": {¶
          "a": 1 // x¶
          // y¶
          // z¶
        }}"#]]
    .assert_eq(&taken(
        "{\"mcpServers\": {\r\n  \"a\": 1, // x\r\n  // y\r\n  \"reqlore\": {} // z\r\n}}",
    ));
    expect![[r#"
        {"mcpServers": {
          // z
          "a": 1
        }}"#]]
    .assert_eq(&taken("{\"mcpServers\": {\n  \"reqlore\": {} // z\n  ,\n  \"a\": 1\n}}"));
    expect![[r#"
        {"mcpServers": {
          "a": 1
        }}"#]]
    .assert_eq(&taken("{\"mcpServers\": {\n  \"a\": 1\n  , \"reqlore\": {}\n}}"));
}

#[test]
fn half_of_a_surrogate_pair_is_no_reason_to_refuse() {
    let text = r#"{"history": ["\ud83d", "\\\udE00", "\ud83d\ude00", "\\ud83d"]}"#;
    let put = put(text, JSON, &command());
    assert!(put.starts_with(text.trim_end_matches('}')), "{put}");
}

#[test]
fn a_long_file_is_edited_like_a_short_one() {
    for between in [", ", ",\n", ",// x\n"] {
        let server = format!("\"a\": {{\"b\": [{{\"c\": 1}}]}}{between}");
        let text = format!("{{\"mcpServers\": {{{}\n\"z\": 1}}}}", server.repeat(10_000));
        let put = edit::put(&text, JSON, &command()).expect("it can be edited");
        assert!(take(&put, JSON) == text, "it is as before: {between:?}");
    }
}

//! scratch
use reqlore_client_config::edit::{self, *};
use serde_json::json;
#[test]
fn show() {
    let slot = Slot { format: Format::Json, path: &["mcpServers"] };
    let serde_json::Value::Object(set) =
        json!({"command": "reqlore", "args": ["serve", "--root", "/x"], "env": {"A": "b"}})
    else {
        panic!()
    };
    let entry = Entry { set, drop: &["url"] };
    for text in [
        "",
        "{}",
        "{ }\n",
        "// c",
        "{\"a\":1}",
        "{\"mcpServers\":{}}",
        "{ \"mcpServers\": { /* c */ } }",
        "{\n    \"mcpServers\": {}\n}",
        "{\n  \"mcpServers\": {\n    \"a\": {}, // x\n    // y\n  },\n}\n",
        "{\r\n\t\"b\": 1,\r\n\t\"mcpServers\": {\r\n\t\t// none\r\n\t}\r\n}",
        "{\n  \"mcpServers\": {\n    \"reqlore\": { \"url\": \"x\", /* k */ \"timeout\": 3 }\n  }\n}\n",
        "{\n  \"mcpServers\": {\n    \"reqlore\": {\n      // mine\n      \"timeout\": 3, // t\n      \"url\": \"x\"\n    }\n  }\n}\n",
    ] {
        let put = edit::put(text, slot, &entry).unwrap_or_else(|e| panic!("{text}: {e}"));
        let taken = edit::take(&put, slot).unwrap();
        println!("---- {text:?}\n{put}\n-- taken\n{taken}");
        assert_eq!(edit::put(&put, slot, &entry).unwrap(), put);
        assert_eq!(
            reqlore_client_config::Trace::between(text, &put).undo(&put).as_deref(),
            Some(text)
        );
    }
    for text in [
        "[1]",
        "{'a': 1}",
        "{a: 1}",
        "{\"a\": 0x1}",
        "{\"a\": 1 \"b\": 2}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": 5.}",
        "{\"a\": 01}",
        "{\"a\": NaN}",
        "{\"a\": \"x\ny\"}",
        "{\u{a0}}",
        "{\"a\": \"\\x41\"}",
        "{,}",
        "{\"a\": 1,,}",
        "{} {}",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": {}, \"mcp\\u0053ervers\": {}}",
        "{\"mcpServers\": {\"reqlore\": null}}",
        "{\"a\": 1",
        "# x\n{}",
        "{\"a\": undefined}",
        "{\"a\": -}",
        "{\"a\": 1e}",
        "{\"a\": True}",
        "{\"a\": \"\\'\"}",
        "{}/* x",
        "{\"a\": 1} x",
        "{\"a\": 1/2}",
        "{\"a\":1;}",
        "{\"a\": `x`}",
        "{\u{b}}",
    ] {
        println!("{text:?}: {:?}", edit::put(text, slot, &entry));
    }
    let deep = "[".repeat(100_000);
    println!("{:?}", edit::find(&deep, slot));
    let deep = "{\"a\":".repeat(100_000);
    println!("{:?}", edit::find(&deep, slot));
    println!(
        "{:?}",
        edit::find(
            r#"{"x": "\ud83d", "mcpServers": {"reqlore": {"y": "\ud83d\ude00 \\ud83d"}}}"#,
            slot
        )
    );
}
#[test]
fn show_toml() {
    let slot = Slot { format: Format::Toml, path: &["mcp_servers"] };
    let serde_json::Value::Object(set) =
        json!({"command": "reqlore", "args": ["serve", "--root", "/x"], "env": {"A": "b"}})
    else {
        panic!()
    };
    let entry = Entry { set, drop: &["url"] };
    for text in [
        "",
        "# c",
        "model = \"x\"\r\n",
        "[a]\nx = 1\n\n[b]\ny = 2\n\n",
        "mcp_servers = { a = { command = \"x\" } }\n",
        "mcp_servers = {}\n",
        "mcp_servers.a.command = \"x\"\n[z]\n",
        "mcp_servers.a = 1 # x\nmcp_servers.reqlore.url = 1 # c\n  mcp_servers.reqlore.timeout = 3 # t\nother = 1\n[z]\n",
        "[mcp_servers]\nreqlore = { url = 'x', timeout = 3, env.B = '' } # c\n[mcp_servers.b]\nx = 1\n",
        "[mcp_servers.reqlore] # h\n# before\nurl = 1 # u\ntimeout = 3 # t\n  args = [\n 1, # one\n]\n# tail\n\n[mcp_servers.reqlore.env]\nA = 'c'\n\n[z]\n",
        "[mcp_servers.reqlore]\n[z]\n",
        "[mcp_servers.reqlore.env]\nA = 'b'\n[z]\n",
        "[[a]]\n[[a]]\n[mcp_servers.a]\nx = '''\n[mcp_servers.reqlore]\n'''\n",
        "mcp_servers = { reqlore.url = 1, reqlore.x = 2, b = 3, reqlore.y = 4 }",
        "mcp_servers = {\n  a = 1, # c, d\n  reqlore = { x = 1 }, # e\n}",
        "[a]\nb.c = 1\n[mcp_servers]\na.b = 1\nreqlore.c = 1\n",
        "mcp_servers.reqlore.url = 1\n[z]",
    ] {
        let put = edit::put(text, slot, &entry).unwrap_or_else(|e| panic!("{text}: {e}"));
        let taken = edit::take(&put, slot).unwrap();
        println!("---- {text:?}\n{put}\n-- taken\n{taken}|");
        assert_eq!(edit::put(&put, slot, &entry).unwrap(), put);
        assert_eq!(
            reqlore_client_config::Trace::between(text, &put).undo(&put).as_deref(),
            Some(text)
        );
    }
    for text in [
        "x",
        "mcp_servers = 1",
        "[[mcp_servers]]",
        "a = 1\na = 2",
        "[mcp_servers]\n\nreqlore = []",
        &"[".repeat(100_000),
        &format!("a={}", "[".repeat(100_000)),
        &format!("a={}", "{a=".repeat(100_000)),
        &"a.".repeat(100_000),
    ] {
        let s = format!("{:?}", edit::put(text, slot, &entry));
        println!("{:?}: {}", &text[..text.len().min(80)], &s);
    }
}

//! The stdio transport: malformed input, order, limits, protocol revisions and shutdown.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::{Server, call, project, request, section_file, set, text};

const LATEST_REVISION: &str = "2026-07-28";
const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;

fn initialize(version: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": "i", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" }
    } })
}

/// The `_meta` that makes a request self-contained (2026-07-28).
fn request_meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" }
    })
}

/// Peak resident memory of the server in MiB.
fn peak_mib(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    peak / 1024
}

// Catalogue 50, 51, 53, 58, 60
#[test]
fn stdio_invalid_line_gets_one_error_and_the_next_works() {
    const LIMIT: usize = 4 * 1024 * 1024;
    let project = project();
    let mut server = Server::start(project.path());
    let padded = |length: usize| format!("{PING}{}", " ".repeat(length - PING.len()));
    for length in [LIMIT - 1, LIMIT] {
        server.send(padded(length));
        assert!(server.answer().get("result").is_some(), "{length}");
    }
    let deep = format!(r#"{{"jsonrpc":"2.0","id":5,"params":{}"#, "[".repeat(100_000));
    let (too_long, far_too_long) = (padded(LIMIT + 1), padded(100 << 20));
    let number =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","n":1e400}}"#;
    for (line, code, id) in [
        (&b"nonsense"[..], -32700, Value::Null),
        (b"\xff\xfe", -32700, Value::Null),
        (br#"{"jsonrpc":"2.0","id":"a","method":"ping","#, -32700, json!("a")),
        (br#"{"jsonrpc":"2.0","params":{"id":7},"method":"ping","#, -32700, Value::Null),
        (deep.as_bytes(), -32700, json!(5)),
        (b"42", -32600, Value::Null),
        (b"[]", -32600, Value::Null),
        (br#"{"foo":1}"#, -32600, Value::Null),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#, -32602, json!(1)),
        (number.as_bytes(), -32602, json!(1)),
        (too_long.as_bytes(), -32600, json!(1)),
        (far_too_long.as_bytes(), -32600, json!(1)),
    ] {
        server.send(line);
        let answer = server.answer();
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert_eq!(answer.get("id"), Some(&id), "{answer}");
        server.send(PING);
        assert_eq!(server.answer()["id"], 1);
    }
    assert!(peak_mib(&server) < 64);
    let (rest, status) = server.end();
    assert_eq!((rest, status.success()), (vec![], true));
}

// S5: 3.3
#[test]
fn stdio_batch_runs_in_order_and_is_answered_as_one_array() {
    let project = project();
    let mut server = Server::start(project.path());
    let epic = |id: u32| {
        let arguments = json!({ "title": format!("Epic {id}"), "priority": 1 });
        let params = json!({ "name": "create_epic", "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let members = [
        epic(1),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        request(2, "initialize", json!({})),
        json!(42),
        epic(3),
        request("last", "no/such", json!({})),
    ];
    server.send(json!(members).to_string());
    // Sent before the batch is complete, answered after it.
    server.send(PING);
    let answers = server.answer();
    let answers = answers.as_array().unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2), &Value::Null, &json!(3), &json!("last")]);
    let references = [0, 3].map(|member| &answers[member]["result"]["structuredContent"]);
    assert_eq!(references.map(|item| &item["reference_id"]), ["EP-001", "EP-002"]);
    let codes = [1, 2, 4].map(|member| &answers[member]["error"]["code"]);
    assert_eq!(codes, [-32600, -32600, -32601]);
    assert_eq!(server.answer()["id"], 1);
    // A batch of notifications has no answer.
    server.send(json!([members[1], members[1]]).to_string());
    server.send(PING);
    assert_eq!(server.answer()["id"], 1);
}

#[test]
fn stdio_batch_is_refused_beyond_its_limit_and_version() {
    let project = project();
    for (version, is_answered) in [("2025-03-26", true), ("2025-06-18", false)] {
        let mut server = Server::start(project.path());
        server.ask(&initialize(version));
        let ping: Value = serde_json::from_str(PING).unwrap();
        for (count, is_short) in [(50, true), (51, false)] {
            let members: Vec<Value> = (0..count).map(|id| request(id, "ping", json!({}))).collect();
            server.send(json!(members).to_string());
            let answer = server.answer();
            if is_answered && is_short {
                assert_eq!(answer.as_array().unwrap().len(), count, "{version}");
            } else {
                assert_eq!(
                    (&answer["error"]["code"], &answer["id"]),
                    (&json!(-32600), &Value::Null)
                );
            }
        }
        assert_eq!(server.ask(&ping)["id"], 1);
    }
}

// Catalogue 58
#[test]
fn message_of_many_keys_stays_within_256_mib() {
    let project = project();
    let mut server = Server::start(project.path());
    let keys: Vec<String> = (0..400_000).map(|n| format!("\"{n:x}\":1,")).collect();
    let keys = keys.concat();
    server.send(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{{{keys}"z":1}}}}"#));
    assert_eq!(server.answer()["error"]["code"], -32600);
    assert!(peak_mib(&server) < 256);
}

fn ping(server: &mut Server) -> Value {
    server.send(PING);
    server.answer()["id"].take()
}

// Catalogue 54
#[test]
fn message_without_an_id_has_no_answer_and_no_effect() {
    let project = project();
    let mut server = Server::start(project.path());
    let mut write = call(1, "reqlix_set_requirements", project.path(), set(1, "x"));
    write.as_object_mut().unwrap().remove("id");
    server.send(write.to_string());
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#);
    server.send(r#"{"jsonrpc":"2.0","method":"notifications/unknown","params":[1]}"#);
    server.send("");
    assert_eq!(ping(&mut server), 1);
    assert_eq!(section_file(project.path(), "general.md"), None);
}

// Catalogue 55
#[test]
fn stdio_every_protocol_revision_works_in_one_process() {
    let project = project();
    let mut server = Server::start(project.path());
    let before = server.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    assert_eq!(before["result"]["tools"].as_array().map(Vec::len), Some(39));
    for (requested, negotiated) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        (LATEST_REVISION, "2025-11-25"),
        ("9999", "2025-11-25"),
    ] {
        let answer = server.ask(&initialize(requested));
        assert_eq!(answer["result"]["protocolVersion"], negotiated, "{answer}");
        server.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        let listed = server.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
        assert_eq!(listed["result"]["tools"], before["result"]["tools"]);
    }
    let discover = json!({ "jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": { "_meta": request_meta(LATEST_REVISION) } });
    let versions = server.ask(&discover)["result"]["supportedVersions"].clone();
    assert!(versions.as_array().unwrap().contains(&json!(LATEST_REVISION)), "{versions}");
    let mut modern = call(4, "reqlix_get_instructions", project.path(), json!({}));
    modern["params"]["_meta"] = request_meta(LATEST_REVISION);
    let answer = server.ask(&modern);
    assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    modern["params"]["_meta"] = request_meta("1999-01-01");
    assert_eq!(server.ask(&modern)["error"]["code"], -32022);
}

// Catalogue 61
#[test]
fn stdio_end_of_input_answers_accepted_requests_in_order() {
    let project = project();
    let mut server = Server::start(project.path());
    for id in 0..60 {
        let (tool, arguments) = match id % 2 {
            0 => ("reqlix_set_requirements", set(1, &format!("text {id}"))),
            _ => ("reqlix_get_requirements", json!({ "section": "general" })),
        };
        server.send(call(id, tool, project.path(), arguments).to_string());
    }
    let (answers, status) = server.end();
    assert_eq!((answers.len(), status.success()), (60, true));
    for (id, answer) in (0..).zip(&answers) {
        assert_eq!(answer["id"], id);
        assert!(text(answer).contains(&format!("text {}", id - id % 2)), "{answer}");
    }
}

// Catalogue 112
#[test]
fn sigterm_answers_accepted_requests_and_ends_with_success() {
    let project = project();
    let mut server = Server::start(project.path());
    for id in 1..=20 {
        let write = call(id, "reqlix_set_requirements", project.path(), set(id, "text"));
        server.send(write.to_string());
    }
    let first = server.answer();
    assert_eq!(first["id"], 1);
    server.signal(Signal::TERM);
    // The input stays open, so the signal ends the server.
    let input = server.input.take();
    let (answers, status) = server.end();
    drop(input);
    assert!(status.success(), "{status}");
    let stored = section_file(project.path(), "general.md").unwrap();
    assert_eq!(
        stored.matches(".** text").count(),
        answers.len() + 1,
        "every answered write is stored"
    );
}

#[test]
fn closed_output_ends_an_idle_server() {
    let project = project();
    let mut server = Server::start(project.path());
    assert_eq!(ping(&mut server), 1);
    drop(std::mem::replace(&mut server.output, std::io::BufReader::new(closed_output())));
    let status = server.child.wait().unwrap();
    assert!(status.success(), "{status}");
}

// Catalogue 112; reliability P9
#[test]
fn client_that_never_reads_cannot_keep_the_server_alive() {
    let project = project();
    let directory = project.path().join(crate::client::DIRECTORY);
    std::fs::create_dir_all(&directory).unwrap();
    let body = format!("**1.** {}\n", "word ".repeat(800_000));
    std::fs::write(directory.join("large.md"), body).unwrap();
    let mut server = Server::start(project.path());
    let arguments = || json!({ "section": "large" });
    for id in 0..60 {
        server.send(call(id, "reqlix_get_requirements", project.path(), arguments()).to_string());
    }
    // One byte was read, so the server is in the middle of the first answer.
    let mut first = [0];
    std::io::Read::read_exact(&mut server.output, &mut first).unwrap();
    server.signal(Signal::TERM);
    server.signal(Signal::TERM);
    server.child.wait().unwrap();
}

/// The output of a process that has ended.
pub(crate) fn closed_output() -> std::process::ChildStdout {
    let child = std::process::Command::new("true").stdout(std::process::Stdio::piped()).spawn();
    child.unwrap().stdout.take().unwrap()
}

// Reliability 6
#[test]
fn too_many_malformed_lines_in_a_row_end_the_connection() {
    let project = project();
    let mut server = Server::start(project.path());
    for _ in 0..99 {
        server.send("nonsense");
        assert_eq!(server.answer()["error"]["code"], -32700);
    }
    assert_eq!(ping(&mut server), 1);
    for _ in 0..100 {
        server.send("nonsense");
        assert_eq!(server.answer()["error"]["code"], -32700);
    }
    assert_eq!(server.line(), "", "the server ended");
}

#[test]
fn stdio_cancel_stops_waiting_requests_not_running_writes() {
    let project = project();
    let mut server = Server::start(project.path());
    let mut lines = Vec::new();
    for id in 1..=30 {
        let request = call(id, "reqlix_set_requirements", project.path(), set(id, "text"));
        lines.push(request.to_string());
    }
    for id in [1, 30] {
        let cancelled = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
        lines.push(cancelled.to_string());
    }
    server.send(lines.join("\n"));
    let (answers, _) = server.end();
    let stored = section_file(project.path(), "general.md").unwrap();
    let answered = |id: i64| answers.iter().any(|answer| answer["id"] == id);
    for id in 1..=30 {
        assert_eq!(stored.contains(&format!("**{id}.** text")), answered(id), "{id}");
    }
    assert!(answered(2) && !answered(30));
}

// Catalogue 11, 13
#[test]
fn read_only_server_lists_and_runs_reading_tools_alone() {
    let project = project();
    let mut server = Server::start_with(project.path(), &["--read-only"]);
    let listed = server.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().all(|tool| tool["annotations"]["readOnlyHint"] == true), "{tools:?}");
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"reqlix_get_requirements") && names.contains(&"ixchel_sync"));
    assert!(!names.contains(&"reqlix_set_requirements"));
    let refused = server.call("reqlix_set_requirements", set(1, "x"));
    assert_eq!(refused["result"]["_meta"]["reqlore/error"]["kind"], "forbidden", "{refused}");
    let placeholder = server.call("reqlix_get_instructions", json!({}));
    assert!(text(&placeholder).starts_with("# Requirements"));
    assert_eq!(std::fs::read_dir(project.path()).unwrap().count(), 0, "nothing was created");
}

//! Probes of faulty servers, each a shell script or a fixed HTTP response.

use std::net::TcpListener;

use super::*;

/// Never reached, even on a slow machine.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(200);

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn initialize(script: &str, timeout: Duration) -> Result<ServerInfo, ProbeError> {
    StdioClient::start(shell(script), timeout)?.initialize()
}

#[test]
fn stdio_client_skips_notifications_before_the_answer() {
    let notification = r#"printf '{"jsonrpc":"2.0","method":"notifications/message"}\n'"#;
    let script = format!("read line; {notification}; echo '{ANSWER}'; read line");
    let mut client = StdioClient::start(shell(&script), LONG).unwrap();
    let server = client.initialize().unwrap();
    assert_eq!((&*server.name, &*server.version, &*server.protocol), ("a", "1", "2025-11-25"));
    assert!(!client.end().unwrap().success(), "its input has ended");
}

#[test]
fn stdio_client_without_an_answer_reports_the_reason() {
    let error = initialize("echo broken >&2; echo more >&2; exit 3", LONG).unwrap_err();
    assert!(error.message.contains("exit status: 3"), "{error}");
    assert!(error.message.contains("stderr: broken | more"), "{error}");
    let error = StdioClient::start(Command::new("/no/such/program"), LONG).unwrap_err();
    assert!(error.message.starts_with("could not be started"), "{error}");
    let endless = "while :; do printf '{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\\n'; done";
    for silent in [endless, "exec sleep 1000"] {
        let error = initialize(silent, SHORT).unwrap_err();
        assert!(error.message.contains("did not answer within"), "{silent}: {error}");
    }
    assert!(initialize("exec cat /dev/zero", LONG).is_err(), "a line has a limit");
}

/// The URL of a server for one request, and that request.
fn answering(answer: &str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let is_whole = |asked: &str| {
            let body = asked.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            serde_json::from_str::<Value>(body).is_ok()
        };
        let (mut asked, mut byte) = (String::new(), [0]);
        while !is_whole(&asked) && stream.read(&mut byte).unwrap() > 0 {
            asked.push(char::from(byte[0]));
        }
        stream.write_all(answer.as_bytes()).unwrap();
        asked
    });
    (url, asked)
}

fn with_status(status: u16) -> String {
    format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: http://127.0.0.1:1/\r\n\r\n")
}

fn with_body(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn http_server_info_reads_json_and_event_streams() {
    for body in [ANSWER.to_owned(), format!("id: 0\ndata:\n\ndata: {ANSWER}\n\n")] {
        let (url, asked) = answering(&with_body(&body));
        assert_eq!(http_server_info(&url, Some("secret"), LONG).unwrap().name, "a");
        let asked = asked.join().unwrap();
        assert!(asked.to_lowercase().contains("authorization: bearer secret"), "{asked}");
        assert!(asked.contains("\"method\":\"initialize\""), "{asked}");
    }
}

#[test]
fn status_error_has_a_next_step_and_no_token() {
    for (status, next) in [
        (401, "may be revoked"),
        (403, "http.hosts"),
        (404, "is /api/v1/mcp"),
        (302, "put the target of the redirect"),
        (429, "wait a minute"),
        (502, "the log of the server"),
        (418, "check that an MCP server"),
    ] {
        let (url, _asked) = answering(&with_status(status));
        let error = http_server_info(&url, Some("secret"), LONG).unwrap_err();
        assert!(error.message.contains(&status.to_string()), "{error}");
        assert!(error.next.contains(next) && !error.to_string().contains("secret"), "{error}");
    }
    let (url, _asked) = answering(&with_status(401));
    assert!(http_server_info(&url, None, LONG).unwrap_err().message.contains("needs a token"));
}

#[test]
fn transport_error_names_its_cause() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = http_server_info(&format!("http://{address}/"), None, SHORT).unwrap_err();
    assert!(silent.message.contains("did not answer within"), "{silent}");
    drop(listener);
    let refused = http_server_info(&format!("http://{address}/"), None, LONG).unwrap_err();
    assert!(refused.message.contains("connection refused"), "{refused}");
    let (url, _asked) = answering("no http at all\r\n\r\n");
    let no_tls = http_server_info(&url.replace("http:", "https:"), None, SHORT).unwrap_err();
    assert!(!no_tls.next.is_empty(), "{no_tls}");
    for (body, message) in [
        ("<html>", "does not answer as an MCP"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, "with an error: no"),
        (&"x".repeat(2 << 20), "too large"),
    ] {
        let (url, _asked) = answering(&with_body(body));
        let error = http_server_info(&url, None, LONG).unwrap_err();
        assert!(error.message.contains(message), "{error}");
    }
    assert!(http_server_info("no address", None, LONG).is_err());
}

#[test]
fn is_loopback_accepts_only_this_machine() {
    for here in
        ["http://127.0.0.1:80/mcp", "http://localhost/", "http://[::1]/", "https://127.8.0.1"]
    {
        assert!(is_loopback(here), "{here}");
    }
    for away in
        ["127.0.0.1.a.org", "localhost.a.org", "127.0.0.1@a.org", "a.org/127.0.0.1", "0.0.0.0"]
    {
        assert!(!is_loopback(&format!("http://{away}")), "{away}");
    }
    assert!(is_encrypted("https://a/") && !is_encrypted("http://a/"));
}

#[test]
fn endpoint_of_any_address_is_complete() {
    for (address, endpoint) in [
        ("https://h.example", "https://h.example/api/v1/mcp"),
        ("https://h.example/", "https://h.example/api/v1/mcp"),
        ("https://h.example//", "https://h.example/api/v1/mcp"),
        ("https://h.example:8443", "https://h.example:8443/api/v1/mcp"),
        ("https://h.example/api/v1/mcp", "https://h.example/api/v1/mcp"),
        ("https://h.example/api/v1/mcp/", "https://h.example/api/v1/mcp"),
        ("https://h.example/reqlore", "https://h.example/reqlore/api/v1/mcp"),
        ("https://h.example/a/b/", "https://h.example/a/b/api/v1/mcp"),
        ("https://h.example/team/mcp", "https://h.example/team/mcp"),
        ("https://h.example?project=a", "https://h.example/api/v1/mcp?project=a"),
        ("https://h.example/mcp?project=a", "https://h.example/mcp?project=a"),
        ("https://mcp", "https://mcp/api/v1/mcp"),
        ("http://[::1]:8080", "http://[::1]:8080/api/v1/mcp"),
    ] {
        assert_eq!(endpoint_url(address), endpoint, "{address}");
    }
}

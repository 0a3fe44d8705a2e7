//! Servers that are what they should not be, each a few words of a shell.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use crate::{Hello, NoAnswer, command, url};

/// Long enough on any machine; nothing here waits for it unless it is to be waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_millis(200);

const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}"#;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn hello(script: &str) -> Result<Hello, NoAnswer> {
    command::hello(shell(script), PATIENCE)
}

#[test]
fn a_server_says_who_it_is_and_ends_with_its_input() {
    let told = r#"printf '{"jsonrpc":"2.0","method":"notifications/message","params":{}}\n'"#;
    let hello = hello(&format!("read line; {told}; echo '{ANSWER}'; read line")).unwrap();
    assert_eq!((&*hello.name, &*hello.version, &*hello.protocol), ("a", "1", "2025-11-25"));
}

#[test]
fn what_is_no_message_is_told_as_it_was_written() {
    let error = hello(&format!("echo Listening; read line; echo '{ANSWER}'")).unwrap_err();
    assert!(error.message.contains("wrote \"Listening\" to standard output"), "{error}");
    // Also of one that is gone before it is asked.
    let mut client = command::Client::start(shell("exec 0<&-; echo Listening"), PATIENCE).unwrap();
    let asked = std::iter::repeat_with(|| client.initialize().unwrap_err()).take(2);
    let told: Vec<String> = asked.map(|error| error.message).collect();
    assert!(told[0].contains("wrote \"Listening\"") && told[1].contains("ended"), "{told:?}");
}

#[test]
fn the_end_of_a_server_is_told_with_its_first_and_last_words() {
    let error = hello("for n in 1 2 3 4 5 6 7 8 9; do echo n$n >&2; done; exit 3").unwrap_err();
    assert!(error.message.contains("exit status: 3"), "{error}");
    assert!(error.message.contains("n1 | n2 | n3 | … | n7 | n8 | n9"), "{error}");
    let error = command::hello(Command::new("/no/such/program"), PATIENCE).unwrap_err();
    assert!(error.message.starts_with("could not be started"), "{error}");
}

#[test]
fn an_endless_line_and_an_endless_stream_end() {
    let error = hello("read line; exec cat /dev/zero").unwrap_err();
    assert!(error.message.contains("to standard output before its answer"), "{error}");
    let talks = "while :; do printf '{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\\n'; done";
    let error = command::hello(shell(talks), SOON).unwrap_err();
    assert!(error.message.contains("did not answer within"), "{error}");
}

#[test]
fn what_a_silent_server_started_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    // Its child holds the pipe's other end for as long as it lives.
    let script = format!("sleep 1000 > '{}' & wait", pipe.display());
    let silent = std::thread::spawn(move || command::hello(shell(&script), SOON).unwrap_err());
    let mut nothing = String::new();
    std::fs::File::open(&pipe).unwrap().read_to_string(&mut nothing).unwrap();
    assert!(silent.join().unwrap().message.contains("did not answer within"));
}

#[test]
fn the_output_of_a_command_is_read_to_its_end() {
    let output = command::output(shell("echo one; echo two; echo no >&2; exit 1"), PATIENCE);
    let output = output.unwrap();
    assert_eq!((output.code, &*output.text, &*output.errors), (Some(1), "one\ntwo\n", "no"));
    assert_eq!(command::output(shell("exec sleep 1000"), SOON).unwrap().code, None);
}

/// A server for one request: what it answers, and what it was asked.
fn answering(answer: &str) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let answer = answer.to_owned();
    let asked = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        stream.write_all(answer.as_bytes()).unwrap();
        head + &String::from_utf8(body).unwrap()
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
fn a_server_at_an_address_says_who_it_is_in_either_form() {
    for body in [ANSWER.to_owned(), format!("id: 0\ndata:\n\ndata: {ANSWER}\n\n")] {
        let (url, asked) = answering(&with_body(&body));
        assert_eq!(url::hello(&url, Some("secret"), PATIENCE).unwrap().name, "a");
        let asked = asked.join().unwrap();
        assert!(asked.to_lowercase().contains("authorization: bearer secret"), "{asked}");
        assert!(asked.contains("\"method\":\"initialize\""), "{asked}");
    }
}

#[test]
fn each_refusal_has_its_next_step_and_never_the_token() {
    for (status, next) in [
        (401, "may be revoked"),
        (403, "http.hosts"),
        (404, "ends with /api/v1/mcp"),
        (302, "put the address into the configuration"),
        (429, "wait a minute"),
        (502, "the server's log"),
        (418, "look whether an MCP server"),
    ] {
        let (url, asked) = answering(&with_status(status));
        let error = url::hello(&url, Some("secret"), PATIENCE).unwrap_err();
        assert!(error.message.contains(&status.to_string()), "{error}");
        assert!(error.next.contains(next) && !error.to_string().contains("secret"), "{error}");
        asked.join().unwrap();
    }
    let (url, asked) = answering(&with_status(401));
    assert!(url::hello(&url, None, PATIENCE).unwrap_err().message.contains("wants a token"));
    asked.join().unwrap();
}

#[test]
fn who_can_not_be_reached_or_understood_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = url::hello(&format!("http://{address}/"), None, SOON).unwrap_err();
    assert!(silent.message.contains("did not answer within"), "{silent}");
    drop(listener);
    let refused = url::hello(&format!("http://{address}/"), None, PATIENCE).unwrap_err();
    assert!(refused.message.contains("connection refused"), "{refused}");
    let (url, asked) = answering("no http at all\r\n\r\n");
    let no_tls = url::hello(&url.replace("http:", "https:"), None, SOON).unwrap_err();
    assert!(!no_tls.next.is_empty(), "{no_tls}");
    drop(asked);
    for (body, message) in [
        ("<html>", "not as an MCP server"),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, "with an error: no"),
        (&"x".repeat(2 << 20), "too much"),
    ] {
        let (url, asked) = answering(&with_body(body));
        let error = url::hello(&url, None, PATIENCE).unwrap_err();
        assert!(error.message.contains(message), "{error}");
        drop(asked);
    }
    assert!(url::hello("no address", None, PATIENCE).is_err());
}

#[test]
fn this_machine_is_known_by_its_addresses() {
    for here in
        ["http://127.0.0.1:8080/mcp", "http://localhost/", "http://[::1]:1/", "https://127.8.0.1"]
    {
        assert!(url::is_loopback(here), "{here}");
    }
    for away in [
        "http://127.0.0.1.example.org/",
        "http://localhost.example.org/",
        "http://127.0.0.1@example.org/",
        "http://example.org/127.0.0.1",
        "http://0.0.0.0/",
        "no address",
    ] {
        assert!(!url::is_loopback(away), "{away}");
    }
    assert!(url::is_encrypted("https://a/") && !url::is_encrypted("http://a/"));
}

//! Latency of one client while other clients are slow or guess tokens.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use reqlore_domain::identity::PresentedToken;

use crate::connection::{Connection, head, request};
use crate::harness::report::{Row, Times};
use crate::harness::{Result, millis};
use crate::server::{Limits, Project, RecordedCall, Server};

const CALLS: usize = 2_000;
const SLOW_CONNECTIONS: usize = 200;
const BAD_LOGINS: usize = 5_000;
/// Number of threads that guess tokens, each from its own address.
const GUESSERS: u8 = 2;
/// Slow connections per address, far below the limit.
const PER_ADDRESS: usize = 40;
/// Pause of a slow connection between two bytes.
const SLOW_BYTE_PAUSE: Duration = millis(200);
const BAR: Duration = millis(50);
const MEMORY_BAR_MIB: f64 = 256.0;

pub(crate) fn measure(project: &Project) -> Result<()> {
    println!("\none well-behaved client on sqlite");
    let server = project.start("sqlite", Limits::On)?;
    let questions = server.record_calls("get_user_story_requirements")?;
    let mut good = Connection::open(server.address)?;
    call_repeatedly(&mut good, &questions, || true)?;
    let quiet = Times::from_unsorted(call_repeatedly(&mut good, &questions, || true)?);
    println!("{}", Row::new("alone").times(&quiet).rate(&quiet));

    let other = project.token("sqlite")?;
    let large = server.record_calls("tools/list")?;
    let (ended, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (times, open) = thread::scope(|scope| {
        let slow = scope.spawn(|| hold_slow_connections(&server, &other, &large[0], &ended));
        let guessers: Vec<_> = {
            let (server, done) = (&server, &done);
            let guess_and_stop = move |number| {
                let result = guess_tokens(server.address, number, done);
                // Stop the other threads too, also after an error.
                done.fetch_add(BAD_LOGINS, Ordering::Relaxed);
                result
            };
            (0..GUESSERS).map(|number| scope.spawn(move || guess_and_stop(number))).collect()
        };
        let times =
            call_repeatedly(&mut good, &questions, || done.load(Ordering::Relaxed) >= BAD_LOGINS);
        ended.store(true, Ordering::Relaxed);
        for guesser in guessers {
            guesser.join().unwrap_or_else(|_| Err("panic".into()))?;
        }
        let open = slow.join().unwrap_or_else(|_| Err("panic".into()))?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((times?, open))
    })?;
    let times = Times::from_unsorted(times);
    let bar = BAR.max(quiet.p99() * 2);
    let row = Row::new(format!("with {open} slow connections and bad logins"));
    println!("{}", row.times(&times).rate(&times).bar_p99(bar));
    let peak = server.mebibytes("VmHWM")?;
    println!("{}", Row::new("peak memory").at_most(MEMORY_BAR_MIB, peak, "MiB"));
    Ok(())
}

/// Makes at least `CALLS` calls and continues until `is_over`.
fn call_repeatedly(
    connection: &mut Connection,
    questions: &[RecordedCall],
    is_over: impl Fn() -> bool,
) -> Result<Vec<Duration>> {
    let mut times = Vec::new();
    for question in questions.iter().cycle() {
        if times.len() >= CALLS && is_over() {
            break;
        }
        let clock = Instant::now();
        let answer = connection.ask(&question.request)?;
        times.push(clock.elapsed());
        if answer.status != 200 || answer.body != question.answer {
            return Err(format!("the well-behaved client got status {}", answer.status).into());
        }
    }
    Ok(times)
}

/// Sends unknown tokens. The server must answer with 401 or 429.
fn guess_tokens(address: SocketAddr, number: u8, done: &AtomicUsize) -> Result<()> {
    let from = Ipv4Addr::new(127, 0, 1, number + 1);
    let mut connection = Connection::open_from(from, address)?;
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    while done.fetch_add(1, Ordering::Relaxed) < BAD_LOGINS {
        let id = format!("{number:04}{:08}", done.load(Ordering::Relaxed));
        let token = PresentedToken::new(&id, &"s".repeat(32)).ok_or("no token")?.reveal();
        let status = connection.ask(&request(address, &token, body))?.status;
        if status != 401 && status != 429 {
            return Err(format!("a bad login got status {status}").into());
        }
    }
    Ok(())
}

/// Opens slow connections: a third each sends headers byte by byte, sends the body byte by byte, or
/// never reads answers. Returns the number that the server has not closed at the end.
fn hold_slow_connections(
    server: &Server,
    token: &str,
    large: &RecordedCall,
    ended: &AtomicBool,
) -> Result<usize> {
    let mut connections = Vec::with_capacity(SLOW_CONNECTIONS);
    for number in 0..SLOW_CONNECTIONS {
        let last = u8::try_from(number / PER_ADDRESS)? + 2;
        let from = Ipv4Addr::new(127, 0, 0, last);
        let mut connection = Connection::open_from(from, server.address)?;
        match number % 3 {
            0 => connection.stream.write_all(b"POST /api/v1/mcp HTTP/1.1\r\nX-Slow: ")?,
            1 => {
                let head = head(server.address, token, 1_000);
                connection.stream.write_all(head.as_bytes())?;
            }
            _ => {
                let request_text = String::from_utf8_lossy(&large.request);
                let request = request_text.replace(&server.token, token);
                connection.stream.write_all(request.repeat(50).as_bytes())?;
            }
        }
        connection.stream.set_nonblocking(true)?;
        connections.push(connection);
    }
    while !ended.load(Ordering::Relaxed) {
        for (number, connection) in connections.iter_mut().enumerate() {
            if number % 3 != 2 {
                // Closed connections are counted at the end.
                let _ = connection.stream.write(b" ");
            }
        }
        sleep(SLOW_BYTE_PAUSE);
    }
    let is_open = |(number, connection): &mut (usize, Connection)| {
        let read = connection.stream.read(&mut [0]);
        *number % 3 == 2 || read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    Ok(connections
        .into_iter()
        .enumerate()
        .map(|mut numbered| is_open(&mut numbered))
        .filter(|open| *open)
        .count())
}

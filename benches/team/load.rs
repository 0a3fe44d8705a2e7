//! Rate of concurrent requests, and memory of the server after a million requests.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::STORAGES;
use crate::connection::Connection;
use crate::harness::Result;
use crate::harness::report::{Row, Times, per_second, verdict};
use crate::server::{Limits, Project, RecordedCall};

const CONNECTIONS: usize = 16;
const RATE_TIME: Duration = Duration::from_secs(5);
/// Minimum requests per second.
const RATE_BAR: f64 = 5_000.0;
const ROUNDS: usize = 10;
const ROUND_CALLS: usize = 100_000;
/// Maximum growth factor of memory in the second half of the rounds. Allocators need some slack.
const GROWTH_BAR: f64 = 1.05;

/// Sends requests over several connections until `is_over` holds for the answers of a connection.
/// Each answer must equal the recorded one, or only be no error without `is_exact`.
pub(crate) fn call_all(
    address: SocketAddr,
    questions: &[RecordedCall],
    connections: usize,
    is_exact: bool,
    is_over: impl Fn(usize) -> bool + Copy + Send,
) -> Result<Vec<Duration>> {
    let ask = move |first: usize| -> Result<Vec<Duration>> {
        let mut connection = Connection::open(address)?;
        let mut times = Vec::new();
        let own_calls = questions.iter().cycle().skip(first).step_by(connections);
        for question in own_calls {
            if is_over(times.len()) {
                break;
            }
            let clock = Instant::now();
            let answer = connection.ask(&question.request)?;
            times.push(clock.elapsed());
            let is_right =
                if is_exact { answer.body == question.answer } else { !is_error(answer.body) };
            if answer.status != 200 || !is_right {
                let body = String::from_utf8_lossy(answer.body);
                return Err(format!("answered with {} {body}", answer.status).into());
            }
        }
        Ok(times)
    };
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..connections).map(|first| scope.spawn(move || ask(first))).collect();
        let mut times = Vec::new();
        for worker in workers {
            times.extend(worker.join().unwrap_or_else(|_| Err("panic".into()))?);
        }
        Ok(times)
    })
}

fn is_error(body: &[u8]) -> bool {
    let marks = [&b"\"isError\":true"[..], b"\"error\":{"];
    body.is_empty() || marks.iter().any(|mark| body.windows(mark.len()).any(|part| part == *mark))
}

pub(crate) fn measure_rate(project: &Project, storage: &str) -> Result<()> {
    let server = project.start(storage, Limits::Off)?;
    let questions = server.record_calls("get_user_story_requirements")?;
    let before = server.processor_time()?;
    let clock = Instant::now();
    let times =
        call_all(server.address, &questions, CONNECTIONS, true, |_| clock.elapsed() > RATE_TIME)?;
    let (count, elapsed) = (times.len(), clock.elapsed());
    let processor = server.processor_time()?.saturating_sub(before) / u32::try_from(count)?;
    let rate = per_second(count, elapsed);
    let row = Row::new(format!("{CONNECTIONS} connections, {storage}"));
    let row = row.times(&Times::from_unsorted(times)).per_second(rate).processor(processor);
    let has_bar = storage == STORAGES[0];
    println!("{}", if has_bar { row.at_least(RATE_BAR, rate) } else { row });
    Ok(())
}

pub(crate) fn measure_memory(project: &Project) -> Result<()> {
    println!("\nmemory of a server on sqlite, {ROUND_CALLS} requests per round");
    let server = project.start("sqlite", Limits::Off)?;
    let mut questions = server.record_calls("get_user_story_requirements")?;
    questions.extend(server.record_calls("get_item")?);
    let mut memory = vec![server.mebibytes("VmRSS")?];
    println!("{}", Row::new("at the start").note(format!("{:.1} MiB", memory[0])));
    for round in 1..=ROUNDS {
        let calls = ROUND_CALLS / CONNECTIONS;
        call_all(server.address, &questions, CONNECTIONS, true, |count| count == calls)?;
        let now = server.mebibytes("VmRSS")?;
        let grown = now - memory[round - 1];
        memory.push(now);
        let row = Row::new(format!("after {} requests", round * ROUND_CALLS));
        println!("{}", row.note(format!("{now:.1} MiB, {grown:+.1}")));
    }
    // The first rounds fill bounded caches.
    let (early, last) = (memory[ROUNDS / 2], memory[ROUNDS]);
    let verdict = verdict(last <= early * GROWTH_BAR);
    let note = format!("{:+.1} MiB; bar: no growth: {verdict}", last - early);
    println!("{}", Row::new("growth in the last half").note(note));
    Ok(())
}

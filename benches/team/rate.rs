//! How many requests a second a server answers, with a client beside it on the same machine.

use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::server::{Limits, Project};
use crate::table::{Row, Times, per_second};
use crate::{Result, STORAGES};

const WHAT: &str = "get_user_story_requirements";
const CONNECTIONS: usize = 16;
const TIME: Duration = Duration::from_secs(5);
const BAR: f64 = 5_000.0;

pub(crate) fn measure(project: &Project, storage: &str) -> Result<()> {
    let server = project.start(storage, Limits::Off)?;
    let (address, asked) = (server.address, server.questions(WHAT)?);
    let questions = &asked;
    let before = server.processor_time()?;
    let (clock, end) = (Instant::now(), Instant::now() + TIME);
    let times: Result<Vec<Vec<Duration>>> = thread::scope(|scope| {
        let one = move |first: usize| -> Result<Vec<Duration>> {
            let mut connection = Connection::open(address)?;
            let mut times = Vec::new();
            for question in questions.iter().cycle().skip(first * 7) {
                let began = Instant::now();
                if began >= end {
                    break;
                }
                let answer = connection.ask(&question.request)?;
                if answer.status != 200 || answer.body != question.answer {
                    return Err(format!("answered with {}", answer.status).into());
                }
                times.push(began.elapsed());
            }
            Ok(times)
        };
        let all: Vec<_> = (0..CONNECTIONS).map(|first| scope.spawn(move || one(first))).collect();
        all.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("panic".into()))).collect()
    });
    let elapsed = clock.elapsed();
    let times: Vec<Duration> = times?.into_iter().flatten().collect();
    let count = times.len();
    let processor = server.processor_time()?.saturating_sub(before);
    let rate = per_second(count, elapsed);
    let row = Row::new(format!("{CONNECTIONS} connections, {storage}"));
    let row = row.times(&Times::of(times)).per_second(rate);
    let processor = Some(processor / u32::try_from(count)?);
    let verdict = if rate >= BAR { "met" } else { "MISSED" };
    let is_held = storage == STORAGES[0];
    let note = if is_held { format!("bar {BAR}/s: {verdict}") } else { String::new() };
    println!("{}", Row { processor, ..row }.note(note));
    Ok(())
}

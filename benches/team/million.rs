//! What a server holds after a million requests.

use std::thread;

use crate::Result;
use crate::connection::Connection;
use crate::server::{Limits, Project, Question, Server};
use crate::table::Row;

const ROUNDS: usize = 10;
const CALLS: usize = 100_000;
const CONNECTIONS: usize = 16;
/// What the last rounds may take more than the first one left: allocators need some slack.
const SLACK: f64 = 1.05;

pub(crate) fn measure(project: &Project) -> Result<()> {
    println!("\nmemory of a server on sqlite, {CALLS} requests a round");
    let server = project.start("sqlite", Limits::Off)?;
    let mut questions = server.questions("get_user_story_requirements")?;
    questions.extend(server.questions("get_item")?);
    let mut found = vec![server.mebibytes("VmRSS")?];
    println!("{}", Row::new("at the start").note(format!("{:.1} MiB", found[0])));
    for round in 1..=ROUNDS {
        ask(&server, &questions)?;
        let now = server.mebibytes("VmRSS")?;
        let grown = now - found[round - 1];
        found.push(now);
        let row = Row::new(format!("after {} requests", round * CALLS));
        println!("{}", row.note(format!("{now:.1} MiB, {grown:+.1}")));
    }
    // The first rounds fill caches that have bounds.
    let (early, last) = (found[ROUNDS / 2], found[ROUNDS]);
    let verdict = if last <= early * SLACK { "met" } else { "MISSED" };
    let note = format!("{:+.1} MiB; bar: no growth: {verdict}", last - early);
    println!("{}", Row::new("growth in the last half").note(note));
    Ok(())
}

fn ask(server: &Server, questions: &[Question]) -> Result<()> {
    let address = server.address;
    thread::scope(|scope| {
        let one = move |first: usize| {
            let mut connection = Connection::open(address)?;
            for number in (first..CALLS).step_by(CONNECTIONS) {
                let question = &questions[number % questions.len()];
                let answer = connection.ask(&question.request)?;
                if answer.status != 200 || answer.body != question.answer {
                    return Err(format!("answered with {}", answer.status).into());
                }
            }
            Ok(())
        };
        let all: Vec<_> = (0..CONNECTIONS).map(|first| scope.spawn(move || one(first))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("panic".into())))
    })
}

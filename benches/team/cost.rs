//! What a request costs the processor, and how many times as much that is as with a bare handler.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use crate::bare::{self, Bare};
use crate::connection::Connection;
use crate::process::processor_time;
use crate::server::{Limits, Project, Question, Server};
use crate::table::{Row, per_second};
use crate::{Result, STORAGES};

/// Both are asked in turn, so that what else the machine does is the same for both.
const ROUNDS: usize = 3;
const CALLS: usize = 10_000;
const CONNECTIONS: usize = 4;
/// What comes first is not counted.
const WARM: usize = 2_000;
/// Maximum cost of `list_docsets`, in multiples of rmcp's service with a constant tool.
const RMCP_BAR: f64 = 1.4;
/// Maximum cost of other calls, in multiples of the bare handler, and the aim.
const BAR: f64 = 4.0;
const AIM: f64 = 3.0;

pub(crate) fn measure(project: &Project, storage: &str) -> Result<()> {
    println!("\nprocessor time of a request in {storage}, audited, and of a bare handler");
    let server = project.start(storage, Limits::Off)?;
    for what in ["get_item", "get_user_story_requirements", "tools/list"] {
        let questions = server.questions(what)?;
        let (ours, least, ratio) = compare(&server, bare::FLAG, &questions)?;
        let verdict = if ratio <= BAR { "met" } else { "MISSED" };
        let verdict = format!("{ratio:.2} times; bar {BAR}: {verdict}, aim {AIM}");
        let is_held = storage == STORAGES[0] && what != "tools/list";
        let note = if is_held { verdict } else { format!("{ratio:.2} times") };
        println!("{}", ours.row(what).note(note));
        let bytes = questions.iter().map(|question| question.answer.len()).sum::<usize>();
        let note = format!("{} bytes", bytes / questions.len());
        println!("{}", least.row("  bare").note(note));
    }
    let questions = server.questions("list_docsets")?;
    let (ours, rmcp, ratio) = compare(&server, bare::RMCP_FLAG, &questions)?;
    let verdict = if ratio <= RMCP_BAR { "met" } else { "MISSED" };
    let note = format!("{ratio:.2} times; bar {RMCP_BAR}: {verdict}");
    println!("{}", ours.row("list_docsets").note(note));
    println!("{}", rmcp.row("  rmcp, constant tool"));
    Ok(())
}

/// The costs of the server and of a baseline, and their ratio.
fn compare(server: &Server, flag: &str, questions: &[Question]) -> Result<(Used, Used, f64)> {
    let bare = Bare::start(flag, questions)?;
    ask(server.address, questions, WARM, true)?;
    ask(bare.address, questions, WARM, false)?;
    let (mut ours, mut least) = (Used::default(), Used::default());
    for _ in 0..ROUNDS {
        let before = server.processor_time()?;
        ours.took += ask(server.address, questions, CALLS, true)?;
        ours.processor += server.processor_time()?.saturating_sub(before);
        let before = processor_time(bare.process())?;
        least.took += ask(bare.address, questions, CALLS, false)?;
        least.processor += processor_time(bare.process())?.saturating_sub(before);
    }
    let ratio = ours.processor.as_secs_f64() / least.processor.as_secs_f64();
    Ok((ours, least, ratio))
}

#[derive(Default)]
struct Used {
    processor: Duration,
    took: Duration,
}

impl Used {
    fn row(&self, what: &str) -> Row {
        let count = ROUNDS * CALLS;
        let processor = Some(self.processor / u32::try_from(count).unwrap_or(u32::MAX));
        Row { processor, ..Row::new(what).per_second(per_second(count, self.took)) }
    }
}

/// Asks so many questions over some connections; tells how long that took.
fn ask(
    address: SocketAddr,
    questions: &[Question],
    count: usize,
    is_ours: bool,
) -> Result<Duration> {
    let clock = Instant::now();
    thread::scope(|scope| {
        let one = move |first: usize| {
            let mut connection = Connection::open(address)?;
            let numbers = (first..count).step_by(CONNECTIONS);
            for question in numbers.map(|number| &questions[number % questions.len()]) {
                let answer = connection.ask(&question.request)?;
                let is_right =
                    if is_ours { answer.body == question.answer } else { !answer.body.is_empty() };
                if answer.status != 200 || !is_right {
                    let body = String::from_utf8_lossy(answer.body);
                    return Err(format!("answered with {} {body}", answer.status).into());
                }
            }
            Ok(())
        };
        let all: Vec<_> = (0..CONNECTIONS).map(|first| scope.spawn(move || one(first))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("panic".into())))
    })
    .map(|()| clock.elapsed())
}

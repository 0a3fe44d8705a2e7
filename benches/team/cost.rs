//! The processor time of a request, in multiples of a baseline.

use std::time::{Duration, Instant};

use crate::STORAGES;
use crate::baseline::{self, Baseline};
use crate::harness::Result;
use crate::harness::process::processor_time;
use crate::harness::report::{Row, per_second, verdict};
use crate::load::ask_all;
use crate::server::{Limits, Project, Question, Server};

/// The server and the baseline take turns, so that other load on the machine is the same for both.
const ROUNDS: usize = 3;
const CALLS: usize = 10_000;
const CONNECTIONS: usize = 4;
/// Calls before those that are measured.
const WARM_UP: usize = 2_000;
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
        let (ours, least, ratio) = compare(&server, baseline::FLAG, &questions)?;
        let verdict = format!("{ratio:.2} times; bar {BAR}: {}, aim {AIM}", verdict(ratio <= BAR));
        let has_bar = storage == STORAGES[0] && what != "tools/list";
        let note = if has_bar { verdict } else { format!("{ratio:.2} times") };
        println!("{}", ours.row(what).note(note));
        let bytes = questions.iter().map(|question| question.answer.len()).sum::<usize>();
        println!("{}", least.row("  bare").note(format!("{} bytes", bytes / questions.len())));
    }
    let questions = server.questions("list_docsets")?;
    let (ours, rmcp, ratio) = compare(&server, baseline::RMCP_FLAG, &questions)?;
    let note = format!("{ratio:.2} times; bar {RMCP_BAR}: {}", verdict(ratio <= RMCP_BAR));
    println!("{}", ours.row("list_docsets").note(note));
    println!("{}", rmcp.row("  rmcp, constant tool"));
    Ok(())
}

/// The costs of the server and of a baseline, and their ratio.
fn compare(server: &Server, flag: &str, questions: &[Question]) -> Result<(Used, Used, f64)> {
    let baseline = Baseline::start(flag, questions)?;
    let ask = |is_ours: bool, calls: usize| -> Result<Used> {
        let address = if is_ours { server.address } else { baseline.address };
        let process = if is_ours { server.id() } else { baseline.id() };
        let (clock, before) = (Instant::now(), processor_time(process)?);
        let mine = calls / CONNECTIONS;
        ask_all(address, questions, CONNECTIONS, is_ours, |count| count == mine)?;
        let processor = processor_time(process)?.saturating_sub(before);
        Ok(Used { processor, took: clock.elapsed() })
    };
    ask(true, WARM_UP)?;
    ask(false, WARM_UP)?;
    let (mut ours, mut least) = (Used::default(), Used::default());
    for _ in 0..ROUNDS {
        ours.add(&ask(true, CALLS)?);
        least.add(&ask(false, CALLS)?);
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
    fn add(&mut self, other: &Self) {
        self.processor += other.processor;
        self.took += other.took;
    }

    fn row(&self, what: &str) -> Row {
        let count = ROUNDS * CALLS;
        let processor = self.processor / u32::try_from(count).unwrap_or(u32::MAX);
        Row::new(what).per_second(per_second(count, self.took)).processor(processor)
    }
}

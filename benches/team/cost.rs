//! Processor time of a request as a multiple of a baseline.

use std::time::{Duration, Instant};

use crate::STORAGES;
use crate::baseline::{self, Baseline};
use crate::harness::Result;
use crate::harness::process::processor_time;
use crate::harness::report::{Row, per_second, verdict};
use crate::load::call_all;
use crate::server::{Limits, Project, RecordedCall, Server};

/// The server and the baseline take turns, so other load on the machine affects both alike.
const ROUNDS: usize = 3;
const CALLS: usize = 10_000;
const CONNECTIONS: usize = 4;
/// Unmeasured calls before the measurement.
const WARM_UP: usize = 2_000;
/// Maximum cost of `list_docsets` as a multiple of rmcp's service with a constant tool.
const RMCP_BAR: f64 = 1.4;
/// Maximum cost of other calls as a multiple of the bare handler.
const BAR: f64 = 4.0;
/// Desired cost of other calls.
const AIM: f64 = 3.0;

pub(crate) fn measure(project: &Project, storage: &str) -> Result<()> {
    println!("\nprocessor time per request: {storage} with audit log, and a bare handler");
    let server = project.start(storage, Limits::Off)?;
    for target in ["get_item", "get_user_story_requirements", "tools/list"] {
        let questions = server.record_calls(target)?;
        let (ours, baseline_usage, ratio) = compare(&server, baseline::FLAG, &questions)?;
        let verdict = format!("{ratio:.2} times; bar {BAR}: {}, aim {AIM}", verdict(ratio <= BAR));
        let has_bar = storage == STORAGES[0] && target != "tools/list";
        let note = if has_bar { verdict } else { format!("{ratio:.2} times") };
        println!("{}", ours.row(target).note(note));
        let bytes = questions.iter().map(|question| question.answer.len()).sum::<usize>();
        println!(
            "{}",
            baseline_usage.row("  bare").note(format!("{} bytes", bytes / questions.len()))
        );
    }
    let questions = server.record_calls("list_docsets")?;
    let (ours, rmcp, ratio) = compare(&server, baseline::RMCP_FLAG, &questions)?;
    let note = format!("{ratio:.2} times; bar {RMCP_BAR}: {}", verdict(ratio <= RMCP_BAR));
    println!("{}", ours.row("list_docsets").note(note));
    println!("{}", rmcp.row("  rmcp, constant tool"));
    Ok(())
}

/// Measures the server and a baseline. Returns both costs and their ratio.
fn compare(
    server: &Server,
    flag: &str,
    questions: &[RecordedCall],
) -> Result<(ProcessorUsage, ProcessorUsage, f64)> {
    let baseline = Baseline::start(flag, questions)?;
    let ask = |is_ours: bool, calls: usize| -> Result<ProcessorUsage> {
        let address = if is_ours { server.address } else { baseline.address };
        let process = if is_ours { server.id() } else { baseline.id() };
        let (clock, before) = (Instant::now(), processor_time(process)?);
        let own_calls = calls / CONNECTIONS;
        call_all(address, questions, CONNECTIONS, is_ours, |count| count == own_calls)?;
        let processor = processor_time(process)?.saturating_sub(before);
        Ok(ProcessorUsage { processor, took: clock.elapsed() })
    };
    ask(true, WARM_UP)?;
    ask(false, WARM_UP)?;
    let (mut ours, mut baseline_usage) = (ProcessorUsage::default(), ProcessorUsage::default());
    for _ in 0..ROUNDS {
        ours.add(&ask(true, CALLS)?);
        baseline_usage.add(&ask(false, CALLS)?);
    }
    let ratio = ours.processor.as_secs_f64() / baseline_usage.processor.as_secs_f64();
    Ok((ours, baseline_usage, ratio))
}

#[derive(Default)]
struct ProcessorUsage {
    processor: Duration,
    took: Duration,
}

impl ProcessorUsage {
    fn add(&mut self, other: &Self) {
        self.processor += other.processor;
        self.took += other.took;
    }

    fn row(&self, target: &str) -> Row {
        let count = ROUNDS * CALLS;
        let processor = self.processor / u32::try_from(count).unwrap_or(u32::MAX);
        Row::new(target).per_second(per_second(count, self.took)).processor(processor)
    }
}

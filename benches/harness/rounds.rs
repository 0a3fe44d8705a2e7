//! Equal calls in rounds, of which the quietest counts: other processes only ever make it worse.

use std::error::Error;
use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::client::Client;
use crate::table::{Row, Times};

pub(crate) const ROUNDS: usize = 3;

/// The quietest of some rounds.
pub(crate) fn quietest(mut round: impl FnMut() -> Result<Vec<Duration>>) -> Result<Times> {
    let mut best: Option<Times> = None;
    for _ in 0..ROUNDS {
        let times = Times::of(round()?);
        if best.as_ref().is_none_or(|best| times.p50() < best.p50()) {
            best = Some(times);
        }
    }
    best.ok_or_else(|| "no round".into())
}

/// Makes these calls in rounds; each answer must be right. The processor time is that of all.
pub(crate) fn calls(
    client: &mut Client,
    tool: &str,
    arguments: &[Value],
    is_right: impl Fn(&Value) -> bool,
) -> Result<(Times, Duration)> {
    let before = client.processor_time()?;
    let times = quietest(|| {
        let call = |arguments| {
            let (elapsed, content) = client.call(tool, arguments)?;
            if is_right(&content) { Ok(elapsed) } else { Err(wrong(tool, &content)) }
        };
        arguments.iter().map(call).collect()
    })?;
    let used = client.processor_time()?.saturating_sub(before);
    Ok((times, used / u32::try_from(ROUNDS * arguments.len())?))
}

pub(crate) fn row(what: impl Into<String>, (times, processor): (Times, Duration)) -> Row {
    let row = Row::new(what).times(&times).per_second(times.per_second());
    Row { processor: Some(processor), ..row }
}

pub(crate) fn wrong(what: &str, found: &Value) -> Box<dyn Error + Send + Sync> {
    format!("{what}: {found}").into()
}

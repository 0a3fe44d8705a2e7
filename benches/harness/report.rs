//! Statistics of repeated calls and the printed table.

use std::fmt;
use std::time::Duration;

use serde_json::Value;

use super::Result;
use super::client::Client;

/// Number of rounds. The quietest is reported, because other processes only slow a round down.
pub(crate) const ROUNDS: usize = 3;

/// Sorted times of repeated calls.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn from_unsorted(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    pub(crate) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// The smallest time that at least this percentage of the calls stays within.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    fn per_second(&self) -> f64 {
        per_second(self.0.len(), self.0.iter().sum())
    }
}

pub(crate) fn per_second(calls: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(calls).unwrap_or(u32::MAX)) / took.as_secs_f64()
}

/// Runs all rounds and returns the times of the one with the lowest median.
pub(crate) fn quietest(mut round: impl FnMut() -> Result<Vec<Duration>>) -> Result<Times> {
    let mut best: Option<Times> = None;
    for _ in 0..ROUNDS {
        let times = Times::from_unsorted(round()?);
        if best.as_ref().is_none_or(|best| times.p50() < best.p50()) {
            best = Some(times);
        }
    }
    best.ok_or_else(|| "no round".into())
}

/// Calls a tool with each of the arguments, in rounds. Every answer must satisfy `is_right`. The
/// row has the mean processor time of a call.
pub(crate) fn measure_calls(
    label: impl Into<String>,
    client: &mut Client,
    tool: &str,
    arguments: &[Value],
    is_right: impl Fn(&Value) -> bool,
) -> Result<Row> {
    let before = client.processor_time()?;
    let times = quietest(|| {
        let mut times = Vec::with_capacity(arguments.len());
        for arguments in arguments {
            let (elapsed, content) = client.call(tool, arguments)?;
            if !is_right(&content) {
                return wrong_answer(tool, &content);
            }
            times.push(elapsed);
        }
        Ok(times)
    })?;
    let processor = client.processor_time()?.saturating_sub(before);
    let processor = processor / u32::try_from(ROUNDS * arguments.len())?;
    Ok(Row::new(label).times(&times).rate(&times).processor(processor))
}

pub(crate) fn wrong_answer<T>(label: &str, value: &Value) -> Result<T> {
    Err(format!("{label}: {value}").into())
}

pub(crate) fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "MISSED" }
}

/// One line of the table. Values that were not measured stay empty.
#[derive(Default)]
pub(crate) struct Row {
    label: String,
    p50: Option<Duration>,
    p99: Option<Duration>,
    per_second: Option<f64>,
    processor: Option<Duration>,
    note: String,
}

impl Row {
    pub(crate) fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// Reports a single time.
    pub(crate) fn single_time(mut self, time: Duration) -> Self {
        self.p50 = Some(time);
        self
    }

    pub(crate) fn times(mut self, times: &Times) -> Self {
        (self.p50, self.p99) = (Some(times.p50()), Some(times.p99()));
        self
    }

    /// Reports the times minus those of a baseline.
    pub(crate) fn difference(mut self, times: &Times, baseline: &Times) -> Self {
        self.p50 = Some(times.p50().saturating_sub(baseline.p50()));
        self.p99 = Some(times.p99().saturating_sub(baseline.p99()));
        self
    }

    /// Reports the rate of sequential calls.
    pub(crate) fn rate(self, times: &Times) -> Self {
        self.per_second(times.per_second())
    }

    pub(crate) fn per_second(mut self, per_second: f64) -> Self {
        self.per_second = Some(per_second);
        self
    }

    pub(crate) fn processor(mut self, time: Duration) -> Self {
        self.processor = Some(time);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Reports whether a value of this unit is at most `bar`.
    pub(crate) fn at_most(self, bar: f64, value: f64, unit: &str) -> Self {
        self.note(format!("{value:.1} {unit}; bar {bar}: {}", verdict(value <= bar)))
    }

    /// Reports whether a rate per second is at least `bar`.
    pub(crate) fn at_least(self, bar: f64, rate: f64) -> Self {
        self.note(format!("{rate:.0}/s; bar {bar}/s: {}", verdict(rate >= bar)))
    }

    /// Reports whether the median is at most `bar`.
    pub(crate) fn bar(self, bar: Duration) -> Self {
        let value = self.p50;
        self.with_verdict(value, bar)
    }

    /// Reports whether the 99th percentile is at most `bar`.
    pub(crate) fn bar_p99(self, bar: Duration) -> Self {
        let value = self.p99;
        self.with_verdict(value, bar)
    }

    fn with_verdict(self, value: Option<Duration>, bar: Duration) -> Self {
        let missed_by = value.unwrap_or_default().checked_sub(bar).filter(|by| !by.is_zero());
        let verdict = match missed_by {
            Some(by) => format!("MISSED by {}", milliseconds(by)),
            None => "met".to_owned(),
        };
        self.note(format!("bar {}: {verdict}", milliseconds(bar)))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Option<Duration>| time.map(milliseconds).unwrap_or_default();
        let rate = self.per_second.map(|rate| format!("{rate:.0}")).unwrap_or_default();
        let (p50, p99, processor) = (time(self.p50), time(self.p99), time(self.processor));
        let Self { label, note, .. } = self;
        write!(f, "{label:<44} {p50:>10} {p99:>10} {rate:>8} {processor:>10}  {note}")
    }
}

pub(crate) fn header() -> String {
    let (label, p50, p99, rate, processor) = ("", "p50", "p99", "calls/s", "CPU/call");
    format!("{label:<44} {p50:>10} {p99:>10} {rate:>8} {processor:>10}")
}

fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1_000.0)
}

//! What was measured, as one table for people.

use std::fmt;
use std::time::Duration;

/// Times of equal calls, sorted.
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn of(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    pub(crate) fn p50(&self) -> Duration {
        self.percentile(50)
    }

    pub(crate) fn p99(&self) -> Duration {
        self.percentile(99)
    }

    /// The smallest time that so many percent of all do not exceed.
    fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    pub(crate) fn per_second(&self) -> f64 {
        per_second(self.0.len(), self.0.iter().sum())
    }
}

pub(crate) fn per_second(calls: usize, took: Duration) -> f64 {
    f64::from(u32::try_from(calls).unwrap_or(u32::MAX)) / took.as_secs_f64()
}

/// One line. What was not measured stays empty.
#[derive(Default)]
pub(crate) struct Row {
    pub(crate) what: String,
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Option<Duration>,
    pub(crate) per_second: Option<f64>,
    pub(crate) processor: Option<Duration>,
    pub(crate) note: String,
}

impl Row {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub(crate) fn times(mut self, times: &Times) -> Self {
        (self.p50, self.p99) = (Some(times.p50()), Some(times.p99()));
        self
    }

    pub(crate) fn per_second(mut self, per_second: f64) -> Self {
        self.per_second = Some(per_second);
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Says whether the median keeps within `bar`.
    pub(crate) fn bar(self, bar: Duration) -> Self {
        let found = self.p50;
        self.held_to(found, bar)
    }

    /// Says whether all but a hundredth keep within `bar`.
    pub(crate) fn bar_p99(self, bar: Duration) -> Self {
        let found = self.p99;
        self.held_to(found, bar)
    }

    fn held_to(self, found: Option<Duration>, bar: Duration) -> Self {
        let missed_by = found.unwrap_or_default().checked_sub(bar).filter(|by| !by.is_zero());
        let verdict = match missed_by {
            Some(by) => format!("MISSED by {}", millis(by)),
            None => "met".to_owned(),
        };
        self.note(format!("bar {}: {verdict}", millis(bar)))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Option<Duration>| time.map(millis).unwrap_or_default();
        let rate = self.per_second.map(|rate| format!("{rate:.0}")).unwrap_or_default();
        let (p50, p99, processor) = (time(self.p50), time(self.p99), time(self.processor));
        let Self { what, note, .. } = self;
        write!(f, "{what:<44} {p50:>10} {p99:>10} {rate:>8} {processor:>10}  {note}")
    }
}

pub(crate) fn header() -> String {
    let (what, p50, p99, rate, processor) = ("", "p50", "p99", "calls/s", "CPU/call");
    format!("{what:<44} {p50:>10} {p99:>10} {rate:>8} {processor:>10}")
}

fn millis(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1_000.0)
}

//! Reports progress of long operations on standard error: a bar on a terminal, else log lines.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressFinish, ProgressStyle};
use reqlore_domain::ports::service::ProgressSink;

/// Shorter operations have no line.
const LINE_INTERVAL: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct ProgressDisplay {
    /// Disappears when it is dropped. `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// The time of the last line, or of the start, by message.
    lines: Mutex<HashMap<String, Instant>>,
}

impl ProgressDisplay {
    /// For operations that block a command or the start of a server.
    pub(crate) fn on_terminal() -> Self {
        let bar = ProgressBar::no_length().with_finish(ProgressFinish::AndClear);
        let style =
            ProgressStyle::with_template("{msg} {wide_bar} {human_pos} of {human_len}, {eta}");
        let bar = match style {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        };
        Self { bar: (!bar.is_hidden()).then_some(bar), lines: Mutex::default() }
    }

    /// For background tasks of a running server, because its log lines would break up a bar.
    pub(crate) fn in_log() -> Self {
        Self { bar: None, lines: Mutex::default() }
    }

    /// Returns the log line to write now; `None` if it is too early for the next one.
    fn line(&self, done: usize, total: usize, message: &str, now: Instant) -> Option<String> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if done == total {
            lines.remove(message);
            return None;
        }
        let Some(last) = lines.get_mut(message) else {
            lines.insert(message.to_owned(), now);
            return None;
        };
        if now.saturating_duration_since(*last) < LINE_INTERVAL {
            return None;
        }
        *last = now;
        let counted = HumanCount(done as u64);
        if total == 0 {
            return Some(format!("{message} {counted}"));
        }
        let percent = done.saturating_mul(100) / total;
        Some(format!("{message} {counted} of {} ({percent} %)", HumanCount(total as u64)))
    }
}

impl ProgressSink for ProgressDisplay {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, done: usize, total: usize, message: &str) {
        let Some(bar) = &self.bar else {
            if let Some(line) = self.line(done, total, message, Instant::now()) {
                tracing::info!("{line}");
            }
            return;
        };
        if bar.message() != message {
            // A new phase, with its own rate.
            bar.reset();
            bar.set_message(message.to_owned());
        }
        if total > 0 {
            bar.set_length(total as u64);
        }
        bar.set_position(done as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_in_log_has_a_line_every_few_seconds() {
        let display = ProgressDisplay::in_log();
        let start = Instant::now();
        let mut lines = Vec::new();
        for second in 0..=10 {
            let (done, now) = (second * 1_000, start + Duration::from_secs(second as u64));
            lines.extend(display.line(done, 10_000, "Copying", now));
            // Other work at the same time has its own lines.
            assert_eq!(display.line(second, 0, &format!("step {second}"), now), None);
        }
        let expected = [
            "Copying 3,000 of 10,000 (30 %)",
            "Copying 6,000 of 10,000 (60 %)",
            "Copying 9,000 of 10,000 (90 %)",
        ];
        assert_eq!(lines, expected);
        // A repeated operation also has no early line.
        assert_eq!(display.line(1, 2, "Copying", start + Duration::from_secs(60)), None);
        let later = start + Duration::from_secs(70);
        assert_eq!(display.line(5, 0, "step 7", later).unwrap(), "step 7 5");
    }
}

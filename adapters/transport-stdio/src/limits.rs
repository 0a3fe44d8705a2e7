//! Limits of a connection over standard input and output.

use std::time::Duration;

/// Limits of one connection.
#[derive(Debug, Clone, Copy)]
pub struct StdioLimits {
    /// Maximum bytes of a line.
    pub line_bytes: usize,
    /// Maximum waiting messages. At the limit standard input is not read.
    pub queue: usize,
    /// Maximum bytes of waiting messages.
    pub queue_bytes: usize,
    /// Maximum requests that run in parallel.
    pub in_flight: usize,
    /// Maximum malformed lines in a row, after which the connection closes.
    pub malformed_lines: usize,
    /// Time that a read waits for earlier requests before it runs in parallel.
    pub read_grace_time: Duration,
    /// Time for accepted requests after the end of input. rmcp adds two seconds and closing adds
    /// one: ten in total.
    pub drain_timeout: Duration,
}

impl Default for StdioLimits {
    fn default() -> Self {
        Self {
            line_bytes: 4 * 1024 * 1024,
            queue: 256,
            queue_bytes: 1024 * 1024,
            in_flight: 32,
            malformed_lines: 100,
            read_grace_time: Duration::from_millis(25),
            drain_timeout: Duration::from_secs(7),
        }
    }
}

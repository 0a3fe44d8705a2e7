//! The limits of a server over HTTP.

use std::time::Duration;

/// Each limit has a default that suits a team.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections in total. One more is closed at once.
    pub connections: usize,
    /// Connections from one address; not counted for trusted proxies.
    pub connections_per_address: usize,
    /// From the first byte of a request, or from the start of a connection, to the end of headers.
    pub header_time: Duration,
    /// A request line with its headers, in bytes.
    pub header_bytes: usize,
    pub header_fields: usize,
    /// How long a connection may stay open between two requests.
    pub idle: Duration,
    /// A request's body, in bytes.
    pub body: usize,
    /// From the end of the headers to the end of the body.
    pub body_time: Duration,
    /// All bodies in memory, in bytes. At least as many as of one body.
    pub bodies: usize,
    /// How long a peer may read nothing of a response.
    pub unread: Duration,
    /// From the end of the body to the start of the response.
    pub request_time: Duration,
    /// Requests that run in parallel.
    pub in_flight: usize,
    /// Those of one token.
    pub in_flight_per_token: usize,
    /// Requests that wait to run. One more is refused.
    pub queue: usize,
    /// Open subscriptions of one token.
    pub listens_per_token: usize,
    /// Requests of one token.
    pub requests: Option<Rate>,
    /// Failed logins from one address.
    pub failed_logins: Option<Rate>,
    /// Look-ups of unknown tokens, from all addresses together.
    pub look_ups: Option<Rate>,
    /// How long accepted requests may run after the shutdown began. Closing takes one more second.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            connections_per_address: 64,
            header_time: Duration::from_secs(10),
            header_bytes: 16 * 1024,
            header_fields: 64,
            idle: Duration::from_secs(60),
            body: 4 * 1024 * 1024,
            body_time: Duration::from_secs(15),
            bodies: 64 * 1024 * 1024,
            unread: Duration::from_secs(20),
            request_time: Duration::from_secs(30),
            in_flight: 64,
            in_flight_per_token: 8,
            queue: 64,
            listens_per_token: 8,
            requests: Some(Rate { every: Duration::from_millis(10), burst: 200 }),
            failed_logins: Some(Rate { every: Duration::from_secs(12), burst: 5 }),
            look_ups: Some(Rate { every: Duration::from_millis(10), burst: 200 }),
            drain: Duration::from_secs(9),
        }
    }
}

/// A burst, and then one more in each period. Both are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub every: Duration,
    pub burst: u32,
}

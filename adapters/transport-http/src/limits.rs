//! How much of everything one server gives (reliability, 6).

use std::time::Duration;

/// The limits of a server. Each has a default that suits a team.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections in all. One more is closed at once.
    pub connections: usize,
    /// Connections from one address; not counted for trusted proxies.
    pub connections_per_address: usize,
    /// From the first byte of a request (on a new connection: from its beginning) to the end of
    /// its headers.
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
    /// All bodies that are held at once, in bytes. At least as much as one may have.
    pub bodies: usize,
    /// How long a peer may take none of an answer that is being sent.
    pub unread: Duration,
    /// How long a request may wait and run until its answer begins.
    pub request_time: Duration,
    /// Requests that run at once.
    pub in_flight: usize,
    /// Of them with one token.
    pub in_flight_per_token: usize,
    /// Requests that wait to run. One more is refused.
    pub queue: usize,
    /// Standing subscriptions with one token.
    pub listens_per_token: usize,
    /// Requests with one token.
    pub requests: Option<Rate>,
    /// Failed logins from one address.
    pub failed_logins: Option<Rate>,
    /// Look-ups of tokens that were not seen before, from all addresses together.
    pub look_ups: Option<Rate>,
    /// How long accepted requests may take after the end was asked for. A second is left to close.
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

/// So many at once, and then one more every so often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Not zero.
    pub every: Duration,
    /// Not zero.
    pub burst: u32,
}

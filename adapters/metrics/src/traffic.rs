//! What a network transport counts before and beside calls. It tells numbers and events; no type of
//! a protocol gets here.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// By the first digit; whatever is no status is the server's fault.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The counters of a transport. Cheap enough for each request.
#[derive(Debug)]
pub struct Traffic {
    requests: [Counter; CLASSES.len()],
    rate_limited: Counter,
    failed_logins: Counter,
    connections: Gauge,
}

impl Traffic {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let requests: Family<[(&'static str, &'static str); 1], Counter> = Family::default();
        registry.register(
            "reqlore_http_requests",
            "HTTP requests that were answered, by class of status",
            requests.clone(),
        );
        let traffic = Self {
            requests: CLASSES.map(|class| requests.get_or_create_owned(&[("status", class)])),
            rate_limited: Counter::default(),
            failed_logins: Counter::default(),
            connections: Gauge::default(),
        };
        registry.register(
            "reqlore_http_rate_limited",
            "HTTP requests that were refused because there were too many",
            traffic.rate_limited.clone(),
        );
        registry.register(
            "reqlore_http_failed_logins",
            "HTTP requests with a token that did not count, or none",
            traffic.failed_logins.clone(),
        );
        registry.register(
            "reqlore_http_connections",
            "HTTP connections that are open",
            traffic.connections.clone(),
        );
        traffic
    }

    /// A request was answered with this status.
    pub fn answered(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        self.requests[class.min(CLASSES.len() - 1)].inc();
    }

    /// A request was refused because there were too many.
    pub fn rate_limited(&self) {
        self.rate_limited.inc();
    }

    /// A request came with a token that does not count, or without one.
    pub fn failed_login(&self) {
        self.failed_logins.inc();
    }

    /// A connection is open until what is returned is dropped.
    #[must_use]
    pub fn connected(self: &Arc<Self>) -> Connection {
        self.connections.inc();
        Connection(self.clone())
    }
}

/// A connection that is open, for the count of them.
#[derive(Debug)]
pub struct Connection(Arc<Traffic>);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.connections.dec();
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::time::Timestamp;

    use crate::Metrics;
    use crate::tests::value;

    #[test]
    fn requests_are_counted_by_the_class_of_their_status() {
        let metrics = Metrics::new("1", Timestamp::default());
        let traffic = metrics.traffic();
        for status in [200, 202, 400, 401, 404, 503, 0, 99, 999, u16::MAX] {
            traffic.answered(status);
        }
        let text = metrics.render();
        for (class, count) in [("1xx", 0.0), ("2xx", 2.0), ("3xx", 0.0), ("4xx", 3.0), ("5xx", 5.0)]
        {
            let name = format!("reqlore_http_requests_total{{status=\"{class}\"}}");
            assert_eq!(value(&text, &name), Some(count), "{text}");
        }
    }

    #[test]
    fn refusals_are_counted_and_connections_while_they_are_open() {
        let metrics = Metrics::new("1", Timestamp::default());
        let traffic = metrics.traffic();
        traffic.rate_limited();
        traffic.failed_login();
        traffic.failed_login();
        let one = traffic.connected();
        let other = traffic.connected();
        drop(one);
        let text = metrics.render();
        assert_eq!(value(&text, "reqlore_http_rate_limited_total"), Some(1.0));
        assert_eq!(value(&text, "reqlore_http_failed_logins_total"), Some(2.0));
        assert_eq!(value(&text, "reqlore_http_connections"), Some(1.0));
        drop(other);
        assert_eq!(value(&metrics.render(), "reqlore_http_connections"), Some(0.0));
    }
}

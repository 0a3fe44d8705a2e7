//! What a network transport counts before and beside calls, read when somebody looks. It tells
//! numbers alone; no type of a protocol gets here.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The figures of a transport, as they are now.
#[derive(Debug, Clone, Copy, Default)]
pub struct Traffic {
    /// Answers so far, by the first digit of their status from 2 to 5.
    pub answers: [u64; 4],
    /// Of them those that told their client to come back later.
    pub rate_limited: u64,
    /// Requests with a token that did not count, or without one.
    pub failed_logins: u64,
    /// Connections that were closed because there were too many.
    pub refused_connections: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Requests that run now.
    pub in_flight: u64,
}

/// Where the figures come from.
pub(crate) struct Watched(pub(crate) Arc<dyn Fn() -> Traffic + Send + Sync>);

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl Collector for Watched {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let traffic = (self.0)();
        let answers = ConstCounter::new(0_u64);
        let mut family = encoder.encode_descriptor(
            "reqlore_http_requests",
            "HTTP requests that were answered, by class of status",
            None,
            answers.metric_type(),
        )?;
        for (class, count) in ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(traffic.answers) {
            let labels = [("status", class)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        let mut one = |name, help, metric: &dyn Metric| {
            let descriptor = encoder.encode_descriptor(name, help, None, metric.kind())?;
            metric.write(descriptor)
        };
        one(
            "reqlore_http_rate_limited",
            "HTTP requests that were refused because there were too many",
            &ConstCounter::new(traffic.rate_limited),
        )?;
        one(
            "reqlore_http_failed_logins",
            "HTTP requests with a token that did not count, or none",
            &ConstCounter::new(traffic.failed_logins),
        )?;
        one(
            "reqlore_http_refused_connections",
            "HTTP connections that were closed because there were too many",
            &ConstCounter::new(traffic.refused_connections),
        )?;
        one(
            "reqlore_http_connections",
            "HTTP connections that are open",
            &ConstGauge::new(traffic.connections),
        )?;
        one(
            "reqlore_http_requests_in_flight",
            "HTTP requests that run",
            &ConstGauge::new(traffic.in_flight),
        )
    }
}

/// A metric of one value.
trait Metric {
    fn kind(&self) -> prometheus_client::metrics::MetricType;
    fn write(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result;
}

impl<M: EncodeMetric> Metric for M {
    fn kind(&self) -> prometheus_client::metrics::MetricType {
        self.metric_type()
    }

    fn write(&self, encoder: prometheus_client::encoding::MetricEncoder<'_>) -> fmt::Result {
        self.encode(encoder)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqlore_domain::time::Timestamp;

    use super::Traffic;
    use crate::Metrics;
    use crate::tests::value;

    #[test]
    fn a_transports_figures_are_read_when_somebody_looks() {
        let traffic = Traffic {
            answers: [7, 0, 3, 1],
            rate_limited: 2,
            failed_logins: 4,
            refused_connections: 5,
            connections: 6,
            in_flight: 8,
        };
        let metrics = Metrics::watching("1", Timestamp::default(), Arc::new(move || traffic));
        let text = metrics.render();
        for (name, expected) in [
            ("requests_total{status=\"2xx\"}", 7.0),
            ("requests_total{status=\"3xx\"}", 0.0),
            ("requests_total{status=\"4xx\"}", 3.0),
            ("requests_total{status=\"5xx\"}", 1.0),
            ("rate_limited_total", 2.0),
            ("failed_logins_total", 4.0),
            ("refused_connections_total", 5.0),
            ("connections", 6.0),
            ("requests_in_flight", 8.0),
        ] {
            let found = value(&text, &format!("reqlore_http_{name}"));
            assert_eq!(found, Some(expected), "{name} in {text}");
        }
    }
}

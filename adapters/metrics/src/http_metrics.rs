//! The counters of the HTTP transport, read when the metrics are rendered.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// The current counters of the transport.
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpTraffic {
    /// Responses by the first digit of their status, from 2xx to 5xx.
    pub responses: [u64; 4],
    /// Requests answered with 429.
    pub rate_limited: u64,
    pub failed_logins: u64,
    pub refused_connections: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Requests that run now.
    pub in_flight: u64,
}

pub(crate) struct HttpCollector(pub(crate) Arc<dyn Fn() -> HttpTraffic + Send + Sync>);

impl fmt::Debug for HttpCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpCollector")
    }
}

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let traffic = (self.0)();
        let mut family = encoder.encode_descriptor(
            "reqlore_http_requests",
            "HTTP requests that were answered, by class of status",
            None,
            ConstCounter::new(0_u64).metric_type(),
        )?;
        for (class, count) in ["2xx", "3xx", "4xx", "5xx"].into_iter().zip(traffic.responses) {
            let labels = [("status", class)];
            ConstCounter::new(count).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, count) in [
            (
                "reqlore_http_rate_limited",
                "HTTP requests that were refused because there were too many",
                traffic.rate_limited,
            ),
            (
                "reqlore_http_failed_logins",
                "HTTP requests without a valid token",
                traffic.failed_logins,
            ),
            (
                "reqlore_http_refused_connections",
                "HTTP connections that were closed because there were too many",
                traffic.refused_connections,
            ),
        ] {
            let counter = ConstCounter::new(count);
            counter.encode(encoder.encode_descriptor(
                name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        for (name, help, count) in [
            ("reqlore_http_connections", "HTTP connections that are open", traffic.connections),
            ("reqlore_http_requests_in_flight", "HTTP requests that run", traffic.in_flight),
        ] {
            let gauge = ConstGauge::new(count);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqlore_domain::time::Timestamp;

    use super::HttpTraffic;
    use crate::Metrics;
    use crate::tests::value;

    #[test]
    fn a_transports_figures_are_read_when_somebody_looks() {
        let traffic = HttpTraffic {
            responses: [7, 0, 3, 1],
            rate_limited: 2,
            failed_logins: 4,
            refused_connections: 5,
            connections: 6,
            in_flight: 8,
        };
        let metrics = Metrics::with_http("1", Timestamp::default(), Arc::new(move || traffic));
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

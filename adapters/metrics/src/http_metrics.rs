//! The counters of the HTTP transport, read when the metrics are rendered.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use reqlore_domain::ports::transport::TrafficCounters;

const STATUS_CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

#[derive(Debug)]
pub(crate) struct HttpCollector(pub(crate) Arc<TrafficCounters>);

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let mut family = encoder.encode_descriptor(
            "reqlore_http_requests",
            "HTTP requests that were answered, by class of status",
            None,
            ConstCounter::new(0_u64).metric_type(),
        )?;
        for (class, count) in STATUS_CLASSES.into_iter().zip(&self.0.responses) {
            let labels = [("status", class)];
            ConstCounter::new(load(count)).encode(family.encode_family(&labels)?)?;
        }
        for (name, help, count) in [
            (
                "reqlore_http_rate_limited",
                "HTTP requests that were refused because there were too many",
                &self.0.rate_limited,
            ),
            (
                "reqlore_http_failed_logins",
                "HTTP requests without a valid token",
                &self.0.failed_logins,
            ),
            (
                "reqlore_http_refused_connections",
                "HTTP connections that were closed because there were too many",
                &self.0.refused_connections,
            ),
        ] {
            let counter = ConstCounter::new(load(count));
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, count) in [
            ("reqlore_http_connections", "HTTP connections that are open", &self.0.connections),
            ("reqlore_http_requests_in_flight", "HTTP requests that run", &self.0.in_flight),
        ] {
            let gauge = ConstGauge::new(load(count));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

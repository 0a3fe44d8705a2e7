//! Counters and durations of the ports, rendered as OpenMetrics text.
//!
//! Labels are constants of the program, never names from clients: their number must be bounded.

mod call_metrics;
mod database_metrics;
mod operation_durations;
mod search_metrics;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use reqlore_domain::ports::observed::{ObservedPort, PortOperations};
use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::ports::service::ApplicationService;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::ports::transport::TrafficCounters;
use reqlore_domain::timestamp::Timestamp;

use call_metrics::{CallMetrics, MeasuredService};
use database_metrics::DatabaseCollector;
use operation_durations::OperationDurations;
use search_metrics::SearchMetrics;

const STATUS_CLASSES: [&str; 4] = ["2xx", "3xx", "4xx", "5xx"];

/// Metrics of a process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: CallMetrics,
    storage: OperationDurations,
    search: SearchMetrics,
}

impl Metrics {
    #[expect(clippy::cast_precision_loss, reason = "seconds")]
    pub fn new(version: &str, started: Timestamp) -> Self {
        let mut registry = Registry::default();
        let build = Info::new([("version", version.to_owned())]);
        registry.register("reqlore_build", "Version of the program", build);
        registry.register(
            "process_start_time_seconds",
            "Start time of the process, in seconds since the Unix epoch",
            ConstGauge::new(started.seconds() as f64),
        );
        let calls = CallMetrics::new(&mut registry);
        let storage = OperationDurations::new(
            &mut registry,
            "reqlore_storage_duration_seconds",
            "Duration of storage operations; a commit includes the wait for the write lock",
        );
        let search = SearchMetrics::new(&mut registry);
        Self { registry, calls, storage, search }
    }

    /// Includes the counters of the HTTP transport, which also counts requests that it rejects.
    pub fn with_http(version: &str, started: Timestamp, traffic: Arc<TrafficCounters>) -> Self {
        let mut metrics = Self::new(version, started);
        // The transport owns the counters, so they are read at rendering time.
        metrics.registry.register_collector(Box::new(HttpCollector(traffic)));
        metrics
    }

    /// Includes the numbers of a storage on a database server.
    #[must_use]
    pub fn with_storage(mut self, storage: Arc<dyn StorageHealth>) -> Self {
        self.registry.register_collector(Box::new(DatabaseCollector(storage)));
        self
    }

    /// Renders all current values as OpenMetrics text, which Prometheus reads.
    pub fn render_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail, and every metric here has a text form.
        let _ = encode(&mut text, &self.registry);
        text
    }

    /// Wraps a service to count and time its requests.
    pub fn measured_service(
        &self,
        inner: Arc<dyn ApplicationService>,
    ) -> Arc<dyn ApplicationService> {
        Arc::new(MeasuredService::new(inner, self.calls.clone()))
    }

    /// Wraps the search index: times its operations and adds its status to the metrics.
    pub fn measured_search(&self, inner: Arc<dyn SearchIndex>) -> Arc<dyn SearchIndex> {
        self.search.measure_index(inner)
    }

    /// Wraps a port of a storage to time its operations.
    pub fn measured_store<Port: PortOperations + ?Sized>(
        &self,
        inner: Arc<Port>,
    ) -> Arc<ObservedPort<Port, OperationDurations>> {
        Arc::new(ObservedPort { inner, observer: self.storage.of_port::<Port>() })
    }
}

/// Reads the counters of the HTTP transport when the metrics are rendered.
#[derive(Debug)]
struct HttpCollector(Arc<TrafficCounters>);

impl Collector for HttpCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "reqlore_http_requests",
            "HTTP responses, by class of status",
            None,
            ConstCounter::new(0_u64).metric_type(),
        )?;
        // All classes, because a rate needs the series before its first response.
        for (class, count) in STATUS_CLASSES.into_iter().zip(&self.0.responses) {
            let labels = [("status", class)];
            ConstCounter::new(count.load(Ordering::Relaxed))
                .encode(family.encode_family(&labels)?)?;
        }
        for (name, help, count) in [
            (
                "reqlore_http_rate_limited",
                "HTTP requests that were rejected by a rate limit",
                &self.0.rate_limited,
            ),
            (
                "reqlore_http_failed_logins",
                "HTTP requests without a valid token",
                &self.0.failed_logins,
            ),
            (
                "reqlore_http_refused_connections",
                "HTTP connections that were closed by a limit on connections",
                &self.0.refused_connections,
            ),
        ] {
            let counter = ConstCounter::new(count.load(Ordering::Relaxed));
            let kind = counter.metric_type();
            counter.encode(encoder.encode_descriptor(name, help, None, kind)?)?;
        }
        for (name, help, count) in [
            ("reqlore_http_connections", "Open HTTP connections", &self.0.open_connections),
            ("reqlore_http_requests_in_flight", "HTTP requests in progress", &self.0.in_flight),
        ] {
            let gauge = ConstGauge::new(count.load(Ordering::Relaxed));
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the value of a metric, by its name and labels.
    pub(crate) fn value(text: &str, name: &str) -> Option<f64> {
        let mut values = text.lines().filter_map(|line| line.rsplit_once(' '));
        values.find(|(found, _)| *found == name)?.1.parse().ok()
    }

    #[test]
    fn metrics_text_has_version_start_time_and_help() {
        let text = Metrics::new("1.2.3", Timestamp::new(1_700_000_000, 5)).render_text();
        assert_eq!(value(&text, "reqlore_build_info{version=\"1.2.3\"}"), Some(1.0));
        assert_eq!(value(&text, "process_start_time_seconds"), Some(1_700_000_000.0));
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in text.lines().filter(|line| line.starts_with("# TYPE ")) {
            let name = line.split(' ').nth(2).unwrap();
            assert!(text.contains(&format!("# HELP {name} ")), "{text}");
        }
    }

    #[test]
    fn metrics_text_has_current_http_counters() {
        let traffic = Arc::new(TrafficCounters {
            responses: [7, 0, 3, 1].map(Into::into),
            rate_limited: 2.into(),
            failed_logins: 4.into(),
            refused_connections: 5.into(),
            open_connections: 6.into(),
            in_flight: 8.into(),
        });
        let text = Metrics::with_http("1", Timestamp::default(), traffic).render_text();
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

//! Connections and transactions of a storage on a database server, read at rendering time.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use reqlore_domain::ports::storage_health::StorageHealth;

pub(crate) struct DatabaseCollector(pub(crate) Arc<dyn StorageHealth>);

impl fmt::Debug for DatabaseCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseCollector").finish_non_exhaustive()
    }
}

impl Collector for DatabaseCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(database) = self.0.database_statistics() else { return Ok(()) };
        for (name, help, value) in [
            ("connections_max", "Maximum connections that read", database.max_connections),
            ("connections_idle", "Open connections that are not used", database.idle_connections),
            ("connections_used", "Connections that read", database.used_connections),
            ("waiting_reads", "Reads that wait for a connection", database.waiting_reads),
        ] {
            let (name, gauge) = (format!("reqlore_database_{name}"), ConstGauge::new(value));
            gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)?;
        }
        let writes = database.writes;
        for (name, help, value) in [
            ("transactions", "Transactions of the writer, with retries", writes.transactions),
            ("writes", "Writes in these transactions, with retries", writes.writes),
            ("retries", "Retries after a conflict or a lost connection", writes.retries),
            ("unknown_outcomes", "Connections lost at a commit", writes.unknown_outcomes),
        ] {
            let (name, counter) = (format!("reqlore_database_{name}"), ConstCounter::new(value));
            counter.encode(encoder.encode_descriptor(
                &name,
                help,
                None,
                counter.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::ports::storage_health::{DatabaseStatistics, WriteStatistics};
    use reqlore_domain::timestamp::Timestamp;

    use super::*;
    use crate::Metrics;
    use crate::tests::value;

    struct StubStorage(Option<DatabaseStatistics>);

    impl StorageHealth for StubStorage {
        fn database_statistics(&self) -> Option<DatabaseStatistics> {
            self.0
        }
    }

    #[test]
    fn metrics_text_has_the_numbers_of_the_database() {
        let writes =
            WriteStatistics { transactions: 5, writes: 6, retries: 7, unknown_outcomes: 8 };
        let statistics = DatabaseStatistics {
            max_connections: 1,
            idle_connections: 2,
            used_connections: 3,
            waiting_reads: 4,
            writes,
        };
        let render = |statistics| {
            let metrics = Metrics::new("1", Timestamp::default());
            metrics.with_storage(Arc::new(StubStorage(statistics))).render_text()
        };
        let text = render(Some(statistics));
        for (name, expected) in [
            ("connections_max", 1.0),
            ("connections_idle", 2.0),
            ("connections_used", 3.0),
            ("waiting_reads", 4.0),
            ("transactions_total", 5.0),
            ("writes_total", 6.0),
            ("retries_total", 7.0),
            ("unknown_outcomes_total", 8.0),
        ] {
            let found = value(&text, &format!("reqlore_database_{name}"));
            assert_eq!(found, Some(expected), "{name} in {text}");
        }
        assert!(!render(None).contains("reqlore_database"));
    }
}

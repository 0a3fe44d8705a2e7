//! Measures search index operations, and reads the index status when metrics are rendered.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use reqlore_domain::ports::observed::ObservedPort;
use reqlore_domain::ports::search::SearchIndex;

use crate::operation_durations::OperationDurations;

#[derive(Clone)]
pub(crate) struct SearchMetrics {
    durations: OperationDurations,
    /// Set when the index is opened, after the registry is created.
    index: Arc<OnceLock<Arc<dyn SearchIndex>>>,
}

impl fmt::Debug for SearchMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchMetrics").finish_non_exhaustive()
    }
}

impl SearchMetrics {
    pub(crate) fn new(registry: &mut Registry) -> Self {
        let durations = OperationDurations::new(
            registry,
            "reqlore_search_duration_seconds",
            "Duration of search index operations; apply is the catch-up before a search",
        );
        let metrics = Self { durations, index: Arc::default() };
        registry.register_collector(Box::new(metrics.clone()));
        metrics
    }

    pub(crate) fn measure_index(&self, inner: Arc<dyn SearchIndex>) -> Arc<dyn SearchIndex> {
        // A process has one index.
        let _ = self.index.set(Arc::clone(&inner));
        Arc::new(ObservedPort { inner, observer: self.durations.of_port::<dyn SearchIndex>() })
    }
}

impl Collector for SearchMetrics {
    #[expect(clippy::cast_precision_loss, reason = "sizes and counts")]
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(index) = self.index.get() else { return Ok(()) };
        let status = index.status();
        for (name, help, value) in [
            ("open_indexes", "Open project indexes", status.open_indexes),
            (
                "indexes_in_memory",
                "Open project indexes held in memory because their folder is unusable",
                status.indexes_in_memory,
            ),
            ("index_bytes", "Size of the index files of open projects in bytes", status.disk_bytes),
            (
                "unembedded_texts",
                "Texts of open projects without an embedding",
                status.unembedded_texts,
            ),
        ] {
            let (name, gauge) = (format!("reqlore_search_{name}"), ConstGauge::new(value as f64));
            gauge.encode(encoder.encode_descriptor(&name, help, None, gauge.metric_type())?)?;
        }
        for (name, help, value) in [
            ("hits", "Reads of index files served from the cache", status.cache_hits),
            ("misses", "Reads of index files from disk", status.cache_misses),
        ] {
            let (name, counter) =
                (format!("reqlore_search_cache_{name}"), ConstCounter::new(value));
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
    use reqlore_domain::project_key::ProjectKey;
    use reqlore_domain::search::{SearchQuery, SemanticMode};
    use reqlore_domain::timestamp::Timestamp;
    use reqlore_storage_memory::MemoryIndex;

    use super::*;
    use crate::Metrics;
    use crate::tests::value;

    #[tokio::test]
    async fn measured_search_times_operations_and_has_the_status() {
        let metrics = Metrics::new("1", Timestamp::default());
        assert!(!metrics.render_text().contains("reqlore_search_open_indexes"));
        let (index, project) = (Arc::<MemoryIndex>::default(), ProjectKey::default());
        let search = metrics.measured_search(index.clone());
        search.apply_projections(&project, Vec::new(), None).await.unwrap();
        let query = SearchQuery {
            text: "word".to_owned(),
            document_kinds: Vec::new(),
            item_kinds: Vec::new(),
            facets: Vec::new(),
            offset: 0,
            limit: 1,
            semantic_mode: SemanticMode::Best,
            is_unfinished: false,
        };
        search.search(&project, &query).await.unwrap();
        let text = metrics.render_text();
        for operation in ["apply_projections", "search"] {
            let name =
                format!("reqlore_search_duration_seconds_count{{operation=\"{operation}\"}}");
            assert_eq!(value(&text, &name), Some(1.0), "{text}");
        }
        for name in ["open_indexes", "indexes_in_memory", "index_bytes", "unembedded_texts"] {
            assert_eq!(value(&text, &format!("reqlore_search_{name}")), Some(0.0), "{text}");
        }
        for name in ["hits", "misses"] {
            let name = format!("reqlore_search_cache_{name}_total");
            assert_eq!(value(&text, &name), Some(0.0), "{text}");
        }
    }
}

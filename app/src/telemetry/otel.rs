//! Exports spans to an OpenTelemetry collector over OTLP/HTTP.
//!
//! The environment variables of the OpenTelemetry specification configure it: the library reads the
//! endpoint, headers, timeouts and sampling from them. Only plain HTTP is supported; a collector on
//! this machine adds TLS. Secrets are redacted, as in log lines.

use std::borrow::Cow;
use std::time::Duration;

use opentelemetry::trace::{Status, TracerProvider};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_otlp::{Protocol, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter, Tracer};
use reqlore_domain::identity::redact_secrets;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

use crate::exit::{CommandError, Result};

const SERVICE_NAME: &str = "reqlore";
const ENDPOINT_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// Time limit for the last spans at the end of the process.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends spans in batches from a separate thread, and the last ones on drop.
pub(super) struct SpanExport(SdkTracerProvider);

impl SpanExport {
    /// Returns `None` if the environment has no endpoint.
    #[expect(clippy::disallowed_methods, reason = "the library reads these variables itself")]
    pub(super) fn from_environment() -> Result<Option<Self>> {
        let mut is_configured = false;
        for variable in ENDPOINT_VARIABLES {
            is_configured |= std::env::var_os(variable).is_some_and(|value| !value.is_empty());
        }
        if !is_configured {
            return Ok(None);
        }
        let builder = opentelemetry_otlp::SpanExporter::builder().with_http();
        let exporter = builder.with_protocol(Protocol::HttpBinary).build().map_err(|error| {
            let [traces, all] = ENDPOINT_VARIABLES;
            CommandError::usage_error(format!("OpenTelemetry: {error}; correct {traces} or {all}"))
        })?;
        Ok(Some(Self::with_exporter(exporter)))
    }

    fn with_exporter(exporter: impl SpanExporter + 'static) -> Self {
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource =
            Resource::builder().with_service_name(SERVICE_NAME).with_attribute(version).build();
        let provider = SdkTracerProvider::builder().with_resource(resource);
        Self(provider.with_batch_exporter(RedactingExporter(exporter)).build())
    }

    /// Exports the product's own spans of level info and above, independent of the log level.
    pub(super) fn tracing_layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let layer: OpenTelemetryLayer<S, Tracer> =
            tracing_opentelemetry::layer().with_tracer(self.0.tracer(SERVICE_NAME));
        layer.with_filter(Targets::new().with_target(SERVICE_NAME, LevelFilter::INFO))
    }
}

impl Drop for SpanExport {
    fn drop(&mut self) {
        if let Err(error) = self.0.shutdown_with_timeout(SHUTDOWN_TIMEOUT) {
            tracing::warn!(%error, "OpenTelemetry: the last spans may be lost");
        }
    }
}

/// Redacts secrets in exported spans.
#[derive(Debug)]
struct RedactingExporter<E>(E);

impl<E: SpanExporter> SpanExporter for RedactingExporter<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        for span in &mut batch {
            redact_attributes(&mut span.attributes);
            for event in &mut span.events.events {
                if let Cow::Owned(name) = redact_secrets(&event.name) {
                    event.name = name.into();
                }
                redact_attributes(&mut event.attributes);
            }
            if let Status::Error { description } = &mut span.status
                && let Cow::Owned(text) = redact_secrets(description)
            {
                *description = text.into();
            }
        }
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn redact_attributes(attributes: &mut [KeyValue]) {
    for attribute in attributes {
        match &mut attribute.value {
            Value::String(text) => redact_value(text),
            Value::Array(Array::String(texts)) => texts.iter_mut().for_each(redact_value),
            _ => {}
        }
    }
}

fn redact_value(text: &mut StringValue) {
    if let Cow::Owned(clean) = redact_secrets(text.as_str()) {
        *text = clean.into();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::prelude::*;

    use super::*;

    #[derive(Debug, Clone, Default)]
    struct CapturedSpans(Arc<Mutex<Vec<SpanData>>>);

    impl SpanExporter for CapturedSpans {
        async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
            self.0.lock().unwrap().extend(batch);
            Ok(())
        }
    }

    // S5: 5.3
    #[test]
    fn call_span_is_exported_without_secrets() {
        let secret = "Bearer 0123456789abcdef";
        let captured = CapturedSpans::default();
        let exporter = SpanExport::with_exporter(captured.clone());
        let subscriber = tracing_subscriber::registry().with(exporter.tracing_layer());
        tracing::subscriber::with_default(subscriber, || {
            let span =
                tracing::info_span!(target: "reqlore::x", "call", tool = "list", uri = secret);
            span.in_scope(|| tracing::error!(target: "reqlore::x", field = secret, "no {secret}"));
            tracing::info_span!(target: "hyper", "other").in_scope(|| ());
        });
        drop(exporter);
        let spans = captured.0.lock().unwrap();
        assert_eq!((spans.len(), spans[0].name.as_ref()), (1, "call"), "{spans:?}");
        let text = format!("{spans:?}");
        assert!(text.contains("list") && text.matches("Bearer ****").count() >= 3, "{text}");
        assert!(!text.contains("0123456789abcdef"), "{text}");
    }
}

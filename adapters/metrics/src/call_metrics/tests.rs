//! Metrics of a stub service whose tools succeed, fail, panic and hang.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::task::{Context, Waker};

use reqlore_domain::error::Error;
use reqlore_domain::ports::service::{AnswerFormat, CompletionTarget, NoProgress};
use reqlore_domain::test_support::{StubService, rendered_answer};
use reqlore_domain::timestamp::Timestamp;
use serde_json::Map;

use super::*;
use crate::Metrics;
use crate::tests::value;

fn measured() -> (Metrics, Arc<dyn ApplicationService>) {
    let metrics = Metrics::new("1", Timestamp::default());
    let stub = StubService::with_resources(&[]).with_tools(&["work", "fail", "panic", "hang"]);
    let stub = stub.on_call(|call| {
        let fails = call.name == "fail";
        let conflict = || Error::new(ErrorKind::Conflict, "changed since");
        Box::pin(async move { if fails { Err(conflict()) } else { Ok(rendered_answer()) } })
    });
    let service = metrics.measured_service(Arc::new(stub));
    (metrics, service)
}

fn caller() -> Arc<Caller> {
    Arc::new(Caller::local("a_secret_name", Access::Write))
}

fn call(name: &str) -> ToolCall {
    ToolCall {
        caller: caller(),
        client_name: None,
        correlation_id: "a_secret_id".to_owned(),
        name: name.to_owned(),
        arguments: Map::new(),
        progress_sink: Arc::new(NoProgress),
        idempotency_key: None,
        answer_format: AnswerFormat::Both,
        is_audited: false,
    }
}

fn request(name: &str) -> ResourceRequest {
    ResourceRequest {
        caller: caller(),
        correlation_id: String::new(),
        name: name.to_owned(),
        arguments: Map::new(),
        is_poll: false,
        fills_placeholders: false,
    }
}

fn count(metrics: &Metrics, tool: &str, result: &str) -> Option<f64> {
    let name = format!("reqlore_calls_total{{tool=\"{tool}\",result=\"{result}\"}}");
    value(&metrics.render_text(), &name)
}

fn timed(metrics: &Metrics, tool: &str) -> Option<f64> {
    let name = format!("reqlore_call_duration_seconds_count{{tool=\"{tool}\"}}");
    value(&metrics.render_text(), &name)
}

fn in_flight(metrics: &Metrics) -> Option<f64> {
    value(&metrics.render_text(), "reqlore_calls_in_flight")
}

#[tokio::test]
async fn calls_are_counted_by_tool_and_result_and_returned_unchanged() {
    let (metrics, service) = measured();
    assert_eq!(count(&metrics, "work", "ok"), Some(0.0), "a series begins before its first call");
    for _ in 0..3 {
        assert_eq!(service.call(call("work")).await.unwrap().text, "a");
    }
    let error = service.call(call("fail")).await.unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Conflict, "changed since"));
    assert_eq!(count(&metrics, "work", "ok"), Some(3.0));
    assert_eq!(count(&metrics, "fail", "conflict"), Some(1.0));
    assert_eq!(count(&metrics, "fail", "ok"), Some(0.0));
    assert_eq!((timed(&metrics, "work"), timed(&metrics, "fail")), (Some(3.0), Some(1.0)));
    assert_eq!(in_flight(&metrics), Some(0.0));
}

#[tokio::test]
async fn unknown_tools_share_one_label() {
    let (metrics, service) = measured();
    service.call(call("work ")).await.unwrap();
    let after_first = metrics.render_text().lines().count();
    for number in 0..1_000 {
        service.call(call(&format!("{number}\"}} 1\n"))).await.unwrap();
    }
    assert_eq!(count(&metrics, "unknown", "ok"), Some(1_001.0));
    assert_eq!(metrics.render_text().lines().count(), after_first);
}

#[tokio::test]
async fn other_requests_are_labelled_by_method() {
    let (metrics, service) = measured();
    let caller = caller();
    let target = CompletionTarget::Prompt(String::new());
    let completion = CompletionRequest { target, argument: String::new(), value: String::new() };
    let list = ListRequest {
        caller: Arc::clone(&caller),
        correlation_id: String::new(),
        cursor: None,
        is_poll: false,
    };
    service.resources(list).await.unwrap();
    service.read(request("epic://a_secret_uri")).await.unwrap_err();
    service.prompt(request("any")).await.unwrap_err();
    service.complete(&caller, "", completion).await.unwrap();
    service.authorize(&caller, "", "tools/list").await.unwrap();
    assert_eq!(service.resources_changed(&caller).await.unwrap(), 0);
    for (method, result) in [
        ("resources/list", "ok"),
        ("resources/read", "not_found"),
        ("prompts/get", "invalid_argument"),
        ("completion/complete", "ok"),
        ("tools/list", "ok"),
    ] {
        assert_eq!(count(&metrics, method, result), Some(1.0), "{method}");
        assert_eq!(timed(&metrics, method), Some(1.0), "{method}");
    }
    assert!(!metrics.render_text().contains("a_secret"), "labels are constants of the program");
}

#[test]
fn dropped_call_counts_as_cancelled_and_panic_as_internal() {
    let (metrics, service) = measured();
    let poll = |name: &str| {
        let mut call = pin!(service.call(call(name)));
        let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(in_flight(&metrics), Some(1.0));
        polled.is_pending()
    };
    assert!(poll("hang"));
    assert_eq!(count(&metrics, "hang", "cancelled"), Some(1.0));
    assert_eq!(in_flight(&metrics), Some(0.0));
    assert!(std::panic::catch_unwind(AssertUnwindSafe(|| poll("panic"))).is_err());
    assert_eq!(count(&metrics, "panic", "internal"), Some(1.0));
    assert_eq!(in_flight(&metrics), Some(0.0));
}

//! Allocations per docset tool call in the application on the memory store (S3 REQ-9.5).
//!
//! `cargo bench --bench allocations` prints a table and fails above the bar. The counts include the
//! store and the boxed futures of the ports, but not the construction of the call.

#![expect(clippy::expect_used, reason = "a benchmark that can't be set up has nothing to measure")]
#![expect(clippy::print_stdout, reason = "the bench prints a table")]

#[path = "harness/mod.rs"]
#[expect(dead_code, reason = "other benches use the rest")]
mod harness;

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use reqlore_application::Application;
use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{
    CommitRequest, DocumentChange, DocumentRepository, ReadSet,
};
use reqlore_domain::ports::service::{AnswerFormat, NoProgress, ToolCall, ToolService};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::memory_store;
use serde_json::{Value, json};

/// Maximum allocations per call.
const BAR: u64 = 30;
const SIZES: [usize; 3] = [1, 100, 1_000];

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let search = |keywords: &[&str], generalized: &[&str]| {
        json!({
            "docset": "d0", "keywords": keywords, "generalized_keywords": generalized
        })
    };
    let calls = [
        ("search_docs, 1 keyword", "search_docs", search(&["hook"], &[])),
        ("search_docs, 2 + 1", "search_docs", search(&["effect", "cleanup"], &["hooks"])),
        ("search_docs, 3 + 2", "search_docs", search(&["a", "b", "c"], &["d", "e"])),
        ("list_docsets", "list_docsets", json!({})),
    ];
    println!("{:<24}{:>10}{:>14}{:>10}", "call", "docsets", "allocations", "bytes");
    let mut worst = 0;
    for (name, tool, arguments) in &calls {
        for size in SIZES {
            let application = runtime.block_on(application(size));
            // The first call reads the configuration.
            runtime.block_on(application.call(call(tool, arguments))).expect("an answer");
            let once = call(tool, arguments);
            let counted = allocation_counter::measure(|| {
                let rendered = runtime.block_on(application.call(once));
                std::hint::black_box(rendered).expect("an answer");
            });
            let (count, bytes) = (counted.count_total, counted.bytes_total);
            println!("{name:<24}{size:>10}{count:>14}{bytes:>10}");
            worst = worst.max(count);
        }
    }
    println!("maximum {worst}; bar {BAR}");
    if worst <= BAR { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn call(tool: &str, arguments: &Value) -> ToolCall {
    ToolCall {
        progress_sink: Arc::new(NoProgress),
        caller: Arc::new(Caller::local("bench", Access::Write)),
        client_name: None,
        correlation_id: "0123456789abcdef".to_owned(),
        name: tool.to_owned(),
        arguments: arguments.as_object().cloned().unwrap_or_default(),
        idempotency_key: None,
        answer_format: AnswerFormat::Both,
        is_audited: false,
    }
}

/// An application with `count` docsets.
async fn application(size: usize) -> Application {
    let mut text = "docsets:\n".to_owned();
    for number in 0..size {
        let _ = writeln!(text, "  d{number}: {{version: \"1.{number}\", aliases: [a{number}]}}");
    }
    let store = memory_store();
    let id = DocumentId::docsets();
    let put = DocumentChange::put(id.clone(), text);
    let act = harness::ports::write_context(Timestamp::default());
    let reads = ReadSet::of_documents(vec![id]);
    let commit = CommitRequest {
        read_set: reads,
        decide: Box::new(move |_| Ok(vec![put.clone()])),
        context: act,
    };
    store.commit(&ProjectKey::default(), commit).await.expect("a configuration");
    let answers = Arc::new(memory_store());
    harness::ports::application(Timestamp::default(), Arc::new(store), answers)
}

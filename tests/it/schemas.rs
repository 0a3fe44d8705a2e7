//! The published schema and the decoder are one definition: what the schema refuses, the tool
//! refuses, and every answer is what the output schema says.

use std::sync::Arc;

use proptest::prelude::*;
use reqlore_application::{Application, Ports, Settings};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::endpoint::{Call, Endpoint, Unobserved};
use reqlore_storage_memory::{MemoryIndex, MemoryStore, NamedProjects};
use serde_json::{Map, Value, json};

fn caller() -> Caller {
    Caller { name: "tester".to_owned(), access: Access::Write }
}

fn application() -> Application {
    let store = MemoryStore::default();
    let docsets = "docsets:\n  react: {version: 18.2}\n  vue:\n";
    run(crate::transcripts::commit(&store, ".knowledge/config.yaml", docsets));
    Application::new(Ports {
        documents: Arc::new(store),
        projects: Arc::new(NamedProjects),
        search: Arc::new(MemoryIndex::default()),
        clock: Arc::new(reqlore_domain::time::Timestamp::default()),
        ids: Arc::new(reqlore_domain::ports::ids::CountedIds::default()),
        tree: None,
        settings: Settings::default(),
    })
}

/// Values around every limit, and of every type.
fn value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("general".to_owned()),
        Just("1".to_owned()),
        Just("react".to_owned()),
        Just("/project".to_owned()),
        Just("0123456789abcdef".to_owned()),
        (95..105_usize).prop_map(|n| "é".repeat(n)),
        (8..13_usize).prop_map(|n| "1".repeat(n)),
        (995..1005_usize).prop_map(|n| format!("/{}", "p".repeat(n))),
        (9_998..10_003_usize).prop_map(|n| "🦀".repeat(n)),
        "[ -~]{0,12}",
        "[a-zA-Z0-9._/\\\\-]{0,12}",
        "\\PC{0,12}",
    ];
    prop_oneof![
        8 => text.prop_map(Value::from),
        1 => prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i32>().prop_map(Value::from)],
        1 => Just(json!(["general"])),
        1 => (48..53_usize).prop_map(|n| json!(vec!["word"; n])),
        1 => prop::collection::vec((198..203_usize).prop_map(|n| "é".repeat(n)), 0..3)
            .prop_map(Value::from),
        1 => Just(json!(["word", " ", 1])),
        1 => Just(json!({ "a": "b" })),
    ]
}

/// Arguments that mostly fit, so that single misfits show.
fn arguments() -> impl Strategy<Value = Map<String, Value>> {
    let good = json!({
        "project_root": "/project", "operation_description": "x", "section": "general",
        "index": "1", "text": "text",
        "docset": "react", "keywords": ["hooks"], "generalized_keywords": []
    });
    let names = [
        "project_root",
        "operation_description",
        "section",
        "index",
        "text",
        "if_version",
        "docset",
        "keywords",
        "generalized_keywords",
        "other",
    ];
    let change = (prop::sample::select(names.to_vec()), prop::option::of(value()));
    prop::collection::vec(change, 0..4).prop_map(move |changes| {
        let mut arguments = good.as_object().unwrap().clone();
        for (name, value) in changes {
            match value {
                Some(value) => arguments.insert(name.to_owned(), value),
                None => arguments.remove(name),
            };
        }
        arguments
    })
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // S1: P.1, P.2
    #[test]
    fn what_the_schema_refuses_the_tool_refuses_and_answers_fit_their_schema(all in arguments()) {
        let application = application();
        for spec in application.tools(&caller()) {
            let taken = spec.input_schema["properties"].as_object().unwrap();
            let mut arguments = all.clone();
            arguments.retain(|name, _| taken.contains_key(name) || name == "other");
            let input = jsonschema::validator_for(&Value::Object(spec.input_schema.clone())).unwrap();
            let fits = input.is_valid(&Value::Object(arguments.clone()));
            let call = Call {
                caller: caller(),
            observer: Arc::new(Unobserved),
                correlation_id: String::new(),
                name: spec.name.to_owned(),
                arguments: arguments.clone(),
            };
            match run(application.call(call)) {
                Ok(reply) => {
                    prop_assert!(fits, "{} took {:?}", spec.name, arguments);
                    let output = Value::Object(spec.output_schema.clone());
                    let judged = jsonschema::validate(&output, &reply.data);
                    prop_assert!(judged.is_ok(), "{}: {}", spec.name, reply.data);
                }
                Err(error) if !fits => {
                    prop_assert_eq!(error.kind, ErrorKind::InvalidArgument);
                    prop_assert!(error.field.is_some(), "{}", error);
                }
                Err(_) => {}
            }
        }
    }
}

// S1: P.2
#[test]
fn every_broken_constraint_is_named_at_once() {
    let arguments = json!({
        "section": "x".repeat(101), "index": "", "text": "y".repeat(10_001), "extra": 1, "if_version": null
    });
    let call = Call {
        caller: caller(),
        observer: Arc::new(Unobserved),
        correlation_id: String::new(),
        name: "reqlix_set_requirements".to_owned(),
        arguments: arguments.as_object().unwrap().clone(),
    };
    let error = run(application().call(call)).unwrap_err().message;
    for part in [
        "project_root: required, and missing",
        "operation_description: required, and missing",
        "section: at most 100 characters are allowed, this has 101",
        "index: 1 to 10 characters that are not all blank are required, this has 0",
        "text: at most 10000 characters are allowed, this has 10001",
        "extra: unknown argument",
        "if_version: ",
    ] {
        assert!(error.contains(part), "{part} is missing in: {error}");
    }
}

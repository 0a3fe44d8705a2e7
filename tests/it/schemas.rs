//! Tools take what their input schemas allow, and what is clearly meant, and return data that
//! matches their output schemas.

use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use proptest::prelude::*;
use reqlore_application::{Application, ApplicationPorts};
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{
    AnswerFormat, ApplicationService, NoProgress, ToolCall, ToolService, ToolSpec,
};
use reqlore_storage_memory::{MemoryIndex, NamedProjects, memory_store};
use serde_json::{Map, Value, json};

fn caller() -> Arc<Caller> {
    Arc::new(Caller::local("tester", Access::Write))
}

fn tool_call(tool: &str, arguments: Map<String, Value>) -> ToolCall {
    ToolCall {
        caller: caller(),
        idempotency_key: None,
        answer_format: AnswerFormat::Both,
        is_audited: false,
        progress_sink: Arc::new(NoProgress),
        client_name: None,
        correlation_id: String::new(),
        name: tool.to_owned(),
        arguments,
    }
}

/// One item of each kind, so that answers are not empty.
const SAMPLE_ITEMS: [(&str, &str); 5] = [
    ("epics/EP-001", "---\ntitle: Accounts\n---\n\nPeople have accounts.\n"),
    ("stories/US-001", "---\ntitle: Log in\nepic: EP-001\nassignee: bob\ntags: [a]\n---\n"),
    (
        "requirements/REQ-001",
        "---\ntitle: Lock\nuser_story: US-001\ndepends_on: [REQ-002]\n---\n\nSee AC-001.\n",
    ),
    ("requirements/REQ-002", "---\ntitle: Words\nuser_story: US-001\ntype: Data\n---\n"),
    ("criteria/AC-001", "---\nuser_story: US-001\n---\n\nGIVEN a lock\n"),
];

fn application() -> Application {
    let store = memory_store();
    block_on(crate::transcripts::commit_document(
        &store,
        ".ixchel/dec-000001.md",
        "---\ntitle: Lock\n---\n",
    ));
    let docsets = "docsets:\n  react: {version: 18.2}\n  vue:\n";
    block_on(crate::transcripts::commit_document(&store, ".knowledge/config.yaml", docsets));
    for (path, text) in SAMPLE_ITEMS {
        block_on(crate::transcripts::commit_document(
            &store,
            &format!(".reqlore/backlog/{path}.md"),
            text,
        ));
    }
    let store = Arc::new(store);
    Application::new(ApplicationPorts {
        documents: store.clone(),
        history: store,
        projects: Arc::new(NamedProjects::default()),
        ..crate::transcripts::memory_ports(Arc::new(MemoryIndex::default()))
    })
}

/// Valid and nearly valid values for backlog arguments.
const WORDS: &str = "EP-001|EP-2|US-1|US-001|REQ-001|REQ-002|AC-001|REQ-|us-1|US-1\n|US-\u{661}|\
    EP-99999999999999999999|US-0|Draft|Done|Active|In Progress|draft|Functional|Business Rule|\
    depends_on|blocks|requirement|knowledge|lock|accounts words";

/// Values of every type, also just below and above each limit.
fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("general".to_owned()),
        Just("1".to_owned()),
        Just("react".to_owned()),
        prop::sample::select(WORDS.split('|').collect::<Vec<_>>()).prop_map(str::to_owned),
        (498..503_usize).prop_map(|n| "t".repeat(n)),
        (49_998..50_003_usize).prop_map(|n| "d".repeat(n)),
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
        2 => (-1..102_i64).prop_map(Value::from),
        1 => Just(json!(["general"])),
        1 => Just(json!(["requirement", "section"])),
        1 => (48..53_usize).prop_map(|n| json!(vec!["word"; n])),
        1 => prop::collection::vec((198..203_usize).prop_map(|n| "é".repeat(n)), 0..3)
            .prop_map(Value::from),
        1 => Just(json!(["word", " ", 1])),
        1 => Just(json!({ "a": "b" })),
    ]
}

/// A valid value for each argument of any tool.
fn valid_arguments() -> Map<String, Value> {
    let arguments = json!({
        "project_root": "/project", "operation_description": "x", "section": "general",
        "index": "1", "text": "text",
        "docset": "react", "keywords": ["hooks"], "generalized_keywords": [],
        "title": "Title", "priority": 2, "description": "GIVEN x", "status": "Draft",
        "type": "Functional", "assignee": "bob", "tags": ["a"], "epic": "EP-001",
        "user_story": "US-1", "requirement": "REQ-001", "acceptance_criteria": "AC-001",
        "reference": "REQ-001", "source": "REQ-002", "target": "REQ-001", "query": "lock",
        "limit": 10, "id": "dec-000001", "entity_types": ["requirement", "epic"],
        "kind": "decision", "body": "text", "links": { "affects": ["EP-001"] },
        "changes": [{ "create": "epic", "title": "Title", "priority": 2 }], "dry_run": true,
        "path": "items.csv", "content": "title\nPay by card\n"
    });
    arguments.as_object().unwrap().clone()
}

/// Mostly valid arguments, so that a single violation decides the outcome.
fn mostly_valid_arguments() -> impl Strategy<Value = Map<String, Value>> {
    let mut names: Vec<String> = valid_arguments().keys().cloned().collect();
    names.extend(["if_version", "cascade", "cursor", "other"].map(str::to_owned));
    let change = (prop::sample::select(names), prop::option::of(any_value()));
    prop::collection::vec(change, 0..9).prop_map(|changes| {
        let mut arguments = valid_arguments();
        for (name, value) in changes {
            match value {
                Some(value) => arguments.insert(name, value),
                None => arguments.remove(&name),
            };
        }
        arguments
    })
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// A tool with validators of its arguments and answers.
struct ToolValidators {
    spec: ToolSpec,
    input: Validator,
    output: Validator,
}

static VALIDATORS: LazyLock<Vec<ToolValidators>> = LazyLock::new(|| {
    let compile = |schema: &Map<String, Value>| {
        jsonschema::validator_for(&Value::Object(schema.clone())).unwrap()
    };
    let validators = |spec: &ToolSpec| {
        // Not published, because some clients fail on it. A writing tool rejects other arguments.
        let mut closed = spec.input_schema.clone();
        if spec.name != "get_user_story_requirements" {
            closed.insert("additionalProperties".to_owned(), json!(false));
        }
        let (input, output) = (compile(&closed), compile(&spec.output_schema));
        ToolValidators { spec: spec.clone(), input, output }
    };
    application().tools(&caller()).into_iter().map(validators).collect()
});

/// Rewrites arguments that the server accepts although the strict schema does not: the whole list
/// of exceptions.
fn strict_arguments(spec: &ToolSpec, arguments: &Map<String, Value>) -> Value {
    let mut strict = Map::new();
    for (name, value) in arguments {
        match spec.input_schema["properties"].get(name) {
            // Null means "not given"; a reading tool ignores an unknown argument.
            Some(_) if value.is_null() => {}
            None if !spec.may_change => {}
            None => _ = strict.insert(name.clone(), value.clone()),
            Some(schema) => _ = strict.insert(name.clone(), strict_value(name, schema, value)),
        }
    }
    // The specification demands the exact reference of this tool.
    if spec.name == "get_user_story_requirements" {
        strict.clone_from(arguments);
    }
    Value::Object(strict)
}

fn strict_value(name: &str, schema: &Value, value: &Value) -> Value {
    let plain = |text: &str| text.to_lowercase().replace([' ', '-', '_'], "");
    let has_objects = schema["type"] == "object" || schema["items"]["type"] == "object";
    match (schema["type"].as_str().unwrap_or_default(), value) {
        // JSON text of a list or an object.
        ("array" | "object", Value::String(text))
            if serde_json::from_str::<Value>(text)
                .is_ok_and(|json| json.is_array() || (has_objects && json.is_object())) =>
        {
            strict_value(name, schema, &serde_json::from_str(text).unwrap())
        }
        // One value instead of a list of one; commas separate texts, except keywords.
        ("array", Value::String(text)) if !has_objects && !name.ends_with("keywords") => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            strict_value(name, schema, &parts.collect())
        }
        ("array", Value::Number(_) | Value::Object(_)) => {
            strict_value(name, schema, &json!([value]))
        }
        ("object", Value::Object(links)) if name == "links" => {
            let list = |ids: &Value| strict_value(name, &schema["additionalProperties"], ids);
            links.iter().map(|(relation, ids)| (relation.clone(), list(ids))).collect()
        }
        ("array", Value::Array(items)) => {
            items.iter().map(|item| strict_value("", &schema["items"], item)).collect()
        }
        ("string", Value::Number(number)) => strict_value(name, schema, &number.to_string().into()),
        ("integer", Value::String(text)) => {
            let priorities = ["critical", "high", "medium", "low"];
            let named = priorities.iter().position(|priority| *priority == plain(text));
            match named.map(|named| named + 1).or_else(|| text.trim().parse().ok()) {
                Some(number) => strict_value(name, schema, &json!(number)),
                None => value.clone(),
            }
        }
        ("integer", Value::Number(number)) if name == "limit" => {
            json!(number.as_f64().unwrap().min(schema["maximum"].as_f64().unwrap()))
        }
        ("string", Value::String(text)) => {
            if let Some(values) = schema["enum"].as_array() {
                let is_meant = |value: &&Value| plain(value.as_str().unwrap()) == plain(text);
                return values.iter().find(is_meant).unwrap_or(value).clone();
            }
            let pattern = schema["pattern"].as_str().unwrap_or_default();
            if name == "if_version" && text.trim().len() >= 8 {
                format!("{:0<16}", text.trim().to_lowercase()).into()
            } else if pattern.ends_with(r"-\d+$") {
                text.trim().to_uppercase().into()
            } else {
                value.clone()
            }
        }
        _ => value.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    // S1: P.1, P.2
    #[test]
    fn tools_take_what_schemas_allow_or_clearly_mean(all in mostly_valid_arguments()) {
        let application = application();
        for ToolValidators { spec, input, output } in VALIDATORS.iter() {
            let properties = spec.input_schema["properties"].as_object().unwrap();
            let mut arguments = all.clone();
            arguments.retain(|name, _| properties.contains_key(name) || name == "other");
            // `type` means the relationship type in these tools.
            if spec.name.ends_with("_relationship") && arguments.get("type") == Some(&json!("Functional"))
            {
                arguments.insert("type".to_owned(), json!("depends_on"));
            }
            let is_valid = input.is_valid(&strict_arguments(spec, &arguments));
            match block_on(application.call(tool_call(spec.name, arguments.clone()))) {
                Ok(answer) => {
                    prop_assert!(is_valid, "{} took {:?}", spec.name, arguments);
                    let validation = output.validate(&answer.data);
                    prop_assert!(validation.is_ok(), "{}: {}", spec.name, answer.data);
                }
                Err(error) if !is_valid => {
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
fn schemas_all_violations_are_named_in_one_error() {
    let arguments = json!({
        "section": "x".repeat(101), "index": "", "text": "y".repeat(10_001), "extra": 1, "if_version": "x"
    });
    let call = tool_call("reqlix_set_requirements", arguments.as_object().unwrap().clone());
    let error = block_on(application().call(call)).unwrap_err().message;
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

/// Without this test the property above could pass although a tool refuses all arguments.
#[test]
fn schemas_valid_arguments_are_accepted_by_every_tool() {
    let mut refused = Vec::new();
    let valid = valid_arguments();
    for spec in application().tools(&caller()) {
        let properties = spec.input_schema["properties"].as_object().unwrap();
        let mut arguments = valid.clone();
        arguments.retain(|name, _| properties.contains_key(name));
        if spec.name.ends_with("_relationship") {
            arguments.insert("type".to_owned(), json!("depends_on"));
        }
        // An entity has no priority.
        if spec.name == "list_items" {
            arguments.insert("kind".to_owned(), json!("requirement"));
        }
        if spec.name.ends_with("_acceptance_criteria") {
            arguments.insert("status".to_owned(), json!("Met"));
        }
        if spec.name == "get_context" {
            arguments.insert("task".to_owned(), json!("Pay"));
        }
        if spec.name == "set_record_schema" {
            arguments.insert("text".to_owned(), json!("[fields]"));
        }
        if let Err(error) = block_on(application().call(tool_call(spec.name, arguments))) {
            refused.push(format!("{}: {}", spec.name, error.message));
        }
    }
    // `id` is that of a decision. The other targets do not exist, other items refer to them, or nothing earlier is known.
    let names: Vec<&str> = refused.iter().filter_map(|refusal| refusal.split(':').next()).collect();
    let expected = [
        "claim_item",
        "delete_item",
        "delete_relationship",
        "reqlix_delete_requirements",
        "unclaim_item",
        "undo",
    ];
    assert_eq!(names, expected, "{refused:#?}");
}

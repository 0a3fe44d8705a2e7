//! Tests of the write guard: random reads and writes of several callers against a model, and cases.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Caller, TokenId};
use reqlore_domain::ports::service::{self, AnswerFormat, NoProgress, ToolCall, ToolService};
use serde_json::{Value, json};

use crate::test_support::TestApplication;
use crate::test_support::team::ManualClock;
use crate::{Application, ApplicationPorts, ApplicationSettings};

mod custom_fields;

/// A connection, or a token on a server.
#[derive(Clone)]
struct Client {
    application: Arc<Application>,
    token: Option<TokenId>,
    format: AnswerFormat,
}

impl Client {
    fn local(testing: &TestApplication) -> Self {
        let application = Arc::new(testing.application());
        Self { application, token: None, format: AnswerFormat::Text }
    }

    fn with_token(&self, letter: &str) -> Self {
        Self { token: TokenId::parse(&letter.repeat(12)), ..self.clone() }
    }

    async fn call(&self, tool: &str, mut arguments: Value) -> Result<service::RenderedAnswer> {
        if tool.starts_with("reqlix_") {
            arguments["project_root"] = json!("/project");
            arguments["operation_description"] = json!("a test");
        }
        let caller = TestApplication::new().caller();
        let call = ToolCall {
            caller: Arc::new(Caller { token: self.token.clone(), ..Caller::clone(&caller) }),
            client_name: None,
            correlation_id: "test".to_owned(),
            name: tool.to_owned(),
            arguments: arguments.as_object().unwrap().clone(),
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: self.format,
            is_audited: false,
        };
        self.application.call(call).await
    }

    async fn text(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.expect("the call succeeds").text
    }

    async fn refusal(&self, tool: &str, arguments: Value) -> Error {
        let error = self.call(tool, arguments).await.expect_err("the call is refused");
        assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
        assert_eq!(error.field.as_deref(), Some("if_version"));
        error
    }
}

const DECISION: &str = "---\nid: dec-000001\ntitle: t0\nstatus: proposed\n---\nt0\n";

/// A story, a decision and a rule, whose values are 0.
async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.data("create_epic", json!({ "title": "Epic", "priority": 1 })).await;
    let story = json!({ "epic": "EP-001", "title": "t0", "description": "t0", "priority": 2 });
    testing.data("create_user_story", story).await;
    testing.write_entity("decisions/dec-000001", DECISION).await;
    testing.write(DocumentId::section("general"), "**1.** t0\n\n**2.** Other.\n").await;
    testing
}

fn story(field: &str, value: &str) -> Value {
    json!({ "user_story": "US-001", field: value })
}

fn rule(text: &str) -> Value {
    json!({ "section": "general", "index": "1", "text": text })
}

const READ_STORY: &str = r#"{"reference":"US-001"}"#;

fn read_story() -> Value {
    serde_json::from_str(READ_STORY).unwrap()
}

/// The fields of the model: the tool that sets each, its argument, and the ID of its item.
const FIELDS: [(&str, &str, &str); 7] = [
    ("update_user_story", "title", "US-001"),
    ("update_user_story", "description", "US-001"),
    ("update_user_story", "status", "US-001"),
    ("ixchel_update", "title", "dec-000001"),
    ("ixchel_update", "body", "dec-000001"),
    ("reqlix_set_requirements", "text", "general:1"),
    ("ixchel_update", "links", "dec-000001"),
];
const STATUS: usize = 2;
const RULE: usize = 5;
const LINKS: usize = 6;
const TITLE: [usize; 2] = [0, 3];
/// The value of a rule that does not exist.
const DELETED: usize = 3;

/// The value as a refusal shows it. Long texts differ in their indentation alone.
fn value_text(field: usize, value: usize) -> String {
    match field {
        STATUS => ["Backlog", "Draft", "Done"][value].to_owned(),
        LINKS => ["(none)", "EP-001", "US-001"][value].to_owned(),
        0 | 3 => format!("t{value}"),
        _ => ["t0", "```\na\n```", "```\n  a\n```", "(none)"][value].to_owned(),
    }
}

fn write_call(field: usize, value: usize) -> (&'static str, Value) {
    let (tool, argument, id) = FIELDS[field];
    let arguments = match tool {
        "update_user_story" => story(argument, &value_text(field, value)),
        "ixchel_update" => json!({ "id": id, argument: value_of(field, value) }),
        _ if value == DELETED => {
            return ("reqlix_delete_requirements", json!({ "section": "general", "index": "1" }));
        }
        _ => rule(&value_text(field, value)),
    };
    (tool, arguments)
}

/// The value as an argument.
fn value_of(field: usize, value: usize) -> Value {
    let text = value_text(field, value);
    match field {
        LINKS if value == 0 => json!({ "depends_on": [] }),
        LINKS => json!({ "depends_on": [text] }),
        _ => json!(text),
    }
}

/// The fields of a read, and its call.
fn read_call(read: usize) -> (Vec<usize>, &'static str, Value) {
    let rules = json!({ "section": "general" });
    let titles = json!({ "kind": "user_story", "show": ["title"] });
    match read {
        0 => (vec![0, 1, 2], "get_item", read_story()),
        1 => (vec![1], "get_item", json!({ "reference": "US-001", "show": ["description"] })),
        2 => (vec![0, 2], "list_items", json!({ "kind": "user_story" })),
        3 => (vec![0], "list_items", titles),
        4 => (vec![0, 2], "epic_hierarchy", json!({ "epic": "EP-001" })),
        5 => (vec![3, 4, LINKS], "ixchel_show", json!({ "id": "dec-000001" })),
        6 => (vec![3], "list_items", json!({ "kind": "decision" })),
        7 => (vec![3, 4, LINKS], "ixchel_context", json!({ "id": "dec-000001" })),
        8 => (vec![5], "reqlix_get_requirements", rules),
        9 => (vec![5], "get_item", json!({ "reference": "general:1" })),
        10 => (vec![5], "get_item", json!({ "reference": "general" })),
        11 => (vec![LINKS], "get_item", json!({ "reference": "dec-000001", "show": ["links"] })),
        12 => (vec![0, 1, 2], "get_history", read_story()),
        13 => (vec![3, 4, LINKS], "get_history", json!({ "reference": "dec-000001" })),
        _ => (vec![3, 4, LINKS], "get_item", json!({ "reference": "dec-000001" })),
    }
}

#[derive(Debug, Clone)]
enum Step {
    Read {
        caller: usize,
        read: usize,
        both: bool,
    },
    Write {
        caller: usize,
        field: usize,
        value: usize,
        both: bool,
        in_batch: bool,
    },
    /// By a process that was shown nothing, like a user's editor.
    Edit {
        field: usize,
        value: usize,
    },
}

fn steps(callers: usize) -> impl Strategy<Value = Vec<Step>> {
    let (caller, field, value) = (0..callers, 0..FIELDS.len(), 0..=DELETED);
    let read = (caller.clone(), 0..15_usize, any::<bool>())
        .prop_map(|(caller, read, both)| Step::Read { caller, read, both });
    let write = (caller, field.clone(), value.clone(), any::<bool>(), any::<bool>()).prop_map(
        |(caller, field, value, both, in_batch)| Step::Write {
            caller,
            field,
            value,
            both,
            in_batch,
        },
    );
    let edit = (field, value).prop_map(|(field, value)| Step::Edit { field, value });
    prop::collection::vec(prop_oneof![4 => read, 5 => write, 2 => edit], 1..40)
}

/// The values that the model expects, and those that each caller was last shown.
#[derive(Default)]
struct Model {
    values: [usize; FIELDS.len()],
    shown: HashMap<(usize, usize), usize>,
}

impl Model {
    fn is_refused(&self, caller: usize, field: usize, value: usize) -> bool {
        let current = self.values[field];
        let shown = self.shown.get(&(caller, field));
        value != current && shown.is_some_and(|shown| *shown != current)
    }

    fn show(&mut self, caller: usize, fields: &[usize]) {
        for field in fields {
            self.shown.insert((caller, *field), self.values[*field]);
        }
    }
}

fn batch(field: usize, value: usize) -> Value {
    let (_, argument, id) = FIELDS[field];
    if value == DELETED {
        return json!({ "changes": [{ "delete": id }] });
    }
    json!({ "changes": [{ "update": id, argument: value_of(field, value) }] })
}

/// The arguments of a read; for `get_history` those that return the newest text.
async fn newest_version(testing: &TestApplication, tool: &str, mut arguments: Value) -> Value {
    if tool == "get_history" {
        let versions = testing.data(tool, arguments.clone()).await["versions"].take();
        arguments["version"] = versions[0]["version"].clone();
    }
    arguments
}

async fn play(callers: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let testing = project().await;
    let mut clients = vec![Client::local(&testing), Client::local(&testing)];
    let server = Client::local(&testing);
    clients.extend([server.with_token("a"), server.with_token("b")]);
    // Two connections, then two tokens of a server.
    clients.truncate(callers);
    let mut model = Model::default();
    for step in steps {
        match *step {
            Step::Read { caller, read, both } => {
                let (fields, tool, arguments) = read_call(read);
                let format = if both { AnswerFormat::Both } else { AnswerFormat::Text };
                let client = Client { format, ..clients[caller].clone() };
                let arguments = newest_version(&testing, tool, arguments).await;
                // A deleted rule is not found.
                if client.call(tool, arguments).await.is_ok() {
                    model.show(caller, &fields);
                }
            }
            Step::Edit { field, value } | Step::Write { field, value, .. }
                if value == DELETED && (field != RULE || model.values[RULE] == DELETED) => {}
            Step::Edit { field, value } => {
                let (tool, arguments) = write_call(field, value);
                testing.call(tool, arguments).await.unwrap();
                model.values[field] = value;
            }
            Step::Write { caller, field, value, both, in_batch } => {
                let format = if both { AnswerFormat::Both } else { AnswerFormat::Text };
                let client = Client { format, ..clients[caller].clone() };
                let in_batch = in_batch && model.values[field] != DELETED;
                let (tool, arguments) = if in_batch {
                    ("apply_changes", batch(field, value))
                } else {
                    write_call(field, value)
                };
                let refused = client.call(tool, arguments).await.err();
                prop_assert_eq!(refused.is_some(), model.is_refused(caller, field, value));
                if let Some(error) = refused {
                    prop_assert_eq!(error.kind, ErrorKind::Conflict);
                    let current = value_text(field, model.values[field]);
                    prop_assert!(error.message.contains(&current), "{}", error.message);
                    continue;
                }
                let is_kept = model.values[field] == value;
                model.values[field] = value;
                // The answer shows the rule.
                if !is_kept || field == RULE {
                    model.show(caller, &[field]);
                }
                // The answer of a single tool shows further fields of the item.
                if !in_batch && field <= STATUS {
                    let shown: &[usize] = if both { &[0, 1, 2] } else { &TITLE[..1] };
                    model.show(caller, shown);
                } else if !in_batch && both && tool == "ixchel_update" {
                    model.show(caller, &TITLE[1..]);
                }
            }
        }
    }
    let text = Client::local(&testing).text("get_item", read_story()).await;
    prop_assert!(text.contains(&format!("US-001: t{}", model.values[0])), "{text}");
    prop_assert!(text.contains(&value_text(1, model.values[1])), "{text}");
    Ok(())
}

fn play_model(callers: usize) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let rng = proptest::test_runner::TestRng::deterministic_rng(config.rng_algorithm);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let outcome = TestRunner::new_with_rng(config, rng)
        .run(&steps(callers), |steps| runtime.block_on(play(callers, &steps)));
    if let Err(error) = outcome {
        panic!("{error}");
    }
}

#[test]
fn two_callers_lose_no_text_and_are_refused_with_a_reason() {
    play_model(2);
}

#[test]
fn four_callers_lose_no_text_and_are_refused_with_a_reason() {
    play_model(4);
}

#[tokio::test]
async fn stale_write_is_refused_with_the_text_and_the_next_call() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    for client in [&ann, &bob] {
        client.text("get_item", read_story()).await;
    }
    ann.text("update_user_story", story("description", "Ann's text.")).await;
    let error = bob.refusal("update_user_story", story("description", "Bob's text.")).await;
    let version = error.message.split("if_version: ").nth(1).unwrap()[..8].to_owned();
    let expected = format!(
        "Conflict: description of US-001 changed since it was last shown to you (last change of the \
         document: {version} 1970-01-01T00:00:00Z tester, update_user_story: update US-001). Nothing was changed. \
         Merge both changes, then send the call again with if_version: {version}. \
         Current description:\nAnn's text."
    );
    assert_eq!(error.message, expected);
    // A refusal does not count as shown, so that a client that repeats calls loses nothing.
    bob.refusal("update_user_story", story("description", "Bob's text.")).await;
    // Another field is unchanged.
    bob.text("update_user_story", story("status", "Done")).await;
    let text = bob.text("get_item", read_story()).await;
    assert!(text.contains("Ann's text."), "{text}");
    bob.text("update_user_story", story("description", "Both texts.")).await;

    let error = ann.refusal("update_user_story", story("description", "Mine.")).await;
    let version = error.message.split("if_version: ").nth(1).unwrap()[..8].to_owned();
    let mut merged = story("description", "Merged.");
    merged["if_version"] = json!(version);
    ann.text("update_user_story", merged).await;
}

#[tokio::test]
async fn unseen_change_is_named_by_the_answer() {
    let testing = project().await;
    let server = Client::local(&testing);
    let [ann, bob] = ["a", "b"].map(|letter| server.with_token(letter));
    let text = ann.text("update_user_story", story("title", "New")).await;
    let note = "\n\nNote: replaced title of US-001, which was not shown to you; get_history \
                returns whose change that was";
    assert!(text.ends_with(note), "{text}");
    for arguments in [story("title", "Newer"), story("priority", "1")] {
        let text = ann.text("update_user_story", arguments).await;
        assert!(!text.contains("replaced"), "{text}");
    }
    let text = bob.text("update_user_story", story("title", "Bob's")).await;
    let note = "\n\nNote: replaced title of US-001, which tester changed at 1970-01-01T00:00:00Z \
                with update_user_story";
    assert!(text.ends_with(note), "{text}");
    let changes = json!({ "changes": [{ "update": "dec-000001", "title": "New" }] });
    let text = bob.text("apply_changes", changes).await;
    assert!(text.contains("Note: entry 1: replaced title of dec-000001, which was"), "{text}");
    bob.text("reqlix_set_requirements", rule("New.")).await;
    let text = ann.text("reqlix_set_requirements", rule("Newer.")).await;
    assert!(text.contains("with reqlix_set_requirements"), "{text}");
}

#[tokio::test]
async fn deletion_of_a_changed_item_is_refused() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    let delete_rule = json!({ "section": "general", "index": "1" });
    let deletions = [
        ("delete_item", json!({ "reference": "EP-001", "cascade": true })),
        ("delete_item", json!({ "reference": "dec-000001" })),
        ("reqlix_delete_requirements", delete_rule),
    ];
    ann.text("get_item", read_story()).await;
    ann.text("ixchel_show", json!({ "id": "dec-000001" })).await;
    ann.text("reqlix_get_requirements", json!({ "section": "general" })).await;
    for field in [1, 4, 5] {
        let (tool, arguments) = write_call(field, 1);
        bob.text(tool, arguments).await;
    }
    for (tool, arguments) in deletions {
        let error = ann.refusal(tool, arguments.clone()).await;
        assert!(
            error.message.contains("To delete it all the same, send the call again"),
            "{error}"
        );
        Client::local(&testing).text(tool, arguments).await;
    }
}

#[tokio::test]
async fn value_changed_back_is_no_reason() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    ann.text("get_item", read_story()).await;
    for title in ["Other", "t0"] {
        bob.text("update_user_story", story("title", title)).await;
    }
    ann.text("update_user_story", story("title", "Mine")).await;
}

#[tokio::test]
async fn cut_text_and_old_version_do_not_count_as_shown() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    ann.text("get_item", read_story()).await;
    let long = "A long sentence. ".repeat(900);
    bob.text("update_user_story", story("description", &long)).await;
    assert!(ann.text("get_item", read_story()).await.contains("the text is cut"));
    let versions = json!({ "reference": "US-001", "diff": "latest" });
    ann.call("get_history", versions).await.ok();
    ann.refusal("update_user_story", story("description", "Short.")).await;
    let whole = json!({ "reference": "US-001", "max_tokens": 9_000 });
    ann.text("get_item", whole).await;
    ann.text("update_user_story", story("description", "Short.")).await;
}

#[tokio::test]
async fn own_renumbering_is_no_change_of_others() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    let get = json!({ "section": "general" });
    ann.text("reqlix_get_requirements", get.clone()).await;
    let insert =
        |text: &str| json!({ "section": "general", "index": "new", "before": "1", "text": text });
    ann.text("reqlix_set_requirements", insert("First.")).await;
    let second = json!({ "section": "general", "index": "2", "text": "Changed." });
    ann.text("reqlix_set_requirements", second.clone()).await;
    bob.text("reqlix_set_requirements", insert("Before.")).await;
    // Now another rule has this index.
    ann.refusal("reqlix_set_requirements", second).await;
}

#[tokio::test]
async fn links_are_guarded_by_relation() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    let link = |relation: &str, ids: &[&str]| {
        let links = json!({ relation: ids });
        json!({ "id": "dec-000001", "links": links })
    };
    for client in [&ann, &bob] {
        client.text("get_item", json!({ "reference": "dec-000001" })).await;
    }
    ann.text("ixchel_update", link("depends_on", &["US-001"])).await;
    // Another relation is unchanged.
    bob.text("ixchel_update", link("implements", &["EP-001"])).await;
    let error = bob.refusal("ixchel_update", link("depends_on", &["EP-001"])).await;
    assert!(error.message.contains("Current links.depends_on:\nUS-001"), "{error}");
    // The answer showed that there are no tags.
    ann.text("ixchel_update", json!({ "id": "dec-000001", "tags": ["ann"] })).await;
    bob.refusal("ixchel_update", json!({ "id": "dec-000001", "tags": ["bob"] })).await;
    // The link that ann's own deletion removes is no change of others.
    ann.text("delete_item", json!({ "reference": "US-001", "cascade": true })).await;
    ann.text("ixchel_update", link("depends_on", &["EP-001"])).await;
}

#[tokio::test]
async fn search_hits_count_as_shown() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    let text = ann.text("search_global", json!({ "query": "t0" })).await;
    assert!(text.contains("US-001") && text.contains("Backlog"), "{text}");
    bob.text("update_user_story", story("status", "Draft")).await;
    ann.refusal("update_user_story", story("status", "Done")).await;
    ann.text("search_global", json!({ "query": "t0" })).await;
    ann.text("update_user_story", story("status", "Done")).await;
}

#[tokio::test]
async fn rule_of_a_deleted_section_is_written_after_a_read() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    let get = json!({ "section": "general" });
    ann.text("reqlix_get_requirements", get.clone()).await;
    for index in ["1", "2"] {
        let delete = json!({ "section": "general", "index": index });
        bob.text("reqlix_delete_requirements", delete).await;
    }
    let error = ann.refusal("reqlix_set_requirements", rule("New.")).await;
    let advice = "It was deleted. Read the section, then send the call again to add it. Current \
                  text:\n(none)";
    assert!(error.message.ends_with(advice), "{error}");
    ann.text("reqlix_get_requirements", get).await;
    ann.text("reqlix_set_requirements", rule("New.")).await;
    // A caller that was never shown the section writes, too.
    let other = Client::local(&testing);
    other.text("reqlix_delete_requirements", json!({ "section": "general", "index": "1" })).await;
    other.text("reqlix_set_requirements", rule("Again.")).await;
}

#[tokio::test]
async fn dry_run_reports_the_refusal_and_shows_nothing() {
    let testing = project().await;
    let [ann, bob] = [Client::local(&testing), Client::local(&testing)];
    ann.text("get_item", read_story()).await;
    bob.text("update_user_story", story("title", "Bob's")).await;
    let mut changes = batch(0, 2);
    changes["dry_run"] = json!(true);
    for _ in 0..2 {
        let error = ann.call("apply_changes", changes.clone()).await.unwrap_err();
        assert!(error.message.contains("title of US-001 changed since"), "{error}");
    }
    changes["changes"][0] = json!({ "update": "US-001", "status": "Done" });
    ann.text("apply_changes", changes).await;
    let text = ann.text("apply_changes", batch(STATUS, 1)).await;
    assert!(!text.contains("replaced"), "{text}");
}

#[tokio::test]
async fn token_forgets_after_an_hour_and_has_its_own_memory() {
    let testing = project().await;
    let clock = Arc::new(ManualClock::new());
    let ports = ApplicationPorts { clock: clock.clone(), ..testing.ports() };
    let server =
        Client { application: Arc::new(Application::new(ports)), ..Client::local(&testing) };
    let [ann, bob] = ["a", "b"].map(|letter| server.with_token(letter));
    ann.text("get_item", read_story()).await;
    bob.text("update_user_story", story("title", "Bob's")).await;
    clock.pass(3_600);
    ann.refusal("update_user_story", story("title", "Ann's")).await;
    clock.pass(1);
    let text = ann.text("update_user_story", story("title", "Ann's")).await;
    assert!(text.contains("Note: replaced title of US-001, which tester changed at "), "{text}");
    // Two agents with one token are one caller.
    server.with_token("a").text("update_user_story", story("title", "Hers")).await;
}

#[tokio::test]
async fn guard_that_is_off_refuses_nothing() {
    let testing = project().await;
    let settings = ApplicationSettings { write_guard: false, ..ApplicationSettings::default() };
    let ports = ApplicationPorts { settings, ..testing.ports() };
    let ann = Client { application: Arc::new(Application::new(ports)), ..Client::local(&testing) };
    ann.text("get_item", read_story()).await;
    Client::local(&testing).text("update_user_story", story("title", "Bob's")).await;
    let text = ann.text("update_user_story", story("title", "Ann's")).await;
    assert!(!text.contains("replaced"), "{text}");
}

#[tokio::test]
async fn resources_and_prompts_count_as_shown() {
    let testing = project().await;
    let bob = Client::local(&testing);
    for is_prompt in [true, false] {
        let ann = Client::local(&testing);
        let title = format!("Bob's {is_prompt}");
        read_without_tool(&ann, is_prompt).await;
        bob.text("update_user_story", story("title", &title)).await;
        ann.refusal("update_user_story", story("title", "Ann's")).await;
        read_without_tool(&ann, is_prompt).await;
        ann.text("update_user_story", story("title", "Ann's")).await;
        bob.text("get_item", read_story()).await;
    }
}

async fn read_without_tool(client: &Client, is_prompt: bool) {
    use reqlore_domain::ports::service::{ApplicationService, ResourceRequest};
    let arguments = if is_prompt { json!({ "epic": "EP-001" }) } else { json!({}) };
    let name = if is_prompt { "decompose_epic" } else { "user-story://US-001" };
    let request = ResourceRequest {
        caller: TestApplication::new().caller(),
        correlation_id: "test".to_owned(),
        name: name.to_owned(),
        arguments: arguments.as_object().cloned().unwrap(),
        is_poll: false,
        fills_placeholders: false,
    };
    if is_prompt {
        client.application.prompt(request).await.unwrap();
    } else {
        client.application.read(request).await.unwrap();
    }
}

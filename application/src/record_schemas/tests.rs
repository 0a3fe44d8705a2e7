//! The operations on the record schema, alone and in a team.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::{Access, Token, UserRole};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::service::{ApplicationService, ToolSchemas};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::record_schema::{KindSchema, RecordSchemaAnswer};
use serde_json::{Value, json};

use crate::test_support::TestApplication;
use crate::test_support::team::TestTeam;

const SCHEMA: &str = r#"[fields.risk]
kinds = ["requirement", "entity"]
type = "choice"
values = ["Low", "High"]
column = true
[statuses.user_story]
order = ["Backlog", "Review", "Done"]
[statuses.entity]
order = ["proposed", "Trial", "accepted"]
"#;

async fn schema_of(testing: &TestApplication) -> RecordSchemaAnswer {
    testing.call("get_record_schema", json!({})).await.unwrap().answer().unwrap()
}

fn kind<'a>(answer: &'a RecordSchemaAnswer, name: &str) -> &'a KindSchema {
    answer.kinds.iter().find(|kind| kind.kind == name).unwrap()
}

fn statuses(kind: &KindSchema) -> Vec<String> {
    kind.statuses.iter().map(|one| format!("{} {}", one.name, one.category)).collect()
}

fn set(text: &str) -> Value {
    json!({ "text": text })
}

#[tokio::test]
async fn project_without_a_schema_has_the_built_in_kinds() {
    let answer = schema_of(&TestApplication::new()).await;
    assert_eq!((answer.text.as_str(), answer.version.as_str(), answer.can_edit), ("", "", true));
    assert_eq!(answer.kinds.len(), 12);
    assert!(answer.kinds.iter().all(|kind| kind.fields.is_empty()));
    let requirement = kind(&answer, "requirement");
    assert_eq!(requirement.words, ["requirement", "requirements"]);
    assert_eq!(statuses(requirement), ["Draft open", "Active done", "Obsolete dropped"]);
    let criteria = kind(&answer, "acceptance_criteria");
    assert_eq!(statuses(criteria), ["Open open", "Met done"]);
    assert!(kind(&answer, "decision").statuses.is_empty());
    let reader = TestApplication { access: Access::Read, ..TestApplication::new() };
    assert!(!schema_of(&reader).await.can_edit);
}

#[tokio::test]
async fn fields_and_statuses_are_listed_by_kind_with_problems() {
    let testing = TestApplication::new();
    let text = format!("{SCHEMA}[fields.title]\nkinds = [\"epic\"]\ntype = \"text\"\n");
    testing.write(DocumentId::schema(), text.clone()).await;
    let answer = schema_of(&testing).await;
    assert_eq!(answer.text, text);
    assert_eq!(answer.version.len(), 16);
    let problem = &answer.diagnostics[0];
    assert_eq!((problem.line, answer.diagnostics.len()), (Some(10), 1));
    for name in ["requirement", "decision", "session"] {
        let field = &kind(&answer, name).fields[0];
        let shown = serde_json::to_value(field).unwrap();
        let expected = json!({
            "name": "risk", "label": "Risk", "type": "choice", "choices": ["Low", "High"],
            "is_required": false, "views": ["column"],
        });
        assert_eq!(shown, expected, "{name}");
    }
    assert!(kind(&answer, "epic").fields.is_empty());
    assert_eq!(
        statuses(kind(&answer, "user_story")),
        ["Backlog open", "Review active", "Done done"]
    );
    assert_eq!(statuses(kind(&answer, "idea")), ["proposed open", "Trial active", "accepted done"]);
    let shown = testing.text("get_record_schema", json!({})).await;
    assert!(shown.contains("\nline 10: ") && shown.ends_with(&text), "{shown}");
}

#[tokio::test]
async fn change_is_stored_at_the_expected_version_only() {
    let testing = TestApplication::new();
    let mut request = json!({ "text": SCHEMA, "if_version": "" });
    let stored = testing.data("set_record_schema", request.clone()).await;
    assert_eq!(testing.body(DocumentId::schema()).await.unwrap(), SCHEMA);
    assert_eq!(schema_of(&testing).await.version, stored["version"]);
    for (version, message) in [
        ("", "Conflict: .reqlore/project.toml exists at version "),
        ("0123456789abcdef", "Conflict: .reqlore/project.toml changed since version 0123456789"),
    ] {
        request["if_version"] = json!(version);
        let error = testing.error("set_record_schema", request.clone()).await;
        assert_eq!(error.kind, ErrorKind::Conflict);
        assert!(error.message.starts_with(message), "{error}");
    }
    request = json!({ "text": "", "if_version": stored["version"] });
    testing.data("set_record_schema", request.clone()).await;
    assert_eq!(testing.body(DocumentId::schema()).await.unwrap(), "");
    testing.remove(DocumentId::schema()).await;
    let error = testing.error("set_record_schema", request).await;
    assert!(error.message.contains("was deleted"), "{error}");
    let history = json!({ "reference": ".reqlore/project.toml" });
    let versions = testing.data("get_history", history).await["versions"].clone();
    assert_eq!(versions[2]["tool"], "set_record_schema", "{versions}");
}

#[tokio::test]
async fn text_with_an_invalid_entry_is_refused_with_its_line() {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), SCHEMA).await;
    for (text, line) in [
        ("[fields.risk]\nkinds = [\"epic\"]\ntype = \"colour\"", "text: line 1: field \"risk\""),
        ("[fields.risk\n", "text: line 1: invalid TOML"),
        ("\n[statuses.epic]\norder = [\"Done\"]", "text: line 2: statuses of epic: no status is"),
    ] {
        let error = testing.error("set_record_schema", set(text)).await;
        assert_eq!(
            (error.kind, error.field.as_deref()),
            (ErrorKind::InvalidArgument, Some("text"))
        );
        assert!(error.message.starts_with(line), "{error}");
        assert!(error.message.ends_with("Nothing was written."), "{error}");
    }
    assert_eq!(testing.body(DocumentId::schema()).await.unwrap(), SCHEMA);
}

#[tokio::test]
async fn removed_fields_and_statuses_that_are_in_use_are_named() {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), SCHEMA).await;
    for name in ["US-001", "US-002"] {
        testing.write_item(name, "---\ntitle: A\nstatus: Review\n---\n").await;
    }
    testing.write_entity("decisions/dec-1d2c8f", "---\ntitle: A\nstatus: trial\n---\n").await;
    let text = "[statuses.user_story]\norder = [\"Backlog\", \"Done\"]\n\
                [statuses.decision]\norder = [\"proposed\", \"accepted\"]\n";
    let answer = testing.data("set_record_schema", set(text)).await;
    let expected = [
        "The values of risk stay in the documents.",
        "2 user stories keep the status \"Review\", which is not in the order.",
        "1 decision keeps the status \"trial\", which is not in the order.",
    ];
    assert_eq!(answer["notes"], json!(expected));
    // The same text again changes nothing.
    let answer = testing.data("set_record_schema", set(text)).await;
    assert_eq!(answer.get("notes"), None, "{answer}");
}

#[tokio::test]
async fn only_administrators_of_a_team_change_the_schema() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::Administrator, Access::Write).await;
    team.join('u', "uli", UserRole::User, Access::Write).await;
    // A token of an administrator for one project.
    let projects = vec![ProjectKey::default()];
    let limited = Token { projects, ..team.token('l', "ada", Access::Write) };
    team.put(IdentityChange::Token(limited)).await;
    let [ada, uli, limited] =
        [team.login('a').await, team.login('u').await, team.login('l').await].map(Result::unwrap);
    for text in [SCHEMA, ""] {
        team.call(&ada, "set_record_schema", set(text), None).await.unwrap();
    }
    let restore = json!({ "reference": ".reqlore/project.toml" });
    let reader = team.token('r', "uli", Access::Read);
    team.put(IdentityChange::Token(reader)).await;
    let reader = team.login('r').await.unwrap();
    let names = Some(vec!["ada".to_owned(), "uli".to_owned()]);
    for (caller, users, expected) in
        [(&uli, true, names), (&uli, false, None), (&reader, true, None)]
    {
        let shown = team.call(caller, "get_record_schema", json!({ "users": users }), None).await;
        assert_eq!(shown.unwrap().answer::<RecordSchemaAnswer>().unwrap().users, expected);
    }
    for caller in [&uli, &limited] {
        let shown = team.call(caller, "get_record_schema", json!({}), None).await.unwrap();
        assert!(!shown.answer::<RecordSchemaAnswer>().unwrap().can_edit);
        for (tool, arguments) in [("set_record_schema", set(SCHEMA)), ("undo", restore.clone())] {
            let error = team.call(caller, tool, arguments, None).await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Forbidden, "{tool}");
            assert!(error.message.contains("only administrators"), "{error}");
        }
    }
    team.call(&ada, "undo", restore, Some("key")).await.unwrap();
    let shown = team.call(&uli, "get_record_schema", json!({}), None).await.unwrap();
    assert_eq!(shown.answer::<RecordSchemaAnswer>().unwrap().text, SCHEMA);
}

#[tokio::test]
async fn user_in_a_custom_field_must_exist_in_a_team() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::Administrator, Access::Write).await;
    let ada = team.login('a').await.unwrap();
    let schema = set("[fields.sponsor]\nkinds = [\"epic\"]\ntype = \"user\"\n");
    team.call(&ada, "set_record_schema", schema, None).await.unwrap();
    let epic =
        |sponsor: &str| json!({ "title": "A", "priority": 1, "fields": { "sponsor": sponsor } });
    let error = team.call(&ada, "create_epic", epic("bob"), None).await.unwrap_err();
    let expected = "fields.sponsor: \"bob\" is not a user of this server; use one of ada";
    assert!(error.message.starts_with(expected), "{error}");
    assert_eq!(error.field.as_deref(), Some("fields.sponsor"));
    let created = team.call(&ada, "create_epic", epic(" ADA"), None).await.unwrap();
    assert_eq!(created.answer::<Value>().unwrap()["fields"]["sponsor"], "ada");
}

#[tokio::test]
async fn operations_are_not_listed_as_tools() {
    let testing = TestApplication::new();
    let application = testing.application();
    for name in ["get_record_schema", "set_record_schema"] {
        let tools = application.tools(&testing.caller());
        let spec = tools.iter().find(|spec| spec.name == name).unwrap();
        assert!(!spec.is_listed, "{name}");
    }
}

async fn schemas_of(text: &str) -> ToolSchemas {
    let testing = TestApplication::new();
    testing.write(DocumentId::schema(), text.to_owned()).await;
    testing.application().tool_schemas(&testing.caller()).await.unwrap()
}

/// The bytes that the schemas add to the list of tools.
fn added_bytes(schemas: &ToolSchemas) -> usize {
    let testing = TestApplication::new();
    let (application, caller) = (testing.application(), testing.caller());
    let size = |schema: &_| serde_json::to_string(schema).unwrap().len();
    let specs = application.tools(&caller);
    let changed = specs.iter().filter_map(|spec| Some((*spec, schemas.get(spec.name)?)));
    changed.map(|(spec, schema)| size(schema).saturating_sub(size(&spec.input_schema))).sum()
}

#[tokio::test]
async fn schemas_of_tools_name_fields_values_and_statuses() {
    assert!(schemas_of("").await.is_empty());
    let text = format!(
        "{SCHEMA}[fields.effort]\nkinds = [\"requirement\"]\ntype = \"number\"\nrequired = true\n"
    );
    let schemas = schemas_of(&text).await;
    for (tool, expected) in [
        ("create_requirement", "risk: Low, High; effort (required): number"),
        ("update_requirement", "risk: Low, High; effort: number"),
        ("list_items", "risk: Low, High; effort: number"),
    ] {
        let fields = &schemas[tool]["properties"]["fields"];
        assert_eq!(fields, &json!({ "type": "object", "description": expected }), "{tool}");
    }
    let entries = &schemas["apply_changes"]["properties"]["changes"]["items"]["properties"];
    assert_eq!(entries["fields"]["description"], "risk: Low, High; effort: number");
    for tool in ["create_user_story", "update_user_story"] {
        let properties = &schemas[tool]["properties"];
        assert_eq!(properties["status"]["enum"], json!(["Backlog", "Review", "Done"]), "{tool}");
        assert_eq!(properties.get("fields"), None, "{tool}");
    }
    for tool in ["create_epic", "update_epic", "get_item", "search_global"] {
        assert!(!schemas.contains_key(tool), "{tool}");
    }
    assert!(added_bytes(&schemas) < 1_000);
}

#[tokio::test]
async fn many_fields_cost_no_more_than_few() {
    use std::fmt::Write;

    let kinds = r#"["epic", "user_story", "requirement", "acceptance_criteria", "entity"]"#;
    let mut text = String::new();
    for number in 0..40 {
        let choices: Vec<String> = (0..50).map(|value| format!("\"Größe {value}\"")).collect();
        let choices = choices.join(", ");
        write!(text, "[fields.a_field_with_a_long_name_{number}]\nkinds = {kinds}\n").unwrap();
        writeln!(text, "type = \"choice\"\nvalues = [{choices}]").unwrap();
        let schemas = schemas_of(&text).await;
        assert!(added_bytes(&schemas) < 1_100, "{number}: {}", added_bytes(&schemas));
        let shown = schemas["create_epic"]["properties"]["fields"]["description"].clone();
        assert!(shown.as_str().unwrap().starts_with("a_field_with_a_long_name_0"), "{shown}");
    }
    let names: Vec<String> =
        (0..18).map(|name| format!("\"A status of some length {name}\"")).collect();
    let order = names.join(", ");
    writeln!(text, "[statuses.epic]\norder = [\"Backlog\", {order}, \"Done\"]").unwrap();
    let schemas = schemas_of(&text).await;
    assert_eq!(schemas["create_epic"]["properties"]["status"], json!({ "type": "string" }));
    assert!(added_bytes(&schemas) < 1_100);
}

//! Tests of `apply_changes` on the memory store: answers, plans, errors, rules and warnings.

use std::sync::Arc;

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::{Access, Caller, UserRole};
use reqlore_domain::ports::identity::IdentityChange;
use reqlore_domain::ports::service::RenderedAnswer;
use reqlore_domain::project_key::ProjectKey;
use serde_json::{Value, json};

use crate::Application;
use crate::test_support::TestApplication;
use crate::test_support::team::TestTeam;

const TOOL: &str = "apply_changes";

/// An application that keeps its plans between calls.
struct Session {
    testing: TestApplication,
    application: Application,
}

impl Session {
    fn new() -> Self {
        let testing = TestApplication::new();
        let application = testing.application();
        Self { testing, application }
    }

    /// With EP-001, US-001, REQ-001 and REQ-002.
    async fn with_backlog() -> Self {
        let session = Self::new();
        let items = json!([
            { "create": "epic", "name": "e", "title": "Shop", "priority": 1 },
            { "create": "story", "name": "s", "epic": "$e", "title": "Buy", "priority": 1 },
            requirement("$s", "Pay"),
            requirement("$s", "Ship"),
        ]);
        session.apply(items).await;
        session
    }

    async fn call(&self, arguments: Value) -> Result<RenderedAnswer, Error> {
        self.testing.call_on(&self.application, TOOL, arguments).await
    }

    async fn apply(&self, changes: Value) -> RenderedAnswer {
        self.call(json!({ "changes": changes })).await.unwrap()
    }

    async fn dry_run(&self, changes: Value) -> RenderedAnswer {
        self.call(json!({ "changes": changes, "dry_run": true })).await.unwrap()
    }

    async fn error(&self, arguments: Value) -> Error {
        self.call(arguments).await.unwrap_err()
    }

    async fn section(&self, key: &str) -> Option<String> {
        self.testing.body(DocumentId::section(key)).await
    }
}

fn requirement(story: &str, title: &str) -> Value {
    json!({
        "create": "requirement", "user_story": story, "title": title, "priority": 2,
        "type": "Functional"
    })
}

/// Replaces versions by `#`.
fn without_versions(text: &str) -> String {
    let is_version =
        |word: &str| word.len() == 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut words = Vec::new();
        for word in line.split(' ') {
            let bare = word.trim_end_matches([',', ')']);
            words.push(if is_version(bare) { word.replace(bare, "#") } else { word.to_owned() });
        }
        lines.push(words.join(" "));
    }
    lines.join("\n")
}

#[tokio::test]
async fn answer_maps_names_and_entries_to_ids_without_titles() {
    let session = Session::with_backlog().await;
    let changes = json!([
        { "create": "story", "name": "again", "epic": "EP-001", "title": "T", "priority": 1 },
        requirement("$again", "A"),
        requirement("$again", "B"),
        { "update": "US-001", "priority": 2 },
        { "relate": { "source": "REQ-001", "target": "REQ-002", "type": "blocks" } },
        { "update": "EP-001", "title": "Shop" },
    ]);
    let answer = session.apply(changes).await;
    let text = "Applied 6 changes.\n\
                $again = US-002 #\n\
                2-3 create: REQ-003 #, REQ-004 #\n\
                4 update: US-001 #\n\
                5 relate: REQ-001 #\n\
                6 keep: EP-001 #";
    assert_eq!(without_versions(&answer.text), text);
    let first = &answer.data["results"][0];
    assert_eq!((&first["name"], &first["id"]), (&json!("again"), &json!("US-002")));
    assert!(answer.text.contains(&first["version"].as_str().unwrap()[..8]));
    let deletions =
        json!([{ "delete": "REQ-002", "cascade": true }, { "delete": "US-002", "cascade": true }]);
    let answer = session.apply(deletions).await;
    let text = "Applied 2 changes.\n\
                1-2 delete: REQ-002 # (unlinked: REQ-001), US-002 # (deleted: REQ-003, REQ-004)";
    assert_eq!(without_versions(&answer.text), text);
    assert_eq!(answer.data["results"][1]["deleted"], json!(["REQ-003", "REQ-004"]));
    assert_eq!(answer.data["results"][0]["unlinked"], json!(["REQ-001"]));
}

#[tokio::test]
async fn dry_run_lists_planned_changes_and_returns_a_plan() {
    let session = Session::with_backlog().await;
    let changes = json!([
        requirement("US-001", "A"),
        requirement("US-001", "B"),
        { "update": "EP-001", "title": "New" },
        { "delete": "REQ-001" },
        { "create": "rule", "section": "checkout", "text": "One." },
    ]);
    let answer = session.dry_run(changes).await;
    let plan = answer.data["plan"].as_str().unwrap();
    let text = format!(
        "Dry run: 5 changes can be applied; nothing was written.\nplan: {plan}\n\
         create 2 requirement\nupdate 1 epic: EP-001\ndelete 1 requirement: REQ-001\n\
         create 1 rule"
    );
    assert_eq!(answer.text, text);
    assert_eq!(
        answer.data["results"][1],
        json!({ "entry": 2, "action": "create", "kind": "requirement" })
    );
    assert_eq!(session.section("checkout").await, None);
    let applied = session.call(json!({ "plan": plan })).await.unwrap();
    let text = "Applied 5 changes.\n1-2 create: REQ-003 #, REQ-004 #\n3 update: EP-001 #\n\
                4 delete: REQ-001 #\n5 create: checkout:1 #";
    assert_eq!(without_versions(&applied.text), text);
    let again = session.error(json!({ "plan": plan })).await;
    assert_eq!((again.kind, again.field.as_deref()), (ErrorKind::NotFound, Some("plan")));
    assert!(again.message.ends_with("send the changes"), "{again}");
}

#[tokio::test]
async fn plan_is_refused_if_a_read_document_changed() {
    let session = Session::with_backlog().await;
    let section = json!([{ "create": "rule", "section": "a", "text": "One." }]);
    session.apply(section).await;
    for (changes, other, changed) in [
        (
            json!([{ "update": "EP-001", "title": "Mine" }]),
            json!([{ "update": "EP-001", "title": "Theirs" }]),
            "changed since the dry run: EP-001",
        ),
        (
            json!([requirement("US-001", "A")]),
            json!([{ "update": "US-001", "title": "Other" }]),
            "changed since the dry run: US-001",
        ),
        (
            json!([{ "delete": "US-001", "cascade": true }]),
            json!([requirement("US-001", "Late")]),
            "changed since the dry run: REQ-003",
        ),
        (
            json!([{ "create": "rule", "section": "a", "text": "Two." }]),
            json!([{ "create": "rule", "section": "b", "text": "Other." }]),
            "changed since the dry run: AGENTS.md, the list of sections",
        ),
        (
            json!([{ "update": "REQ-002", "title": "Gone" }]),
            json!([{ "delete": "REQ-002" }]),
            "plan: changed since the dry run: REQ-002",
        ),
    ] {
        let plan = session.dry_run(changes).await.data["plan"].clone();
        session.apply(other).await;
        let error = session.error(json!({ "plan": plan })).await;
        assert!(error.message.contains(changed), "{error}");
        let gone = session.error(json!({ "plan": plan })).await;
        assert_eq!(gone.kind, ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn plan_survives_changes_of_other_documents() {
    let session = Session::with_backlog().await;
    let plan = session.dry_run(json!([requirement("US-001", "A")])).await.data["plan"].clone();
    session.apply(json!([requirement("US-001", "B"), { "update": "EP-001", "title": "x" }])).await;
    let answer = session.call(json!({ "plan": plan })).await.unwrap();
    assert_eq!(answer.data["results"][0]["id"], "REQ-004");
}

#[tokio::test]
async fn errors_of_all_stages_are_reported_at_once() {
    let session = Session::with_backlog().await;
    let error = session
        .error(json!({ "changes": [
            { "create": "epic", "title": "E", "priority": "urgent" },
            { "update": "REQ-999", "title": "x" },
            { "update": "nowhere:1", "text": "x" },
            { "create": "epic", "title": "Valid", "priority": 1 },
        ] }))
        .await;
    assert!(error.message.starts_with("3 entries have errors; nothing was written."), "{error}");
    for problem in ["Entry 1 (create epic \"E\"): ", "REQ-999", "nowhere"] {
        assert!(error.message.contains(problem), "{problem}: {error}");
    }
}

#[tokio::test]
async fn plan_belongs_to_one_caller_and_expires() {
    let team = TestTeam::new();
    team.join('a', "ada", UserRole::User, Access::Write).await;
    team.put(IdentityChange::Token(team.token('b', "ada", Access::Write))).await;
    let (owner, other) = (team.login('a').await.unwrap(), team.login('b').await.unwrap());
    let elsewhere = Arc::new(Caller { project: ProjectKey::new("web"), ..(*owner).clone() });
    let changes = json!([{ "create": "epic", "title": "A", "priority": 1 }]);
    let dry_run = json!({ "changes": changes, "dry_run": true });
    let plan = async || {
        let rendered = team.call(&owner, TOOL, dry_run.clone(), None).await.unwrap();
        json!({ "plan": rendered.data["plan"] })
    };
    let plans = [plan().await, plan().await];
    for caller in [&other, &elsewhere] {
        let error = team.call(caller, TOOL, plans[0].clone(), None).await.unwrap_err();
        assert!(error.message.contains("is unknown, expired or already applied"), "{error}");
    }
    team.pass(599);
    team.call(&owner, TOOL, plans[0].clone(), Some("key")).await.unwrap();
    let repeated = team.call(&owner, TOOL, plans[0].clone(), Some("key")).await.unwrap();
    assert_eq!(repeated.data["results"][0]["id"], "EP-001", "a retry gets the first answer");
    team.pass(1);
    let error = team.call(&owner, TOOL, plans[1].clone(), None).await.unwrap_err();
    assert!(error.message.contains("expired or already applied"), "{error}");
}

#[tokio::test]
async fn changes_or_plan_is_required_exactly_once() {
    let session = Session::new();
    let changes = json!([{ "create": "epic", "title": "A", "priority": 1 }]);
    for (arguments, field, message) in [
        (json!({}), "changes", "send changes or a plan"),
        (json!({ "changes": changes, "plan": "p1" }), "plan", "not both"),
        (json!({ "plan": "p1", "dry_run": true }), "dry_run", "omit dry_run"),
        (json!({ "plan": "p1" }), "plan", "\"p1\" is unknown, expired or already applied"),
        (json!({ "changes": [] }), "changes", "it has 0 entries; send 1 to 100"),
    ] {
        let error = session.error(arguments).await;
        assert_eq!(error.field.as_deref(), Some(field), "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

#[tokio::test]
async fn errors_of_all_entries_are_in_one_answer() {
    let session = Session::with_backlog().await;
    let changes = json!([
        { "create": "epic", "name": "e", "title": "Guest checkout", "priority": 9 },
        { "create": "story", "name": "s", "epic": "$e", "title": "Fine", "priority": 1 },
        { "create": "requirement", "user_story": "$s", "title": "No type", "priority": 1 },
        { "update": "REQ-099", "title": "Missing" },
        { "create": "wish", "name": "w" },
        { "create": "decision", "title": "x", "links": { "affects": ["$w"] } },
        { "create": "rule", "section": "a/b", "text": "x" },
    ]);
    let error = session.error(json!({ "changes": changes })).await;
    assert_eq!(error.field.as_deref(), Some("changes[0].priority"));
    let lines: Vec<&str> = error.message.lines().collect();
    let starts = [
        "5 entries have errors; nothing was written.",
        "Entry 1 (create epic \"Guest checkout\"): Invalid arguments. priority: 9 is not one of",
        "Entry 3 (create requirement \"No type\"): Invalid arguments. type: required, and missing",
        "Entry 4 (update REQ-099): Requirement not found: REQ-099",
        "Entry 5 (create wish): create: \"wish\" is not one of epic",
        "Entry 7 (create rule): Invalid arguments. section: \"a/b\" is not a section key",
    ];
    assert_eq!(lines.len(), starts.len(), "{error}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{line}");
    }
}

#[tokio::test]
async fn errors_of_decisions_are_in_one_answer() {
    let session = Session::with_backlog().await;
    let changes = json!([
        { "update": "REQ-001", "title": "x", "if_version": "00000000" },
        { "relate": { "source": "REQ-001", "target": "REQ-002", "type": "blocks" } },
        { "update": "REQ-002", "title": "x", "if_version": "11111111" },
        { "update": "checkout:1", "text": "x" },
    ]);
    let error = session.error(json!({ "changes": changes })).await;
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (ErrorKind::Conflict, Some("changes[0].if_version"))
    );
    for part in [
        "3 entries have errors",
        "Entry 1 (update REQ-001): Conflict: REQ-001 changed",
        "\nEntry 3 (update REQ-002): Conflict: REQ-002 changed",
        "\nEntry 4 (update checkout:1): section \"checkout\" does not exist",
    ] {
        assert!(error.message.contains(part), "{part}: {error}");
    }
}

#[tokio::test]
async fn many_errors_are_counted() {
    let session = Session::new();
    let changes = vec![json!({ "create": "epic", "title": "x" }); 30];
    let error = session.error(json!({ "changes": changes })).await;
    assert!(error.message.starts_with("30 entries have errors"), "{error}");
    assert!(error.message.ends_with("\nand 10 more"), "{error}");
    assert_eq!(error.message.matches("Entry ").count(), 20);
}

#[tokio::test]
async fn name_without_dollar_is_explained() {
    let session = Session::with_backlog().await;
    let epic = json!({ "create": "epic", "name": "e1", "title": "A", "priority": 1 });
    let story = json!({ "create": "story", "epic": "e1", "title": "B", "priority": 1 });
    let decision = json!({ "create": "decision", "title": "C", "links": { "affects": ["e1"] } });
    let sentence = "\"e1\" is the name of entry 1; send \"$e1\"";
    for entry in [&story, &decision] {
        let error = session.error(json!({ "changes": [epic, entry] })).await;
        assert!(error.message.contains(sentence), "{error}");
    }
    let error = session.error(json!({ "changes": [story, epic] })).await;
    assert!(error.message.contains("entry 2, which comes later; move it up"), "{error}");
    let update = json!({ "update": "e1", "title": "D" });
    let error = session.error(json!({ "changes": [epic, update] })).await;
    assert!(error.message.contains("e1 is created by this call"), "{error}");
}

#[tokio::test]
async fn kinds_and_texts_are_accepted_in_other_words() {
    let session = Session::new();
    let changes = json!([
        { "create": "Epic", "name": "$e", "title": "A", "priority": 1, "body": "Long." },
        { "create": "User Story", "name": "s", "epic": "$e", "title": "B", "priority": 1 },
        { "create": "acceptance_criterion", "user_story": "$s", "body": "GIVEN" },
        { "create": "decisions", "title": "C", "description": "Because." },
        { "create": "rules", "section": "a", "description": "Do." },
        "{\"relate\": \"x\"}",
    ]);
    let error = session.error(json!({ "changes": changes })).await;
    assert_eq!(error.message, "Entry 6: relate: send an object with source, target and type");
    let mut changes = changes.as_array().unwrap().clone();
    changes.pop();
    let answer = session.apply(json!(changes)).await;
    let kinds: Vec<_> =
        answer.data["results"].as_array().unwrap().iter().map(|one| &one["kind"]).collect();
    assert_eq!(kinds, ["epic", "user_story", "acceptance_criteria", "decision", "rule"]);
    let read = json!({ "reference": "EP-001" });
    assert_eq!(session.testing.data("get_item", read).await["item"]["description"], "Long.");
}

#[tokio::test]
async fn rules_are_changed_in_the_commit_of_items() {
    let session = Session::new();
    session
        .testing
        .write(
            DocumentId::section("general"),
            "# Mine\n\n**1.** One.\n\n**2.** Two.\n\n**3.** Three.\n",
        )
        .await;
    let changes = json!([
        { "create": "epic", "title": "A", "priority": 1 },
        { "delete": "general:1" },
        { "create": "rule", "name": "r", "section": "general", "text": "Four." },
        { "update": "section:general:3", "text": "Drei." },
        { "create": "rule", "section": "checkout", "text": "**1.** First." },
        { "create": "rule", "section": "checkout", "text": "Second." },
        { "create": "rule", "section": "checkout", "text": "Named.", "index": "R.7" },
        { "update": "general:2", "text": "Two." },
    ]);
    let answer = session.apply(changes).await;
    let text = "Applied 8 changes.\n1 create: EP-001 #\n2 delete: general:1 #\n$r = general:4\n\
                4 update: general:3\n\
                5-7 create: checkout:1 #, checkout:2, checkout:R.7\n8 keep: general:2\n\n\
                Note: entry 4: replaced text of general:3, which was not shown to you; \
                get_history returns whose change that was";
    assert_eq!(without_versions(&answer.text), text);
    let general = "# Mine\n\n**2.** Two.\n\n**3.** Drei.\n\n**4.** Four.\n";
    assert_eq!(session.section("general").await.as_deref(), Some(general));
    let checkout = "**1.** First.\n\n**2.** Second.\n\n**R.7.** Named.\n";
    assert_eq!(session.section("checkout").await.as_deref(), Some(checkout));
    let agents = session.testing.body(DocumentId::instructions()).await.unwrap();
    assert!(
        agents.contains("- Checkout (key: checkout)\n- General requirements (key: general)\n"),
        "{agents}"
    );
    let deletions = json!([
        { "delete": "checkout:1" }, { "delete": "checkout:2" }, { "delete": "checkout:R.7" }
    ]);
    let answer = session.apply(deletions).await;
    assert_eq!(answer.text, "Applied 3 changes.\n1-3 delete: checkout:1, checkout:2, checkout:R.7");
    assert_eq!(session.section("checkout").await, None);
    let agents = session.testing.body(DocumentId::instructions()).await.unwrap();
    assert!(!agents.contains("key: checkout"), "{agents}");
}

#[tokio::test]
async fn rules_are_named_as_numbered_before_the_call() {
    let session = Session::new();
    let body = "**1.** a\n\n**3.** b\n\n**2.** c\n\n**2.** d\n\n**7.** e\n";
    session.testing.write(DocumentId::section("g"), body).await;
    let changes = json!([
        { "update": "g:1", "text": "A" },
        { "update": "g:2", "text": "C" },
        { "delete": "g:7" },
        { "create": "rule", "section": "g", "text": "new" },
    ]);
    let answer = session.apply(changes).await;
    let text = "Applied 4 changes.\n1-2 update: g:1 #, g:4\n3 delete: g:7\n4 create: g:6\n\n\
                Note: entry 1: replaced text of g:1, which was not shown to you; get_history \
                returns whose change that was\nNote: entry 2: replaced text of g:2, which was not \
                shown to you; get_history returns whose change that was\n\
                Note: Rules were renumbered to keep the order: g:2 is now g:4, g:2 is now g:5.";
    assert_eq!(without_versions(&answer.text), text);
    let moves = json!([{ "from": "g:2", "to": "g:4" }, { "from": "g:2", "to": "g:5" }]);
    assert_eq!(answer.data["renumbered"], moves);
    let body = "**1.** A\n\n**3.** b\n\n**4.** C\n\n**5.** d\n\n**6.** new\n";
    assert_eq!(session.section("g").await.as_deref(), Some(body));
}

#[tokio::test]
async fn rules_have_the_checks_of_the_single_tools() {
    let session = Session::new();
    session.testing.write(DocumentId::section("g"), "**1.** a\n\n**2.** b\n").await;
    let long = format!("Глагол {}", "ж".repeat(200));
    let rule =
        |section: &str, text: &str| json!({ "create": "rule", "section": section, "text": text });
    let answer = session.dry_run(json!([rule("g", &long)])).await;
    assert!(answer.text.contains("Note: entry 1: R.2: line 2"), "{}", answer.text);
    for (changes, message) in [
        (json!([rule("G", "x")]), "\"G\" differs only in case from the section \"g\""),
        (json!([rule("имя", "x")]), "its key is invalid"),
        (json!([rule("n", "x"), rule("N", "x")]), "differs only in case from the section \"n\""),
        (json!([rule("g", "")]), "text: 1 to 10000 characters"),
        (json!([{ "create": "rule", "section": "g" }]), "text: required, and missing"),
        (
            json!([{ "create": "rule", "section": "g", "text": "x", "index": "2" }]),
            "g:2 exists; send update",
        ),
        (
            json!([{ "update": "g:9", "text": "x" }]),
            "g: rule \"9\" does not exist; the indices are: 1, 2",
        ),
        (
            json!([{ "delete": "g:1" }, { "update": "g:1", "text": "x" }]),
            "already changed by entry 1",
        ),
        (json!([{ "delete": "g:1", "if_version": "00000000" }]), "Conflict: section g changed"),
        (
            json!([{ "update": "g:1", "section": "g", "text": "x" }]),
            "update already sets it; remove section",
        ),
        (json!([{ "update": "g:1", "title": "x" }]), "title: unknown argument"),
        (
            json!([
                { "create": "rule", "name": "r", "section": "g", "text": "x" },
                { "create": "decision", "title": "D", "links": { "affects": ["$r"] } },
            ]),
            "$r is a rule created by this call",
        ),
    ] {
        let error = session.error(json!({ "changes": changes })).await;
        assert!(error.message.contains(message), "{message}: {error}");
        assert_eq!(session.section("g").await.as_deref(), Some("**1.** a\n\n**2.** b\n"));
    }
}

#[tokio::test]
async fn likely_mistakes_are_noted() {
    let session = Session::with_backlog().await;
    let changes = json!([
        { "create": "requirement", "user_story": "US-001", "title": "pay", "priority": 1, "type": "Data" },
        { "create": "decision", "name": "d", "title": "Files", "status": "Accepted",
          "links": { "superseeds": ["EP-001"] } },
        { "update": "US-001", "status": "Done" },
        { "update": "REQ-002", "status": "Active" },
    ]);
    for dry_run in [true, false] {
        let arguments = json!({ "changes": changes, "dry_run": dry_run });
        let answer = session.call(arguments).await.unwrap();
        let notes = "\n\nNote: entry 1: REQ-001 has the same title\n\
                     Note: entry 2: status: \"Accepted\" is stored as \"accepted\"\n\
                     Note: entry 2: links: \"superseeds\" is unknown; did you mean supersedes?\n\
                     Note: entry 3: US-001 is Done, but 2 requirements are Draft";
        assert!(answer.text.ends_with(notes), "{}", answer.text);
        assert_eq!(answer.data["notes"].as_array().unwrap().len(), 4);
    }
    let single = json!({ "user_story": "US-001", "status": "Done" });
    let text = session.testing.text("update_user_story", single).await;
    assert!(text.ends_with("\n\nNote: US-001 is Done, but 2 requirements are Draft"), "{text}");
    let single = json!({ "kind": "decision", "title": "x", "status": "In Progress" });
    let text = session.testing.text("ixchel_create", single).await;
    assert!(text.ends_with("Note: status: \"In Progress\" is stored as \"in_progress\""), "{text}");
}

#[tokio::test]
async fn plan_in_another_project_equals_the_call() {
    let changes = json!([
        { "create": "epic", "name": "e", "title": "A", "priority": 1 },
        { "create": "story", "epic": "$e", "title": "B", "priority": 1 },
        { "create": "rule", "section": "a", "text": "One." },
        { "create": "rule", "section": "a", "text": "Two." },
    ]);
    let mut sections = Vec::new();
    let mut answers = Vec::new();
    for is_planned in [false, true] {
        let mut testing = TestApplication::new();
        testing.project = ProjectKey::new("web");
        let application = testing.application();
        let session = Session { testing, application };
        let arguments = if is_planned {
            json!({ "plan": session.dry_run(changes.clone()).await.data["plan"] })
        } else {
            json!({ "changes": changes })
        };
        let answer = session.call(arguments).await.unwrap();
        sections.push(session.section("a").await);
        answers.push(without_versions(&answer.text));
    }
    assert_eq!(sections[0].as_deref(), Some("**1.** One.\n\n**2.** Two.\n"));
    assert_eq!((&sections[0], &answers[0]), (&sections[1], &answers[1]));
    let text = "Applied 4 changes. Project: web.\n$e = EP-001 #\n2-4 create: US-001 #, a:1 #, a:2";
    assert_eq!(answers[0], text);
}

#[tokio::test]
async fn extra_keys_are_written_and_read_as_texts() {
    let session = Session::with_backlog().await;
    let long = "x".repeat(2_000);
    let changes = json!([
        { "update": "REQ-001", "extra": { "imported_from": "csv:a.csv#1 00", "team": "a: b" } },
        { "create": "decision", "title": "Cards", "extra": { "origin": "REQ 1", "long": long } },
    ]);
    session.apply(changes).await;
    let list = async |kind: &str| {
        let arguments = json!({ "kind": kind, "show": ["extra", "links", "description"] });
        session.testing.call_on(&session.application, "list_items", arguments).await.unwrap()
    };
    let listed = list("requirement").await;
    let item = &listed.data["items"][0];
    assert_eq!(item["extra"], json!({ "imported_from": "csv:a.csv#1 00", "team": "a: b" }));
    assert!(listed.text.contains("team: a: b"), "{}", listed.text);
    let listed = list("decision").await;
    let entity = &listed.data["items"][0];
    assert_eq!(entity["extra"], json!({ "origin": "REQ 1", "long": long }));
    assert_eq!(entity["links"], Value::Null);
    session.apply(json!([{ "update": "REQ-001", "extra": { "team": "" } }])).await;
    let listed = list("requirement").await;
    assert_eq!(listed.data["items"][0]["extra"], json!({ "imported_from": "csv:a.csv#1 00" }));
    for (extra, expected) in [
        (json!({ "status": "x" }), "extra.status: is the name of a field or link"),
        (json!({ "depends_on": "REQ-002" }), "extra.depends_on: is the name of a field or link"),
        (json!({ "Team": "x" }), "extra.Team: is not a key"),
        (json!({ "team": "y".repeat(2_001) }), "at most 2000 characters"),
        (json!({ "imported_from": "y".repeat(501) }), "at most 500 characters"),
        (json!({ "team": "\u{1b}" }), "control character"),
        (json!({ "team": 1 }), "extra.team: send text"),
    ] {
        let changes = json!({ "changes": [{ "update": "REQ-001", "extra": extra }] });
        let error = session.error(changes).await;
        assert!(error.message.contains(expected), "{expected}: {}", error.message);
    }
    let many: serde_json::Map<_, _> =
        (0..41).map(|number| (format!("k{number}"), json!("x"))).collect();
    let error = session.error(json!({ "changes": [{ "update": "REQ-001", "extra": many }] })).await;
    assert!(error.message.contains("at most 40 keys"), "{}", error.message);
}

#[tokio::test]
async fn imported_reference_is_kept_if_it_was_never_issued() {
    let session = Session::with_backlog().await;
    let epic =
        |id: &str| json!({ "create": "epic", "title": "x", "priority": 3, "imported_id": id });
    let changes = json!([epic("EP-001"), epic("EP-012"), epic("EP-007"), epic("EP-999999999")]);
    let answer = session.apply(changes).await;
    let ids: Vec<_> =
        answer.data["results"].as_array().unwrap().iter().map(|one| one["id"].clone()).collect();
    assert_eq!(ids, ["EP-002", "EP-012", "EP-013", "EP-014"]);
}

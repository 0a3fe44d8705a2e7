//! Tests of the tools on the memory store.

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::identity::Access;
use reqlore_domain::ports::change_page::Revision;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition};
use reqlore_domain::ports::documents::{
    CommitResult, MetadataPage, MockDocumentRepository, Snapshot, StoreError,
};
use reqlore_domain::ports::record_list::RecordPage;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::search::DocumentProjection;
use serde_json::{Value, json};

use crate::test_support::TestApplication;

mod delete_entity;
mod superseding;
mod write_entity;

const STORAGE: &str = "---\nid: dec-1d2c8f\ntype: decision\ntitle: Files first\nstatus: accepted\n\
                       tags: [storage]\nsupersedes: dec-aaaaaa\nimplements: [iss-bbbbbb, REQ-048]\n\
                       ---\n\n# Files first\n\nMarkdown in git is the storage backend.\n";
const ISSUE: &str = "---\nid: iss-bbbbbb\ntitle: Pick a backend\nlabels: [storage, urgent]\n---\n\
                     We need one.\n";

async fn project() -> TestApplication {
    let testing = TestApplication::new();
    testing.write_entity("decisions/dec-1d2c8f", STORAGE).await;
    testing.write_entity("issues/iss-bbbbbb", ISSUE).await;
    testing.write_entity("ideas/old/free", "# Free\n\ntext\n").await;
    testing
}

// S4: AC-002.2
#[tokio::test]
async fn search_with_sections_finds_requirements() {
    let testing = project().await;
    let section = "# General\n\n**1.** Every backend keeps bytes.\n";
    testing.write(DocumentId::section("general"), section).await;
    let query = json!({ "query": "bytes", "sections": true });
    let found = testing.data("ixchel_search", query).await;
    assert_eq!(found["hits"][0]["id"], "general:1");
    let found = testing.data("ixchel_search", json!({ "query": "bytes" })).await;
    assert_eq!(found["total"], 0);
}

// S4: AC-002.3
#[tokio::test]
async fn duplicate_entity_id_error_names_the_files() {
    let testing = project().await;
    testing.write_entity("ideas/twin", "---\nid: dec-1d2c8f\n---\n").await;
    let error = testing.error("ixchel_graph", json!({ "id": "dec-1d2c8f" })).await;
    assert!(error.message.contains("decisions/dec-1d2c8f, ideas/twin"), "{}", error.message);
    let shown = testing.data("ixchel_show", json!({ "id": "ideas/twin" })).await;
    assert_eq!(shown["id"], "dec-1d2c8f");
}

// S4: AC-002.5
#[tokio::test]
async fn limited_context_has_all_lines_before_the_bodies() {
    let testing = project().await;
    let body = "A sentence of the decision. ".repeat(200);
    let text = format!("{STORAGE}{body}\n");
    testing.write_entity("decisions/dec-1d2c8f", text).await;
    let reason = "A sentence of the issue. ".repeat(200);
    testing.write_entity("issues/iss-bbbbbb", format!("{ISSUE}{reason}\n")).await;
    testing.write_item("REQ-048", "---\ntitle: Keep bytes\n---\nAll of them.\n").await;
    for tokens in [1_000, 2_000] {
        let arguments = json!({ "id": "dec-1d2c8f", "max_tokens": tokens });
        let answer = testing.call("ixchel_context", arguments).await.unwrap();
        let (text, data) = (&answer.text, &answer.data);
        assert!(text.len() <= tokens * 4 && data.to_string().len() <= tokens * 4, "{text}");
        let own = "=== dec-1d2c8f (decision, accepted): Files first [storage]\n# Files first\n";
        assert!(text.starts_with(own), "{text}");
        for line in [
            "=== implements iss-bbbbbb (issue): Pick a backend [storage, urgent]\n",
            "=== implements REQ-048 (requirement, Draft): Keep bytes\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let all = body.len() + "# Files first\n\nMarkdown in git is the storage backend.\n".len();
        let cut = data["cut"].to_string();
        let is_own_cut = cut.contains("dec-1d2c8f: the first ");
        assert_eq!(
            (data["truncated"].as_bool(), is_own_cut),
            (Some(true), tokens == 1_000),
            "{cut}"
        );
        assert!(all > 4_000 && cut.contains("pass max_tokens: "), "{cut}");
        assert!(
            text.contains("ixchel_show returns each") || text.contains("iss-bbbbbb: the first ")
        );
        for note in data["cut"].as_array().unwrap() {
            assert!(text.contains(note.as_str().unwrap()), "{note}\n{text}");
        }
    }
    let whole = testing.call("ixchel_context", json!({ "id": "dec-1d2c8f" })).await.unwrap();
    assert_eq!(whole.data["truncated"], false);
    assert!(whole.text.ends_with("Keep bytes\nAll of them."), "{}", whole.text);
    let arguments = json!({ "id": "dec-1d2c8f", "show": "title" });
    let titles = testing.call("ixchel_context", arguments).await.unwrap();
    let lines = "=== dec-1d2c8f: Files first\n=== implements iss-bbbbbb: Pick a backend\n\
                 === implements REQ-048: Keep bytes";
    assert_eq!(titles.text, lines);
    assert_eq!(
        titles.data["items"][1],
        json!({ "id": "iss-bbbbbb", "title": "Pick a backend", "relation": "implements" })
    );
}

/// The project and an old decision that `dec-1d2c8f` supersedes, still accepted.
async fn project_with_successor() -> TestApplication {
    let testing = project().await;
    let old = "---\nid: dec-aaaaaa\ntitle: Database first\nstatus: accepted\n---\n\
               The storage backend is a database. Storage backend. Storage backend.\n";
    testing.write_entity("decisions/dec-aaaaaa", old).await;
    let draft = "---\nid: dec-cccccc\ntitle: Next\nstatus: proposed\n\
                 supersedes: dec-1d2c8f\n---\nStorage backend.\n";
    testing.write_entity("decisions/dec-cccccc", draft).await;
    testing
}

// S4: AC-002.2
#[tokio::test]
async fn search_lists_superseded_decisions_last_with_their_successor() {
    let testing = project_with_successor().await;
    let found = testing.call("ixchel_search", json!({ "query": "storage backend" })).await.unwrap();
    let ids: Vec<&str> = found.data["hits"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hit| hit["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.last(), Some(&"dec-aaaaaa"), "{}", found.text);
    let last = found.data["hits"].as_array().unwrap().last().unwrap();
    assert_eq!(last["superseded_by"], "dec-1d2c8f");
    let line = "dec-aaaaaa (decision, accepted, superseded by dec-1d2c8f): Database first; The ";
    assert!(found.text.contains(line), "{}", found.text);
    let line = "dec-1d2c8f (decision, accepted): Files first [storage]; ";
    assert!(found.text.contains(line), "a proposal supersedes nothing: {}", found.text);
    let by_id = testing.data("ixchel_search", json!({ "query": "dec-aaaaaa storage" })).await;
    let hits = by_id["hits"].as_array().unwrap();
    let (old, new) = (position(hits, "dec-aaaaaa"), position(hits, "dec-1d2c8f"));
    assert!(old < new, "the query names it: {by_id}");
}

fn position(hits: &[Value], id: &str) -> Option<usize> {
    hits.iter().position(|hit| hit["id"] == id)
}

// S4: AC-002.2
#[tokio::test]
async fn search_pages_by_offset_return_all_hits_under_a_limit() {
    let testing = TestApplication::new();
    for number in 0..30 {
        // Every third decision is listed last in its page.
        let status = if number % 3 == 0 { "obsolete" } else { "accepted" };
        let text = format!(
            "---\nid: dec-{number:06}\ntitle: Number {number}\nstatus: {status}\n---\nQuokka.\n"
        );
        testing.write_entity(&format!("decisions/dec-{number:06}"), text).await;
    }
    testing.call("ixchel_sync", json!({})).await.unwrap();
    let (mut ids, mut offset) = (Vec::new(), Some(0));
    while let Some(start) = offset {
        let arguments =
            json!({ "query": "quokka", "limit": 20, "offset": start, "max_tokens": 400 });
        let answer = testing.call("ixchel_search", arguments).await.unwrap();
        assert!(answer.text.len() <= 1_600);
        for hit in answer.data["hits"].as_array().unwrap() {
            ids.push(hit["id"].as_str().unwrap().to_owned());
        }
        offset = answer.data["next_offset"].as_u64();
        let next = offset.map(|offset| format!("Next page: offset {offset}"));
        assert_eq!(answer.text.contains("Next page: "), next.is_some());
        assert!(next.is_none_or(|next| answer.text.contains(&next)), "{}", answer.text);
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 30);
    let arguments = json!({ "query": "quokka", "limit": 1, "offset": 1, "show": ["title"] });
    let answer = testing.call("ixchel_search", arguments).await.unwrap();
    let hit = &answer.data["hits"][0];
    let (id, title) = (hit["id"].as_str().unwrap(), hit["title"].as_str().unwrap());
    assert_eq!(hit.as_object().unwrap().len(), 2, "{hit}");
    let text = format!("30 hits, showing 2 to 2\n{id}: {title}\nNext page: offset 2");
    assert_eq!(answer.text, text);
    let error = testing.error("ixchel_search", json!({ "query": "x", "show": ["titel"] })).await;
    assert!(error.message.contains("use some of kind, title, status"), "{}", error.message);
}

// S4: AC-002.3
#[tokio::test]
async fn show_returns_the_file_as_it_is_with_notes() {
    let testing = project_with_successor().await;
    let shown = testing.call("ixchel_show", json!({ "id": "dec-aaaaaa" })).await.unwrap();
    let (raw, data) = (shown.data["raw"].as_str().unwrap(), &shown.data);
    let version = &data["version"].as_str().unwrap()[..8];
    let notes = format!(
        "\n\nNote: dec-aaaaaa (decision, accepted, superseded by dec-1d2c8f), version {version}, \
         .ixchel/decisions/dec-aaaaaa.md\nNote: superseded by dec-1d2c8f (decision, accepted): \
         Files first [storage]"
    );
    assert_eq!(shown.text, format!("{raw}{notes}"));
    assert_eq!(data["superseded_by"], "dec-1d2c8f");
    let incoming = json!({
        "relation": "supersedes", "id": "dec-1d2c8f", "kind": "decision", "title": "Files first",
        "status": "accepted", "tags": ["storage"]
    });
    assert_eq!(data["links"]["incoming"], json!([incoming]));
    let body = "A sentence. ".repeat(100);
    testing.write_entity("ideas/long", format!("---\nrelated: dec-aaaaaa\n---\n{body}")).await;
    let arguments = json!({ "id": "ideas/long", "max_tokens": 200 });
    let cut = testing.call("ixchel_show", arguments).await.unwrap();
    assert!(cut.text.len() <= 800 && cut.data.to_string().len() <= 800, "{}", cut.text);
    let raw = cut.data["raw"].as_str().unwrap();
    assert!(raw.ends_with("A sentence.") && cut.text.starts_with(raw), "{}", cut.text);
    let left_out = [
        format!("raw: the first {} of 1228 characters", raw.len()),
        "links: the first 0 of 1; ixchel_graph returns all".to_owned(),
        "pass max_tokens: 546 for all".to_owned(),
    ];
    assert_eq!((&cut.data["truncated"], &cut.data["cut"]), (&json!(true), &json!(left_out)));
    assert!(cut.text.ends_with(&format!("Note: cut: {}", left_out.join("; "))), "{}", cut.text);
}

// S4: AC-002.4
#[tokio::test]
async fn graph_shows_the_type_of_a_link_as_its_attribute() {
    let testing = TestApplication::new();
    let text = "---\nid: bd-3bb36d\ntitle: Later\nstatus: open\ndepends_on:\n\
                - id: bd-6af4f1\n  type: blocks\n---\nText.\n";
    testing.write_entity("issues/bd-3bb36d", text).await;
    let text = "---\nid: bd-6af4f1\ntitle: First\nlabels: [ui]\n---\nText.\n";
    testing.write_entity("issues/bd-6af4f1", text).await;
    let later = testing.call("ixchel_graph", json!({ "id": "bd-3bb36d" })).await.unwrap();
    assert_eq!(
        later.text,
        "bd-3bb36d (issue, open): Later\n- depends on bd-6af4f1 (blocks; issue): First [ui]"
    );
    let target = json!({
        "id": "bd-6af4f1", "kind": "issue", "title": "First", "tags": ["ui"], "type": "blocks"
    });
    assert_eq!(later.data["outgoing"], json!([{ "rel": "depends_on", "targets": [target] }]));
    let first = testing.call("ixchel_graph", json!({ "id": "bd-6af4f1" })).await.unwrap();
    assert_eq!(
        first.text,
        "bd-6af4f1 (issue): First [ui]\n- blocks bd-3bb36d (issue, open): Later"
    );
    let arguments = json!({ "id": "bd-6af4f1", "show": ["status"] });
    let short = testing.call("ixchel_graph", arguments).await.unwrap();
    let source = json!({ "id": "bd-3bb36d", "status": "open", "type": "blocks" });
    assert_eq!(short.data["incoming"][0]["sources"], json!([source]));
}

// S4: AC-002.1
#[tokio::test]
async fn sync_text_counts_changes_and_lists_warnings() {
    let testing = project().await;
    testing.write_entity("issues/iss-cccccc", "---\nid: [\n---\n").await;
    let answer = testing.call("ixchel_sync", json!({})).await.unwrap();
    let warning = answer.data["warnings"][0].as_str().unwrap();
    let counts = "Scanned 4: added 4, modified 0, deleted 0, unchanged 0";
    assert_eq!(answer.text, format!("{counts}\n- {warning}"));
}

#[tokio::test]
async fn check_reports_an_accepted_entity_with_a_successor() {
    let testing = project_with_successor().await;
    let shown = testing.check().await;
    let finding = ".ixchel/decisions/dec-aaaaaa.md:4: the status is accepted, but dec-1d2c8f \
                   supersedes it; set the status to superseded";
    assert!(shown.iter().any(|line| line == finding), "{shown:#?}");
    assert!(!shown.iter().any(|line| line.contains("dec-cccccc")), "{shown:#?}");
}

#[tokio::test]
async fn check_reports_entity_problems_with_file_and_line() {
    let testing = project().await;
    testing.write_entity("ideas/twin", "---\nid: iss-bbbbbb\n---\n").await;
    testing.write_entity("issues/iss-cccccc", "---\nid: [\n---\n").await;
    testing.write_entity("notes/other", "---\nid: iss-dddddd\n---\n").await;
    let shown = testing.check().await;
    for part in [
        ".ixchel/decisions/dec-1d2c8f.md:7: supersedes leads to dec-aaaaaa, which does not exist",
        ".ixchel/decisions/dec-1d2c8f.md:8: implements leads to iss-bbbbbb, which ideas/twin and",
        ".ixchel/ideas/twin.md:2: the id iss-bbbbbb is also used by .ixchel/issues/iss-bbbbbb.md",
        ".ixchel/issues/iss-bbbbbb.md:2: the id iss-bbbbbb is also used by .ixchel/ideas/twin.md",
        ".ixchel/notes/other.md:2: the id is iss-dddddd, but the file is other.md",
        ".ixchel/issues/iss-cccccc.md:2: invalid front matter",
    ] {
        assert!(shown.iter().any(|line| line.starts_with(part)), "{part}\n{shown:#?}");
    }
    assert_eq!(shown.len(), 6, "REQ-048 is not an entity; {shown:#?}");
}

#[tokio::test]
async fn sync_after_index_loss_indexes_documents_again() {
    let testing = TestApplication::new();
    testing.write_entity("a", "# An apple\n").await;
    let application = testing.application();
    testing.call_on(&application, "ixchel_sync", json!({})).await.unwrap();
    let gone = DocumentProjection::without_items(DocumentId::entity("a"), None);
    testing.search.apply_projections(&ProjectKey::default(), vec![gone], None).await.unwrap();
    testing.call_on(&application, "ixchel_sync", json!({})).await.unwrap();
    let found = testing.call_on(&application, "ixchel_search", json!({ "query": "apple" })).await;
    assert_eq!(found.unwrap().data["total"], 1);
}

/// A database whose workspace root has these files.
async fn with_files(files: &[(&str, &str)]) -> TestApplication {
    let editor = TestApplication::new();
    for (name, text) in files {
        editor.write(DocumentId::entity(*name), (*text).to_owned()).await;
    }
    TestApplication { tree: Some(editor.store), ..TestApplication::new() }
}

#[tokio::test]
async fn sync_from_root_without_entities_deletes_nothing() {
    let testing = with_files(&[]).await;
    testing.write_entity("kept", "x\n").await;
    testing.call("ixchel_sync", json!({})).await.unwrap();
    assert_eq!(testing.body(DocumentId::entity("kept")).await.as_deref(), Some("x\n"));
}

#[tokio::test]
async fn sync_into_a_database_requires_write_access() {
    let testing = with_files(&[("a", "x\n")]).await;
    let reader = TestApplication { access: Access::Read, ..testing };
    let error = reader.call("ixchel_sync", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Forbidden, "{error}");
    assert_eq!(reader.body(DocumentId::entity("a")).await, None);
}

// S4 AC-002: one bad file never fails a call.
#[tokio::test]
async fn sync_reports_rejected_files_and_imports_the_rest() {
    let editor = with_files(&[("bad", "x\n"), ("good", "y\n")]).await;
    let mut store = MockDocumentRepository::new();
    let mut committed = Vec::new();
    store.expect_find().returning(|_, filter| Ok(MetadataPage::select(Vec::new(), filter)));
    store.expect_list().returning(|_, _| Ok(RecordPage::default()));
    store.expect_lookup().returning(|_, _, words| Ok(vec![Vec::new(); words.len()]));
    let reset = ChangePage::Reset { position: ChangePosition::default() };
    store.expect_changes_since().returning(move |_, _, _, _| Ok(reset.clone()));
    store.expect_commit().returning(move |project, mut commit| {
        let changes = commit.decide(project, &Snapshot::default()).unwrap().changes;
        if changes.iter().any(|change| change.id().name == "bad") {
            let (subject, reason) = ("bad".to_owned(), "is refused".to_owned());
            return Err(StoreError::Refused { subject, reason });
        }
        committed.extend(changes.iter().map(|change| change.id().name.clone()));
        assert_eq!(committed, ["good"]);
        Ok(CommitResult { revision: Revision(2), versions: vec![None] })
    });
    let testing = TestApplication { tree: editor.tree, ..TestApplication::on(store) };
    let synced = testing.call("ixchel_sync", json!({})).await.unwrap().data;
    assert_eq!(
        synced["warnings"],
        json!(["bad: is refused; the file was not imported"]),
        "{synced}"
    );
    assert_eq!(synced["scanned"], 1, "the rejected file is counted: {synced}");
}

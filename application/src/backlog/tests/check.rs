//! `reqlore check` on a backlog.

use super::*;

#[tokio::test]
async fn check_of_items_without_parents_finds_nothing() {
    let testing = TestApplication::new();
    for name in ["EP-001", "US-001", "REQ-001"] {
        testing.write_item(name, "---\ntitle: By hand\n---\nSee REQ-999.\n").await;
    }
    testing.write_item("AC-001", "It works.\n").await;
    assert_eq!(testing.check().await, [""; 0]);
}

#[tokio::test]
async fn check_reports_broken_links_and_duplicates_with_lines() {
    let testing = TestApplication::new();
    let text = "---\ntitle: One, not REQ-9\nuser_story: US-5\ndepends_on:\n- REQ-2\n\
                - REQ-009\nblocks: [REQ-1, REQ-3]\npriority: 7\n---\n";
    testing.write_item("REQ-001", text).await;
    testing.write_item("REQ-002-aaaaaa", "---\ntitle: A\nuid: u\n---\n").await;
    testing.write_item("REQ-002-bbbbbb", "---\ntitle: B\nuid: u\n---\n").await;
    let readme = DocumentId { name: "README".to_owned(), ..item_id("REQ-001") };
    testing.write(readme, "---\ntitle: No item\n---\n").await;
    testing.write_item("REQ-004", &b"\xff\xfe"[..]).await;
    testing.write_item("REQ-005", "---\ntitle: Back\n---\n").await;
    for name in ["REQ-003", "REQ-005"] {
        let text = "---\ntitle: Gone\ndeleted_at: 2026-01-31T23:59:59Z\nuser_story: US-9\n\
                    ---\n";
        testing.write_tombstone(name, text).await;
    }
    let shown = testing.check().await;
    let folder = ".reqlore/backlog/requirements";
    for part in [
        format!("{folder}/REQ-001.md:3: user_story leads to US-005, which does not exist"),
        format!("{folder}/REQ-001.md:6: depends_on leads to REQ-009, which does not exist"),
        format!("{folder}/REQ-001.md:7: blocks leads to REQ-001, which is the item itself"),
        format!("{folder}/REQ-001.md:7: blocks leads to REQ-003, which was deleted"),
        format!("{folder}/REQ-001.md:8: priority \"7\" is not"),
        format!(
            "{folder}/REQ-002-aaaaaa.md:: reference REQ-002 is also used by {folder}/REQ-002-bbbbbb.md"
        ),
        format!(
            "{folder}/REQ-002-bbbbbb.md:: reference REQ-002 is also used by {folder}/REQ-002-aaaaaa.md"
        ),
        format!("{folder}/REQ-002-aaaaaa.md:: uid is also used by {folder}/REQ-002-bbbbbb.md"),
        format!("{folder}/REQ-002-bbbbbb.md:: uid is also used by {folder}/REQ-002-aaaaaa.md"),
        format!("{folder}/README.md:: the file name contains no reference"),
        format!("{folder}/REQ-004.md:: line 1 is not UTF-8 text"),
        format!("{folder}/REQ-005.md:: REQ-005 was deleted according to .reqlore/backlog/deleted/"),
    ] {
        assert!(shown.iter().any(|line| line.starts_with(&part)), "{part}\n{shown:#?}");
    }
    assert_eq!(shown.len(), 12, "{shown:#?}");
}

#[tokio::test]
async fn check_of_entity_links_needs_a_backlog() {
    let testing = TestApplication::new();
    let text = "---\nid: dec-1d2c8f\nimplements: [REQ-48, REQ-049]\n---\n";
    testing.write_entity("dec-1d2c8f", text).await;
    assert_eq!(testing.check().await, [""; 0], "the project has no backlog");
    testing.write_item("REQ-048", "---\ntitle: A\n---\n").await;
    let expected = ".ixchel/dec-1d2c8f.md:3: implements leads to REQ-049, which does not exist; \
                    correct or remove the link";
    assert_eq!(testing.check().await, [expected]);
}

#[tokio::test]
async fn check_of_an_argument_name_suggests_the_file_key() {
    let testing = TestApplication::new();
    let text = "---\ntitle: T\ntype: Data\nowner: ann\n---\n";
    testing.write_item("REQ-001", text).await;
    let expected = ".reqlore/backlog/requirements/REQ-001.md:3: type has no effect here; rename it \
                    to type_name";
    assert_eq!(testing.check().await, [expected]);
}

#[tokio::test]
async fn check_reports_items_dated_over_a_day_ahead() {
    // The clock of the tests stands at 1970-01-01T00:00:00Z.
    let testing = TestApplication::new();
    let text = "---\ntitle: Near\ncreated_at: 1970-01-02T00:00:00Z\n---\n";
    testing.write_item("EP-001", text).await;
    let text = "---\ntitle: Far\n\"created_at\": 2099-01-01\nupdated_at: 1970-01-02T00:00:01Z\n\
                ---\n";
    testing.write_item("EP-002", text).await;
    let ahead = |line: usize, key: &str, time: &str| {
        format!(
            ".reqlore/backlog/epics/EP-002.md:{line}: {key}: {time} is more than a day ahead; \
             correct it, because lists sort by time"
        )
    };
    let expected = [
        ahead(3, "created_at", "2099-01-01T00:00:00Z"),
        ahead(4, "updated_at", "1970-01-02T00:00:01Z"),
    ];
    assert_eq!(testing.check().await, expected);
    let listed = testing.data("list_epics", json!({})).await;
    assert_eq!(listed["epics"][1]["reference_id"], "EP-002", "the order of lists stays");
}

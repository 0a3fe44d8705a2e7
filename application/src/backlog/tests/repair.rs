//! `reqlore check --fix` on a backlog that two branches changed.

use reqlore_domain::identity::Caller;

use super::*;
use crate::backlog::repair::RepairReport;

async fn fix(testing: &TestApplication) -> RepairReport {
    let caller = Caller::local("t", Access::Write);
    crate::check::repair_references(&testing.ports(), caller).await.unwrap()
}

#[tokio::test]
async fn fix_of_duplicates_renumbers_the_younger_with_its_links() {
    let testing = story().await;
    assert_eq!(fix(&testing).await, RepairReport::default());
    let created = |day: u8| format!("created_at: 2026-01-0{day}\n");
    testing.write_item("US-007-bbbbbb", format!("---\ntitle: Younger\n{}---\n", created(2))).await;
    testing.write_item("US-007-aaaaaa", format!("---\ntitle: Older\n{}---\n", created(1))).await;
    let child = |mark: &str| {
        format!(
            "---\ntitle: C\nuser_story: US-007\nlinked: {{US-007: {mark}}}\n{}---\n",
            created(3)
        )
    };
    testing.write_item("REQ-001-cccccc", child("bbbbbb")).await;
    testing.write_item("REQ-002-dddddd", child("aaaaaa")).await;
    testing.write_item("REQ-003", "---\ntitle: D\nuser_story: US-7\n---\n").await;
    let renumbered = fix(&testing).await.renumbered;
    assert_eq!(renumbered.len(), 1);
    assert_eq!((renumbered[0].from.as_str(), renumbered[0].to.as_str()), ("US-007", "US-008"));
    assert_eq!(renumbered[0].relinked, [".reqlore/backlog/requirements/REQ-001-cccccc.md"]);
    for (story, title, requirements) in
        [("US-007", "Older", vec!["REQ-002", "REQ-003"]), ("US-008", "Younger", vec!["REQ-001"])]
    {
        let answer = testing.call("get_item", json!({ "reference": story })).await.unwrap();
        assert_eq!(answer.data["item"]["title"], title);
        let children = answer.data["children"].as_array().unwrap();
        let mut references: Vec<&str> =
            children.iter().map(|child| child["reference_id"].as_str().unwrap()).collect();
        references.sort_unstable();
        assert_eq!(references, requirements);
    }
    assert_eq!(fix(&testing).await, RepairReport::default(), "a second run changes nothing");
}

#[tokio::test]
async fn fix_with_one_failed_repair_continues() {
    let testing = TestApplication::new();
    for name in ["US-001-aaaaaa", "US-001-bbbbbb", "US-002-aaaaaa", "US-002-bbbbbb"] {
        testing.write_item(name, "---\ntitle: S\n---\n").await;
    }
    let anchor = "---\ntitle: T\nuser_story: &s US-001\nlinked: {US-001: bbbbbb}\nalso: *s\n---\n";
    testing.write_item("REQ-001", anchor).await;
    let RepairReport { renumbered, refused, .. } = fix(&testing).await;
    let renumbered: Vec<_> =
        renumbered.iter().map(|repair| (&*repair.document, &*repair.to)).collect();
    assert_eq!(renumbered, [(".reqlore/backlog/stories/US-002-bbbbbb.md", "US-003")]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].document, ".reqlore/backlog/stories/US-001-bbbbbb.md");
    for expected_part in ["US-001 was not renumbered", "requirements/REQ-001.md", "by hand"] {
        assert!(refused[0].message.contains(expected_part), "{refused:?}");
    }
}

#[tokio::test]
async fn fix_takes_the_age_from_the_file_contents() {
    let testing = TestApplication::new();
    let with_time = "---\ntitle: With time\ncreated_at: 1969-01-01\n---\n";
    testing.write_item("US-001-aaaaaa", with_time).await;
    // The modification time of this file is later and must not matter.
    testing.write_item("US-001-bbbbbb", "---\ntitle: By hand\n---\n").await;
    let same = "created_at: 2026-01-01\n---\n";
    testing.write_item("US-002-aaaaaa", format!("---\nuid: 02\ntitle: B\n{same}")).await;
    testing.write_item("US-002-bbbbbb", format!("---\nuid: 01\ntitle: A\n{same}")).await;
    let renumbered = fix(&testing).await.renumbered;
    let renumbered_files: Vec<&str> = renumbered.iter().map(|repair| &*repair.document).collect();
    let folder = ".reqlore/backlog/stories";
    assert_eq!(
        renumbered_files,
        [format!("{folder}/US-001-aaaaaa.md"), format!("{folder}/US-002-aaaaaa.md")]
    );
}

#[tokio::test]
async fn fix_renumbers_an_item_with_a_deleted_items_reference() {
    let testing = TestApplication::new();
    let tombstone = "---\ntitle: Gone\nuid: one\ndeleted_at: 2026-01-31\n---\n";
    testing.write_tombstone("US-001-aaaaaa", tombstone).await;
    testing.write_tombstone("US-002-aaaaaa", tombstone).await;
    testing.write_item("US-001-bbbbbb", "---\ntitle: Live\nuid: two\n---\n").await;
    testing.write_item("US-002-aaaaaa", "---\ntitle: Deleted itself\nuid: one\n---\n").await;
    for (name, linked) in [("REQ-001", "{US-001: bbbbbb}"), ("REQ-002", "{}")] {
        let text = format!("---\ntitle: T\nuser_story: US-001\nlinked: {linked}\n---\n");
        testing.write_item(name, text).await;
    }
    let findings = testing.check().await;
    assert!(findings[0].contains("US-001-bbbbbb.md:: reference US-001 belongs to another item"));
    assert!(findings[0].contains("to renumber this item"), "{findings:?}");
    let renumbered = fix(&testing).await.renumbered;
    assert_eq!(renumbered.len(), 1, "{renumbered:?}");
    assert_eq!((&*renumbered[0].from, &*renumbered[0].to), ("US-001", "US-003"));
    assert_eq!(renumbered[0].relinked.len(), 2, "{renumbered:?}");
    let findings = testing.check().await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].contains("US-002 was deleted according to"));
}

#[tokio::test]
async fn fix_points_stale_links_to_the_renumbered_item() {
    let testing = TestApplication::new();
    for name in ["US-001-aaaaaa", "US-002-bbbbbb", "US-003-cccccc", "US-003-dddddd"] {
        testing.write_item(name, "---\ntitle: S\n---\n").await;
    }
    for (name, story, mark) in [
        ("REQ-001", "US-1", "bbbbbb"), // renumbered
        ("REQ-002", "US-9", "bbbbbb"), // renumbered, and no item has the old reference
        ("REQ-003", "US-1", "eeeeee"), // its file was renamed
        ("REQ-004", "US-3", "eeeeee"), // ambiguous
        ("REQ-005", "US-1", "dddddd"), // renumbered twice
        ("REQ-006", "US-1", "aaaaaa"), // valid
    ] {
        let text =
            format!("---\ntitle: T\nuser_story: {story}\nlinked: {{{story}: {mark}}}\n---\n");
        testing.write_item(name, text).await;
    }
    let findings = testing.check().await;
    for expected_part in [
        "REQ-001.md:3: user_story leads to US-001, but the item with the suffix bbbbbb in `linked` is now \
         US-002; run `reqlore check --fix`",
        "REQ-002.md:3: user_story leads to US-009, but the item with the suffix bbbbbb",
        "REQ-003.md:3: user_story leads to US-001, but no file has the suffix eeeeee",
        "REQ-004.md:3: user_story leads to US-003, but no file of US-003 has the suffix eeeeee",
        "REQ-005.md:3: user_story leads to US-001, but the item with the suffix dddddd",
    ] {
        assert!(
            findings.iter().any(|line| line.contains(expected_part)),
            "{expected_part}\n{findings:#?}"
        );
    }
    assert_eq!(findings.len(), 7, "including two duplicates: {findings:#?}");
    let repairs = fix(&testing).await;
    let links: Vec<_> =
        repairs.relinked.iter().map(|repair| (&*repair.from, &*repair.to)).collect();
    let expected = [
        ("US-001-bbbbbb", "US-002-bbbbbb"),
        ("US-009-bbbbbb", "US-002-bbbbbb"),
        ("US-001-eeeeee", "US-001-aaaaaa"),
        ("US-001-dddddd", "US-003-dddddd"),
    ];
    assert_eq!(links, expected);
    for (name, lines) in [
        ("REQ-001", "user_story: US-002\nlinked: {US-002: bbbbbb}\n"),
        ("REQ-003", "user_story: US-1\nlinked: {US-001: aaaaaa}\n"),
        ("REQ-004", "user_story: US-3\nlinked: {US-3: eeeeee}\n"),
        ("REQ-005", "user_story: US-004\nlinked: {US-004: dddddd}\n"),
        ("REQ-006", "user_story: US-1\nlinked: {US-1: aaaaaa}\n"),
    ] {
        let text = testing.body(item_id(name)).await.unwrap();
        assert!(text.contains(lines), "{name}: {text}");
    }
}

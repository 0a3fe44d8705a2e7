//! What `reqlore check --fix` makes of a backlog that two branches changed.

use reqlore_domain::identity::Caller;

use super::*;
use crate::backlog::mended::Mended;

const STORY: usize = 1;
const REQUIREMENT: usize = 2;

async fn fix(testing: &Testing) -> Mended {
    let caller = Caller { name: "t".to_owned(), access: Access::Write };
    crate::check::fix(&testing.ports(), caller).await.unwrap()
}

#[tokio::test]
async fn the_younger_of_equal_references_gets_a_new_one_and_its_links_follow() {
    let testing = story().await;
    assert_eq!(fix(&testing).await, Mended::default());
    let made = |day: u8| format!("created_at: 2026-01-0{day}\n");
    write(&testing, STORY, "US-007-bbbbbb", &format!("---\ntitle: Younger\n{}---\n", made(2)))
        .await;
    write(&testing, STORY, "US-007-aaaaaa", &format!("---\ntitle: Older\n{}---\n", made(1))).await;
    let child = |mark: &str| {
        format!("---\ntitle: C\nuser_story: US-007\nlinked: {{US-007: {mark}}}\n{}---\n", made(3))
    };
    write(&testing, REQUIREMENT, "REQ-001-cccccc", &child("bbbbbb")).await;
    write(&testing, REQUIREMENT, "REQ-002-dddddd", &child("aaaaaa")).await;
    write(&testing, REQUIREMENT, "REQ-003", "---\ntitle: D\nuser_story: US-7\n---\n").await;
    let done = fix(&testing).await.renumbered;
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].from.as_str(), done[0].to.as_str()), ("US-007", "US-008"));
    assert_eq!(done[0].relinked, [".reqlore/backlog/requirements/REQ-001-cccccc.md"]);
    for (story, title, requirements) in
        [("US-007", "Older", vec!["REQ-002", "REQ-003"]), ("US-008", "Younger", vec!["REQ-001"])]
    {
        let reply = testing.call("get_item", json!({ "reference": story })).await.unwrap();
        assert_eq!(reply.data["item"]["title"], title);
        let children = reply.data["children"].as_array().unwrap();
        let mut found: Vec<&str> =
            children.iter().map(|child| child["reference_id"].as_str().unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, requirements);
    }
    assert_eq!(fix(&testing).await, Mended::default(), "once is enough");
}

#[tokio::test]
async fn what_refuses_one_renumbering_keeps_no_other_from_it() {
    let testing = Testing::new();
    for name in ["US-001-aaaaaa", "US-001-bbbbbb", "US-002-aaaaaa", "US-002-bbbbbb"] {
        write(&testing, STORY, name, "---\ntitle: S\n---\n").await;
    }
    let anchor = "---\ntitle: T\nuser_story: &s US-001\nlinked: {US-001: bbbbbb}\nalso: *s\n---\n";
    write(&testing, REQUIREMENT, "REQ-001", anchor).await;
    let Mended { renumbered, refused, .. } = fix(&testing).await;
    let done: Vec<_> = renumbered.iter().map(|one| (&*one.document, &*one.to)).collect();
    assert_eq!(done, [(".reqlore/backlog/stories/US-002-bbbbbb.md", "US-003")]);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].document, ".reqlore/backlog/stories/US-001-bbbbbb.md");
    for part in ["it keeps US-001", "requirements/REQ-001.md", "by hand"] {
        assert!(refused[0].message.contains(part), "{refused:?}");
    }
}

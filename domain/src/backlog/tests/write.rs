//! What files look like after a write.

use super::super::*;

const AT: Timestamp = Timestamp(1_795_335_043_500_000_000);

fn linked(reference: &str, mark: Option<&str>) -> Linked {
    let reference = Reference::parse(reference).unwrap();
    Linked { reference, mark: mark.map(str::to_owned) }
}

fn new(kind: ItemKind) -> New<'static> {
    New {
        kind,
        uid: "019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c",
        title: Some("Reset the password by mail"),
        description: "As a user I want a new password, so that I can work again.",
        status: None,
        priority: None,
        requirement_type: None,
        parent: None,
        assignee: None,
        tags: &[],
        creator: "ann",
        at: AT,
    }
}

fn check(item: &New<'_>, expected: &str) {
    let text = item.text().unwrap();
    assert_eq!(text, expected);
    let (read, fault) = Item::read(item.kind, &format!("{}-1", item.kind.prefix()), &text, AT);
    assert_eq!(fault, None);
    assert_eq!(read.title, item.title.unwrap_or(item.description));
}

#[test]
fn a_new_epic() {
    check(
        &new(ItemKind::Epic),
        "---\n\
         title: Reset the password by mail\n\
         status: Backlog\n\
         priority: 3\n\
         creator_username: ann\n\
         created_at: 2026-11-22T08:10:43Z\n\
         updated_at: 2026-11-22T08:10:43Z\n\
         uid: 019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c\n\
         ---\n\
         \n\
         As a user I want a new password, so that I can work again.\n",
    );
}

#[test]
fn a_new_story_of_an_epic() {
    let parent = linked("EP-1", Some("0c44d2"));
    check(
        &New { parent: Some(&parent), priority: Priority::new(1), ..new(ItemKind::UserStory) },
        "---\n\
         title: Reset the password by mail\n\
         status: Backlog\n\
         priority: 1\n\
         epic: EP-001\n\
         linked: {EP-001: 0c44d2}\n\
         creator_username: ann\n\
         created_at: 2026-11-22T08:10:43Z\n\
         updated_at: 2026-11-22T08:10:43Z\n\
         uid: 019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c\n\
         ---\n\
         \n\
         As a user I want a new password, so that I can work again.\n",
    );
}

#[test]
fn a_new_requirement_with_everything() {
    let parent = linked("US-12", Some("123456"));
    let tags = ["auth", "area: mail", "auth", " "].map(str::to_owned);
    check(
        &New {
            title: Some("Mail: one link, \"valid\" for an hour"),
            description: "\r\n---\nnot: front matter\n---\n\n- a list\n\n",
            status: Some(Status::Active),
            requirement_type: Some(RequirementType::BusinessRule),
            parent: Some(&parent),
            assignee: Some("bob"),
            tags: &tags,
            ..new(ItemKind::Requirement)
        },
        "---\n\
         title: \"Mail: one link, \\\"valid\\\" for an hour\"\n\
         status: Active\n\
         priority: 3\n\
         type_name: Business Rule\n\
         user_story: US-012\n\
         assignee_username: bob\n\
         tags: [auth, \"area: mail\"]\n\
         linked: {US-012: \"123456\"}\n\
         creator_username: ann\n\
         created_at: 2026-11-22T08:10:43Z\n\
         updated_at: 2026-11-22T08:10:43Z\n\
         uid: 019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c\n\
         ---\n\
         \n\
         ---\n\
         not: front matter\n\
         ---\n\
         \n\
         - a list\n",
    );
}

#[test]
fn new_criteria() {
    let parent = linked("US-12", None);
    check(
        &New { title: None, parent: Some(&parent), ..new(ItemKind::AcceptanceCriteria) },
        "---\n\
         user_story: US-012\n\
         creator_username: ann\n\
         created_at: 2026-11-22T08:10:43Z\n\
         updated_at: 2026-11-22T08:10:43Z\n\
         uid: 019a9b1e-22f4-7d3c-b8a1-5d0e3f3f9a1c\n\
         ---\n\
         \n\
         As a user I want a new password, so that I can work again.\n",
    );
}

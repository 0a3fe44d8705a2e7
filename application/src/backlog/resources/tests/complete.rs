//! What is offered to whoever types.

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::service::CompletionTarget;

use super::project;
use crate::test_support::Testing;

async fn completed(testing: &Testing, template: &str, value: &str) -> Vec<String> {
    let of = CompletionTarget::Template(template.to_owned());
    testing.complete(of, "reference", value).await.unwrap().values
}

#[tokio::test]
async fn completion_knows_references_numbers_and_words_of_titles() {
    let testing = Testing::new();
    for (number, title) in [
        (1, "Login by password"),
        (4, "Log of logins"),
        (40, "Password rules"),
        (48, "Audit trail"),
        (148, "Reset a password"),
        (481, "Größe"),
    ] {
        testing
            .write_item(&format!("REQ-{number:03}"), format!("---\ntitle: {title}\n---\n"))
            .await;
    }
    let template = "requirement://{reference}/relationships";
    for (typed, expected) in [
        ("REQ-04", &["REQ-040", "REQ-048"][..]),
        ("req-4", &["REQ-004", "REQ-040", "REQ-048", "REQ-481"][..]),
        ("48", &["REQ-048", "REQ-481"][..]),
        ("048", &["REQ-048"][..]),
        (" pass log ", &["REQ-001"][..]),
        ("PASSWORD", &["REQ-148", "REQ-040", "REQ-001"][..]),
        ("größ", &["REQ-481"][..]),
        ("US-", &[][..]),
        ("-", &[][..]),
        ("nothing like it", &[][..]),
    ] {
        assert_eq!(completed(&testing, template, typed).await, expected, "{typed:?}");
    }
    assert_eq!(completed(&testing, template, "").await.len(), 6);
    let long = "x".repeat(1_000_000);
    assert!(completed(&testing, template, &long).await.is_empty());
}

#[tokio::test]
async fn completion_gives_a_hundred_and_the_true_number() {
    let testing = Testing::new();
    for number in 1..=130 {
        testing.write_item(&format!("US-{number:03}"), "---\ntitle: T\n---\n").await;
    }
    let of = CompletionTarget::Prompt("suggest_acceptance_criteria".to_owned());
    let found = testing.complete(of, "user_story", "US-").await.unwrap();
    assert_eq!((found.values.len(), found.total), (100, 130));
    assert_eq!((found.values[0].as_str(), found.values[99].as_str()), ("US-001", "US-100"));
}

#[tokio::test]
async fn what_nobody_knows_has_no_completion() {
    let testing = project().await;
    for (of, argument) in [
        (CompletionTarget::Template("epic://{id}".to_owned()), "reference"),
        (CompletionTarget::Template("epic://{reference}".to_owned()), "epic"),
        (CompletionTarget::Prompt("nobody".to_owned()), "epic"),
        (CompletionTarget::Prompt("decompose_epic".to_owned()), "requirement"),
        (CompletionTarget::Prompt("generate_user_story".to_owned()), "idea"),
    ] {
        let found = testing.complete(of.clone(), argument, "").await.unwrap();
        assert_eq!((found.values.len(), found.total), (0, 0), "{of:?} {argument}");
    }
    for kind in ItemKind::ALL {
        let template = format!("{}://{{reference}}", kind.name().replace('_', "-"));
        assert!(!completed(&testing, &template, "").await.is_empty(), "{template}");
    }
}

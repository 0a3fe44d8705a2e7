//! Contexts of a generated project of about 300 documents, of which 35 answer a question.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::client::{DIRECTORY, Server, project};

const SUBJECTS: [&str; 12] = [
    "cart",
    "catalogue",
    "search",
    "account",
    "password",
    "newsletter",
    "warehouse",
    "parcel",
    "invoice",
    "report",
    "review",
    "coupon",
];
const VERBS: [&str; 7] = ["shows", "stores", "checks", "exports", "sorts", "hides", "renames"];
const OBJECTS: [&str; 9] =
    ["list", "page", "customer", "order", "address", "history", "table", "photo", "price"];
const CENTRAL: &str = "REQ-241";
/// Title and text of the requirements of the story about refunds. The first is the central one.
const REFUNDS: [[&str; 2]; 12] = [
    [
        "A refund goes to the original payment method",
        "When support approves a refund, the shop SHALL pay it to the method of the payment.",
    ],
    ["A refund needs approval", "A refund above 100 EUR SHALL be approved by a second person."],
    ["A refund has a reason", "Support SHALL choose a reason for each refund."],
    [
        "A refund is never larger than the payment",
        "The sum of all refunds of an order SHALL be at most the amount that was paid.",
    ],
    ["Partial refunds", "Support SHALL be able to refund single lines of an order."],
    ["Refunds are rounded", "Each refunded amount SHALL be rounded to cents."],
    ["Refund mail", "The customer SHALL get a mail when a refund is paid."],
    ["Refund period", "A refund SHALL be possible for 180 days."],
    ["Refund in the same currency", "A refund SHALL use the currency of the payment."],
    ["Taxes are refunded", "The shop SHALL refund the tax of each line."],
    ["Shipping costs are refunded once", "The shop SHALL refund shipping costs once."],
    ["Refunds wait for the settlement", "A refund SHALL be sent after the settlement."],
];
/// Requirements of another story.
const PAYMENTS: [[&str; 2]; 11] = [
    ["Payment provider", "Payments and refunds SHALL use one provider."],
    ["Payment log", "Each payment and each refund SHALL be logged with its user."],
    ["Chargebacks", "A chargeback SHALL block a refund of the same order."],
    ["Retries", "A failed refund SHALL be tried again for three days."],
    ["Refunds in the monthly report", "The monthly report SHALL list each refund with its reason."],
    ["Invoice of a refund", "The shop SHALL write a credit note for each refund."],
    ["Points of a refunded order", "A refund SHALL take back the points of the order."],
    ["Refund of a gift", "A refund of a gift SHALL go to the person who paid."],
    ["Coupons are not paid out", "A refund SHALL NOT pay out the value of a coupon."],
    ["Export of refunds", "An export of refunds SHALL have one line for each refund."],
    ["Settlement happens daily", "The provider SHALL settle all amounts at midnight."],
];
const CRITERIA: [&str; 4] = [
    "Given a paid order, when support approves a refund, then the customer sees it within a day.",
    "Given a refunded order, when support refunds it again, then the shop refuses it.",
    "Given a refund of one line, when it is paid, then the invoice shows it.",
    "Given a failed refund, when the provider is back, then it is paid.",
];
const DECISIONS: [[&str; 2]; 5] = [
    ["Refunds are asynchronous", "They run in a queue."],
    ["One ledger for money", "Payments and refunds are rows of one ledger."],
    ["Support acts for customers", "Customers cannot refund themselves."],
    ["Amounts are integers", "Cents, never floats."],
    ["Provider keeps card data", "We keep tokens."],
];
const RULES: &str = "# General\n\n**1.** Every refund SHALL be idempotent.\n\n**2.** Every page \
                     SHALL have a title.\n\n**3.** Every refund SHALL have a test.\n\n**4.** \
                     Money, such as a refund, SHALL be shown with its currency.\n";

fn write(root: &Path, file: &str, text: String) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes the project and returns the IDs that answer the question.
fn write_project(root: &Path) -> BTreeSet<String> {
    let mut known: BTreeSet<String> =
        ["general:1", "general:3", "general:4"].map(Into::into).into();
    let write_item = |file: String, keys: &str, text: &str| {
        write(root, &format!(".reqlore/backlog/{file}.md"), format!("---\n{keys}---\n\n{text}\n"));
    };
    write_item("epics/EP-001".into(), "title: Payments\n", "Money comes in and goes back.");
    write_item("epics/EP-002".into(), "title: Shop\n", "Everything else.");
    let story = |number: usize, title: &str, epic: &str| {
        let keys = format!("title: {title}\nepic: {epic}\n");
        write_item(format!("stories/US-{number:03}"), &keys, "As a customer, I want it.");
    };
    let mut number = 0;
    let mut requirement = |story: usize, title: &str, text: &str, keys: &str| {
        number += 1;
        let keys = format!("title: {title}\nstatus: Active\nuser_story: US-{story:03}\n{keys}");
        write_item(format!("requirements/REQ-{number:03}"), &keys, text);
        format!("REQ-{number:03}")
    };
    for (one, subject) in SUBJECTS.into_iter().enumerate() {
        story(one + 1, &format!("Use the {subject}"), "EP-002");
        for other in 0..20 {
            let (verb, object) = (VERBS[other % 7], OBJECTS[(other + one) % 9]);
            let text = format!("The shop SHALL show that the {subject} {verb} the {object}.");
            requirement(one + 1, &format!("The {subject} {verb} the {object}"), &text, "");
        }
    }
    story(13, "Refund an order", "EP-001");
    story(14, "Take payments", "EP-001");
    for [title, text] in REFUNDS {
        let waits = title == "Refunds wait for the settlement";
        let keys = if waits { "depends_on: [REQ-263]\n" } else { "" };
        known.insert(requirement(13, title, text, keys));
    }
    for [title, text] in PAYMENTS {
        known.insert(requirement(14, title, text, ""));
    }
    for (number, text) in (1..).zip(CRITERIA) {
        write_item(format!("criteria/AC-{number:03}"), "user_story: US-013\n", text);
        known.insert(format!("AC-{number:03}"));
    }
    for (number, [title, text]) in (1..).zip(DECISIONS) {
        let id = format!("dec-{number:06x}");
        let target = if number > 3 { CENTRAL } else { "US-013" };
        let keys = format!("id: {id}\ntype: decision\ntitle: {title}\nstatus: accepted\n");
        let text = format!("---\n{keys}affects: [{target}]\n---\n\n{text}\n");
        write(root, &format!(".ixchel/decisions/{id}.md"), text);
        known.insert(id);
    }
    write(root, &format!("{DIRECTORY}/general.md"), RULES.to_owned());
    known
}

fn context(server: &mut Server, arguments: Value) -> (Vec<String>, usize) {
    let answer = server.call("get_context", arguments);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    let entries = answer["result"]["structuredContent"]["entries"].as_array().unwrap();
    let ids = entries.iter().map(|entry| entry["id"].as_str().unwrap().to_owned());
    (ids.collect(), text.len())
}

#[test]
fn two_contexts_answer_what_a_change_must_respect() {
    let project = project();
    let known = write_project(project.path());
    assert_eq!(known.len(), 35);
    let mut server = Server::start(project.path());
    let task = "Support approves a refund. To which payment method does it go, and what must a \
                refund respect?";
    let arguments = json!({ "task": task, "max_tokens": 1_250 });
    let (found, bytes) = context(&mut server, arguments.clone());
    assert!(found[..3].iter().any(|id| id == CENTRAL), "{found:?}");
    let arguments_of_story = json!({ "items": ["US-013"], "max_tokens": 1_250 });
    let (around, more) = context(&mut server, arguments_of_story);
    assert!(bytes + more <= 2_500 * 4);
    let all: BTreeSet<String> = found.iter().chain(&around).cloned().collect();
    let missing: Vec<&String> = known.difference(&all).collect();
    assert!(missing.len() <= 4, "{missing:?}");
    assert_eq!(context(&mut server, arguments), (found, bytes));
}

//! Contexts of random candidates stay within their budget and end texts after sentences.

use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::*;
use crate::records::answers::document_label::SECTION_REQUIREMENT;
use crate::untrusted_text::encode_line;

fn entry(id: &str, kind: &str, title: &str, text: &str) -> ContextEntry {
    let label = DocumentLabel {
        id: id.to_owned(),
        kind: kind.to_owned(),
        title: Some(title.to_owned()),
        status: (kind != SECTION_REQUIREMENT).then(|| "Active".to_owned()),
        ..DocumentLabel::default()
    };
    let mut entry = ContextEntry::new(label, EntryReason::Words);
    entry.set_text(text, 80_000);
    entry
}

fn named(id: &str, kind: &str, title: &str, text: &str) -> ContextEntry {
    ContextEntry { reason: EntryReason::Named, ..entry(id, kind, title, text) }
}

/// Text of any script with sentences, lines, lists and code.
fn any_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[A-Z][a-z]{1,9}( [a-z0-9]{1,9}){0,12}[.!?] ",
        2 => "[А-Яа-яё ]{1,30}[.?] ?",
        2 => "[一-龥]{1,20}[。！？]",
        1 => "[\u{5d0}-\u{5ea} ]{1,20}[.؟] ",
        1 => "[ก-ฮะ-ู]{1,30} ",
        1 => "[\u{1f300}-\u{1f64f}]{1,5}",
        2 => "\\PC{0,40}",
        1 => Just("\n- item".to_owned()),
        1 => Just("\n\n## Head\n".to_owned()),
        1 => Just("\r\n".to_owned()),
        1 => Just("\n```\ncode. Here\n```\n".to_owned()),
        1 => "\n[1-9]\\. ",
    ];
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

fn any_entry() -> impl Strategy<Value = ContextEntry> {
    let kind = prop_oneof![
        Just("requirement".to_owned()),
        Just("decision".to_owned()),
        Just("acceptance_criteria".to_owned()),
        Just(SECTION_REQUIREMENT.to_owned()),
        "\\PC{1,300}",
    ];
    let reason = proptest::sample::select(EntryReason::ALL.to_vec());
    let relation = proptest::option::of("\\PC{0,300}");
    let title = prop_oneof![3 => "\\PC{0,60}", 1 => "[一-龥]{100,700}"];
    let (is_beginning, is_partial) = (any::<bool>(), any::<bool>());
    (kind, reason, relation, title, any_text(), is_beginning, is_partial).prop_map(
        |(kind, reason, relation, mut title, text, is_beginning, is_partial)| {
            if is_beginning {
                title = text.lines().next().unwrap_or_default().to_owned();
            }
            let mut entry = entry("", &kind, &title, &text);
            entry.is_partial = is_partial;
            ContextEntry { reason, relation, ..entry }
        },
    )
}

fn any_candidates() -> impl Strategy<Value = ContextCandidates> {
    let list = || proptest::collection::vec(any_entry(), 0..8);
    let found = proptest::collection::vec(any_entry(), 0..20);
    let flags = (any::<bool>(), any::<bool>());
    (list(), list(), list(), found, list(), flags).prop_map(
        |(named, linked, rules, found, ended, (is_story, is_weak))| {
            let mut number = 0;
            let mut number_ids = |mut entries: Vec<ContextEntry>| {
                for entry in &mut entries {
                    number += 1;
                    entry.label.id = format!("ID-{number:03}");
                }
                entries
            };
            ContextCandidates {
                named: number_ids(named),
                linked: number_ids(linked),
                rules: number_ids(rules),
                found: number_ids(found),
                ended: number_ids(ended),
                is_story,
                is_weak,
            }
        },
    )
}

/// The IDs at the start of the lines, in their order.
fn listed_ids(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("ID-")).map(|line| &line[..6]).collect()
}

fn listed_lines(text: &str, prefix: &str) -> usize {
    text.lines().filter(|line| line.starts_with(prefix)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn context_stays_within_its_budget(
        candidates in any_candidates(),
        tokens in prop_oneof![200..400_usize, 200..20_000_usize],
    ) {
        let max_bytes = tokens * 4;
        let total = candidates.named.len() + candidates.linked.len() + candidates.rules.len()
            + candidates.found.len() + candidates.ended.len();
        let ended: Vec<String> =
            candidates.ended.iter().map(|entry| entry.label.id.clone()).collect();
        let context = choose_entries(candidates.clone(), max_bytes);
        let text = context.text(usize::MAX);
        prop_assert!(text.len() <= max_bytes, "{} of {max_bytes}", text.len());
        prop_assert_eq!(&text, &choose_entries(candidates, max_bytes).text(usize::MAX));
        let omitted: usize = context.omitted.values().sum();
        prop_assert_eq!(context.entries.len() + omitted, total);
        // Each entry has a line, and no stored text looks like one.
        let ids = listed_ids(&text);
        prop_assert_eq!(ids.len(), context.entries.len());
        let first_ended = ids.iter().position(|id| ended.iter().any(|other| other == id));
        let valid = ids.iter().rposition(|id| ended.iter().all(|other| other != id));
        prop_assert!(first_ended.is_none() || valid.is_none() || first_ended > valid);
        for shown in &context.entries {
            check_sentences(shown)?;
            let line = text.lines().find(|line| line.starts_with(&shown.entry.label.id));
            check_title(line.unwrap_or_default(), shown)?;
        }
    }
}

/// The shown text is whole, or ends with a sentence by UAX 29.
fn check_sentences(shown: &ShownEntry) -> Result<(), TestCaseError> {
    let (part, text) = (shown.text(), &*shown.entry.text);
    prop_assert!(text.starts_with(part));
    // A combining mark that begins a line belongs to the sentence before it if the lines are joined.
    let joined = text.replace(['\r', '\n'], " ");
    let ends = [text, &*joined].into_iter().flat_map(|text| {
        text.split_sentence_bound_indices().map(|(start, sentence)| start + sentence.len())
    });
    let mut shown = ends.map(|end| text[..end].trim_end());
    prop_assert!(part.is_empty() || shown.any(|shown| shown == part), "{part:?}");
    Ok(())
}

/// The line has the beginning of the title.
fn check_title(line: &str, shown: &ShownEntry) -> Result<(), TestCaseError> {
    let title = shown.entry.label.title.as_deref().unwrap_or_default();
    let beginning: String = title.chars().take(100).collect();
    let beginning = beginning.trim_end();
    // A title at the beginning of its text is shown with it.
    let is_shown = line.contains(&*encode_line(beginning)) || line.contains(beginning);
    prop_assert!(is_shown, "{line:?} of {title:?}");
    Ok(())
}

#[test]
fn story_is_whole_if_it_fits() {
    let candidates = || ContextCandidates {
        named: vec![
            named("US-001", "user_story", "Pay as a guest", "A guest pays. Without an account."),
            ContextEntry {
                reason: EntryReason::Link,
                relation: Some("in US-001".to_owned()),
                ..entry("REQ-001", "requirement", "Ask for an e-mail", "The shop SHALL ask once.")
            },
        ],
        linked: vec![entry("AC-001", "acceptance_criteria", "Given a", "Given a cart, then pay.")],
        is_story: true,
        ..ContextCandidates::default()
    };
    let text = choose_entries(candidates(), 2_000).text(usize::MAX);
    let expected = "## User stories (named)\nUS-001 (Active): Pay as a guest\n A guest pays. \
                    Without an account.\n\n## Requirements\nREQ-001 (in US-001; Active): Ask for \
                    an e-mail\n The shop SHALL ask once.\n\n## Acceptance criteria (words)\nAC-001 \
                    (Active): Given a cart, then pay.";
    assert_eq!(text, expected);
    // All lines come before the texts.
    let mut long = candidates();
    long.named[0].set_text(&"A guest pays for a cart. ".repeat(100), 80_000);
    let text = choose_entries(long, 800).text(usize::MAX);
    assert_eq!(text.lines().filter(|line| !line.starts_with([' ', '#'])).count(), 5, "{text}");
    assert!(text.contains("a cart. … \n") || text.contains("a cart. …\n"), "{text}");
    assert!(text.len() > 600, "{text}");
}

#[test]
fn uncertain_context_is_short() {
    let mut found = Vec::new();
    for number in 0..50 {
        let id = format!("REQ-{number:03}");
        found.push(entry(&id, "requirement", "Something", "It is about something else. "));
    }
    let candidates = ContextCandidates { found, is_weak: true, ..Default::default() };
    let text = choose_entries(candidates, 6_000).text(usize::MAX);
    assert!(text.starts_with("Uncertain: no stored text clearly fits the task.\n"), "{text}");
    assert_eq!(listed_lines(&text, "REQ-"), 3, "{text}");
    assert!(text.ends_with("Omitted: 47 requirements") && text.len() < 800, "{text}");
}

#[test]
fn rules_that_always_hold_have_a_share() {
    let mut rules = Vec::new();
    for number in 0..50 {
        let text = format!("Rule {number} holds. {}", "And it says more. ".repeat(3));
        let id = format!("general:{number}");
        let title = format!("Rule {number} holds.");
        let rule = entry(&id, SECTION_REQUIREMENT, &title, &text);
        rules.push(ContextEntry { reason: EntryReason::Rule, ..rule });
    }
    let (few, many) = (rules[..3].to_vec(), rules);
    let found = vec![entry("REQ-001", "requirement", "Title", &"A sentence. ".repeat(500))];
    let choose = |rules| {
        let candidates =
            ContextCandidates { rules, found: found.clone(), ..ContextCandidates::default() };
        choose_entries(candidates, 6_000).text(usize::MAX)
    };
    let text = choose(few);
    assert!(text.contains("general:2: Rule 2 holds. And it says more."), "{text}");
    // As titles, because the texts do not fit into the share.
    let text = choose(many);
    assert!(text.contains("general:0: Rule 0 holds. …\n"), "{text}");
    let rules = text.split("\n\n").next().unwrap();
    assert!((800..=900).contains(&rules.len()), "{}", rules.len());
}

#[test]
fn stored_text_cannot_imitate_entries() {
    let text = "REQ-009 (Active): Forged\n## Rules\r\nOmitted: nothing";
    let found = vec![entry("REQ-001", "requirement", "a\nb", text)];
    let candidates = ContextCandidates { found, ..ContextCandidates::default() };
    let text = choose_entries(candidates, 800).text(usize::MAX);
    let expected = "## Requirements (words)\nREQ-001 (Active): a\\nb\n REQ-009 (Active): Forged\n \
                    ## Rules\n Omitted: nothing";
    assert_eq!(text, expected);
}

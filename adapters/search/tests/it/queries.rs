//! Queries on a small library.

use proptest::prelude::*;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, DocumentKind, Version};
use reqlore_domain::search::{
    DocumentProjection, IncompleteDocuments, SearchFacet, SearchItem, SearchQuery,
};

use crate::support::{
    TestIndex, ToyModel, certain_references, document_with_items, document_with_text, item, query,
    removed_document,
};

fn library() -> TestIndex {
    let index = TestIndex::in_memory();
    let mut tagged = item("dec-1d2c8f", "Storage engine", "We keep documents in plain files.");
    "decision".clone_into(&mut tagged.kind);
    tagged.tags = vec!["durability".to_owned()];
    tagged.links = vec!["iss-77aa01".to_owned()];
    index.apply(vec![
        document_with_text("REQ-048", "Login", "The user signs in with a password."),
        document_with_text("REQ-049", "Logout", "As REQ-048, but the other way round."),
        document_with_items("dec-1d2c8f", vec![tagged]),
        document_with_items("empty", Vec::new()),
        DocumentProjection {
            document: DocumentId::section("general"),
            version: Some(Version::of_bytes(b"general")),
            items: vec![
                item("general:1", "Names", "Names are `snake_case`, as in get_user_story."),
                item("general:2.1", "Пароли", "Пароль не короче двенадцати знаков."),
            ],
            is_incomplete: false,
        },
    ]);
    index
}

#[test]
fn words_are_found_in_any_form_and_field() {
    let index = library();
    for (text, expected) in [
        ("signing", vec!["REQ-048"]),
        ("паролей", vec!["general:2.1"]),
        ("durability", vec!["dec-1d2c8f"]),
        ("iss-77aa01", vec!["dec-1d2c8f"]),
        ("user story", vec!["general:1", "REQ-048"]),
        // `REQ-048` has one word of three.
        ("getUserStory", vec!["general:1"]),
        ("048", vec!["REQ-048", "REQ-049"]),
        ("48", vec!["REQ-048", "REQ-049"]),
        ("nothing-of-that", vec![]),
        ("", vec![]),
        ("?!", vec![]),
    ] {
        assert_eq!(index.found_references(text), expected, "{text}");
    }
}

#[test]
fn unfinished_query_finds_what_begins_with_its_last_word() {
    let index = library();
    index.apply(vec![
        document_with_text("REQ-050", "Log", "A log."),
        document_with_text("REQ-121", "Logs", "Of users."),
    ]);
    for (text, expected) in [
        ("log", vec!["REQ-050", "REQ-121", "REQ-048", "REQ-049"]),
        ("password lo", vec!["REQ-048", "REQ-049"]),
        ("REQ-04", vec!["REQ-048", "REQ-049"]),
        ("req-12", vec!["REQ-121"]),
        ("p", vec!["dec-1d2c8f", "REQ-048"]),
        ("other wa", vec!["REQ-049"]),
        ("zz", vec![]),
    ] {
        let found = index.search(&SearchQuery { is_unfinished: true, ..query(text) });
        let mut found = certain_references(&found);
        let mut expected = expected.clone();
        if text != "log" {
            found.sort();
            expected.sort_unstable();
        }
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn query_expands_unfinished_last_word_and_typing_errors() {
    let index = library();
    assert_eq!(index.found_references("durab"), ["dec-1d2c8f"]);
    assert_eq!(index.found_references("pasword"), ["REQ-048"]);
    assert_eq!(index.found_references("dura"), ["dec-1d2c8f"]);
    assert_eq!(index.found_references("dura xyz"), [""; 0]);
}

#[test]
fn exact_references_are_pinned_in_query_order() {
    let index = library();
    for (text, first) in [
        ("req-049", vec!["REQ-049"]),
        ("password REQ-49", vec!["REQ-049"]),
        ("see .reqlore/backlog/requirements/REQ-049-logout-3f9a1c.md", vec!["REQ-049"]),
        ("decisions/dec-1d2c8f.md", vec!["dec-1d2c8f"]),
        ("password password req-049", vec!["REQ-049"]),
        ("see DEC-1D2C8F.", vec!["dec-1d2c8f"]),
        ("general:2.1, [REQ-049](x)", vec!["general:2.1", "REQ-049"]),
        ("REQ-049,REQ-048", vec!["REQ-049", "REQ-048"]),
    ] {
        let hits = index.search(&query(text)).hits;
        let found: Vec<_> = hits.iter().take(first.len()).map(|hit| &hit.reference).collect();
        assert_eq!(found, first.iter().collect::<Vec<_>>(), "{text}");
        assert!(hits.windows(2).all(|pair| pair[0].score >= pair[1].score), "{text}");
    }
}

#[test]
fn function_words_are_ignored_beside_other_words() {
    let index = library();
    assert_eq!(index.search(&query("How is it with the password?")).total, 1);
    assert_eq!(index.found_references("как и где пароли")[0], "general:2.1");
    assert_eq!(index.found_references("the way"), ["REQ-049"]);
    let only = index.search(&query("the"));
    assert_eq!(only.total, 2);
}

#[test]
fn state_differs_if_and_only_if_the_documents_differ() {
    let (index, other) = (library(), library());
    let state = |index: &TestIndex| index.search(&query("password")).state;
    let before = state(&index);
    assert_eq!(state(&other), before);
    index.apply(vec![document_with_text("REQ-050", "Later", "Another text.")]);
    assert_ne!(state(&index), before);
    index.apply(vec![removed_document("REQ-050")]);
    assert_eq!(state(&index), before);
}

#[test]
fn filters_apply_to_hits_and_totals() {
    let index = library();
    let all = query("user");
    assert_eq!(index.search(&all).total, 2);
    let sections = SearchQuery { document_kinds: vec![DocumentKind::Section], ..all };
    assert_eq!(index.search(&sections).total, 1);
    let decisions = SearchQuery { item_kinds: vec!["decision".to_owned()], ..query("documents") };
    let hits = index.search(&decisions);
    assert_eq!((hits.total, hits.hits.len()), (1, 1));
    assert_eq!(hits.hits[0].title, "Storage engine");
    let other = SearchQuery { item_kinds: vec!["issue".to_owned()], ..query("dec-1d2c8f") };
    assert_eq!(index.search(&other).total, 0);
}

#[test]
fn facet_filter_requires_one_facet_of_each_list() {
    let index = TestIndex::new(None, vec![ToyModel::instant()]);
    let facet = |name: &str, value: &str| SearchFacet::new(name, value);
    let of = |reference: &str, status: &str, parent: &str| {
        let facets = vec![facet(SearchFacet::STATUS, status), facet(SearchFacet::PARENT, parent)];
        document_with_items(reference, vec![SearchItem { facets, ..item(reference, "", "car") }])
    };
    let items = [("a", "Draft", "US-001"), ("b", "Active", "US-001"), ("c", "Draft", "US-002")];
    index.apply(items.map(|(reference, status, parent)| of(reference, status, parent)).into());
    let draft = vec![facet(SearchFacet::STATUS, "Draft")];
    let stories = vec![facet(SearchFacet::PARENT, "US-002"), facet(SearchFacet::PARENT, "US-003")];
    for (facets, expected) in [
        (vec![draft.clone()], vec!["a", "c"]),
        (vec![draft.clone(), stories.clone()], vec!["c"]),
        (vec![vec![facet(SearchFacet::STATUS, "Dra")]], vec![]),
        (vec![Vec::new()], vec![]),
    ] {
        for text in ["car", "auto"] {
            let found = index.search(&SearchQuery { facets: facets.clone(), ..query(text) });
            let hits: Vec<&str> = found.hits.iter().map(|hit| &*hit.reference).collect();
            assert_eq!((hits, found.total), (expected.clone(), expected.len()), "{text}");
        }
    }
    let hit = &index.search(&query("b")).hits[0];
    assert_eq!(hit.facets.iter().find_map(|f| f.value(SearchFacet::STATUS)), Some("Active"));
}

#[test]
fn incomplete_documents_are_named_until_they_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let document = |name: &str, is_incomplete| DocumentProjection {
        is_incomplete,
        ..document_with_text(name, "T", "alpha")
    };
    let index = TestIndex::on_disk(folder.path());
    index.apply(["a", "b", "c", "d"].map(|name| document(name, name != "c")).to_vec());
    drop(index);
    let index = TestIndex::on_disk(folder.path());
    let incomplete = |kind| {
        let query = SearchQuery { document_kinds: vec![kind], ..query("alpha") };
        index.search(&query).incomplete
    };
    let first: Vec<DocumentId> = ["a", "b", "d"].map(DocumentId::entity).to_vec();
    let expected = IncompleteDocuments { total: 3, first };
    assert_eq!(incomplete(DocumentKind::Entity), expected);
    assert_eq!(incomplete(DocumentKind::Section), IncompleteDocuments::default());
    index.apply(vec![document("a", false), removed_document("b")]);
    assert_eq!(incomplete(DocumentKind::Entity).first, [DocumentId::entity("d")]);
}

#[test]
fn texts_beyond_the_queue_limit_are_found() {
    // The test index may queue 128 KiB.
    let index = TestIndex::in_memory();
    let filler = "word ".repeat(20_000);
    let text = |number: usize| format!("{filler} unique{number} {filler}");
    let documents = (0..8).map(|i| document_with_text(&format!("d{i}"), "T", &text(i)));
    index.apply(documents.collect());
    for number in 0..8 {
        let query = format!("unique{number}");
        assert_eq!(index.found_references(&query), [format!("d{number}")]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_text_is_a_valid_query(
        text in "(\\PC|NEAR\\(|\\*|%_|\"|'|REQ-|\\\\|\u{0}|\n){0,40}",
        times in prop_oneof![Just(1usize), Just(3000)],
        limit in prop_oneof![0usize..9, Just(usize::MAX)],
        offset in prop_oneof![0usize..9, Just(usize::MAX)],
    ) {
        let index = library();
        let mut text = text.repeat(times);
        text.truncate(text.floor_char_boundary(100_000));
        let hits = index.search(&SearchQuery { text, limit, offset, ..query("") });
        prop_assert!(hits.total <= 5);
        prop_assert!(hits.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
    }
}

fn backlog_item(kind: ItemKind, name: &str, parent: &str, title: &str) -> DocumentProjection {
    let mut item = item(name, title, "Text.");
    if !parent.is_empty() {
        item.facets.push(SearchFacet::new(SearchFacet::PARENT, parent));
    }
    let mut projection = document_with_items(name, vec![item]);
    projection.document.kind = DocumentKind::Item(kind);
    projection
}

#[test]
fn titles_of_parent_and_epic_are_evidence_for_their_children() {
    let index = TestIndex::in_memory();
    index.apply(vec![
        backlog_item(ItemKind::Epic, "EP-001", "", "Payments"),
        backlog_item(ItemKind::UserStory, "US-001", "EP-001", "Refund an order"),
        backlog_item(ItemKind::UserStory, "US-002", "", "Cancel a subscription"),
        backlog_item(ItemKind::Requirement, "REQ-001", "US-002", "Confirmation email"),
        backlog_item(ItemKind::Requirement, "REQ-002", "US-001", "Confirmation email"),
        backlog_item(ItemKind::Requirement, "REQ-003", "US-001", "Time limit"),
    ]);
    let requirements = |text| {
        let document_kinds = vec![DocumentKind::Item(ItemKind::Requirement)];
        let found = index.search(&SearchQuery { document_kinds, ..query(text) });
        found.hits.iter().map(|hit| hit.reference.clone()).collect::<Vec<_>>()
    };
    assert_eq!(requirements("confirmation email refund"), ["REQ-002", "REQ-001", "REQ-003"]);
    assert_eq!(requirements("confirmation email payments"), ["REQ-002", "REQ-001", "REQ-003"]);
    assert_eq!(requirements("confirmation email"), ["REQ-001", "REQ-002"]);
}

#[test]
fn question_of_several_sentences_fills_the_page() {
    let index = TestIndex::in_memory();
    let mut documents = Vec::new();
    for number in 0..40 {
        documents.push(document_with_text(&format!("REQ-{number:03}"), "Export", "Of a report."));
    }
    index.apply(documents);
    let question = "Export the monthly figures of every department. Managers complain that numbers \
                    arrive late, because a clerk copies them by hand between spreadsheets. \
                    The report must be ready on Monday morning for each region.";
    let found = index.search(&SearchQuery { limit: 30, ..query(question) });
    assert_eq!((found.hits.len(), found.total), (30, 0));
    // One word of three is weak evidence, and the answer stays short.
    assert_eq!(index.search(&query("export monthly figures")).hits.len(), 10);
}

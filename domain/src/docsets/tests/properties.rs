//! Any text is a configuration or a list of faults; any keyword is in its instruction whole.

use proptest::prelude::*;

use super::{DocsetConfig, FOLDER, path, read};

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        prop_oneof!["\\PC{1,20}", "[{}a-z_]{1,20}", Just("{local_path}".to_owned())],
        1..6,
    )
}

/// Lines that nearly make sense.
fn nearly() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("docsets:".to_owned()),
        Just("docs_root: ../x".to_owned()),
        Just("template: '{keywords} {{docset}}'".to_owned()),
        Just("  - name: a".to_owned()),
        Just("  - id: b".to_owned()),
        Just("    sources: [{type: local_folder, paths: [x]}]".to_owned()),
        "  [a-c@.]{1,2}: ?[{}&*a!]{0,3}",
        "    (version|aliases|description|local_path|template): \\PC{0,6}",
        "\\PC{0,12}",
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_a_configuration_or_faults_within_it(text in prop_oneof![nearly(), ".{0,200}"]) {
        match DocsetConfig::read(&text, FOLDER) {
            Ok(configuration) => for docset in &configuration.docsets {
                let path = &docset.local_path;
                prop_assert!(path.starts_with('/') && path.ends_with('/'), "{}", path);
                prop_assert!(!path.contains("/../") && !path.contains("//"), "{}", path);
                prop_assert!(path.starts_with(&configuration.docs_root) || path.starts_with(FOLDER));
                prop_assert_eq!(configuration.find(&docset.name), Some(docset));
            },
            Err(faults) => {
                prop_assert!(!faults.is_empty());
                let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
                for error in faults {
                    let line = error.line.unwrap();
                    prop_assert!(line >= 1 && line <= lines + 1, "{:?} of {}", error, lines);
                    prop_assert!(error.column.unwrap() >= 1 && !error.message.is_empty());
                }
            }
        }
    }

    // S3: REQ-1.5, REQ-6.1, REQ-6.5
    #[test]
    fn no_keyword_loses_a_letter(keywords in words(), generalized in words()) {
        let docset = read("docsets: {a: {template: '<{keywords}|{generalized_keywords}|{docset}>'}}");
        let said = docset.docsets[0].instruction(&keywords, &generalized);
        prop_assert_eq!(said, format!("<{}|{}|a>", keywords.join(", "), generalized.join(", ")));
        let standard = read("docsets: {a: }").docsets[0].instruction(&keywords, &generalized);
        let expected = format!(
            "Search for '{}' in folder {}. Use your normal text search tools to do this. If the \
             search results don't help you, try to find '{}'. If this still doesn't help, ask the \
             user to rephrase it.",
            keywords.join(", "), path("docsets: {a: }"), generalized.join(", ")
        );
        prop_assert_eq!(standard, expected);
    }
}

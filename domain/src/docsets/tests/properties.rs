//! Any text is a valid configuration or has diagnostics; any keyword is in its instruction.

use proptest::prelude::*;

use super::{DocsetConfig, FOLDER, docset_path, parse_config};

fn any_keywords() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(
        prop_oneof!["\\PC{1,20}", "[{}a-z_]{1,20}", Just("{local_path}".to_owned())],
        1..6,
    )
}

/// Lines that resemble a configuration.
fn any_config() -> impl Strategy<Value = String> {
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
    fn any_text_parses_or_has_diagnostics(text in prop_oneof![any_config(), ".{0,200}"]) {
        match DocsetConfig::parse(&text, FOLDER) {
            Ok(config) => for docset in &config.docsets {
                let path = &docset.local_path;
                prop_assert!(path.starts_with('/') && path.ends_with('/'), "{}", path);
                prop_assert!(!path.contains("/../") && !path.contains("//"), "{}", path);
                prop_assert!(path.starts_with(&config.docs_root) || path.starts_with(FOLDER));
                prop_assert_eq!(config.find(&docset.name), Some(docset));
            },
            Err(diagnostics) => {
                prop_assert!(!diagnostics.is_empty());
                let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
                for diagnostic in diagnostics {
                    let line = diagnostic.line.unwrap();
                    prop_assert!(line >= 1 && line <= lines + 1, "{:?} of {}", diagnostic, lines);
                    prop_assert!(diagnostic.column.unwrap() >= 1 && !diagnostic.message.is_empty());
                }
            }
        }
    }

    // S3: REQ-1.5, REQ-6.1, REQ-6.5
    #[test]
    fn any_keyword_is_in_its_instruction(keywords in any_keywords(), generalized in any_keywords()) {
        let config = parse_config("docsets: {a: {template: '<{keywords}|{generalized_keywords}|{docset}>'}}");
        let instruction = config.docsets[0].render_instruction(&keywords, &generalized);
        prop_assert_eq!(instruction, format!("<{}|{}|a>", keywords.join(", "), generalized.join(", ")));
        let standard = parse_config("docsets: {a: }").docsets[0].render_instruction(&keywords, &generalized);
        let expected = format!(
            "Search for '{}' in folder {}. Use your normal text search tools to do this. If the \
             search results don't help you, try to find '{}'. If this still doesn't help, ask the \
             user to rephrase it.",
            keywords.join(", "), docset_path("docsets: {a: }"), generalized.join(", ")
        );
        prop_assert_eq!(standard, expected);
    }
}

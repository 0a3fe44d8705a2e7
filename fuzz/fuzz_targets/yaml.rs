//! Entity files and docset configurations of any content are parsed quickly and without a panic.
//!
//! Each entity satisfies its invariants. A valid configuration has no path outside its folder.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_domain::docsets::DocsetConfig;
use reqlore_domain::front_matter::{self, FieldValue, KeyEdit};
use reqlore_domain::knowledge::Entity;

const FOLDER: &str = "/home/me/app";

fuzz_target!(|text: &str| {
    let parts = front_matter::split(text);
    assert!(text.ends_with(parts.body), "the body is the end of the text");
    let keys = front_matter::parse(parts).map_or_else(|_| Vec::new(), |map| map.entries);
    for entry in keys.iter().take(3) {
        let key = entry.key.as_str();
        for value in
            [None, Some(FieldValue::from("a: b")), Some(FieldValue::List(vec!["x".to_owned()]))]
        {
            if let Ok(edited) = front_matter::edit(text, &[KeyEdit { key, value }], &[]) {
                assert_eq!(front_matter::split(&edited).body, parts.body);
            }
        }
    }
    let (entity, diagnostic) = Entity::parse("decisions/dec-1d2c8f", text);
    assert!(!entity.id.is_empty() && !entity.id.chars().any(char::is_control), "{:?}", entity.id);
    assert!(!entity.title.contains('\n'), "{:?}", entity.title);
    assert!(entity.tags.iter().all(|tag| !tag.trim().is_empty()), "{:?}", entity.tags);
    let lines = text.split('\n').count();
    if let Some(line) = diagnostic.and_then(|diagnostic| diagnostic.line) {
        assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
    }
    match DocsetConfig::parse(text, FOLDER) {
        Err(diagnostics) => assert!(!diagnostics.is_empty()),
        Ok(configuration) => {
            for docset in &configuration.docsets {
                let path = &docset.local_path;
                assert!(path.ends_with('/') && !path.contains("/../"), "{path:?}");
                let instruction = docset.render_instruction(&["word"], &[]);
                assert!(!instruction.is_empty());
            }
        }
    }
});

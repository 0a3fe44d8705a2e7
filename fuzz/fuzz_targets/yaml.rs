//! YAML that somebody wrote: an entity's file and the docsets' configuration. Neither may panic or
//! take long; an entity keeps its promises whatever stands in the file, and a configuration that is
//! taken stays inside.

#![no_main]

use libfuzzer_sys::fuzz_target;
use reqlore_domain::docsets::Configuration;
use reqlore_domain::front_matter::{self, KeyEdit, Value};
use reqlore_domain::knowledge::Entity;

const FOLDER: &str = "/home/me/app";

fuzz_target!(|text: &str| {
    let parts = front_matter::split(text);
    assert!(text.ends_with(parts.body), "the body is the end of the text");
    let keys = front_matter::read(parts).map_or_else(|_| Vec::new(), |map| map.entries);
    for entry in keys.iter().take(3) {
        let key = entry.key.as_str();
        for value in [None, Some(Value::from("a: b")), Some(Value::List(vec!["x".to_owned()]))] {
            if let Ok(edited) = front_matter::edit(text, &[KeyEdit { key, value }], &[]) {
                assert_eq!(front_matter::split(&edited).body, parts.body);
            }
        }
    }
    let (entity, fault) = Entity::read("decisions/dec-1d2c8f", text);
    assert!(!entity.id.is_empty() && !entity.id.chars().any(char::is_control), "{:?}", entity.id);
    assert!(!entity.title.contains('\n'), "{:?}", entity.title);
    assert!(entity.tags.iter().all(|tag| !tag.trim().is_empty()), "{:?}", entity.tags);
    let lines = text.split('\n').count();
    if let Some(line) = fault.and_then(|fault| fault.line) {
        assert!((1..=lines + 1).contains(&line), "line {line} of {lines}");
    }
    match Configuration::read(text, FOLDER) {
        Err(faults) => assert!(!faults.is_empty()),
        Ok(configuration) => {
            for docset in &configuration.docsets {
                let path = &docset.local_path;
                assert!(path.ends_with('/') && !path.contains("/../"), "{path:?}");
                let said = docset.instruction(&["word"], &[]);
                assert!(!said.is_empty());
            }
        }
    }
});

//! A prompt's arguments: texts by name. Everything that is wrong with them is told at once.

use std::collections::BTreeMap;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::PromptSpec;
use serde_json::{Map, Value};

/// The longest argument, in characters.
const MOST: usize = 5_000;

/// What was given; a blank text is what clients send for an argument left out.
pub(super) fn read(
    spec: &PromptSpec,
    given: Map<String, Value>,
) -> Result<BTreeMap<String, String>> {
    let mut faults: Vec<(String, String)> = Vec::new();
    let mut read = BTreeMap::new();
    for (name, value) in given {
        if spec.arguments.iter().all(|known| known.name != name) {
            let name: String = name.chars().take(100).collect();
            let taken: Vec<&str> = spec.arguments.iter().map(|known| known.name).collect();
            let taken = taken.join(", ");
            faults.push((name, format!("unknown argument; {} takes {taken}", spec.name)));
            continue;
        }
        match value {
            Value::Null => {}
            Value::String(text) if text.trim().is_empty() => {}
            Value::String(text) => match text.chars().count() {
                0..=MOST => {
                    read.insert(name, text);
                }
                length => {
                    let reason = format!("at most {MOST} characters, this has {length}");
                    faults.push((name, reason));
                }
            },
            _ => faults.push((name, "must be a text".to_owned())),
        }
    }
    let required = || spec.arguments.iter().filter(|argument| argument.required);
    let missing: Vec<&str> = required()
        .map(|argument| argument.name)
        .filter(|name| !read.contains_key(*name) && faults.iter().all(|(field, _)| field != name))
        .collect();
    faults.extend(missing.iter().map(|name| {
        let named = required().find(|argument| argument.name == *name);
        let what = named.map_or("", |argument| argument.description);
        ((*name).to_owned(), format!("required, and missing ({what})"))
    }));
    if faults.is_empty() {
        return Ok(read);
    }
    let told: Vec<String> = faults.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let required: Vec<&str> = required().map(|argument| argument.name).collect();
    let message = format!(
        "Invalid arguments. {}. {} requires: {}.",
        told.join(". "),
        spec.name,
        required.join(", ")
    );
    let error = Error::new(ErrorKind::InvalidArgument, message);
    Err(match faults.into_iter().next() {
        Some((field, _)) => error.field(field),
        None => error,
    })
}

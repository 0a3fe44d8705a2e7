//! The constant fixtures of the suite: lists and fixed answers.
//!
//! It stands in `fixtures.json` in the words of the protocol, as the suite's own descriptions do,
//! and is read into rmcp's types once, so a word that does not fit ends the program at its start.

use std::collections::BTreeMap;

use rmcp::model::{
    CallToolResult, GetPromptResult, InputRequests, Prompt, ReadResourceResult, Resource,
    ResourceTemplate, Tool,
};
use serde_json::{Value, from_value};

pub(crate) struct Fixtures {
    pub(crate) tools: Vec<Tool>,
    /// Fixed answers of tools.
    pub(crate) results: BTreeMap<String, CallToolResult>,
    pub(crate) resources: Vec<Resource>,
    pub(crate) templates: Vec<ResourceTemplate>,
    pub(crate) contents: BTreeMap<String, ReadResourceResult>,
    pub(crate) prompts: Vec<Prompt>,
    /// Texts of prompts, with `{name}` for each argument.
    pub(crate) messages: Value,
    /// Of tools and prompts that ask back: what they ask in each round.
    pub(crate) rounds: BTreeMap<String, Vec<InputRequests>>,
}

impl Fixtures {
    pub(crate) fn read() -> serde_json::Result<Self> {
        let mut text: Value = serde_json::from_str(include_str!("../fixtures.json"))?;
        let mut take = |name: &str| text[name].take();
        Ok(Self {
            tools: from_value(take("tools"))?,
            results: from_value(take("results"))?,
            resources: from_value(take("resources"))?,
            templates: from_value(take("templates"))?,
            contents: from_value(take("contents"))?,
            prompts: from_value(take("prompts"))?,
            messages: take("messages"),
            rounds: from_value(take("rounds"))?,
        })
    }

    /// The messages of a prompt with its arguments in them; `None` where there is no such prompt.
    pub(crate) fn message(&self, name: &str, given: &Value) -> Option<GetPromptResult> {
        let mut messages = self.messages.get(name)?.clone();
        fill(&mut messages, given);
        from_value(messages).ok()
    }
}

fn fill(value: &mut Value, given: &Value) {
    match value {
        Value::String(text) => {
            for (name, word) in given.as_object().into_iter().flatten() {
                *text = text.replace(&format!("{{{name}}}"), word.as_str().unwrap_or_default());
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, given)),
        Value::Object(values) => values.values_mut().for_each(|value| fill(value, given)),
        _ => {}
    }
}

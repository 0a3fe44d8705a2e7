//! The constant fixtures of the suite: lists and fixed answers from `fixtures.json`.
//!
//! They are parsed into rmcp's types once, so an invalid fixture fails at start.

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
    /// The questions of each round, for tools and prompts that request more input.
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

    /// The messages of a prompt with its arguments; `None` for an unknown prompt.
    pub(crate) fn message(&self, name: &str, arguments: &Value) -> Option<GetPromptResult> {
        let mut messages = self.messages.get(name)?.clone();
        fill_placeholders(&mut messages, arguments);
        from_value(messages).ok()
    }
}

fn fill_placeholders(value: &mut Value, arguments: &Value) {
    match value {
        Value::String(text) => {
            for (name, word) in arguments.as_object().into_iter().flatten() {
                *text = text.replace(&format!("{{{name}}}"), word.as_str().unwrap_or_default());
            }
        }
        Value::Array(values) => {
            for value in values {
                fill_placeholders(value, arguments);
            }
        }
        Value::Object(values) => {
            for value in values.values_mut() {
                fill_placeholders(value, arguments);
            }
        }
        _ => {}
    }
}

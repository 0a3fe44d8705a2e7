//! What every tool is: words for clients, and an act.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::Context;

/// One tool. Implementations live one to a file.
#[async_trait]
pub(crate) trait Tool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Runs the tool; the caller's right to it is checked already.
    async fn call(&self, context: &Context, spec: &ToolSpec, call: Call) -> Result<Reply>;
}

/// The JSON Schema (2020-12) of a type: self-contained, and with standard words only, because some
/// clients refuse a tool over a word that they don't know.
pub(crate) fn schema<T: JsonSchema>() -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.transforms.push(Box::new(RecursiveTransform(|schema: &mut Schema| {
        schema.remove("format");
        // What may be left out is not null then, and null is refused.
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description = description.replace('\n', " ");
        }
    })));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    // Some clients want it even where there is nothing to say.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema.as_object().cloned().unwrap_or_default()
}

/// The schema of a tool's answers. It refuses no further keys: a later version may say more.
pub(crate) fn answer_schema<T: JsonSchema>() -> Map<String, Value> {
    fn lean(value: &mut Value) {
        match value {
            Value::Object(object) => {
                object.remove("additionalProperties");
                object.values_mut().for_each(lean);
            }
            Value::Array(items) => items.iter_mut().for_each(lean),
            _ => {}
        }
    }
    let mut schema = schema::<T>();
    schema.values_mut().for_each(lean);
    schema.remove("additionalProperties");
    schema
}

/// An answer with one text block.
pub(crate) fn reply(text: String, data: &impl Serialize) -> Result<Reply> {
    let data = serde_json::to_value(data).map_err(|error| {
        let kind = reqlore_domain::error::ErrorKind::Internal;
        reqlore_domain::error::Error::new(kind, "The answer could not be written.").caused_by(error)
    })?;
    Ok(Reply { text: vec![text], data: Arc::new(data) })
}

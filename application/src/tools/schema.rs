//! JSON Schemas of the arguments and answers of tools.
//!
//! Arguments use only the keywords that Gemini, OpenAI, Anthropic and their SDKs accept. The types
//! of the arguments validate more than the schema says, and their errors name the limit.

use reqlore_domain::ports::service::ToolSpec;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value};

/// Returns the JSON Schema (2020-12) of a type, without references.
///
/// It has standard keywords only, because some clients reject tools with unknown keywords.
fn json_schema<T: JsonSchema>(simplify: fn(&mut Schema)) -> Map<String, Value> {
    let mut settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.transforms.push(Box::new(RecursiveTransform(move |schema: &mut Schema| {
        // Formats such as `uint64` are not part of JSON Schema.
        schema.remove("format");
        if schema.get("default").is_some_and(Value::is_null) {
            schema.remove("default");
        }
        if let Some(Value::String(description)) = schema.get_mut("description") {
            // Line breaks of doc comments cost tokens and mean nothing.
            *description = description.replace('\n', " ");
        }
        // A schema of additional keys stays.
        if schema.get("additionalProperties").is_some_and(Value::is_boolean) {
            schema.remove("additionalProperties");
        }
        simplify(schema);
    })));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    // The title is the name of the Rust type.
    schema.remove("title");
    // Some clients require it even when it is empty.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema.as_object().cloned().unwrap_or_default()
}

/// Returns the schema of a tool's arguments. Optional arguments may be absent but not null.
///
/// An unknown argument is not in the schema; `decode_arguments` rejects it.
pub(crate) fn argument_schema<T: JsonSchema>() -> Map<String, Value> {
    json_schema::<T>(|schema| {
        // An optional enum lists null as a value.
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.retain(|value| !value.is_null());
            // Gemini takes no enum without a type.
            schema.insert("type".to_owned(), "string".into());
        }
        // schemars makes the type of an `Option` a list of its type and null.
        if let Some(Value::Array(types)) = schema.get("type") {
            let first = types[0].clone();
            schema.insert("type".to_owned(), first);
        }
        // Models pay for each keyword, and count no characters. The types of the arguments check
        // them all.
        for keyword in ["default", "maxItems", "maxLength", "minItems", "minLength", "pattern"] {
            schema.remove(keyword);
        }
    })
}

/// Returns the schema of a tool's answer. Additional keys are allowed, so a later version can add
/// some.
pub(crate) fn answer_schema<T: JsonSchema>() -> Map<String, Value> {
    json_schema::<T>(|schema| _ = schema.remove("additionalProperties"))
}

/// The schema of an argument; `None` if the tool has no such argument.
pub(crate) fn property<'a>(spec: &'a ToolSpec, name: &str) -> Option<&'a Value> {
    spec.input_schema.get("properties")?.get(name)
}

pub(crate) fn required_names(spec: &ToolSpec) -> impl Iterator<Item = &str> {
    let names = spec.input_schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

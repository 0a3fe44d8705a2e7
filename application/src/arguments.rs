//! From a call's JSON to a tool's own arguments. All validation of shape happens here, by types.
//!
//! The good path decodes once. Only when that fails are the arguments looked at one by one, so
//! that the error names everything that is wrong and not just the first.

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::ToolSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// How much of a reason is told; the rest would be the caller's own text.
const REASON: usize = 300;

pub(crate) fn decode<T: DeserializeOwned>(
    arguments: Map<String, Value>,
    spec: &ToolSpec,
) -> Result<T> {
    let arguments = Value::Object(arguments);
    // Straight from the values: following the path costs an allocation at every step.
    match T::deserialize(&arguments) {
        Ok(decoded) => Ok(decoded),
        Err(_) => Err(explain::<T>(arguments, spec)),
    }
}

/// An optional argument: it may be left out, and when it is there it must fit; null does not.
pub(crate) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn explain<T: DeserializeOwned>(mut arguments: Value, spec: &ToolSpec) -> Error {
    let mut faults = shape_faults(&arguments, spec);
    // Each round takes out the argument that is to blame; what is missing was told above.
    while let Err(error) = serde_path_to_error::deserialize::<_, T>(&arguments) {
        let path = error.path().to_string();
        let name = path.split(['.', '[']).next().unwrap_or_default().to_owned();
        let Some(object) = arguments.as_object_mut() else {
            break;
        };
        if object.remove(&name).is_none() {
            break;
        }
        if !faults.iter().any(|(field, _)| *field == name) {
            let reason: String = error.inner().to_string().chars().take(REASON).collect();
            faults.push((path, reason));
        }
    }
    let fields = || faults.iter().map(|(field, reason)| format!("{field}: {reason}"));
    let message = format!("Invalid arguments. {}.", fields().collect::<Vec<_>>().join(". "));
    let error = Error::new(ErrorKind::InvalidArgument, message);
    match faults.into_iter().next() {
        Some((field, _)) => error.field(field),
        None => error,
    }
}

/// Unknown and missing arguments, by the published schema.
fn shape_faults(arguments: &Value, spec: &ToolSpec) -> Vec<(String, String)> {
    let given = arguments.as_object();
    let properties = spec.input_schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> =
        properties.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let unknown = given.into_iter().flatten().filter(|(name, _)| !known.contains(&name.as_str()));
    let taken = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    let unknown = unknown.map(|(name, _)| {
        let name: String = name.chars().take(REASON).collect();
        (name, format!("unknown argument; {} takes {taken}", spec.name))
    });
    let required = spec.input_schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str);
    let missing =
        required.filter(|name| given.and_then(|given| given.get(*name)).is_none_or(Value::is_null));
    let missing = missing.map(|name| (name.to_owned(), "required, and missing".to_owned()));
    unknown.chain(missing).collect()
}

//! Other names that callers use for arguments and values. The schemas do not list them.

use reqlore_domain::backlog::fields::find_by_name;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::kinds::{self, ItemKind};

use crate::tools::schema::{property, required_names};

/// Other names of statuses, types and sort orders, without separators, and the real ones.
const VALUES: [(&str, &str); 10] = [
    ("rule", "section"),
    ("rules", "section"),
    ("entity", "knowledge"),
    ("entities", "knowledge"),
    ("canceled", "Cancelled"),
    ("completed", "Done"),
    ("nfr", "Non-Functional"),
    ("relatedto", "relates_to"),
    ("derivedfrom", "derives_from"),
    ("updatedat", "updated"),
];

/// Other names of the argument that names the item of a call. Answers use `reference_id`.
const ID_NAMES: [&str; 3] = ["id", "reference", "reference_id"];

/// Its specification accepts only the arguments of its schema.
const EXACT_TOOL: &str = "get_user_story_requirements";

/// Finds a value by its name in any spelling, by its plural or by a synonym.
pub(crate) fn find_value<T: Copy>(
    values: &[T],
    name: impl Fn(&T) -> &str,
    given: &str,
) -> Option<T> {
    let given = given.trim();
    // Names first, so that a synonym never hides a value of this name.
    find_by_name(values, &name, given)
        .or_else(|| find_by_name(values, &name, given.strip_suffix(['s', 'S'])?))
        .or_else(|| find_by_name(values, &name, kinds::find_kind(given)?.name))
        .or_else(|| {
            let (_, real) = find_by_name(&VALUES, |(synonym, _)| synonym, given)?;
            find_by_name(values, &name, real)
        })
}

/// Returns the argument of the tool for which `name` is a synonym.
pub(crate) fn find_argument<'a>(spec: &'a ToolSpec, name: &str) -> Option<&'a str> {
    if property(spec, name).is_some() {
        return None;
    }
    if ID_NAMES.contains(&name) {
        return item_argument(spec);
    }
    let real = match name {
        "body" => "description",
        "description" => "body",
        _ => return None,
    };
    property(spec, real).map(|_| real)
}

/// The argument that names the item of the call; `None` if the item is new.
fn item_argument(spec: &ToolSpec) -> Option<&str> {
    // A required reference of a new item is its parent.
    if spec.name == EXACT_TOOL || spec.name.starts_with("create_") {
        return None;
    }
    required_names(spec)
        .find(|name| ["id", "reference"].contains(name) || ItemKind::from_name(name).is_some())
}

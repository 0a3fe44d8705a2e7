//! Custom fields for the values of a source that no field of the project takes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use reqlore_domain::ports::exchange::{ImportMapping, ImportedItem, ImportedItems};
use reqlore_domain::records::answers::csv::value_text;
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::kinds::find_kind;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::values::{is_built_in, is_field_name};
use serde_json::{Value, json};

use super::item_values::{is_empty, key_form};

/// Tried in this order: the first type that accepts all values is that of the field.
const TYPES: [CustomType; 5] =
    [CustomType::Number, CustomType::Date, CustomType::Url, CustomType::Text, CustomType::Tags];

/// Returns tables to append to the schema of the project, and adds a note for each. Values that no
/// type has, such as several lines, stay extra keys.
pub fn new_fields(
    schema: &RecordSchema,
    mapping: &ImportMapping,
    imported: &mut ImportedItems,
) -> String {
    let mut tables = String::new();
    let found = collect(schema, &imported.items);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for name in found.keys() {
        *counts.entry(key_form(name)).or_default() += 1;
    }
    for (name, NewField { kinds, values }) in found {
        let field = key_form(name);
        // One of two names with the same form would have the values of both.
        let is_name = is_field_name(&field) && !is_built_in(&field) && counts[&field] == 1;
        let field_type = TYPES.into_iter().find(|one| is_name && accepts_all(*one, &values));
        let Some(field_type) = field_type else { continue };
        let column = mapping.columns.iter().find(|(_, field)| *field == name);
        let label = column.map_or(name, |(column, _)| column).trim();
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let type_name = field_type.name();
        // A string of JSON is one of TOML, unless it has a control character.
        let label: String = label.chars().filter(|c| !c.is_control()).collect();
        _ = writeln!(
            tables,
            "\n[fields.{field}]\nlabel = {}\ntype = \"{type_name}\"\nkinds = {}",
            json!(label),
            json!(kinds)
        );
        imported.notes.push(format!("{label}: new field {field} ({type_name})"));
    }
    tables
}

#[derive(Default)]
struct NewField<'i> {
    kinds: BTreeSet<&'static str>,
    values: Vec<&'i Value>,
}

/// The values that no field of the project takes, by name.
fn collect<'i>(
    schema: &RecordSchema,
    items: &'i [ImportedItem],
) -> BTreeMap<&'i str, NewField<'i>> {
    let mut found: BTreeMap<&str, NewField<'_>> = BTreeMap::new();
    for item in items {
        let Some(kind) = find_kind(&item.kind) else { continue };
        for (name, value) in &item.values {
            let is_known = |name: &str| schema.field(name).is_some();
            if !(is_empty(value)
                || is_built_in(name)
                || is_known(name)
                || is_known(&key_form(name)))
            {
                let field = found.entry(name).or_default();
                field.kinds.insert(kind.name);
                field.values.push(value);
            }
        }
    }
    found
}

fn accepts_all(field_type: CustomType, values: &[&Value]) -> bool {
    let field = CustomField { field_type, ..CustomField::default() };
    values.iter().all(|value| {
        let text = value_text(value);
        // `007` and `1.10` would be displayed as 7 and 1.1.
        let is_same = field_type != CustomType::Number
            || text.parse::<f64>().is_ok_and(|number| number.to_string() == text);
        is_same && field.parse(value).is_ok()
    })
}

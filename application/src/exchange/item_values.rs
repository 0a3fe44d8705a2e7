//! The values of imported items and of stored records in one form, so that both have the same hash.

use std::collections::BTreeMap;

use litemap::{Entry, LiteMap};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::{Assignee, Description, Priority, Tags, Title, find_by_name};
use reqlore_domain::backlog::rank::is_rank;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::Version;
use reqlore_domain::ports::exchange::ImportedItem;
use reqlore_domain::records::answers::csv::{split_list, value_text};
use reqlore_domain::records::answers::lists::ListedItem;
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::edit::check_relation;
use reqlore_domain::records::extra::{MAX_EXTRA_KEYS, check_extra};
use reqlore_domain::records::fields::{FieldType, RecordField, fields_of};
use reqlore_domain::records::kinds::RecordKind;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::values::is_field_name;
use serde_json::{Map, Value, json};

use super::report::ImportReport;

/// Values by the argument of a tool, `fields.NAME`, `extra.NAME` or `parent`. A text is the hash of
/// the text.
pub(super) type ItemValues = LiteMap<String, Value>;

/// Maximum number of values of one item, so that a map of them stays small.
const MAX_VALUES: usize = 1_000;

/// Converts an item. Adds problems that prevent its import, and notes on values that become extra
/// keys.
pub(super) struct ItemReader<'a> {
    pub(super) schema: &'a RecordSchema,
    /// The values of fields by their text in the source.
    pub(super) mapped: &'a BTreeMap<String, BTreeMap<String, String>>,
    pub(super) users: Option<&'a [String]>,
    pub(super) report: &'a mut ImportReport,
}

impl ItemReader<'_> {
    pub(super) fn read(
        &mut self,
        kind: &'static RecordKind,
        item: &mut ImportedItem,
    ) -> ItemValues {
        // With the title and the text.
        let mut values = ItemValues::with_capacity(item.values.len() + 2);
        let has_title = fields_of(kind).any(|field| field.field_type == FieldType::Title);
        if !has_title && item.text.trim().is_empty() {
            item.text.clone_from(&item.title);
        }
        item.title = item.title.split_whitespace().collect::<Vec<_>>().join(" ");
        if item.text.contains('\r') {
            item.text = item.text.replace("\r\n", "\n");
        }
        let text = item.text.trim_matches(['\r', '\n']);
        if text.len() < item.text.len() {
            item.text = text.to_owned();
        }
        let mut problems = Vec::new();
        if has_title {
            values.insert("title".to_owned(), json!(item.title));
            problems.extend(Title::try_from(item.title.clone()).err().map(|one| ("title", one)));
        }
        if !(item.lacks_text && item.text.is_empty()) {
            values.insert("text".to_owned(), text_hash(&item.text));
        }
        problems.extend(Description::try_from(item.text.clone()).err().map(|one| ("text", one)));
        for (field, problem) in problems {
            self.report.problem(format!("{}: {field}: {problem}", item.source));
        }
        if item.values.len() > MAX_VALUES {
            let (source, count) = (&item.source, item.values.len());
            self.report.problem(format!(
                "{source}: it has {count} values; at most {MAX_VALUES} are allowed, leave columns \
                 out in the mapping file"
            ));
            item.values.clear();
        }
        let mut given: Vec<(String, Value)> =
            std::mem::take(&mut item.values).into_iter().collect();
        // A name that is that of a field comes before one that has the same form.
        given.sort_by_key(|(name, _)| !is_field_name(name));
        for (name, value) in given {
            self.read_value(kind, item, &name, &value, &mut values);
        }
        values
    }

    fn read_value(
        &mut self,
        kind: &'static RecordKind,
        item: &ImportedItem,
        name: &str,
        value: &Value,
        values: &mut ItemValues,
    ) {
        let text = value_text(value);
        let mapped = self.mapped.get(name).and_then(|values| values.get(text.trim()));
        let mapped = mapped.filter(|text| !text.is_empty()).map(|text| json!(text));
        let value = mapped.as_ref().unwrap_or(value);
        let is_settable = |field: &&RecordField| {
            // A source may have other values with the names of the others, such as `title`.
            let is_set = matches!(
                field.field_type,
                FieldType::Status
                    | FieldType::Priority
                    | FieldType::Choice(_)
                    | FieldType::User
                    | FieldType::Tags
                    | FieldType::Rank
            );
            field.name == name && is_set && (field.is_editable || name == "rank")
        };
        let key = (kind.name, ItemKind::from_name(kind.name).is_none());
        let built_in = fields_of(kind).find(is_settable);
        let find_custom = |name: &str| self.schema.find_field(key, name).ok();
        let custom = match built_in {
            Some(_) => None,
            None => find_custom(name).or_else(|| find_custom(&key_form(name))),
        };
        let read = match (built_in, custom) {
            (Some(field), _) => self.read_built_in(kind, field, value),
            (None, Some(field)) => self.read_custom(field, value).map(Some),
            (None, None) => return self.add_extra(item, name, value, values),
        };
        match (read, custom) {
            (Ok(None), _) => {}
            (Ok(Some(value)), None) => _ = values.insert(name.to_owned(), value),
            (Ok(Some(field_value)), Some(field)) => {
                match values.entry(format!("fields.{}", field.name)) {
                    Entry::Vacant(entry) => _ = entry.insert(field_value),
                    Entry::Occupied(_) => self.add_extra(item, name, value, values),
                }
            }
            (Err(problem), _) => {
                let key = format!("source_{name}");
                // Once, because one entry of the mapping covers all items with this value.
                if self.report.add_unknown(name, &text) {
                    let source = &item.source;
                    let note = format!("{source}: {name}: {problem}; kept as the key {key}");
                    self.report.notes.push(note);
                }
                self.add_extra(item, &key, value, values);
            }
        }
    }

    /// The value of a field; `None` for an empty one that every record has.
    fn read_built_in(
        &self,
        kind: &RecordKind,
        field: &RecordField,
        value: &Value,
    ) -> Result<Option<Value>, String> {
        let text = value_text(value);
        let text = text.trim();
        let value = match field.field_type {
            FieldType::Tags => {
                let tags = if value.is_array() { value.clone() } else { json!(split_list(text)) };
                let checked: Result<Tags, _> = serde_json::from_value(tags.clone());
                checked.map_err(|error| error.to_string())?;
                tags
            }
            FieldType::User => {
                json!(self.user(&Assignee::try_from(text.to_owned())?.into_string())?)
            }
            FieldType::Rank if text.is_empty() || is_rank(text) => json!(text),
            FieldType::Rank => {
                return Err(format!(
                    "{:?} is not a rank; use letters and digits",
                    truncate_echo(text)
                ));
            }
            _ if text.is_empty() => return Ok(None),
            FieldType::Status => match ItemKind::from_name(kind.name) {
                Some(kind) => json!(self.schema.find_status(kind, text)?.name()),
                None => json!(self.schema.find_entity_status(kind.name, text)?.unwrap_or(text)),
            },
            FieldType::Priority => match Priority::parse(text) {
                Some(priority) => json!(priority.number()),
                None => {
                    return Err(format!("{:?} is not 1 Critical to 4 Low", truncate_echo(text)));
                }
            },
            FieldType::Choice(names) => {
                let found = find_by_name(names, |name| name, text);
                json!(found.ok_or_else(|| {
                    format!("{:?} is not one of {}", truncate_echo(text), names.join(", "))
                })?)
            }
            _ => json!(text),
        };
        Ok(Some(value))
    }

    fn read_custom(&self, field: &CustomField, value: &Value) -> Result<Value, String> {
        let value = field.parse(value)?;
        let texts: Vec<String> = match &value {
            Value::Null => return Ok(value),
            Value::Array(texts) => texts.iter().map(value_text).collect(),
            Value::String(user) if field.field_type == CustomType::User => vec![self.user(user)?],
            value => vec![value_text(value)],
        };
        Ok(field.answer(&texts))
    }

    /// The name of a user as the server spells it.
    fn user(&self, name: &str) -> Result<String, String> {
        let Some(users) = self.users.filter(|_| !name.is_empty()) else {
            return Ok(name.to_owned());
        };
        let found = users.iter().find(|user| user.eq_ignore_ascii_case(name));
        let unknown = || format!("{:?} is not a user of this server", truncate_echo(name));
        found.cloned().ok_or_else(unknown)
    }

    /// Adds an extra key with a valid name.
    pub(super) fn add_extra(
        &mut self,
        item: &ImportedItem,
        name: &str,
        value: &Value,
        values: &mut ItemValues,
    ) {
        let text = value_text(value);
        let form = extra_name(name, self.schema);
        // Names may differ only in letters that a key cannot have.
        let numbered = (2..=MAX_EXTRA_KEYS).map(|number| format!("{form}_{number}"));
        let mut keys = std::iter::once(form.clone()).chain(numbered);
        let Some(key) = keys.find(|key| !values.contains_key(&format!("extra.{key}"))) else {
            let problem = format!("{MAX_EXTRA_KEYS} other keys are named {form}");
            self.report.notes.push(format!("{}: {name} was ignored: {problem}", item.source));
            return;
        };
        match check_extra(&key, &text, self.schema) {
            Ok(()) => _ = values.insert(format!("extra.{key}"), json!(text)),
            Err(problem) => {
                self.report.notes.push(format!("{}: {name} was ignored: {problem}", item.source));
            }
        }
    }
}

/// The name of an extra key for a column.
fn extra_name(name: &str, schema: &RecordSchema) -> String {
    if is_field_name(name) && check_extra(name, "", schema).is_ok() {
        return name.to_owned();
    }
    let key = key_form(name);
    let is_valid = is_field_name(&key) && check_extra(&key, "", schema).is_ok();
    if is_valid { key } else { format!("source_{key}") }
}

/// Leaves room for a prefix and a number.
const MAX_KEY_CHARS: usize = 30;

/// The heading of a column as the name of a field or key: letters, digits and `_`.
pub(super) fn key_form(name: &str) -> String {
    let mut key = String::new();
    for c in name.to_lowercase().chars() {
        match c {
            'a'..='z' | '0'..='9' => key.push(c),
            'ä' => key.push_str("ae"),
            'ö' => key.push_str("oe"),
            'ü' => key.push_str("ue"),
            'ß' => key.push_str("ss"),
            _ if key.ends_with('_') => {}
            _ => key.push('_'),
        }
    }
    key.trim_matches('_').chars().take(MAX_KEY_CHARS).collect()
}

/// The values of a stored record, without its parent and links.
pub(super) fn record_values(item: &ListedItem) -> ItemValues {
    let text = |text: &Option<String>| text.as_ref().map_or(Value::Null, |text| json!(text));
    let mut values = ItemValues::from_iter([
        ("title".to_owned(), json!(item.title.split_whitespace().collect::<Vec<_>>().join(" "))),
        ("status".to_owned(), text(&item.status)),
        ("priority".to_owned(), json!(item.priority)),
        ("type".to_owned(), json!(item.type_name)),
        ("assignee".to_owned(), text(&item.assignee_username)),
        ("tags".to_owned(), json!(item.tags)),
        ("rank".to_owned(), text(&item.rank)),
        ("text".to_owned(), text_hash(item.description.as_deref().unwrap_or_default())),
    ]);
    for (name, value) in &item.fields {
        values.insert(format!("fields.{name}"), value.clone());
    }
    for (name, value) in &item.extra {
        values.insert(format!("extra.{name}"), value.clone());
    }
    values
}

fn text_hash(text: &str) -> Value {
    json!(short_hash(text.trim_matches(['\r', '\n'])))
}

pub(super) fn is_empty(value: &Value) -> bool {
    value.is_null() || *value == json!("") || *value == json!([])
}

/// The hash of the values that the source gives: 16 hexadecimal digits.
pub(super) fn values_hash(values: &ItemValues, given: &ItemValues) -> String {
    let mut hashed = Map::new();
    for key in given.keys() {
        // The import that adds a field finds the extra key of an earlier one.
        let grouped = key.split_once('.');
        let other_group = || {
            let (group, name) = grouped?;
            values.get(&format!("{}.{name}", if group == "fields" { "extra" } else { "fields" }))
        };
        let value = match values.get(key).or_else(other_group) {
            // A server spells a user like its name.
            Some(Value::String(name)) if key == "assignee" => json!(name.to_lowercase()),
            Some(Value::Array(list)) => json!(unique_texts(list)),
            Some(value) if grouped.is_some() && !value.is_null() => json!(value_text(value)),
            value => value.cloned().unwrap_or_default(),
        };
        // A record does not have empty values.
        if !is_empty(&value) {
            hashed.insert(grouped.map_or(&**key, |(_, name)| name).to_owned(), value);
        }
    }
    short_hash(&Value::Object(hashed).to_string())
}

fn unique_texts(list: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for value in list {
        let text = value_text(value).trim().to_owned();
        if !text.is_empty() && !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

pub(super) fn short_hash(text: &str) -> String {
    Version::of_bytes(text.as_bytes()).to_string()
}

/// True for a relation that tools set for records of this kind.
pub(super) fn has_relation(kind: &RecordKind, relation: &str) -> bool {
    let is_relation = |field: &RecordField| match field.field_type {
        FieldType::Relationship(one) => one.name() == relation,
        FieldType::Links => check_relation(relation).is_ok(),
        _ => false,
    };
    fields_of(kind).any(is_relation)
}

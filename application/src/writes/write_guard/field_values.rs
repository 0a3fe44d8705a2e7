//! Values of fields that writes replace, in documents and in the data of answers.

use std::hash::{DefaultHasher, Hash, Hasher};

use reqlore_domain::backlog::{ItemMeta, Reference, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentKind};
use reqlore_domain::front_matter;
use reqlore_domain::knowledge::{Entity, EntityLink};
use reqlore_domain::name_form::fold_name;
use reqlore_domain::records::answers::document_label::SECTION_REQUIREMENT;
use reqlore_domain::records::tombstone::RecordRef;
use reqlore_domain::records::values::{CustomValues, is_built_in};
use reqlore_domain::sections::Section;
use reqlore_domain::timestamp::Timestamp;
use serde_json::Value;

use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::tools::arguments::CUSTOM_FIELDS;

/// The key of the value that stands for all absent ones of its group.
pub(super) const ABSENT: &str = "";

pub(super) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A field of an item or entity, the targets of a relation, or the text of a rule.
#[derive(Clone)]
pub(crate) struct FieldValue {
    /// Identifies the values that are shown together: the fields of an item, the links of an
    /// entity, or the rules of a section.
    pub(super) group: u64,
    /// Identifies the value in its group.
    pub(super) key: u64,
    /// As answers print it.
    pub(super) id: String,
    pub(super) name: String,
    /// Empty if it is absent.
    pub(super) text: String,
}

impl FieldValue {
    fn field(project: &str, id: &str, name: &str, text: String) -> Self {
        let (group, key) = (hash_of(&(project, id)), hash_of(name));
        Self { group, key, id: id.to_owned(), name: name.to_owned(), text }
    }

    pub(super) fn rule(project: &str, section: &str, index: &str, text: String) -> Self {
        let group = hash_of(&(project, fold_name(section), "rules"));
        let (id, name) = (format!("{section}:{index}"), "text".to_owned());
        Self { group, key: hash_of(index), id, name, text }
    }

    fn of_rules(project: &str, section: &str, text: &str, is_whole: bool) -> Vec<Self> {
        let absent = is_whole.then(|| Self::rule(project, section, ABSENT, String::new()));
        let mut values = Vec::from_iter(absent);
        let rules = Section::parse(text);
        // An index names the first rule that has it, and the last value of a key is noted.
        for rule in rules.requirements().iter().rev() {
            values.push(Self::rule(project, section, rule.index, rules.text(rule)));
        }
        values
    }

    /// The links of an entity, sorted by relation.
    pub(crate) fn of_links(project: &str, id: &str, links: &[EntityLink]) -> Vec<Self> {
        let group = hash_of(&(project, id, "links"));
        let of_relation = |relation: &str, is_certain: bool| {
            // A value that is not an ID may belong to a custom field.
            let is_link = is_certain || is_built_in(relation);
            let group_name = if is_link { "links" } else { CUSTOM_FIELDS };
            let (key, name) = (hash_of(relation), format!("{group_name}.{relation}"));
            Self { group, key, id: id.to_owned(), name, text: String::new() }
        };
        let mut values = vec![of_relation(ABSENT, true)];
        for EntityLink { relation, attribute, target, is_certain } in links {
            let same = values.pop_if(|last| last.key == hash_of(&**relation));
            let mut value = same.unwrap_or_else(|| of_relation(relation, *is_certain));
            let separator = if value.text.is_empty() { "" } else { ", " };
            value.text.extend([separator, target]);
            if let Some(attribute) = attribute {
                value.text.extend([" (", attribute, ")"]);
            }
            values.push(value);
        }
        values
    }

    /// The values of custom fields; `is_shown` accepts their names.
    fn of_custom(
        project: &str,
        id: &str,
        custom: &CustomValues,
        is_shown: impl Fn(&str) -> bool,
    ) -> Vec<Self> {
        let mut values = vec![Self::custom(project, id, ABSENT, String::new())];
        for (name, texts) in custom.iter().filter(|(name, _)| is_shown(name)) {
            values.push(Self::custom(project, id, name, texts.join(", ")));
        }
        values
    }

    fn custom(project: &str, id: &str, field: &str, text: String) -> Self {
        let (group, key) = (hash_of(&(project, id, CUSTOM_FIELDS)), hash_of(field));
        let name = format!("{CUSTOM_FIELDS}.{field}");
        Self { group, key, id: id.to_owned(), name, text }
    }

    pub(super) fn of_item(project: &str, id: &str, item: ItemMeta, text: &str) -> Vec<Self> {
        let custom = Self::of_custom(project, id, &item.custom, |_| true);
        let fields = [
            ("title", item.title),
            ("description", ItemMeta::description(text).to_owned()),
            ("status", item.status.as_ref().map_or("", Status::name).to_owned()),
            ("priority", item.priority.map(|value| value.number().to_string()).unwrap_or_default()),
            ("type", item.requirement_type.map_or("", RequirementType::name).to_owned()),
            ("parent", item.parent.map(|parent| parent.to_string()).unwrap_or_default()),
            ("assignee", item.assignee.unwrap_or_default()),
            ("tags", item.tags.join(", ")),
        ];
        let fields = fields.map(|(name, text)| Self::field(project, id, name, text));
        fields.into_iter().chain(custom).collect()
    }

    fn of_entity(project: &str, entity: Entity, text: &str) -> Vec<Self> {
        let links = Self::of_links(project, &entity.id, &entity.links);
        let is_link = |name: &str| entity.links.iter().any(|link| link.relation == name);
        let custom = Self::of_custom(project, &entity.id, &entity.custom, |name| !is_link(name));
        let fields = [
            ("title", entity.title),
            ("status", entity.status.unwrap_or_default()),
            ("tags", entity.tags.join(", ")),
            ("body", front_matter::body(text).to_owned()),
        ];
        let fields = fields.map(|(name, text)| Self::field(project, &entity.id, name, text));
        fields.into_iter().chain(links).chain(custom).collect()
    }

    /// The fields of an entity that `show` selects, except the body; the custom fields of an item.
    pub(crate) fn of_metadata<Keys: EntryKeys>(
        project: &str,
        record: RecordRef<'_>,
        show: &ShowKeys<Keys>,
    ) -> Vec<Self> {
        let mut values = match record {
            RecordRef::Item(item) => {
                Self::of_custom(project, &item.display_name(""), &item.custom, |_| true)
            }
            RecordRef::Entity(entity) => Self::of_entity(project, entity.clone(), ""),
        };
        values.retain(|value| {
            let key = value.name.split('.').next().unwrap_or_default();
            key != "body" && (show.has(key) || !Keys::KEYS.contains(&key))
        });
        values
    }

    /// The fields of an item or entity, or the rules of a section.
    pub(super) fn of_document(project: &str, document: &Document) -> Vec<Self> {
        let (name, Ok(text)) = (&*document.id.name, document.text()) else { return Vec::new() };
        match document.id.kind {
            DocumentKind::Item(kind) => {
                let (item, _) = ItemMeta::parse(kind, name, text, Timestamp::default());
                let id = item.display_name(name).into_owned();
                Self::of_item(project, &id, item, text)
            }
            DocumentKind::Entity => Self::of_entity(project, Entity::parse(name, text).0, text),
            DocumentKind::Section => Self::of_rules(project, name, text, true),
            _ => Vec::new(),
        }
    }

    /// Ignores differences between answers and files: trailing white space, line ends and the
    /// forms of a number.
    pub(super) fn hash(&self) -> u64 {
        match self.text.trim().parse::<f64>() {
            Ok(number) if self.name.starts_with(CUSTOM_FIELDS) => {
                hash_of(&(number + 0.0).to_bits())
            }
            _ => hash_of(&*self.text.trim_end().replace("\r\n", "\n")),
        }
    }
}

/// Collects the values of all items in data.
pub(super) struct FieldCollector<'a> {
    shows: &'a dyn Fn(&str) -> bool,
    /// The reports of the answer about texts that it cuts.
    cut: String,
    pub(super) values: Vec<FieldValue>,
}

impl<'a> FieldCollector<'a> {
    /// Collects values whose keys `shows` accepts, from an answer with this data.
    pub(super) fn new(data: &Value, shows: &'a dyn Fn(&str) -> bool) -> Self {
        let cut = ["left_out", "cut", "notes"].map(|key| data[key].to_string()).concat();
        Self { shows, cut, values: Vec::new() }
    }

    pub(super) fn add(&mut self, project: &str, data: &Value) {
        match data {
            Value::Array(list) => list.iter().for_each(|data| self.add(project, data)),
            Value::Object(object) => {
                let text = |key| object.get(key).and_then(Value::as_str);
                let has = |key| object.contains_key(key);
                let project = text("project").unwrap_or(project);
                match (text("section"), text("text"), text("reference_id").or(text("id"))) {
                    // A written rule has no count, and chosen rules have the total.
                    (Some(section), Some(rules), _) if has("count") => {
                        let rules = FieldValue::of_rules(project, section, rules, !has("total"));
                        self.values.extend(rules);
                    }
                    (_, _, Some(id)) => {
                        let kind = text("kind").unwrap_or_default();
                        for (key, value) in object {
                            self.add_field(project, (id, kind), key, value);
                        }
                    }
                    _ => {}
                }
                object.values().for_each(|data| self.add(project, data));
            }
            _ => {}
        }
    }

    fn add_field(&mut self, project: &str, (id, kind): (&str, &str), key: &str, value: &Value) {
        let item = Reference::parse(id);
        let name = match key {
            "title" | "description" | "status" | "priority" | "tags" | "raw" => key,
            "text" | "body" if item.is_some() => "description",
            "text" | "body" => "body",
            "type_name" => "type",
            "epic" | "user_story" | "parent" => "parent",
            "assignee_username" => "assignee",
            CUSTOM_FIELDS if (self.shows)(key) => {
                for (field, value) in value.as_object().into_iter().flatten() {
                    self.values.push(FieldValue::custom(project, id, field, text_of(value)));
                }
                return;
            }
            _ => return,
        };
        let reports = ["the text is cut", "raw: ", &format!("{id}: "), &format!("{id} is cut")];
        let is_text = matches!(name, "description" | "body" | "raw");
        if !(self.shows)(key) || (is_text && reports.iter().any(|cut| self.cut.contains(cut))) {
            return;
        }
        let text = text_of(value);
        self.values.extend(match (kind, name, item) {
            ("section", "body" | "raw", _) => FieldValue::of_rules(project, id, &text, true),
            (SECTION_REQUIREMENT, "body" | "raw", _) => {
                let (section, index) = id.rsplit_once(':').unwrap_or((id, ABSENT));
                if name == "raw" {
                    FieldValue::of_rules(project, section, &text, false)
                } else {
                    vec![FieldValue::rule(project, section, index, text)]
                }
            }
            (_, "raw", Some(Reference { kind, .. })) => {
                let (item, _) = ItemMeta::parse(kind, id, &text, Timestamp::default());
                FieldValue::of_item(project, id, item, &text)
            }
            (_, "raw", None) => {
                let entity = Entity { id: id.to_owned(), ..Entity::parse(id, &text).0 };
                FieldValue::of_entity(project, entity, &text)
            }
            _ => vec![FieldValue::field(project, id, name, text)],
        });
    }
}

/// The text of a value, empty for an absent one.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text_of).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

//! Values of fields that writes replace, in documents and in the data of answers.

use std::hash::{DefaultHasher, Hash, Hasher};

use reqlore_domain::backlog::{ItemMeta, RequirementType, Status};
use reqlore_domain::document::{Document, DocumentKind};
use reqlore_domain::front_matter;
use reqlore_domain::knowledge::Entity;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::{Requirement, Section};
use reqlore_domain::timestamp::Timestamp;
use serde_json::Value;

use crate::document_label::SECTION_REQUIREMENT;

/// The name of the only field of a rule, whose ID is such as `checkout:3`.
pub(super) const RULE_TEXT: &str = "text";

pub(super) fn hash_of(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Wrapping changes the white space of rules.
pub(super) fn hash_text(name: &str, text: &str) -> u64 {
    match name {
        RULE_TEXT => hash_of(&text.split_whitespace().collect::<Vec<_>>()),
        _ => hash_of(text.trim()),
    }
}

/// A field of an item, an entity or a rule.
pub(crate) struct FieldValue {
    project: String,
    /// As answers print it.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
}

impl FieldValue {
    pub(super) fn new(project: &str, id: &str, name: &str, text: String) -> Self {
        Self { project: project.to_owned(), id: id.to_owned(), name: name.to_owned(), text }
    }

    pub(crate) fn of_item(
        project: &ProjectKey,
        item: &ItemMeta,
        document: &Document,
        text: &str,
    ) -> Vec<Self> {
        let id = item.display_name(&document.id.name);
        let fields = [
            ("title", item.title.clone()),
            ("description", ItemMeta::description(text).replace("\r\n", "\n")),
            ("status", item.status.map_or("", Status::name).to_owned()),
            ("priority", item.priority.map(|value| value.number().to_string()).unwrap_or_default()),
            ("type", item.requirement_type.map_or("", RequirementType::name).to_owned()),
            ("parent", item.parent.map(|parent| parent.to_string()).unwrap_or_default()),
            ("assignee", item.assignee.clone().unwrap_or_default()),
            ("tags", item.tags.join(", ")),
        ];
        fields.map(|(name, text)| Self::new(project.as_str(), &id, name, text)).into()
    }

    pub(crate) fn of_entity(project: &str, entity: Entity, text: &str) -> Vec<Self> {
        let fields = [
            ("title", entity.title),
            ("status", entity.status.unwrap_or_default()),
            ("tags", entity.tags.join(", ")),
            ("body", front_matter::body(text).to_owned()),
        ];
        fields.map(|(name, text)| Self::new(project, &entity.id, name, text)).into()
    }

    /// Identifies the item.
    pub(super) fn item(&self) -> u64 {
        hash_of(&(&self.project, &self.id))
    }

    pub(super) fn hash(&self) -> u64 {
        hash_text(&self.name, &self.text)
    }
}

/// The fields of an item or entity, or the rules of a section.
pub(super) fn document_values(project: &ProjectKey, document: &Document) -> Vec<FieldValue> {
    let (name, Ok(text)) = (&*document.id.name, document.text()) else { return Vec::new() };
    match document.id.kind {
        DocumentKind::Item(kind) => {
            let (item, _) = ItemMeta::parse(kind, name, text, Timestamp::default());
            FieldValue::of_item(project, &item, document, text)
        }
        DocumentKind::Entity => {
            FieldValue::of_entity(project.as_str(), Entity::parse(name, text).0, text)
        }
        DocumentKind::Section => {
            let section = Section::parse(text);
            let of_rule = |rule: &Requirement<'_>| {
                let address = format!("{name}:{}", rule.index);
                FieldValue::new(project.as_str(), &address, RULE_TEXT, section.text(rule))
            };
            section.requirements().iter().map(of_rule).collect()
        }
        _ => Vec::new(),
    }
}

/// Collects the values of all items in data.
pub(super) struct FieldCollector<'a> {
    shows: &'a dyn Fn(&str) -> bool,
    /// The reports of the answer about texts that it cuts.
    cut: String,
    values: Vec<FieldValue>,
}

impl<'a> FieldCollector<'a> {
    /// Collects values whose keys `shows` accepts, from an answer with this data.
    pub(super) fn new(data: &Value, shows: &'a dyn Fn(&str) -> bool) -> Self {
        let cut = ["left_out", "cut", "notes"].map(|key| data[key].to_string()).concat();
        Self { shows, cut, values: Vec::new() }
    }

    pub(super) fn collect(mut self, project: &ProjectKey, data: &Value) -> Vec<FieldValue> {
        self.add(project.as_str(), data);
        self.values
    }

    fn add(&mut self, project: &str, data: &Value) {
        match data {
            Value::Array(list) => list.iter().for_each(|data| self.add(project, data)),
            Value::Object(object) => {
                let text = |key| object.get(key).and_then(Value::as_str);
                let project = text("project").unwrap_or(project);
                match (text("section"), text("text"), text("reference_id").or(text("id"))) {
                    (Some(section), Some(rules), _) => self.add_rules(project, section, rules),
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
        let name = match key {
            "title" | "description" | "status" | "priority" | "tags" | "body" | "raw" => key,
            "text" => "body",
            "type_name" => "type",
            "epic" | "user_story" | "parent" => "parent",
            "assignee_username" => "assignee",
            _ => return,
        };
        let reports = ["the text is cut", "raw: ", &format!("{id}: "), &format!("{id} is cut")];
        let is_text = matches!(name, "description" | "body" | "raw");
        if !(self.shows)(key) || (is_text && reports.iter().any(|cut| self.cut.contains(cut))) {
            return;
        }
        let text = text_of(value);
        match (kind, name) {
            ("section", "body" | "raw") => self.add_rules(project, id, &text),
            (SECTION_REQUIREMENT, "body") => self.push(project, id, RULE_TEXT, text),
            (SECTION_REQUIREMENT, "raw") => {
                let section = id.rsplit_once(':').map_or(id, |(section, _)| section);
                self.add_rules(project, section, &text);
            }
            (_, "raw") => {
                let entity = Entity { id: id.to_owned(), ..Entity::parse(id, &text).0 };
                self.values.extend(FieldValue::of_entity(project, entity, &text));
            }
            _ => self.push(project, id, name, text),
        }
    }

    fn add_rules(&mut self, project: &str, section: &str, text: &str) {
        let rules = Section::parse(text);
        // The last one is noted, and an index names the first rule that has it.
        for rule in rules.requirements().iter().rev() {
            let address = format!("{section}:{}", rule.index);
            self.push(project, &address, RULE_TEXT, rules.text(rule));
        }
    }

    fn push(&mut self, project: &str, id: &str, name: &str, text: String) {
        self.values.push(FieldValue::new(project, id, name, text));
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

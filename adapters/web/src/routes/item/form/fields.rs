//! The fields of the forms of items and entities, by kind.

use std::borrow::Cow;
use std::fmt::Write;
use std::iter::once;
use std::time::Instant;

use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, MENTIONS, Priority, Reference};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::records::answers::details::{ItemDetails, ItemView};
use reqlore_domain::records::custom_field::{CustomField, CustomType};
use reqlore_domain::records::fields::{FieldType, RecordField, fields_of};
use reqlore_domain::records::kinds::RecordKind;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::word_diff::{DiffPart, TIME_LIMIT, compare_values};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::form_fields::{FormFields, join_list, split_list, value_text};
use crate::page::capitalize;
use crate::routes::item::answer::{LinkGroup, link_groups};

/// Prefix of the names of custom fields, as in the errors of tools.
const CUSTOM_PREFIX: &str = "fields.";

/// The name of a custom field in forms.
pub(crate) fn custom_name(field: &CustomField) -> String {
    format!("{CUSTOM_PREFIX}{}", field.name)
}

/// The kind of the document that a form edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    Item(ItemKind),
    /// `None` for an existing entity, whose kind does not matter.
    Entity(Option<EntityKind>),
}

impl ContentKind {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let item = ItemKind::from_name(name);
        let entity = || EntityKind::parse(name).filter(|kind| kind.name() == name);
        item.map(Self::Item).or_else(|| entity().map(|kind| Self::Entity(Some(kind))))
    }

    pub(crate) fn of_id(id: &str) -> Self {
        for kind in ItemKind::ALL {
            if Reference::parse_any_case(kind, id) != ParsedReference::Malformed {
                return Self::Item(kind);
            }
        }
        Self::Entity(None)
    }

    /// The row of the kind; that of any entity for an existing one.
    pub(crate) fn row(self) -> &'static RecordKind {
        match self {
            Self::Item(kind) => kind.row(),
            Self::Entity(kind) => kind.map_or(EntityKind::any_row(), EntityKind::row),
        }
    }

    /// The kinds that the form for a new document of this kind offers instead.
    pub(super) fn alternatives(self) -> Vec<Self> {
        match self {
            Self::Item(_) => ItemKind::ALL.map(Self::Item).to_vec(),
            Self::Entity(_) => {
                EntityKind::all().into_iter().map(|kind| Self::Entity(Some(kind))).collect()
            }
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Entity(None) => "",
            kind => kind.row().name,
        }
    }

    pub(super) fn parent_name(self) -> &'static str {
        self.row().parent.map_or("", ItemKind::name)
    }

    /// The argument of the update tool that names the document.
    pub(crate) fn id_argument(self) -> &'static str {
        match self {
            Self::Item(kind) => kind.name(),
            Self::Entity(_) => "id",
        }
    }

    /// The fields with the values of a new document. `kind` is the name of the kind.
    pub(crate) fn fields(self, kind: &str, schema: &RecordSchema) -> Vec<FormField> {
        let fields = fields_of(self.row()).filter(|field| field.is_editable || field.is_required);
        let fields = fields.map(|field| self.form_field(field, kind, schema));
        let is_entity = matches!(self, Self::Entity(_));
        let custom = schema.fields.iter().filter(|field| field.has_kind(kind, is_entity));
        fields.chain(custom.map(FormField::of_custom)).collect()
    }

    fn form_field(
        self,
        field: &'static RecordField,
        kind: &str,
        schema: &RecordSchema,
    ) -> FormField {
        let choices = schema.choices(kind, field);
        let mut options = equal_choices(choices.iter().map(String::as_str));
        match (field.field_type, self) {
            (FieldType::Priority, _) => {
                for (number, (value, _)) in (1_u8..).zip(&mut options) {
                    *value = number.to_string();
                }
            }
            (FieldType::Status, Self::Entity(_)) if !options.is_empty() => {
                options.insert(0, Default::default());
            }
            _ => {}
        }
        let value = match (field.field_type, self) {
            (FieldType::Priority, _) => Priority::DEFAULT.number().to_string(),
            (FieldType::Status, Self::Item(kind)) => {
                schema.initial_status(kind).map(|one| one.name().to_owned()).unwrap_or_default()
            }
            _ => options.first().map(|(value, _)| value.clone()).unwrap_or_default(),
        };
        let control = match field.field_type {
            FieldType::Body | FieldType::Links => FieldControl::Area,
            FieldType::Tags => FieldControl::List,
            _ if options.is_empty() => FieldControl::Line,
            _ => FieldControl::Choice(options),
        };
        let pick = match field.field_type {
            FieldType::Parent(kind) => kind.name(),
            FieldType::User => "user",
            FieldType::Tags => "tag",
            FieldType::Links => "any",
            _ => "",
        };
        let has_default = matches!(control, FieldControl::Choice(_));
        let RecordField { name, label, hint, is_required, .. } = *field;
        let is_required = is_required && !has_default;
        let (name, label, hint) = (name.into(), label.into(), hint.into());
        FormField { name, label, hint, control, pick, is_required, value, ..FormField::default() }
    }
}

impl FormField {
    /// The fields with the values of a document.
    pub(crate) fn of_document(answer: &ItemDetails, schema: &RecordSchema) -> Vec<Self> {
        let item = &answer.item;
        let kind = ContentKind::of_id(item.id());
        let name = if kind.name().is_empty() { item.kind() } else { kind.name() };
        let mut fields = kind.fields(name, schema);
        for field in &mut fields {
            if let Some(name) = field.name.strip_prefix(CUSTOM_PREFIX) {
                if let Some(custom) = schema.field(name) {
                    field.fill_custom(custom, item);
                }
                continue;
            }
            field.fill(&match &*field.name {
                "title" => item.title().to_owned(),
                "description" | "body" => item.text().to_owned(),
                "status" => item.status().unwrap_or_default().to_owned(),
                "priority" => item.priority().map(|number| number.to_string()).unwrap_or_default(),
                "type" => item.type_name().unwrap_or_default().to_owned(),
                "epic" | "user_story" => item.parent().unwrap_or_default().to_owned(),
                "assignee" => item.assignee().unwrap_or_default().to_owned(),
                "tags" => join_list(item.tags()),
                _ => link_lines(answer),
            });
        }
        fields
    }

    /// A custom field without a value.
    fn of_custom(field: &CustomField) -> Self {
        let control = match field.field_type {
            CustomType::Choice => {
                let values = field.choices.iter().map(String::as_str);
                FieldControl::Choice(equal_choices(once("").chain(values)))
            }
            CustomType::Tags => FieldControl::List,
            _ => FieldControl::Line,
        };
        let (input, hint) = match field.field_type {
            CustomType::Text | CustomType::Choice => ("", ""),
            CustomType::Tags => ("", "Separated by commas."),
            CustomType::User => ("", "User name."),
            CustomType::Date => ("type=date", ""),
            CustomType::Number => ("type=number step=any", ""),
            CustomType::Url => ("type=url", "Such as https://example.org."),
        };
        Self {
            name: custom_name(field).into(),
            label: field.label.clone().into(),
            hint: hint.into(),
            is_required: field.is_required,
            control,
            pick: if field.field_type == CustomType::User { "user" } else { "" },
            input,
            ..Self::default()
        }
    }

    fn fill_custom(&mut self, custom: &CustomField, item: &ItemView) {
        let Some(value) = item.fields().get(&custom.name) else {
            // A document that is older than the field can be saved without a value.
            self.is_required = false;
            return self.fill("");
        };
        self.fill(&value_text(value));
        if let Err(problem) = custom.parse(value) {
            // Browsers hide a value that the type of the input does not allow.
            self.input = "";
            self.hint = capitalize(&problem).into();
        }
    }
}

fn equal_choices<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(String, String)> {
    names.map(|name| (name.to_owned(), name.to_owned())).collect()
}

/// The links of an entity's front matter, one relation per line.
fn link_lines(answer: &ItemDetails) -> String {
    let mut lines = String::new();
    for group in own_relations(answer) {
        let ids: Vec<&str> = group.links.iter().map(|link| link.id.as_str()).collect();
        let _ = writeln!(lines, "{}: {}", group.relation, join_list(&ids));
    }
    lines.trim_end().to_owned()
}

/// The relations that the links of a form have.
fn own_relations(answer: &ItemDetails) -> Vec<LinkGroup> {
    let mut groups = link_groups(answer);
    groups.retain(|group| !group.is_incoming && group.relation != MENTIONS);
    groups
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum FieldControl {
    #[default]
    Line,
    /// A line of several texts, separated by commas.
    List,
    Area,
    /// Values and their words.
    Choice(Vec<(String, String)>),
}

/// A field of a form, with its value, its error, and the stored value after a conflict.
#[derive(Debug, Clone, Default)]
pub(crate) struct FormField {
    /// The argument of the tool; `fields.NAME` for a custom field.
    pub(crate) name: Cow<'static, str>,
    pub(crate) label: Cow<'static, str>,
    pub(crate) hint: Cow<'static, str>,
    pub(crate) control: FieldControl,
    /// The kind of its suggestions; empty for a field without.
    pub(crate) pick: &'static str,
    /// HTML attributes of the input of a line, such as its type.
    pub(crate) input: &'static str,
    pub(crate) is_required: bool,
    /// True for the field that has the focus when the page opens.
    pub(crate) has_focus: bool,
    pub(crate) value: String,
    /// The digest of the value that the form was read with.
    pub(crate) base: String,
    pub(crate) error: String,
    /// The stored value, if it differs from the typed one.
    pub(crate) stored: Option<String>,
    /// The difference from the stored to the typed value.
    pub(crate) difference: Vec<DiffPart>,
}

impl FormField {
    /// The name of the field's value in a template.
    pub(super) fn value_name(&self) -> &str {
        self.name.strip_prefix(CUSTOM_PREFIX).unwrap_or(&self.name)
    }

    /// True for the fields of the wide column.
    pub(crate) fn is_text(&self) -> bool {
        self.name == "title" || self.control == FieldControl::Area
    }

    /// True for the text, which is Markdown.
    pub(crate) fn is_body(&self) -> bool {
        self.name == "description" || self.name == "body"
    }

    /// True if a suggestion is the whole value.
    pub(crate) fn has_one_pick(&self) -> bool {
        self.control == FieldControl::Line && !self.pick.is_empty()
    }

    /// True if the value is none of the choices, as in a file written by hand.
    pub(crate) fn has_other_value(&self) -> bool {
        let FieldControl::Choice(options) = &self.control else { return false };
        options.iter().all(|(value, _)| *value != self.value)
    }

    /// Sets the stored value, with the line ends that a browser returns for it.
    pub(crate) fn fill(&mut self, stored: &str) {
        self.value = stored.replace("\r\n", "\n").replace('\r', "\n");
        if matches!(self.control, FieldControl::Line | FieldControl::List) {
            self.value.retain(|letter| letter != '\n');
        }
        self.base = digest(&self.value);
    }

    /// Reads the posted value. A field that the form does not have stays unchanged.
    pub(crate) fn read(&mut self, posted: &FormFields) {
        if let Some(value) = posted.sent(&self.name) {
            (*value).clone_into(&mut self.value);
            posted.text(&format!("base-{}", self.name)).clone_into(&mut self.base);
        }
    }

    /// The field with the posted value.
    pub(super) fn typed(&self, posted: &FormFields) -> Self {
        let mut typed = self.clone();
        typed.read(posted);
        typed
    }

    pub(crate) fn is_changed(&self) -> bool {
        !self.base.is_empty() && digest(&self.value) != self.base
    }

    /// True if the error of a tool that names this argument belongs to the field.
    pub(super) fn is_named(&self, argument: &str) -> bool {
        argument
            .strip_prefix(&*self.name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    }

    pub(crate) fn add_argument(&self, arguments: &mut Map<String, Value>) {
        let value = match &*self.name {
            _ if self.control == FieldControl::List => json!(split_list(&self.value)),
            "links" => parse_links(&self.value),
            "description" | "body" => json!(self.value),
            _ => json!(self.value.trim()),
        };
        match self.name.strip_prefix(CUSTOM_PREFIX) {
            Some(name) => arguments.entry("fields").or_insert_with(|| json!({}))[name] = value,
            None => _ = arguments.insert(self.name.clone().into_owned(), value),
        }
    }

    /// Takes over what the user typed, next to the stored value. A field that the user left alone
    /// keeps the stored value.
    pub(super) fn merge(&mut self, typed: Self) {
        if typed.is_changed() && typed.value != self.value {
            self.keep_stored(typed.value);
        }
    }

    /// Replaces the stored value by the typed one, and shows both.
    pub(crate) fn keep_stored(&mut self, typed: String) {
        self.difference = compare_values(&self.value, &typed, Instant::now() + TIME_LIMIT);
        self.stored = Some(std::mem::replace(&mut self.value, typed));
    }
}

/// Removes the relations that the document has and the typed links do not.
pub(super) fn clear_missing_relations(links: &mut Value, answer: &ItemDetails) {
    let Some(links) = links.as_object_mut() else { return };
    for group in own_relations(answer) {
        links.entry(group.relation).or_insert_with(|| json!([]));
    }
}

/// The argument `links`, from lines such as `affects: REQ-001, REQ-002`.
fn parse_links(text: &str) -> Value {
    let mut links = Map::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (relation, ids) = line.split_once(':').unwrap_or((line, ""));
        links.insert(relation.trim().to_owned(), json!(split_list(ids)));
    }
    links.into()
}

fn digest(value: &str) -> String {
    hex::encode(&Sha256::digest(value)[..8])
}

//! The record schema of a project: its custom fields, statuses and views.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

use super::custom_field::CustomField;
use super::fields::{FieldType, RecordField, value_fields};
use super::kinds::KINDS;
use super::tombstone::RecordRef;
use super::values::value_key;
use crate::backlog::{ItemKind, ItemMeta, Priority, Status};
use crate::bounded_types::{named_enum, truncate_echo};
use crate::diagnostic::Diagnostic;
use crate::document::{Document, DocumentMeta};
use crate::knowledge::EntityLink;

/// Maximum number of custom fields of a project.
pub const MAX_CUSTOM_FIELDS: usize = 40;
/// Maximum number of statuses of a kind.
pub const MAX_STATUSES: usize = 20;
/// Maximum number of views of a project.
pub const MAX_VIEWS: usize = 50;

/// The custom fields, statuses and views of a project. Default: none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordSchema {
    /// The built-in ones, then those of the project in the order of the file.
    pub fields: Vec<CustomField>,
    /// By the name of a kind, or `entity`.
    pub(super) statuses: BTreeMap<String, Vec<(String, StatusCategory)>>,
    /// In the order of the file.
    pub views: Vec<SavedView>,
    /// The sections whose rules every context has.
    pub always: Vec<String>,
    /// The invalid entries of the file. The rest of it is valid.
    pub diagnostics: Vec<Diagnostic>,
}

/// Filters of the board and the table that a team has saved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedView {
    pub name: String,
    /// The query of the page's URL, such as `kind=requirement&status=Active`.
    pub query: String,
}

impl SavedView {
    /// The names in a query. A custom field is `field.NAME`.
    pub const FILTERS: [&str; 8] =
        ["kind", "epic", "status", "priority", "assignee", "tag", "q", "sort"];
}

named_enum! {
    /// The meaning of a status for progress and for the choice of the next work.
    #[derive(PartialOrd, Ord, Hash)]
    StatusCategory {
        Open = "open",
        Active = "active",
        Done = "done",
        /// Not counted in progress.
        Dropped = "dropped",
    }
}

/// The [`value_fields`] that no form has.
static HIDDEN_FIELDS: LazyLock<Vec<CustomField>> = LazyLock::new(|| built_in_fields(false));

fn built_in_fields(is_editable: bool) -> Vec<CustomField> {
    let mut fields = Vec::new();
    for row in value_fields().filter(|row| row.is_editable == is_editable) {
        if let FieldType::Value(field_type, choices) = row.field_type {
            fields.push(CustomField {
                name: row.name.to_owned(),
                kinds: row.kinds().map(str::to_owned).collect(),
                label: row.label.to_owned(),
                field_type,
                choices: choices.iter().map(|name| (*name).to_owned()).collect(),
                is_built_in: true,
                is_required: false,
                views: row.views.iter().copied().collect(),
            });
        }
    }
    fields
}

impl Default for RecordSchema {
    fn default() -> Self {
        Self {
            fields: built_in_fields(true),
            statuses: BTreeMap::new(),
            views: Vec::new(),
            always: Vec::new(),
            diagnostics: Vec::new(),
        }
    }
}

impl Status {
    /// The category of a built-in status.
    pub fn category(self) -> Option<StatusCategory> {
        match self {
            Self::Backlog | Self::Draft | Self::Open => Some(StatusCategory::Open),
            Self::InProgress => Some(StatusCategory::Active),
            // An active requirement holds.
            Self::Done | Self::Active | Self::Met => Some(StatusCategory::Done),
            Self::Cancelled | Self::Obsolete => Some(StatusCategory::Dropped),
            Self::Custom(_) => None,
        }
    }
}

impl RecordSchema {
    /// Parses a schema document. One that is not text yields an empty schema with a diagnostic.
    pub fn of_document(document: &Document) -> Self {
        match document.text() {
            Ok(text) => Self::parse(text),
            Err(problem) => {
                Self { diagnostics: vec![Diagnostic::new(None, problem)], ..Self::default() }
            }
        }
    }

    /// The fields that the project defines.
    pub fn own_fields(&self) -> impl Iterator<Item = &CustomField> {
        self.fields.iter().filter(|field| !field.is_built_in)
    }

    pub fn field(&self, name: &str) -> Option<&CustomField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// Removes the links of entities that are values of custom fields. Storages keep them,
    /// because they do not know the schema.
    pub fn remove_field_links(&self, metas: &mut [Arc<DocumentMeta>]) {
        let is_link = |link: &EntityLink| self.field(&link.relation).is_none();
        for meta in metas {
            if meta.entity.as_ref().is_some_and(|entity| !entity.links.iter().all(is_link))
                && let Some(entity) = &mut Arc::make_mut(meta).entity
            {
                Arc::make_mut(entity).links.retain(is_link);
            }
        }
    }

    /// The fields of a kind of item.
    pub fn item_fields(&self, kind: ItemKind) -> impl Iterator<Item = &CustomField> {
        self.fields.iter().filter(move |field| field.has_kind(kind.name(), false))
    }

    /// The statuses that items of a kind can get, in the order of work.
    pub fn statuses(&self, kind: ItemKind) -> Vec<Status> {
        match self.statuses.get(kind.name()) {
            Some(all) => all.iter().filter_map(|(name, _)| Status::parse(name)).collect(),
            None => kind.statuses().to_vec(),
        }
    }

    /// The statuses of a kind of item or entity with their categories, in the order of work; empty
    /// if entities of the kind may have any status.
    pub fn statuses_of(&self, kind: &str) -> Vec<(String, StatusCategory)> {
        let Some(item) = ItemKind::from_name(kind) else {
            return self.entity_statuses(kind).unwrap_or_default().to_vec();
        };
        let statuses = self.statuses(item).into_iter();
        statuses.map(|status| (status.name().to_owned(), self.category(item, status))).collect()
    }

    /// The valid values of a built-in field of a kind; empty if it has no list of them.
    pub fn choices(&self, kind: &str, field: &RecordField) -> Vec<String> {
        match field.field_type {
            FieldType::Status => self.statuses_of(kind).into_iter().map(|(name, _)| name).collect(),
            FieldType::Priority => {
                (1..=4).filter_map(Priority::new).map(|one| one.name().to_owned()).collect()
            }
            FieldType::Choice(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            _ => Vec::new(),
        }
    }

    /// The status of a new item: the first open one.
    pub fn initial_status(&self, kind: ItemKind) -> Option<Status> {
        let statuses = self.statuses(kind);
        let is_open = |status: &&Status| self.category(kind, **status) == StatusCategory::Open;
        statuses.iter().find(is_open).or(statuses.first()).copied()
    }

    /// The category of an item's status. A status that the project does not have is open.
    pub fn category(&self, kind: ItemKind, status: Status) -> StatusCategory {
        let category = || self.named_category(kind.name(), status.name());
        status.category().or_else(category).unwrap_or(StatusCategory::Open)
    }

    /// The category of a status that the project lists for a kind of item or entity.
    pub fn named_category(&self, kind: &str, status: &str) -> Option<StatusCategory> {
        let statuses = match ItemKind::from_name(kind) {
            Some(_) => self.statuses.get(kind)?,
            None => self.entity_statuses(kind)?,
        };
        let mut statuses = statuses.iter();
        let (_, category) = statuses.find(|(name, _)| name.eq_ignore_ascii_case(status))?;
        Some(*category)
    }

    /// The statuses of a kind of entity with their categories; `None` if entities of the kind may
    /// have any status.
    pub fn entity_statuses(&self, kind: &str) -> Option<&[(String, StatusCategory)]> {
        let statuses = self.statuses.get(kind).or_else(|| self.statuses.get("entity"))?;
        Some(statuses)
    }

    /// The custom fields of a kind, and those that no form has.
    fn fields_of_kind<'s>(
        &'s self,
        kind: &str,
        is_entity: bool,
    ) -> impl Iterator<Item = &'s CustomField> {
        let fields = self.fields.iter().chain(&*HIDDEN_FIELDS);
        fields.filter(move |field| field.has_kind(kind, is_entity))
    }

    /// The values of the custom fields of an item or entity, for answers.
    pub fn answers<'a>(&self, record: impl Into<RecordRef<'a>>) -> BTreeMap<String, Value> {
        let record = record.into();
        let (kind, is_entity) = record.kind();
        let mut answers = BTreeMap::new();
        for field in self.fields_of_kind(kind, is_entity) {
            let texts = record.custom().get(&field.name);
            if !texts.is_empty() {
                answers.insert(field.name.clone(), field.answer(texts));
            }
        }
        answers
    }

    /// The first key of an item or entity whose value does not fit the schema, and why.
    pub fn first_problem(&self, meta: &DocumentMeta) -> Option<String> {
        let problems = self.problems(RecordRef::of_meta(meta)?);
        problems.into_iter().next().map(|(_, problem)| problem)
    }

    /// The custom field of a kind. The error names the fields that the kind has. `is_entity`
    /// distinguishes kinds of entities.
    pub fn find_field(
        &self,
        (kind, is_entity): (&str, bool),
        name: &str,
    ) -> Result<&CustomField, String> {
        if let Some(field) = self.fields_of_kind(kind, is_entity).find(|field| field.name == name) {
            return Ok(field);
        }
        let mut fields = self.fields.iter().filter(|field| field.has_kind(kind, is_entity));
        let row = KINDS.iter().find(|row| row.name == kind);
        let kind = row.map_or("entities of this kind", |row| row.words[1]);
        let Some(first) = fields.next() else {
            return Err(format!("{kind} have no custom fields in this project; omit it"));
        };
        let names = fields.fold(first.name.clone(), |names, field| names + ", " + &field.name);
        Err(format!("{kind} have no such field; use {names}"))
    }

    /// Checks the values that a caller gives to custom fields of a record of a kind. The error is
    /// the name of the field and its problem.
    pub fn parse_values(
        &self,
        kind: (&str, bool),
        given: &[(String, Value)],
        is_new: bool,
    ) -> Result<Vec<(String, Value)>, (String, String)> {
        let mut values = Vec::with_capacity(given.len());
        for (name, value) in given {
            let value = self.find_field(kind, name).and_then(|field| field.parse(value));
            values.push((name.clone(), value.map_err(|problem| (name.clone(), problem))?));
        }
        let is_missing = |field: &&CustomField| {
            let given = values.iter().find(|(name, _)| *name == field.name);
            field.is_required
                && field.has_kind(kind.0, kind.1)
                && given.map_or(is_new, |(_, value)| value.is_null())
        };
        if let Some(field) = self.fields.iter().find(is_missing) {
            return Err((field.name.clone(), format!("is required; send {}", field.form())));
        }
        Ok(values)
    }

    /// The status of an item that a caller names; the error lists those of the project.
    pub fn find_status(&self, kind: ItemKind, name: &str) -> Result<Status, String> {
        find_named(&self.statuses(kind), Status::name, name).copied()
    }

    /// The status of an entity that a caller names, in the spelling of the schema; `None` if
    /// entities of the kind may have any status.
    pub fn find_entity_status(&self, kind: &str, name: &str) -> Result<Option<&str>, String> {
        let Some(statuses) = self.entity_statuses(kind) else { return Ok(None) };
        find_named(statuses, |(name, _)| name, name).map(|(name, _)| Some(&**name))
    }

    /// The status of a new entity: the first open one of those that the schema names.
    pub fn initial_entity_status(&self, kind: &str) -> Option<&str> {
        let mut statuses = self.entity_statuses(kind)?.iter();
        let open = statuses.find(|(_, category)| *category == StatusCategory::Open);
        open.map(|(name, _)| &**name)
    }

    /// The keys of an item or entity whose values do not fit the schema, and why.
    pub fn problems<'a>(&self, record: impl Into<RecordRef<'a>>) -> Vec<(&str, String)> {
        let record = record.into();
        let (kind, is_entity) = record.kind();
        let mut problems = Vec::new();
        for field in self.fields_of_kind(kind, is_entity) {
            let problem = field.problem(record.custom().get(&field.name));
            problems.extend(problem.map(|problem| (&*field.name, problem)));
        }
        let status = match record {
            RecordRef::Item(ItemMeta { kind, status, .. }) => {
                status.as_ref().filter(|one| !kind.statuses().contains(one)).map(Status::name)
            }
            RecordRef::Entity(entity) => entity.status.as_deref(),
        };
        let Some(status) = status else { return problems };
        let statuses = self.statuses_of(kind);
        let names: Vec<&str> = statuses.iter().map(|(name, _)| &**name).collect();
        let is_same =
            |name: &&str| *name == status || is_entity && value_key(name) == value_key(status);
        if !names.is_empty() && !names.iter().any(is_same) {
            let (status, names) = (truncate_echo(status), names.join(", "));
            problems.push(("status", format!("status {status:?} is invalid; use one of {names}")));
        }
        problems
    }
}

/// Finds a value by name, in any spelling. The error lists all names.
fn find_named<'v, T>(
    values: &'v [T],
    name_of: impl Fn(&T) -> &str,
    given: &str,
) -> Result<&'v T, String> {
    let key = value_key(given);
    values.iter().find(|value| value_key(name_of(value)) == key).ok_or_else(|| {
        let names: Vec<&str> = values.iter().map(name_of).collect();
        format!("{:?} is not one of {}", truncate_echo(given), names.join(", "))
    })
}

//! Lists of items on pages, and their filters.

use std::collections::HashMap;
use std::sync::Arc;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::lists::ListPage;
use reqlore_domain::records::custom_field::{CustomField, FieldView};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::form_fields::{FormFields, encode_query};
use crate::page::{capitalize, new_page, priority_name};
use crate::project_schema::ProjectSchema;
use crate::session::PageSession;

/// Each priority with its number, as choices of a filter.
pub(crate) fn priority_choices() -> [(String, &'static str); 4] {
    [1, 2, 3, 4].map(|number: u8| (number.to_string(), priority_name(&number)))
}

/// The kind of a page without one in its URL.
const DEFAULT_KIND: ItemKind = ItemKind::UserStory;
const MAX_EPIC_TITLES: usize = 200;

/// Several items of a kind, at the start of a sentence.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
pub(crate) fn plural(kind: &ItemKind) -> String {
    capitalize(kind.row().words[1])
}

/// The filters in a page's URL.
pub(crate) struct ItemFilters {
    pub(crate) kind: ItemKind,
    pub(crate) epic: String,
    pub(crate) status: String,
    pub(crate) priority: String,
    pub(crate) assignee: String,
    pub(crate) tag: String,
    pub(crate) text: String,
    pub(crate) sort: String,
    /// The custom fields that can be filters, with the value of each filter.
    pub(crate) fields: Vec<(CustomField, String)>,
    schema: Arc<ProjectSchema>,
}

impl ItemFilters {
    /// User stories without a kind. One without a board is an error.
    pub(crate) async fn parse(session: &PageSession) -> Result<Self> {
        let epic = session.query.filled("epic").unwrap_or_default();
        let epic = session.find_id(ItemKind::Epic, "epic", epic).await?;
        let kind = session.query.filled("kind").unwrap_or(DEFAULT_KIND.name());
        let board = ItemKind::from_name(kind).filter(|kind| kind.is_planned());
        let kind = board.ok_or_else(|| {
            let shown = truncate_echo(kind);
            let message = format!(
                "kind: {shown:?} has no board and no table; use epic, user_story or requirement"
            );
            Error::new(ErrorKind::InvalidArgument, message).field("kind")
        })?;
        Ok(Self { epic, ..Self::of_kind(&session.query, &session.schema, kind) })
    }

    /// The filters of the next kind to show, for a URL without a kind and a kind without items.
    pub(crate) fn next_default(&self, session: &PageSession) -> Option<Self> {
        if session.query.filled("kind").is_some() || self.is_active() {
            return None;
        }
        let next = match self.kind {
            ItemKind::UserStory => ItemKind::Requirement,
            ItemKind::Requirement => ItemKind::Epic,
            _ => return None,
        };
        Some(Self::of_kind(&session.query, &session.schema, next))
    }

    fn of_kind(query: &FormFields, schema: &Arc<ProjectSchema>, kind: ItemKind) -> Self {
        let field = |name: &str| query.filled(name).unwrap_or_default().to_owned();
        let filtered = schema.records.item_fields(kind);
        let filtered = filtered.filter(|field| field.views.contains(&FieldView::Filter));
        let fields = filtered.map(|one| (one.clone(), field(&format!("field.{}", one.name))));
        let status = field("status");
        let known = schema.records.find_status(kind, &status);
        Self {
            kind,
            epic: field("epic"),
            status: known.map_or(status, |known| known.name().to_owned()),
            priority: field("priority"),
            assignee: field("assignee"),
            tag: field("tag"),
            text: field("q"),
            sort: field("sort"),
            fields: fields.collect(),
            schema: schema.clone(),
        }
    }

    /// The query of a page with these filters.
    pub(crate) fn query(&self) -> String {
        let epic = if self.has_epic() { &*self.epic } else { "" };
        let custom = self.fields.iter().map(|(one, value)| (format!("field.{}", one.name), value));
        let custom: Vec<(String, &String)> = custom.collect();
        let built_in = [
            ("kind", self.kind.name()),
            ("epic", epic),
            ("status", &self.status),
            ("priority", &self.priority),
            ("assignee", &self.assignee),
            ("tag", &self.tag),
            ("q", &self.text),
            ("sort", &self.sort),
        ];
        encode_query(
            built_in.into_iter().chain(custom.iter().map(|(name, value)| (&**name, &***value))),
        )
    }

    /// The query of the same page for another kind, with the filters that its items have.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
    pub(crate) fn query_of(&self, kind: &ItemKind) -> String {
        let query = FormFields::parse(self.query().as_bytes());
        let mut other = Self::of_kind(&query, &self.schema, *kind);
        if !other.statuses().contains(&other.status) {
            other.status.clear();
        }
        let sorted = self.schema.records.field(self.sort.trim_start_matches('-'));
        if sorted.is_some_and(|field| !field.has_kind(kind.name(), false)) {
            other.sort.clear();
        }
        other.query()
    }

    /// The views of the project: name, query, and true for that with these filters.
    pub(crate) fn views(&self) -> Vec<(&str, String, bool)> {
        let (mut views, current) = (Vec::new(), self.query());
        for (name, query) in self.schema.views() {
            let query = FormFields::parse(query.as_bytes());
            let kind = query.filled("kind").and_then(ItemKind::from_name).unwrap_or(DEFAULT_KIND);
            let query = Self::of_kind(&query, &self.schema, kind).query();
            let is_current = query == current;
            views.push((name, query, is_current));
        }
        views
    }

    /// True if these filters are saved as a view.
    pub(crate) fn is_view(&self) -> bool {
        self.views().iter().any(|(.., is_current)| *is_current)
    }

    /// The URL of the form for a new item that matches the filters. An empty `status` means the
    /// status of the filters.
    pub(crate) fn creation(&self, status: &str) -> String {
        let status = if status.is_empty() { &self.status } else { status };
        let epic = if self.kind.parent() == Some(ItemKind::Epic) { &*self.epic } else { "" };
        let assignee = if self.assignee == "none" { "" } else { &*self.assignee };
        let mut fields = vec![("kind", self.kind.name()), ("status", status), ("parent", epic)];
        fields.extend([("priority", &*self.priority), ("assignee", assignee), ("tags", &self.tag)]);
        let custom = self.fields.iter().map(|(one, value)| (format!("fields.{}", one.name), value));
        let custom: Vec<(String, &String)> = custom.collect();
        new_page(fields.into_iter().chain(custom.iter().map(|(name, value)| (&**name, &***value))))
    }

    /// True if the filters may hide items.
    pub(crate) fn is_active(&self) -> bool {
        let values = [&self.epic, &self.status, &self.priority, &self.assignee, &self.tag];
        let mut values = values.into_iter().chain(self.fields.iter().map(|(_, value)| value));
        !self.text.is_empty() || values.any(|value| !value.is_empty())
    }

    /// True if items of the kind have an epic.
    pub(crate) fn has_epic(&self) -> bool {
        self.kind.parent().is_some()
    }

    /// True if items of the kind have children with a status.
    pub(crate) fn has_progress(&self) -> bool {
        self.kind.counted_child().is_some()
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let statuses = self.schema.records.statuses(self.kind);
        statuses.iter().map(|status| status.name().to_owned()).collect()
    }

    /// The custom fields that have this view.
    pub(crate) fn fields_in(&self, view: FieldView) -> Vec<&CustomField> {
        let fields = self.schema.records.item_fields(self.kind);
        fields.filter(|field| field.views.contains(&view)).collect()
    }

    /// The arguments of `list_items`.
    pub(crate) fn arguments(&self) -> Map<String, Value> {
        let mut arguments = Map::from_iter([("kind".to_owned(), json!(self.kind.name()))]);
        for (name, value) in
            [("status", &self.status), ("assignee", &self.assignee), ("text", &self.text)]
        {
            if !value.is_empty() {
                arguments.insert(name.to_owned(), json!(value));
            }
        }
        if !self.epic.is_empty() && self.has_epic() {
            arguments.insert("epic".to_owned(), json!(self.epic));
        }
        if !self.tag.is_empty() {
            arguments.insert("tags".to_owned(), json!([self.tag]));
        }
        let fields = self.fields.iter().filter(|(_, value)| !value.is_empty());
        let fields: Map<String, Value> =
            fields.map(|(field, value)| (field.name.clone(), json!(value))).collect();
        if !fields.is_empty() {
            arguments.insert("fields".to_owned(), fields.into());
        }
        // Any other text is left to the tool, which names the values.
        if let Ok(number) = self.priority.parse::<u8>() {
            arguments.insert("priority".to_owned(), json!(number));
        } else if !self.priority.is_empty() {
            arguments.insert("priority".to_owned(), json!(self.priority));
        }
        arguments
    }
}

/// The item to create first, as an empty list suggests.
pub(crate) struct FirstItem {
    /// The kind of the list.
    pub(crate) shown: ItemKind,
    pub(crate) kind: ItemKind,
    /// Empty for an epic.
    pub(crate) parent: String,
}

/// A list of which only the titles are read.
#[derive(Deserialize)]
struct TitlePage {
    items: Vec<ItemTitle>,
}

#[derive(Deserialize)]
struct ItemTitle {
    reference_id: String,
    title: String,
}

impl PageSession {
    /// Lists items; `arguments` of `list_items` with these additions.
    pub(crate) async fn list_items(
        &self,
        mut arguments: Map<String, Value>,
        additions: &[(&str, Value)],
    ) -> Result<ListPage> {
        for (name, value) in additions {
            arguments.insert((*name).to_owned(), value.clone());
        }
        self.call_tool("list_items", Value::Object(arguments)).await
    }

    /// The titles of epics by their references, for a list of user stories. Of more than
    /// [`MAX_EPIC_TITLES`], the others are shown by their references.
    pub(crate) async fn epic_titles(&self, shown: ItemKind) -> Result<HashMap<String, String>> {
        if shown.parent() != Some(ItemKind::Epic) {
            return Ok(HashMap::new());
        }
        let arguments = json!({ "kind": "epic", "show": ["title"], "limit": MAX_EPIC_TITLES });
        let page: TitlePage = self.call_tool("list_items", arguments).await?;
        Ok(page.items.into_iter().map(|epic| (epic.reference_id, epic.title)).collect())
    }

    /// Returns the first item to create for an empty list: one of its kind, or of the kind above
    /// if a parent is missing.
    pub(crate) async fn first_item(&self, shown: ItemKind) -> Result<FirstItem> {
        let mut kind = shown;
        while let Some(above) = kind.parent() {
            let arguments = json!({ "kind": above.name(), "limit": 1 });
            let page: ListPage = self.call_tool("list_items", arguments).await?;
            if let Some(item) = page.items.into_iter().next() {
                return Ok(FirstItem { shown, kind, parent: item.reference_id });
            }
            kind = above;
        }
        Ok(FirstItem { shown, kind, parent: String::new() })
    }
}

//! Lists of items on pages, and their filters.

use std::sync::Arc;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::records::answers::lists::{ListPage, ListedItem};
use reqlore_domain::records::custom_field::{CustomField, FieldView};
use serde_json::{Map, Value, json};

use crate::page::{capitalize, new_page, priority_name};
use crate::project_schema::ProjectSchema;
use crate::session::PageSession;

/// Epics that a filter offers; others are reached by their page.
const MAX_EPICS: usize = 100;

/// Each priority with its number, as choices of a filter.
pub(crate) fn priority_choices() -> [(String, &'static str); 4] {
    [1, 2, 3, 4].map(|number: u8| (number.to_string(), priority_name(&number)))
}

/// The kinds with a status, which the board shows.
pub(crate) const BOARD_KINDS: [ItemKind; 3] =
    [ItemKind::Epic, ItemKind::UserStory, ItemKind::Requirement];

/// Several items of a kind, at the start of a sentence.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
pub(crate) fn plural(kind: &ItemKind) -> String {
    capitalize(kind.row().words[1])
}

/// The name of a kind in commands.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "templates pass references")]
pub(crate) fn command_name(kind: &ItemKind) -> &'static str {
    let row = kind.row();
    row.synonyms.first().unwrap_or(&row.name)
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
    /// Each custom field that a list can be filtered by, with its value.
    pub(crate) fields: Vec<(CustomField, String)>,
    schema: Arc<ProjectSchema>,
}

impl ItemFilters {
    /// User stories without a kind. One without a board is an error.
    pub(crate) fn parse(session: &PageSession) -> Result<Self> {
        let kind = session.query.filled("kind").unwrap_or(ItemKind::UserStory.name());
        let kind = BOARD_KINDS.into_iter().find(|board| board.name() == kind).ok_or_else(|| {
            let shown = truncate_echo(kind);
            let message = format!(
                "kind: {shown:?} has no board and no table; use epic, user_story or requirement"
            );
            Error::new(ErrorKind::InvalidArgument, message).field("kind")
        })?;
        Ok(Self::of_kind(session, kind))
    }

    /// The filters of the next kind to show, if the page's URL has no kind and this one no items.
    pub(crate) fn next_default(&self, session: &PageSession) -> Option<Self> {
        if session.query.filled("kind").is_some() || self.is_active() {
            return None;
        }
        let next = match self.kind {
            ItemKind::UserStory => ItemKind::Requirement,
            ItemKind::Requirement => ItemKind::Epic,
            _ => return None,
        };
        Some(Self::of_kind(session, next))
    }

    fn of_kind(session: &PageSession, kind: ItemKind) -> Self {
        let PageSession { query, schema, .. } = session;
        let field = |name: &str| query.filled(name).unwrap_or_default().to_owned();
        let filtered = schema.records.item_fields(kind);
        let filtered = filtered.filter(|field| field.views.contains(&FieldView::Filter));
        let fields = filtered.map(|one| (one.clone(), field(&format!("field.{}", one.name))));
        Self {
            kind,
            epic: field("epic"),
            status: field("status"),
            priority: field("priority"),
            assignee: field("assignee"),
            tag: field("tag"),
            text: field("q"),
            fields: fields.collect(),
            schema: schema.clone(),
        }
    }

    /// The form of a new item that the filters show. An empty `status` is that of the filters.
    pub(crate) fn creation(&self, status: &str) -> String {
        let status = if status.is_empty() { &self.status } else { status };
        let epic = if self.kind == ItemKind::UserStory { &*self.epic } else { "" };
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
        self.kind != ItemKind::Epic
    }

    /// True if items of the kind have children with a status.
    pub(crate) fn has_progress(&self) -> bool {
        self.kind != ItemKind::Requirement
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let statuses = self.schema.records.statuses(self.kind);
        statuses.iter().map(|status| status.name().to_owned()).collect()
    }

    /// The custom fields that a part of the pages shows.
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

/// The item that an empty list suggests to create.
pub(crate) struct FirstItem {
    /// The kind of the list.
    pub(crate) shown: ItemKind,
    pub(crate) kind: ItemKind,
    /// Empty for an epic.
    pub(crate) parent: String,
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

    /// The first item to create for an empty list: one of its kind or, if there is no parent for
    /// it, of the kind above.
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

    /// The epics that a filter offers.
    pub(crate) async fn list_epics(&self) -> Result<Vec<ListedItem>> {
        let arguments = json!({ "kind": ItemKind::Epic.name(), "limit": MAX_EPICS });
        let page: ListPage = self.call_tool("list_items", arguments).await?;
        Ok(page.items)
    }
}

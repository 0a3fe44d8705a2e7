//! `get_item`: returns any document by its ID, with its links in both directions.

use std::collections::BTreeMap;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference, inverse_relation};
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::claims::ClaimView;
use reqlore_domain::records::answers::details::{ItemDetails, ItemView, OtherItem, ParentItem};
use reqlore_domain::records::answers::document_label::SECTION_REQUIREMENT;
use reqlore_domain::records::answers::entry_line::{RULE, custom_text, priority_label, tag_list};
use reqlore_domain::records::answers::items::ItemRecord;
use reqlore_domain::records::answers::links::LinkList;
use reqlore_domain::records::ended::REVIEW_OVERDUE;
use reqlore_domain::records::tombstone::RecordRef;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::item_lookup::{self, BacklogReader, FileWarnings};
use super::item_view::{self, ItemRelations};
use crate::addresses::address::{Address, AddressSpace, AddressTarget};
use crate::addresses::addressed_text::AddressedText;
use crate::answers::answer::{Answer, ToolAnswer, serialization_error, tokens_for_all};
use crate::answers::shortened_text::text_borders;
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::context::ToolContext;
use crate::tools::tool::{Tool, ToolRequest, read_tool};
use crate::writes::write_guard::FieldValue;

pub(crate) struct GetItem;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Such as REQ-047, dec-1d2c8f, general:2.1 or general.
    reference: BoundedString<1_000>,
    show: Option<ShowKeys<ItemKeys>>,
    // Not in the schema: only web pages need the titles of the items above.
    #[schemars(skip)]
    parents: Option<bool>,
}

/// The keys of an item and its lists.
struct ItemKeys;

impl EntryKeys for ItemKeys {
    const KEYS: &'static [&'static str] = &[
        "title",
        "version",
        "kind",
        "status",
        "priority",
        "rank",
        "type_name",
        "epic",
        "user_story",
        "assignee_username",
        "tags",
        "creator_username",
        "created_at",
        "updated_at",
        "fields",
        "description",
        "text",
        "children",
        "relationships",
        "links",
    ];
}

#[async_trait]
impl Tool for GetItem {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ItemDetails>(
            "get_item",
            "Read any story, decision or rule in full",
            "Returns any document by its ID: a backlog item, a decision or other entity, a section \
             or one of its rules, a docset. With links in both directions.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let space = AddressSpace::of_caller(context, &call.caller).await?;
        let address = space.resolve_folded(arguments.reference.as_str(), "reference").await?;
        let mut warnings = FileWarnings::default();
        let show = arguments.show.unwrap_or_default();
        let has_lists = ["children", "relationships", "links"].iter().any(|key| show.has(key));
        let details = match &address.target {
            AddressTarget::Item(meta) => {
                let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
                let mut relations = ItemRelations::default();
                if has_lists {
                    for kind in ItemKind::ALL {
                        if kind.parent().map(DocumentKind::Item) == Some(meta.id.kind) {
                            backlog.children_by_parent(&[], kind, &mut warnings).await?;
                        }
                    }
                    relations = ItemRelations::read(backlog, meta).await?;
                }
                let others = address.others.clone();
                let mut details = item_details(backlog, meta, relations, others).await?;
                if arguments.parents == Some(true) {
                    details.parents = read_parents(backlog, meta).await?;
                }
                details
            }
            _ => other_details(context, &address, has_lists).await?,
        };
        let record = match &address.target {
            AddressTarget::Item(meta) | AddressTarget::Entity(meta) => RecordRef::of_meta(meta),
            _ => None,
        };
        // The data lacks empty fields, and may spell links in another way.
        let project = call.caller.project.as_str();
        let shown = record.map(|record| FieldValue::of_metadata(project, record, &show));
        let mut answer = ToolAnswer::new(ItemAnswer::new(details, show));
        answer.add_shown(shown.unwrap_or_default());
        answer.add_notes(warnings.into_list());
        Ok(answer)
    }
}

async fn item_details(
    backlog: BacklogReader<'_>,
    meta: &DocumentMeta,
    relations: ItemRelations,
    other_ids: Vec<String>,
) -> Result<ItemDetails> {
    let schema = backlog.ports.schema(backlog.project).await?;
    let record = item_view::read_record(backlog, &schema, meta).await?;
    Ok(ItemDetails {
        item: ItemView::Record(Box::new(record)),
        children: Some(item_view::read_summaries(backlog, &schema, &relations.children).await?),
        relationships: Some(relations.relationships.bounded()),
        links: relations.links,
        parents: Vec::new(),
        diagnostic: item_lookup::record_diagnostic(meta, &schema),
        other_ids,
        left_out: None,
    })
}

/// The titles of the items above, outermost first. One that cannot be read has none.
async fn read_parents(backlog: BacklogReader<'_>, meta: &DocumentMeta) -> Result<Vec<ParentItem>> {
    let parent = item_lookup::item_meta(meta).and_then(|item| item.parent);
    let mut parents = Vec::new();
    for (reference, found) in backlog.parents(parent).await.into_iter().rev() {
        let meta = match found {
            Err(error) if !item_lookup::is_item_error(error.kind) => return Err(error),
            found => found.ok(),
        };
        let item = meta.as_deref().and_then(item_lookup::item_meta);
        let title = item.map(|item| item.title.clone()).unwrap_or_default();
        parents.push(ParentItem { reference_id: reference.to_string(), title });
    }
    Ok(parents)
}

async fn other_details(
    context: &ToolContext,
    address: &Address,
    has_lists: bool,
) -> Result<ItemDetails> {
    let text = address.read_text(context).await?;
    let AddressedText { id, kind, title, status, tags, version, body, .. } = text;
    let label = address.read_label(context).await?;
    let meta = match &address.target {
        // Requirements of sections and docsets have no diagnostic of their own.
        AddressTarget::Entity(meta) | AddressTarget::Section(meta) => Some(meta),
        _ => None,
    };
    let schema = context.ports.schema(&address.project).await?;
    let record = meta.and_then(|meta| RecordRef::of_meta(meta));
    Ok(ItemDetails {
        item: ItemView::Other(Box::new(OtherItem {
            kind,
            id,
            title,
            text: body,
            version,
            status,
            stale: label.stale,
            review_overdue: label.review_overdue,
            tags,
            fields: record.map(|record| schema.answers(record)).unwrap_or_default(),
        })),
        children: None,
        relationships: None,
        links: if has_lists { address.read_links(context).await? } else { LinkList::default() },
        parents: Vec::new(),
        diagnostic: meta.and_then(|meta| item_lookup::record_diagnostic(meta, &schema)),
        other_ids: address.others.clone(),
        left_out: None,
    })
}

/// Removes the texts and lists that the caller did not choose.
fn keep_chosen(details: &mut ItemDetails, show: &ShowKeys<ItemKeys>) {
    match &mut details.item {
        ItemView::Record(record) if !show.has("description") => record.description.clear(),
        ItemView::Other(item) if !show.has("text") => item.text.clear(),
        _ => {}
    }
    details.children.take_if(|_| !show.has("children"));
    details.relationships.take_if(|_| !show.has("relationships"));
    if !show.has("links") {
        details.links = LinkList::default();
    }
}

/// The lines before the description or text.
fn head_lines(details: &ItemDetails, show: &ShowKeys<ItemKeys>) -> Vec<String> {
    let mut lines = match &details.item {
        ItemView::Record(record) => record_lines(record, show),
        ItemView::Other(item) => other_lines(item, show),
    };
    lines.extend(details.item.stale().map(|reason| format!("No longer valid: {reason}")));
    lines.extend(details.item.review_overdue().then(|| REVIEW_OVERDUE.to_owned()));
    lines.retain(|line| !line.is_empty());
    lines
}

fn body(details: &ItemDetails) -> &str {
    match &details.item {
        ItemView::Record(record) => &record.description,
        ItemView::Other(item) => item.text.trim_end(),
    }
}

/// The lines of children and links, in the order of [`ENTRY_LISTS`].
fn entry_lines(details: &ItemDetails) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(details.children.iter().flatten().map(|child| child.line(|_| true)));
    if let Some(relationships) = &details.relationships {
        lines.extend(relationships.outgoing.iter().map(|target| target.line(&target.kind)));
        for source in &relationships.incoming {
            lines.push(source.line(&inverse_relation(&source.kind)));
        }
    }
    lines.extend(details.links.text_lines());
    lines
}

/// The lines after all entries, which no limit leaves out.
fn tail_lines(details: &ItemDetails) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(relationships) = &details.relationships {
        let (shown, total) = (relationships.incoming.len(), relationships.incoming_total);
        if shown < total {
            lines.push(format!("({shown} of {total} incoming relationships)"));
        }
    }
    lines.extend(details.links.total_line());
    lines.extend(details.diagnostic.iter().map(|text| item_lookup::diagnostic_text(text)));
    if !details.other_ids.is_empty() {
        let others: Vec<_> = details.other_ids.iter().map(|id| encode_id(id)).collect();
        lines.push(format!("The same ID also names {}", others.join(", ")));
    }
    lines
}

/// The call that lists the children of an item with pages.
fn children_call(details: &ItemDetails) -> Option<String> {
    let ItemView::Record(record) = &details.item else { return None };
    let reference = Reference::parse(&record.reference_id)?;
    let kind = reference.kind.row().children.first()?;
    Some(format!("list_items with kind: {}, {}: {reference}", kind.name(), reference.kind.name()))
}

/// The lists of the data whose entries are lines of the text, in their order.
const ENTRY_LISTS: [&str; 5] = [
    "/children",
    "/relationships/outgoing",
    "/relationships/incoming",
    "/links/outgoing",
    "/links/incoming",
];

/// The answer. A limit cuts the description at a sentence, and leaves out children and links.
struct ItemAnswer {
    details: ItemDetails,
    show: ShowKeys<ItemKeys>,
    head: Vec<String>,
    /// The ends of the sentences of the description or text.
    borders: Vec<usize>,
    lines: Vec<String>,
    tail: Vec<String>,
}

impl ItemAnswer {
    fn new(mut details: ItemDetails, show: ShowKeys<ItemKeys>) -> Self {
        keep_chosen(&mut details, &show);
        let body = body(&details);
        let borders = if body.is_empty() { Vec::new() } else { text_borders(body) };
        let (head, lines, tail) =
            (head_lines(&details, &show), entry_lines(&details), tail_lines(&details));
        Self { details, show, head, borders, lines, tail }
    }

    fn shown_body(&self, parts: usize) -> &str {
        let body = body(&self.details);
        match self.borders.get(parts) {
            None => body,
            Some(_) if parts == 0 => "",
            Some(_) => body[..self.borders[parts - 1]].trim_end(),
        }
    }

    fn shown_lines(&self, parts: usize) -> &[String] {
        &self.lines[..parts.saturating_sub(self.borders.len())]
    }

    /// `None` if all parts are shown.
    fn left_out(&self, parts: usize) -> Option<String> {
        if parts >= self.part_count() {
            return None;
        }
        let mut problems = Vec::new();
        let (shown, body) = (self.shown_body(parts), body(&self.details));
        if shown.len() < body.len() {
            let (shown, all) = (shown.chars().count(), body.chars().count());
            problems.push(format!("the text is cut after {shown} of {all} characters"));
        }
        let (shown, all) = (self.shown_lines(parts).len(), self.lines.len());
        let mut calls = vec![format!("pass max_tokens: {} for all", tokens_for_all(self))];
        if shown < all {
            problems.push(format!("{} of {all} children and links are left out", all - shown));
            calls.extend(children_call(&self.details));
        }
        Some(format!("{}; {}", problems.join(" and "), calls.join(", or call ")))
    }
}

impl Answer for ItemAnswer {
    fn part_count(&self) -> usize {
        self.borders.len() + self.lines.len()
    }

    fn text(&self, parts: usize) -> String {
        let mut text = self.head.join("\n");
        let body = self.shown_body(parts);
        if !body.is_empty() {
            text.extend(["\n", body]);
        }
        for line in self.shown_lines(parts) {
            text.extend(["\n- ", line]);
        }
        for line in &self.tail {
            text.extend(["\n", line]);
        }
        if let Some(left_out) = self.left_out(parts) {
            text.extend(["\n\nNote: ", &left_out]);
        }
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut data = serde_json::to_value(&self.details).map_err(serialization_error)?;
        self.show.filter_value(&mut data);
        self.show.filter_value(&mut data["item"]);
        if parts >= self.part_count() {
            return Ok(data);
        }
        for pointer in ["/item/description", "/item/text"] {
            if let Some(body) = data.pointer_mut(pointer) {
                *body = self.shown_body(parts).into();
            }
        }
        let mut rest = self.shown_lines(parts).len();
        for pointer in ENTRY_LISTS {
            if let Some(Value::Array(entries)) = data.pointer_mut(pointer) {
                entries.truncate(rest);
                rest -= entries.len();
            }
        }
        data["left_out"] = self.left_out(parts).into();
        Ok(data)
    }
}

/// All keys but the permanent ID and the description.
fn record_lines(record: &ItemRecord, show: &ShowKeys<ItemKeys>) -> Vec<String> {
    let is_default = record.project == ProjectKey::default().to_string();
    let priority = record.priority.map(priority_label);
    let tags = Some(tag_list(&record.tags)).filter(|tags| !tags.is_empty());
    let fields = [
        ("status", "Status", record.status.as_deref()),
        ("priority", "Priority", priority.as_deref()),
        ("rank", "Rank", record.rank.as_deref()),
        ("type_name", "Type", record.type_name.as_deref()),
        ("epic", "Epic", record.epic.as_deref()),
        ("user_story", "User story", record.user_story.as_deref()),
        ("assignee_username", "Assignee", record.assignee_username.as_deref()),
        ("tags", "Tags", tags.as_deref()),
        ("creator_username", "Creator", Some(&*record.creator_username)),
        ("created_at", "Created", Some(&*record.created_at)),
        ("updated_at", "Updated", Some(&*record.updated_at)),
        ("project", "Project", Some(&*record.project).filter(|_| !is_default)),
    ];
    let heading = heading_line(&record.reference_id, &record.title, &record.version, show);
    let mut claim = String::new();
    if let Some(ClaimView { holder, until }) = &record.claim {
        claim = format!("Claimed by {} until {until}", encode_line(holder));
    }
    vec![heading, field_line(&fields, show), claim, custom_line(&record.fields, show)]
}

fn other_lines(item: &OtherItem, show: &ShowKeys<ItemKeys>) -> Vec<String> {
    let kind = match &*item.kind {
        SECTION_REQUIREMENT => RULE.to_owned(),
        kind => kind.replace('_', " "),
    };
    let tags = Some(tag_list(&item.tags)).filter(|tags| !tags.is_empty());
    let fields = [
        ("kind", "Kind", Some(&*kind)),
        ("status", "Status", item.status.as_deref()),
        ("tags", "Tags", tags.as_deref()),
    ];
    let heading = heading_line(&item.id, &item.title, &item.version, show);
    vec![heading, field_line(&fields, show), custom_line(&item.fields, show)]
}

fn custom_line(fields: &BTreeMap<String, Value>, show: &ShowKeys<ItemKeys>) -> String {
    let fields = fields.iter().filter(|_| show.has("fields"));
    let texts: Vec<_> = fields.map(|(name, value)| custom_text(name, value)).collect();
    encode_line(&texts.join(", ")).into_owned()
}

/// The labelled values whose keys the caller chose. The project is always among them.
fn field_line(fields: &[(&str, &str, Option<&str>)], show: &ShowKeys<ItemKeys>) -> String {
    let mut line = Vec::new();
    for (key, label, value) in fields {
        if let Some(value) = value.filter(|_| show.has(key) || !ItemKeys::KEYS.contains(key)) {
            line.push(format!("{label}: {}", encode_line(value)));
        }
    }
    line.join(", ")
}

fn heading_line(id: &str, title: &str, version: &str, show: &ShowKeys<ItemKeys>) -> String {
    let mut line = encode_id(id).into_owned();
    if show.has("title") {
        line.extend([": ", &encode_line(title)]);
    }
    if show.has("version") {
        line.extend([" (version ", &version[..8], ")"]);
    }
    line
}

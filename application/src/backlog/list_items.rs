//! `list_items`: returns items of one kind, or entities, with filters, a sort order and counts by
//! status.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Tags};
use reqlore_domain::backlog::{ItemKind, Status};
use reqlore_domain::bounded_types::{BoundedInt, BoundedString, truncate_echo};
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::record_list::{
    AssigneeFilter, ChildProgress, DetailFilter, FieldOrder, OrderField, RecordCounts,
    RecordFilter, RecordOrder, RecordPosition, RecordQuery, SortField,
};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::records::answers::claims::ClaimView;
use reqlore_domain::records::answers::entry_line::{EntryLine, custom_text};
use reqlore_domain::records::answers::lists::{LISTED_KEYS, ListPage, ListedItem, ProgressView};
use reqlore_domain::records::custom_field::CustomField;
use reqlore_domain::records::ended::overdue_review;
use reqlore_domain::records::fields::{FieldType, fields_of};
use reqlore_domain::records::kinds::{EntityKind, RecordKind};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::values::value_key;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_line, encode_lines};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::arguments::{
    EpicRef, PriorityArgument, RequirementTypeArgument, UserStoryRef, find_value,
};
use super::claims::LiveClaims;
use super::item_lookup::{self, BacklogReader};
use super::record_contents::add_contents;
use crate::answers::answer::{ToolAnswer, serialization_error};
use crate::answers::empty_answer::add_reason;
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::knowledge;
use crate::tools::arguments::{CUSTOM_FIELDS, take_custom_fields};
use crate::tools::pagination::{PageAnswer, PageCursor, PageReader, page_limit, showing};
use crate::tools::synonyms;
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct ListItems;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// epic, user_story, requirement, acceptance_criteria, decision, ... or entity (all).
    #[schemars(with = "String")]
    kind: BoundedString<40>,
    /// Name.
    #[schemars(with = "Option<String>")]
    status: Option<BoundedString<100>>,
    /// 1 Critical to 4 Low.
    priority: Option<PriorityArgument>,
    #[serde(rename = "type")]
    requirement_type: Option<RequirementTypeArgument>,
    epic: Option<EpicRef>,
    user_story: Option<UserStoryRef>,
    /// User name, or none.
    assignee: Option<Assignee>,
    tags: Option<Tags>,
    /// In title or ID.
    #[schemars(with = "Option<String>")]
    text: Option<BoundedString<500>>,
    /// Date or RFC 3339 (UTC).
    #[schemars(with = "Option<String>")]
    updated_since: Option<BoundedString<40>>,
    /// priority, updated, reference, title, status, assignee; -updated is newest first.
    #[schemars(with = "Option<String>")]
    sort: Option<BoundedString<50>>,
    show: Option<ShowKeys<ListKeys>>,
    /// 1 to 1000, default 50.
    limit: Option<BoundedInt<1, 1_000>>,
    // From the previous page.
    cursor: Option<PageCursor>,
    // Not in the schema: only some projects have custom fields.
    #[serde(skip)]
    fields: Map<String, Value>,
}

struct ListKeys;

impl EntryKeys for ListKeys {
    const KEYS: &'static [&'static str] = &LISTED_KEYS;
}

#[async_trait]
impl Tool for ListItems {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ListPage>(
            "list_items",
            "List the items of a kind",
            "Lists stories, requirements, decisions or other items of a kind, filtered by status, \
             assignee, tags or parent, with counts by status.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let fields = take_custom_fields(&mut request.call.arguments)?;
        let arguments = Arguments { fields, ..request.decode()? };
        let toolsets = &request.context.ports.settings.toolsets;
        match synonyms::find_value(&ItemKind::ALL, |one| one.name(), arguments.kind.as_str()) {
            Some(kind) if toolsets.contains(&Toolset::Backlog) => {
                list_backlog(&request, arguments, kind).await
            }
            None if toolsets.contains(&Toolset::Knowledge) => {
                list_entities(&request, arguments).await
            }
            _ => {
                let has_backlog = toolsets.contains(&Toolset::Backlog);
                let kinds = if has_backlog {
                    item_kinds()
                } else {
                    "decision, issue, idea or entity".to_owned()
                };
                let shown = truncate_echo(arguments.kind.as_str());
                let message = format!("kind: this server has no {shown:?}; use one of {kinds}");
                Err(invalid_argument("kind", message))
            }
        }
    }
}

fn item_kinds() -> String {
    ItemKind::ALL.map(ItemKind::name).join(", ")
}

fn invalid_argument(field: &str, message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).field(field)
}

impl Arguments {
    /// Rejects the filters that no record of the kind can meet.
    fn check_filters(&self, kind: &RecordKind) -> Result<()> {
        // The type of an entity is its kind, and a text.
        let has = |name: &str| {
            fields_of(kind).any(|one| one.name == name && one.field_type != FieldType::Text)
        };
        for (field, is_given, is_valid) in [
            ("priority", self.priority.is_some(), has("priority")),
            ("type", self.requirement_type.is_some(), has("type")),
            ("epic", self.epic.is_some(), kind.parent.is_some()),
            ("user_story", self.user_story.is_some(), has("user_story")),
            ("assignee", self.assignee.is_some(), has("assignee")),
        ] {
            if is_given && !is_valid {
                let kind = truncate_echo(self.kind.as_str());
                let message = format!("{field}: items of kind {kind} have none; omit it");
                return Err(invalid_argument(field, message));
            }
        }
        Ok(())
    }

    fn detail_filter(&self) -> Result<DetailFilter> {
        let assignee = self.assignee.as_ref().map(|assignee| match assignee.name() {
            Some(name) if !name.eq_ignore_ascii_case("none") => {
                AssigneeFilter::User(fold_name(name))
            }
            _ => AssigneeFilter::Unassigned,
        });
        let updated_since = match &self.updated_since {
            None => None,
            Some(text) => Some(Timestamp::parse(text.as_str().trim()).ok_or_else(|| {
                let shown = truncate_echo(text.as_str());
                let message = format!(
                    "updated_since: {shown:?} is not a time; use a date such as 2026-11-22 or RFC \
                     3339 such as 2026-11-22T07:48:05Z"
                );
                invalid_argument("updated_since", message)
            })?),
        };
        let tags = self.tags.clone().map(Tags::into_vec).unwrap_or_default();
        Ok(DetailFilter {
            assignee,
            tags: tags.iter().map(|tag| fold_name(tag.trim())).collect(),
            text: self.text.as_ref().map(|text| fold_name(text.as_str().trim())),
            updated_since,
        })
    }

    /// The conditions on custom fields.
    fn field_filter(
        &self,
        schema: &RecordSchema,
        kind: (&str, bool),
    ) -> Result<Vec<(String, String)>> {
        let mut conditions = Vec::new();
        for (name, value) in &self.fields {
            let argument = format!("{CUSTOM_FIELDS}.{name}");
            let invalid =
                |problem: &str| invalid_argument(&argument, format!("{argument}: {problem}"));
            let value = schema.find_field(kind, name).and_then(|field| field.parse(value));
            match value.map_err(|problem| invalid(&problem))? {
                Value::String(text) => conditions.push((name.clone(), value_key(&text))),
                Value::Array(texts) => conditions.extend(
                    texts
                        .iter()
                        .filter_map(Value::as_str)
                        .map(|text| (name.clone(), value_key(text))),
                ),
                _ => return Err(invalid("send the value that items must have")),
            }
        }
        Ok(conditions)
    }

    /// `statuses` are those of the listed records, in their order.
    fn order(&self, schema: &RecordSchema, statuses: &[String]) -> Result<RecordOrder> {
        let Some(sort) = &self.sort else { return Ok(RecordOrder::default()) };
        let text = sort.as_str().trim();
        let (field, is_descending) = match text.strip_prefix('-') {
            Some(field) => (field, true),
            None => (text, false),
        };
        let by_field = |name: &str, choices: &[String]| {
            let choices = choices.iter().map(|text| value_key(text)).collect();
            let field = OrderField::Custom(FieldOrder { name: name.to_owned(), choices });
            Ok(RecordOrder { field, is_reversed: is_descending })
        };
        if let Some(custom) = schema.field(field) {
            return by_field(&custom.name, &custom.choices);
        }
        let mut names = SortField::NAMES.to_vec();
        names.push(FieldOrder::STATUS);
        let name = find_value(&names, |name| name, field)
            .map_err(|reason| invalid_argument("sort", format!("sort: {reason}")))?;
        let Some(field) = SortField::ALL.into_iter().find(|field| field.name() == name) else {
            return by_field(name, statuses);
        };
        // Stores list the last change first.
        let is_reversed = is_descending != (field == SortField::Updated);
        Ok(RecordOrder { field: OrderField::Builtin(field), is_reversed })
    }
}

async fn list_backlog(
    ToolRequest { context, spec, call }: &ToolRequest<'_>,
    arguments: Arguments,
    kind: ItemKind,
) -> Result<ToolAnswer> {
    let is_below_story = kind.parent() == Some(ItemKind::UserStory);
    arguments.check_filters(kind.row())?;
    let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
    let schema = context.ports.schema(backlog.project).await?;
    let status = match &arguments.status {
        None => None,
        Some(status) => Some(find_status(&backlog, &schema, kind, status.as_str()).await?),
    };
    let epic = arguments.epic.as_ref().map(|epic| epic.parse_folded("epic")).transpose()?;
    let story =
        arguments.user_story.as_ref().map(|story| story.parse_folded("user_story")).transpose()?;
    let parents = match epic {
        Some(epic) if !is_below_story => {
            backlog.find_argument(epic, "epic").await?;
            Some([epic].into())
        }
        _ => backlog.parent_stories(epic, story).await?,
    };
    let filter = RecordFilter {
        status,
        priority: arguments.priority.map(|priority| priority.0),
        requirement_type: arguments.requirement_type.map(|argument| argument.0),
        parents,
        details: arguments.detail_filter()?,
        fields: arguments.field_filter(&schema, (kind.name(), false))?,
        ..RecordFilter::default()
    };
    let statuses: Vec<String> =
        schema.statuses_of(kind.name()).into_iter().map(|(name, _)| name).collect();
    let order = arguments.order(&schema, &statuses)?;
    // The stories of an epic may change between two pages, so the epic stands for them.
    let list = (kind, status, filter.priority, filter.requirement_type, [epic, story]);
    let details = (&filter.details, &filter.fields);
    let pages = PageReader::new(backlog.project, &(spec.name, list, details, &order));
    let query = RecordQuery { filter, order, ..RecordQuery::of_items(kind, 0) };
    let schema = ListSchema { schema: &schema, statuses };
    list_records((backlog, schema), call, arguments, query, pages, kind.row().words).await
}

/// Finds a status by name, including one that items have and the project no longer lists, or spells
/// in another way: lists count it separately.
async fn find_status(
    backlog: &BacklogReader<'_>,
    schema: &RecordSchema,
    kind: ItemKind,
    name: &str,
) -> Result<Status> {
    let statuses = schema.statuses(kind);
    let given = Status::parse(name);
    if let Some(exact) = given.filter(|status| statuses.contains(status)) {
        return Ok(exact);
    }
    if let Some(kept) = given {
        let (all, _) = backlog.list_items(&RecordQuery::of_items(kind, 0)).await?;
        if all.by_status.iter().any(|(one, _)| *one == kept) {
            return Ok(kept);
        }
    }
    let listed = synonyms::find_value(&statuses, Status::name, name);
    listed.map_or_else(|| item_lookup::find_status(schema, kind, name), Ok)
}

/// The schema of the project, and the statuses of the listed records in their order.
struct ListSchema<'a> {
    schema: &'a RecordSchema,
    statuses: Vec<String>,
}

/// Lists a page of the query's records.
async fn list_records(
    (backlog, ListSchema { schema, statuses }): (BacklogReader<'_>, ListSchema<'_>),
    call: &ToolCall,
    arguments: Arguments,
    query: RecordQuery,
    pages: PageReader,
    nouns: [&'static str; 2],
) -> Result<ToolAnswer> {
    let after: Option<RecordPosition> = pages.position(arguments.cursor.as_ref())?;
    let query = RecordQuery { after, limit: page_limit(arguments.limit), ..query };
    let (page, warnings) = backlog.list_items(&query).await?;
    let mut items: Vec<ListedItem> =
        page.metadata.iter().filter_map(|meta| ListedItem::of_record(meta, schema)).collect();
    let now = backlog.ports.clock.now();
    let claims = LiveClaims::for_view(backlog, page.metadata.iter().map(|meta| &**meta)).await;
    for (item, meta) in items.iter_mut().zip(&page.metadata) {
        item.claim = claims.view(meta, schema);
        item.review_overdue = overdue_review(meta, now).is_some();
    }
    let show = arguments.show.unwrap_or_default();
    if show.is_given() {
        let contents = ["links", "description", "extra"].map(|key| show.has(key));
        add_contents((backlog, schema), contents, &page.metadata, &mut items).await?;
    }
    if let DocumentKind::Item(kind) = query.kind {
        add_progress(backlog, schema, kind, &page.metadata, &mut items).await?;
    }
    let of_items = page.by_status.into_iter().map(|(status, n)| (status.name().to_owned(), n));
    let mut by_status: Vec<(String, usize)> = of_items.chain(page.by_text).collect();
    by_status.sort_by_cached_key(|(name, _)| {
        let rank = statuses.iter().position(|status| value_key(status) == value_key(name));
        rank.unwrap_or(statuses.len())
    });
    let by_status = by_status.into_iter().map(|(name, n)| (name, n.into())).collect();
    let next_cursor = page.next.map(|next| pages.cursor(&next));
    let (total, kind) = (page.total, query.kind);
    let all = match kind {
        DocumentKind::Item(kind) => RecordQuery::of_items(kind, 0),
        _ => RecordQuery::of_entities(query.filter.entity_kind.clone(), 0)
            .count_by(RecordCounts::Kind),
    };
    let list = ListPage { items, total, by_status, next_cursor, notes: Vec::new() };
    let metadata = page.metadata;
    let cursor_after =
        move |shown: usize| Some(pages.cursor(&query.position(metadata.get(shown - 1)?)?));
    let mut answer = page_answer((&list, schema), nouns, &show, Box::new(cursor_after))?;
    answer.add_notes(warnings.into_list());
    if total == 0 {
        let (ports, project) = (backlog.ports, backlog.project);
        let all = ports.documents.list(project, &all).await?.total;
        let excluded = excluded_note(nouns, all);
        add_reason(&mut answer, ports, &call.caller, project, &[kind], &excluded).await?;
    }
    Ok(answer)
}

fn excluded_note([one, several]: [&str; 2], total: usize) -> String {
    format!("No {one} matches these filters; the total of all {several} is {total}.")
}

/// Adds the progress of the items' children, with one query for the page.
async fn add_progress(
    backlog: BacklogReader<'_>,
    schema: &RecordSchema,
    kind: ItemKind,
    metas: &[Arc<DocumentMeta>],
    items: &mut [ListedItem],
) -> Result<()> {
    let Some(children) = kind.counted_child() else { return Ok(()) };
    let mut parents = Vec::with_capacity(metas.len());
    for meta in metas {
        // Lists show only items with a reference.
        parents.extend(item_lookup::item_meta(meta).and_then(|item| item.reference));
    }
    let mut query = RecordQuery::of_items(children, 0).count_by(RecordCounts::ChildStatus);
    query.filter.parents = Some(parents.iter().copied().collect());
    let counts = backlog.ports.documents.list(backlog.project, &query).await?.by_parent;
    for (item, parent) in items.iter_mut().zip(parents) {
        let Some(counts) = counts.get(&parent) else { continue };
        let category = |status| schema.category(children, status);
        let progress = ChildProgress::of_counts(counts, category);
        item.progress = progress.map(|ChildProgress { done, total }| match kind {
            ItemKind::Epic => ProgressView { done: Some(done), met: None, total },
            _ => ProgressView { done: None, met: Some(done), total },
        });
    }
    Ok(())
}

async fn list_entities(
    ToolRequest { context, spec, call }: &ToolRequest<'_>,
    arguments: Arguments,
) -> Result<ToolAnswer> {
    // All kinds of entities have the same fields.
    arguments.check_filters(EntityKind::any_row())?;
    let ports = &context.ports;
    let project = knowledge::resolve_project(context, &call.caller, None).await?;
    let given = arguments.kind.as_str().trim().to_lowercase();
    let kind = match given.as_str() {
        "entity" | "entities" | "knowledge" => None,
        _ => Some(knowledge::find_kind(ports, &project, &given).await.map_err(|mut error| {
            if error.kind == ErrorKind::InvalidArgument {
                error.message = format!("{}, {}, entity", error.message, item_kinds());
            }
            error
        })?),
    };
    let status = arguments.status.as_ref().map(|status| fold_name(status.as_str().trim()));
    let schema = ports.schema(&project).await?;
    let listed = kind.as_deref().unwrap_or("entity");
    let statuses: Vec<String> =
        schema.statuses_of(listed).into_iter().map(|(name, _)| name).collect();
    let (details, order) = (arguments.detail_filter()?, arguments.order(&schema, &statuses)?);
    let fields = arguments.field_filter(&schema, (listed, true))?;
    let filters = (&details, &fields);
    let pages = PageReader::new(&project, &(spec.name, &kind, &status, filters, &order));
    let mut query = RecordQuery { order, ..RecordQuery::of_entities(kind, 0) };
    (query.filter.entity_status, query.filter.details) = (status, details);
    query.filter.fields = fields;
    let backlog = BacklogReader { ports, project: &project };
    let schema = ListSchema { schema: &schema, statuses };
    list_records((backlog, schema), call, arguments, query, pages, ["entity", "entities"]).await
}

fn item_line(
    item: &ListedItem,
    has_kind: bool,
    show: &ShowKeys<ListKeys>,
    schema: &RecordSchema,
) -> String {
    let mut details = Vec::new();
    let parent = item.parent.as_ref().filter(|_| show.has("parent"));
    details.extend(parent.map(|parent| format!("parent {parent}")));
    let progress = item.progress.as_ref().filter(|_| show.has("progress"));
    details.extend(progress.map(ProgressView::text));
    details.extend(item.claim.as_ref().map(ClaimView::text));
    for (name, value) in item.fields.iter().filter(|_| show.has("fields")) {
        if show.is_given() || schema.field(name).is_some_and(CustomField::is_in_lists) {
            details.push(shorten_detail(custom_text(name, value)));
        }
    }
    // Only on request: most callers do not need them.
    if show.is_given() {
        let updated = item.updated_at.as_ref().filter(|_| show.has("updated_at"));
        details.extend(updated.map(|time| format!("updated {time}")));
        let rank = item.rank.as_ref().filter(|_| show.has("rank"));
        details.extend(rank.map(|rank| format!("rank {rank}")));
        for (relation, targets) in &item.links {
            details.push(format!("{relation} {}", targets.join(", ")));
        }
        for (key, value) in &item.extra {
            details.push(shorten_detail(custom_text(key, value)));
        }
        if show.has("version") {
            details.push(format!("version {}", &item.version[..8]));
        }
    }
    let line = EntryLine {
        id: &item.reference_id,
        kind: Some(&*item.kind).filter(|_| has_kind || show.is_given()),
        status: item.status.as_deref(),
        review_overdue: item.review_overdue,
        priority: item.priority,
        type_name: item.type_name.as_deref(),
        title: Some(&item.title),
        tags: &item.tags,
        assignee: item.assignee_username.as_deref(),
        details,
        ..EntryLine::default()
    };
    let mut line = line.keep(|key| show.has(key)).render();
    if let Some(text) = item.description.as_ref().filter(|text| !text.is_empty()) {
        line.extend(["\n", &*encode_lines(text)]);
    }
    line
}

/// Maximum length of a custom field in a line, in characters.
const MAX_DETAIL_CHARS: usize = 80;

fn shorten_detail(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(MAX_DETAIL_CHARS) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Maximum number of statuses in the heading of a list. Files may have any number.
const MAX_COUNTS: usize = 30;

fn page_answer(
    (page, schema): (&ListPage, &RecordSchema),
    [one, several]: [&'static str; 2],
    show: &ShowKeys<ListKeys>,
    cursor_after: Box<dyn Fn(usize) -> Option<String> + Send>,
) -> Result<ToolAnswer> {
    let total = page.total;
    let mut counts = Vec::with_capacity(MAX_COUNTS + 1);
    for (status, number) in page.by_status.iter().take(MAX_COUNTS) {
        counts.push(format!("{} {number}", encode_line(status)));
    }
    let others = page.by_status.len().saturating_sub(MAX_COUNTS);
    counts.extend((others > 0).then(|| format!("{others} more statuses")));
    let counts = match &counts[..] {
        [] => String::new(),
        counts => format!(" (by status: {})", counts.join(", ")),
    };
    let has_kind = page.items.windows(2).any(|pair| pair[0].kind != pair[1].kind);
    let lines = page.items.iter().map(|item| item_line(item, has_kind, show, schema)).collect();
    let mut data = serde_json::to_value(page).map_err(serialization_error)?;
    show.filter_list(&mut data["items"]);
    let heading = Box::new(move |shown| {
        let noun = if total == 1 { one } else { several };
        format!("{total} {noun}{}{counts}", showing(shown, total))
    });
    let data = Arc::new(data);
    Ok(ToolAnswer::new(PageAnswer { heading, lines, data, key: "items", cursor_after }))
}

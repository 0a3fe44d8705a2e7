//! Parses `.reqlore/project.toml`. An entry that is wrong is reported with its line and ignored.

use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::always_sections::parse_always;
use super::custom_field::{CustomField, CustomType, FieldView};
use super::ended::is_ended;
use super::schema::{
    MAX_CUSTOM_FIELDS, MAX_STATUSES, MAX_VIEWS, RecordSchema, SavedView, StatusCategory,
};
use super::values::{MAX_FIELD_NAME_CHARS, is_built_in, is_field_name, value_key};
use crate::backlog::fields::{MAX_STATUS_BYTES, find_by_name};
use crate::backlog::{ItemKind, Status};
use crate::bounded_types::{check_text, truncate_echo};
use crate::diagnostic::Diagnostic;
use crate::knowledge::EntityKind;
use crate::untrusted_text::{encode_line, is_hidden};

/// Pages parse the text each time. A document may have 8 MiB.
const MAX_BYTES: usize = 256 << 10;
const MAX_LABEL_CHARS: usize = 60;
const MAX_CHOICES: usize = 50;
const MAX_CHOICE_CHARS: usize = 100;
const MAX_QUERY_CHARS: usize = 2_000;
/// Maximum number of reports of one file.
const MAX_DIAGNOSTICS: usize = 50;

type Entry<'t, 'i> = (&'t str, Range<usize>, &'t Spanned<DeValue<'i>>);

/// A problem with the byte at which it is.
type Problem = (usize, String);

impl RecordSchema {
    /// Parses `.reqlore/project.toml`.
    pub fn parse(text: &str) -> Self {
        let mut parser = SchemaParser { text, schema: Self::default() };
        if text.len() > MAX_BYTES {
            parser.report((0, format!("the file is too long; write at most {MAX_BYTES} bytes")));
            return parser.schema;
        }
        // Entries above an error stay in effect.
        let (table, errors) = DeTable::parse_recoverable(text);
        for error in errors {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().trim().replace('\n', " ").replace("expected", "write");
            parser.report((at, format!("invalid TOML: {message}; correct the line")));
        }
        parser.parse_file(table.get_ref());
        parser.schema
    }
}

struct SchemaParser<'t> {
    text: &'t str,
    schema: RecordSchema,
}

impl SchemaParser<'_> {
    fn report(&mut self, (at, message): Problem) {
        let diagnostics = &mut self.schema.diagnostics;
        if diagnostics.len() < MAX_DIAGNOSTICS {
            let before = self.text.as_bytes().get(..at).unwrap_or_default();
            let line = before.split(|byte| *byte == b'\n').count();
            diagnostics.push(Diagnostic::new(line, message));
        }
    }

    fn parse_file(&mut self, file: &DeTable<'_>) {
        for (key, span, value) in entries(file) {
            let section = match key {
                "fields" => Self::parse_field,
                "statuses" => Self::parse_statuses,
                "views" => Self::parse_view,
                "context" => Self::parse_context,
                _ => {
                    let key = truncate_echo(key);
                    let message =
                        format!("{key:?} is unknown; use fields, statuses, views or context");
                    self.report((span.start, message));
                    continue;
                }
            };
            let Some(table) = value.get_ref().as_table() else {
                let entry = if key == "context" { "" } else { ".NAME" };
                self.report((span.start, format!("{key} is not a table; write [{key}{entry}]")));
                continue;
            };
            for entry in entries(table) {
                if let Err(problem) = section(self, entry) {
                    self.report(problem);
                }
            }
        }
    }

    fn parse_field(&mut self, (name, span, value): Entry<'_, '_>) -> Result<(), Problem> {
        let fail = |message: &str| Err((span.start, in_field(name, message)));
        if !is_field_name(name) {
            return fail(&format!(
                "the name is invalid; use at most {MAX_FIELD_NAME_CHARS} lower-case letters, \
                 digits and _, a letter first"
            ));
        }
        if is_built_in(name) {
            return fail("the name is used by a built-in field or relation; choose another");
        }
        if self.schema.own_fields().count() == MAX_CUSTOM_FIELDS {
            return fail(&format!("a project has at most {MAX_CUSTOM_FIELDS} fields; remove some"));
        }
        let Some(table) = value.get_ref().as_table() else {
            return fail(&format!("it is not a table; write [fields.{name}]"));
        };
        let mut field = CustomField {
            name: name.to_owned(),
            kinds: Vec::new(),
            label: default_label(name),
            field_type: CustomType::Text,
            choices: Vec::new(),
            is_built_in: false,
            is_required: false,
            views: BTreeSet::new(),
        };
        let (mut type_name, mut values) = ("", None);
        for (key, span, value) in entries(table) {
            let at = |message: String| (span.start, format!("field {name}: {key} {message}"));
            match key {
                "kinds" => field.kinds = parse_kinds(&texts(value).map_err(&at)?).map_err(at)?,
                "label" => field.label = parse_label(value).map_err(at)?,
                "type" => type_name = text_of(value).map_err(at)?,
                "values" => values = Some(parse_choices(&texts(value).map_err(&at)?).map_err(at)?),
                "required" => field.is_required = flag(value).map_err(at)?,
                _ => match FieldView::ALL.into_iter().find(|view| view.name() == key) {
                    Some(view) if flag(value).map_err(at)? => _ = field.views.insert(view),
                    Some(_) => {}
                    None => self.report((span.start, unknown_key(name, key))),
                },
            }
        }
        if field.kinds.is_empty() {
            return fail("kinds is missing; write for example kinds = [\"requirement\"]");
        }
        let problem = |message: String| (span.start, in_field(name, &message));
        field.field_type = parse_type(type_name, values.is_some()).map_err(problem)?;
        field.choices = values.unwrap_or_default();
        self.schema.fields.push(field);
        Ok(())
    }

    fn parse_statuses(&mut self, (kind, span, value): Entry<'_, '_>) -> Result<(), Problem> {
        let shown = encode_line(truncate_echo(kind));
        let fail = |at: usize, message: &str| Err((at, format!("statuses of {shown}: {message}")));
        let start = span.start;
        let item_kind = ItemKind::ALL.into_iter().find(|one| one.name() == kind);
        match item_kind {
            Some(item) if !item.has_custom_statuses() => {
                let names: Vec<&str> = item.statuses().iter().map(Status::name).collect();
                return fail(start, &format!("it has {}; remove them", names.join(", ")));
            }
            None if kind != "entity" && EntityKind::parse(kind).is_none() => {
                let kinds = "epic, user_story, entity or a kind of entity";
                return fail(start, &format!("the kind is unknown; use {kinds}"));
            }
            _ => {}
        }
        let Some(table) = value.get_ref().as_table() else {
            return fail(start, "it is not a table; write order = [...]");
        };
        let (mut order, mut categories) = (Vec::new(), Vec::new());
        for (key, span, value) in entries(table) {
            let at = |message: String| (span.start, format!("statuses of {kind}: {key} {message}"));
            match key {
                "order" => order = texts(value).map_err(at)?,
                "category" => {
                    let Some(table) = value.get_ref().as_table() else {
                        return fail(span.start, "category is not a table of names");
                    };
                    for (name, span, value) in entries(table) {
                        categories.push((name, span.start, text_of(value).map_err(&at)?));
                    }
                }
                _ => {
                    let key = truncate_echo(key);
                    let message = format!("{key:?} is unknown; use order and category");
                    self.report((span.start, format!("statuses of {kind}: {message}")));
                }
            }
        }
        let at = |(at, message): Problem| (at, format!("statuses of {kind}: {message}"));
        let statuses = order_statuses(start, &order, &categories, item_kind).map_err(at)?;
        let kind = EntityKind::parse(kind).map_or(kind, |one| one.name());
        self.schema.statuses.insert(kind.to_owned(), statuses);
        Ok(())
    }

    fn parse_view(&mut self, (name, span, value): Entry<'_, '_>) -> Result<(), Problem> {
        let in_view = |message: &str| format!("view {}: {message}", echo(name));
        let fail = |message: &str| Err((span.start, in_view(message)));
        let views = &self.schema.views;
        if let Err(problem) = check_label(name) {
            return fail(&format!("the name is invalid: {problem}"));
        }
        if views.iter().any(|view| value_key(&view.name) == value_key(name)) {
            return fail("the name stands twice; choose another");
        }
        if views.len() == MAX_VIEWS {
            return fail(&format!("a project has at most {MAX_VIEWS} views; remove some"));
        }
        let Some(table) = value.get_ref().as_table() else {
            return fail("it is not a table; write query = \"...\" below [views.NAME]");
        };
        let mut query = "";
        for (key, span, value) in entries(table) {
            if key == "query" {
                let at = |problem: String| (span.start, in_view(&format!("query {problem}")));
                query = parse_query(value).map_err(at)?;
            } else {
                let message = format!("{} is unknown; use query", echo(key));
                self.report((span.start, in_view(&message)));
            }
        }
        if query.is_empty() {
            return fail("query is missing; write for example query = \"kind=epic\"");
        }
        let (name, query) = (name.trim().to_owned(), query.to_owned());
        self.schema.views.push(SavedView { name, query });
        Ok(())
    }

    fn parse_context(&mut self, (key, span, value): Entry<'_, '_>) -> Result<(), Problem> {
        self.schema.always = parse_always(key, value).map_err(|problem| (span.start, problem))?;
        Ok(())
    }
}

fn parse_query<'t>(value: &'t Spanned<DeValue<'_>>) -> Result<&'t str, String> {
    let query = text_of(value)?;
    check_text(query, MAX_QUERY_CHARS).map_err(|problem| format!("has {problem}"))?;
    one_line(query)?;
    for pair in query.split('&') {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        let is_custom = name.strip_prefix("field.").is_some_and(is_field_name);
        if !is_custom && !SavedView::FILTERS.contains(&name) {
            let (name, names) = (echo(name), SavedView::FILTERS.join(", "));
            return Err(format!("has the filter {name}; use {names} or field.NAME"));
        }
    }
    Ok(query)
}

fn order_statuses(
    start: usize,
    order: &[&str],
    categories: &[(&str, usize, &str)],
    kind: Option<ItemKind>,
) -> Result<Vec<(String, StatusCategory)>, Problem> {
    if order.is_empty() || order.len() > MAX_STATUSES {
        let count = order.len();
        return Err((start, format!("order has {count} names; write 1 to {MAX_STATUSES}")));
    }
    let mut statuses: Vec<(String, StatusCategory)> = Vec::new();
    for name in order {
        let name = canonical_name(name, kind).map_err(|message| (start, message))?;
        if statuses.iter().any(|(other, _)| value_key(other) == value_key(&name)) {
            return Err((start, format!("{} stands twice in order; remove one", echo(&name))));
        }
        let category = default_category(&name, kind).unwrap_or(StatusCategory::Active);
        statuses.push((name, category));
    }
    for (name, at, category) in categories {
        let fail = |message: String| Err((*at, message));
        let Some(category) = StatusCategory::ALL.iter().find(|one| one.name() == *category) else {
            return fail(format!("{} is not open, active, done or dropped", echo(category)));
        };
        let same = |(other, _): &&mut (String, _)| value_key(other) == value_key(name);
        let Some((name, old)) = statuses.iter_mut().find(same) else {
            return fail(format!("{} has a category but is not in order", echo(name)));
        };
        let fixed = kind.and_then(|_| default_category(name, kind));
        if fixed.is_some_and(|fixed| fixed != *category) {
            return fail(format!("the category of {} is fixed; remove it", echo(name)));
        }
        *old = *category;
    }
    for (needed, word) in [(StatusCategory::Open, "open"), (StatusCategory::Done, "done")] {
        if !statuses.iter().any(|(_, category)| *category == needed) {
            return Err((start, format!("no status is {word}; add one to order")));
        }
    }
    Ok(statuses)
}

fn in_field(name: &str, message: &str) -> String {
    format!("field {}: {message}", echo(name))
}

fn unknown_key(field: &str, key: &str) -> String {
    let key = truncate_echo(key);
    format!(
        "field {field}: {key:?} is unknown; use kinds, label, type, values, column, card, filter, \
         sort or required"
    )
}

fn parse_label(value: &Spanned<DeValue<'_>>) -> Result<String, String> {
    let label = text_of(value)?;
    check_label(label)?;
    Ok(label.trim().to_owned())
}

fn check_label(label: &str) -> Result<(), String> {
    check_text(label, MAX_LABEL_CHARS)?;
    one_line(label)
}

fn parse_type(name: &str, has_values: bool) -> Result<CustomType, String> {
    let found = CustomType::ALL.into_iter().find(|one| one.name() == name);
    match (found, has_values) {
        (Some(CustomType::Choice), false) => {
            Err("a choice needs values; write values = [\"Low\"]".to_owned())
        }
        (found, true) if found != Some(CustomType::Choice) => {
            Err("only a choice has values; remove them".to_owned())
        }
        (Some(found), _) => Ok(found),
        (None, _) => {
            let names = CustomType::NAMES.join(", ");
            Err(format!("type {} is invalid; use one of {names}", echo(name)))
        }
    }
}

/// The spelling of a status: of a built-in one, or as given.
fn canonical_name(name: &str, kind: Option<ItemKind>) -> Result<String, String> {
    let name = name.trim();
    one_line(name)?;
    if name.is_empty() || name.len() > MAX_STATUS_BYTES {
        return Err(format!("a name has 1 to {MAX_STATUS_BYTES} bytes; shorten {}", echo(name)));
    }
    let Some(status) = Status::parse(name).filter(|_| kind.is_some()) else {
        return Ok(name.to_owned());
    };
    if [Status::Active, Status::Obsolete].contains(&status) {
        return Err(format!("{} is a status of requirements; choose another", echo(name)));
    }
    Ok(status.name().to_owned())
}

/// The category of a status that needs none in the file.
fn default_category(name: &str, kind: Option<ItemKind>) -> Option<StatusCategory> {
    if kind.is_some() {
        return Status::parse(name)?.category();
    }
    if is_ended(name) {
        return Some(StatusCategory::Dropped);
    }
    Some(match value_key(name).trim_start_matches('=') {
        "draft" | "open" | "proposed" => StatusCategory::Open,
        "accepted" | "closed" | "done" | "resolved" => StatusCategory::Done,
        "active" | "blocked" | "in_progress" => StatusCategory::Active,
        _ => return None,
    })
}

fn entries<'t, 'i>(table: &'t DeTable<'i>) -> Vec<Entry<'t, 'i>> {
    let mut entries: Vec<Entry<'t, 'i>> =
        table.iter().map(|(key, value)| (&**key.get_ref(), key.span(), value)).collect();
    entries.sort_by_key(|(_, span, _)| span.start);
    entries
}

fn text_of<'t>(value: &'t Spanned<DeValue<'_>>) -> Result<&'t str, String> {
    value.get_ref().as_str().ok_or_else(|| "is not a text; write it in quotes".to_owned())
}

fn flag(value: &Spanned<DeValue<'_>>) -> Result<bool, String> {
    value.get_ref().as_bool().ok_or_else(|| "is not true or false".to_owned())
}

fn texts<'t>(value: &'t Spanned<DeValue<'_>>) -> Result<Vec<&'t str>, String> {
    let texts: Option<Vec<&str>> = value
        .get_ref()
        .as_array()
        .and_then(|items| items.iter().map(|item| item.get_ref().as_str()).collect());
    texts.ok_or_else(|| "is not a list of texts; write it like [\"a\", \"b\"]".to_owned())
}

fn parse_kinds(given: &[&str]) -> Result<Vec<String>, String> {
    let mut kinds = Vec::new();
    for name in given {
        let item = find_by_name(&ItemKind::ALL, |one| one.name(), name).map(ItemKind::name);
        let entity = || EntityKind::parse(name).map(EntityKind::name);
        let entities = || (*name == "entity").then_some("entity");
        let Some(kind) = item.or_else(entity).or_else(entities) else {
            let name = echo(name);
            return Err(format!("names {name}; use kinds such as requirement, epic or entity"));
        };
        if !kinds.iter().any(|other| other == kind) {
            kinds.push(kind.to_owned());
        }
    }
    Ok(kinds)
}

fn parse_choices(given: &[&str]) -> Result<Vec<String>, String> {
    if given.is_empty() || given.len() > MAX_CHOICES {
        return Err(format!("has {} texts; write 1 to {MAX_CHOICES}", given.len()));
    }
    let mut values: Vec<String> = Vec::new();
    for text in given {
        check_text(text, MAX_CHOICE_CHARS).map_err(|problem| format!("has {problem}"))?;
        one_line(text).map_err(|problem| format!("has {}: {problem}", echo(text)))?;
        let text = text.trim();
        if values.iter().any(|other| value_key(other) == value_key(text)) {
            return Err(format!("has {} twice; remove one", echo(text)));
        }
        values.push(text.to_owned());
    }
    Ok(values)
}

fn one_line(text: &str) -> Result<(), String> {
    // Tools, pages and tables show labels and values next to each other.
    if text.contains(is_hidden) {
        return Err("control and hidden characters are not allowed; remove them".to_owned());
    }
    Ok(())
}

fn echo(text: &str) -> String {
    format!("{:?}", truncate_echo(text))
}

/// `risk_level` as `Risk level`.
fn default_label(name: &str) -> String {
    let mut label = name.replace('_', " ");
    if let Some(first) = label.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded_types::one_line as join_lines;

    const VALID: &str = r#"
[fields.risk]
kinds = ["requirement", "user_story"]
label = "Risk"
type = "choice"
values = ["Low", "Medium", "High"]
column = true
filter = true
[fields.effort_days]
kinds = ["requirement", "entity"]
type = "number"
sort = true

[statuses.user_story]
order = ["backlog", "Ready", "In Progress", "Review", "Done", "Cancelled"]
category = { Ready = "open", Review = "active" }
[statuses.decision]
order = ["proposed", "Trial", "accepted"]
"#;

    fn problems(text: &str) -> Vec<String> {
        let schema = RecordSchema::parse(text);
        let line = |one: &Diagnostic| format!("{}: {}", one.line.unwrap_or(0), one.message);
        schema.diagnostics.iter().map(line).collect()
    }

    #[test]
    fn fields_and_statuses_are_read() {
        let schema = RecordSchema::parse(VALID);
        assert_eq!(schema.diagnostics, []);
        let names: Vec<&str> =
            schema.item_fields(ItemKind::Requirement).map(|field| &*field.name).collect();
        assert_eq!(names, ["risk", "effort_days"]);
        assert_eq!(schema.item_fields(ItemKind::UserStory).count(), 1);
        assert_eq!(schema.own_fields().filter(|field| field.has_kind("decision", true)).count(), 1);
        assert_eq!(schema.field("effort_days").unwrap().label, "Effort days");
        let statuses = schema.statuses(ItemKind::UserStory);
        let statuses: Vec<&str> = statuses.iter().map(Status::name).collect();
        let expected = ["Backlog", "Ready", "In Progress", "Review", "Done", "Cancelled"];
        assert_eq!(statuses, expected);
        assert_eq!(schema.statuses(ItemKind::Epic), Status::WORK_STATUSES);
        assert_eq!(schema.initial_status(ItemKind::UserStory), Some(Status::Backlog));
        let category = |name| schema.category(ItemKind::UserStory, Status::parse(name).unwrap());
        assert_eq!(category("Review"), StatusCategory::Active);
        assert_eq!(category("Ready"), StatusCategory::Open);
        assert_eq!(category("Unknown"), StatusCategory::Open);
        assert_eq!(schema.entity_statuses("decision").unwrap().len(), 3);
        assert_eq!(schema.entity_statuses("issue"), None);
    }

    #[test]
    fn wrong_entries_are_reported_and_the_rest_is_valid() {
        for (text, expected) in [
            ("[pages.a]\n", "1: \"pages\" is unknown; use fields, statuses, views or context"),
            ("[views.a]\n", "1: view \"a\": query is missing;"),
            ("[views]\na = 1\n", "2: view \"a\": it is not a table;"),
            ("[views.\" \"]\n", "1: view \" \": the name is invalid:"),
            ("[views.\"a\\nb\"]\n", "1: view \"a\\nb\": the name is invalid: control"),
            ("[views.a]\nquery = 1\n", "2: view \"a\": query is not a text;"),
            ("[views.a]\nquery = \"\"\n", "2: view \"a\": query has 1 to 2000 characters"),
            ("[views.a]\nquery = \"q=\\u202e\"\n", "2: view \"a\": query control"),
            ("[views.a]\nquery = \"kind=epic&done=1\"\n", "2: view \"a\": query has the filter"),
            ("[views.a]\nquery = \"?kind=epic\"\n", "2: view \"a\": query has the filter \"?k"),
            ("[views.a]\nquery = \"field.A=1\"\n", "2: view \"a\": query has the filter"),
            ("[views.a]\npage = 1\n", "2: view \"a\": \"page\" is unknown; use query"),
            ("[views]\na.query = \"q=1\"\nA.query = \"q=2\"\n", "3: view \"A\": the name stands"),
            ("[fields.Risk]\n", "1: field \"Risk\": the name is invalid;"),
            ("[fields.status]\n", "1: field \"status\": the name is used by a built-in"),
            ("[fields.depends_on]\n", "1: field \"depends_on\": the name is used by a built-in"),
            ("[fields.user_story]\n", "1: field \"user_story\": the name is used by a built-in"),
            ("[fields.a]\ntype = \"text\"\n", "1: field \"a\": kinds is missing;"),
            ("[fields.a]\nkinds = [\"car\"]\n", "2: field a: kinds names \"car\";"),
            (
                "[fields.a]\nkinds = [\"epic\"]\ntype = \"x\"\n",
                "1: field \"a\": type \"x\" is invalid",
            ),
            ("[fields.a]\nkinds = [\"epic\"]\n", "1: field \"a\": type \"\" is invalid;"),
            (
                "[fields.a]\nkinds = [\"epic\"]\ntype = \"choice\"\n",
                "1: field \"a\": a choice needs",
            ),
            ("[fields.a]\nvalues = [\"b\", \"B\"]\n", "2: field a: values has \"B\" twice;"),
            ("[fields.a]\ncolumn = 1\n", "2: field a: column is not true or false"),
            (
                "[statuses.requirement]\n",
                "1: statuses of requirement: it has Draft, Active, Obsolete;",
            ),
            ("[statuses.car]\n", "1: statuses of car: the kind is unknown;"),
            ("[statuses.epic]\norder = [\"Done\"]\n", "1: statuses of epic: no status is open;"),
            ("[statuses.epic]\norder = [\"Backlog\"]\n", "1: statuses of epic: no status is done;"),
            (
                "[statuses.epic]\norder = [\"Done\", \"done\"]\n",
                "1: statuses of epic: \"Done\" stands",
            ),
            (
                "[statuses.epic]\norder = [\"Active\"]\n",
                "1: statuses of epic: \"Active\" is a status",
            ),
            (
                "[statuses.epic]\norder = [\"Draft\", \"Done\"]\ncategory = { Done = \"open\" }\n",
                "3: statuses of epic: the category of \"Done\" is fixed;",
            ),
            (
                "[statuses.epic]\norder = [\"Draft\", \"Done\"]\ncategory = { Gone = \"open\" }\n",
                "3: statuses of epic: \"Gone\" has a category but is not in order",
            ),
        ] {
            let with_valid = format!("{text}{}", VALID.replace("[statuses.user_story]", "[x.y]"));
            let found = problems(&with_valid);
            assert!(found[0].starts_with(expected), "{expected}\n{found:?}");
            assert_eq!(RecordSchema::parse(&with_valid).item_fields(ItemKind::Epic).count(), 0);
            assert!(RecordSchema::parse(&with_valid).field("risk").is_some(), "{text}");
        }
    }

    #[test]
    fn views_are_read_in_the_order_of_the_file() {
        let text = "[views.\" High <b> risk \"]\nquery = \"kind=requirement&status=In Progress\"\n\
                    [views.all]\nquery = \"field.risk=High&sort=-updated\"\n";
        let schema = RecordSchema::parse(text);
        assert_eq!(schema.diagnostics, []);
        let view = |name: &str, query: &str| SavedView { name: name.into(), query: query.into() };
        let expected = [
            view("High <b> risk", "kind=requirement&status=In Progress"),
            view("all", "field.risk=High&sort=-updated"),
        ];
        assert_eq!(schema.views, expected);
        let views = (0..60).map(|number| format!("[views.v{number}]\nquery = \"q={number}\"\n"));
        let schema = RecordSchema::parse(&views.collect::<String>());
        assert_eq!((schema.views.len(), schema.diagnostics.len()), (MAX_VIEWS, 10));
        assert!(schema.diagnostics[0].message.contains("at most 50 views"));
    }

    #[test]
    fn unreadable_and_huge_files_are_reported() {
        assert_eq!(problems("fields = 1"), ["1: fields is not a table; write [fields.NAME]"]);
        let conflict = "[fields.a]\n<<<<<<< HEAD\nkinds = [\"epic\"]\n";
        assert!(problems(conflict)[0].starts_with("2: invalid TOML:"), "{:?}", problems(conflict));
        let whole = RecordSchema::parse(&format!("{VALID}{conflict}"));
        assert!(whole.field("risk").is_some(), "{:?}", whole.diagnostics);
        let field =
            |number: u32| format!("[fields.f{number}]\nkinds = [\"epic\"]\ntype = \"text\"\n");
        let huge: Vec<String> = (0..1_000).map(field).collect();
        let schema = RecordSchema::parse(&huge.concat());
        assert_eq!(schema.fields.len(), MAX_CUSTOM_FIELDS);
        assert_eq!(schema.diagnostics.len(), MAX_DIAGNOSTICS);
        assert!(join_lines(&schema.diagnostics[0].message).contains("at most 40 fields"));
    }
}

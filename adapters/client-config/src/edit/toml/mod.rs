//! An entry in TOML, whichever of its ways to write a table somebody chose.
//!
//! `[mcp_servers.reqlore]`, `reqlore = { … }` and `reqlore.command = "…"` say the same. What is
//! there is changed in its own way; what is new gets a header of its own at the end of the file.

mod change;
mod print;

use serde_json::Value as Json;
use toml_edit::{Document, InlineTable, Item, Table, TableLike, Value};

use super::{Entry, NAME, Unreadable};

pub(super) fn find(body: &str, path: &[&str]) -> Result<Option<Json>, Unreadable> {
    let document = read(body)?;
    let names: Vec<&str> = path.iter().copied().chain([NAME]).collect();
    let way = walk(body, &document, &names)?;
    Ok(way.entry.map(json))
}

pub(super) fn put(body: &str, path: &[&str], entry: &Entry) -> Result<String, Unreadable> {
    let names: Vec<&str> = path.iter().copied().chain([NAME]).collect();
    let mut body = body.to_owned();
    // A key that has another form than it shall have is taken out first: two steps for each.
    for _ in 0..=2 * entry.set.len() + entry.drop.len() {
        let Some(edited) = step(&body, &names, entry)? else { break };
        body = edited;
    }
    Ok(body)
}

pub(super) fn take(body: &str, path: &[&str]) -> Result<String, Unreadable> {
    let document = read(body)?;
    let names: Vec<&str> = path.iter().copied().chain([NAME]).collect();
    let way = walk(body, &document, &names)?;
    let Some(entry) = way.entry else { return Ok(body.to_owned()) };
    Ok(change::remove(body, way.around, entry))
}

/// The next change that leads to the entry as it shall be, if there is one to do.
fn step(body: &str, names: &[&str], entry: &Entry) -> Result<Option<String>, Unreadable> {
    let document = read(body)?;
    let way = walk(body, &document, names)?;
    let Some(here) = way.entry else {
        return Ok(Some(match way.around {
            Home::Inline { table, depth } => {
                let value = print::inline(&Json::Object(entry.set.clone()));
                change::insert_inline(body, table, &names[depth..], &value)
            }
            Home::Section { .. } => change::append(body, names, &entry.set),
        }));
    };
    let Some(table) = here.as_table_like() else { return Ok(None) };
    let home = way.around.or_in(here, names.len());
    for key in entry.drop {
        if let Some(dropped) = table.get(key) {
            return Ok(Some(change::remove(body, home, dropped)));
        }
    }
    for (key, value) in entry.set.iter().filter(|(_, value)| !value.is_null()) {
        let Some(old) = table.get(key) else {
            return Ok(Some(change::add(body, home, here, names, key, value)));
        };
        if json(old) != *value {
            return Ok(Some(
                change::replace(body, old, value)
                    .unwrap_or_else(|| change::remove(body, home, old)),
            ));
        }
    }
    Ok(None)
}

/// Where the text of a thing stands: the nearest table around it that has a text of its own, and
/// how many names lead to that.
#[derive(Clone, Copy)]
enum Home<'d> {
    /// Under a header, or at the top of the file, or nowhere if there are only headers below it.
    Section { table: &'d Table, depth: usize },
    /// Between braces.
    Inline { table: &'d InlineTable, depth: usize },
}

impl<'d> Home<'d> {
    /// The home of what is in this item, which is here.
    fn or_in(self, item: &'d Item, depth: usize) -> Self {
        match item {
            Item::Value(Value::InlineTable(table)) if !table.is_dotted() => {
                Self::Inline { table, depth }
            }
            Item::Table(table) if !table.is_dotted() => Self::Section { table, depth },
            _ => self,
        }
    }
}

struct Way<'d> {
    around: Home<'d>,
    entry: Option<&'d Item>,
}

fn walk<'d>(
    body: &str,
    document: &'d Document<&str>,
    names: &[&str],
) -> Result<Way<'d>, Unreadable> {
    let mut around = Home::Section { table: document.as_table(), depth: 0 };
    let mut map: &dyn TableLike = document.as_table();
    for (depth, name) in names.iter().enumerate() {
        let Some(item) = map.get(name) else { return Ok(Way { around, entry: None }) };
        let Some(inner) = item.as_table_like() else {
            let place = item.span().map_or(0, |span| span.start);
            let what = format!("`{name}` has to be a table; remove it, then run this again");
            return Err(Unreadable::at(body, place, &what));
        };
        if depth + 1 == names.len() {
            return Ok(Way { around, entry: Some(item) });
        }
        around = around.or_in(item, depth + 1);
        map = inner;
    }
    Ok(Way { around, entry: None })
}

fn read(body: &str) -> Result<Document<&str>, Unreadable> {
    Document::parse(body).map_err(|error| {
        let place = error.span().map_or(0, |span| span.start);
        let what = error.message().lines().collect::<Vec<_>>().join(", ");
        let what = format!(
            "the file is not the TOML that its client reads: {what}; correct it there, or move \
             the file away, then run this again"
        );
        Unreadable::at(body, place, &what)
    })
}

fn json(item: &Item) -> Json {
    match item {
        Item::Value(value) => json_of_value(value),
        Item::Table(table) => json_of_map(table),
        Item::ArrayOfTables(tables) => {
            Json::Array(tables.iter().map(|table| json_of_map(table)).collect())
        }
        Item::None => Json::Null,
    }
}

fn json_of_map(table: &dyn TableLike) -> Json {
    Json::Object(table.iter().map(|(key, item)| (key.to_owned(), json(item))).collect())
}

fn json_of_value(value: &Value) -> Json {
    match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(truth) => Json::from(*truth.value()),
        Value::Datetime(time) => Json::from(time.value().to_string()),
        Value::Array(items) => Json::Array(items.iter().map(json_of_value).collect()),
        Value::InlineTable(table) => json_of_map(table),
    }
}

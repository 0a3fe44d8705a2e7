//! Adds a field, a status or a view to the text of a record schema. Keeps the other lines.

use reqlore_domain::backlog::ItemKind;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, value};

use crate::form_fields::{FormFields, split_list};
use crate::project_schema::ProjectSchema;

/// Adds the field of a form to the text. The caller must validate the result.
pub(super) fn add_field(text: &str, form: &FormFields) -> Result<String, String> {
    let mut document = parse(text)?;
    let fields = section(&mut document, "fields")?;
    let name = form.text("name").trim();
    if fields.contains_key(name) {
        return Err(format!("The project already has a field {name}; choose another name"));
    }
    let mut field = Table::new();
    field.insert("kinds", value(form.all("kind").collect::<Array>()));
    if let Some(label) = form.filled("label") {
        field.insert("label", value(label));
    }
    field.insert("type", value(form.text("type")));
    let values = split_list(form.text("values"));
    if !values.is_empty() {
        field.insert("values", value(values.into_iter().collect::<Array>()));
    }
    for option in form.all("option") {
        field.insert(option, value(true));
    }
    fields.insert(name, Item::Table(field));
    Ok(document.to_string())
}

/// Adds the status of a form to the text. A kind without an order gets its current statuses as one.
pub(super) fn add_status(schema: &ProjectSchema, form: &FormFields) -> Result<String, String> {
    let mut document = parse(&schema.answer.text)?;
    let kind = form.text("kind");
    let [name, category] = ["name", "category"].map(|field| form.text(field).trim());
    let own = section(&mut document, "statuses")?.entry(kind).or_insert(Item::Table(Table::new()));
    let unusual = || format!("The form cannot change the statuses of {kind}; edit the text");
    let own = own.as_table_like_mut().ok_or_else(unusual)?;
    let current = schema.answer.kinds.iter().filter(|one| one.kind == kind);
    let current: Vec<_> = current.flat_map(|one| &one.statuses).collect();
    // Only the statuses of items have fixed categories.
    let inherits = !own.contains_key("order") && ItemKind::from_name(kind).is_none();
    let names = current.iter().map(|status| &*status.name);
    let order = own.entry("order").or_insert_with(|| value(names.collect::<Array>()));
    let order = order.as_array_mut().ok_or_else(unusual)?;
    let position = form.text("position").trim().parse().unwrap_or(usize::MAX);
    order.insert(position.saturating_sub(1).min(order.len()), name);
    let categories = own.entry("category").or_insert_with(|| value(InlineTable::new()));
    let categories = categories.as_table_like_mut().ok_or_else(unusual)?;
    for status in current.iter().filter(|_| inherits) {
        categories.insert(&status.name, value(&*status.category));
    }
    categories.insert(name, value(category));
    Ok(document.to_string())
}

/// Saves the filters of a form under a name, or removes the view if they are empty.
pub(super) fn set_view(text: &str, form: &FormFields) -> Result<String, String> {
    let mut document = parse(text)?;
    let (views, name) = (section(&mut document, "views")?, form.text("name").trim());
    views.retain(|other, _| other.trim() != name);
    if let Some(query) = form.filled("query") {
        views.insert(name, Item::Table(Table::from_iter([("query", value(query))])));
    }
    Ok(document.to_string())
}

fn parse(text: &str) -> Result<DocumentMut, String> {
    text.parse().map_err(|_| "The text is not valid TOML; correct it below first".to_owned())
}

fn section<'d>(document: &'d mut DocumentMut, name: &str) -> Result<&'d mut Table, String> {
    let mut empty = Table::new();
    // Write headers such as [fields.risk], but no empty [fields].
    empty.set_implicit(true);
    let section = document.entry(name).or_insert(Item::Table(empty));
    section.as_table_mut().ok_or_else(|| format!("{name} is not a table; edit the text"))
}

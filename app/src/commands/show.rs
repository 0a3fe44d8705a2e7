//! `reqlore show`: shows a document with its fields, children, and links in both directions.

use reqlore_domain::records::answers::claims::ClaimView;
use reqlore_domain::records::answers::details::{ItemDetails, ItemView, LinkEnd};
use reqlore_domain::records::schema::RecordSchema;
use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::list::{custom_texts, priority_name};
use super::output::{OutputScreen, TextStyle, TextTable, clean_line};
use super::terminal_markdown::render;
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::{print_json, wrap_line};
use crate::config::AppConfig;
use crate::exit::Result;

#[derive(Debug, clap::Args)]
pub(crate) struct ShowOptions {
    /// Any ID: EP-001, dec-1d2c8f, general, general:2.1
    #[arg(value_name = "ID", add = super::complete::all_ids())]
    reference: String,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &ShowOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let arguments = json!({ "reference": options.reference });
    let answer = client.call_for_answer("get_item", arguments)?;
    if options.json {
        return print_json(&*answer.data);
    }
    let details: ItemDetails = answer.answer()?;
    let schema = client.record_schema()?;
    drop(client);
    let screen = OutputScreen::of_stdout();
    screen.print(&details_text(&details, &schema, &screen))
}

fn details_text(details: &ItemDetails, schema: &RecordSchema, screen: &OutputScreen) -> String {
    let item = &details.item;
    let (id, title) = (clean_line(item.id()), clean_line(item.title()));
    // Indented, so that a title can't look like a field.
    let indent = format!("\n{}", " ".repeat(id.width() + 2));
    let width = screen.width.map_or(usize::MAX, |width| width.saturating_sub(id.width() + 2));
    let title = wrap_line(&title, width).join(&indent);
    let id = screen.paint(TextStyle::Cyan, &id);
    let mut text = format!("{id}  {}\n", screen.paint(TextStyle::Bold, &title));
    for line in field_lines(item, schema) {
        text += &screen.wrapped(&clean_line(&line), TextStyle::Dim);
    }
    if let Some(problem) = &details.diagnostic {
        let problem = format!("Problem in the file: {}", clean_line(problem));
        text += &screen.wrapped(&problem, TextStyle::Red);
    }
    if !item.text().trim().is_empty() {
        text += &format!("\n{}", render(item.text(), screen));
    }
    text += &children_text(details, screen);
    text += &links_text(details, screen);
    let others = details.other_ids.join(", ");
    if !others.is_empty() {
        let others = format!("The same ID also names {}.", clean_line(&others));
        text += &format!("\n{}", screen.wrapped(&others, TextStyle::Plain));
    }
    text
}

/// The kind and the short fields; the custom fields; then dates, people and the version.
fn field_lines(item: &ItemView, schema: &RecordSchema) -> Vec<String> {
    let mut facts = vec![item.kind_words()];
    facts.extend(item.parent().map(|parent| format!("of {parent}")));
    facts.extend(item.status().map(str::to_owned));
    let mut origin = Vec::new();
    if let Some(record) = item.record() {
        facts.push(priority_name(item.priority()).to_owned());
        facts.extend(item.type_name().map(str::to_owned));
        facts.extend(item.assignee().map(|name| format!("assigned to {name}")));
        facts.extend(record.claim.as_ref().map(ClaimView::text));
        origin.push(format!("created {} by {}", record.created_at, record.creator_username));
        origin.push(format!("changed {}", record.updated_at));
    }
    let tags = item.tags().join(", ");
    if !tags.is_empty() {
        facts.push(format!("tags: {tags}"));
    }
    facts.retain(|fact| !fact.is_empty());
    origin.extend(item.version().get(..8).map(|version| format!("version {version}")));
    let custom = custom_texts(&schema.fields, item.fields());
    let mut lines = vec![facts.join(" · "), custom.join(" · "), origin.join(" · ")];
    lines.retain(|line| !line.is_empty());
    lines
}

fn children_text(details: &ItemDetails, screen: &OutputScreen) -> String {
    let children = details.children.as_deref().unwrap_or_default();
    if children.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["ID", "STATUS", "PRIORITY", "TITLE"])
        .with_optional(&["PRIORITY"])
        .with_status("STATUS");
    for child in children {
        let priority = priority_name(child.priority).to_owned();
        let status = child.status.clone().unwrap_or_default();
        table.push([child.reference_id.clone(), status, priority, child.title.clone()]);
    }
    table.drop_empty_columns();
    format!("\n{}", table.format(screen))
}

/// Sentences such as `this depends on REQ-002: Refund (Draft)`.
fn links_text(details: &ItemDetails, screen: &OutputScreen) -> String {
    let mut lines = Vec::new();
    for ends in details.link_ends() {
        for link in &ends.outgoing {
            let (relation, id) = (relation_words(link), clean_line(&link.id));
            lines.push(format!("this {relation} {id}{}", target_text(link)));
        }
        for link in &ends.incoming {
            let (relation, id) = (relation_words(link), clean_line(&link.id));
            lines.push(format!("{id} {relation} this{}", target_text(link)));
        }
        if ends.hidden > 0 {
            lines.push(format!("and {} more that link to this", ends.hidden));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", screen.paint(TextStyle::Bold, "Links"));
    for line in lines {
        text += &screen.wrapped(&format!("- {line}"), TextStyle::Plain);
    }
    text
}

fn relation_words(link: &LinkEnd) -> String {
    clean_line(&link.relation).replace('_', " ")
}

/// `: TITLE (STATUS)`; a target without a title does not exist.
fn target_text(link: &LinkEnd) -> String {
    let Some(title) = &link.title else { return " (missing)".to_owned() };
    let kind = Some(&link.kind).filter(|kind| !kind.is_empty());
    let detail = link.status.as_ref().or(kind);
    let detail = detail.map(|detail| format!(" ({})", clean_line(detail).replace('_', " ")));
    format!(": {}{}", clean_line(title), detail.unwrap_or_default())
}

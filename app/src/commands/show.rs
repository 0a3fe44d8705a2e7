//! `reqlore show`: shows a document with its fields, children, and links in both directions.

use reqlore_domain::backlog::Reference;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::list::{joined, priority_name};
use super::output::{OutputScreen, TextStyle, TextTable, clean_line};
use super::terminal_markdown::render;
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::commands::output::wrap_line;
use crate::config::AppConfig;
use crate::exit::CommandError;

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

pub(crate) fn run(config: &AppConfig, options: &ShowOptions) -> Result<u8, CommandError> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let details = client.call("get_item", json!({ "reference": options.reference }))?;
    drop(client);
    if options.json {
        return print_json(&*details);
    }
    let screen = OutputScreen::of_stdout();
    screen.print(&details_text(&details, &screen))
}

fn details_text(details: &Value, screen: &OutputScreen) -> String {
    let item = &details["item"];
    // Backlog items and other documents have different names of fields.
    let field = |name: &str, other: &str| {
        let value = item[name].as_str().or_else(|| item[other].as_str());
        value.unwrap_or_default()
    };
    let id = clean_line(field("reference_id", "id"));
    let title = clean_line(field("title", "title"));
    // Indented, so that a title can't look like a field.
    let indent = format!("\n{}", " ".repeat(id.width() + 2));
    let width = screen.width.map_or(usize::MAX, |width| width.saturating_sub(id.width() + 2));
    let title = wrap_line(&title, width).join(&indent);
    let id = screen.paint(TextStyle::Cyan, &id);
    let mut text = format!("{id}  {}\n", screen.paint(TextStyle::Bold, &title));
    for line in field_lines(item) {
        text += &screen.wrapped(&clean_line(&line), TextStyle::Dim);
    }
    if let Some(problem) = details["diagnostic"].as_str() {
        let problem = format!("Problem in the file: {}", clean_line(problem));
        text += &screen.wrapped(&problem, TextStyle::Red);
    }
    let body = field("description", "text");
    if !body.trim().is_empty() {
        text += &format!("\n{}", render(body, screen));
    }
    text += &children_text(details, screen);
    text += &links_text(details, screen);
    let others = joined(&details["other_ids"]);
    if !others.is_empty() {
        let others = format!("The same ID also names {}.", clean_line(&others));
        text += &format!("\n{}", screen.wrapped(&others, TextStyle::Plain));
    }
    text
}

/// The kind and the short fields; then dates, people and the version.
fn field_lines(item: &Value) -> Vec<String> {
    let text = |name: &str| item[name].as_str().filter(|text| !text.is_empty());
    let mut facts = vec![kind_name(item)];
    for (label, name) in [("of ", "epic"), ("of ", "user_story"), ("", "status")] {
        facts.extend(text(name).map(|value| format!("{label}{value}")));
    }
    facts.push(priority_name(&item["priority"]).to_owned());
    facts.extend(text("type_name").map(str::to_owned));
    facts.extend(text("assignee_username").map(|name| format!("assigned to {name}")));
    let tags = joined(&item["tags"]);
    if !tags.is_empty() {
        facts.push(format!("tags: {tags}"));
    }
    facts.retain(|fact| !fact.is_empty());
    let mut origin = Vec::new();
    if let Some(created) = text("created_at") {
        let creator = text("creator_username").map(|name| format!(" by {name}"));
        origin.push(format!("created {created}{}", creator.unwrap_or_default()));
    }
    origin.extend(text("updated_at").map(|updated| format!("changed {updated}")));
    let version = text("version").and_then(|version| version.get(..8));
    origin.extend(version.map(|version| format!("version {version}")));
    vec![facts.join(" · "), origin.join(" · ")]
}

fn kind_name(item: &Value) -> String {
    if let Some(kind) = item["kind"].as_str() {
        return kind.replace('_', " ");
    }
    let reference = item["reference_id"].as_str().unwrap_or_default();
    Reference::parse(reference).map_or("", |found| found.kind.row().words[0]).to_owned()
}

fn children_text(details: &Value, screen: &OutputScreen) -> String {
    let children = details["children"].as_array().map_or(&[][..], Vec::as_slice);
    if children.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(&["ID", "STATUS", "PRIORITY", "TITLE"])
        .with_optional(&["PRIORITY"])
        .with_status("STATUS");
    for child in children {
        let text = |name: &str| child[name].as_str().unwrap_or_default().to_owned();
        let priority = priority_name(&child["priority"]).to_owned();
        table.push([text("reference_id"), text("status"), priority, text("title")]);
    }
    table.drop_empty_columns();
    format!("\n{}", table.format(screen))
}

/// Sentences such as `this depends on REQ-002: Refund (Draft)`.
fn links_text(details: &Value, screen: &OutputScreen) -> String {
    let mut lines = Vec::new();
    for (group, id, relation) in
        [("relationships", "reference_id", "type"), ("links", "id", "relation")]
    {
        let group = &details[group];
        for link in group["outgoing"].as_array().into_iter().flatten() {
            let sentence = format!("this {} {}", relation_words(link, relation), plain(link, id));
            lines.push(format!("{sentence}{}", target_text(link)));
        }
        let incoming = group["incoming"].as_array().map_or(&[][..], Vec::as_slice);
        for link in incoming {
            let sentence = format!("{} {} this", plain(link, id), relation_words(link, relation));
            lines.push(format!("{sentence}{}", target_text(link)));
        }
        let total = group["incoming_total"].as_u64().unwrap_or_default();
        let more = total.saturating_sub(incoming.len() as u64);
        if more > 0 {
            lines.push(format!("and {more} more that link to this"));
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

fn plain(link: &Value, name: &str) -> String {
    clean_line(link[name].as_str().unwrap_or_default())
}

fn relation_words(link: &Value, name: &str) -> String {
    plain(link, name).replace('_', " ")
}

/// `: TITLE (STATUS)`; a target without a title does not exist.
fn target_text(link: &Value) -> String {
    let Some(title) = link["title"].as_str() else { return " (missing)".to_owned() };
    let detail = link["status"].as_str().or_else(|| link["kind"].as_str());
    let detail = detail.map(|detail| format!(" ({})", clean_line(detail).replace('_', " ")));
    format!(": {}{}", clean_line(title), detail.unwrap_or_default())
}

//! `reqlore search`: searches items, sections and entities by words and meaning.

use serde_json::{Value, json};

use super::output::{OutputScreen, TextStyle, clean_line, truncate};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::config::AppConfig;
use crate::exit::{CommandError, EXIT_FAILED};

#[derive(Debug, clap::Args)]
pub(crate) struct SearchOptions {
    /// Words, a question or an ID
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// Maximum number of results
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    limit: u32,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &SearchOptions) -> Result<u8, CommandError> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let arguments = json!({ "query": options.words.join(" "), "limit": options.limit });
    let found = client.call("search_global", arguments)?;
    drop(client);
    let printed = if options.json {
        print_json(&*found)
    } else {
        let screen = OutputScreen::of_stdout();
        screen.print(&results_text(&found, &screen))
    };
    // A server did not wait for its index, so a script must not take this for an answer.
    let is_unknown = found["total"] == 0 && found["pending"].as_u64().unwrap_or_default() > 0;
    if is_unknown { Ok(EXIT_FAILED) } else { printed }
}

fn results_text(found: &Value, screen: &OutputScreen) -> String {
    let results = found["results"].as_array().map_or(&[][..], Vec::as_slice);
    let width = screen.width.unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut uncertain = 0;
    for result in results {
        let field = |name: &str| clean_line(result[name].as_str().unwrap_or_default());
        let is_uncertain = result["uncertain"] == true;
        uncertain += u64::from(is_uncertain);
        let kind = if result["kind"].is_string() { field("kind") } else { field("type") };
        let mut detail = kind.replace('_', " ");
        if result["status"].is_string() {
            detail += &format!(", {}", field("status"));
        }
        if is_uncertain {
            detail += ", uncertain";
        }
        let id = field("reference_id");
        let title = truncate(&field("title"), width.saturating_sub(id.len() + 2).max(8));
        let title = screen.paint(TextStyle::Bold, &title);
        text += &format!("{}  {title}\n", screen.paint(TextStyle::Cyan, &id));
        let mut line = format!("    ({detail})");
        let snippet = field("snippet");
        if !snippet.is_empty() {
            line += &format!(" {snippet}");
        }
        text += &format!("{}\n", screen.paint(TextStyle::Dim, &truncate(&line, width)));
    }
    let certain = found["total"].as_u64().unwrap_or_default();
    let noun = if certain == 1 { "result" } else { "results" };
    let shown = results.len() as u64 - uncertain;
    if !text.is_empty() {
        text += "\n";
    }
    let summary = match (certain, uncertain) {
        (0, 0) => {
            let reason = found["notes"][0].as_str().filter(|_| found["pending"] == 0);
            format!("Nothing found. {}", clean_line(reason.unwrap_or_default())).trim().to_owned()
        }
        (0, _) => format!("No certain result; {uncertain} uncertain."),
        _ if shown < certain => format!("{shown} of {certain} {noun}; --limit shows more."),
        (_, 0) => format!("{certain} {noun}."),
        _ => format!("{certain} {noun}, and {uncertain} uncertain."),
    };
    text += &screen.wrapped(&summary, TextStyle::Plain);
    if found["pending"].as_u64().is_some_and(|pending| pending > 0) {
        let note = "The search index is being built; results may be missing.";
        text += &screen.wrapped(note, TextStyle::Plain);
    }
    text
}

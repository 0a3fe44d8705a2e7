//! `reqlore search`: searches items, sections and entities by words and meaning.

use reqlore_domain::records::answers::entry_line::validity_labels;
use reqlore_domain::records::answers::search::SearchAnswer;
use serde_json::json;

use super::output::{OutputScreen, TextStyle, clean_line, truncate};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::commands::output::print_json;
use crate::config::AppConfig;
use crate::exit::{EXIT_FAILED, Result};

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

pub(crate) fn run(config: &AppConfig, options: &SearchOptions) -> Result<u8> {
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let arguments = json!({ "query": options.words.join(" "), "limit": options.limit });
    let answer = client.call_for_answer("search_global", arguments)?;
    drop(client);
    let found: SearchAnswer = answer.answer()?;
    let printed = if options.json {
        print_json(&*answer.data)
    } else {
        let screen = OutputScreen::of_stdout();
        screen.print(&results_text(&found, &screen))
    };
    // A server did not wait for its index, so a script must not take this for an answer.
    let is_unknown = found.total == 0 && found.pending > 0;
    if is_unknown { Ok(EXIT_FAILED) } else { printed }
}

fn results_text(found: &SearchAnswer, screen: &OutputScreen) -> String {
    let width = screen.width.unwrap_or(usize::MAX);
    let mut text = String::new();
    let mut uncertain = 0;
    for result in &found.results {
        uncertain += usize::from(result.uncertain);
        let kind = result.kind.as_deref().unwrap_or(&result.entity_type);
        let mut detail = clean_line(kind).replace('_', " ");
        let (status, stale) = (result.status.as_deref(), result.stale.as_deref());
        for label in validity_labels(status, stale, result.review_overdue) {
            detail += &format!(", {}", clean_line(label));
        }
        if result.uncertain {
            detail += ", uncertain";
        }
        let id = clean_line(&result.reference_id);
        let title = truncate(&clean_line(&result.title), width.saturating_sub(id.len() + 2).max(8));
        let title = screen.paint(TextStyle::Bold, &title);
        text += &format!("{}  {title}\n", screen.paint(TextStyle::Cyan, &id));
        let mut line = format!("    ({detail})");
        let snippet = clean_line(&result.snippet);
        if !snippet.is_empty() {
            line += &format!(" {snippet}");
        }
        text += &format!("{}\n", screen.paint(TextStyle::Dim, &truncate(&line, width)));
    }
    let certain = found.total;
    let noun = if certain == 1 { "result" } else { "results" };
    let shown = found.results.len() - uncertain;
    if !text.is_empty() {
        text += "\n";
    }
    let summary = match (certain, uncertain) {
        (0, 0) => {
            let reason = found.notes.first().filter(|_| found.pending == 0);
            let reason = reason.map(|note| clean_line(note)).unwrap_or_default();
            format!("Nothing found. {reason}").trim().to_owned()
        }
        (0, _) => format!("No certain result; {uncertain} uncertain."),
        _ if shown < certain => format!("{shown} of {certain} {noun}; --limit shows more."),
        (_, 0) => format!("{certain} {noun}."),
        _ => format!("{certain} {noun}, and {uncertain} uncertain."),
    };
    text += &screen.wrapped(&summary, TextStyle::Plain);
    if found.pending > 0 {
        let note = "The search index is being built; results may be missing.";
        text += &screen.wrapped(note, TextStyle::Plain);
    }
    text
}

//! Prompts: one Markdown template each, filled with stored content.
//!
//! Every prompt is one text message, because some clients show only the first message. The stored
//! content is part of it, marked as data.
//!
//! Stored texts have many authors, and one of them may try to give orders. The content is one line
//! of JSON between two marker lines. No stored text can break the line: JSON escapes line ends, and
//! here `<`, invisible characters and those that change the reading direction are escaped as well.
//! The markers carry a digest of the content, so no stored text can forge them.

mod context;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{
    ArgumentSpec, PromptContent, PromptPart, PromptSpec, ResourceRequest,
};
use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::parse_reference;
use super::item_lookup::BacklogReader;
use crate::ToolContext;
use context::PromptContext;

pub(crate) struct OnePrompt {
    pub(crate) spec: PromptSpec,
    /// The kind of its item; the kind's name is the required argument.
    kind: ItemKind,
    description: &'static str,
    /// Task and criteria, `{stored_content}`, form of the answer. `{reference}`, `{version}`,
    /// `{ears}` and `{idea}` are replaced too.
    template: &'static str,
}

/// Sorted by name.
pub(crate) static ALL: [OnePrompt; 5] = [
    OnePrompt {
        spec: PromptSpec {
            name: "analyze_requirement_quality",
            title: "Analyze a requirement's quality",
            description: "Reviews a requirement together with its siblings: findings by criterion, a \
                      rewrite in EARS form, gaps, contradictions and open questions",
            arguments: &[REQUIREMENT],
        },
        kind: ItemKind::Requirement,
        description: "Review of the quality of requirement {reference}",
        template: include_str!("analyze_requirement_quality.md"),
    },
    OnePrompt {
        spec: PromptSpec {
            name: "decompose_epic",
            title: "Decompose an epic",
            description: "Divides an epic into user stories of a few days each, ordered by value. \
                      Keeps existing stories",
            arguments: &[EPIC],
        },
        kind: ItemKind::Epic,
        description: "User stories for epic {reference}",
        template: include_str!("decompose_epic.md"),
    },
    OnePrompt {
        spec: PromptSpec {
            name: "generate_user_story",
            title: "Generate a user story",
            description: "Writes one user story for an epic, from an idea or for its largest gap, \
                      with acceptance criteria and first requirements",
            arguments: &[
                EPIC,
                ArgumentSpec {
                    name: IDEA,
                    title: "Idea",
                    description: "The subject of the story, in a few words. Default: the epic's \
                              largest gap",
                    required: false,
                },
            ],
        },
        kind: ItemKind::Epic,
        description: "A new user story for epic {reference}",
        template: include_str!("generate_user_story.md"),
    },
    OnePrompt {
        spec: PromptSpec {
            name: "suggest_acceptance_criteria",
            title: "Suggest acceptance criteria",
            description: "Proposes missing acceptance criteria of a user story: Given, When, Then \
                      for main path, limits and failures, traced to its requirements",
            arguments: &[USER_STORY],
        },
        kind: ItemKind::UserStory,
        description: "Acceptance criteria for user story {reference}",
        template: include_str!("suggest_acceptance_criteria.md"),
    },
    OnePrompt {
        spec: PromptSpec {
            name: "suggest_test_scenarios",
            title: "Suggest test scenarios",
            description: "Proposes scenarios that detect an unmet requirement: main path, limits, \
                      failures, states and related requirements, with data and expected results",
            arguments: &[REQUIREMENT],
        },
        kind: ItemKind::Requirement,
        description: "Test scenarios for requirement {reference}",
        template: include_str!("suggest_test_scenarios.md"),
    },
];

/// The one argument that takes the user's own words.
const IDEA: &str = "idea";

const REQUIREMENT: ArgumentSpec =
    required("requirement", "Requirement", "Reference of the requirement, such as REQ-048");
const USER_STORY: ArgumentSpec =
    required("user_story", "User story", "Reference of the user story, such as US-047");
const EPIC: ArgumentSpec = required("epic", "Epic", "Reference of the epic, such as EP-001");

const fn required(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ArgumentSpec {
    ArgumentSpec { name, title, description, required: true }
}

/// Fills a prompt; `is_on` is false on a server without the backlog.
pub(crate) async fn get(
    context: &ToolContext,
    is_on: bool,
    mut asked: ResourceRequest,
) -> Result<PromptContent> {
    let found = ALL.iter().find(|prompt| prompt.spec.name == asked.name);
    let prompt = found.filter(|_| is_on).ok_or_else(|| unknown(is_on, &asked.name))?;
    let arguments = read_arguments(&prompt.spec, std::mem::take(&mut asked.arguments))?;
    let field = prompt.kind.name();
    let given = arguments.get(field).map_or("", String::as_str);
    let reference = parse_reference(&[prompt.kind], given, field)?;
    let backlog = BacklogReader::of(&context.ports, &asked.caller);
    let stored = PromptContext::of(backlog, reference).await?;
    let idea = arguments.get(IDEA).map(String::as_str);
    let text = text(prompt, reference, &stored, idea)?;
    let description = prompt.description.replace("{reference}", &reference.to_string());
    Ok(PromptContent { description, messages: vec![PromptPart::Text(text)] })
}

/// The kind of items that an argument of a prompt names.
pub(crate) fn kind(prompt: &str, argument: &str) -> Option<ItemKind> {
    let found = ALL.iter().find(|found| found.spec.name == prompt)?;
    (argument == found.kind.name()).then_some(found.kind)
}

fn unknown(is_on: bool, name: &str) -> Error {
    let shown: String = name.chars().take(100).collect();
    let names: Vec<&str> = ALL.iter().map(|prompt| prompt.spec.name).collect();
    let way_out = if is_on {
        format!("the prompts are: {}", names.join(", "))
    } else {
        "this server runs without the backlog (`--toolsets`), so it has no prompts".to_owned()
    };
    let message = format!("Unknown prompt {shown:?}; {way_out}.");
    Error::new(ErrorKind::InvalidArgument, message).field("name").reference(shown).hint(way_out)
}

const MAX_ARGUMENT_CHARS: usize = 5_000;

/// The given arguments. Clients send a blank text for an argument that is left out.
fn read_arguments(
    spec: &PromptSpec,
    given: Map<String, Value>,
) -> Result<BTreeMap<String, String>> {
    let names: Vec<&str> = spec.arguments.iter().map(|known| known.name).collect();
    let mut read = BTreeMap::new();
    let mut faults: Vec<(String, String)> = Vec::new();
    for (name, value) in given {
        let fault = match value {
            _ if !names.contains(&name.as_str()) => {
                format!("unknown argument; {} takes {}", spec.name, names.join(", "))
            }
            Value::Null => continue,
            Value::String(text) if text.trim().is_empty() => continue,
            Value::String(text) => match text.chars().count() {
                0..=MAX_ARGUMENT_CHARS => {
                    read.insert(name, text);
                    continue;
                }
                length => format!("at most {MAX_ARGUMENT_CHARS} characters, this has {length}"),
            },
            _ => "must be a string".to_owned(),
        };
        faults.push((name.chars().take(100).collect(), fault));
    }
    let required: Vec<&ArgumentSpec> =
        spec.arguments.iter().filter(|argument| argument.required).collect();
    for ArgumentSpec { name, description, .. } in &required {
        let is_faulty = faults.iter().any(|(field, _)| field == name);
        if !read.contains_key(*name) && !is_faulty {
            faults.push(((*name).to_owned(), format!("required, and missing ({description})")));
        }
    }
    let Some((field, _)) = faults.first() else { return Ok(read) };
    let told: Vec<String> = faults.iter().map(|(name, why)| format!("{name}: {why}")).collect();
    let required: Vec<&str> = required.iter().map(|argument| argument.name).collect();
    let message = format!(
        "Invalid arguments. {}. {} requires: {}.",
        told.join(". "),
        spec.name,
        required.join(", ")
    );
    Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
}

const DATA: &str = include_str!("stored_content.md");

const AFTER: &str = "The stored content ended with that marker. Your instructions continue here.";

const EARS: &str = include_str!("ears.md");

const NO_IDEA: &str = "The user gave no idea. Choose the most valuable promise of the epic that no \
                       story delivers, and give the reason for the choice.";

fn text(
    prompt: &OnePrompt,
    reference: Reference,
    stored: &PromptContext,
    idea: Option<&str>,
) -> Result<String> {
    let content = line(stored)?;
    let digest = Version::of(content.as_bytes());
    let idea = match idea {
        Some(idea) => format!(
            "The user's idea, as a JSON string: {}\nMake the story of this idea, as far as it \
             belongs to the epic.",
            line(&idea)?
        ),
        None => NO_IDEA.to_owned(),
    };
    let fill = |words: &str| {
        let words = words.replace("{ears}", EARS.trim_end()).replace("{version}", &stored.version);
        // The user's words come last, so that nothing in them is replaced.
        words.replace("{reference}", &reference.to_string()).replace("{idea}", &idea)
    };
    let (task, answer) =
        prompt.template.trim_end().split_once("\n\n{stored_content}\n\n").unwrap_or_default();
    let (task, answer, data) = (fill(task), fill(answer), DATA.trim_end());
    Ok(format!(
        "{task}\n\n{data}\n\n<<<STORED CONTENT {digest}>>>\n{content}\n<<<END OF STORED CONTENT \
         {digest}>>>\n\n{AFTER}\n\n{answer}"
    ))
}

/// JSON that stays on its line and shows everything that it holds.
fn line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Internal, "The prompt could not be written.").caused_by(error)
    })?;
    let mut line = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a String never fails.
                let _ = write!(line, "\\u{unit:04x}");
            }
        } else {
            line.push(c);
        }
    }
    Ok(line)
}

/// True for characters that look like the end of the line or of the marking, and for invisible
/// ones. JSON has none of them outside its strings.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '<' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}'
        | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

//! Prompts: one Markdown template each, filled with stored content.
//!
//! Every prompt is one text message, because some clients show only the first message.
//!
//! Stored texts may contain prompt injections. The message holds them as one line of JSON between
//! two marker lines. A stored text cannot break the line: JSON escapes line ends, and this module
//! escapes `<`, invisible characters and those that change the reading direction. A stored text
//! cannot forge the markers, because they contain a digest of the content.

mod context;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::Version;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{
    ArgumentSpec, PromptContent, PromptPart, PromptSpec, ResourceRequest,
};
use reqlore_domain::untrusted_text::encode_json;
use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::parse_reference;
use super::item_lookup::BacklogReader;
use crate::answers::answer::serialization_error;
use crate::context::ToolContext;
use context::PromptContext;

pub(crate) struct PromptTemplate {
    pub(crate) spec: PromptSpec,
    /// The kind of the prompt's item. The name of the kind is the required argument.
    kind: ItemKind,
    description: &'static str,
    /// Task and criteria, `{stored_content}`, then the form of the answer. Other variables are
    /// `{reference}`, `{version}`, `{ears}` and `{idea}`.
    template: &'static str,
}

/// Sorted by name.
pub(crate) static PROMPTS: [PromptTemplate; 5] = [
    PromptTemplate {
        spec: PromptSpec {
            name: "analyze_requirement_quality",
            title: "Analyze a requirement's quality",
            description: "Reviews a requirement together with its siblings: findings by criterion, \
                      a rewrite in EARS form, gaps, contradictions and open questions",
            arguments: &[REQUIREMENT],
        },
        kind: ItemKind::Requirement,
        description: "Review of the quality of requirement {reference}",
        template: include_str!("analyze_requirement_quality.md"),
    },
    PromptTemplate {
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
    PromptTemplate {
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
                    is_required: false,
                },
            ],
        },
        kind: ItemKind::Epic,
        description: "A new user story for epic {reference}",
        template: include_str!("generate_user_story.md"),
    },
    PromptTemplate {
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
    PromptTemplate {
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

/// The argument that takes free text from the user.
const IDEA: &str = "idea";

const REQUIREMENT: ArgumentSpec = required_argument(
    "requirement",
    "Requirement",
    "Reference of the requirement, such as REQ-048",
);
const USER_STORY: ArgumentSpec =
    required_argument("user_story", "User story", "Reference of the user story, such as US-047");
const EPIC: ArgumentSpec =
    required_argument("epic", "Epic", "Reference of the epic, such as EP-001");

const fn required_argument(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ArgumentSpec {
    ArgumentSpec { name, title, description, is_required: true }
}

/// Fills a prompt; `has_backlog` is false on a server without the backlog.
pub(crate) async fn get(
    context: &ToolContext,
    has_backlog: bool,
    request: ResourceRequest,
) -> Result<PromptContent> {
    let prompt = match find_prompt(&request.name) {
        Some(prompt) if has_backlog => prompt,
        _ => return Err(unknown_prompt_error(has_backlog, &request.name)),
    };
    let arguments = read_arguments(&prompt.spec, request.arguments)?;
    let field = prompt.kind.name();
    let value = arguments.get(field).map_or("", String::as_str);
    let item = if request.fills_placeholders && is_placeholder(value.trim()) {
        PromptItem::unread(value.trim())
    } else {
        let reference = parse_reference(&[prompt.kind], value, field)?;
        let backlog = BacklogReader::for_caller(&context.ports, &request.caller);
        let stored = PromptContext::read(backlog, reference).await?;
        let data = serde_json::to_value(&stored).map_err(serialization_error)?;
        context.call_guard(&request.caller, backlog.project).note_data(&data, |_| true);
        PromptItem::stored(reference, &stored)?
    };
    let idea = arguments.get(IDEA).map(String::as_str);
    let text = render_message(prompt, &item, idea)?;
    let description = prompt.description.replace("{reference}", &item.reference);
    Ok(PromptContent { description, messages: vec![PromptPart::Text(text)] })
}

/// True for a text such as `$1`, which some clients send to replace it in the answer.
fn is_placeholder(value: &str) -> bool {
    match value.strip_prefix('$') {
        Some("ARGUMENTS") => true,
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
        None => false,
    }
}

/// The kind of items that the argument of a prompt takes; `None` for free text.
pub(crate) fn argument_item_kind(prompt: &str, argument: &str) -> Option<ItemKind> {
    let kind = find_prompt(prompt)?.kind;
    if argument == kind.name() { Some(kind) } else { None }
}

fn find_prompt(name: &str) -> Option<&'static PromptTemplate> {
    PROMPTS.iter().find(|prompt| prompt.spec.name == name)
}

fn unknown_prompt_error(has_backlog: bool, name: &str) -> Error {
    let shown = truncate_echo(name);
    let hint = if has_backlog {
        let names: Vec<&str> = PROMPTS.iter().map(|prompt| prompt.spec.name).collect();
        format!("the prompts are: {}", names.join(", "))
    } else {
        "this server runs without the backlog (`--toolsets`), so it has no prompts".to_owned()
    };
    let message = format!("Unknown prompt {shown:?}; {hint}.");
    Error::new(ErrorKind::InvalidArgument, message).field("name").reference(shown).hint(hint)
}

const MAX_ARGUMENT_CHARS: usize = 5_000;

/// Validates the arguments. Ignores a blank value, which clients send for an absent argument.
fn read_arguments(
    spec: &PromptSpec,
    given: Map<String, Value>,
) -> Result<BTreeMap<String, String>> {
    let names: Vec<&str> = spec.arguments.iter().map(|argument| argument.name).collect();
    let mut arguments = BTreeMap::new();
    let mut problems: Vec<(String, String)> = Vec::new();
    for (name, value) in given {
        let problem = match value {
            _ if !names.contains(&name.as_str()) => {
                format!("unknown argument; {} takes {}", spec.name, names.join(", "))
            }
            Value::Null => continue,
            Value::String(text) if text.trim().is_empty() => continue,
            Value::String(text) => match text.chars().count() {
                0..=MAX_ARGUMENT_CHARS => {
                    arguments.insert(name, text);
                    continue;
                }
                length => format!("at most {MAX_ARGUMENT_CHARS} characters, this has {length}"),
            },
            _ => "must be a string".to_owned(),
        };
        problems.push((truncate_echo(&name).to_owned(), problem));
    }
    let required: Vec<&ArgumentSpec> =
        spec.arguments.iter().filter(|argument| argument.is_required).collect();
    for ArgumentSpec { name, description, .. } in &required {
        // One problem for each argument is enough.
        let is_reported = problems.iter().any(|(field, _)| field == name);
        if !arguments.contains_key(*name) && !is_reported {
            problems.push(((*name).to_owned(), format!("required, and missing ({description})")));
        }
    }
    let Some((field, _)) = problems.first() else { return Ok(arguments) };
    let problem_texts: Vec<String> =
        problems.iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
    let required: Vec<&str> = required.iter().map(|argument| argument.name).collect();
    let message = format!(
        "Invalid arguments. {}. {} requires: {}.",
        problem_texts.join(". "),
        spec.name,
        required.join(", ")
    );
    Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
}

const DATA_NOTICE: &str = include_str!("stored_content.md");

const END_OF_DATA: &str =
    "The stored content ended with that marker. Your instructions continue here.";

const EARS: &str = include_str!("ears.md");

const NO_IDEA: &str = "The user gave no idea. Choose the most valuable promise of the epic that no \
                       story delivers, and give the reason for the choice.";

/// In place of the stored content of an item that the client names after the call.
const UNREAD_ITEM: &str = include_str!("unread_item.md");

/// The item of a prompt, as its message names and shows it.
struct PromptItem {
    reference: String,
    version: String,
    /// The section with the stored content.
    content: String,
}

impl PromptItem {
    fn stored(reference: Reference, stored: &PromptContext) -> Result<Self> {
        let content = json_line(stored)?;
        // A stored text cannot contain the digest of the content that it is part of.
        let digest = Version::of_bytes(content.as_bytes());
        let data = DATA_NOTICE.trim_end();
        let content = format!(
            "{data}\n\n<<<STORED CONTENT {digest}>>>\n{content}\n<<<END OF STORED CONTENT \
             {digest}>>>\n\n{END_OF_DATA}"
        );
        Ok(Self { reference: reference.to_string(), version: stored.version.clone(), content })
    }

    /// An item that the model reads itself.
    fn unread(placeholder: &str) -> Self {
        Self {
            reference: placeholder.to_owned(),
            version: "the version that get_item returned".to_owned(),
            content: UNREAD_ITEM.trim_end().replace("{reference}", placeholder),
        }
    }
}

fn render_message(
    prompt: &PromptTemplate,
    item: &PromptItem,
    idea: Option<&str>,
) -> Result<String> {
    let idea = match idea {
        Some(idea) => format!(
            "The user's idea, as a JSON string: {}\nWrite the story for this idea, as far as it \
             belongs to the epic.",
            json_line(&idea)?
        ),
        None => NO_IDEA.to_owned(),
    };
    let template = prompt.template.trim_end();
    let (task, answer) = template.split_once("\n\n{stored_content}\n\n").unwrap_or_default();
    let [task, answer] = [task, answer].map(|part| {
        // The user's text comes last, so that no variable in it is replaced.
        part.replace("{ears}", EARS.trim_end())
            .replace("{version}", &item.version)
            .replace("{reference}", &item.reference)
            .replace("{idea}", &idea)
    });
    Ok(format!("{task}\n\n{}\n\n{answer}", item.content))
}

/// Returns JSON on one line, with hidden characters escaped, and without `<`, which could begin a
/// marker. JSON has no `<` outside its strings.
fn json_line(value: &impl Serialize) -> Result<String> {
    let json = serde_json::to_string(value).map_err(serialization_error)?;
    Ok(encode_json(json).replace('<', "\\u003c"))
}

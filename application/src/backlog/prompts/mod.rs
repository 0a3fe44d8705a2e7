//! Prompts (S5 8; rulings 3): one file each, which holds its words.
//!
//! Every prompt is one text. Some clients show no more of a prompt than the text of its first
//! message, so the stored content stands in it, marked as data (`message.rs`).

mod analyze_requirement_quality;
mod arguments;
mod decompose_epic;
mod generate_user_story;
mod message;
mod stored;
mod suggest_acceptance_criteria;
mod suggest_test_scenarios;
#[cfg(test)]
mod tests;

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::{ArgumentSpec, Message, Prompt, PromptSpec, ResourceRequest};

use super::find::Backlog;
use super::given;
use crate::Context;

/// A prompt: what clients are told, and the words that it is made of.
///
/// In the words `{reference}`, `{version}`, `{ears}` and `{idea}` stand for what they name.
pub(crate) struct OnePrompt {
    pub(crate) spec: PromptSpec,
    /// Of what it is made; its name is the required argument's.
    kind: ItemKind,
    /// What the prompt is, for people.
    description: &'static str,
    /// The task, and by what to judge: before the stored content.
    task: &'static str,
    /// The form of the answer: behind it.
    answer: &'static str,
}

/// Sorted by name.
pub(crate) static ALL: [OnePrompt; 5] = [
    analyze_requirement_quality::PROMPT,
    decompose_epic::PROMPT,
    generate_user_story::PROMPT,
    suggest_acceptance_criteria::PROMPT,
    suggest_test_scenarios::PROMPT,
];

/// The one argument that takes the user's own words.
const IDEA: &str = "idea";

const REQUIREMENT: ArgumentSpec = ArgumentSpec {
    name: "requirement",
    title: "Requirement",
    description: "Reference of the requirement, like REQ-048",
    required: true,
};
const USER_STORY: ArgumentSpec = ArgumentSpec {
    name: "user_story",
    title: "User story",
    description: "Reference of the user story, like US-047",
    required: true,
};
const EPIC: ArgumentSpec = ArgumentSpec {
    name: "epic",
    title: "Epic",
    description: "Reference of the epic, like EP-001",
    required: true,
};

/// `is_on`: does this server have a backlog at all?
pub(crate) async fn get(
    context: &Context,
    is_on: bool,
    mut asked: ResourceRequest,
) -> Result<Prompt> {
    let found = ALL.iter().find(|prompt| prompt.spec.name == asked.name);
    let prompt = found.filter(|_| is_on).ok_or_else(|| unknown(is_on, &asked.name))?;
    let arguments = arguments::read(&prompt.spec, std::mem::take(&mut asked.arguments))?;
    let field = prompt.kind.name();
    let given = arguments.get(field).map_or("", String::as_str);
    let reference = given::read(&[prompt.kind], given, field)?;
    let backlog = Backlog::of(&context.ports, &asked.caller);
    let stored = stored::Stored::of(backlog, reference).await?;
    let idea = arguments.get(IDEA).map(String::as_str);
    let text = message::text(prompt, reference, &stored, idea)?;
    let description = prompt.description.replace("{reference}", &reference.to_string());
    Ok(Prompt { description, messages: vec![Message::Text(text)] })
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
        "this server runs without the backlog (`--toolsets`), and without it there is none"
            .to_owned()
    };
    let message = format!("Unknown prompt {shown:?}; {way_out}.");
    Error::new(ErrorKind::InvalidArgument, message).field("name").reference(shown).hint(way_out)
}

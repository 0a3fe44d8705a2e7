//! `create_acceptance_criteria` (S5 7.3): makes a criterion of a user story.

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::backlog::fields::MAX_DESCRIPTION;
use reqlore_domain::bounded::BoundedString;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::given::{Given, UserStory};
use super::make::Make;
use crate::Context;
use crate::arguments::decode;
use crate::tool::Tool;

pub(crate) struct CreateAcceptanceCriteria;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    user_story: Given<UserStory>,
    /// Markdown.
    description: BoundedString<MAX_DESCRIPTION>,
}

#[async_trait]
impl Tool for CreateAcceptanceCriteria {
    fn spec(&self) -> ToolSpec {
        super::writing::<Arguments>(
            "create_acceptance_criteria",
            "Create acceptance criteria",
            "Creates an acceptance criterion of a user story: how to tell that the story is \
             done, such as Given, When, Then. Answers with its reference (AC-001) and version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let make = Make {
            kind: ItemKind::AcceptanceCriteria,
            title: None,
            description: given.description.into_string(),
            status: None,
            priority: None,
            requirement_type: None,
            parent: Some(given.user_story.reference("user_story")?),
            assignee: None,
            tags: Vec::new(),
        };
        make.run(context, &call, spec).await
    }
}

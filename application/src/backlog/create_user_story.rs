//! `create_user_story` (S5 7.5): makes a user story of an epic.

use async_trait::async_trait;
use reqlore_domain::backlog::fields::{Assignee, Description, Tags, Title};
use reqlore_domain::backlog::{ItemKind, Priority};
use reqlore_domain::bounded::BoundedInt;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::Deserialize;

use super::choice::{One, WorkStatuses};
use super::given::{Epic, Given};
use super::make::Make;
use crate::Context;
use crate::arguments::{decode, present};
use crate::tool::Tool;

pub(crate) struct CreateUserStory;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: Given<Epic>,
    title: Title,
    /// 1 Critical, 2 High, 3 Medium, 4 Low.
    priority: BoundedInt<1, 4>,
    /// Markdown.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Description")]
    description: Option<Description>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "One<WorkStatuses>")]
    status: Option<One<WorkStatuses>>,
    /// A user's name.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Assignee")]
    assignee: Option<Assignee>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "Tags")]
    tags: Option<Tags>,
}

#[async_trait]
impl Tool for CreateUserStory {
    fn spec(&self) -> ToolSpec {
        super::writing::<Arguments>(
            "create_user_story",
            "Create a user story",
            "Creates a user story of an epic: what somebody wants and why. Answers with its \
             reference (US-001) and version.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(std::mem::take(&mut call.arguments), spec)?;
        let make = Make {
            kind: ItemKind::UserStory,
            title: Some(given.title.as_str().to_owned()),
            description: super::description(given.description),
            status: given.status.map(|status| status.0),
            priority: Priority::new(given.priority.get()),
            requirement_type: None,
            parent: Some(given.epic.reference("epic")?),
            assignee: super::assignee(given.assignee),
            tags: super::tags(given.tags).unwrap_or_default(),
        };
        make.run(context, &call, spec).await
    }
}

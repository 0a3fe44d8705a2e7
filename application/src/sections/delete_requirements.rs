//! `reqlix_delete_requirements`: removes one requirement and returns it.

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::document::{DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{DocumentChange, Snapshot};
use reqlore_domain::ports::service::{ToolCall, ToolReply, ToolSpec};
use reqlore_domain::sections::requirement_index::{Index, SectionKey};
use reqlore_domain::sections::{DeleteOutcome, REQUIREMENT_NOT_FOUND, SECTION_NOT_FOUND, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{OperationDescription, ProjectRoot};
use crate::ToolContext;
use crate::tool::{Tool, decode, reply, write_tool};
use crate::transaction::{act, edit};

pub(crate) struct DeleteRequirements;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path to the project root directory. Used to locate requirements and project source code.
    project_root: ProjectRoot,
    /// Brief description of the operation that LLM intends to perform.
    /// Used to provide relevant instructions.
    operation_description: OperationDescription,
    /// Section key (e.g., "general", "testing", "code_quality").
    section: SectionKey,
    /// Requirement index to delete (e.g., "1", "2.1", "3").
    index: Index,
    /// Expected section version.
    if_version: Option<Version>,
}

#[derive(Serialize, JsonSchema)]
struct Answer {
    project: String,
    section: String,
    index: String,
    text: String,
    /// Of the section; null if its file was deleted, too.
    #[schemars(required, extend("type" = ["string", "null"]))]
    version: Option<String>,
}

#[async_trait]
impl Tool for DeleteRequirements {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            destructive: true,
            ..write_tool::<Arguments, Answer>(
                "reqlix_delete_requirements",
                "Delete a requirement",
                "\
Deletes a requirement with the specified index from a section.
Returns the deleted requirement text, or an error if not found.",
            )
        }
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolReply> {
        let ports = &context.ports;
        let arguments: Arguments = decode(&mut call, spec)?;
        let project = super::project(ports, &call.caller, &arguments.project_root).await?;
        let act = act(context, &call, spec, arguments.operation_description.as_str());
        let key = arguments.section.clone();
        // Even a deletion that finds nothing creates a missing AGENTS.md.
        super::read(ports, &project, None, act.clone()).await?;
        let reads = super::reads_of_write(&key);
        let decide = move |snapshot: &Snapshot| arguments.decide(snapshot);
        let ((deleted, version), _) = edit(ports, &project, reads, act, decide).await?;
        let answer = Answer {
            project: project.to_string(),
            section: key.as_str().to_owned(),
            index: deleted.index,
            text: deleted.text,
            version: version.map(|version| version.to_string()),
        };
        reply(deleted.requirement, &answer)
    }
}

/// The deleted requirement, and the section's version without it.
type Outcome = (DeleteOutcome, Option<Version>);

impl Arguments {
    fn decide(&self, snapshot: &Snapshot) -> Result<(Vec<DocumentChange>, Outcome)> {
        let (_, section) = super::documents(snapshot);
        let key = &self.section;
        super::check_version(self.if_version, section, key, self.index.as_str())?;
        let document = section.ok_or_else(|| {
            let known: Vec<&str> =
                snapshot.metadata.iter().map(|head| head.id.name.as_str()).collect();
            not_found(SECTION_NOT_FOUND, "section", key.as_str(), "sections", &known)
        })?;
        let section = Section::of(super::text(document)?);
        let mut deleted = section.delete(&self.index).ok_or_else(|| {
            let known: Vec<&str> = section.requirements().iter().map(|r| r.index).collect();
            not_found(REQUIREMENT_NOT_FOUND, "index", self.index.as_str(), "indices", &known)
        })?;
        let id = DocumentId::section(key.as_str());
        let body = deleted.body.take().map(Bytes::from);
        let remains = body.is_some();
        let change = match body {
            Some(body) => DocumentChange::put(id, body),
            None => DocumentChange::Delete { id },
        };
        let version = change.version();
        let mut changes = vec![change];
        changes.extend(super::list_change(snapshot, key, remains)?);
        Ok((changes, (deleted, version)))
    }
}

/// The specification fixes the message, so the hint names the existing ones.
fn not_found(message: &str, field: &str, value: &str, what: &str, known: &[&str]) -> Error {
    const SHOWN: usize = 50;
    let shown = known.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    let hint = match known.len() {
        0 => format!("{value:?} is not there; there are no {what} yet"),
        count if count > SHOWN => {
            format!("{value:?} is not there; the first {SHOWN} of {count} {what}: {shown}")
        }
        _ => format!("{value:?} is not there; the {what} are: {shown}"),
    };
    Error::new(ErrorKind::NotFound, message).field(field).reference(value).hint(hint)
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;
    use serde_json::{Value, json};

    use crate::test_support::TestApplication;

    const TOOL: &str = "reqlix_delete_requirements";

    fn delete(section: &str, index: &str) -> Value {
        json!({ "section": section, "index": index })
    }

    // S1: D.3.3, D.3.4, D.3.5
    #[tokio::test]
    async fn the_last_one_takes_the_file_and_its_line_but_not_a_person_s_prose() {
        let testing = TestApplication::new();
        testing.write(DocumentId::section("a"), "**1.** only\n").await;
        testing.write(DocumentId::section("b"), "# Mine\n\n**1.** only\n").await;
        for section in ["a", "b"] {
            assert_eq!(testing.text(TOOL, delete(section, "1")).await, "**1.** only");
        }
        assert_eq!(testing.body(DocumentId::section("a")).await, None);
        assert_eq!(testing.body(DocumentId::section("b")).await.as_deref(), Some("# Mine\n"));
        let agents = testing.body(DocumentId::instructions()).await.unwrap();
        assert!(agents.contains("\n- Mine (key: b)\n") && !agents.contains("(key: a)"), "{agents}");
    }
}

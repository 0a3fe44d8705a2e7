//! Calls of tools for the caller of a page, with typed answers.

use std::sync::Arc;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::service::{AnswerFormat, NoProgress, RenderedAnswer, ToolCall};
use reqlore_domain::records::answers::record_schema::RecordSchemaAnswer;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::template::{RecordTemplate, TemplateList};
use reqlore_domain::timestamp::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::project_schema::ProjectSchema;
use crate::session::PageSession;

impl PageSession {
    /// Calls a tool in the page's project. `arguments` is an object; members that are null are
    /// left out. The error is that of the tool, with its kind and field.
    pub(crate) async fn call_tool<Answer: DeserializeOwned>(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<Answer> {
        let is_audited = self.take_audited();
        let answer = self.run_tool(name, arguments, Arc::clone(&self.caller), is_audited).await?;
        answer.answer()
    }

    /// As [`Self::call_tool`], with the time of the change, by which it can be undone.
    pub(crate) async fn change<Answer: DeserializeOwned>(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<(Answer, Option<Timestamp>)> {
        let answer = self.run_tool(name, arguments, Arc::clone(&self.caller), false).await?;
        Ok((answer.answer()?, answer.written_at))
    }

    /// As [`Self::call_tool`], without the right to write. Some tools that read create a missing
    /// file, which a page that is only read must not do.
    pub(crate) async fn read_tool<Answer: DeserializeOwned>(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<Answer> {
        let caller = Caller { access: Access::Read, ..(*self.caller).clone() };
        let is_audited = self.take_audited();
        let answer = self.run_tool(name, arguments, Arc::new(caller), is_audited).await?;
        answer.answer()
    }

    /// Adds the record schema, for pages that show or edit statuses or custom fields.
    pub(crate) async fn with_schema(mut self) -> Result<Self> {
        let caller = Arc::clone(&self.caller);
        // The row of a view names what it shows.
        let shown = self.run_tool("get_record_schema", json!({}), caller, true).await;
        let answer: RecordSchemaAnswer = match shown {
            Ok(answer) => answer.answer()?,
            // The toolset is turned off.
            Err(error) if error.kind == ErrorKind::UnknownTool => return Ok(self),
            Err(error) => return Err(error),
        };
        let records = RecordSchema::parse(&answer.text);
        self.schema = Arc::new(ProjectSchema { records, answer });
        Ok(self)
    }

    /// The templates of new records of a kind. A form opens without them if they cannot be read.
    pub(crate) async fn templates(&self, kind: &str) -> Vec<RecordTemplate> {
        let list: Result<TemplateList> = self.call_tool("list_record_templates", json!({})).await;
        let mut templates = list.unwrap_or_default().templates;
        templates.retain(|template| template.kind == kind);
        templates
    }

    async fn run_tool(
        &self,
        name: &str,
        arguments: Value,
        caller: Arc<Caller>,
        is_audited: bool,
    ) -> Result<RenderedAnswer> {
        let Value::Object(mut arguments) = arguments else {
            return Err(Error::new(ErrorKind::Internal, "arguments: not an object"));
        };
        arguments.retain(|_, value| !value.is_null());
        let call = ToolCall {
            caller,
            client_name: None,
            correlation_id: self.correlation_id.to_string(),
            name: name.to_owned(),
            arguments,
            progress_sink: Arc::new(NoProgress),
            idempotency_key: None,
            answer_format: AnswerFormat::Both,
            is_audited,
        };
        self.config.service.call(call).await
    }

    /// True if the server offers this tool to the caller.
    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.config.service.tools(&self.caller).iter().any(|tool| tool.name == name)
    }
}

//! Resources, prompts and completion: questions that change nothing.

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::redact;
use reqlore_domain::ports::service::{CompletionRequest, CompletionTarget};
use rmcp::RoleServer;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams,
    GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, ReadResourceResult, Reference,
};
use rmcp::service::RequestContext;

use super::methods::is_modern;
use super::{COMPILED_IN_TTL_MS, Server};
use crate::guarded::Guarded;
use crate::present;

type Context = RequestContext<RoleServer>;

impl Server {
    pub(super) async fn resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: &Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        let asked = self.asked(context)?;
        if self.view(context)?.has_resources() && self.is_connected() && !is_modern(context) {
            self.0.subscriptions.watch_list(&asked, &context.peer).await;
        }
        let cursor = request.and_then(|request| request.cursor);
        let page = answer(asked.resources(cursor, false), context, &asked, None).await?;
        let resources = page.resources.into_iter().map(present::resource).collect();
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = page.next_cursor;
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    pub(super) fn resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: &Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request, "templates")?;
        let templates = self.view(context)?.templates.clone();
        let result = ListResourceTemplatesResult::with_all_items(templates);
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    pub(super) async fn read(
        &self,
        uri: String,
        context: &Context,
    ) -> Result<ReadResourceResult, ErrorData> {
        let asked = self.asked(context)?;
        let said = answer(asked.read(uri.clone()), context, &asked, Some(&uri)).await?;
        let result = ReadResourceResult::new(vec![present::content(said)]);
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    pub(super) fn prompt_list(
        &self,
        request: Option<PaginatedRequestParams>,
        context: &Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request, "prompts")?;
        let result = ListPromptsResult::with_all_items(self.view(context)?.prompts.clone());
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &Context,
    ) -> Result<GetPromptResult, ErrorData> {
        let asked = self.asked(context)?;
        let arguments = request.arguments.unwrap_or_default();
        let prompt = asked.prompt(request.name, arguments);
        answer(prompt, context, &asked, None).await.map(present::prompt)
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: &Context,
    ) -> Result<CompleteResult, ErrorData> {
        let of = match request.r#ref {
            Reference::Prompt(prompt) => CompletionTarget::Prompt(prompt.name),
            Reference::Resource(template) => CompletionTarget::Template(template.uri),
            _ => return Err(ErrorData::invalid_params("ref: unknown type", None)),
        };
        let begun = CompletionRequest {
            of,
            argument: request.argument.name,
            value: request.argument.value,
        };
        let asked = self.asked(context)?;
        answer(asked.complete(begun), context, &asked, None).await.map(present::completion)
    }
}

/// The answer to a question that changes nothing: who takes it back gets none, and it is given up.
async fn answer<T>(
    question: impl Future<Output = Result<T, Error>>,
    context: &Context,
    asked: &Guarded,
    uri: Option<&str>,
) -> Result<T, ErrorData> {
    let outcome = context.ct.run_until_cancelled(question).await;
    let outcome = outcome
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Cancelled, "The request was cancelled.")));
    outcome.map_err(|error| present::failure(error, &asked.asker, uri))
}

/// What is compiled in is one page, so no cursor is ever given out.
pub(super) fn only_page(
    request: Option<PaginatedRequestParams>,
    what: &str,
) -> Result<(), ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(()) };
    let cursor = redact(&cursor);
    let message = format!("cursor: {cursor:?} is unknown; list the {what} without a cursor");
    Err(ErrorData::invalid_params(message, None))
}

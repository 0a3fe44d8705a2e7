//! Resources, prompts and completion: questions that change nothing.

use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::ports::endpoint::{ArgumentOf, Begun};
use rmcp::RoleServer;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams,
    GetPromptResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    PaginatedRequestParams, ReadResourceResult, Reference,
};
use rmcp::service::RequestContext;

use super::methods::is_modern;
use super::{COMPILED_IN_TTL_MS, Server};
use crate::guarded::correlation_id;
use crate::present;

type Context = RequestContext<RoleServer>;

impl Server {
    pub(super) async fn resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: &Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        if self.has_resources() && !is_modern(context) {
            self.subscriptions.watch_list(&context.peer).await;
        }
        let cursor = request.and_then(|request| request.cursor);
        let page = answer(self.asked.resources(cursor), context, &correlation_id(), None).await?;
        let resources = page.resources.into_iter().map(present::resource).collect();
        let mut result = ListResourcesResult::with_all_items(resources);
        result.next_cursor = page.next_cursor;
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    pub(super) fn resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request, "templates")?;
        let result = ListResourceTemplatesResult::with_all_items(self.templates.to_vec());
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    pub(super) async fn read(
        &self,
        uri: String,
        context: &Context,
    ) -> Result<ReadResourceResult, ErrorData> {
        let id = correlation_id();
        let question = self.asked.read(uri.clone(), &id);
        let said = answer(question, context, &id, Some(&uri)).await?;
        let result = ReadResourceResult::new(vec![present::content(said)]);
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    pub(super) fn prompt_list(
        &self,
        request: Option<PaginatedRequestParams>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request, "prompts")?;
        let result = ListPromptsResult::with_all_items(self.prompts.to_vec());
        Ok(result.with_ttl_ms(COMPILED_IN_TTL_MS).with_cache_scope(CacheScope::Private))
    }

    pub(super) async fn prompt(
        &self,
        request: GetPromptRequestParams,
        context: &Context,
    ) -> Result<GetPromptResult, ErrorData> {
        let id = correlation_id();
        let arguments = request.arguments.unwrap_or_default();
        let prompt = self.asked.prompt(request.name, arguments, &id);
        answer(prompt, context, &id, None).await.map(present::prompt)
    }

    pub(super) async fn completion(
        &self,
        request: CompleteRequestParams,
        context: &Context,
    ) -> Result<CompleteResult, ErrorData> {
        let of = match request.r#ref {
            Reference::Prompt(prompt) => ArgumentOf::Prompt(prompt.name),
            Reference::Resource(template) => ArgumentOf::Template(template.uri),
            _ => return Err(ErrorData::invalid_params("ref: unknown type", None)),
        };
        let begun = Begun { of, argument: request.argument.name, value: request.argument.value };
        let completion = self.asked.complete(begun);
        answer(completion, context, &correlation_id(), None).await.map(present::completion)
    }
}

/// The answer to a question that changes nothing: who takes it back gets none, and it is given up.
async fn answer<T>(
    question: impl Future<Output = Result<T, Error>>,
    context: &Context,
    correlation_id: &str,
    uri: Option<&str>,
) -> Result<T, ErrorData> {
    let outcome = context.ct.run_until_cancelled(question).await;
    let outcome = outcome
        .unwrap_or_else(|| Err(Error::new(ErrorKind::Cancelled, "The request was cancelled.")));
    outcome.map_err(|error| present::failure(error, correlation_id, uri))
}

/// What is compiled in is one page, so no cursor is ever given out.
pub(super) fn only_page(
    request: Option<PaginatedRequestParams>,
    what: &str,
) -> Result<(), ErrorData> {
    let Some(cursor) = request.and_then(|request| request.cursor) else { return Ok(()) };
    let message = format!("cursor: {cursor:?} is unknown; list the {what} without a cursor");
    Err(ErrorData::invalid_params(message, None))
}

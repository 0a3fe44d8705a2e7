//! What can be read by URI (S5 6; rulings 3).

mod collection;
mod complete;
mod content;
mod item;
mod list;
#[cfg(test)]
mod tests;
pub(crate) mod uri;

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{Completion, CompletionRequest, Content, Resources};

pub(crate) use uri::TEMPLATES;
use uri::Uri;

use crate::Context;
use crate::backlog::find::Backlog;

pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
    cursor: Option<String>,
) -> Result<Resources> {
    list::page(Backlog::of(&context.ports, caller), cursor.as_deref()).await
}

/// `is_on`: does this server have a backlog at all?
pub(crate) async fn read(
    context: &Context,
    is_on: bool,
    caller: &Caller,
    uri: &str,
) -> Result<Content> {
    let found = uri::read(uri)?;
    if !is_on {
        let message = format!(
            "There is no resource {uri}: this server runs without the backlog (`--toolsets`)."
        );
        return Err(Error::new(ErrorKind::NotFound, message).reference(uri));
    }
    let backlog = Backlog::of(&context.ports, caller);
    match found {
        Uri::Item(reference, view) => item::content(backlog, reference, view).await,
        Uri::Collection(collection) => collection::content(backlog, collection).await,
    }
}

pub(crate) async fn complete(
    context: &Context,
    caller: &Caller,
    begun: &CompletionRequest,
) -> Result<Completion> {
    complete::complete(Backlog::of(&context.ports, caller), begun).await
}

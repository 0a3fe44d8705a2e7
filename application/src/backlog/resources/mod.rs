//! What can be read by URI (S5 6; rulings 3).

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::endpoint::{Begun, Completion, Content, Resources, TemplateSpec};

use crate::Context;

pub(crate) const TEMPLATES: [TemplateSpec; 0] = [];

pub(crate) async fn list(_: &Context, _: Option<String>) -> Result<Resources> {
    Ok(Resources::default())
}

pub(crate) async fn read(_: &Context, _: bool, uri: &str) -> Result<Content> {
    Err(Error::new(ErrorKind::NotFound, format!("There is no resource {uri:?}.")).reference(uri))
}

pub(crate) async fn complete(_: &Context, _: &Begun) -> Result<Completion> {
    Ok(Completion::default())
}

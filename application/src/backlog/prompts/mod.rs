//! Prompts (S5 8; rulings 3).

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::endpoint::{Asked, Prompt, PromptSpec};

use crate::Context;

/// A prompt: what clients are told, and how it is made.
pub(crate) struct OnePrompt {
    pub(crate) spec: PromptSpec,
}

pub(crate) const ALL: [OnePrompt; 0] = [];

pub(crate) async fn get(_: &Context, _: bool, asked: Asked) -> Result<Prompt> {
    Err(Error::new(ErrorKind::InvalidArgument, format!("Unknown prompt {:?}.", asked.name)))
}

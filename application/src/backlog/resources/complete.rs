//! References that begin with what somebody typed.
//!
//! A completion is a hint for whoever types: what nobody knows has none, and that is no error.

use std::sync::Arc;

use reqlore_domain::backlog::{Item, ItemKind, Reference};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Completion, CompletionRequest, CompletionTarget};

use super::uri::{TEMPLATES, VARIABLE};
use crate::backlog::find::{self, Backlog};
use crate::backlog::prompts;

/// The protocol allows no more.
const MOST: usize = 100;

/// What is longer is no begin of anything.
const LONGEST: usize = 500;

pub(super) async fn complete(
    backlog: Backlog<'_>,
    begun: &CompletionRequest,
) -> Result<Completion> {
    let typed = begun.value.trim().to_lowercase();
    let Some(kind) = kind(begun).filter(|_| typed.len() <= LONGEST) else {
        return Ok(Completion::default());
    };
    let heads = backlog.all(kind).await?;
    let ranked = |head: &Arc<DocumentMeta>| {
        let item = find::item(head)?;
        let reference = item.reference?;
        Some((rank(item, reference, &typed)?, reference))
    };
    let mut found: Vec<(u8, Reference)> = heads.iter().filter_map(ranked).collect();
    // Words of titles keep the one order; references count up.
    found.sort_by_key(|(rank, reference)| {
        (*rank, if *rank == BY_TITLE { 0 } else { reference.number })
    });
    found.dedup_by_key(|(_, reference)| *reference);
    let total = found.len();
    let values = found.iter().take(MOST).map(|(_, reference)| reference.to_string());
    Ok(Completion { values: values.collect(), total })
}

/// The kind of items that the argument names.
fn kind(begun: &CompletionRequest) -> Option<ItemKind> {
    match &begun.of {
        CompletionTarget::Template(uri) => {
            let form = TEMPLATES.iter().find(|form| form.spec.uri_template == uri)?;
            (begun.argument == VARIABLE).then_some(form.kind)
        }
        CompletionTarget::Prompt(name) => prompts::kind(name, &begun.argument),
    }
}

const BY_TITLE: u8 = 3;

/// How well an item fits, the best first; `None` where it does not.
fn rank(item: &Item, reference: Reference, typed: &str) -> Option<u8> {
    let printed = reference.to_string().to_lowercase();
    let number = reference.number.to_string();
    let bare = format!("{}-{number}", reference.kind.prefix().to_lowercase());
    if typed == printed || typed == bare || typed == number {
        Some(0)
    } else if printed.starts_with(typed) || bare.starts_with(typed) {
        Some(1)
    } else if number.starts_with(typed) || printed.ends_with(&format!("-{typed}")) {
        Some(2)
    } else {
        has_words(&item.title, typed).then_some(BY_TITLE)
    }
}

/// Does each word begin one of the title's?
fn has_words(title: &str, typed: &str) -> bool {
    let title = title.to_lowercase();
    let of_title = || title.split(|c: char| !c.is_alphanumeric());
    let mut words = typed.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let has_any = typed.contains(char::is_alphanumeric);
    has_any && words.all(|word| of_title().any(|other| other.starts_with(word)))
}

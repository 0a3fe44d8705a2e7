//! The docsets' configuration put into the storage from a file (rulings 4).

use std::sync::Arc;

use reqlore_domain::docsets::Configuration;
use reqlore_domain::document::{Document, DocumentId, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::documents::{Change, ReadSet};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project::ProjectKey;

use crate::Ports;
use crate::edit::edit;

/// What an import did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imported {
    pub docsets: usize,
    pub version: Version,
    /// Was there another one before?
    pub replaced: bool,
    /// The same was there already.
    pub unchanged: bool,
}

/// Puts a configuration in the place of the one that there is. One that can't be used is refused
/// with all that is wrong with it.
pub async fn import(ports: &Ports, text: String, caller: Caller) -> Result<Imported> {
    if !caller.may(Access::Write) {
        let message = format!("An import writes, and {} may only read.", caller.name);
        return Err(Error::new(ErrorKind::Forbidden, message));
    }
    // The root's own configuration, also where one in a folder above it is in use now.
    let project = ProjectKey::default();
    let folder = ports.projects.folder(&project).await?;
    let configuration = Configuration::read(&text, &folder)
        .map_err(|faults| super::unusable(&super::told(&faults)))?;
    let id = DocumentId::docsets();
    let reads = ReadSet::of(vec![id.clone()]);
    let act = WriteContext {
        caller: Arc::new(caller),
        tool: "docsets import",
        reason: "imported on the command line".to_owned(),
        correlation_id: "docsets-import".to_owned(),
        at: ports.clock.now(),
        audited: None,
        once: None,
    };
    let document = Document::new(id, text.into());
    let version = document.version;
    let put = move |snapshot: &_| {
        let before = before(snapshot);
        let changes = vec![Change::Put { document: document.clone() }];
        Ok((if before == Some(version) { Vec::new() } else { changes }, before))
    };
    let (before, _) = edit(ports, &project, reads, act, put).await?;
    Ok(Imported {
        docsets: configuration.docsets.len(),
        version,
        replaced: before.is_some_and(|before| before != version),
        unchanged: before == Some(version),
    })
}

fn before(snapshot: &reqlore_domain::ports::documents::Snapshot) -> Option<Version> {
    let document = snapshot.documents.first().and_then(Option::as_ref);
    document.map(|document| document.version)
}

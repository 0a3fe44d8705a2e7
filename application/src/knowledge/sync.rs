//! `ixchel_sync` (S4 AC-002.1): looks at every file, brings the index up to date, and counts.

use async_trait::async_trait;
use reqlore_domain::document::DocumentId;
use reqlore_domain::error::Result;
use reqlore_domain::identity::Access;
use reqlore_domain::knowledge::Inventory;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Repo;
use super::import::Missed;
use crate::Context;
use crate::edit::act;
use crate::tool::{Tool, decode, read_tool};

/// Whether it takes files over into a database is part of what clients are told.
pub(crate) struct Sync {
    pub(crate) takes_over: bool,
}

/// The name of the checkpoint that counts are taken from.
const CHECKPOINT: &str = "ixchel_sync";
/// So many warnings are told; the rest is counted.
const MOST_WARNINGS: usize = 100;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// A path inside the repository; the server's root when left out.
    repo: Option<Repo>,
}

#[derive(Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Answer {
    /// Every .md file below .ixchel, readable or not.
    scanned: usize,
    /// Files that the last ixchel_sync did not know.
    added: usize,
    /// Files whose bytes changed since then.
    modified: usize,
    /// Files that are gone since then.
    deleted: usize,
    /// Files that are as they were.
    unchanged: usize,
    /// What a person should mend: file, line and reason.
    warnings: Vec<String>,
}

#[async_trait]
impl Tool for Sync {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            // It changes no document but by taking files over, and then only for who may write.
            may_change: self.takes_over,
            destructive: self.takes_over,
            ..read_tool::<Arguments, Answer>(
                "ixchel_sync",
                "Rebuild the knowledge index",
                "Looks at every markdown file below .ixchel, brings the search index up \
                          to date, and counts what was added, modified and deleted since the last \
                          sync. Edits show without it; call it to see what changed or is broken, \
                          and to take the files over into a database.",
            )
        }
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let arguments: Arguments = decode(&mut call, spec)?;
        let project = super::project(context, &call.caller, arguments.repo.as_ref()).await?;
        let (ports, observer) = (&context.ports, &*call.observer);
        let mut missed = Missed::default();
        // Who may not write sees what is in the storage.
        if let Some(tree) = ports.tree.as_deref().filter(|_| call.caller.may(Access::Write)) {
            let reason = "the files of the project's root are taken over";
            // It takes several commits, and does the same when it is done again.
            let act = WriteContext { once: None, ..act(context, &call, spec, reason) };
            missed = super::import::import(ports, tree, &project, &act, observer).await?;
        }
        context.indexes.update_search(ports, &project, Refresh::Full, observer).await?;
        let known = context.indexes.entities(ports, &project, Refresh::Incremental).await?;
        let inventory = &known.inventory;
        let versions = inventory.versions();
        let difference = ports.search.checkpoint(&project, CHECKPOINT, versions).await?;
        super::reply(&Answer {
            scanned: inventory.len() + missed.files,
            added: difference.added,
            modified: difference.modified,
            deleted: difference.deleted,
            unchanged: difference.unchanged,
            warnings: warnings(inventory, missed.warnings),
        })
    }
}

/// What is wrong in the storage, behind what could not be taken over.
fn warnings(inventory: &Inventory, mut warnings: Vec<String>) -> Vec<String> {
    warnings.extend(inventory.faults().map(|(name, fault)| {
        let file = DocumentId::entity(name);
        match fault.line {
            Some(line) => format!("{file}:{line}: {}", fault.message),
            None => format!("{file}: {}", fault.message),
        }
    }));
    for (id, names) in inventory.duplicates() {
        let files: Vec<String> =
            names.iter().map(|name| DocumentId::entity(*name).to_string()).collect();
        warnings.push(format!("{} claim one id, {id}; give each its own", files.join(" and ")));
    }
    let all = warnings.len();
    if all > MOST_WARNINGS {
        warnings.truncate(MOST_WARNINGS);
        warnings.push(format!("and {} more; `reqlore check` lists all", all - MOST_WARNINGS));
    }
    warnings
}

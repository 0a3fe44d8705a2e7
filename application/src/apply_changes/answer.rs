//! The answer of `apply_changes`: the ID and version of each entry, without titles.

use std::collections::HashSet;
use std::fmt::Write;

use reqlore_domain::document::{Document, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::answers::answer::{Answer, serialization_error};
use crate::writes::batch::CommittedBatch;
use crate::writes::change::{Action, ChangeOutcome};
use crate::writes::written_rule::RenumberedRule;

#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct AppliedChanges {
    project: String,
    dry_run: bool,
    /// Of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    plan: Option<String>,
    count: usize,
    /// Of a dry run, by action and kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    planned: Vec<PlannedChanges>,
    results: Vec<EntryResult>,
    /// Names the entries that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    left_out: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    renumbered: Vec<RenumberedRule>,
}

#[derive(Clone, Serialize, JsonSchema)]
struct PlannedChanges {
    action: &'static str,
    kind: String,
    count: usize,
}

#[derive(Clone, Serialize, JsonSchema)]
struct EntryResult {
    /// From 1.
    entry: usize,
    action: &'static str,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    name: Option<String>,
    /// Absent for a new item in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", default)]
    version: Option<String>,
    /// Other items that a deletion deletes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    deleted: Vec<String>,
    /// Items that lose a relationship to a deleted one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    unlinked: Vec<String>,
}

impl AppliedChanges {
    /// `names` are the local names of the entries.
    pub(super) fn new(batch: &CommittedBatch, names: Vec<Option<String>>, dry_run: bool) -> Self {
        let mut results = Vec::with_capacity(batch.outcomes.len());
        // A dry run reserves no reference.
        let mut unissued = HashSet::new();
        for outcome in &batch.outcomes {
            if dry_run && outcome.rule.is_none() && outcome.action == Action::Create {
                unissued.insert(&outcome.document.id);
            }
        }
        for (position, (outcome, name)) in batch.outcomes.iter().zip(names).enumerate() {
            let mut result = EntryResult::new(position + 1, outcome, name, dry_run);
            result.id.take_if(|_| unissued.contains(&outcome.document.id));
            results.push(result);
        }
        Self {
            project: batch.project.to_string(),
            dry_run,
            plan: None,
            count: results.len(),
            planned: if dry_run { planned_changes(&results) } else { Vec::new() },
            results,
            left_out: None,
            renumbered: batch.renumbered.clone(),
        }
    }

    pub(super) fn with_plan(self, plan: Option<String>) -> Self {
        Self { plan, ..self }
    }

    fn left_out(&self, parts: usize) -> Option<String> {
        let count = self.results.len().checked_sub(parts).filter(|count| *count > 0)?;
        Some(format!("{count} entries; list_items sorted by updated shows their items"))
    }

    fn heading(&self) -> String {
        let (count, noun) = (self.count, change_noun(self.count));
        let mut heading = if self.dry_run {
            format!("Dry run: {count} {noun} can be applied; nothing was written.")
        } else {
            format!("Applied {count} {noun}.")
        };
        if self.project != ProjectKey::default().as_str() {
            write_to(&mut heading, format_args!(" Project: {}.", encode_line(&self.project)));
        }
        if let Some(plan) = &self.plan {
            write_to(&mut heading, format_args!("\nplan: {plan}"));
        }
        heading
    }
}

fn write_to(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(arguments);
}

impl EntryResult {
    fn new(entry: usize, outcome: &ChangeOutcome, name: Option<String>, dry_run: bool) -> Self {
        let (kind, id) = match &outcome.rule {
            Some(rule) => (RULE_KIND.to_owned(), rule.address.clone()),
            None => subject(&outcome.document),
        };
        let version = match &outcome.rule {
            Some(rule) => rule.version,
            None => Some(outcome.document.version),
        };
        // The index of a rule is not reserved either.
        let is_unissued = dry_run && outcome.action == Action::Create;
        Self {
            entry,
            action: action_name(outcome.action),
            kind,
            name,
            id: (!is_unissued).then_some(id),
            version: version.filter(|_| !dry_run).map(|version| version.to_string()),
            deleted: outcome.effects.deleted.clone(),
            unlinked: outcome.effects.unlinked.clone(),
        }
    }

    /// The ID, its version unless it is among `shown`, and the other changed items.
    fn text(&self, shown: &mut HashSet<String>) -> String {
        let mut text = self.id.as_deref().map(encode_id).unwrap_or_default().into_owned();
        if let Some(version) = &self.version
            && shown.insert(format!("{} {version}", self.versioned_id()))
        {
            write_to(&mut text, format_args!(" {}", &version[..8]));
        }
        let mut others = Vec::new();
        for (label, ids) in [("deleted", &self.deleted), ("unlinked", &self.unlinked)] {
            if !ids.is_empty() {
                let ids: Vec<_> = ids.iter().map(|id| encode_id(id)).collect();
                others.push(format!("{label}: {}", ids.join(", ")));
            }
        }
        if !others.is_empty() {
            write_to(&mut text, format_args!(" ({})", others.join("; ")));
        }
        text
    }

    /// The item or section of the version: all rules of a section have the same.
    fn versioned_id(&self) -> &str {
        let id = self.id.as_deref().unwrap_or_default();
        if self.kind == RULE_KIND {
            id.rsplit_once(':').map_or(id, |(section, _)| section)
        } else {
            id
        }
    }

    /// True if both are shown on one line.
    fn continues(&self, other: &Self) -> bool {
        self.action == other.action && self.name.is_none() && other.name.is_none()
    }
}

const RULE_KIND: &str = "rule";

/// The kind and ID of an item or entity.
fn subject(document: &Document) -> (String, String) {
    // Times are not shown.
    let meta = DocumentMeta::from_document(document, Timestamp::default());
    match (&meta.item, &meta.entity) {
        (Some(item), _) => {
            (item.kind.name().to_owned(), item.display_name(&document.id.name).into_owned())
        }
        (_, Some(entity)) => (entity.kind.clone(), entity.id.clone()),
        _ => (String::new(), document.id.to_string()),
    }
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Keep => "keep",
        Action::Relate => "relate",
        Action::Delete => "delete",
    }
}

/// The kinds of new items, which have no ID yet, and a line for each other action and kind.
fn write_planned(text: &mut String, results: &[EntryResult]) {
    let mut continued = "";
    for PlannedChanges { action, kind, count } in planned_changes(results) {
        let mut items = Vec::new();
        for result in results {
            if result.action == action && result.kind == kind && result.id.is_some() {
                items.push(result.text(&mut HashSet::new()));
            }
        }
        let kind = encode_line(&kind);
        if items.is_empty() && continued == action {
            write_to(text, format_args!(", {count} {kind}"));
            continue;
        }
        write_to(text, format_args!("\n{action} {count} {kind}"));
        continued = if items.is_empty() { action } else { "" };
        if !items.is_empty() {
            write_to(text, format_args!(": {}", items.join(", ")));
        }
    }
}

fn planned_changes(results: &[EntryResult]) -> Vec<PlannedChanges> {
    let mut planned: Vec<PlannedChanges> = Vec::new();
    for EntryResult { action, kind, .. } in results {
        match planned.iter_mut().find(|one| one.action == *action && one.kind == *kind) {
            Some(same) => same.count += 1,
            None => planned.push(PlannedChanges { action, kind: kind.clone(), count: 1 }),
        }
    }
    planned
}

/// One line for each local name, and for adjacent entries of one action.
fn write_applied(text: &mut String, results: &[EntryResult]) {
    let mut shown = HashSet::new();
    for group in results.chunk_by(EntryResult::continues) {
        let [first, ..] = group else { continue };
        let items: Vec<String> = group.iter().map(|one| one.text(&mut shown)).collect();
        if let Some(name) = &first.name {
            write_to(text, format_args!("\n${name} = {}", items.join(", ")));
            continue;
        }
        write_to(text, format_args!("\n{}", first.entry));
        if group.len() > 1 {
            write_to(text, format_args!("-{}", first.entry + group.len() - 1));
        }
        write_to(text, format_args!(" {}: {}", first.action, items.join(", ")));
    }
}

impl Answer for AppliedChanges {
    fn part_count(&self) -> usize {
        self.results.len()
    }

    fn text(&self, parts: usize) -> String {
        let results = &self.results[..parts.min(self.results.len())];
        let mut text = self.heading();
        if self.dry_run {
            write_planned(&mut text, results);
        } else {
            write_applied(&mut text, results);
        }
        if let Some(left_out) = self.left_out(parts) {
            text.extend(["\nLeft out: ", &left_out]);
        }
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut shown = self.clone();
        shown.results.truncate(parts);
        shown.left_out = self.left_out(parts);
        serde_json::to_value(shown).map_err(serialization_error)
    }
}

pub(super) fn change_noun(count: usize) -> &'static str {
    if count == 1 { "change" } else { "changes" }
}

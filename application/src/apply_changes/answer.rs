//! The answer of `apply_changes`: the ID and version of each entry, without titles.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write;

use reqlore_domain::document::{Document, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::applied_changes::{
    AppliedChanges, EntryResult, PlannedChanges,
};
use reqlore_domain::records::answers::entry_line::RULE;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::Value;

use crate::answers::answer::{Answer, serialization_error};
use crate::writes::batch::CommittedBatch;
use crate::writes::change::{Action, ChangeOutcome};

/// `names` are the local names of the entries.
pub(super) fn new_answer(
    batch: &CommittedBatch,
    names: Vec<Option<String>>,
    dry_run: bool,
) -> AppliedChanges {
    let mut results = Vec::with_capacity(batch.outcomes.len());
    // A dry run reserves no reference.
    let mut unissued = HashSet::new();
    for outcome in &batch.outcomes {
        if dry_run && outcome.rule.is_none() && outcome.action == Action::Create {
            unissued.insert(&outcome.document.id);
        }
    }
    for (position, (outcome, name)) in batch.outcomes.iter().zip(names).enumerate() {
        let mut result = entry_result(position + 1, outcome, name, dry_run);
        result.id.take_if(|_| unissued.contains(&outcome.document.id));
        results.push(result);
    }
    AppliedChanges {
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

fn left_out(answer: &AppliedChanges, parts: usize) -> Option<String> {
    let count = answer.results.len().checked_sub(parts).filter(|count| *count > 0)?;
    Some(format!("{count} entries; list_items sorted by updated shows their items"))
}

fn heading(answer: &AppliedChanges) -> String {
    let (count, noun) = (answer.count, change_noun(answer.count));
    let mut heading = if answer.dry_run {
        format!("Dry run: {count} {noun} can be applied; nothing was written.")
    } else {
        format!("Applied {count} {noun}.")
    };
    if answer.project != ProjectKey::default().as_str() {
        write_to(&mut heading, format_args!(" Project: {}.", encode_line(&answer.project)));
    }
    if let Some(plan) = &answer.plan {
        write_to(&mut heading, format_args!("\nplan: {plan}"));
    }
    heading
}

fn write_to(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = text.write_fmt(arguments);
}

fn entry_result(
    entry: usize,
    outcome: &ChangeOutcome,
    name: Option<String>,
    dry_run: bool,
) -> EntryResult {
    let (kind, id) = match &outcome.rule {
        Some(rule) => (RULE.to_owned(), rule.address.clone()),
        None => subject(&outcome.document),
    };
    let version = match &outcome.rule {
        Some(rule) => rule.version,
        None => Some(outcome.document.version),
    };
    // The index of a rule is not reserved either.
    let is_unissued = dry_run && outcome.action == Action::Create;
    EntryResult {
        entry,
        action: action_name(outcome.action).into(),
        kind,
        name,
        id: (!is_unissued).then_some(id),
        version: version.filter(|_| !dry_run).map(|version| version.to_string()),
        deleted: outcome.effects.deleted.clone(),
        unlinked: outcome.effects.unlinked.clone(),
    }
}

/// The ID, its version unless it is among `shown`, and the other changed items.
fn result_text(result: &EntryResult, shown: &mut HashSet<String>) -> String {
    let mut text = result.id.as_deref().map(encode_id).unwrap_or_default().into_owned();
    if let Some(version) = &result.version
        && shown.insert(format!("{} {version}", versioned_id(result)))
    {
        write_to(&mut text, format_args!(" {}", &version[..8]));
    }
    let mut others = Vec::new();
    for (label, ids) in [("deleted", &result.deleted), ("unlinked", &result.unlinked)] {
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
fn versioned_id(result: &EntryResult) -> &str {
    let id = result.id.as_deref().unwrap_or_default();
    if result.kind == RULE { id.rsplit_once(':').map_or(id, |(section, _)| section) } else { id }
}

/// True if both are shown on one line.
fn is_same_line(result: &EntryResult, other: &EntryResult) -> bool {
    result.action == other.action && result.name.is_none() && other.name.is_none()
}

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
    let mut continued = Cow::default();
    for PlannedChanges { action, kind, count } in planned_changes(results) {
        let mut items = Vec::new();
        for result in results {
            if result.action == action && result.kind == kind && result.id.is_some() {
                items.push(result_text(result, &mut HashSet::new()));
            }
        }
        let kind = encode_line(&kind);
        if items.is_empty() && continued == action {
            write_to(text, format_args!(", {count} {kind}"));
            continue;
        }
        write_to(text, format_args!("\n{action} {count} {kind}"));
        continued = if items.is_empty() { action } else { Cow::default() };
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
            None => planned.push(PlannedChanges {
                action: action.clone(),
                kind: kind.clone(),
                count: 1,
            }),
        }
    }
    planned
}

/// One line for each local name, and for adjacent entries of one action.
fn write_applied(text: &mut String, results: &[EntryResult]) {
    let mut shown = HashSet::new();
    for group in results.chunk_by(is_same_line) {
        let [first, ..] = group else { continue };
        let items: Vec<String> = group.iter().map(|one| result_text(one, &mut shown)).collect();
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
        let mut text = heading(self);
        if self.dry_run {
            write_planned(&mut text, results);
        } else {
            write_applied(&mut text, results);
        }
        if let Some(left_out) = left_out(self, parts) {
            text.extend(["\nLeft out: ", &left_out]);
        }
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let mut shown = self.clone();
        shown.results.truncate(parts);
        shown.left_out = left_out(self, parts);
        serde_json::to_value(shown).map_err(serialization_error)
    }
}

pub(super) fn change_noun(count: usize) -> &'static str {
    if count == 1 { "change" } else { "changes" }
}

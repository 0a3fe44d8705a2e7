//! The calls of `apply_changes` that carry out a plan, in batches.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::records::answers::applied_changes::EntryResult;
use reqlore_domain::records::ended::SUPERSEDES;
use reqlore_domain::records::fields::{IMPORTED_FROM, find_field};
use serde_json::{Map, Value, json};

use super::item_values::is_empty;
use super::plan::{ImportPlan, ItemAction, PlannedItem, Target};
use crate::writes::record_change::WANTED_ID;

/// Maximum number of entries of one call.
const MAX_ENTRIES: usize = 100;
/// Keeps a call far below the size that servers accept.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// The entries of one call, and the item of each.
#[derive(Debug, Default)]
pub struct ChangeBatch {
    pub entries: Vec<Value>,
    items: Vec<usize>,
}

/// The changes of a plan that are not written yet, in the order of commits.
enum Step {
    Write(usize),
    /// Links of an item of the backlog, one by one.
    Relate(usize, usize),
    /// Links that an update sets.
    Link(usize),
}

impl ImportPlan<'_> {
    /// All batches in order. Each has the IDs of what the earlier ones created, so `write` sends a
    /// batch and returns its results. Returns the number of entries written before an error.
    pub fn apply<E>(
        &mut self,
        mut write: impl FnMut(&ChangeBatch, usize, usize) -> Result<Vec<EntryResult>, E>,
    ) -> Result<usize, (usize, usize, E)> {
        let steps = self.steps();
        let (mut batch, mut bytes, mut done) = (ChangeBatch::default(), 0, 0);
        for step in &steps {
            let (index, mut entry) = self.entry(step, &batch);
            let size = entry.to_string().len();
            // An update needs the ID of its record, and a large batch may be refused.
            let is_full = batch.entries.len() == MAX_ENTRIES || bytes + size > MAX_BATCH_BYTES;
            let is_early = matches!(step, Step::Link(..)) && self.is_local(index, &batch);
            if !batch.entries.is_empty() && (is_full || is_early) {
                done += self.send(&mut batch, (done, steps.len()), &mut write)?;
                bytes = 0;
                // With the IDs of the batch that was just sent.
                (_, entry) = self.entry(step, &batch);
            }
            bytes += size;
            batch.entries.push(entry);
            batch.items.push(index);
        }
        if !batch.entries.is_empty() {
            done += self.send(&mut batch, (done, steps.len()), &mut write)?;
        }
        Ok(done)
    }

    /// The entries as one batch; `None` if an update needs the ID of a new record.
    pub(super) fn one_batch(&self) -> Option<Vec<Value>> {
        let mut batch = ChangeBatch::default();
        for step in self.steps() {
            let (index, entry) = self.entry(&step, &batch);
            if matches!(step, Step::Link(_)) && self.is_local(index, &batch) {
                return None;
            }
            batch.entries.push(entry);
            batch.items.push(index);
        }
        Some(batch.entries)
    }

    fn send<E>(
        &mut self,
        batch: &mut ChangeBatch,
        (done, total): (usize, usize),
        write: &mut impl FnMut(&ChangeBatch, usize, usize) -> Result<Vec<EntryResult>, E>,
    ) -> Result<usize, (usize, usize, E)> {
        let results = write(batch, done, total).map_err(|error| (done, total, error))?;
        for EntryResult { entry, id, .. } in results {
            if let (Some(index), Some(id)) = (batch.items.get(entry.wrapping_sub(1)), id) {
                self.written.insert(*index, id);
            }
        }
        let count = batch.entries.len();
        *batch = ChangeBatch::default();
        Ok(count)
    }

    /// Parents come before children. References that are kept come first and in their order, so
    /// that each is still unissued.
    fn steps(&self) -> Vec<Step> {
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.retain(|index| {
            matches!(self.items[*index].action, ItemAction::Create | ItemAction::Update)
        });
        order.sort_by_key(|index| {
            let PlannedItem { kind, item, action, .. } = &self.items[*index];
            let level = ItemKind::from_name(kind.name).map_or(u8::MAX, |kind| kind as u8);
            let wanted = item.id.as_deref().and_then(Reference::parse);
            (*action == ItemAction::Update, level, wanted.map_or(u32::MAX, |one| one.number))
        });
        let mut steps: Vec<Step> = order.iter().map(|index| Step::Write(*index)).collect();
        // A relation changes the version that an update names.
        let mut relations = Vec::new();
        for (index, position) in &self.missing_links {
            let item = &self.items[*index];
            let relation = &item.links[*position].0;
            if ItemKind::from_name(item.kind.name).is_some() && relation != SUPERSEDES {
                relations.push(Step::Relate(*index, *position));
            } else if !matches!(steps.last(), Some(Step::Link(one)) if one == index) {
                steps.push(Step::Link(*index));
            }
        }
        steps.append(&mut relations);
        steps
    }

    fn entry(&self, step: &Step, batch: &ChangeBatch) -> (usize, Value) {
        match step {
            Step::Write(index) => (*index, self.write_entry(*index, batch)),
            Step::Relate(index, position) => {
                let (relation, target) = &self.items[*index].links[*position];
                let source = self.target_id(&Target::Item(*index), batch);
                let target = self.target_id(target, batch);
                let link = json!({ "source": source, "target": target, "type": relation });
                (*index, json!({ "relate": link }))
            }
            Step::Link(index) => {
                let item = &self.items[*index];
                let mut links =
                    item.stored.as_ref().map(|one| one.links.clone()).unwrap_or_default();
                links.retain(|relation, _| item.links.iter().any(|(one, _)| one == relation));
                for (relation, target) in &item.links {
                    let (targets, id) =
                        (links.entry(relation.clone()).or_default(), self.target_id(target, batch));
                    if !targets.contains(&id) {
                        targets.push(id);
                    }
                }
                let id = self.id_of(*index);
                let mut entry = match links.get(SUPERSEDES) {
                    Some(targets) if ItemKind::from_name(item.kind.name).is_some() => {
                        json!({ "update": id, SUPERSEDES: targets })
                    }
                    _ => json!({ "update": id, "links": links }),
                };
                // A record that this import writes gets a new version in an earlier entry.
                let is_written = matches!(item.action, ItemAction::Create | ItemAction::Update);
                if let Some(stored) = item.stored.as_ref().filter(|_| !is_written) {
                    entry["if_version"] = json!(stored.version);
                }
                (*index, entry)
            }
        }
    }

    /// The entry that creates or updates the record of an item.
    fn write_entry(&self, index: usize, batch: &ChangeBatch) -> Value {
        let PlannedItem { kind, item, values, stored, parent, hash, .. } = &self.items[index];
        let mut entry = Map::new();
        if let Some(stored) = stored {
            entry.insert("update".to_owned(), json!(stored.id));
            entry.insert("if_version".to_owned(), json!(stored.version));
        } else {
            entry.insert("create".to_owned(), json!(kind.name));
            entry.insert("name".to_owned(), json!(local_name(index)));
            entry.extend(item.id.as_ref().map(|id| (WANTED_ID.to_owned(), json!(id))));
            for (name, value) in [("priority", json!(3)), ("type", json!("Functional"))] {
                if find_field(kind, name).is_some_and(|field| field.is_required) {
                    entry.insert(name.to_owned(), value);
                }
            }
        }
        if let (Some(parent), Some(kind)) = (parent, kind.parent) {
            entry.insert(kind.name().to_owned(), json!(self.target_id(parent, batch)));
        }
        let mut extra = Map::new();
        let mut fields = Map::new();
        for (key, value) in values {
            // There is nothing to remove.
            let is_absent = stored.as_ref().is_none_or(|stored| !stored.values.contains_key(key));
            let (group, name) = match key.split_once('.') {
                Some(("fields", name)) => (&mut fields, name),
                Some(("extra", name)) => (&mut extra, name),
                _ => (&mut entry, &**key),
            };
            let is_new = stored.is_none();
            match name {
                "text" if !(is_new && item.text.is_empty()) => {
                    group.insert("description".to_owned(), json!(item.text));
                }
                "text" => {}
                _ if is_absent && is_empty(value) => {}
                name => _ = group.insert(name.to_owned(), value.clone()),
            }
        }
        // Keeps the identity that an import of another source wrote.
        if stored.as_ref().is_none_or(|stored| !stored.has_other_source()) {
            extra.insert(IMPORTED_FROM.to_owned(), json!(format!("{} {hash}", item.source)));
        }
        entry.insert("extra".to_owned(), extra.into());
        if !fields.is_empty() {
            entry.insert("fields".to_owned(), fields.into());
        }
        entry.into()
    }

    /// True for a record that the batch creates, which only its local name identifies.
    fn is_local(&self, index: usize, batch: &ChangeBatch) -> bool {
        batch.items.contains(&index) && self.id_of(index).is_empty()
    }

    fn id_of(&self, index: usize) -> &str {
        let stored = self.items[index].stored.as_ref().map(|stored| &*stored.id);
        stored.or_else(|| self.written.get(&index).map(String::as_str)).unwrap_or_default()
    }

    fn target_id(&self, target: &Target, batch: &ChangeBatch) -> String {
        match target {
            Target::Stored(id) => id.clone(),
            Target::Item(index) if self.is_local(*index, batch) => {
                format!("${}", local_name(*index))
            }
            Target::Item(index) => self.id_of(*index).to_owned(),
        }
    }

    /// The items whose source has another reference or ID than the record that was created.
    pub fn renumbered(&self) -> Vec<(String, String)> {
        let mut renumbered = Vec::new();
        for (index, id) in &self.written {
            match &self.items[*index].item.id {
                Some(wanted) if wanted != id && Reference::parse(wanted).is_some() => {
                    renumbered.push((wanted.clone(), id.clone()));
                }
                _ => {}
            }
        }
        renumbered
    }
}

fn local_name(index: usize) -> String {
    format!("i{index}")
}

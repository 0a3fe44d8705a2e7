//! The plan of an import: the action for each item, decided by its identity and hashes.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use reqlore_domain::backlog::fields::find_by_name;
use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType};
use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use reqlore_domain::records::answers::lists::ListedItem;
use reqlore_domain::records::custom_field::CustomField;
use reqlore_domain::records::extra::{MAX_EXTRA_KEYS, MAX_IMPORTED_FROM_CHARS};
use reqlore_domain::records::fields::IMPORTED_FROM;
use reqlore_domain::records::kinds::{RecordKind, find_kind};
use reqlore_domain::records::schema::RecordSchema;
use serde_json::{Value, json};

use super::item_values::{
    ItemReader, ItemValues, has_relation, is_empty, record_values, short_hash,
};
use super::report::ImportReport;

/// The key of the identity of a record in its values.
pub(super) const IDENTITY_KEY: &str = "extra.imported_from";
/// Ends the source of a generated story.
pub(super) const STORY_MARK: &str = "~story";

/// Choices of the user.
#[derive(Debug, Clone, Default)]
pub struct ImportOptions {
    /// The name of the format, which begins each identity.
    pub format: String,
    /// The epic of stories whose source has none.
    pub into: Option<String>,
    /// Replaces records that were edited both in the project and in the source.
    pub update: bool,
    /// The values of fields by their text in the source.
    pub values: BTreeMap<String, BTreeMap<String, String>>,
    /// The users that records may name; `None` if they may name anyone.
    pub users: Option<Vec<String>>,
}

/// The action for an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemAction {
    Create,
    Update,
    Keep,
    /// Edited in the project only.
    KeepEdited,
    /// Edited on both sides, or the same record without an import.
    Conflict,
    /// A generated parent that no item needs, because its items already have one.
    Omit,
}

pub(super) struct PlannedItem {
    pub(super) kind: &'static RecordKind,
    pub(super) item: ImportedItem,
    pub(super) values: ItemValues,
    pub(super) stored: Option<Box<StoredMatch>>,
    pub(super) action: ItemAction,
    /// The target of its parent and of its links, which are found at the end.
    pub(super) parent: Option<Target>,
    /// True if the source names no parent, so that an existing record keeps its own.
    pub(super) keeps_parent: bool,
    /// True for an epic or story that the source lacks.
    pub(super) is_generated: bool,
    pub(super) links: Vec<(String, Target)>,
    pub(super) hash: String,
}

/// The stored record of an item.
pub(super) struct StoredMatch {
    pub(super) id: String,
    pub(super) version: String,
    /// The hash of the last import; `None` if this source did not create the record.
    pub(super) hash: Option<String>,
    pub(super) values: ItemValues,
    pub(super) parent: Option<String>,
    pub(super) links: BTreeMap<String, Vec<String>>,
}

impl StoredMatch {
    /// True for a record that an import of another source wrote.
    pub(super) fn has_other_source(&self) -> bool {
        self.hash.is_none() && self.values.contains_key(IDENTITY_KEY)
    }
}

/// Another item of the import, or a reference or ID of the project.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Target {
    Item(usize),
    Stored(String),
}

/// The plan of an import.
#[expect(missing_debug_implementations, reason = "it would print all texts")]
pub struct ImportPlan<'s> {
    pub(super) schema: &'s RecordSchema,
    pub(super) options: ImportOptions,
    pub(super) items: Vec<PlannedItem>,
    pub(super) by_source: HashMap<String, usize>,
    by_id: HashMap<String, usize>,
    /// The files of the source, as identities begin with them.
    paths: HashSet<String>,
    /// The records of the project, with the items that they are.
    pub(super) stored: HashMap<String, Option<usize>>,
    /// The records that imports generated as parents.
    pub(super) generated: HashSet<String>,
    /// The links of all records of the project, as [`link_key`] has them.
    stored_links: HashSet<(String, String, String)>,
    /// The links that the project lacks: the item and the position in its links.
    pub(super) missing_links: Vec<(usize, usize)>,
    /// The IDs of created records.
    pub(super) written: BTreeMap<usize, String>,
    pub(super) report: ImportReport,
}

impl<'s> ImportPlan<'s> {
    /// Validates the items and adds missing epics and stories.
    pub fn new(schema: &'s RecordSchema, options: ImportOptions, imported: ImportedItems) -> Self {
        let mut plan = Self {
            schema,
            report: ImportReport::new(&options.format, imported.notes),
            options,
            items: Vec::with_capacity(imported.items.len()),
            by_source: HashMap::new(),
            by_id: HashMap::new(),
            paths: HashSet::new(),
            stored: HashMap::new(),
            generated: HashSet::new(),
            stored_links: HashSet::new(),
            missing_links: Vec::new(),
            written: BTreeMap::new(),
        };
        for item in imported.items {
            plan.add(item);
        }
        // Without the items of unknown kinds, parents would be missing.
        if !plan.report.unknown_values.contains_key("kind") {
            plan.check_cycles();
            plan.add_parents();
        }
        plan
    }

    pub(super) fn add(&mut self, mut item: ImportedItem) -> Option<usize> {
        item.source = self.bounded_source(&item.source);
        let Some(kind) = find_kind(&item.kind) else {
            // Once, because one entry of the mapping covers all its items.
            if self.report.add_unknown("kind", &item.kind) {
                self.report.problem(format!(
                    "{}: {:?} is not a kind of items; use epic, user_story or requirement, or for \
                     a table map it in [values.kind] with --map",
                    item.source, item.kind
                ));
            }
            return None;
        };
        let index = self.items.len();
        match self.by_source.entry(item.source.clone()) {
            Entry::Vacant(entry) => _ = entry.insert(index),
            Entry::Occupied(_) => {
                self.report.problem(format!("{}: the source has this ID twice", item.source));
                return None;
            }
        }
        let path = item.source.split_once('#').map(|(path, _)| path);
        if let Some(path) = path.filter(|path| !self.paths.contains(*path)) {
            self.paths.insert(path.to_owned());
        }
        if let Some(id) = &item.id {
            self.by_id.entry(id.clone()).or_insert(index);
        }
        let mut reader = ItemReader {
            schema: self.schema,
            mapped: &self.options.values,
            users: self.options.users.as_deref(),
            report: &mut self.report,
        };
        let mut values = reader.read(kind, &mut item);
        let mut given = std::mem::take(&mut item.links);
        given.retain(|relation, targets| {
            let is_link = has_relation(kind, relation);
            if !is_link && !targets.is_empty() {
                let key = format!("source_{relation}");
                reader.add_extra(&item, &key, &json!(targets), &mut values);
            }
            is_link
        });
        item.links = given;
        let is_extra =
            |(key, value): &(&String, &Value)| key.starts_with("extra.") && !is_empty(value);
        let extras = values.iter().filter(is_extra).count();
        if extras >= MAX_EXTRA_KEYS {
            self.report.problem(format!(
                "{}: it has {extras} values without a field; at most {} can be kept as extra keys, \
                 so leave columns out in the mapping file",
                item.source,
                MAX_EXTRA_KEYS - 1
            ));
        }
        let (links, hash) = (Vec::new(), String::new());
        let action = ItemAction::Create;
        self.items.push(PlannedItem {
            kind,
            item,
            values,
            stored: None,
            action,
            parent: None,
            keeps_parent: false,
            is_generated: false,
            links,
            hash,
        });
        Some(index)
    }

    /// The source with the name of the format. The end of a long one is replaced by its hash.
    pub(super) fn bounded_source(&self, source: &str) -> String {
        const HASH_AND_SPACE: usize = 17;
        let source = format!("{}:{}", self.options.format, source);
        let source: String = source.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let max = MAX_IMPORTED_FROM_CHARS - HASH_AND_SPACE;
        if source.chars().nth(max).is_none() {
            return source;
        }
        let kept: String = source.chars().take(max - HASH_AND_SPACE).collect();
        format!("{kept}~{}", short_hash(&source))
    }

    pub(super) fn find(&self, index: usize, name: &str) -> Target {
        let own = &self.items[index].item.source;
        let (path, _) = own.split_once('#').unwrap_or((own, ""));
        let in_file = self.by_source.get(&format!("{path}#{name}"));
        let in_source = || self.by_source.get(&format!("{}:{name}", self.options.format));
        let found = in_file.or_else(in_source).or_else(|| self.by_id.get(name));
        found.map_or_else(|| Target::Stored(name.to_owned()), |index| Target::Item(*index))
    }

    /// Compares a record of the project with the items. Records are added in the order of
    /// [`ItemKind::ALL`].
    pub fn add_stored(&mut self, record: &ListedItem) {
        let id = record.reference_id.clone();
        let imported = record.extra.get(IMPORTED_FROM).and_then(|value| value.as_str());
        let imported = imported.and_then(|text| text.rsplit_once(' '));
        let mut found = imported.and_then(|(source, _)| self.by_source.get(source)).copied();
        let mut hash = imported.filter(|_| found.is_some()).map(|(_, hash)| hash.to_owned());
        if let (Some(index), Some((source, _))) = (found, imported)
            && self.items[index].stored.as_ref().is_some_and(|stored| stored.hash.is_some())
        {
            self.report.notes.push(format!("{id} has the source of another record: {source}"));
            (found, hash) = (None, None);
        } else if found.is_none() {
            found = self.by_id.get(&id).copied().filter(|index| {
                let PlannedItem { kind, item, stored, .. } = &self.items[*index];
                stored.is_none() && kind.name == record.kind && item.title == record.title
            });
        }
        if let (None, Some((source, _))) = (found, imported)
            && !self.by_source.contains_key(source)
            && self.is_of_source(source)
        {
            self.report.gone.push(format!("{id} ({source})"));
        }
        if imported.is_some_and(|(source, _)| is_generated(source)) {
            self.generated.insert(id.clone());
        }
        self.stored.insert(id.clone(), found);
        for (relation, targets) in &record.links {
            let keys = targets.iter().map(|target| link_key(id.clone(), relation, target.clone()));
            self.stored_links.extend(keys);
        }
        let Some(index) = found else { return };
        self.items[index].stored = Some(Box::new(StoredMatch {
            id,
            version: record.version.clone(),
            hash,
            values: record_values(record),
            parent: record.parent.clone(),
            links: record.links.clone(),
        }));
    }

    /// True for an item of a file that this import read, except for a generated parent.
    fn is_of_source(&self, source: &str) -> bool {
        let (path, _) = source.split_once('#').unwrap_or_default();
        self.paths.contains(path) && !is_generated(source)
    }

    /// Finds the targets of an item's links. One that is missing becomes an extra key.
    pub(super) fn find_links(&mut self, index: usize) {
        let (mut links, mut known) = (Vec::new(), HashSet::new());
        for (relation, targets) in std::mem::take(&mut self.items[index].item.links) {
            let mut missing = Vec::new();
            for name in targets {
                match self.find(index, &name) {
                    target if !self.is_linkable(index, &target) => missing.push(name),
                    target => {
                        let link = (relation.clone(), target);
                        if known.insert(link.clone()) {
                            links.push(link);
                        }
                    }
                }
            }
            if !missing.is_empty() {
                let (key, names) = (format!("source_{relation}"), json!(missing));
                let PlannedItem { item, values, .. } = &mut self.items[index];
                self.report.notes.push(format!(
                    "{}: {relation}: {} does not exist or cannot be linked; kept as the key {key}",
                    item.source,
                    missing.join(", ")
                ));
                ItemReader {
                    schema: self.schema,
                    mapped: &self.options.values,
                    users: self.options.users.as_deref(),
                    report: &mut self.report,
                }
                .add_extra(item, &key, &names, values);
            }
        }
        self.items[index].links = links;
    }

    /// True for a target that exists. An item links only to another item of its kind.
    fn is_linkable(&self, index: usize, target: &Target) -> bool {
        let kind = self.items[index].kind.name;
        let is_item = ItemKind::from_name(kind).is_some();
        match target {
            Target::Item(other) => {
                *other != index && (!is_item || self.items[*other].kind.name == kind)
            }
            Target::Stored(id) => {
                let target = Reference::parse(id).map(|reference| reference.kind.name());
                self.stored.contains_key(id) && (!is_item || target == Some(kind))
            }
        }
    }

    pub(super) fn check_parent(&mut self, index: usize) {
        if let Some(Target::Stored(id)) = &self.items[index].parent
            && !self.stored.contains_key(id)
        {
            let source = &self.items[index].item.source;
            self.report.problem(format!("{source}: its parent {id} does not exist in the project"));
        }
    }

    /// Links are only added, also to edited items, so that an import that was interrupted before
    /// them adds them when it runs again.
    pub(super) fn find_missing_links(&mut self) {
        let id = |index: usize| {
            let PlannedItem { stored, item, .. } = &self.items[index];
            stored.as_ref().map_or(&item.source, |stored| &stored.id).clone()
        };
        let mut found = HashSet::new();
        for (index, item) in self.items.iter().enumerate() {
            for (position, (relation, target)) in item.links.iter().enumerate() {
                let target = match target {
                    Target::Item(target) => id(*target),
                    Target::Stored(target) => target.clone(),
                };
                let key = link_key(id(index), relation, target);
                if !self.stored_links.contains(&key) && found.insert(key) {
                    self.missing_links.push((index, position));
                }
            }
        }
        self.report.links = self.missing_links.len();
    }

    pub(super) fn check_required(&mut self) {
        for CustomField { name, kinds, is_required, .. } in &self.schema.fields {
            let key = format!("fields.{name}");
            let is_missing = |item: &&PlannedItem| {
                *is_required
                    && item.action == ItemAction::Create
                    && kinds.iter().any(|kind| kind == item.kind.name)
                    && item.values.get(&key).is_none_or(serde_json::Value::is_null)
            };
            let mut missing = self.items.iter().filter(is_missing);
            if let Some(first) = missing.next() {
                let (source, more) = (&first.item.source, missing.count());
                let problem = format!("{source} and {more} more: {name}: the project requires it");
                self.report.problem(problem);
            }
        }
    }

    pub fn report(&self) -> &ImportReport {
        &self.report
    }
}

/// True for the source of a parent that an import generated.
fn is_generated(source: &str) -> bool {
    source.ends_with('#') || source.ends_with(STORY_MARK)
}

/// A link as source, relation and target. A mutual one is the same from both ends.
fn link_key(source: String, relation: &str, target: String) -> (String, String, String) {
    let found = find_by_name(&RelationshipType::ALL, |one| one.name(), relation);
    let is_mutual = found.is_some_and(RelationshipType::is_mutual);
    let (source, target) =
        if is_mutual && target < source { (target, source) } else { (source, target) };
    (source, relation.to_owned(), target)
}

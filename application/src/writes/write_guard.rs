//! Write guard: refuses writes that would replace a change that their caller was not shown.

mod field_values;

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};

use lru::LruCache;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::{CallChannel, Caller, TokenId};
use reqlore_domain::ports::service::{AnswerFormat, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::applied_changes::RenumberedRule;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::requirement_index::SectionKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::Value;

pub(crate) use self::field_values::FieldValue;

use self::field_values::{ABSENT, FieldCollector, hash_of};
use crate::answers::shortened_text::shorten_current;
use crate::documents::document_text;
use crate::writes::stored_record::StoredRecord;

const MAX_CALLERS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Of each caller, and of documents whose last writer is known.
const MAX_GROUPS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// How long a token is remembered. A local connection ends with its process.
const TOKEN_SECONDS: i64 = 3_600;

/// `None` if it is off.
pub(crate) struct WriteGuard(Option<Mutex<GuardMemory>>);

struct GuardMemory {
    /// `None` is the local connection.
    callers: LruCache<Option<TokenId>, ShownGroups>,
    /// The last writes by this server, by the hash of project and document.
    writes: LruCache<u64, LastWrite>,
}

/// Hashes of the values that a caller was last shown, each with its time in seconds; by
/// [`FieldValue::group`] and [`FieldValue::key`].
type ShownGroups = LruCache<u64, HashMap<u64, (u64, i64)>>;

struct LastWrite {
    version: Version,
    token: Option<TokenId>,
    /// Such as `ann changed at 2026-11-26T10:00:00Z with update_epic`.
    origin: String,
}

impl WriteGuard {
    pub(crate) fn new(is_on: bool) -> Self {
        let new_memory = || GuardMemory {
            callers: LruCache::new(MAX_CALLERS),
            writes: LruCache::new(MAX_GROUPS),
        };
        Self(is_on.then(|| Mutex::new(new_memory())))
    }
}

/// The guard for one call.
#[derive(Clone)]
pub(crate) struct CallGuard {
    guard: Arc<WriteGuard>,
    caller: Arc<Caller>,
    project: ProjectKey,
    at: Timestamp,
    parsed: ParsedValues,
}

/// The values of the documents of a call, by ID and version: a check and the note of a write parse
/// the same ones.
type ParsedValues = Arc<Mutex<HashMap<(DocumentId, Version), Arc<[FieldValue]>>>>;

impl CallGuard {
    pub(crate) fn new(
        guard: Arc<WriteGuard>,
        caller: &Arc<Caller>,
        project: &ProjectKey,
        at: Timestamp,
    ) -> Self {
        let (caller, project) = (Arc::clone(caller), project.clone());
        Self { guard, caller, project, at, parsed: Arc::default() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.guard.0.is_some()
    }

    /// Runs `act`; not if the guard is off.
    fn with_memory<T: Default>(&self, act: impl FnOnce(&mut GuardMemory) -> T) -> T {
        let Some(memory) = &self.guard.0 else { return T::default() };
        act(&mut memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `act` with the values of the caller.
    fn with_groups<T: Default>(&self, act: impl FnOnce(&mut ShownGroups) -> T) -> T {
        self.with_memory(|memory| {
            let new_caller = || LruCache::new(MAX_GROUPS);
            act(memory.callers.get_or_insert_mut(self.caller.token.clone(), new_caller))
        })
    }

    /// Notes the values in the data of an answer. The text of some tools shows less.
    pub(crate) fn note_answer(&self, spec: &ToolSpec, format: AnswerFormat, data: &Value) {
        let is_text = format == AnswerFormat::Text;
        self.note_data(data, |key| match spec.name {
            "get_user_story_requirements" => key != "tags" || !is_text,
            // The commit notes what the caller wrote.
            name if spec.may_change && is_text => key == "title" && name.starts_with("update_"),
            _ => true,
        });
    }

    /// Notes the values in data, under the keys that the caller sees.
    pub(crate) fn note_data(&self, data: &Value, shows: impl Fn(&str) -> bool) {
        if self.is_on() {
            let mut collector = FieldCollector::new(data, &shows);
            collector.add(self.project.as_str(), data);
            self.note_values(&collector.values);
        }
    }

    pub(crate) fn note_values(&self, values: &[FieldValue]) {
        self.with_groups(|groups| {
            for value in values {
                let shown = groups.get_or_insert_mut(value.group, HashMap::new);
                if value.key == hash_of(ABSENT) {
                    shown.clear();
                }
                shown.insert(value.key, (value.hash(), self.at.seconds()));
            }
        });
    }

    /// The hash of the value that the caller was last shown.
    fn shown(&self, groups: &mut ShownGroups, value: &FieldValue) -> Option<u64> {
        let shown = groups.get(&value.group)?;
        let (hash, at_seconds) = *shown.get(&value.key).or(shown.get(&hash_of(ABSENT)))?;
        let is_valid =
            self.caller.token.is_none() || at_seconds + TOKEN_SECONDS >= self.at.seconds();
        is_valid.then_some(hash)
    }

    /// Notes the fields of a document that a commit of the caller changed.
    pub(crate) fn note_written(
        &self,
        before: Option<&Document>,
        after: Option<&Document>,
        tool: &str,
    ) {
        if self.is_on() {
            self.note_values(&self.different_values(after, before));
            if let Some(Document { id, version, .. }) = after {
                self.note_write(id, *version, tool);
            }
        }
    }

    /// Notes the caller as the last one who wrote a document.
    pub(crate) fn note_write(&self, document: &DocumentId, version: Version, tool: &str) {
        let user = encode_line(&self.caller.name).into_owned();
        let at = self.at.whole_seconds().to_rfc3339();
        let origin = format!("{user} changed at {at} with {tool}");
        let write = LastWrite { version, token: self.caller.token.clone(), origin };
        self.with_memory(|memory| memory.writes.put(self.document_key(document), write));
    }

    fn document_key(&self, document: &DocumentId) -> u64 {
        hash_of(&(self.project.as_str(), document))
    }

    /// Notes the text of a rule that the caller wrote; empty if it was deleted.
    pub(crate) fn note_rule(&self, address: &str, text: String) {
        self.note_values(&[self.rule(address, text)]);
    }

    /// Moves what is known of renumbered rules to their new addresses.
    pub(crate) fn move_rules(&self, renumbered: &[RenumberedRule]) {
        let rule = |address: &str| self.rule(address, String::new());
        self.with_groups(|groups| {
            let mut moved = Vec::with_capacity(renumbered.len());
            for RenumberedRule { from, to } in renumbered {
                let from = rule(from);
                let known = groups.get(&from.group).and_then(|shown| shown.get(&from.key).copied());
                moved.push((rule(to), known));
            }
            for (to, known) in moved {
                let Some(shown) = groups.get_mut(&to.group) else { continue };
                match known {
                    Some(known) => shown.insert(to.key, known),
                    None => shown.remove(&to.key),
                };
            }
        });
    }

    fn rule(&self, address: &str, text: String) -> FieldValue {
        let (section, index) = address.rsplit_once(':').unwrap_or((address, ABSENT));
        FieldValue::rule(self.project.as_str(), section, index, text)
    }

    pub(crate) fn values(&self, document: &Document) -> Arc<[FieldValue]> {
        // Answers show entities without their project, but their IDs are random.
        let is_entity = document.id.kind == DocumentKind::Entity;
        let project = if is_entity { &self.caller.project } else { &self.project };
        self.values_or(document, || FieldValue::of_document(project.as_str(), document))
    }

    /// Adds a parsed item, so that the guard need not parse it again.
    pub(crate) fn add_parsed(&self, document: &Document, record: &StoredRecord) {
        if let (true, StoredRecord::Item(item), Ok(text)) = (self.is_on(), record, document.text())
        {
            let id = item.display_name(&document.id.name).into_owned();
            let parse = || FieldValue::of_item(self.project.as_str(), &id, item.clone(), text);
            self.values_or(document, parse);
        }
    }

    fn values_or(
        &self,
        document: &Document,
        parse: impl FnOnce() -> Vec<FieldValue>,
    ) -> Arc<[FieldValue]> {
        let mut parsed = self.parsed.lock().unwrap_or_else(PoisonError::into_inner);
        let values = parsed.entry((document.id.clone(), document.version));
        Arc::clone(values.or_insert_with(|| parse().into()))
    }

    /// The values of a document that `other` has not.
    fn different_values(
        &self,
        document: Option<&Document>,
        other: Option<&Document>,
    ) -> Vec<FieldValue> {
        let values_of =
            |one: Option<&Document>| one.map(|one| self.values(one)).unwrap_or_default();
        let by_key = |values: &[FieldValue]| -> HashMap<_, _> {
            values.iter().map(|value| ((value.group, value.key), value.hash())).collect()
        };
        let (values, others) = (values_of(document), values_of(other));
        let (hashes, other_hashes) = (by_key(&values), by_key(&others));
        let mut different = Vec::new();
        for value in &*values {
            if other_hashes.get(&(value.group, value.key)) != Some(&value.hash()) {
                different.push(value.clone());
            }
        }
        for other in &*others {
            let is_absent = !hashes.contains_key(&(other.group, other.key));
            if is_absent && !other.text.trim_end().is_empty() {
                different.push(FieldValue { text: String::new(), ..other.clone() });
            }
        }
        different
    }

    /// Refuses to replace fields, or to delete a document, if one of them is not as it was last
    /// shown to the caller. Returns a note about fields that the caller was never shown. `named` is
    /// the version of the document that the call names, such as the root of a cascade.
    pub(crate) fn check(
        &self,
        current: &Document,
        new: Option<&Document>,
        named: Version,
    ) -> Result<Option<String>> {
        if !self.is_on() {
            return Ok(None);
        }
        let old = self.different_values(Some(current), new);
        self.check_values((&current.id, Some(current.version)), old, new.is_none(), Some(named))
    }

    /// [`Self::check`] of a rule that gets a new text, or is deleted without one.
    pub(crate) fn check_rule(
        &self,
        (key, section): (&SectionKey, Option<&Document>),
        index: &str,
        new: Option<&str>,
    ) -> Result<Option<String>> {
        let rules = Section::parse(section.map_or(Ok(""), document_text)?);
        let rule = rules.find(index);
        let address = format!("{key}:{}", rule.map_or(index, |rule| rule.index));
        let old = self.rule(&address, rule.map(|rule| rules.text(rule)).unwrap_or_default());
        let is_same = new == Some(&*old.text);
        let (id, version) = (DocumentId::section(key.as_str()), section.map(|one| one.version));
        let old = if is_same { Vec::new() } else { vec![old] };
        self.check_values((&id, version), old, new.is_none(), version)
    }

    fn check_values(
        &self,
        (document, version): (&DocumentId, Option<Version>),
        old: Vec<FieldValue>,
        is_deletion: bool,
        named: Option<Version>,
    ) -> Result<Option<String>> {
        let (mut changed, mut unseen) = (Vec::new(), Vec::new());
        self.with_groups(|groups| {
            for value in old {
                match self.shown(groups, &value) {
                    Some(shown) if shown != value.hash() => changed.push(value),
                    None if !value.text.is_empty() => unseen.push(value),
                    _ => {}
                }
            }
        });
        if !changed.is_empty() {
            return Err(changed_error(&changed, is_deletion, named));
        }
        // A command is a process of its own. A deletion says what it deletes.
        if unseen.is_empty() || is_deletion || self.caller.channel == CallChannel::Cli {
            return Ok(None);
        }
        let label = label(&unseen);
        Ok(self.with_memory(|memory| match memory.writes.get(&self.document_key(document)) {
            Some(write) if Some(write.version) == version => {
                let is_own = write.token == self.caller.token;
                (!is_own).then(|| format!("replaced {label}, which {}", write.origin))
            }
            _ => {
                let advice = "get_history returns whose change that was";
                Some(format!("replaced {label}, which was not shown to you; {advice}"))
            }
        }))
    }
}

fn label(values: &[FieldValue]) -> String {
    let names: Vec<&str> = values.iter().map(|value| &*value.name).collect();
    format!("{} of {}", names.join(", "), encode_id(values.first().map_or("", |value| &value.id)))
}

/// Marks the refusals of the guard.
pub(crate) const SINCE_SHOWN: &str = "changed since it was last shown to you";

fn changed_error(changed: &[FieldValue], is_deletion: bool, version: Option<Version>) -> Error {
    let mut texts = Vec::new();
    for FieldValue { name, text, .. } in changed {
        let text = if text.is_empty() { "(none)" } else { text };
        texts.push(format!("Current {name}:\n{text}"));
    }
    let advice = match version.map(|version| version.to_string()) {
        None => "It was deleted. Read the section, then send the call again to add it".to_owned(),
        Some(version) if is_deletion => format!(
            "To delete it all the same, send the call again with if_version: {}",
            &version[..8]
        ),
        Some(version) => {
            format!(
                "Merge both changes, then send the call again with if_version: {}",
                &version[..8]
            )
        }
    };
    let message = format!(
        "Conflict: {} {SINCE_SHOWN}. Nothing was changed. {advice}. {}",
        label(changed),
        shorten_current(&texts.join("\n"))
    );
    let error = Error::new(ErrorKind::Conflict, message).field("if_version");
    error.reference(changed.first().map_or("", |value| &value.id))
}

#[cfg(test)]
mod tests;

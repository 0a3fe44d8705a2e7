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
use reqlore_domain::sections::Section;
use reqlore_domain::timestamp::Timestamp;
use reqlore_domain::untrusted_text::{encode_id, encode_line};
use serde_json::Value;

pub(crate) use self::field_values::FieldValue;
use self::field_values::{FieldCollector, RULE_TEXT, document_values, hash_of, hash_text};
use crate::ToolContext;
use crate::backlog::item_lookup::document_text;
use crate::sections::rule_change::RenumberedRule;
use crate::transaction::shorten_current;

const MAX_CALLERS: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// Of each caller, and of documents whose last writer is known.
const MAX_ITEMS: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
/// How long a token is remembered. A local connection ends with its process.
const TOKEN_SECONDS: i64 = 3_600;

/// `None` if it is off.
pub(crate) struct WriteGuard(Option<Mutex<GuardMemory>>);

struct GuardMemory {
    /// `None` is the local connection.
    callers: LruCache<Option<TokenId>, ShownItems>,
    /// The last writes by this server, by the hash of project and document.
    writes: LruCache<u64, LastWrite>,
}

/// Hashes of the values that a caller was last shown, each with its time in seconds; by item and
/// name of the field, which are hashes too.
type ShownItems = LruCache<u64, HashMap<u64, (u64, i64)>>;

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
            writes: LruCache::new(MAX_ITEMS),
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
}

impl CallGuard {
    pub(crate) fn new(context: &ToolContext, caller: &Arc<Caller>, project: &ProjectKey) -> Self {
        let (guard, caller) = (Arc::clone(&context.guard), Arc::clone(caller));
        Self { guard, caller, project: project.clone(), at: context.ports.clock.now() }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.guard.0.is_some()
    }

    /// Runs `act`; not if the guard is off.
    fn with_memory<T: Default>(&self, act: impl FnOnce(&mut GuardMemory) -> T) -> T {
        let Some(memory) = &self.guard.0 else { return T::default() };
        act(&mut memory.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs `act` with the items of the caller.
    fn with_items<T: Default>(&self, act: impl FnOnce(&mut ShownItems) -> T) -> T {
        self.with_memory(|memory| {
            let new_caller = || LruCache::new(MAX_ITEMS);
            act(memory.callers.get_or_insert_mut(self.caller.token.clone(), new_caller))
        })
    }

    /// Notes the values in the data of an answer. The text of some tools shows less.
    pub(crate) fn note_answer(&self, spec: &ToolSpec, format: AnswerFormat, data: &Value) {
        let is_text = format == AnswerFormat::Text;
        self.note_data(data, |key| match spec.name {
            // Earlier texts, and changes that may only be planned.
            "get_history" | "apply_changes" => false,
            // The index spells other values in its own way.
            name if name.contains("search") => key == "title",
            "get_user_story_requirements" => key != "tags" || !is_text,
            // The commit notes what the caller wrote.
            name if spec.may_change && is_text => key == "title" && name.contains("update"),
            _ => true,
        });
    }

    /// Notes the values in data, under the keys that the caller sees.
    pub(crate) fn note_data(&self, data: &Value, shows: impl Fn(&str) -> bool) {
        if self.is_on() && !data.is_null() {
            let values = FieldCollector::new(data, &shows).collect(&self.project, data);
            self.with_items(|items| values.iter().for_each(|value| self.note(items, value)));
        }
    }

    fn note(&self, items: &mut ShownItems, value: &FieldValue) {
        let fields = items.get_or_insert_mut(value.item(), HashMap::new);
        fields.insert(hash_of(&*value.name), (value.hash(), self.at.seconds()));
    }

    /// The hash of the value that the caller was last shown.
    fn shown(&self, items: &mut ShownItems, value: &FieldValue) -> Option<u64> {
        let (hash, at_seconds) = *items.get(&value.item())?.get(&hash_of(&*value.name))?;
        let is_valid =
            self.caller.token.is_none() || at_seconds + TOKEN_SECONDS >= self.at.seconds();
        is_valid.then_some(hash)
    }

    /// Notes the fields of a document that the caller wrote; all without `names`.
    pub(crate) fn note_written(&self, document: &Document, tool: &str, names: Option<&[&str]>) {
        if self.is_on() {
            let mut values = self.values(document);
            values.retain(|value| names.is_none_or(|names| names.contains(&&*value.name)));
            self.note_values(&document.id, Some(document.version), tool, &values);
        }
    }

    /// Notes what an undo restored: the values that differ from those that it replaced.
    pub(crate) fn note_restored(&self, document: &Document, replaced: Option<&Document>) {
        if self.is_on() {
            let replaced = replaced.map(|replaced| self.values(replaced)).unwrap_or_default();
            let key = |value: &FieldValue| (value.item(), hash_of(&*value.name), value.hash());
            let replaced: Vec<_> = replaced.iter().map(key).collect();
            let mut values = self.values(document);
            values.retain(|value| !replaced.contains(&key(value)));
            self.note_values(&document.id, Some(document.version), "undo", &values);
        }
    }

    /// Notes the text of a rule that the caller wrote. `version` is that of a changed section.
    pub(crate) fn note_rule(
        &self,
        address: &str,
        text: String,
        version: Option<Version>,
        tool: &str,
    ) {
        let section = address.rsplit_once(':').map_or(address, |(section, _)| section);
        let values = [self.rule(address, text)];
        self.note_values(&DocumentId::section(section), version, tool, &values);
    }

    fn note_values(
        &self,
        document: &DocumentId,
        version: Option<Version>,
        tool: &str,
        values: &[FieldValue],
    ) {
        if let Some(version) = version {
            let user = encode_line(&self.caller.name).into_owned();
            let at = self.at.whole_seconds().to_rfc3339();
            let origin = format!("{user} changed at {at} with {tool}");
            let write = LastWrite { version, token: self.caller.token.clone(), origin };
            self.with_memory(|memory| memory.writes.put(self.document_key(document), write));
        }
        self.with_items(|items| values.iter().for_each(|value| self.note(items, value)));
    }

    /// Moves what is known of renumbered rules to their new addresses.
    pub(crate) fn move_rules(&self, renumbered: &[RenumberedRule]) {
        let key = |address: &str| hash_of(&(self.project.as_str(), address));
        self.with_items(|items| {
            let known: Vec<_> =
                renumbered.iter().map(|rule| items.get(&key(&rule.from)).cloned()).collect();
            for (rule, fields) in renumbered.iter().zip(known) {
                items.put(key(&rule.to), fields.unwrap_or_default());
            }
        });
    }

    pub(crate) fn rule(&self, address: &str, text: String) -> FieldValue {
        FieldValue::new(self.project.as_str(), address, RULE_TEXT, text)
    }

    fn document_key(&self, document: &DocumentId) -> u64 {
        hash_of(&(self.project.as_str(), document))
    }

    pub(crate) fn values(&self, document: &Document) -> Vec<FieldValue> {
        document_values(self.item_project(&document.id), document)
    }

    /// Answers show entities without their project, but their IDs are random.
    pub(crate) fn item_project(&self, document: &DocumentId) -> &ProjectKey {
        let is_entity = document.kind == DocumentKind::Entity;
        if is_entity { &self.caller.project } else { &self.project }
    }

    /// [`Self::check`] of a rule that gets a new text, or is deleted without one.
    pub(crate) fn check_rule(
        &self,
        section: &Document,
        index: &str,
        new: Option<&str>,
    ) -> Result<Option<String>> {
        let rules = Section::parse(document_text(section)?);
        let Some(rule) = rules.find(index).filter(|_| self.is_on()) else { return Ok(None) };
        let address = format!("{}:{}", section.id.name, rule.index);
        let new = new.map(|new| [(RULE_TEXT, new.to_owned())]);
        let old = self.rule(&address, rules.text(rule));
        self.check(section, &[old], new.as_ref().map(|new| &new[..]))
    }

    /// Refuses to replace fields, or to delete them, if one is not as it was last shown to the
    /// caller. Returns a note about fields that the caller was never shown.
    pub(crate) fn check(
        &self,
        current: &Document,
        old: &[FieldValue],
        new: Option<&[(&'static str, String)]>,
    ) -> Result<Option<String>> {
        let (mut changed, mut unseen) = (Vec::new(), Vec::new());
        self.with_items(|items| {
            for value in old {
                if let Some(new) = new {
                    let text = new.iter().find(|(name, _)| *name == value.name);
                    if text.is_none_or(|(name, text)| hash_text(name, text) == value.hash()) {
                        continue;
                    }
                }
                match self.shown(items, value) {
                    Some(shown) if shown != value.hash() => changed.push(value),
                    None if !value.text.is_empty() => unseen.push(value),
                    _ => {}
                }
            }
        });
        if !changed.is_empty() {
            return Err(changed_error(current, &changed, new.is_none()));
        }
        // A command is a process of its own. A deletion says what it deletes.
        if unseen.is_empty() || new.is_none() || self.caller.channel == CallChannel::Cli {
            return Ok(None);
        }
        let label = label(&unseen);
        Ok(self.with_memory(|memory| match memory.writes.get(&self.document_key(&current.id)) {
            Some(write) if write.version == current.version => {
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

fn label(values: &[&FieldValue]) -> String {
    let names: Vec<&str> = values.iter().map(|value| &*value.name).collect();
    format!("{} of {}", names.join(", "), encode_id(values.first().map_or("", |value| &value.id)))
}

fn changed_error(current: &Document, changed: &[&FieldValue], is_deletion: bool) -> Error {
    let version = current.version.to_string();
    let mut texts = Vec::new();
    for value in changed {
        texts.push(format!("Current {}:\n{}", value.name, value.text));
    }
    let (label, version) = (label(changed), &version[..8]);
    let advice = if is_deletion {
        // A cascade names the item at its top.
        format!(
            "It is at version {version}. To delete it all the same, send the call again with \
             if_version: the version of the item that the call names"
        )
    } else {
        format!("Send the call again with both changes merged, with if_version: {version}")
    };
    let message = format!(
        "Conflict: {label} changed since it was last shown to you. Nothing was changed. {advice}. \
         {}",
        shorten_current(&texts.join("\n"))
    );
    let error = Error::new(ErrorKind::Conflict, message).field("if_version");
    error.reference(changed.first().map_or("", |value| &value.id))
}

#[cfg(test)]
mod tests;

//! Renders entities as files: new entities, edits, and links that lose their target.
//!
//! An edit changes only the given keys and `updated_at`. Kind and times that a file does not state
//! follow from its id and its history, so a new file has neither `type` nor `updated_at`.

use super::link_edits::LinkEdits;
use super::{
    Entity, EntityKind, EntityLink, MAX_LINKS, METADATA_KEYS, parse_links, tag_edits, unique_tags,
};
use crate::backlog::{Deletion, Reference};
use crate::bounded_types::one_line;
use crate::front_matter::{self, FieldValue, KeyEdit};
use crate::name_form::fold_name;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode};

/// Keys at the end of the front matter. A new key of any other name is inserted before them.
const LAST_KEYS: [&str; 3] = ["created_at", "created_by", "updated_at"];

const DELETED_AT: &str = "deleted_at";
const DELETED_BY: &str = "deleted_by";

/// Number of hexadecimal digits of a new id.
pub const ID_DIGITS: usize = 6;

/// The targets of one relation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelationTargets {
    /// The key in the front matter.
    pub relation: String,
    /// Ids or references.
    pub targets: Vec<String>,
}

/// Rejects a relation that is not the name of a link: a metadata key, or not a plain word.
pub fn check_relation(relation: &str) -> Result<(), String> {
    const MAX_BYTES: usize = 64;
    let is_word = relation.starts_with(|c: char| c.is_ascii_alphabetic())
        && relation.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    if !is_word || relation.len() > MAX_BYTES {
        return Err(format!(
            "is not a relation; use at most {MAX_BYTES} letters, digits, _ and -, such as affects"
        ));
    }
    // A link under such a key would overwrite the metadata and would not be read as a link.
    if METADATA_KEYS.contains(&relation) {
        return Err("is a metadata key; use another word, such as affects".to_owned());
    }
    Ok(())
}

/// A new entity.
#[derive(Debug, Clone)]
pub struct NewEntity<'a> {
    pub kind: EntityKind,
    /// The id's hexadecimal digits.
    pub digits: &'a str,
    pub title: &'a str,
    pub body: &'a str,
    pub status: Option<&'a str>,
    pub tags: &'a [String],
    pub links: &'a [RelationTargets],
    pub creator: &'a str,
    pub created_at: Timestamp,
}

impl NewEntity<'_> {
    /// Renders the entity's file. Empty optional keys are left out.
    pub fn text(&self) -> Result<String, String> {
        let (id, title) = (self.kind.id(self.digits), one_line(self.title));
        let mut edits = vec![set("id", &id), set("title", &title)];
        edits.extend(self.status.map(|status| set("status", status)));
        let tags = unique_tags(self.tags);
        if !tags.is_empty() {
            edits.push(KeyEdit { key: "tags", value: Some(FieldValue::List(tags)) });
        }
        for RelationTargets { relation, targets } in self.links {
            if !targets.is_empty() {
                let value = Some(FieldValue::List(targets.clone()));
                edits.push(KeyEdit { key: relation, value });
            }
        }
        let created_at = Some(FieldValue::Time(self.created_at));
        edits.push(KeyEdit { key: "created_at", value: created_at });
        edits.push(set("created_by", self.creator));
        let front_matter = front_matter::edit("", &edits, &LAST_KEYS)?;
        Ok(front_matter::with_body(&front_matter, self.body))
    }
}

fn set<'a>(key: &'a str, value: &str) -> KeyEdit<'a> {
    KeyEdit { key, value: Some(value.into()) }
}

/// New values of an entity; `None` keeps the current value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EntityEdit {
    pub title: Option<String>,
    pub body: Option<String>,
    pub status: Option<String>,
    pub tags: Option<Vec<String>>,
    /// Replaces the targets of these relations. No targets removes the relation.
    pub links: Vec<RelationTargets>,
}

/// Applies an edit to an entity's file and sets `updated_at`. `None` if nothing changes.
pub fn edit_entity(
    entity: &Entity,
    text: &str,
    edit: &EntityEdit,
    at: Timestamp,
) -> Result<Option<String>, String> {
    let entries = parse_entries(text);
    let mut edits = Vec::new();
    let title = edit.title.as_deref().map(one_line);
    // Writing a title of which YAML reads only a part corrects it.
    let written = yaml::find_key(&entries, "title").and_then(YamlNode::text);
    let title =
        title.filter(|title| written.is_some_and(|old| old != title) || *title != entity.title);
    edits.extend(title.as_deref().map(|title| set("title", title)));
    let status = edit.status.as_deref().filter(|status| entity.status.as_deref() != Some(*status));
    edits.extend(status.map(|status| set("status", status)));
    if let Some(tags) = &edit.tags {
        let tags = unique_tags(tags);
        if tags != entity.tags {
            edits.extend(tag_edits(&entries, tags));
        }
    }
    // Only the first links are known, and setting targets would remove the rest.
    if !edit.links.is_empty() && parse_links(&entries).list.len() > MAX_LINKS {
        return Err(format!("it has more than {MAX_LINKS} links; edit the file by hand"));
    }
    let mut links = LinkEdits::new(&entries);
    for RelationTargets { relation, targets } in &edit.links {
        links.set_targets(relation, targets);
    }
    let link_edits = links.key_edits()?;
    edits.extend(link_edits.iter().cloned());
    let mut body = edit.body.as_deref().map(|body| body.trim_matches(['\r', '\n']));
    body = body.filter(|body| !front_matter::has_body(text, body));
    if edits.is_empty() && body.is_none() {
        check_links(entity, text, &edit.links)?;
        return Ok(None);
    }
    // Last, because the time alone is not a change.
    edits.push(KeyEdit { key: "updated_at", value: Some(FieldValue::Time(at)) });
    let edited = front_matter::edit(text, &edits, &LAST_KEYS)?;
    // On the edited text: only the parser knows every form in which a file can link.
    check_links(entity, &edited, &edit.links)?;
    match body {
        Some(body) => Ok(Some(front_matter::with_body(&edited, body))),
        None => Ok(Some(edited)),
    }
}

/// Fails if a relation still has another target, in a form that cannot be edited.
fn check_links(entity: &Entity, text: &str, edits: &[RelationTargets]) -> Result<(), String> {
    let (edited, _) = Entity::parse(&entity.id, text);
    for RelationTargets { relation, targets } in edits {
        let mut links = edited.links.iter().filter(|link| link.relation == *relation);
        if let Some(link) = links.find(|link| !contains_target(targets, &link.target)) {
            let target = &link.target;
            return Err(format!(
                "{relation}: the form of {target} is unknown; edit the file by hand"
            ));
        }
    }
    Ok(())
}

/// Renders the tombstone of an entity: its text with time and user of the deletion. Front matter
/// that cannot be edited becomes part of the body, below new front matter.
pub fn tombstone_text(entity: &Entity, text: &str, at: Timestamp, by: &str) -> String {
    let mut edits = vec![
        // The id of a file without one is its path, which the tombstone does not have.
        set("id", &entity.id),
        KeyEdit { key: DELETED_AT, value: Some(FieldValue::Time(at)) },
        set(DELETED_BY, by),
    ];
    if let Ok(edited) = front_matter::edit(text, &edits, &[]) {
        return edited;
    }
    edits.insert(1, set("title", &entity.title));
    format!("{}\n{text}", front_matter::render_front_matter(&edits))
}

/// The time and user in a tombstone's text.
pub fn parse_deletion(text: &str) -> Option<Deletion> {
    let entries = parse_entries(text);
    let value = |key| yaml::find_key(&entries, key).and_then(YamlNode::text);
    let at = Timestamp::parse(value(DELETED_AT)?)?;
    Some(Deletion { at, by: value(DELETED_BY).map(str::to_owned) })
}

/// The edit that removes all links to these ids or references.
pub fn unlink_edit(entity: &Entity, names: &[String]) -> EntityEdit {
    let mut links: Vec<RelationTargets> = Vec::new();
    for EntityLink { relation, target, .. } in &entity.links {
        // A relation is rewritten as a whole, so it is listed once.
        if contains_target(names, target) && links.iter().all(|list| list.relation != *relation) {
            let mut targets = Vec::new();
            for link in &entity.links {
                if link.relation == *relation && !contains_target(names, &link.target) {
                    targets.push(link.target.clone());
                }
            }
            links.push(RelationTargets { relation: relation.clone(), targets });
        }
    }
    EntityEdit { links, ..EntityEdit::default() }
}

/// Invalid front matter has no entries; [`front_matter::edit`] will reject its edit.
fn parse_entries(text: &str) -> Vec<YamlEntry> {
    let front_matter = front_matter::parse(front_matter::split(text));
    front_matter.map(|front_matter| front_matter.entries).unwrap_or_default()
}

pub(super) fn contains_target(targets: &[impl AsRef<str>], target: &str) -> bool {
    targets.iter().any(|other| is_same_target(other.as_ref(), target))
}

/// True for two spellings of one target, such as `REQ-7` and `REQ-007`.
fn is_same_target(a: &str, b: &str) -> bool {
    let reference = Reference::parse(a);
    fold_name(a) == fold_name(b) || (reference.is_some() && reference == Reference::parse(b))
}

#[cfg(test)]
mod tests;

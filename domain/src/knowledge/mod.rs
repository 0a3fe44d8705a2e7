//! The knowledge graph: entities are Markdown files below `.ixchel`, links are keys of their front
//! matter.
//!
//! Parsing is tolerant: a file without an id or with invalid front matter is an entity too. The id
//! comes from the front matter and the document name is the path, so two files may have the same
//! id.

mod edit;
mod entity_graph;
mod known_words;
mod link_edits;

use std::borrow::Cow;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

pub use crate::front_matter::body;
pub use edit::{
    EntityEdit, ID_DIGITS, NewEntity, RelationTargets, check_relation, edit_entity, parse_deletion,
    tombstone_text, unlink_edit,
};
pub use entity_graph::{
    EntityGraph, EntityLookup, EntityNode, LinkEnd, OutgoingLinks, find_kind, sort_tags,
};
pub use known_words::{similar_relation, usual_status};

use crate::backlog::reference::{ParsedReference, Reference};
use crate::backlog::{ItemKind, invalid_time, scan_mentions};
use crate::bounded_types::{named_enum, one_line};
use crate::diagnostic::Diagnostic;
use crate::document::DocumentId;
use crate::front_matter::{self, DocumentParts, FieldValue, KeyEdit};
use crate::link_values::{is_known_relation, link_name, link_reference, link_texts};
use crate::name_form::{compose, fold_name};
use crate::records::values::CustomValues;
use crate::sections;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue, quote_excerpt};

/// Prefixes of ids and their kinds.
pub const PREFIXES: [(&str, &str); 9] = [
    ("dec", "decision"),
    ("iss", "issue"),
    ("bd", "issue"),
    ("idea", "idea"),
    ("rpt", "report"),
    ("src", "source"),
    ("cite", "citation"),
    ("agt", "agent"),
    ("ses", "session"),
];

/// Folders directly below `.ixchel` and the kinds of their files.
const FOLDERS: [(&str, &str); 8] = [
    ("decisions", "decision"),
    ("issues", "issue"),
    ("ideas", "idea"),
    ("reports", "report"),
    ("sources", "source"),
    ("citations", "citation"),
    ("agents", "agent"),
    ("sessions", "session"),
];

named_enum! {
    /// A kind of entity that tools create. A file may have any other kind.
    EntityKind {
        Decision = "decision",
        Issue = "issue",
        Idea = "idea",
        Report = "report",
        Source = "source",
        Citation = "citation",
        Agent = "agent",
        Session = "session",
    }
}

impl EntityKind {
    /// Parses a name, a plural or the prefix of an id, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        let word = text.trim().to_lowercase();
        let name =
            find_value(&FOLDERS, &word).or_else(|| find_value(&PREFIXES, &word)).unwrap_or(&word);
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The id with these hexadecimal digits, such as `dec-1d2c8f`.
    pub fn id(self, digits: &str) -> String {
        format!("{}-{digits}", self.prefix())
    }

    /// The document of a new entity, such as `decisions/dec-1d2c8f`.
    pub fn document_id(self, digits: &str) -> DocumentId {
        DocumentId::entity(format!("{}/{}", self.folder(), self.id(digits)))
    }

    fn prefix(self) -> &'static str {
        find_word(&PREFIXES, self.name())
    }

    fn folder(self) -> &'static str {
        find_word(&FOLDERS, self.name())
    }
}

/// The first word with this kind.
fn find_word(pairs: &[(&'static str, &str)], kind: &'static str) -> &'static str {
    pairs.iter().find(|(_, other)| *other == kind).map_or(kind, |(word, _)| word)
}

/// The keys of an entity's last change, the newest first.
const TIME_KEYS: [&str; 3] = ["updated_at", "created_at", "date"];

/// The kind of an entity if neither front matter, id nor folder determines one.
const DEFAULT_KIND: &str = "note";

/// The metadata of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entity {
    /// From the front matter, or else the document's name.
    pub id: String,
    /// A kind such as `decision`, or any other word from the front matter.
    pub kind: String,
    pub title: String,
    pub status: Option<String>,
    /// The values of `tags` and `labels`, without duplicates.
    pub tags: Vec<String>,
    pub links: Vec<EntityLink>,
    /// From `updated_at`, or else `created_at` or `date`; `None` if the file states no time.
    pub updated_at: Option<Timestamp>,
    /// The values of keys that may be custom fields.
    pub custom: CustomValues,
}

impl Entity {
    /// Parses an entity from its path below `.ixchel` (without `.md`) and its text. If the front
    /// matter is invalid, the diagnostic says why, and the metadata comes from path and body.
    pub fn parse(name: &str, text: &str) -> (Self, Option<Diagnostic>) {
        let parts = front_matter::split(text);
        // Reports at most one problem, the one that explains the others.
        let mut front_matter = EntityFrontMatter::parse(parts);
        let id = compose(&front_matter.id(name)).into_owned();
        let kind = kind_of(name, &id, front_matter.text("type"));
        let title = front_matter.title(name, parts);
        let status = front_matter.text("status").map(str::to_owned);
        let times = TIME_KEYS.map(|key| front_matter.time(key));
        let updated_at = times.into_iter().flatten().next();
        let EntityFrontMatter { entries, mut diagnostic, .. } = front_matter;
        // Salvaged lines are guesses, and a guess must not create a link.
        let (tags, links) = (parse_tags(&entries), parse_links(&entries));
        let custom = CustomValues::parse(&entries);
        let LinkList { list: mut links, problem, .. } = links;
        diagnostic = diagnostic.or(problem);
        if links.len() > MAX_LINKS {
            links.truncate(MAX_LINKS);
            let message = format!("only the first {MAX_LINKS} links are used; remove some");
            diagnostic.get_or_insert(Diagnostic::new(None, message));
        }
        (Self { id, kind, title, status, tags, links, updated_at, custom }, diagnostic)
    }

    /// True if this entity replaces the one with this id or document name. A draft, a proposal or
    /// a rejected entity replaces nothing.
    pub fn supersedes(&self, name: &str) -> bool {
        let is_valid = !self.has_status(&["draft", "proposed", "rejected"]);
        let mut links = self.links.iter().filter(|link| link.relation == "supersedes");
        is_valid && links.any(|link| link.target == name)
    }

    /// True if the status says that the entity is no longer valid.
    pub fn is_outdated(&self) -> bool {
        self.has_status(&["superseded", "rejected", "obsolete"])
    }

    /// Compares the status in lower case.
    pub fn has_status(&self, words: &[&str]) -> bool {
        let status = self.status.as_ref().map(|status| status.trim().to_lowercase());
        status.is_some_and(|status| words.contains(&status.as_str()))
    }

    /// The entity of an unreadable document: only its name is known.
    pub fn placeholder(name: &str) -> Self {
        let stem = file_stem(name);
        // So that links to an unreadable file still lead to it.
        let id = if looks_like_id(stem) { stem } else { name };
        Self {
            kind: kind_of(name, id, None),
            id: compose(id).into_owned(),
            title: stem.to_owned(),
            status: None,
            tags: Vec::new(),
            links: Vec::new(),
            updated_at: None,
            custom: CustomValues::default(),
        }
    }
}

/// The last part of a document name.
fn file_stem(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// The front matter of an entity, parsed tolerantly.
struct EntityFrontMatter {
    /// Empty if the front matter is invalid.
    entries: Vec<YamlEntry>,
    /// The valid lines of invalid front matter. Used for the id and title, but not for links.
    salvaged: Vec<YamlEntry>,
    diagnostic: Option<Diagnostic>,
}

impl EntityFrontMatter {
    fn parse(parts: DocumentParts<'_>) -> Self {
        let (entries, salvaged, diagnostic) = match front_matter::parse(parts) {
            Ok(front_matter) => {
                let duplicate = front_matter.duplicate;
                let duplicate = duplicate.map(without_column);
                (front_matter.entries, Vec::new(), duplicate)
            }
            Err(Diagnostic { line, column, mut message }) => {
                // Misplaced front matter has no column.
                if let Some(column) = column {
                    message = format!("invalid front matter: {message} (column {column})");
                }
                let salvaged = front_matter::salvage_lines(parts);
                (Vec::new(), salvaged, Some(Diagnostic::new(line, message)))
            }
        };
        Self { entries, salvaged, diagnostic }
    }

    fn find_key(&self, key: &str) -> Option<&YamlNode> {
        yaml::find_key(&self.entries, key).or_else(|| yaml::find_key(&self.salvaged, key))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.find_key(key).and_then(YamlNode::text)
    }

    fn time(&mut self, key: &str) -> Option<Timestamp> {
        let (node, text) = (self.find_key(key)?, self.text(key)?);
        let time = Timestamp::parse(text);
        if time.is_none() {
            let problem = Diagnostic::new(node.position.line, invalid_time(key, text));
            self.diagnostic.get_or_insert(problem);
        }
        time
    }

    /// The title on one line.
    fn title(&mut self, name: &str, parts: DocumentParts<'_>) -> String {
        let found = front_matter::find_title(parts, &self.entries)
            .or_else(|| front_matter::find_title(parts, &self.salvaged));
        let title = match found {
            Some((title, problem)) => {
                self.diagnostic = self.diagnostic.take().or(problem.map(without_column));
                title
            }
            None => {
                sections::first_heading(parts.body).unwrap_or_else(|| file_stem(name)).to_owned()
            }
        };
        if title.contains(char::is_control) { one_line(&title) } else { title }
    }

    /// The entity's id. Reports an invalid one, unless another problem is known.
    fn id(&mut self, name: &str) -> String {
        let stem = file_stem(name);
        match self.text("id") {
            Some(id) if is_valid_id(id) => id.to_owned(),
            Some(id) => {
                let message = format!("invalid id {}; use one like dec-1d2c8f", quote_excerpt(id));
                let line = self.find_key("id").map(|node| node.position.line);
                self.diagnostic.get_or_insert(Diagnostic::new(line, message));
                name.to_owned()
            }
            // The name of a file with invalid front matter is probably its id.
            None if self.diagnostic.is_some() && looks_like_id(stem) => stem.to_owned(),
            None => name.to_owned(),
        }
    }
}

fn without_column(diagnostic: Diagnostic) -> Diagnostic {
    Diagnostic { column: None, ..diagnostic }
}

/// True for a text on one line that is not a path with `.`, `..` or empty parts.
fn is_valid_id(text: &str) -> bool {
    text.len() <= 1_000
        && !text.contains(char::is_control)
        && !text.split('/').any(|part| matches!(part, "" | "." | ".."))
}

fn kind_of(name: &str, id: &str, given: Option<&str>) -> String {
    // The front matter may name any kind, but not a text.
    if let Some(given) = given
        && given.len() <= 40
        && !given.contains('\n')
    {
        return fold_name(given);
    }
    if let Some((prefix, _)) = id.split_once('-')
        // `dec-next` has a known prefix and is not an id.
        && let Some(kind) = find_value(&PREFIXES, prefix)
        && looks_like_id(id)
    {
        return kind.to_owned();
    }
    match name.split_once('/') {
        // An unknown folder is a kind of its own.
        Some((folder, _)) => {
            find_value(&FOLDERS, folder).map_or_else(|| compose(folder).into_owned(), str::to_owned)
        }
        None => DEFAULT_KIND.to_owned(),
    }
}

fn find_value(pairs: &[(&str, &'static str)], key: &str) -> Option<&'static str> {
    let (_, value) = pairs.iter().find(|(other, _)| *other == key)?;
    Some(value)
}

/// The values of `tags` and `labels`, without duplicates.
pub(crate) fn parse_tags(entries: &[YamlEntry]) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for YamlEntry { key, node, .. } in entries {
        if key != "tags" && key != "labels" {
            continue;
        }
        // A scalar `a, b` has two tags. An item of a list is one tag, with or without comma.
        let is_list = matches!(node.value, YamlValue::List(_));
        for text in node.items().iter().filter_map(YamlNode::text) {
            let parts: Vec<&str> = if is_list { vec![text] } else { text.split(',').collect() };
            for tag in parts {
                let tag = compose(tag.trim());
                if tags.len() == MAX_TAGS {
                    return tags;
                }
                if !tag.is_empty() && !tags.iter().any(|other| *other == tag) {
                    tags.push(tag.into_owned());
                }
            }
        }
    }
    tags
}

/// Removes blanks, empty tags and duplicates.
pub(crate) fn unique_tags(tags: &[String]) -> Vec<String> {
    let mut unique: Vec<String> = Vec::new();
    for tag in tags {
        let tag = tag.trim();
        if !tag.is_empty() && !unique.iter().any(|other| other == tag) {
            unique.push(tag.to_owned());
        }
    }
    unique
}

/// Edits `tags`, or `labels` in a file that has only `labels`. Parsing merges the two keys, so a
/// file with both keeps only `tags`.
pub(crate) fn tag_edits(entries: &[YamlEntry], tags: Vec<String>) -> Vec<KeyEdit<'static>> {
    let has_labels = yaml::find_key(entries, "labels").is_some();
    let has_tags = yaml::find_key(entries, "tags").is_some();
    let mut edits = Vec::new();
    if has_labels && has_tags {
        edits.push(KeyEdit { key: "labels", value: None });
    }
    let value = if tags.is_empty() { None } else { Some(FieldValue::List(tags)) };
    edits.push(KeyEdit { key: if has_labels && !has_tags { "labels" } else { "tags" }, value });
    edits
}

/// An outgoing link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityLink {
    /// The front matter key.
    pub relation: String,
    /// The `type` of an item with `id` and `type`, such as `blocks` under `depends_on`.
    pub attribute: Option<Box<str>>,
    pub target: String,
    /// True if the target has the form of an id or reference. Any other target is a link only if
    /// the entity exists.
    pub is_certain: bool,
}

/// Keys that are never links.
pub(crate) const METADATA_KEYS: [&str; 10] = [
    "id",
    "type",
    "title",
    "status",
    "date",
    "created_at",
    "updated_at",
    "created_by",
    "tags",
    "labels",
];

const MAX_TARGET_BYTES: usize = 200;
/// Bound the metadata of generated files, which is in memory. Further links and tags are ignored.
const MAX_LINKS: usize = 2_000;
const MAX_TAGS: usize = 1_000;

/// The links of an entity, sorted by relation, without duplicates; at most one more than
/// [`MAX_LINKS`].
fn parse_links(entries: &[YamlEntry]) -> LinkList<'_> {
    let mut links = LinkList::default();
    for YamlEntry { key, node, .. } in entries {
        if METADATA_KEYS.contains(&key.as_str()) {
            continue;
        }
        let is_relation = is_known_relation(key);
        for (item, text) in link_texts(node, is_relation) {
            // The type of an item such as `{id: bd-cccccc, type: blocks}`.
            let attribute = yaml::find_key(item.entries(), "type").and_then(YamlNode::text);
            let targets = parse_targets(text, is_relation);
            if targets.is_empty() && is_relation && !text.contains("://") {
                let text = quote_excerpt(text);
                let message = format!("{key}: {text} names nothing; write an ID like dec-1d2c8f");
                links.problem.get_or_insert(Diagnostic::new(item.position.line, message));
            }
            for (target, is_certain) in targets {
                links.push(key, attribute, target, is_certain);
            }
        }
    }
    // Stable: targets of a relation keep the order of the file.
    links.list.sort_by(|a, b| a.relation.cmp(&b.relation));
    links
}

/// The targets that a text names; true for one that is certainly a link.
fn parse_targets(text: &str, is_relation: bool) -> Vec<(Cow<'_, str>, bool)> {
    let name = link_name(text);
    let lower = name.to_ascii_lowercase();
    if looks_like_id(name) {
        vec![(Cow::Borrowed(name), true)]
    } else if let Some(reference) = link_reference(text) {
        vec![(Cow::Owned(reference.to_string()), true)]
    } else if is_entity_id(&lower) {
        vec![(Cow::Owned(lower), true)]
    } else if may_be_id(name) {
        // Text values such as `priority: high` may still be links to a file `high`.
        vec![(Cow::Borrowed(name), false)]
    } else if is_relation && !text.contains("://") {
        scan_mentions(text).map(|(_, mention)| (Cow::Owned(mention), true)).collect()
    } else {
        Vec::new()
    }
}

/// Links without duplicates.
#[derive(Default)]
struct LinkList<'a> {
    list: Vec<EntityLink>,
    /// Relation and target of each link, as a generated file may have thousands.
    known: HashSet<(&'a str, Cow<'a, str>)>,
    /// The first value of a known relation that names nothing.
    problem: Option<Diagnostic>,
}

impl<'a> LinkList<'a> {
    fn push(
        &mut self,
        relation: &'a str,
        attribute: Option<&str>,
        target: Cow<'a, str>,
        is_certain: bool,
    ) {
        let composed = compose(&target).into_owned();
        if self.list.len() <= MAX_LINKS && self.known.insert((relation, target)) {
            let attribute = attribute.filter(|attribute| *attribute != relation).map(Box::from);
            let (relation, target) = (relation.to_owned(), composed);
            self.list.push(EntityLink { relation, attribute, target, is_certain });
        }
    }
}

/// True for the form of an entity's id or an item's reference, `dec-1d2c8f` or `REQ-048`.
pub(crate) fn looks_like_id(text: &str) -> bool {
    is_entity_id(text)
        || ItemKind::ALL
            .into_iter()
            .any(|kind| Reference::parse_kind(kind, text) != ParsedReference::Malformed)
}

/// True for the form of an entity's id, such as `dec-1d2c8f`.
pub fn is_entity_id(text: &str) -> bool {
    let Some((prefix, digits)) = text.split_once('-') else { return false };
    (4..=32).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        && find_value(&PREFIXES, prefix).is_some()
}

/// True for a text that may be a custom id, or the path of a file without an id.
fn may_be_id(text: &str) -> bool {
    is_valid_id(text)
        && text.len() <= MAX_TARGET_BYTES
        && !text.contains(char::is_whitespace)
        // URLs are not entities.
        && !text.contains("://")
        && text.contains(char::is_alphabetic)
}

#[cfg(test)]
mod tests;

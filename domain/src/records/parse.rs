//! Parses files into items and entities, tolerantly, and reports invalid values.

use super::fields::{FieldType, fields_of};
use super::kinds::{IdSource, ItemKind, kind_of_folder, kind_of_prefix};
use super::tombstone::deletion_of;
use super::values::CustomValues;
use crate::backlog::fields::{Priority, RelationshipType, RequirementType, Status, find_by_name};
use crate::backlog::rank::{MAX_RANK_BYTES, is_rank};
use crate::backlog::reference::{Reference, looks_like_id, scan_mentions};
use crate::backlog::{ItemMeta, Relationship};
use crate::bounded_types::{one_line, truncate_title};
use crate::diagnostic::Diagnostic;
use crate::front_matter::{self, DocumentParts};
use crate::knowledge::Entity;
use crate::link_values::{
    LinkList, MAX_LINKS, is_valid_id, link_reference, link_texts, parse_links,
};
use crate::name_form::{compose, fold_name};
use crate::sections;
use crate::timestamp::Timestamp;
use crate::yaml::{self, YamlEntry, YamlNode, YamlValue, quote_excerpt};

/// Maximum length of a description in an item's metadata.
const MAX_INLINE_DESCRIPTION_BYTES: usize = 1024;
const MAX_MENTIONS: usize = 200;
/// Bounds the metadata of generated files, which is in memory. Further tags are ignored.
pub(crate) const MAX_TAGS: usize = 1_000;
/// The keys of an entity's last change, the newest first.
const TIME_KEYS: [&str; 3] = ["updated_at", "created_at", "date"];

/// The kind of an entity if neither front matter, id nor folder determines one.
const DEFAULT_KIND: &str = "note";

impl ItemMeta {
    /// Parses an item from the name and text of its document. An invalid value is replaced by its
    /// default; only the first one is reported. `modified` replaces missing times.
    pub fn parse(
        kind: ItemKind,
        name: &str,
        text: &str,
        modified: Timestamp,
    ) -> (Self, Option<Diagnostic>) {
        let mut parser = RecordParser::new(IdSource::FileName, text);
        let item = parser.parse_item(kind, name, modified.whole_seconds());
        (item, parser.diagnostic)
    }

    /// The item of an unreadable document: only its name is known.
    pub fn placeholder(kind: ItemKind, name: &str, modified: Timestamp) -> Self {
        let mentions = kind.parent().map(unknown_parent).into_iter().collect();
        Self { description: None, mentions, ..Self::parse(kind, name, "", modified).0 }
    }

    /// The description in a document's text.
    pub fn description(text: &str) -> &str {
        front_matter::body(text)
    }
}

impl Entity {
    /// Parses an entity from its path below `.ixchel` (without `.md`) and its text. If the front
    /// matter is invalid, the diagnostic says why, and the metadata comes from path and body.
    pub fn parse(name: &str, text: &str) -> (Self, Option<Diagnostic>) {
        let mut parser = RecordParser::new(IdSource::FrontMatter, text);
        let entity = parser.parse_entity(name);
        (entity, parser.diagnostic)
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

/// A file, whose front matter is parsed as tolerantly as the origin of its ID demands.
struct RecordParser<'a> {
    id_source: IdSource,
    parts: DocumentParts<'a>,
    entries: Vec<YamlEntry>,
    /// The front matter is invalid, and the entries are those of its valid lines.
    is_salvaged: bool,
    /// The first problem, which often explains the others.
    diagnostic: Option<Diagnostic>,
}

impl<'a> RecordParser<'a> {
    fn new(id_source: IdSource, text: &'a str) -> Self {
        let parts = front_matter::split(text);
        let (entries, is_salvaged, mut diagnostic) = match front_matter::parse(parts) {
            Ok(front_matter) => (front_matter.entries, false, front_matter.duplicate),
            Err(mut error) => {
                // Misplaced front matter has no column.
                if let (IdSource::FrontMatter, Some(column)) = (id_source, error.column) {
                    let message = &error.message;
                    error.message = format!("invalid front matter: {message} (column {column})");
                }
                (front_matter::salvage_lines(parts), true, Some(error))
            }
        };
        if let Some(diagnostic) = &mut diagnostic {
            diagnostic.column = None;
        }
        Self { id_source, parts, entries, is_salvaged, diagnostic }
    }

    fn parse_item(&mut self, kind: ItemKind, name: &str, modified: Timestamp) -> ItemMeta {
        let body = self.parts.body.trim_matches(['\r', '\n']);
        let reference = self.parse_reference(kind, name);
        let mut item = ItemMeta {
            kind,
            reference,
            uid: None,
            title: self.parse_title(kind, body, name),
            // Most lists then need no document, and metadata stays small.
            description: (body.len() <= MAX_INLINE_DESCRIPTION_BYTES).then(|| body.to_owned()),
            status: None,
            priority: None,
            rank: None,
            requirement_type: None,
            parent: None,
            relationships: Vec::new(),
            mentions: Vec::new(),
            creator: None,
            assignee: None,
            created_at: modified,
            updated_at: modified,
            tags: parse_tags(&self.entries),
            link_suffixes: Vec::new(),
            deletion: deletion_of(&self.entries),
            custom: CustomValues::parse(&self.entries),
        };
        // The value of a parent that cannot be read, or empty if the front matter is invalid.
        let mut unread_parent = self.is_salvaged.then(String::new);
        for field in fields_of(kind.row()) {
            let key = field.key;
            match (field.field_type, key) {
                (FieldType::Status, _) => item.status = self.parse_status(key, kind),
                (FieldType::Priority, _) => item.priority = Some(self.parse_priority(key)),
                (FieldType::Choice(_), _) => {
                    let given = self.parse_named(key, &RequirementType::ALL, |one| one.name());
                    item.requirement_type = Some(given.unwrap_or(RequirementType::DEFAULT));
                }
                (FieldType::Parent(parent), _) => {
                    item.parent = self.parse_parent(key, parent, &mut unread_parent);
                }
                (FieldType::Relationship(relation), _) => {
                    self.parse_relationships((relation, kind), &mut item.relationships);
                }
                (FieldType::Rank, _) => item.rank = self.parse_rank(key),
                (FieldType::Suffixes, _) => item.link_suffixes = self.link_suffixes(key),
                (_, "assignee_username") => item.assignee = self.text(key),
                (_, "creator_username") => item.creator = self.text(key),
                (_, "uid") => item.uid = self.text(key),
                // A new item is not written with a second time.
                (_, "created_at" | "updated_at") => {
                    let time = self.time(key).map(Timestamp::whole_seconds);
                    item.updated_at = time.unwrap_or(item.updated_at);
                    if key == "created_at" {
                        item.created_at = item.updated_at;
                    }
                }
                (_, "deleted_at") => _ = self.time(key),
                _ => {}
            }
        }
        let unread_parent = unread_parent.filter(|_| item.parent.is_none());
        // So that each list of possible siblings can name this file.
        if let (Some(_), Some(parent)) = (&unread_parent, kind.parent()) {
            item.mentions.push(unknown_parent(parent));
        }
        let texts = format!("{}\n{body}\n{}", item.title, unread_parent.unwrap_or_default());
        item.mentions.extend(find_mentions(&texts, reference));
        item
    }

    fn parse_entity(&mut self, name: &str) -> Entity {
        let id = compose(&self.entity_id(name)).into_owned();
        let kind = kind_of(name, &id, self.text("type").as_deref());
        let title = self.find_title().unwrap_or_else(|| {
            let heading = sections::first_heading(self.parts.body);
            heading.unwrap_or_else(|| file_stem(name)).to_owned()
        });
        let title = if title.contains(char::is_control) { one_line(&title) } else { title };
        let status = self.text("status");
        let times = TIME_KEYS.map(|key| self.time(key));
        // Salvaged lines are guesses, and a guess must not create a link.
        let entries = if self.is_salvaged { &[][..] } else { &self.entries };
        let custom = CustomValues::parse(entries);
        let (tags, links) = (parse_tags(entries), parse_links(entries));
        let LinkList { list: mut links, problem, .. } = links;
        self.diagnostic = self.diagnostic.take().or(problem);
        if links.len() > MAX_LINKS {
            links.truncate(MAX_LINKS);
            self.report(None, format!("only the first {MAX_LINKS} links are used; remove some"));
        }
        let updated_at = times.into_iter().flatten().next();
        Entity { id, kind, title, status, tags, links, updated_at, custom }
    }

    /// The title in the front matter.
    fn find_title(&mut self) -> Option<String> {
        let (title, problem) = front_matter::find_title(self.parts, &self.entries)?;
        if let Some(Diagnostic { line, message, .. }) = problem {
            self.report(line, message);
        }
        Some(title)
    }

    /// The entity's ID. Reports an invalid one, unless another problem is known.
    fn entity_id(&mut self, name: &str) -> String {
        let stem = file_stem(name);
        match self.scalar("id") {
            Some((_, id)) if is_valid_id(&id) => id,
            Some((line, id)) => {
                let id = quote_excerpt(&id);
                self.report(line, format!("invalid id {id}; use one like dec-1d2c8f"));
                name.to_owned()
            }
            // The name of a file with invalid front matter is probably its ID.
            None if self.diagnostic.is_some() && looks_like_id(stem) => stem.to_owned(),
            None => name.to_owned(),
        }
    }

    fn parse_reference(&mut self, kind: ItemKind, name: &str) -> Option<Reference> {
        let reference = Reference::from_document_name(name).filter(|found| found.kind == kind);
        if reference.is_none() {
            let prefix = kind.prefix();
            let message = format!(
                "the file name contains no reference; rename the file, for example to \
                 {prefix}-012.md, with an unused number"
            );
            self.report(None, message);
        }
        reference
    }

    fn parse_title(&mut self, kind: ItemKind, body: &str, name: &str) -> String {
        if let Some(title) = self.find_title() {
            return one_line(&title);
        }
        // Acceptance criteria have no title of their own.
        if kind.is_planned() {
            let message = "`title` is missing; add one to the front matter";
            self.report(None, message.to_owned());
        }
        let heading = sections::first_heading(body);
        match heading.or_else(|| body.lines().find(|line| line.contains(char::is_alphanumeric))) {
            Some(title) => truncate_title(&one_line(title)),
            None => name.to_owned(),
        }
    }

    fn parse_status(&mut self, key: &str, kind: ItemKind) -> Option<Status> {
        let statuses = kind.statuses();
        let default = *statuses.first()?;
        if kind.has_custom_statuses()
            && let Some(node) = self.find_key(key)
            && let Some(status) = node.text().and_then(Status::parse)
        {
            return Some(status);
        }
        Some(self.parse_named(key, statuses, Status::name).unwrap_or(default))
    }

    fn parse_priority(&mut self, key: &str) -> Priority {
        let Some((line, text)) = self.scalar(key) else { return Priority::DEFAULT };
        let priority = Priority::parse(&text);
        if priority.is_none() {
            let message = format!("priority {} is not 1, 2, 3 or 4; use one", quote_excerpt(&text));
            self.report(line, message);
        }
        priority.unwrap_or(Priority::DEFAULT)
    }

    fn parse_rank(&mut self, key: &str) -> Option<String> {
        let (line, text) = self.scalar(key)?;
        if is_rank(&text) {
            return Some(text);
        }
        let text = quote_excerpt(&text);
        let form = format!("write at most {MAX_RANK_BYTES} ASCII letters and digits");
        self.report(line, format!("rank {text} is invalid; {form}"));
        None
    }

    fn parse_parent(
        &mut self,
        key: &str,
        kind: ItemKind,
        unread_parent: &mut Option<String>,
    ) -> Option<Reference> {
        // Cloned, because `report` needs the parser.
        let node = self.find_key(key)?.clone();
        let texts = link_texts(&node, true);
        let (line, text) = match &texts[..] {
            [] => return None,
            [(node, text)] => (node.position.line, (*text).to_owned()),
            [(first, _), ..] => {
                let (line, count) = (first.position.line, texts.len());
                let texts: Vec<&str> = texts.iter().map(|(_, text)| *text).collect();
                *unread_parent = Some(texts.join(" "));
                self.report(line, format!("{key} has {count} values; keep one"));
                return None;
            }
        };
        let parent = link_reference(&text).filter(|parent| parent.kind == kind);
        if parent.is_none() {
            self.report(line, invalid_reference(key, &text, kind));
            *unread_parent = Some(text);
        }
        parent
    }

    /// `item` is the kind of both ends.
    fn parse_relationships(
        &mut self,
        (kind, item): (RelationshipType, ItemKind),
        found: &mut Vec<Relationship>,
    ) {
        // Cloned, because `report` needs the parser.
        let Some(node) = self.find_key(kind.name()).cloned() else { return };
        for (node, text) in link_texts(&node, true) {
            match link_reference(text) {
                Some(target) if target.kind == item => {
                    let relationship = Relationship { kind, target };
                    if !found.contains(&relationship) {
                        found.push(relationship);
                    }
                }
                _ => {
                    let message = invalid_reference(kind.name(), text, item);
                    self.report(node.position.line, message);
                }
            }
        }
    }

    fn link_suffixes(&self, key: &str) -> Vec<(Reference, String)> {
        let mut suffixes = Vec::new();
        for entry in self.find_key(key).map(YamlNode::entries).unwrap_or_default() {
            if let (Some(target), Some(suffix)) = (Reference::parse(&entry.key), entry.node.text())
            {
                suffixes.push((target, suffix.to_owned()));
            }
        }
        suffixes
    }

    fn parse_named<T: Copy>(
        &mut self,
        key: &str,
        values: &[T],
        name: impl Fn(&T) -> &str,
    ) -> Option<T> {
        let (line, text) = self.scalar(key)?;
        let value = find_by_name(values, &name, &text);
        if value.is_none() {
            let names: Vec<&str> = values.iter().map(&name).collect();
            let text = quote_excerpt(&text);
            self.report(line, format!("{key} {text} is invalid; use one of {}", names.join(", ")));
        }
        value
    }

    fn time(&mut self, key: &str) -> Option<Timestamp> {
        let (line, text) = self.scalar(key)?;
        let time = Timestamp::parse(&text);
        if time.is_none() {
            let text = quote_excerpt(&text);
            let form = "write it like 2026-01-31T23:59:59Z";
            self.report(line, format!("{key} {text} is not a time; {form}"));
        }
        time
    }

    fn find_key(&self, key: &str) -> Option<&YamlNode> {
        yaml::find_key(&self.entries, key)
    }

    fn text(&mut self, key: &str) -> Option<String> {
        self.scalar(key).map(|(_, text)| text)
    }

    /// A value and its line.
    fn scalar(&mut self, key: &str) -> Option<(usize, String)> {
        let node = self.find_key(key)?;
        let line = node.position.line;
        let is_scalar = !matches!(node.value, YamlValue::List(_) | YamlValue::Map(_));
        let text = node.text().map(str::to_owned);
        // An entity may have any value under any key.
        if !is_scalar && self.id_source == IdSource::FileName {
            self.report(line, format!("{key} is a list or a map; write one value"));
        }
        Some((line, text?))
    }

    /// Keeps the first problem only.
    fn report(&mut self, line: impl Into<Option<usize>>, message: String) {
        self.diagnostic.get_or_insert(Diagnostic::new(line, message));
    }
}

/// The mention of an item in the place of a parent of this kind that cannot be read.
pub fn unknown_parent(kind: ItemKind) -> String {
    format!("{}-?", kind.prefix())
}

fn invalid_reference(key: &str, text: &str, kind: ItemKind) -> String {
    let prefix = kind.prefix();
    if text.is_empty() {
        return format!("{key} is a map without `id`; write a reference like {prefix}-012");
    }
    format!("{key} {} is not a reference; write one like {prefix}-012", quote_excerpt(text))
}

/// Finds references and entity ids in a text, without duplicates and without the item's own
/// reference. References are normalized: `REQ-7` becomes `REQ-007`.
pub(crate) fn find_mentions(text: &str, own: Option<Reference>) -> Vec<String> {
    let own = own.map(|reference| reference.to_string());
    let mut mentions: Vec<String> = Vec::new();
    for (_, mention) in scan_mentions(text) {
        if Some(&mention) != own.as_ref() && !mentions.contains(&mention) {
            mentions.push(mention);
        }
        // Bounds the metadata of documents with generated lists.
        if mentions.len() == MAX_MENTIONS {
            break;
        }
    }
    mentions
}

/// The last part of a document name.
fn file_stem(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
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
        && let Some(kind) = kind_of_prefix(prefix)
        && looks_like_id(id)
    {
        return kind.name.to_owned();
    }
    match name.split_once('/') {
        // An unknown folder is a kind of its own.
        Some((folder, _)) => {
            let kind = kind_of_folder(folder).map(|kind| kind.name.to_owned());
            kind.unwrap_or_else(|| compose(folder).into_owned())
        }
        None => DEFAULT_KIND.to_owned(),
    }
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

/// Reports keys that have the name of a tool argument, such as `assignee` instead of
/// `assignee_username`. Other unknown keys are allowed.
pub fn find_argument_keys(kind: ItemKind, text: &str) -> Vec<Diagnostic> {
    let Ok(front_matter) = front_matter::parse(front_matter::split(text)) else {
        return Vec::new();
    };
    let mut diagnostics = Vec::new();
    for entry in &front_matter.entries {
        let given = entry.key.as_str();
        let field = fields_of(kind.row()).find(|field| match field.field_type {
            // Shorter synonyms are words that a file may use as its own keys.
            FieldType::Parent(_) => given.len() > 2 && field.synonyms.contains(&given),
            _ => field.name == given && field.key != given && !field.key.is_empty(),
        });
        let Some(correct_key) = field.map(|field| field.key) else { continue };
        if yaml::find_key(&front_matter.entries, correct_key).is_none() {
            let message = format!("{given} has no effect here; rename it to {correct_key}");
            diagnostics.push(Diagnostic::new(entry.key_position.line, message));
        }
    }
    diagnostics
}

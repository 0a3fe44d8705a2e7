//! The items that needs of sphinx-needs stand for.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use serde_json::{Map, Value, json};

use crate::needs_json::file::{
    CREATOR, KEY_PREFIX, Need, NeedList, NeedsVersion, PLAIN_LINKS, TYPES,
};

/// Fields that sphinx-needs computes or renders.
pub(crate) const COMPUTED: &str = "arch collapse constraints constraints_error constraints_passed \
    constraints_results content_id content_node delete docname doctype external_css external_url \
    full_title has_dead_links has_forbidden_dead_links hidden hide hide_status hide_tags id \
    id_complete id_parent id_prefix is_external is_import is_modified is_need is_part \
    jinja_content layout lineno lineno_content max_amount max_content_lines modifications \
    parent_need parent_needs parts post_content post_template pre_content pre_template \
    section_name sections signature style target_id template title type type_color type_name \
    type_prefix type_style url_postfix";
/// Fields of our own files that are not values of a record.
const OWN_COMPUTED: &str = "doctype id parent_needs title type";
pub(crate) struct NeedsReader<'a> {
    path: &'a str,
    /// Written by an export of ours.
    pub(crate) is_own: bool,
    /// The fields that the file calls links, and those whose values are not its own.
    links: BTreeSet<String>,
    computed: BTreeSet<String>,
    /// The kind of each need.
    kinds: BTreeMap<String, String>,
    made: HashSet<String>,
}

impl<'a> NeedsReader<'a> {
    pub(crate) fn new(path: &'a str, version: &NeedsVersion) -> Self {
        let mut reader = Self {
            path,
            is_own: version.creator.get("program").is_some_and(|program| program == CREATOR),
            links: BTreeSet::from(["links".to_owned()]),
            computed: BTreeSet::new(),
            kinds: BTreeMap::new(),
            made: HashSet::new(),
        };
        let properties = version.needs_schema.get("properties").and_then(Value::as_object);
        for (name, field) in properties.into_iter().flatten() {
            match field.get("field_type").and_then(Value::as_str) {
                Some("links") => _ = reader.links.insert(name.clone()),
                Some("backlinks") => _ = reader.computed.insert(name.clone()),
                _ => {}
            }
        }
        // Older files do not name their links, but each has its inverse.
        for name in version.needs.0.iter().flat_map(|(_, need)| need.keys()) {
            if let (Some(link), false) = (name.strip_suffix("_back"), reader.is_own) {
                reader.links.insert(link.to_owned());
                reader.computed.insert(name.clone());
            }
        }
        let computed = if reader.is_own { OWN_COMPUTED } else { COMPUTED };
        reader.computed.extend(computed.split_whitespace().map(str::to_owned));
        for (id, need) in &version.needs.0 {
            reader.kinds.insert(id.clone(), reader.kind_of(need));
        }
        reader
    }

    fn kind_of(&self, need: &Need) -> String {
        let name = text_of(need, "type");
        let known = TYPES.iter().find(|(one, _)| *one == name).map(|(_, kind)| *kind);
        match known {
            Some(kind) => kind.to_owned(),
            None if self.is_own => name.to_owned(),
            None => "requirement".to_owned(),
        }
    }

    pub(crate) fn read(
        mut self,
        needs: NeedList,
        imported: &mut ImportedItems,
    ) -> Result<(), String> {
        let path = self.path;
        for (id, need) in needs.0 {
            let item = self.item_of(id, need, imported).and_then(|item| imported.push(item));
            item.map_err(|problem| format!("{path}: {problem}"))?;
        }
        Ok(())
    }

    fn item_of(
        &mut self,
        id: String,
        mut need: Need,
        imported: &mut ImportedItems,
    ) -> Result<ImportedItem, String> {
        let kind = self.kinds.get(&id).cloned().unwrap_or_default();
        let parent = self.parent_of(&kind, &need, imported)?;
        let mut item = ImportedItem {
            source: format!("{}#{id}", self.path),
            title: text_of(&need, "title").to_owned(),
            parent,
            ..ImportedItem::default()
        };
        for name in ["content", "description"] {
            if item.text.is_empty() {
                text_of(&need, name).clone_into(&mut item.text);
            }
            need.remove(name);
        }
        if item.title.is_empty() {
            item.title.clone_from(&id);
        }
        let need_type = text_of(&need, "type").to_owned();
        if !self.is_own && need_type != "req" && !need_type.is_empty() {
            item.values.insert("need_type".to_owned(), json!(need_type));
        }
        for (name, value) in need {
            match (&*name, value) {
                (name, _) if self.computed.contains(name) => {}
                ("requirement_type", value) if self.is_own => {
                    item.values.insert("type".to_owned(), value);
                }
                (name, Value::Array(targets)) if self.links.contains(name) => {
                    let targets = targets.iter().filter_map(Value::as_str).map(str::to_owned);
                    item.links.entry(relation_of(name)).or_default().extend(targets);
                }
                (name, value) => {
                    let own_name = name.strip_prefix(KEY_PREFIX).filter(|_| self.is_own);
                    let is_empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                    // An empty value removes that of an earlier import.
                    let value = if is_empty { json!("") } else { value };
                    item.values.insert(own_name.unwrap_or(name).to_owned(), value);
                }
            }
        }
        item.links.retain(|_, targets| !targets.is_empty());
        item.kind = kind;
        item.id = Some(id);
        Ok(item)
    }

    /// The source of the parent of a need: a need around it, or else the section or document.
    fn parent_of(
        &mut self,
        kind: &str,
        need: &Need,
        imported: &mut ImportedItems,
    ) -> Result<Option<String>, String> {
        let Some(parent_kind) = ItemKind::from_name(kind).and_then(ItemKind::parent) else {
            return Ok(None);
        };
        let parents = need.get("parent_needs").and_then(Value::as_array);
        let mut named = parents.into_iter().flatten().filter_map(Value::as_str);
        if self.is_own {
            return Ok(named.next().map(str::to_owned));
        }
        let mut named = named.chain([text_of(need, "parent_need")]);
        let is_parent =
            |id: &&str| self.kinds.get(*id).is_some_and(|one| one == parent_kind.name());
        if let Some(id) = named.find(is_parent) {
            return Ok(Some(format!("{}#{id}", self.path)));
        }
        let document = text_of(need, "docname");
        if document.is_empty() {
            return Ok(None);
        }
        let sections = need.get("sections").and_then(Value::as_array);
        let mut sections = sections.into_iter().flatten().filter_map(Value::as_str).rev();
        let title = sections.next().unwrap_or(document);
        let epic = format!("{}#document {document}", self.path);
        self.make("epic", &epic, None, title, imported)?;
        match sections.next() {
            Some(section) if parent_kind == ItemKind::UserStory => {
                let story = format!("{epic}/{section}");
                self.make("user_story", &story, Some(epic), section, imported)?;
                Ok(Some(story))
            }
            _ => Ok(Some(epic)),
        }
    }

    /// Makes the item of a document or section once.
    fn make(
        &mut self,
        kind: &str,
        source: &str,
        parent: Option<String>,
        title: &str,
        imported: &mut ImportedItems,
    ) -> Result<(), String> {
        if !self.made.insert(source.to_owned()) {
            return Ok(());
        }
        imported.push(ImportedItem {
            source: source.to_owned(),
            kind: kind.to_owned(),
            parent,
            title: title.to_owned(),
            ..ImportedItem::default()
        })
    }
}

fn text_of<'n>(need: &'n Need, name: &str) -> &'n str {
    need.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The relation of a field with links.
fn relation_of(name: &str) -> String {
    let word = name.to_lowercase().replace([' ', '-'], "_");
    match &*word {
        "links" => PLAIN_LINKS.to_owned(),
        word if is_known_relation(word) => word.to_owned(),
        _ => name.to_owned(),
    }
}

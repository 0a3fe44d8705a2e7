//! Converts needs of sphinx-needs to items.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::ports::exchange::{ImportedItem, ImportedItems};
use reqlore_domain::records::answers::csv::join_list;
use serde_json::{Map, Value, json};

use crate::keyed_files::{move_long_values, text_of};
use crate::names::known_relation;
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
        let name = need_text(need, "type");
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
            let item = self.need_item(id, need, imported).and_then(|item| imported.push(item));
            item.map_err(|problem| format!("{path}: {problem}"))?;
        }
        Ok(())
    }

    fn need_item(
        &mut self,
        id: String,
        mut need: Need,
        imported: &mut ImportedItems,
    ) -> Result<ImportedItem, String> {
        let kind = self.kinds.get(&id).cloned().unwrap_or_default();
        let mut item = ImportedItem {
            source: format!("{}#{id}", self.path),
            kind,
            title: need_text(&need, "title").to_owned(),
            ..ImportedItem::default()
        };
        self.set_parent(&mut item, &need, imported)?;
        for name in ["content", "description"] {
            match need.remove(name) {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) if item.text.is_empty() => item.text = text,
                Some(Value::String(text)) if text.is_empty() || text == item.text => {}
                Some(other) => _ = item.values.insert(name.to_owned(), other),
            }
        }
        if item.title.is_empty() {
            item.title.clone_from(&id);
        }
        let need_type = need_text(&need, "type").to_owned();
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
                    let targets = targets.iter().map(text_of).filter(|it| !it.is_empty());
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
        item.id = Some(id);
        if !self.is_own {
            move_long_values(&mut item);
        }
        Ok(item)
    }

    /// Sets the parent: a need around it, or else the section or document. Other needs around it
    /// and deeper sections become values.
    fn set_parent(
        &mut self,
        item: &mut ImportedItem,
        need: &Need,
        imported: &mut ImportedItems,
    ) -> Result<(), String> {
        let mut needs = need_texts(need, "parent_needs");
        let parent_kind = ItemKind::from_name(&item.kind).and_then(ItemKind::parent);
        if self.is_own {
            item.parent =
                needs.first().filter(|_| parent_kind.is_some()).map(|id| (*id).to_owned());
            return Ok(());
        }
        let one = need_text(need, "parent_need");
        needs.extend(Some(one).filter(|one| !one.is_empty() && !needs.contains(one)));
        let is_parent = |id: &&str| {
            parent_kind.is_some_and(|kind| self.kinds.get(*id).is_some_and(|it| it == kind.name()))
        };
        if let Some(index) = needs.iter().position(is_parent) {
            item.parent = Some(format!("{}#{}", self.path, needs.remove(index)));
        }
        if need.contains_key("parent_need") || need.contains_key("parent_needs") {
            item.values.insert("parent_need".to_owned(), json!(join_list(&needs)));
        }
        let document = need_text(need, "docname");
        let mut sections = need_texts(need, "sections");
        if let (None, Some(parent_kind), false) = (&item.parent, parent_kind, document.is_empty()) {
            let epic = format!("{}#document {document}", self.path);
            self.make("epic", &epic, None, sections.pop().unwrap_or(document), imported)?;
            let section = if parent_kind == ItemKind::UserStory { sections.pop() } else { None };
            item.parent = Some(match section {
                Some(section) => {
                    let story = format!("{epic}/{section}");
                    self.make("user_story", &story, Some(epic), section, imported)?;
                    story
                }
                None => epic,
            });
            sections.reverse();
            if need.contains_key("sections") {
                item.values.insert("section".to_owned(), json!(sections.join(" / ")));
            }
        }
        Ok(())
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

fn need_text<'n>(need: &'n Need, name: &str) -> &'n str {
    need.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn need_texts<'n>(need: &'n Need, name: &str) -> Vec<&'n str> {
    let texts = need.get(name).and_then(Value::as_array).into_iter().flatten();
    texts.filter_map(Value::as_str).collect()
}

/// The relation of a field with links.
fn relation_of(name: &str) -> String {
    match &*name.to_lowercase() {
        "links" => PLAIN_LINKS.to_owned(),
        _ => known_relation(name).unwrap_or_else(|| name.to_owned()),
    }
}

//! Converts the objects of a ReqIF document to items.

use std::collections::{BTreeMap, HashMap};

use reqlore_domain::backlog::fields::MAX_TITLE_CHARS;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::ports::exchange::{ImportMapping, ImportedItem, ImportedItems, file_title};
use reqlore_domain::records::answers::csv::split_list;
use serde_json::{Value, json};

use crate::columns::guess_field;
use crate::keyed_files::move_long_values;
use crate::names::{known_relation, split_title};
use crate::reqif::write::{EXACT_TEXT, KIND_TYPE, LINKS, OTHER_TYPE, PARENT};
use crate::reqif::xhtml_render::shown_text;
use crate::reqif::xml::{ReqIfDocument, ReqIfObject};

/// Attributes by field, besides the headings of columns. Implementation guides and DOORS use them.
const ATTRIBUTES: [(&str, &[&str]); 4] = [
    ("id", &["ReqIF.ForeignID", "UID", "Object Identifier", "Identifier"]),
    ("title", &["ReqIF.ChapterName", "ReqIF.Name", "ReqIF.Chapter", "Object Heading", "Heading"]),
    ("text", &["ReqIF.Text", "Object Text", "STATEMENT", "ReqIF.Description"]),
    ("status", &["ReqIF.ForeignState"]),
];

/// Adds the items of a document: those of each specification in their order, and then the others.
pub(crate) fn add_items(
    path: &str,
    mut document: ReqIfDocument,
    mapping: &mut ImportMapping,
    imported: &mut ImportedItems,
) -> Result<(), String> {
    let mut links: HashMap<String, Vec<(String, String)>> = HashMap::new();
    for relation in std::mem::take(&mut document.relations) {
        if !relation.values.is_empty() {
            *document.skipped.entry("attributes of relations").or_default() +=
                relation.values.len();
        }
        let name = relation_name(&document.name_of(&relation.type_id), &relation);
        if document.by_id.contains_key(&relation.source) {
            links.entry(relation.source).or_default().push((name, relation.target));
        } else {
            *document.skipped.entry("relations without a source").or_default() += 1;
        }
    }
    let mut builder = ItemBuilder { path, mapping, links, imported };
    let specifications = std::mem::take(&mut document.specifications);
    let roots: Vec<Option<String>> = specifications
        .iter()
        .map(|one| (&*one.type_id != OTHER_TYPE).then(|| one.id.clone()))
        .collect();
    for (specification, root) in specifications.into_iter().zip(&roots) {
        if root.is_some() {
            builder.add(&document, specification, "epic", None, None)?;
        }
    }
    let placements = std::mem::take(&mut document.placements);
    // The object that is the story of each place and of those below.
    let mut stories: Vec<Option<usize>> = Vec::with_capacity(placements.len());
    let mut taken = vec![false; document.objects.len()];
    for placement in &placements {
        let story = placement.parent.and_then(|index| stories[index]);
        let Some(index) = document.by_id.get(&placement.object).copied() else {
            *document.skipped.entry("placements of missing objects").or_default() += 1;
            stories.push(story);
            continue;
        };
        if taken[index] {
            *document.skipped.entry("repeated placements").or_default() += 1;
            stories.push(story);
            continue;
        }
        taken[index] = true;
        let object = std::mem::take(&mut document.objects[index]);
        let is_chapter = placement.parent.is_none()
            && (placement.has_children || object.has_value("ReqIF.ChapterName"));
        let kind = own_kind(&document, &object);
        let kind = kind.unwrap_or(if is_chapter { "user_story" } else { "requirement" }.to_owned());
        let root = roots.get(placement.specification).cloned().flatten();
        let is_story = kind == "user_story";
        stories.push(if is_story { Some(index) } else { story });
        let story = story.map(|story| document.objects[story].id.clone());
        let above = placement.parent.map(|above| placements[above].object.clone());
        let above = above.filter(|above| Some(above) != story.as_ref());
        let parent = if is_story { root } else { story.or(root) };
        // For the objects below.
        document.objects[index].id.clone_from(&object.id);
        builder.add(&document, object, &kind, parent, above)?;
    }
    for index in (0..document.objects.len()).filter(|index| !taken[*index]) {
        let object = std::mem::take(&mut document.objects[index]);
        let kind = own_kind(&document, &object).unwrap_or_else(|| "requirement".to_owned());
        builder.add(&document, object, &kind, None, None)?;
    }
    for (part, count) in document.skipped {
        imported.notes.push(format!("{path}: ignored {part}: {count}"));
    }
    Ok(())
}

impl ReqIfObject {
    fn has_value(&self, name: &str) -> bool {
        self.values.iter().any(|(one, value)| &**one == name && !value.trim().is_empty())
    }
}

/// The kind of an object that was exported from a project.
fn own_kind(document: &ReqIfDocument, object: &ReqIfObject) -> Option<String> {
    let is_own = object.type_id.starts_with(KIND_TYPE);
    is_own.then(|| document.name_of(&object.type_id).to_string())
}

/// The relation that a type names: `depends_on` for `Depends On`, or else the name.
fn relation_name(type_name: &str, relation: &ReqIfObject) -> String {
    let name = if type_name.is_empty() { &relation.long_name } else { type_name };
    known_relation(name.trim()).unwrap_or_else(|| name.to_owned())
}

struct ItemBuilder<'a> {
    path: &'a str,
    mapping: &'a mut ImportMapping,
    /// The relations and targets of each object.
    links: HashMap<String, Vec<(String, String)>>,
    imported: &'a mut ImportedItems,
}

impl ItemBuilder<'_> {
    /// Adds the item of an object. `above` is the object above it that is not its parent.
    fn add(
        &mut self,
        document: &ReqIfDocument,
        mut object: ReqIfObject,
        kind: &str,
        parent: Option<String>,
        above: Option<String>,
    ) -> Result<(), String> {
        let path = self.path;
        let source_of = |id: &str| format!("{path}#{id}");
        let is_own = object.type_id.starts_with(KIND_TYPE);
        let mut item = ImportedItem {
            source: source_of(&object.id),
            kind: kind.to_owned(),
            parent: parent.map(|id| source_of(&id)),
            ..ImportedItem::default()
        };
        // The guide's own attributes come before others with the same meaning.
        object
            .values
            .sort_by_key(|(name, _)| (&**name == "ReqIF.Description", !name.starts_with("ReqIF.")));
        let mut exact_text = None;
        for (name, value) in std::mem::take(&mut object.values) {
            match &*name {
                EXACT_TEXT if is_own => exact_text = Some(value),
                PARENT if is_own => item.parent = Some(value),
                own if is_own && !own.starts_with("ReqIF.") && !own.starts_with(LINKS) => {
                    add_value(&mut item.values, own, &value);
                }
                _ => {
                    let field = if is_own { own_field(&name) } else { self.field_of(&name) };
                    set_value(&mut item, &field, &name, value);
                }
            }
        }
        // Another tool may have edited the text that it shows.
        if let Some(text) = exact_text.filter(|text| shown_text(text) == item.text) {
            item.text = text;
        }
        for (relation, target) in self.links.remove(&object.id).unwrap_or_default() {
            item.links.entry(relation).or_default().push(target);
        }
        if !is_own {
            let type_name = document.name_of(&object.type_id);
            add_extra(&mut item.values, "object_type", &type_name);
            if let Some(above) = above {
                add_extra(&mut item.values, "object_above", &above);
            }
            set_value(&mut item, "text", "desc", object.description);
            // A name of one word may be an ID, so that the text is a better title.
            let is_title = object.long_name.contains(' ') || item.text.is_empty();
            if item.title.is_empty() && (is_title || kind == "epic") {
                item.title = std::mem::take(&mut object.long_name);
            } else if item.title != object.long_name {
                add_extra(&mut item.values, "long_name", &object.long_name);
            }
        }
        if item.title.is_empty() && kind == "epic" {
            file_title(path).clone_into(&mut item.title);
        } else if item.title.is_empty() && !is_own {
            let (title, rest) = split_title(&item.text);
            (item.title, item.text) = (title, rest.to_owned());
            if item.title.is_empty() {
                item.title = item.id.clone().unwrap_or(object.id);
            }
        }
        if !is_own {
            move_long_values(&mut item);
        }
        self.imported.push(item)
    }

    /// The field of an attribute, which the mapping gets if it lacks it.
    fn field_of(&mut self, name: &str) -> String {
        if let Some(field) = self.mapping.columns.get(name) {
            return field.clone();
        }
        let known = ATTRIBUTES.iter().find(|(_, names)| names.contains(&name));
        let guessed = known.map_or_else(
            || guess_field(name, &self.mapping.custom_fields),
            |(field, _)| (*field).to_owned(),
        );
        // The hierarchy decides on kinds and parents.
        let is_place = matches!(&*guessed, "kind" | "parent" | "epic" | "story");
        let guessed = if is_place { name.to_owned() } else { guessed };
        self.mapping.columns.insert(name.to_owned(), guessed.clone());
        guessed
    }
}

fn own_field(name: &str) -> String {
    let known = ATTRIBUTES.iter().find(|(_, names)| names.contains(&name));
    let own = known.filter(|_| name.starts_with("ReqIF."));
    own.map_or(name, |(field, _)| *field).to_owned()
}

/// Sets the value of a field. A second title, text or ID becomes an extra key.
fn set_value(item: &mut ImportedItem, field: &str, name: &str, value: String) {
    if let Some(relation) = field.strip_prefix(LINKS) {
        item.links.entry(relation.to_owned()).or_default().extend(split_list(&value));
        return;
    }
    match field {
        "" => {}
        "title" | "text" | "id" if value.trim().is_empty() => {}
        relation if value.trim().is_empty() && is_known_relation(relation) => {}
        "title" if item.title.is_empty() => {
            if value.chars().count() <= MAX_TITLE_CHARS {
                item.title = value;
            } else {
                item.title = split_title(&value).0;
                set_value(item, "text", name, value);
            }
        }
        "text" if item.text.is_empty() => item.text = value,
        "id" if item.id.is_none() => {
            let id = value.trim().to_owned();
            let kind = ItemKind::from_name(&item.kind);
            let is_reference = Reference::parse(&id).is_some_and(|one| Some(one.kind) == kind);
            item.id = Some(id);
            if !is_reference && kind.is_some() {
                add_extra(&mut item.values, name, &value);
            }
        }
        "title" | "text" | "id" => add_extra(&mut item.values, name, &value),
        "tag" | "tags" => add_value(&mut item.values, "tags", value.trim()),
        relation if is_known_relation(relation) => {
            item.links.entry(relation.to_owned()).or_default().extend(split_list(&value));
        }
        field if value.trim().is_empty() => add_value(&mut item.values, field, ""),
        field => add_value(&mut item.values, field, &value),
    }
}

/// Adds a value of the source. An empty one removes that of an earlier import.
fn add_value(values: &mut BTreeMap<String, Value>, name: &str, value: &str) {
    if value.is_empty() {
        values.entry(name.to_owned()).or_insert_with(|| json!(""));
    } else {
        add_extra(values, name, value);
    }
}

/// Adds a value that is not empty. A name that is used gets a number.
fn add_extra(values: &mut BTreeMap<String, Value>, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    let numbered = |number| if number == 1 { name.to_owned() } else { format!("{name} {number}") };
    let is_free = |number| values.get(&numbered(number)).is_none_or(|value| value == "");
    // A search in halves, because an object may have many values of the same name.
    let (mut used, mut free) = (0, 1_usize);
    while !is_free(free) {
        (used, free) = (free, free * 2);
    }
    while free - used > 1 {
        let middle = usize::midpoint(used, free);
        if is_free(middle) {
            free = middle;
        } else {
            used = middle;
        }
    }
    values.insert(numbered(free), json!(value));
}

//! Records as documents of StrictDoc: an epic is a document, a story a section.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use reqlore_domain::backlog::RelationshipType;
use reqlore_domain::ports::exchange::ExportedFiles;
use reqlore_domain::records::answers::csv::{join_list, value_text};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::strictdoc::sdoc::write_field;

/// The metadata of a document that an export wrote.
pub(crate) const MARK: &str = "REQLORE";
/// Begins the name of a value that would be a field of StrictDoc.
pub(crate) const EXTRA: &str = "extra_";

/// Fields before all others, in this order.
const FIRST_FIELDS: [&str; 9] =
    ["UID", "STATUS", "PRIORITY", "TYPE", "ASSIGNEE", "TAGS", "RANK", "TITLE", "STATEMENT"];
/// Fields with a meaning in StrictDoc or at the import.
const RESERVED: [&str; 7] = ["MID", "LEVEL", "PREFIX", "REFS", "DESCRIPTION", "CONTENT", MARK];
const DERIVES_FROM: &str = RelationshipType::DerivesFrom.name();

/// The fields of a record, and the requirements from which it derives.
struct Node<'r> {
    record: &'r ListedItem,
    tag: &'static str,
    fields: BTreeMap<String, String>,
    parents: Vec<&'r str>,
}

/// One document for each epic.
pub(crate) fn write_documents(records: &[ListedItem]) -> ExportedFiles {
    let mut parents: HashMap<&str, &[String]> = HashMap::new();
    let mut children: HashMap<&str, Vec<&ListedItem>> = HashMap::new();
    for record in records {
        if let Some(parent) = &record.parent {
            children.entry(parent).or_default().push(record);
        }
        if record.kind == "requirement" {
            let links = record.links.get(DERIVES_FROM).map_or(&[][..], Vec::as_slice);
            parents.insert(&record.reference_id, links);
        }
    }
    let components = find_components(&parents);
    let mut files = ExportedFiles::new();
    for epic in records.iter().filter(|record| record.kind == "epic") {
        let mut nodes = Vec::new();
        for story in children.get(&*epic.reference_id).into_iter().flatten() {
            nodes.push(Node::new(story, "SECTION", &components));
            for record in children.get(&*story.reference_id).into_iter().flatten() {
                let is_requirement = record.kind == "requirement";
                let tag = if is_requirement { "REQUIREMENT" } else { "ACCEPTANCE_CRITERIA" };
                nodes.push(Node::new(record, tag, &components));
            }
        }
        let text = write_document(&Node::new(epic, "DOCUMENT", &components), &nodes);
        files.push((format!("docs/{}.sdoc", epic.reference_id), text.into_bytes()));
    }
    files
}

impl<'r> Node<'r> {
    fn new(
        record: &'r ListedItem,
        tag: &'static str,
        components: &HashMap<&'r str, usize>,
    ) -> Self {
        let own = &*record.reference_id;
        let title = if tag == "ACCEPTANCE_CRITERIA" { "" } else { &record.title };
        let text = record.description.as_deref().unwrap_or_default();
        let texts = [("UID", own), ("TITLE", title), ("STATEMENT", text)];
        let texts = texts.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let built_in = record.built_in_values();
        let mut fields: BTreeMap<String, String> =
            built_in.map(|(name, value)| (name.to_uppercase(), value_text(&value))).collect();
        fields.extend(texts);
        let mut native = Vec::new();
        for (relation, targets) in &record.links {
            let mut others: Vec<&str> = targets.iter().map(String::as_str).collect();
            if tag == "REQUIREMENT" && relation == DERIVES_FROM {
                // StrictDoc refuses cycles of parents.
                let component = components.get(own);
                let is_native =
                    |to: &&str| components.get(to).is_some_and(|one| Some(one) != component);
                (native, others) = others.into_iter().partition(is_native);
            }
            fields.insert(relation.to_uppercase(), join_list(&others));
        }
        for (name, value) in record.other_values() {
            let mut name = field_name(name);
            while fields.contains_key(&name) {
                name.push('_');
            }
            fields.insert(name, value_text(value));
        }
        fields.retain(|_, value| !value.is_empty());
        Self { record, tag, fields, parents: native }
    }

    /// The names of its fields in the order of the grammar.
    fn names(&self) -> impl Iterator<Item = &str> {
        let is_other = |name: &&String| !FIRST_FIELDS.contains(&&***name);
        let others = self.fields.keys().filter(is_other).map(String::as_str);
        FIRST_FIELDS.into_iter().filter(|name| self.fields.contains_key(*name)).chain(others)
    }
}

/// The component of each requirement: those in a cycle of parents share one. (Kosaraju's algorithm,
/// without recursion.)
fn find_components<'r>(parents: &HashMap<&'r str, &'r [String]>) -> HashMap<&'r str, usize> {
    let mut children: HashMap<&str, Vec<&str>> = HashMap::new();
    for (one, links) in parents {
        links.iter().for_each(|to| children.entry(to).or_default().push(one));
    }
    // Each after all that it reaches, except in a cycle.
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    let mut pending: Vec<(&str, bool)> = parents.keys().map(|one| (*one, false)).collect();
    while let Some((one, is_done)) = pending.pop() {
        if is_done {
            order.push(one);
        } else if seen.insert(one) {
            pending.push((one, true));
            let links = parents.get(one).copied().unwrap_or_default();
            let known = links.iter().filter(|to| parents.contains_key(&***to));
            pending.extend(known.map(|to| (&**to, false)));
        }
    }
    let mut components = HashMap::new();
    for (component, last) in order.into_iter().rev().enumerate() {
        let mut pending = vec![last];
        while let Some(one) = pending.pop() {
            if !components.contains_key(one) {
                components.insert(one, component);
                pending.extend(children.get(one).into_iter().flatten());
            }
        }
    }
    components
}

/// The name of a field: capital letters, digits and `_`.
fn field_name(name: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let name: String = name.chars().map(|c| if is_kept(c) { c } else { '_' }).collect();
    let name = name.to_uppercase();
    let is_taken = FIRST_FIELDS.contains(&&*name) || RESERVED.contains(&&*name);
    let starts = ["UID", "RELATIONS", "EXTRA_"];
    let is_reserved = is_taken || starts.iter().any(|start| name.starts_with(start));
    let is_plain = !is_reserved && name.starts_with(|c: char| c.is_ascii_uppercase());
    if is_plain { name } else { format!("EXTRA_{name}") }
}

fn write_document(epic: &Node<'_>, nodes: &[Node<'_>]) -> String {
    let mut text = "[DOCUMENT]\n".to_owned();
    for name in ["TITLE", "UID"] {
        write_field(&mut text, name, epic.fields.get(name).map_or("", |value| value));
    }
    _ = writeln!(text, "OPTIONS:\n  MARKUP: Markdown\nMETADATA:\n  {MARK}: items");
    for name in epic.names().filter(|name| !matches!(*name, "TITLE" | "UID" | "STATEMENT")) {
        let value = &epic.fields[name];
        // Metadata is one line.
        let is_plain = value.trim() == value && !value.contains(['\n', '\r']);
        let is_plain = is_plain && !value.starts_with(['"', '>']);
        let quoted = || serde_json::Value::from(value.as_str()).to_string();
        text += "  ";
        write_field(&mut text, name, &if is_plain { value.clone() } else { quoted() });
    }
    text += "\n[GRAMMAR]\nELEMENTS:\n";
    for tag in ["TEXT", "SECTION", "REQUIREMENT", "ACCEPTANCE_CRITERIA"] {
        write_element(&mut text, tag, nodes);
    }
    write_text(&mut text, epic.record);
    let mut is_open = false;
    for node in nodes {
        let is_section = node.tag == "SECTION";
        if is_section {
            text += if is_open { "\n[[/SECTION]]\n" } else { "" };
            is_open = true;
        }
        let [open, close] = if is_section { ["[[", "]]"] } else { ["[", "]"] };
        _ = writeln!(text, "\n{open}{}{close}", node.tag);
        for name in node.names().filter(|name| !is_section || *name != "STATEMENT") {
            write_field(&mut text, name, &node.fields[name]);
        }
        text += if node.parents.is_empty() { "" } else { "RELATIONS:\n" };
        for parent in &node.parents {
            _ = writeln!(text, "- TYPE: Parent\n  VALUE: {parent}");
        }
        if is_section {
            write_text(&mut text, node.record);
        }
    }
    text + if is_open { "\n[[/SECTION]]\n" } else { "" }
}

/// The description of an epic or story.
fn write_text(text: &mut String, record: &ListedItem) {
    let description = record.description.as_deref().unwrap_or_default();
    if !description.trim().is_empty() {
        text.push_str("\n[TEXT]\n");
        write_field(text, "STATEMENT", description);
    }
}

/// The element of the grammar for all nodes with a tag.
fn write_element(text: &mut String, tag: &str, nodes: &[Node<'_>]) {
    let used = nodes.iter().filter(|node| node.tag == tag).flat_map(Node::names);
    let used: BTreeSet<&str> = used.collect();
    let mut names: Vec<&str> =
        FIRST_FIELDS.into_iter().filter(|name| used.contains(name)).collect();
    names.extend(used.iter().filter(|name| !FIRST_FIELDS.contains(name)));
    let (mut properties, mut relations) = ("", "");
    match tag {
        "TEXT" => names = vec!["STATEMENT"],
        "SECTION" => properties = "  PROPERTIES:\n    IS_COMPOSITE: True\n",
        "REQUIREMENT" => relations = "  RELATIONS:\n  - TYPE: Parent\n",
        _ => {}
    }
    if !names.is_empty() {
        _ = write!(text, "- TAG: {tag}\n{properties}  FIELDS:\n");
        for name in names.into_iter().filter(|name| tag != "SECTION" || *name != "STATEMENT") {
            _ = writeln!(text, "  - TITLE: {name}\n    TYPE: String\n    REQUIRED: False");
        }
        text.push_str(relations);
    }
}

//! Writes records as a ReqIF document: epics as specifications, all others as objects in them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use reqlore_domain::records::answers::csv::{join_list, value_text};
use reqlore_domain::records::answers::lists::ListedItem;

use crate::reqif::xhtml_render::{push_escaped, render_xhtml, shown_text};

/// Begins the identifier of a type of our own objects; the name of the kind follows.
pub(crate) const KIND_TYPE: &str = "reqlore-kind-";
/// The type of the specification of records that have no epic.
pub(crate) const OTHER_TYPE: &str = "reqlore-other";
/// The attribute with the Markdown of an item whose XHTML lacks a part of it.
pub(crate) const EXACT_TEXT: &str = "reqlore.text";
/// The attribute with the parent of an item whose parent is not in the document.
pub(crate) const PARENT: &str = "reqlore.parent";
/// Begins the name of an attribute with the targets of a relation.
pub(crate) const LINKS: &str = "reqlore.links.";
const TEXT: &str = "ReqIF.Text";
/// The schema requires a time; the same records always give the same document.
const UNKNOWN_TIME: &str = "1970-01-01T00:00:00Z";
const HEADER: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
    <REQ-IF xmlns=\"http://www.omg.org/spec/ReqIF/20110401/reqif.xsd\" \
    xmlns:xhtml=\"http://www.w3.org/1999/xhtml\">\n";

pub(crate) fn write_document(records: &[ListedItem]) -> String {
    let known: HashMap<&str, &ListedItem> =
        records.iter().map(|record| (&*record.reference_id, record)).collect();
    let mut writer = DocumentWriter { known, xml: HEADER.to_owned() };
    writer.write(records);
    writer.xml
}

struct DocumentWriter<'r> {
    known: HashMap<&'r str, &'r ListedItem>,
    xml: String,
}

type Children<'r> = HashMap<&'r str, Vec<&'r ListedItem>>;

impl<'r> DocumentWriter<'r> {
    fn write(&mut self, records: &'r [ListedItem]) {
        let times = records.iter().map(time_of);
        let newest = times.max().unwrap_or(UNKNOWN_TIME);
        self.line(&format!(
            "<THE-HEADER><REQ-IF-HEADER IDENTIFIER=\"reqlore-header\"><CREATION-TIME>{newest}\
             </CREATION-TIME><REQ-IF-TOOL-ID>Reqlore</REQ-IF-TOOL-ID><REQ-IF-VERSION>1.0\
             </REQ-IF-VERSION><SOURCE-TOOL-ID>Reqlore</SOURCE-TOOL-ID><TITLE>Items</TITLE>\
             </REQ-IF-HEADER></THE-HEADER>\n<CORE-CONTENT><REQ-IF-CONTENT>\n<DATATYPES>"
        ));
        let text = identity("reqlore-string", "String", UNKNOWN_TIME);
        let xhtml = identity("reqlore-xhtml", "XHTML", UNKNOWN_TIME);
        self.line(&format!("<DATATYPE-DEFINITION-STRING{text} MAX-LENGTH=\"2147483647\"/>"));
        self.line(&format!("<DATATYPE-DEFINITION-XHTML{xhtml}/>\n</DATATYPES>"));
        let mut values = Vec::with_capacity(records.len());
        let mut attributes: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let (mut relations, mut links) = (BTreeSet::new(), Vec::new());
        for record in records {
            let found = self.values_of(record);
            let names = found.iter().map(|(name, _)| name.clone());
            attributes.entry(&record.kind).or_default().extend(names);
            values.push(found);
            for (relation, target) in self.object_links(record) {
                relations.insert(relation);
                links.push((record, relation, target));
            }
        }
        self.write_types(&attributes, &relations);
        self.xml.push_str("<SPEC-OBJECTS>\n");
        for (record, values) in records.iter().zip(&values) {
            if record.kind != "epic" {
                self.write_object("SPEC-OBJECT", record, values);
                self.line("</SPEC-OBJECT>");
            }
        }
        self.xml.push_str("</SPEC-OBJECTS>\n<SPEC-RELATIONS>\n");
        for (record, relation, target) in links {
            let id = format!("reqlore-link-{}-{relation}-{target}", record.reference_id);
            let (from, to) = (xml_id(&record.reference_id), xml_id(target));
            let start = identity(&xml_id(&id), "", time_of(record));
            let relation = xml_id(&format!("reqlore-relation-{relation}"));
            self.line(&format!(
                "<SPEC-RELATION{start}><TYPE><SPEC-RELATION-TYPE-REF>{relation}\
                 </SPEC-RELATION-TYPE-REF></TYPE><SOURCE><SPEC-OBJECT-REF>{from}\
                 </SPEC-OBJECT-REF></SOURCE><TARGET><SPEC-OBJECT-REF>{to}</SPEC-OBJECT-REF>\
                 </TARGET></SPEC-RELATION>"
            ));
        }
        self.xml.push_str("</SPEC-RELATIONS>\n<SPECIFICATIONS>\n");
        self.write_specifications(records, &values);
        self.line("</SPECIFICATIONS>\n</REQ-IF-CONTENT></CORE-CONTENT>\n</REQ-IF>");
    }

    fn line(&mut self, xml: &str) {
        self.xml.extend([xml, "\n"]);
    }

    /// The links of a record that can be relations: objects alone have relations.
    fn object_links(&self, record: &'r ListedItem) -> Vec<(&'r str, &'r str)> {
        let links = record.links.iter().flat_map(|(relation, targets)| {
            targets.iter().map(move |target| (&**relation, &**target))
        });
        links.filter(|(_, target)| self.is_object_link(record, target)).collect()
    }

    fn is_object_link(&self, record: &ListedItem, target: &str) -> bool {
        let is_object = |record: &ListedItem| record.kind != "epic";
        is_object(record) && self.known.get(target).is_some_and(|target| is_object(target))
    }

    /// The attributes of a record that are not empty.
    fn values_of(&self, record: &ListedItem) -> Vec<(String, String)> {
        let text = record.description.clone().unwrap_or_default();
        let exact = if shown_text(&text) == text { String::new() } else { text.clone() };
        let unknown_parent = record.parent.clone().filter(|id| !self.known.contains_key(&**id));
        let mut values: Vec<(String, String)> = [
            ("ReqIF.ForeignID", record.reference_id.clone()),
            ("ReqIF.Name", record.title.clone()),
            (TEXT, text),
            (EXACT_TEXT, exact),
            (PARENT, unknown_parent.unwrap_or_default()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let built_in = record.built_in_values();
        values.extend(built_in.map(|(name, value)| (name.to_owned(), value_text(&value))));
        let others = record.other_values();
        values.extend(others.map(|(name, value)| (name.clone(), value_text(value))));
        for (relation, targets) in &record.links {
            let others = targets.iter().filter(|target| !self.is_object_link(record, target));
            let others: Vec<&String> = others.collect();
            values.push((format!("{LINKS}{relation}"), join_list(&others)));
        }
        values.retain(|(_, value)| !value.is_empty());
        values
    }

    fn write_types(
        &mut self,
        attributes: &BTreeMap<&str, BTreeSet<String>>,
        relations: &BTreeSet<&str>,
    ) {
        self.xml.push_str("<SPEC-TYPES>\n");
        for (kind, names) in attributes {
            let element = if *kind == "epic" { "SPECIFICATION-TYPE" } else { "SPEC-OBJECT-TYPE" };
            let id = xml_id(&format!("{KIND_TYPE}{kind}"));
            let start = identity(&id, kind, UNKNOWN_TIME);
            self.line(&format!("<{element}{start}><SPEC-ATTRIBUTES>"));
            for name in names {
                let start = identity(&attribute_id(kind, name), name, UNKNOWN_TIME);
                let (form, id) = form_of(name);
                self.line(&format!(
                    "<ATTRIBUTE-DEFINITION-{form}{start}><TYPE><DATATYPE-DEFINITION-{form}-REF>\
                     {id}</DATATYPE-DEFINITION-{form}-REF></TYPE></ATTRIBUTE-DEFINITION-{form}>"
                ));
            }
            self.line(&format!("</SPEC-ATTRIBUTES></{element}>"));
        }
        let other = identity(OTHER_TYPE, "Other items", UNKNOWN_TIME);
        self.line(&format!("<SPECIFICATION-TYPE{other}/>"));
        for relation in relations {
            let id = xml_id(&format!("reqlore-relation-{relation}"));
            let start = identity(&id, relation, UNKNOWN_TIME);
            self.line(&format!("<SPEC-RELATION-TYPE{start}/>"));
        }
        self.xml.push_str("</SPEC-TYPES>\n");
    }

    /// Writes the start and the content of an object or specification, without its end.
    fn write_object(&mut self, element: &str, record: &ListedItem, values: &[(String, String)]) {
        let start = identity(&xml_id(&record.reference_id), &record.title, time_of(record));
        let type_id = xml_id(&format!("{KIND_TYPE}{}", record.kind));
        let type_element = if element == "SPECIFICATION" { element } else { "SPEC-OBJECT" };
        self.line(&format!(
            "<{element}{start}><TYPE><{type_element}-TYPE-REF>{type_id}</{type_element}-TYPE-REF>\
             </TYPE><VALUES>"
        ));
        for (name, value) in values {
            let (form, _) = form_of(name);
            let id = attribute_id(&record.kind, name);
            _ = write!(self.xml, "<ATTRIBUTE-VALUE-{form}");
            if form == "STRING" {
                self.xml.push_str(" THE-VALUE=\"");
                push_escaped(&mut self.xml, value, true);
                self.xml.push_str("\">");
            } else {
                self.xml.extend([">\n<THE-VALUE>", &render_xhtml(value), "</THE-VALUE>\n"]);
            }
            self.line(&format!(
                "<DEFINITION><ATTRIBUTE-DEFINITION-{form}-REF>{id}\
                 </ATTRIBUTE-DEFINITION-{form}-REF></DEFINITION></ATTRIBUTE-VALUE-{form}>"
            ));
        }
        self.line("</VALUES>");
    }

    fn write_specifications(
        &mut self,
        records: &'r [ListedItem],
        values: &[Vec<(String, String)>],
    ) {
        let mut children = Children::new();
        let mut others = Vec::new();
        for record in records {
            match record.parent.as_deref().filter(|parent| self.known.contains_key(parent)) {
                Some(parent) => children.entry(parent).or_default().push(record),
                None if record.kind != "epic" => others.push(record),
                None => {}
            }
        }
        for (record, values) in records.iter().zip(values) {
            if record.kind == "epic" {
                self.write_object("SPECIFICATION", record, values);
                self.write_places(children.get(&*record.reference_id), &children);
                self.line("</SPECIFICATION>");
            }
        }
        if !others.is_empty() {
            let start = identity("reqlore-others", "Other items", UNKNOWN_TIME);
            self.line(&format!(
                "<SPECIFICATION{start}><TYPE><SPECIFICATION-TYPE-REF>{OTHER_TYPE}\
                 </SPECIFICATION-TYPE-REF></TYPE>"
            ));
            self.write_places(Some(&others), &children);
            self.line("</SPECIFICATION>");
        }
    }

    fn write_places(&mut self, records: Option<&Vec<&ListedItem>>, children: &Children<'_>) {
        let Some(records) = records else { return };
        self.line("<CHILDREN>");
        for record in records {
            let id = xml_id(&record.reference_id);
            let start = identity(&format!("reqlore-place-{id}"), "", time_of(record));
            self.line(&format!(
                "<SPEC-HIERARCHY{start}><OBJECT><SPEC-OBJECT-REF>{id}</SPEC-OBJECT-REF></OBJECT>"
            ));
            self.write_places(children.get(&*record.reference_id), children);
            self.line("</SPEC-HIERARCHY>");
        }
        self.line("</CHILDREN>");
    }
}

fn time_of(record: &ListedItem) -> &str {
    record.updated_at.as_deref().unwrap_or(UNKNOWN_TIME)
}

/// The data type of an attribute: its form and identifier.
fn form_of(name: &str) -> (&'static str, &'static str) {
    if name == TEXT { ("XHTML", "reqlore-xhtml") } else { ("STRING", "reqlore-string") }
}

fn attribute_id(kind: &str, name: &str) -> String {
    xml_id(&format!("{KIND_TYPE}{kind}.{name}"))
}

/// The attributes that all elements with an identity have.
fn identity(id: &str, name: &str, time: &str) -> String {
    let mut xml = format!(" IDENTIFIER=\"{id}\" LAST-CHANGE=\"{time}\"");
    if !name.is_empty() {
        xml.push_str(" LONG-NAME=\"");
        push_escaped(&mut xml, name, true);
        xml.push('"');
    }
    xml
}

/// A text as the identifier of an element. Characters that it cannot have become their number.
fn xml_id(text: &str) -> String {
    let mut id = String::with_capacity(text.len());
    for c in text.chars() {
        let is_first = id.is_empty();
        match c {
            'a'..='z' | 'A'..='Z' | '_' => id.push(c),
            '0'..='9' | '-' | '.' if !is_first => id.push(c),
            c => _ = write!(id, "_{:x}_", u32::from(c)),
        }
    }
    id
}

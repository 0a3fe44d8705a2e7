//! The objects, specifications and relations of a ReqIF document, read as a stream.

use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::rc::Rc;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use reqlore_domain::ports::exchange::{MAX_IMPORTED_ITEMS, MAX_SOURCE_BYTES, is_utf16};
use reqlore_domain::records::answers::csv::join_list;

use crate::names::{MAX_NAME_BYTES, check_length};
use crate::reqif::xhtml::{MarkdownWriter, attribute, entity_text};

const MAX_DEPTH: usize = 200;
/// Maximum values of one object.
const MAX_VALUES: usize = 1_000;

/// An object, specification or relation.
#[derive(Debug, Default)]
pub(crate) struct ReqIfObject {
    pub(crate) id: String,
    pub(crate) long_name: String,
    pub(crate) description: String,
    pub(crate) type_id: Rc<str>,
    /// By the name of the attribute.
    pub(crate) values: Vec<(Rc<str>, String)>,
    /// The objects that a relation links.
    pub(crate) source: String,
    pub(crate) target: String,
}

/// The place of an object in a specification.
#[derive(Debug)]
pub(crate) struct Placement {
    pub(crate) object: String,
    /// The indices of the specification and of the placement above.
    pub(crate) specification: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) has_children: bool,
}

#[derive(Debug, Default)]
pub(crate) struct ReqIfDocument {
    pub(crate) objects: Vec<ReqIfObject>,
    /// The index of each object.
    pub(crate) by_id: HashMap<String, usize>,
    pub(crate) specifications: Vec<ReqIfObject>,
    pub(crate) relations: Vec<ReqIfObject>,
    /// Each after the one above it.
    pub(crate) placements: Vec<Placement>,
    /// The names of types, attributes and values by their identifiers.
    pub(crate) names: HashMap<Rc<str>, Rc<str>>,
    /// The numbers of ignored parts.
    pub(crate) skipped: BTreeMap<&'static str, usize>,
}

/// Reads a document. The error begins with the position.
pub(crate) fn read_document(mut content: impl BufRead) -> Result<ReqIfDocument, String> {
    let beginning = content.fill_buf().map_err(|error| error.to_string())?;
    if is_utf16(beginning) {
        return Err("it is UTF-16; save it as UTF-8".to_owned());
    }
    let mut reader = Reader::from_reader(content);
    reader.config_mut().expand_empty_elements = true;
    let (mut document, mut buffer) = (DocumentReader::default(), Vec::new());
    loop {
        buffer.clear();
        let event = reader.read_event_into(&mut buffer);
        let read = match event {
            Ok(Event::Eof) if document.depth == 0 && document.has_root => break,
            Ok(event) => document.read(&event),
            Err(error) => Err(error.to_string()),
        };
        read.map_err(|problem| format!("byte {}: {problem}", reader.buffer_position()))?;
    }
    Ok(document.document)
}

#[derive(Default)]
struct DocumentReader {
    document: ReqIfDocument,
    depth: usize,
    has_root: bool,
    /// The depth of the element whose content is skipped.
    skipped_depth: Option<usize>,
    object: Option<ReqIfObject>,
    /// The open placements.
    open: Vec<usize>,
    /// The role of an object that is referenced: that of the element around it.
    role: Role,
    /// The text of the current element.
    text: String,
    /// The value that is read, and the identifier of its attribute.
    value: String,
    attribute_id: String,
    enum_values: Vec<Rc<str>>,
    /// The bytes of the names in all values.
    copied_bytes: u64,
    xhtml: Option<MarkdownWriter>,
}

#[derive(Default, Clone, Copy)]
enum Role {
    #[default]
    Placed,
    Source,
    Target,
}

impl DocumentReader {
    fn read(&mut self, event: &Event<'_>) -> Result<(), String> {
        match event {
            Event::Start(element) => self.start(element)?,
            Event::End(element) => {
                self.depth -= 1;
                let name = element.local_name();
                match self.skipped_depth {
                    Some(depth) if depth == self.depth => self.skipped_depth = None,
                    Some(_) => {}
                    None => self.end(name.as_ref())?,
                }
            }
            Event::Text(text) => self.add_text(&text.xml10_content()),
            Event::CData(text) => self.add_text(&text.xml10_content()),
            Event::GeneralRef(entity) => self.add_text(&entity_text(entity)?),
            Event::DocType(_) => return Err("a DOCTYPE is not allowed; remove it".to_owned()),
            Event::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|e| e.to_string())?;
                let is_utf8 = |name: &str| {
                    ["utf-8", "utf8", "us-ascii"].contains(&&*name.to_ascii_lowercase())
                };
                if let Some(name) = encoding.filter(|name| !is_utf8(name)) {
                    return Err(format!("encoded as {name:?}; save it as UTF-8"));
                }
            }
            Event::Eof => return Err("unexpected end of file".to_owned()),
            // The reader expands empty elements.
            Event::Empty(_) | Event::Comment(_) | Event::PI(_) => {}
        }
        Ok(())
    }

    fn add_text(&mut self, text: &str) {
        match &mut self.xhtml {
            _ if self.skipped_depth.is_some() => {}
            Some(xhtml) => xhtml.text(text),
            // Only identifiers are read from it.
            None if self.text.len() <= MAX_NAME_BYTES => {
                self.text.extend(text.chars().take(MAX_NAME_BYTES + 1));
            }
            None => {}
        }
    }

    fn start(&mut self, element: &BytesStart<'_>) -> Result<(), String> {
        let name = element.local_name();
        let name = name.as_ref();
        if !self.has_root && name != "REQ-IF" {
            return Err(format!("its root is {name:?}, not REQ-IF"));
        }
        self.has_root = true;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("its elements are nested deeper than {MAX_DEPTH}"));
        }
        if self.skipped_depth.is_some() {
            return Ok(());
        }
        if let Some(xhtml) = &mut self.xhtml {
            return xhtml.start(element);
        }
        self.text.clear();
        match name {
            "DEFAULT-VALUE" => self.skip("default values"),
            "THE-ORIGINAL-VALUE" => self.skip("originals of simplified values"),
            "REQ-IF-TOOL-EXTENSION" => self.skip("tool extensions"),
            "RELATION-GROUP" => self.skip("relation groups"),
            "EDITABLE-ATTS" => self.skipped_depth = Some(self.depth - 1),
            "SPEC-OBJECT" | "SPECIFICATION" | "SPEC-RELATION" => {
                let id = identifier_of(element)?;
                let long_name = attribute(element, "LONG-NAME")?.unwrap_or_default();
                let description = attribute(element, "DESC")?.unwrap_or_default();
                let found = ReqIfObject { id, long_name, description, ..ReqIfObject::default() };
                self.object = Some(found);
            }
            "SPEC-HIERARCHY" => self.place(),
            "SOURCE" => self.role = Role::Source,
            "TARGET" => self.role = Role::Target,
            "OBJECT" => self.role = Role::Placed,
            "THE-VALUE" => self.xhtml = Some(MarkdownWriter::default()),
            "ALTERNATIVE-ID" => {
                let id = attribute(element, "IDENTIFIER")?.filter(|_| self.open.is_empty());
                if let Some(id) = id {
                    self.add_value("alternative_id".into(), id)?;
                }
            }
            name if name.starts_with("ATTRIBUTE-VALUE-") => {
                self.value = attribute(element, "THE-VALUE")?.unwrap_or_default();
                self.enum_values.clear();
                self.attribute_id.clear();
            }
            name if is_named(name) => {
                let id = identifier_of(element)?;
                let name = attribute(element, "LONG-NAME")?.filter(|name| !name.is_empty());
                let name = name.unwrap_or_else(|| id.clone());
                check_length("a LONG-NAME", &name)?;
                self.document.names.insert(id.into(), name.into());
            }
            _ => {}
        }
        Ok(())
    }

    fn skip(&mut self, part: &'static str) {
        self.skipped_depth = Some(self.depth - 1);
        *self.document.skipped.entry(part).or_default() += 1;
    }

    fn place(&mut self) {
        let parent = self.open.last().copied();
        if let Some(parent) = parent {
            self.document.placements[parent].has_children = true;
        }
        self.open.push(self.document.placements.len());
        let specification = self.document.specifications.len();
        let object = String::new();
        let has_children = false;
        self.document.placements.push(Placement { object, specification, parent, has_children });
    }

    fn end(&mut self, name: &str) -> Result<(), String> {
        if name == "THE-VALUE" {
            self.value = self.xhtml.take().map(MarkdownWriter::finish).unwrap_or_default();
            return Ok(());
        }
        if let Some(xhtml) = &mut self.xhtml {
            xhtml.end(name);
            return Ok(());
        }
        if name.ends_with("-REF") {
            check_length(name, &self.text)?;
        }
        let text = self.text.trim();
        match name {
            "SPEC-HIERARCHY" => _ = self.open.pop(),
            "SPEC-OBJECT-REF" => {
                let referenced = match (self.role, &mut self.object) {
                    (Role::Source, Some(object)) => Some(&mut object.source),
                    (Role::Target, Some(object)) => Some(&mut object.target),
                    _ => {
                        let open = self.open.last();
                        open.map(|index| &mut self.document.placements[*index].object)
                    }
                };
                if let Some(referenced) = referenced {
                    text.clone_into(referenced);
                }
            }
            "ENUM-VALUE-REF" => {
                if self.enum_values.len() == MAX_VALUES {
                    return Err(format!("a value has more than {MAX_VALUES} entries"));
                }
                let value = self.document.name_of(text);
                self.copy(&value)?;
                self.enum_values.push(value);
            }
            "SPEC-OBJECT-TYPE-REF" | "SPECIFICATION-TYPE-REF" | "SPEC-RELATION-TYPE-REF" => {
                if let Some(object) = &mut self.object {
                    let known = self.document.names.get_key_value(text);
                    object.type_id = known.map_or_else(|| text.into(), |(id, _)| id.clone());
                }
            }
            "SPEC-OBJECT" | "SPECIFICATION" | "SPEC-RELATION" => return self.add_object(name),
            name if name.starts_with("ATTRIBUTE-DEFINITION-") => {
                text.clone_into(&mut self.attribute_id);
            }
            name if name.starts_with("ATTRIBUTE-VALUE-") => {
                if name.ends_with("-ENUMERATION") {
                    self.value = join_list(&self.enum_values);
                }
                let value = std::mem::take(&mut self.value);
                if self.attribute_id.is_empty() {
                    let part = "values without a definition";
                    *self.document.skipped.entry(part).or_default() += 1;
                } else {
                    self.add_value(self.document.name_of(&self.attribute_id), value)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn add_value(&mut self, name: Rc<str>, value: String) -> Result<(), String> {
        self.copy(&name)?;
        let Some(object) = &mut self.object else { return Ok(()) };
        if object.values.len() == MAX_VALUES {
            return Err(format!("{} has more than {MAX_VALUES} values", object.id));
        }
        object.values.push((name, value));
        Ok(())
    }

    /// Bounds the names that values repeat.
    fn copy(&mut self, name: &str) -> Result<(), String> {
        self.copied_bytes += name.len() as u64;
        if self.copied_bytes > MAX_SOURCE_BYTES {
            return Err("its values repeat too many names; split it".to_owned());
        }
        Ok(())
    }

    fn add_object(&mut self, name: &str) -> Result<(), String> {
        let Some(object) = self.object.take() else { return Ok(()) };
        let document = &mut self.document;
        match name {
            "SPECIFICATION" => document.specifications.push(object),
            "SPEC-RELATION" => document.relations.push(object),
            _ if document.objects.len() == MAX_IMPORTED_ITEMS => {
                return Err(format!("it has more than {MAX_IMPORTED_ITEMS} objects; split it"));
            }
            _ => {
                let index = document.objects.len();
                if document.by_id.insert(object.id.clone(), index).is_some() {
                    return Err(format!("the identifier {:?} is used twice", object.id));
                }
                document.objects.push(object);
            }
        }
        Ok(())
    }
}

impl ReqIfDocument {
    /// The name with this identifier, or the identifier if it has none.
    pub(crate) fn name_of(&self, id: &str) -> Rc<str> {
        self.names.get(id).cloned().unwrap_or_else(|| id.into())
    }
}

/// True for an element whose name values and objects reference.
fn is_named(element: &str) -> bool {
    let is_definition = element.starts_with("ATTRIBUTE-DEFINITION-") && !element.ends_with("-REF");
    let is_type = element.ends_with("-TYPE") && element.starts_with("SPEC");
    is_definition || is_type || element == "ENUM-VALUE"
}

fn identifier_of(element: &BytesStart<'_>) -> Result<String, String> {
    let id = attribute(element, "IDENTIFIER")?
        .filter(|id| !id.is_empty())
        .ok_or_else(|| format!("{} has no IDENTIFIER", element.local_name().as_ref()))?;
    check_length("an IDENTIFIER", &id)?;
    Ok(id)
}

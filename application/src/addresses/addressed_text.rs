//! The text of any document that an ID names, with its links, for tools that read all toolsets.

use reqlore_domain::docsets::Docset;
use reqlore_domain::document::{Document, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::front_matter;
use reqlore_domain::records::answers::document_label::DocumentLabel;
use reqlore_domain::records::answers::links::LinkList;
use reqlore_domain::sections::Section;
use reqlore_domain::untrusted_text::encode_line;

use crate::addresses::address::{Address, AddressTarget};
use crate::addresses::links::{IncomingLink, LinkReader, OutgoingLink, SECTION_PREFIX};
use crate::context::ToolContext;
use crate::documents::get_one;

/// A document, or one requirement of a section.
#[derive(Debug)]
pub(crate) struct AddressedText {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) title: String,
    pub(crate) status: Option<String>,
    pub(crate) tags: Vec<String>,
    /// Relative to the project; without one for documents that have no file of their own.
    pub(crate) path: String,
    /// Of the document that holds the text.
    pub(crate) version: String,
    /// Without front matter.
    pub(crate) body: String,
    /// As stored.
    pub(crate) raw: String,
}

impl Address {
    /// The names that links to this document use.
    fn link_names(&self) -> Vec<String> {
        let id = self.target.id().into_owned();
        match &self.target {
            AddressTarget::Item(_) | AddressTarget::Docset { .. } => vec![id],
            AddressTarget::Entity(meta) if meta.id.name == id => vec![id],
            AddressTarget::Entity(meta) => vec![id, meta.id.name.clone()],
            // Any word of a front matter may equal a key, so a link to a section is exact.
            AddressTarget::Section(_) => vec![format!("{SECTION_PREFIX}{id}")],
            AddressTarget::Requirement { .. } => vec![format!("{SECTION_PREFIX}{id}"), id],
        }
    }

    pub(crate) async fn read_incoming(&self, context: &ToolContext) -> Result<Vec<IncomingLink>> {
        let reader = LinkReader { ports: &context.ports, project: &self.project };
        reader.incoming(self.link_names()).await
    }

    pub(crate) async fn read_outgoing(&self, context: &ToolContext) -> Result<Vec<OutgoingLink>> {
        let reader = LinkReader { ports: &context.ports, project: &self.project };
        match &self.target {
            AddressTarget::Item(meta)
            | AddressTarget::Entity(meta)
            | AddressTarget::Section(meta) => reader.outgoing(meta, None).await,
            AddressTarget::Requirement { section, index, .. } => {
                reader.outgoing(section, Some(index)).await
            }
            AddressTarget::Docset { .. } => Ok(Vec::new()),
        }
    }

    pub(crate) async fn read_links(&self, context: &ToolContext) -> Result<LinkList> {
        let outgoing = self.read_outgoing(context).await?;
        let incoming = self.read_incoming(context).await?;
        Ok(LinkList::new(
            outgoing.iter().map(OutgoingLink::entry).collect(),
            incoming.iter().map(IncomingLink::entry).collect(),
        ))
    }

    /// The document without its text.
    pub(crate) async fn read_label(&self, context: &ToolContext) -> Result<DocumentLabel> {
        let id = self.target.id().into_owned();
        if let AddressTarget::Item(meta) | AddressTarget::Entity(meta) = &self.target {
            let reader = LinkReader { ports: &context.ports, project: &self.project };
            let mut label = DocumentLabel::from_meta(meta, id);
            label.mark(reader.freshness([meta]).await?.remove(&meta.id).unwrap_or_default());
            return Ok(label);
        }
        let (kind, title) = (self.target.kind().to_owned(), Some(self.target.title()));
        Ok(DocumentLabel { id, kind, title, ..DocumentLabel::default() })
    }

    pub(crate) async fn read_text(&self, context: &ToolContext) -> Result<AddressedText> {
        let mut text = AddressedText {
            id: self.target.id().into_owned(),
            kind: self.target.kind().to_owned(),
            title: self.target.title(),
            status: None,
            tags: Vec::new(),
            path: self.target.document_id().to_string(),
            version: String::new(),
            body: String::new(),
            raw: String::new(),
        };
        match &self.target {
            AddressTarget::Item(meta) | AddressTarget::Entity(meta) => {
                self.read_document(context, meta, &mut text).await?;
                text.body = front_matter::body(&text.raw).to_owned();
                if let Some(item) = &meta.item {
                    text.status = item.status.map(|status| status.name().to_owned());
                    text.tags.clone_from(&item.tags);
                }
                if let Some(entity) = &meta.entity {
                    text.status.clone_from(&entity.status);
                    text.tags.clone_from(&entity.tags);
                }
            }
            AddressTarget::Section(meta) => {
                self.read_document(context, meta, &mut text).await?;
                text.body.clone_from(&text.raw);
            }
            AddressTarget::Requirement { document, index, .. } => {
                let section = Section::parse(document_text(document)?);
                text.version = document.version.to_string();
                if let Some(requirement) = section.find(index) {
                    text.raw = section.stored_text(requirement).to_owned();
                    text.body = section.text(requirement);
                }
            }
            AddressTarget::Docset { configuration, name } => {
                let docset = configuration.configuration.find(name);
                text.version = configuration.version.to_string();
                text.raw = docset.map(docset_text).unwrap_or_default();
                text.body.clone_from(&text.raw);
            }
        }
        Ok(text)
    }

    async fn read_document(
        &self,
        context: &ToolContext,
        meta: &DocumentMeta,
        text: &mut AddressedText,
    ) -> Result<()> {
        let document = get_one(&*context.ports.documents, &self.project, &meta.id).await?;
        let Some(document) = document else {
            // Another process may delete the file after the lookup.
            let message = format!("{} was just removed; repeat the request.", meta.id);
            return Err(Error::new(ErrorKind::NotFound, message).reference(text.id.as_str()));
        };
        text.version = document.version.to_string();
        document_text(&document)?.clone_into(&mut text.raw);
        Ok(())
    }
}

fn document_text(document: &Document) -> Result<&str> {
    document.text().map_err(|problem| {
        Error::new(ErrorKind::Unreadable, format!("{}: {problem}", document.id))
            .reference(&*document.id.name)
    })
}

fn docset_text(docset: &Docset) -> String {
    let mut lines = Vec::new();
    for text in [&docset.title, &docset.description].into_iter().flatten() {
        // On one line each, so that no line of them looks like another field.
        let words: Vec<&str> = text.split_whitespace().collect();
        lines.push(encode_line(&words.join(" ")).into_owned());
    }
    lines.extend(docset.version.as_ref().map(|version| format!("Version: {version}")));
    if !docset.aliases.is_empty() {
        lines.push(format!("Aliases: {}", docset.aliases.join(", ")));
    }
    lines.push(format!("Folder: {}", encode_line(&docset.local_path)));
    lines.push("search_docs returns how to search it.".to_owned());
    lines.join("\n")
}

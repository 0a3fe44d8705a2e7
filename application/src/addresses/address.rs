//! The address space: finds the document of each ID that the server prints, in all toolsets.
//!
//! A text is tried as backlog reference, entity ID or path, `section:index`, section key and
//! docset, in this order. `section:NAME` and `docset:NAME` are exact. Disabled toolsets are not
//! read.

use std::borrow::Cow;
use std::sync::Arc;

use reqlore_domain::backlog::reference::{ParsedReference, fold_look_alikes};
use reqlore_domain::backlog::{Deletion, ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{
    BACKLOG_FOLDER, Document, DocumentId, DocumentKind, DocumentMeta, backlog_folder_of,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::knowledge::is_entity_id;
use reqlore_domain::name_form::compose;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::record_list::{
    MAX_PAGE_ITEMS, RecordPage, RecordQuery, RecordSelection, UnreadFile,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::tombstone::parse_deletion;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::mentions::requirement_title;
use reqlore_domain::timestamp::Timestamp;

use crate::addresses::links;
use crate::addresses::links::SECTION_PREFIX;
use crate::answers::empty_answer::missing_reason;
use crate::backlog::arguments::not_found_error;
use crate::backlog::item_lookup::{BacklogReader, deletion_hint, deletion_text};
use crate::context::ToolContext;
use crate::docsets::LoadedConfig;
use crate::documents::get_one;
use crate::sections::stored_section;
use crate::writes::write_guard::FieldValue;

/// Maximum number of IDs that an error suggests, and of entities that are read for them, because
/// several may have one ID.
const MAX_SIMILAR_IDS: usize = 3;
const MAX_SIMILAR_ENTITIES: usize = 10;
const DOCSET_PREFIX: &str = "docset:";
/// The folder of entities, as in the paths that answers show.
const ENTITY_FOLDER: &str = ".ixchel/";

/// The document that an ID names.
#[derive(Debug)]
pub(crate) struct Address {
    /// Entities may be in a project above the caller's.
    pub(crate) project: ProjectKey,
    pub(crate) target: AddressTarget,
    /// Exact IDs of the other documents that the text names.
    pub(crate) others: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum AddressTarget {
    Item(Arc<DocumentMeta>),
    Entity(Arc<DocumentMeta>),
    Section(Arc<DocumentMeta>),
    /// One requirement of a section.
    Requirement {
        section: Arc<DocumentMeta>,
        document: Document,
        /// As spelled in the section.
        index: String,
    },
    Docset {
        configuration: Arc<LoadedConfig>,
        /// Not an alias.
        name: String,
    },
}

impl AddressTarget {
    /// The ID as answers print it.
    pub(crate) fn id(&self) -> Cow<'_, str> {
        match self {
            Self::Item(meta) | Self::Entity(meta) => {
                meta.reference().unwrap_or(Cow::Borrowed(&meta.id.name))
            }
            Self::Section(meta) => Cow::Borrowed(&meta.id.name),
            Self::Requirement { section, index, .. } => {
                format!("{}:{index}", section.id.name).into()
            }
            Self::Docset { name, .. } => Cow::Borrowed(name),
        }
    }

    /// The ID that names this document only, even if others have the same name.
    fn exact_id(&self) -> String {
        match self {
            Self::Item(_) => self.id().into_owned(),
            Self::Entity(meta) => meta.id.to_string(),
            Self::Section(_) | Self::Requirement { .. } => format!("{SECTION_PREFIX}{}", self.id()),
            Self::Docset { name, .. } => format!("{DOCSET_PREFIX}{name}"),
        }
    }

    /// `requirement`, `decision`, …
    pub(crate) fn kind(&self) -> &str {
        match self {
            Self::Item(meta) => meta.item.as_ref().map_or("item", |item| item.kind.name()),
            Self::Entity(meta) => meta.entity.as_ref().map_or("entity", |entity| &entity.kind),
            Self::Section(_) => "section",
            Self::Requirement { .. } => "section_requirement",
            Self::Docset { .. } => "docset",
        }
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Self::Item(meta) => {
                meta.item.as_ref().map_or_else(String::new, |item| item.title.clone())
            }
            Self::Entity(meta) => {
                meta.entity.as_ref().map_or_else(String::new, |entity| entity.title.clone())
            }
            Self::Section(meta) => meta.title.as_ref().unwrap_or(&meta.id.name).clone(),
            Self::Requirement { document, index, .. } => {
                let section = Section::parse(document.text().unwrap_or_default());
                section.find(index).map_or_else(String::new, |requirement| {
                    requirement_title(&section.text(requirement))
                })
            }
            Self::Docset { name, .. } => name.clone(),
        }
    }

    /// True for IDs of a form that no other name has: references, entity IDs and `section:index`.
    pub(crate) fn is_unmistakable(&self) -> bool {
        match self {
            Self::Item(_) | Self::Requirement { .. } => true,
            Self::Entity(_) => is_entity_id(&self.id()),
            Self::Section(_) | Self::Docset { .. } => false,
        }
    }

    /// The links of an entity as fields; none of another document.
    pub(crate) fn shown_links(&self, project: &str) -> Vec<FieldValue> {
        match self {
            Self::Entity(meta) => meta
                .entity
                .iter()
                .flat_map(|entity| FieldValue::of_links(project, &entity.id, &entity.links))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The document that holds the target.
    pub(crate) fn document_id(&self) -> DocumentId {
        match self {
            Self::Item(meta) | Self::Entity(meta) | Self::Section(meta) => meta.id.clone(),
            Self::Requirement { section, .. } => section.id.clone(),
            Self::Docset { .. } => DocumentId::docsets(),
        }
    }

    /// A sentence for a tool that does not take the target: the tool that changes or deletes it.
    pub(crate) fn right_tool(&self, is_deletion: bool) -> String {
        let subject = format!("{} is {}", self.id(), with_article(self.kind()));
        let tool = match self {
            Self::Item(_) | Self::Entity(_) if is_deletion => "delete_item deletes it",
            Self::Item(meta) | Self::Entity(meta) => {
                let tool = meta.item.as_ref().map(|item| item.kind.row().update_tool);
                return format!("{subject}; {} changes it", tool.unwrap_or("ixchel_update"));
            }
            Self::Requirement { .. } if is_deletion => "reqlix_delete_requirements deletes it",
            Self::Section(_) if is_deletion => {
                "reqlix_delete_requirements deletes its rules one by one"
            }
            Self::Requirement { .. } | Self::Section(_) => "reqlix_set_requirements changes it",
            Self::Docset { .. } => "only .knowledge/config.yaml defines it",
        };
        format!("{subject}; {tool}")
    }
}

pub(super) fn with_article(kind: &str) -> String {
    let noun = kind.replace('_', " ");
    match noun.chars().next() {
        // A plural.
        _ if noun == "acceptance criteria" => noun,
        Some('a' | 'e' | 'i' | 'o' | 'u') if noun != "user story" => format!("an {noun}"),
        _ => format!("a {noun}"),
    }
}

/// The documents that the IDs of one call may name.
pub(crate) struct AddressSpace<'a> {
    context: &'a ToolContext,
    caller: &'a Caller,
    /// The project of everything but entities.
    project: ProjectKey,
    entity_project: ProjectKey,
}

impl<'a> AddressSpace<'a> {
    /// The caller's own project.
    pub(crate) async fn of_caller(context: &'a ToolContext, caller: &'a Caller) -> Result<Self> {
        let mut space = Self::of_project(context, caller, caller.project.clone());
        if space.is_enabled(Toolset::Knowledge) {
            let projects = &context.ports.projects;
            space.entity_project = projects.resolve(caller, None, Toolset::Knowledge).await?;
        }
        Ok(space)
    }

    /// A project that the call names.
    pub(crate) fn of_project(
        context: &'a ToolContext,
        caller: &'a Caller,
        project: ProjectKey,
    ) -> Self {
        Self { context, caller, entity_project: project.clone(), project }
    }

    fn is_enabled(&self, toolset: Toolset) -> bool {
        self.context.ports.settings.toolsets.contains(&toolset)
    }

    /// Finds the document that a text names. An error carries the argument's name, `field`.
    pub(crate) async fn resolve(&self, text: &str, field: &str) -> Result<Address> {
        let found = self.find(text).await.map_err(|error| error.field(field))?;
        match found {
            Some(address) => Ok(address),
            None => Err(self.unknown_id(text).await?.field(field)),
        }
    }

    /// Like [`Self::resolve`], for tools that only read: also finds an ID with look-alikes of its
    /// characters, as models and editors write it.
    pub(crate) async fn resolve_folded(&self, text: &str, field: &str) -> Result<Address> {
        match (self.resolve(text, field).await, fold_look_alikes(text)) {
            (Err(error), Some(folded)) if error.kind == ErrorKind::NotFound => {
                self.resolve(&folded, field).await.or(Err(error))
            }
            (found, _) => found,
        }
    }

    /// Finds the document that a text names; `None` if there is none.
    ///
    /// Fails if several files have the ID, and for an item that was deleted.
    pub(crate) async fn find(&self, text: &str) -> Result<Option<Address>> {
        let text = text.trim();
        if let Some(target) = self.find_exact(text).await? {
            return Ok(Some(self.address(target, Vec::new())));
        }
        // A text that is the ID of several documents names the first of them.
        let mut matches = Vec::new();
        let mut problem = None;
        for found in [
            self.find_item(text).await,
            self.find_entity(text).await,
            self.find_requirement(text).await,
            self.find_section(text).await,
            self.find_docset(text).await,
        ] {
            match found {
                Ok(target) => matches.extend(target),
                // Kept, because another toolset may still have a document of this name.
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        if matches.is_empty() {
            if let Some(problem) = problem {
                return Err(problem);
            }
            matches.extend(self.find_spelling(text).await?);
        }
        let mut matches = matches.into_iter();
        let Some(target) = matches.next() else { return Ok(None) };
        let others = matches.map(|other| other.exact_id()).collect();
        Ok(Some(self.address(target, others)))
    }

    fn address(&self, target: AddressTarget, others: Vec<String>) -> Address {
        let project = match &target {
            AddressTarget::Entity(_) => &self.entity_project,
            _ => &self.project,
        };
        Address { project: project.clone(), target, others }
    }

    /// Finds `section:NAME`, `section:NAME:INDEX` and `docset:NAME`.
    async fn find_exact(&self, text: &str) -> Result<Option<AddressTarget>> {
        if let Some(name) = text.strip_prefix(SECTION_PREFIX) {
            if let Some(section) = self.find_section(name).await? {
                return Ok(Some(section));
            }
            return self.find_requirement(name).await;
        }
        match text.strip_prefix(DOCSET_PREFIX) {
            Some(name) => self.find_docset(name).await,
            None => Ok(None),
        }
    }

    async fn find_item(&self, text: &str) -> Result<Option<AddressTarget>> {
        if !self.is_enabled(Toolset::Backlog) {
            return Ok(None);
        }
        let backlog = BacklogReader { ports: &self.context.ports, project: &self.project };
        for kind in ItemKind::ALL {
            match Reference::parse_any_case(kind, text) {
                ParsedReference::Reference(reference) => {
                    return Ok(Some(AddressTarget::Item(backlog.find_item(reference).await?)));
                }
                // The form is valid, but no item can have this number.
                ParsedReference::TooLarge => return Err(not_found_error(kind, text)),
                ParsedReference::Malformed => {}
            }
        }
        let Some(path) = text.strip_prefix(BACKLOG_FOLDER) else { return Ok(None) };
        let name = file_stem(path);
        for kind in DocumentKind::ITEMS {
            if path.trim_start_matches('/').starts_with(backlog_folder_of(kind)) {
                return self.find_item_file(kind, name).await;
            }
        }
        Ok(None)
    }

    async fn find_item_file(
        &self,
        kind: DocumentKind,
        name: &str,
    ) -> Result<Option<AddressTarget>> {
        let found = self.lookup(&self.project, kind, &[name.to_owned()]).await?;
        Ok(found.into_iter().flatten().find(|meta| meta.id.name == name).map(AddressTarget::Item))
    }

    async fn find_entity(&self, text: &str) -> Result<Option<AddressTarget>> {
        if !self.is_enabled(Toolset::Knowledge) {
            return Ok(None);
        }
        let words = entity_words(text);
        let found = self.lookup(&self.entity_project, DocumentKind::Entity, &words).await?;
        for (word, metas) in words.iter().zip(found) {
            if !metas.is_empty() {
                return choose_entity(word, &metas).map(Some);
            }
        }
        Ok(None)
    }

    async fn find_section(&self, key: &str) -> Result<Option<AddressTarget>> {
        let Some(document) = self.section_document(key).await? else { return Ok(None) };
        // Links and title do not depend on the time.
        let meta = DocumentMeta::from_document(&document, Timestamp::default());
        Ok(Some(AddressTarget::Section(Arc::new(meta))))
    }

    /// Reads a section. Looking it up would inspect all sections.
    async fn section_document(&self, key: &str) -> Result<Option<Document>> {
        let id = DocumentId::section(key);
        if !self.is_enabled(Toolset::Sections) || id.check().is_err() {
            return Ok(None);
        }
        let id = stored_section(&self.context.ports, &self.project, id).await?;
        Ok(get_one(&*self.context.ports.documents, &self.project, &id).await?)
    }

    /// Finds `key:index`.
    async fn find_requirement(&self, text: &str) -> Result<Option<AddressTarget>> {
        let Some((key, index)) = text.rsplit_once(':') else { return Ok(None) };
        let Some(document) = self.section_document(key).await? else { return Ok(None) };
        // The problem of an unreadable section is reported for the section itself.
        let Ok(source) = document.text() else { return Ok(None) };
        let index = Section::parse(source).find(index).map(|found| found.index.to_owned());
        let meta = DocumentMeta::from_document(&document, Timestamp::default());
        let section = Arc::new(meta);
        Ok(index.map(|index| AddressTarget::Requirement { section, document, index }))
    }

    async fn find_docset(&self, name: &str) -> Result<Option<AddressTarget>> {
        if !self.is_enabled(Toolset::Docsets) || self.project != self.caller.project {
            return Ok(None);
        }
        let loaded = self.context.configurations.current_config(&self.context.ports, self.caller);
        // Without a usable configuration there are no docsets.
        let Ok(configuration) = loaded.await else { return Ok(None) };
        let name = configuration.configuration.find(name).map(|docset| docset.name.clone());
        Ok(name.map(|name| AddressTarget::Docset { configuration, name }))
    }

    /// Finds an entity by its ID in another case, and an item by its file's name. Slower than the
    /// other ways, so the last.
    async fn find_spelling(&self, text: &str) -> Result<Option<AddressTarget>> {
        // An exact ID has one spelling; the end of its name must not name an item.
        if [SECTION_PREFIX, DOCSET_PREFIX].iter().any(|prefix| text.starts_with(prefix)) {
            return Ok(None);
        }
        if self.is_enabled(Toolset::Knowledge) {
            let spelled = RecordSelection::Spelled(text.to_owned());
            let same = self.select_entities(spelled, MAX_PAGE_ITEMS).await?.metadata;
            if !same.is_empty() {
                return choose_entity(text, &same).map(Some);
            }
        }
        if self.is_enabled(Toolset::Backlog) {
            for kind in DocumentKind::ITEMS {
                if let Some(item) = self.find_item_file(kind, file_stem(text)).await? {
                    return Ok(Some(item));
                }
            }
        }
        Ok(None)
    }

    async fn select_entities(
        &self,
        selection: RecordSelection,
        limit: usize,
    ) -> Result<RecordPage> {
        let query = RecordQuery::select(DocumentKind::Entity, selection, limit);
        Ok(self.context.ports.documents.list(&self.entity_project, &query).await?)
    }

    async fn lookup(
        &self,
        project: &ProjectKey,
        kind: DocumentKind,
        words: &[String],
    ) -> Result<Vec<Vec<Arc<DocumentMeta>>>> {
        Ok(self.context.ports.documents.lookup(project, kind, words).await?)
    }

    /// Time and user of the deletion of an entity, and its hint; `None` without a tombstone.
    async fn find_deletion(&self, text: &str) -> Result<Option<(Deletion, String)>> {
        if !self.is_enabled(Toolset::Knowledge) {
            return Ok(None);
        }
        let words = entity_words(text);
        let found = self.lookup(&self.entity_project, DocumentKind::Deleted, &words).await?;
        for meta in found.iter().flatten().filter(|meta| meta.entity.is_some()) {
            let documents = &*self.context.ports.documents;
            let tombstone = get_one(documents, &self.entity_project, &meta.id).await?;
            let text = tombstone.as_ref().and_then(|tombstone| tombstone.text().ok());
            if let Some(text) = text
                && let Some(deletion) = parse_deletion(text)
            {
                let hint = deletion_hint(&deletion, text);
                return Ok(Some((deletion, hint)));
            }
        }
        Ok(None)
    }

    async fn unknown_id(&self, text: &str) -> Result<Error> {
        let shown = truncate_echo(text);
        let mut message = format!("Not found: {shown:?}");
        if let Some((deletion, hint)) = self.find_deletion(text).await? {
            message = format!("{message} (it was {})", deletion_text(&deletion));
            return Ok(Error::new(ErrorKind::NotFound, message).reference(shown).hint(hint));
        }
        let mut reason = None;
        if let Some(folded) = fold_look_alikes(text)
            && let Ok(Some(meant)) = self.find(&folded).await
        {
            message = format!("{message}; did you mean {}", meant.target.id());
        } else if self.is_enabled(Toolset::Knowledge) {
            let words = entity_words(text);
            let similar = RecordSelection::Similar(text.to_owned());
            let found = self.select_entities(similar, MAX_SIMILAR_ENTITIES).await?;
            let is_of_entity = |file: &&UnreadFile| words.iter().any(|word| file.may_contain(word));
            if let Some(file) = found.unread.iter().find(is_of_entity) {
                let hint = format!("{} {}", file.path, file.reason);
                let message = format!("{shown:?} cannot be read: {hint}");
                return Ok(Error::new(ErrorKind::Unreadable, message).reference(shown).hint(hint));
            }
            let mut similar: Vec<&str> = Vec::new();
            for entity in found.metadata.iter().filter_map(|meta| meta.entity.as_deref()) {
                if similar.len() < MAX_SIMILAR_IDS && !similar.contains(&&*entity.id) {
                    similar.push(&entity.id);
                }
            }
            let similar = similar.join(" or ");
            reason = self.missing_entity(text).await?;
            if reason.is_none() && !similar.is_empty() {
                message = format!("{message}; did you mean {similar}");
            }
        } else if is_entity_id(&text.to_lowercase()) {
            message.push_str("; this server runs without the knowledge graph (--toolsets)");
        }
        let hint = if self.is_enabled(Toolset::Backlog) {
            "search_global finds IDs such as REQ-047, dec-1d2c8f or general:2.1"
        } else if self.is_enabled(Toolset::Knowledge) {
            "ixchel_search finds IDs such as dec-1d2c8f"
        } else if self.is_enabled(Toolset::Sections) {
            "reqlix_get_requirements lists sections and their requirements"
        } else {
            "list_docsets lists docsets"
        };
        let reason = reason.map_or_else(String::new, |reason| format!(". {reason}"));
        let message = format!("{message}; {hint}{reason}");
        Ok(Error::new(ErrorKind::NotFound, message).reference(shown).hint(hint))
    }

    /// Returns why the knowledge graph misses an entity, if it is empty or a database has not
    /// imported the file.
    async fn missing_entity(&self, text: &str) -> Result<Option<String>> {
        let ports = &self.context.ports;
        let (project, kind) = (&self.entity_project, DocumentKind::Entity);
        if let Some(tree) = &ports.root_files {
            let found = tree.lookup(project, kind, &entity_words(text)).await?;
            if let Some(meta) = found.iter().flatten().next() {
                return Ok(Some(format!(
                    "The database has not imported {}; ixchel_sync imports it.",
                    meta.id
                )));
            }
        }
        if !is_entity_id(&text.to_lowercase()) && !text.contains('/') {
            return Ok(None);
        }
        missing_reason(ports, self.caller, project, &[kind]).await
    }
}

/// The words to look up for an entity.
pub(crate) fn entity_words(text: &str) -> Vec<String> {
    let mut words = vec![text.to_owned()];
    // Derived IDs are composed.
    let text = &*compose(text);
    words.push(text.to_owned());
    let path = text.rfind(ENTITY_FOLDER).map(|at| &text[at + ENTITY_FOLDER.len()..]);
    let path = path.unwrap_or(text);
    words.push(path.strip_suffix(".md").unwrap_or(path).to_owned());
    // IDs such as `dec-1d2c8f` have lower-case letters only.
    words.push(text.to_lowercase());
    words.dedup();
    words
}

/// Returns the entity that a word names, or the error for an ID of several files.
fn choose_entity(word: &str, metas: &[Arc<DocumentMeta>]) -> Result<AddressTarget> {
    // A single match needs no comparison, even if it is spelled differently.
    if let [meta] = metas {
        return Ok(AddressTarget::Entity(Arc::clone(meta)));
    }
    if let Some(meta) = links::unambiguous(word, metas) {
        return Ok(AddressTarget::Entity(Arc::clone(meta)));
    }
    let names: Vec<&str> = metas.iter().map(|meta| meta.id.name.as_str()).collect();
    let message = format!(
        "The id {word} is used by {} files: {}. Pass one of these names as the id, and correct the \
         ids of the others.",
        names.len(),
        names.join(", ")
    );
    Err(Error::new(ErrorKind::Refused, message).reference(word))
}

/// The name of a file without folders and `.md`.
fn file_stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.strip_suffix(".md").unwrap_or(name)
}

#[cfg(test)]
mod tests;

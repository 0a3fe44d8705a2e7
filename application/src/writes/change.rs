//! Changes of items and entities: decoded by a write tool, planned, and decided inside a commit.
//!
//! A single tool commits one change, `apply_changes` a list. Each change sees the earlier ones of
//! its commit, so the decision depends on [`CommitState`] alone and never on the order of lookups.

pub(crate) mod batch;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, Version, VersionPrefix,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{
    BacklinkQuery, DocumentChange, ReadSet, SharedMetadata, Snapshot,
};
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::instructions::SectionTitles;
use reqlore_domain::timestamp::Timestamp;

use self::batch::{BatchError, ChangeBatch, MergedReads};
use crate::ToolContext;
use crate::answers::answer::ToolAnswer;
use crate::sections::rule_change::{RenumberedRule, RuleEdits, WrittenRule};
use crate::tools::tool::Tool;
use crate::writes::pending_unlinks::PendingUnlinks;
use crate::writes::write_guard::CallGuard;

/// A tool that changes items or entities.
pub(crate) trait WriteTool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Validates the arguments of a call without reading documents. They may contain `names` where
    /// the tool expects IDs.
    fn decode(
        &self,
        call: &mut ToolCall,
        spec: &ToolSpec,
        names: &LocalNames,
    ) -> Result<Box<dyn Change>>;
}

#[async_trait]
impl<T: WriteTool> Tool for T {
    fn spec(&self) -> ToolSpec {
        WriteTool::spec(self)
    }

    async fn call(
        &self,
        context: &ToolContext,
        spec: &ToolSpec,
        mut call: ToolCall,
    ) -> Result<ToolAnswer> {
        // Without local names: a single change has no earlier entry.
        let change = self.decode(&mut call, spec, &LocalNames::default())?;
        let batch = ChangeBatch {
            reason: change.reason(),
            changes: vec![change],
            positions: vec![0],
            is_dry_run: false,
            expected: None,
        };
        let committed = batch.commit(context, &call, spec).await.map_err(BatchError::first)?;
        let Some(outcome) = committed.outcomes.into_iter().next() else {
            return Err(Error::new(ErrorKind::Internal, "The change has no outcome."));
        };
        let mut answer = (outcome.render)(&outcome.document)?;
        answer.add_notes(outcome.effects.notes);
        Ok(answer)
    }

    fn as_write_tool(&self) -> Option<&dyn WriteTool> {
        Some(self)
    }
}

/// A valid change, before its documents are looked up.
#[async_trait]
pub(crate) trait Change: Send + Sync {
    /// The reason in the log and the audit log if the change is committed alone.
    fn reason(&self) -> String;

    /// Warnings that need no documents.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// The project to change. All changes of a commit belong to one.
    async fn project(&self, _: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        Ok(caller.project.clone())
    }

    /// Looks up the documents that the decision needs. Called again if a decision finds the plan
    /// outdated.
    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>>;
}

/// The state that changes are planned with.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) tools: &'a ToolContext,
    pub(crate) project: &'a ProjectKey,
    /// Caller and time of the commit.
    pub(crate) write: &'a WriteContext,
    /// Of all plans of the commit.
    pub(crate) shared: &'a Mutex<SharedMetadata>,
}

impl PlanContext<'_> {
    /// Returns the metadata of all documents that link to a target of the query; a document may be
    /// in the list twice. Plans share it, because each keeps it until the commit.
    pub(crate) async fn backlinks(&self, query: &BacklinkQuery) -> Result<Vec<Arc<DocumentMeta>>> {
        let found = self.tools.ports.documents.backlinks(self.project, query).await?;
        let mut found = found.concat();
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).share(&mut found);
        Ok(found)
    }
}

/// A change with its looked-up documents.
pub(crate) trait ChangePlan: Send + Sync {
    /// Documents, backlinks and sequences that [`Self::decide`] reads.
    fn read_set(&self) -> ReadSet;

    /// Stages the change. `None` if the plan is outdated and must be made again. Pure, because a
    /// storage may repeat it.
    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>>;
}

/// The effect of a change on its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    /// An update without an effect.
    Keep,
    Relate,
    Delete,
}

/// Renders the reply of a single tool from the final document.
pub(crate) type RenderFn = Box<dyn FnOnce(&Document) -> Result<ToolAnswer> + Send>;

/// The result of [`ChangePlan::decide`].
pub(crate) struct Decision {
    pub(crate) action: Action,
    /// The document that the change is about; the tombstone of a deleted item.
    pub(crate) id: DocumentId,
    pub(crate) render: RenderFn,
}

/// The result of a committed change.
pub(crate) struct ChangeOutcome {
    pub(crate) action: Action,
    /// The document after all changes of the commit.
    pub(crate) document: Document,
    pub(crate) render: RenderFn,
    pub(crate) effects: ChangeEffects,
    /// The rule that the change is about.
    pub(crate) rule: Option<WrittenRule>,
}

/// Effects of a change besides its document.
#[derive(Debug, Default)]
pub(crate) struct ChangeEffects {
    /// Warnings.
    pub(crate) notes: Vec<String>,
    /// Further items that a deletion deletes.
    pub(crate) deleted: Vec<String>,
    /// Items that lost a relationship to a deleted one.
    pub(crate) unlinked: Vec<String>,
    /// As stored.
    pub(crate) rule_text: Option<String>,
}

/// The extent of a change to one document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    /// Creates or updates the document.
    Content,
    /// Only adds or removes relationships; several changes may do so.
    Links,
    Deletion,
}

/// The state of a commit: its snapshot with the changes that are decided so far.
pub(crate) struct CommitState<'a> {
    reads: &'a MergedReads,
    snapshot: &'a Snapshot,
    pub(crate) guard: &'a CallGuard,
    /// Position of the change that is being decided.
    entry: usize,
    /// In the order of their first decision.
    changes: Vec<StagedChange>,
    /// Positions in `changes`.
    positions: HashMap<DocumentId, usize>,
    /// Links to remove from documents before they are claimed or committed.
    unlinks: PendingUnlinks,
    /// Metadata of documents of the snapshot, which is derived once.
    snapshot_metas: HashMap<DocumentId, Arc<DocumentMeta>>,
    /// The first change of each document that later changes may conflict with.
    claims: HashMap<DocumentId, (usize, Claim)>,
    /// The documents that changes created, by the position of the change.
    created: HashMap<usize, DocumentId>,
    /// In the order of [`ReadSet::sequences`].
    next_numbers: Vec<u32>,
    /// By the position of the change.
    effects: HashMap<usize, ChangeEffects>,
    /// Stories that changes set to Done, by the position of the change.
    done_stories: Vec<(usize, Reference)>,
    rules: RuleEdits,
}

struct StagedChange {
    change: DocumentChange,
    /// Derived once, because each deletion of the commit reads it.
    meta: OnceCell<Arc<DocumentMeta>>,
}

impl StagedChange {
    /// The metadata of the changed document, without times, which do not matter to links.
    fn meta(&self, document: &Document) -> &Arc<DocumentMeta> {
        let derive = || Arc::new(DocumentMeta::from_document(document, Timestamp::default()));
        self.meta.get_or_init(derive)
    }
}

impl<'a> CommitState<'a> {
    fn new(reads: &'a MergedReads, snapshot: &'a Snapshot, guard: &'a CallGuard) -> Self {
        Self {
            reads,
            snapshot,
            guard,
            entry: 0,
            changes: Vec::new(),
            positions: HashMap::new(),
            unlinks: PendingUnlinks::default(),
            snapshot_metas: HashMap::new(),
            claims: HashMap::new(),
            created: HashMap::new(),
            next_numbers: snapshot.next_numbers.clone(),
            effects: HashMap::new(),
            done_stories: Vec::new(),
            rules: RuleEdits::default(),
        }
    }

    /// Adds a warning to the current change.
    pub(crate) fn add_note(&mut self, note: String) {
        self.effects.entry(self.entry).or_default().notes.push(note);
    }

    /// Refuses the current change, unless it has a version, if it replaces what its caller was not
    /// shown. `new` is `None` for a deletion; `named` is the version that `if_version` would have.
    pub(crate) fn check_shown(
        &mut self,
        if_version: Option<VersionPrefix>,
        current: &Document,
        new: Option<&Document>,
        named: Version,
    ) -> Result<()> {
        if if_version.is_none() {
            let note = self.guard.check(current, new, named)?;
            self.effects.entry(self.entry).or_default().notes.extend(note);
        }
        Ok(())
    }

    /// Reports the text of the rule that the current change wrote.
    pub(crate) fn report_rule(&mut self, text: String) {
        self.effects.entry(self.entry).or_default().rule_text = Some(text);
    }

    /// Reports the other items that the current deletion changes.
    pub(crate) fn report_deletion(&mut self, deleted: &[String], unlinked: &[String]) {
        let effects = self.effects.entry(self.entry).or_default();
        effects.deleted = deleted.to_vec();
        effects.unlinked = unlinked.to_vec();
    }

    /// Warns of Draft requirements of a story that the current change sets to Done. The backlinks
    /// of [`requirements_query`] must be read.
    pub(crate) fn report_done_story(&mut self, story: Reference) {
        self.done_stories.push((self.entry, story));
    }

    /// After all decisions, because a later change may set the requirements to Active.
    fn warn_of_drafts(&mut self) {
        for (entry, story) in mem::take(&mut self.done_stories) {
            let mut requirements = self.backlinks(&requirements_query(story));
            requirements.retain(|meta| {
                let item = meta.item.as_deref();
                item.is_some_and(|item| {
                    item.parent == Some(story) && item.status == Some(Status::Draft)
                })
            });
            let note = match requirements.len() {
                0 => continue,
                1 => format!("{story} is Done, but 1 requirement is Draft"),
                count => format!("{story} is Done, but {count} requirements are Draft"),
            };
            self.effects.entry(entry).or_default().notes.push(note);
        }
    }

    /// Changes the rules of a section by `edit`, which gets the position of the current change.
    pub(crate) fn edit_rules<T>(
        &mut self,
        edit: impl FnOnce(&mut RuleEdits, &mut Self, usize) -> Result<T>,
    ) -> Result<T> {
        let mut rules = mem::take(&mut self.rules);
        let entry = self.entry;
        let result = edit(&mut rules, self, entry);
        self.rules = rules;
        result
    }

    fn rule_results(&self) -> Result<(HashMap<usize, WrittenRule>, Vec<RenumberedRule>)> {
        self.rules.results(self)
    }

    /// The titles of all sections before the commit.
    pub(crate) fn section_titles(&self) -> &SectionTitles {
        &self.snapshot.titles
    }

    /// A document of the read set, or one that an earlier change wrote; `None` if it is missing or
    /// deleted.
    pub(crate) fn document(&self, id: &DocumentId) -> Option<&Document> {
        if let Some(position) = self.positions.get(id) {
            return match &self.changes[*position].change {
                DocumentChange::Put { document } => Some(document),
                DocumentChange::Delete { .. } => None,
            };
        }
        self.snapshot.documents.get(*self.reads.positions.get(id)?)?.as_ref()
    }

    /// The document that an earlier change created.
    pub(crate) fn created(&self, local: LocalItem) -> Result<&Document> {
        let document = self.created.get(&local.entry).and_then(|id| self.document(id));
        // A created item can be neither updated nor deleted in its own commit.
        document.ok_or_else(|| Error::new(ErrorKind::Internal, "A local name has no document."))
    }

    /// The name of a document in an error. A failed commit issues no reference, so a document that
    /// it creates is named by its entry.
    pub(crate) fn name_of<'n>(&self, id: &DocumentId, name: Cow<'n, str>) -> Cow<'n, str> {
        match self.created.iter().find(|(_, created)| *created == id) {
            Some((entry, _)) => format!("the item of entry {}", entry + 1).into(),
            None => name,
        }
    }

    pub(crate) fn is_changed(&self, id: &DocumentId) -> bool {
        self.positions.contains_key(id)
    }

    /// Reserves a document for the current change. Fails if an earlier change conflicts with it.
    pub(crate) fn claim(&mut self, id: &DocumentId, claim: Claim) -> Result<()> {
        // The change must see the document without the links that earlier changes removed.
        self.apply_unlinks(id)?;
        let Some((entry, earlier)) = self.claims.get(id).copied() else {
            self.claims.insert(id.clone(), (self.entry, claim));
            return Ok(());
        };
        match (earlier, claim) {
            // Relationships are merged with any other edit of the document.
            (Claim::Links | Claim::Content, Claim::Links) => {}
            // The stronger claim replaces the weaker one, so that a third change conflicts with it.
            (Claim::Links, Claim::Content) => {
                self.claims.insert(id.clone(), (self.entry, claim));
            }
            _ => {
                let name = match Reference::from_document(id) {
                    Some(reference) => reference.to_string(),
                    None => id.to_string(),
                };
                let message = format!(
                    "{name} is already changed by entry {}; change an item in one entry only",
                    entry + 1
                );
                return Err(Error::new(ErrorKind::Refused, message).reference(name));
            }
        }
        Ok(())
    }

    /// Stages a new document; later changes refer to it by the local name of this change.
    pub(crate) fn create(&mut self, document: Document) -> Result<()> {
        self.claim(&document.id, Claim::Content)?;
        self.created.insert(self.entry, document.id.clone());
        self.put(document);
        Ok(())
    }

    /// Stages the new content of a claimed document.
    pub(crate) fn put(&mut self, document: Document) {
        self.stage(DocumentChange::Put { document });
    }

    /// Stages the deletion of a claimed document.
    pub(crate) fn delete(&mut self, id: DocumentId) {
        self.stage(DocumentChange::Delete { id });
    }

    fn stage(&mut self, change: DocumentChange) {
        let staged = StagedChange { change, meta: OnceCell::new() };
        let id = staged.change.id();
        if let Some(position) = self.positions.get(id) {
            self.changes[*position] = staged;
        } else {
            self.positions.insert(id.clone(), self.changes.len());
            self.changes.push(staged);
        }
    }

    /// Removes the links of a document to these names. The document is not claimed, because other
    /// changes may edit it, and it is edited later, once for all changes. False if it has no such
    /// link or does not exist.
    pub(crate) fn unlink(
        &mut self,
        source: &Arc<DocumentMeta>,
        names: &[String],
        at: Timestamp,
    ) -> bool {
        let Some(document) = self.document(&source.id) else { return false };
        let document = document.clone();
        let added = self.unlinks.add(source, names, at);
        let meta = match self.positions.get(&source.id) {
            Some(position) => self.changes[*position].meta(&document),
            None => self.snapshot_metas.entry(document.id.clone()).or_insert_with(|| {
                Arc::new(DocumentMeta::from_document(&document, Timestamp::default()))
            }),
        };
        meta.links().iter().any(|(_, target)| added.iter().any(|name| name == target))
    }

    fn apply_unlinks(&mut self, source: &DocumentId) -> Result<()> {
        let Some(names) = self.unlinks.remove(source) else { return Ok(()) };
        let Some(document) = self.document(source) else { return Ok(()) };
        if let Some(unlinked) = names.unlink(document)? {
            self.put(unlinked);
        }
        Ok(())
    }

    fn apply_all_unlinks(&mut self) -> Result<()> {
        for source in self.unlinks.sources() {
            self.apply_unlinks(&source)?;
        }
        Ok(())
    }

    /// Issues the next reference of a kind, which must be in [`ReadSet::sequences`].
    pub(crate) fn issue_reference(&mut self, kind: ItemKind) -> Result<Reference> {
        let position = self.reads.set.sequences.iter().position(|sequence| *sequence == kind);
        let Some(next) = position.and_then(|position| self.next_numbers.get_mut(position)) else {
            return Err(Error::new(ErrorKind::Internal, "A sequence was not read."));
        };
        let number = *next;
        // A reference is never reused, so a full sequence stays full.
        if number > MAX_NUMBER {
            let message = format!(
                "{}: this is the highest possible reference; nothing was written",
                Reference { kind, number: MAX_NUMBER }
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        *next += 1;
        Ok(Reference { kind, number })
    }

    /// The metadata of all documents that link to one of the targets of a query.
    pub(crate) fn backlinks(&self, query: &BacklinkQuery) -> Vec<Arc<DocumentMeta>> {
        let mut backlinks = Vec::new();
        let read_targets = self.reads.set.backlinks.targets.iter();
        for (target, metas) in read_targets.zip(&self.snapshot.backlinks) {
            if !query.targets.contains(target) {
                continue;
            }
            for meta in metas {
                // The stored links of a changed document are outdated; its new ones follow below.
                if query.kinds.contains(&meta.id.kind) && !self.is_changed(&meta.id) {
                    backlinks.push(Arc::clone(meta));
                }
            }
        }
        for staged in &self.changes {
            let DocumentChange::Put { document } = &staged.change else { continue };
            if !query.kinds.contains(&document.id.kind) {
                continue;
            }
            let meta = staged.meta(document);
            if meta.links().iter().any(|(_, target)| query.targets.iter().any(|to| to == target)) {
                backlinks.push(Arc::clone(meta));
            }
        }
        backlinks
    }
}

/// The query for the requirements of a story.
pub(crate) fn requirements_query(story: Reference) -> BacklinkQuery {
    let kinds = vec![DocumentKind::Item(ItemKind::Requirement)];
    BacklinkQuery { kinds, targets: vec![story.to_string()] }
}

/// Local names of the documents that earlier entries of a call create, such as `$checkout`.
#[derive(Debug, Default)]
pub(crate) struct LocalNames {
    /// `None` for a tool that changes one document.
    items: Option<BTreeMap<String, LocalItem>>,
}

/// A document that an earlier entry of a call creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalItem {
    /// Position of the entry.
    pub(crate) entry: usize,
    pub(crate) kind: DocumentKind,
}

impl LocalNames {
    /// The names of a call whose entries may define some.
    pub(crate) fn of_call() -> Self {
        Self { items: Some(BTreeMap::new()) }
    }

    /// Gives a name to the document that an entry creates.
    pub(crate) fn define(&mut self, name: &str, item: LocalItem) -> Result<()> {
        let mut letters = name.chars();
        let is_valid = letters.next().is_some_and(|first| first.is_ascii_lowercase())
            && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c))
            && name.len() <= MAX_NAME_CHARS;
        let problem = if !is_valid {
            format!(
                "use a lower-case letter, then at most {} of a-z, 0-9, _, -",
                MAX_NAME_CHARS - 1
            )
        } else if let Some(earlier) = self.items.get_or_insert_default().get(name) {
            format!("entry {} has this name already; use another", earlier.entry + 1)
        } else {
            self.items.get_or_insert_default().insert(name.to_owned(), item);
            return Ok(());
        };
        let message = format!("name: {:?}: {problem}", truncate_echo(name));
        Err(Error::new(ErrorKind::InvalidArgument, message).field("name"))
    }

    /// The entry that has a name, which is given without `$`.
    pub(crate) fn entry_of(&self, name: &str) -> Option<usize> {
        Some(self.items.as_ref()?.get(name.trim())?.entry)
    }

    /// Finds the item that an ID argument means; `None` if the text is no local name.
    pub(crate) fn find(&self, text: &str, field: &str) -> Result<Option<LocalItem>> {
        let (Some(items), Some(name)) = (&self.items, text.trim().strip_prefix('$')) else {
            return Ok(None);
        };
        match items.get(name) {
            Some(item) if item.kind == DocumentKind::Section => {
                let message = format!(
                    "{field}: ${name} is a rule created by this call; refer to it in a later call"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, message).field(field));
            }
            Some(item) => return Ok(Some(*item)),
            None => {}
        }
        let known: Vec<&str> = items.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let message = format!(
            "{field}: no earlier entry has the name {:?}; known: {known}",
            truncate_echo(name)
        );
        Err(Error::new(ErrorKind::InvalidArgument, message).field(field))
    }
}

/// Maximum characters of a local name.
const MAX_NAME_CHARS: usize = 32;

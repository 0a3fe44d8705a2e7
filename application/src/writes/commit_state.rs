//! The state of a commit, which each change sees with the effects of the earlier ones.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::mem;
use std::slice;
use std::sync::Arc;

use reqlore_domain::backlog::reference::MAX_NUMBER;
use reqlore_domain::backlog::{ItemKind, Reference, Status};
use reqlore_domain::document::{
    Document, DocumentId, DocumentKind, DocumentMeta, Version, VersionPrefix,
};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::documents::{BacklinkQuery, DocumentChange, ReadSet, Snapshot};
use reqlore_domain::records::answers::applied_changes::RenumberedRule;
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::sections::instructions::SectionTitles;
use reqlore_domain::timestamp::Timestamp;

use crate::writes::local_names::LocalItem;
use crate::writes::pending_unlinks::PendingUnlinks;
use crate::writes::rule_edits::RuleEdits;
use crate::writes::write_guard::CallGuard;
use crate::writes::written_rule::WrittenRule;

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

/// A record of a commit, and the stored records that it supersedes.
pub(crate) struct Successor {
    pub(crate) id: DocumentId,
    pub(crate) superseded: Vec<Arc<DocumentMeta>>,
    pub(crate) schema: Arc<RecordSchema>,
    pub(crate) at: Timestamp,
}

/// The state of a commit: its snapshot with the changes that are decided so far.
pub(crate) struct CommitState<'a> {
    reads: &'a MergedReads,
    snapshot: &'a Snapshot,
    pub(crate) guard: &'a CallGuard,
    /// Position of the change that is being decided.
    pub(super) entry: usize,
    /// In the order of their first decision.
    pub(super) changes: Vec<StagedChange>,
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
    pub(super) effects: HashMap<usize, ChangeEffects>,
    /// Stories that changes set to Done, by the position of the change.
    done_stories: Vec<(usize, Reference)>,
    /// By the position of the change.
    pub(super) successors: Vec<(usize, Successor)>,
    rules: RuleEdits,
}

pub(super) struct StagedChange {
    pub(super) change: DocumentChange,
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
    pub(super) fn new(
        reads: &'a MergedReads,
        snapshot: &'a Snapshot,
        guard: &'a CallGuard,
    ) -> Self {
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
            successors: Vec::new(),
            rules: RuleEdits::default(),
        }
    }

    /// Adds warnings to the current change.
    pub(crate) fn add_notes(&mut self, notes: impl IntoIterator<Item = String>) {
        self.effects.entry(self.entry).or_default().notes.extend(notes);
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
            self.add_notes(note);
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

    /// The current change wrote a record that supersedes others, which must be in the read set.
    pub(crate) fn report_successor(&mut self, successor: Successor) {
        self.successors.push((self.entry, successor));
    }

    /// After all decisions, because a later change may set the requirements to Active.
    pub(super) fn warn_of_drafts(&mut self) {
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

    pub(super) fn rule_results(
        &self,
    ) -> Result<(HashMap<usize, WrittenRule>, Vec<RenumberedRule>)> {
        self.rules.results(|key| self.document(&DocumentId::section(key)))
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
        schema: &Arc<RecordSchema>,
        at: Timestamp,
    ) -> bool {
        let Some(document) = self.document(&source.id) else { return false };
        let document = document.clone();
        let added = self.unlinks.add(source, names, schema, at);
        let mut meta = Arc::clone(match self.positions.get(&source.id) {
            Some(position) => self.changes[*position].meta(&document),
            None => self.snapshot_metas.entry(document.id.clone()).or_insert_with(|| {
                Arc::new(DocumentMeta::from_document(&document, Timestamp::default()))
            }),
        });
        schema.remove_field_links(slice::from_mut(&mut meta));
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

    pub(super) fn apply_all_unlinks(&mut self) -> Result<()> {
        for source in self.unlinks.sources() {
            self.apply_unlinks(&source)?;
        }
        Ok(())
    }

    /// Issues a reference of a kind, which must be in [`ReadSet::sequences`]: the wanted one if it
    /// was never issued, else the next one.
    pub(crate) fn issue_reference(
        &mut self,
        kind: ItemKind,
        wanted: Option<Reference>,
    ) -> Result<Reference> {
        /// One import must not use up the numbers of a project.
        const MAX_SKIPPED: u32 = 1_000_000;
        let position = self.reads.set.sequences.iter().position(|sequence| *sequence == kind);
        let Some(next) = position.and_then(|position| self.next_numbers.get_mut(position)) else {
            return Err(Error::new(ErrorKind::Internal, "A sequence was not read."));
        };
        let (first, last) = (*next, next.saturating_add(MAX_SKIPPED));
        let wanted = wanted.map(|reference| reference.number);
        let number = wanted.filter(|number| (first..=last).contains(number)).unwrap_or(first);
        // A reference is never reused, so a full sequence stays full.
        if number > MAX_NUMBER {
            let message = format!(
                "{}: this is the highest possible reference; nothing was written",
                Reference { kind, number: MAX_NUMBER }
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        *next = number + 1;
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

/// The read sets of all plans of a commit.
#[derive(Default)]
pub(super) struct MergedReads {
    pub(super) set: ReadSet,
    /// Positions in [`ReadSet::documents`].
    positions: HashMap<DocumentId, usize>,
}

impl MergedReads {
    /// The documents that changes write, each with its state before.
    pub(super) fn written(
        &self,
        snapshot: &Snapshot,
        changes: &[DocumentChange],
    ) -> Vec<(Option<Document>, Document)> {
        let mut written = Vec::new();
        for change in changes {
            if let DocumentChange::Put { document } = change {
                let position = self.positions.get(&document.id);
                let before = position.and_then(|at| snapshot.documents.get(*at).cloned());
                written.push((before.flatten(), document.clone()));
            }
        }
        written
    }

    pub(super) fn add(&mut self, reads: ReadSet) {
        let ReadSet { documents, titles_of, backlinks, sequences } = reads;
        for id in documents {
            // A document is read once, so that all plans see the same version.
            let position = self.set.documents.len();
            self.positions.entry(id.clone()).or_insert_with(|| {
                self.set.documents.push(id);
                position
            });
        }
        push_missing(&mut self.set.backlinks.kinds, backlinks.kinds);
        push_missing(&mut self.set.backlinks.targets, backlinks.targets);
        push_missing(&mut self.set.sequences, sequences);
        // Only sections are read by their titles.
        self.set.titles_of = self.set.titles_of.or(titles_of);
    }
}

fn push_missing<T: PartialEq>(list: &mut Vec<T>, items: Vec<T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

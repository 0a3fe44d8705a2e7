//! Changes of rules in `apply_changes`, with the checks of the tools for one rule.
//!
//! Entries name rules by their index before the call, although earlier entries may renumber them.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{Document, DocumentId, Version, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::instructions::SectionTitles;
use reqlore_domain::sections::requirement_index::{RequirementIndex, SectionKey};
use reqlore_domain::sections::{MAX_REQUIREMENT_CHARS, Section};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ToolContext;
use crate::answers::answer::{ToolAnswer, reply};
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Action, Change, ChangePlan, CommitState, Decision, PlanContext};

type RuleText = BoundedString<MAX_REQUIREMENT_CHARS>;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateArguments {
    section: SectionKey,
    text: RuleText,
    index: Option<RequirementIndex>,
    if_version: Option<VersionPrefix>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UpdateArguments {
    section: SectionKey,
    index: RequirementIndex,
    text: RuleText,
    if_version: Option<VersionPrefix>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteArguments {
    section: SectionKey,
    index: RequirementIndex,
    if_version: Option<VersionPrefix>,
}

/// The operation of an entry about a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleOperation {
    Create,
    Update,
    Delete,
}

impl RuleOperation {
    /// The tool that does the same for one rule.
    pub(crate) fn tool(self) -> &'static str {
        match self {
            Self::Create | Self::Update => "reqlix_set_requirements",
            Self::Delete => "reqlix_delete_requirements",
        }
    }

    /// Validates the arguments of an entry.
    pub(crate) fn decode(self, call: &mut ToolCall) -> Result<Box<dyn Change>> {
        // Only for the names of the arguments in errors.
        static SPECS: LazyLock<[ToolSpec; 3]> = LazyLock::new(|| {
            [
                write_tool::<CreateArguments, ()>("create rule", "", ""),
                write_tool::<UpdateArguments, ()>("update of a rule", "", ""),
                write_tool::<DeleteArguments, ()>("delete of a rule", "", ""),
            ]
        });
        let [create, update, delete] = &*SPECS;
        // Required by the tool for one rule, and the same for all entries here.
        call.arguments.remove("operation_description");
        let root = match call.arguments.remove("project_root") {
            Some(Value::String(root)) => Some(root),
            _ => None,
        };
        let (section, edit, if_version) = match self {
            Self::Create => {
                // `reqlix_set_requirements` appends at this index.
                if call.arguments.get("index").is_some_and(|index| index == "new") {
                    call.arguments.remove("index");
                }
                let CreateArguments { section, text, index, if_version } =
                    decode_arguments(call, create)?;
                (section, RuleEdit::Create(index, text), if_version)
            }
            Self::Update => {
                let UpdateArguments { section, index, text, if_version } =
                    decode_arguments(call, update)?;
                (section, RuleEdit::Update(index, text), if_version)
            }
            Self::Delete => {
                let DeleteArguments { section, index, if_version } =
                    decode_arguments(call, delete)?;
                (section, RuleEdit::Delete(index), if_version)
            }
        };
        Ok(Box::new(RuleChange { root, section, edit, if_version }))
    }
}

/// Splits the address of a rule, such as `checkout:3`; `None` for any other text.
pub(crate) fn parse_address(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let text = text.strip_prefix(crate::addresses::address::SECTION_PREFIX).unwrap_or(text);
    let (section, index) = text.rsplit_once(':')?;
    RequirementIndex::try_from(index.to_owned()).ok()?;
    SectionKey::try_from(section.to_owned()).ok()?;
    Some((section, index))
}

#[derive(Clone)]
enum RuleEdit {
    /// Appends without an index.
    Create(Option<RequirementIndex>, RuleText),
    Update(RequirementIndex, RuleText),
    Delete(RequirementIndex),
}

#[derive(Clone)]
struct RuleChange {
    /// Names the project; `None` for that of the caller.
    root: Option<String>,
    section: SectionKey,
    edit: RuleEdit,
    if_version: Option<VersionPrefix>,
}

#[async_trait]
impl Change for RuleChange {
    fn reason(&self) -> String {
        format!("change rules of {}", self.section)
    }

    async fn project(&self, context: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        match &self.root {
            None => Ok(caller.project.clone()),
            Some(root) => {
                context.ports.projects.resolve(caller, Some(root), Toolset::Sections).await
            }
        }
    }

    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>> {
        let columns = context.tools.ports.settings.wrap_columns;
        Ok(Box::new(RulePlan { change: self.clone(), columns }))
    }
}

struct RulePlan {
    change: RuleChange,
    columns: usize,
}

impl ChangePlan for RulePlan {
    fn read_set(&self) -> ReadSet {
        super::write_read_set(&self.change.section)
    }

    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>> {
        let action = state.edit_rules(|rules, state, entry| {
            rules.apply(&self.change, self.columns, state, entry)
        })?;
        Ok(Some(Decision {
            action,
            // The section may be deleted, but the list of sections always exists afterwards.
            id: DocumentId::instructions(),
            render: Box::new(render_written),
        }))
    }
}

/// The answer of a change that is committed alone, which no tool does.
fn render_written(document: &Document) -> Result<ToolAnswer> {
    reply(format!("Changed {}", document.id), &document.version.to_string())
}

/// A rule that a change wrote or deleted.
#[derive(Debug, Clone)]
pub(crate) struct WrittenRule {
    /// Such as `checkout:3`, after all changes of the commit.
    pub(crate) address: String,
    /// Of the section; `None` if it was deleted.
    pub(crate) version: Option<Version>,
}

/// A rule whose address changed to keep the order of its section.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct RenumberedRule {
    pub(crate) from: String,
    pub(crate) to: String,
}

/// The changes of rules in a commit.
#[derive(Default)]
pub(crate) struct RuleEdits {
    sections: BTreeMap<String, SectionEdits>,
    /// Of all sections after the changes so far; `None` before the first one.
    titles: Option<SectionTitles>,
}

struct SectionEdits {
    /// The section before the commit.
    original: Option<Document>,
    /// The rules of the current text, in their order.
    rules: Vec<RuleOrigin>,
    /// The entries that changed rules, by the position of the rule before the commit.
    changed: HashMap<usize, usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleOrigin {
    /// Position before the commit.
    Stored(usize),
    /// The entry that created it.
    Created(usize),
}

impl RuleEdits {
    /// Stages a change of a rule.
    fn apply(
        &mut self,
        change: &RuleChange,
        columns: usize,
        state: &mut CommitState<'_>,
        entry: usize,
    ) -> Result<Action> {
        let key = &change.section;
        let id = DocumentId::section(key.as_str());
        let current = state.document(&id).cloned();
        let titles = self.titles.get_or_insert_with(|| state.section_titles().clone());
        if !self.sections.contains_key(key.as_str()) {
            let edits = SectionEdits::new(current.clone())?;
            self.sections.insert(key.as_str().to_owned(), edits);
        }
        let Some(edits) = self.sections.get_mut(key.as_str()) else {
            return Err(Error::new(ErrorKind::Internal, "A section has no edits."));
        };
        let original = edits.original.as_ref();
        super::check_version(change.if_version, original, key, change.index())?;
        if let (None, None, RuleEdit::Create(..)) = (original, &current, &change.edit) {
            super::check_new_section(key, titles)?;
        }
        let source = current.as_ref().map_or(Ok(""), super::editable_text)?;
        let outcome = edits.edit(change, source, columns, titles, entry)?;
        if let (None, RuleEdit::Update(index, _) | RuleEdit::Delete(index)) =
            (change.if_version, &change.edit)
        {
            let rule = (key, edits.original.as_ref());
            let new = outcome.text.as_deref();
            if let Some(note) = state.guard.check_rule(rule, index.as_str(), new)? {
                state.add_note(note);
            }
        }
        if let Some(text) = outcome.text {
            state.report_rule(text);
        }
        for warning in outcome.warnings {
            state.add_note(warning);
        }
        let document = outcome.body.map(|body| Document::new(id.clone(), body.into()));
        let is_unchanged = match (&document, &current) {
            (Some(document), Some(current)) => document.version == current.version,
            _ => false,
        };
        if document.is_some() {
            titles.entry(key.as_str().to_owned()).or_default();
        } else {
            titles.remove(key.as_str());
        }
        let remains = document.is_some();
        match document {
            // An unchanged section keeps its file and its modification time.
            Some(_) if is_unchanged => {}
            Some(document) => state.put(document),
            None => state.delete(id),
        }
        let snapshot = Snapshot {
            documents: vec![state.document(&DocumentId::instructions()).cloned(), None],
            titles: titles.clone(),
            ..Snapshot::default()
        };
        let (list, note) = super::section_list_change(&snapshot, key, remains)?;
        if let Some(note) = note {
            state.add_note(note);
        }
        if let Some(DocumentChange::Put { document }) = list {
            state.put(document);
        }
        Ok(if is_unchanged { Action::Keep } else { outcome.action })
    }

    /// Returns the rules that the changes wrote, by the position of the change, and the renumbered
    /// ones.
    pub(crate) fn results(
        &self,
        state: &CommitState<'_>,
    ) -> Result<(HashMap<usize, WrittenRule>, Vec<RenumberedRule>)> {
        let (mut written, mut renumbered) = (HashMap::new(), Vec::new());
        for (key, edits) in &self.sections {
            let document = state.document(&DocumentId::section(key.as_str()));
            let version = document.map(|document| document.version);
            let current = indices(document)?;
            let before = indices(edits.original.as_ref())?;
            for (position, entry) in &edits.changed {
                // Deleted, unless it is found below.
                let address = format!("{key}:{}", before[*position]);
                written.insert(*entry, WrittenRule { address, version });
            }
            for (origin, index) in edits.rules.iter().zip(current) {
                let to = format!("{key}:{index}");
                let entry = match origin {
                    RuleOrigin::Created(entry) => Some(entry),
                    RuleOrigin::Stored(position) => {
                        if before[*position] != index {
                            let from = format!("{key}:{}", before[*position]);
                            renumbered.push(RenumberedRule { from, to: to.clone() });
                        }
                        edits.changed.get(position)
                    }
                };
                if let Some(entry) = entry {
                    written.insert(*entry, WrittenRule { address: to, version });
                }
            }
        }
        Ok((written, renumbered))
    }
}

/// The result of a change of one rule.
struct EditOutcome {
    action: Action,
    /// `None` if the section is empty.
    body: Option<String>,
    /// As stored; `None` for a deletion.
    text: Option<String>,
    warnings: Vec<String>,
}

impl SectionEdits {
    fn new(original: Option<Document>) -> Result<Self> {
        let count = indices(original.as_ref())?.len();
        let rules = (0..count).map(RuleOrigin::Stored).collect();
        Ok(Self { original, rules, changed: HashMap::new() })
    }

    fn edit(
        &mut self,
        change: &RuleChange,
        source: &str,
        columns: usize,
        titles: &SectionTitles,
        entry: usize,
    ) -> Result<EditOutcome> {
        let key = &change.section;
        let section = Section::parse(source);
        let (action, set) = match &change.edit {
            RuleEdit::Create(None, text) => {
                let added = section.add(None, text.as_str(), columns)?;
                let error = || Error::new(ErrorKind::Internal, "A rule was not added.");
                (Action::Create, added.ok_or_else(error)?)
            }
            RuleEdit::Create(Some(index), text) => {
                if section.find(index.as_str()).is_some() {
                    let message = format!(
                        "index: {key}:{index} exists; send update to change it, or no index to \
                         append"
                    );
                    return Err(Error::new(ErrorKind::Refused, message).field("index"));
                }
                (Action::Create, section.set(index, text.as_str(), columns)?)
            }
            RuleEdit::Update(index, text) => {
                let position = self.claim(key, index, titles, entry)?;
                let index = current_index(&section, position)?;
                (Action::Update, section.set(&index, text.as_str(), columns)?)
            }
            RuleEdit::Delete(index) => {
                let position = self.claim(key, index, titles, entry)?;
                let index = current_index(&section, position)?;
                let Some(deleted) = section.delete(&index) else {
                    return Err(Error::new(ErrorKind::Internal, "A rule was not found again."));
                };
                self.rules.remove(position);
                let (body, warnings) = (deleted.body, Vec::new());
                return Ok(EditOutcome { action: Action::Delete, body, text: None, warnings });
            }
        };
        if action == Action::Create {
            let edited = Section::parse(&set.body);
            let position = edited.requirements().iter().position(|rule| rule.index == set.index);
            self.rules.insert(position.unwrap_or_default(), RuleOrigin::Created(entry));
        }
        Ok(EditOutcome {
            action,
            body: Some(set.body),
            text: Some(set.text),
            warnings: set.warnings,
        })
    }

    /// Finds a rule by its index before the commit, which one change may name. Returns its current
    /// position.
    fn claim(
        &mut self,
        key: &SectionKey,
        index: &RequirementIndex,
        titles: &SectionTitles,
        entry: usize,
    ) -> Result<usize> {
        let missing = |message: String, field: &str| {
            let error = Error::new(ErrorKind::NotFound, message).field(field);
            Err(error.reference(format!("{key}:{index}")))
        };
        let Some(original) = &self.original else {
            let keys: Vec<&str> = titles.keys().map(String::as_str).collect();
            let problem = super::existing_values(key.as_str(), "sections", &keys, keys.len());
            return missing(format!("section {problem}"), "section");
        };
        let section = Section::parse(super::editable_text(original)?);
        let rules = section.requirements();
        let found = section.find(index.as_str());
        let Some(position) = rules.iter().position(|rule| Some(rule) == found) else {
            let indices: Vec<&str> = rules.iter().map(|rule| rule.index).collect();
            let problem =
                super::existing_values(index.as_str(), "indices", &indices, indices.len());
            return missing(format!("{key}: rule {problem}"), "index");
        };
        if let Some(earlier) = self.changed.insert(position, entry) {
            let message = format!(
                "{key}:{index} is already changed by entry {}; change a rule in one entry only",
                earlier + 1
            );
            return Err(Error::new(ErrorKind::Refused, message));
        }
        let current = self.rules.iter().position(|rule| *rule == RuleOrigin::Stored(position));
        current.ok_or_else(|| Error::new(ErrorKind::Internal, "A rule has no position."))
    }
}

impl RuleChange {
    fn index(&self) -> Option<&str> {
        match &self.edit {
            RuleEdit::Create(index, _) => index.as_ref().map(RequirementIndex::as_str),
            RuleEdit::Update(index, _) | RuleEdit::Delete(index) => Some(index.as_str()),
        }
    }
}

/// The indices of a section as spelled, in the order of the file.
fn indices(section: Option<&Document>) -> Result<Vec<String>> {
    let source = section.map_or(Ok(""), super::editable_text)?;
    let section = Section::parse(source);
    Ok(section.requirements().iter().map(|rule| rule.index.to_owned()).collect())
}

fn current_index(section: &Section<'_>, position: usize) -> Result<RequirementIndex> {
    let index = section.requirements().get(position).map(|rule| rule.index.to_owned());
    let index = index.and_then(|index| RequirementIndex::try_from(index).ok());
    index.ok_or_else(|| Error::new(ErrorKind::Internal, "A rule has no index."))
}

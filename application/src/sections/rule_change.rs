//! Changes of rules in `apply_changes`, with the checks of the tools for one rule.
//!
//! Entries name rules by their index before the call, although earlier entries may renumber them.

use std::sync::LazyLock;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::{ToolCall, ToolSpec};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::requirement_index::{RequirementIndex, SectionKey};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::answers::answer::{ToolAnswer, text_answer};
use crate::context::ToolContext;
use crate::tools::tool::{decode_arguments, write_tool};
use crate::writes::change::{Action, Change, ChangePlan, Decision, PlanContext};
use crate::writes::commit_state::CommitState;
use crate::writes::rule_edits::{RuleEdit, RuleEdits, RuleText, SectionEdits};

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
    let text = text.strip_prefix(crate::addresses::links::SECTION_PREFIX).unwrap_or(text);
    let (section, index) = text.rsplit_once(':')?;
    RequirementIndex::try_from(index.to_owned()).ok()?;
    SectionKey::try_from(section.to_owned()).ok()?;
    Some((section, index))
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
            self.change.apply(rules, self.columns, state, entry)
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
    text_answer(format!("Changed {}", document.id), &document.version.to_string())
}

impl RuleChange {
    /// Stages a change of a rule.
    fn apply(
        &self,
        rules: &mut RuleEdits,
        columns: usize,
        state: &mut CommitState<'_>,
        entry: usize,
    ) -> Result<Action> {
        let key = &self.section;
        let action = match self.edit {
            RuleEdit::Create(..) => Action::Create,
            RuleEdit::Update(..) => Action::Update,
            RuleEdit::Delete(_) => Action::Delete,
        };
        let id = DocumentId::section(key.as_str());
        let current = state.document(&id).cloned();
        let titles = rules.titles.get_or_insert_with(|| state.section_titles().clone());
        if !rules.sections.contains_key(key.as_str()) {
            let edits = SectionEdits::new(current.clone())?;
            rules.sections.insert(key.as_str().to_owned(), edits);
        }
        let Some(edits) = rules.sections.get_mut(key.as_str()) else {
            return Err(Error::new(ErrorKind::Internal, "A section has no edits."));
        };
        let original = edits.original.as_ref();
        super::check_version(self.if_version, original, key, self.index())?;
        if let (None, None, RuleEdit::Create(..)) = (original, &current, &self.edit) {
            super::check_new_section(key, titles)?;
        }
        let source = current.as_ref().map_or(Ok(""), super::editable_text)?;
        let outcome = edits.edit((key, &self.edit), source, columns, titles, entry)?;
        if let (None, RuleEdit::Update(index, _) | RuleEdit::Delete(index)) =
            (self.if_version, &self.edit)
        {
            let rule = (key, edits.original.as_ref());
            let new = outcome.text.as_deref();
            let note = state.guard.check_rule(rule, index.as_str(), new)?;
            state.add_notes(note);
        }
        if let Some(text) = outcome.text {
            state.report_rule(text);
        }
        state.add_notes(outcome.warnings);
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
        state.add_notes(note);
        if let Some(DocumentChange::Put { document }) = list {
            state.put(document);
        }
        Ok(if is_unchanged { Action::Keep } else { action })
    }

    fn index(&self) -> Option<&str> {
        match &self.edit {
            RuleEdit::Create(index, _) => index.as_ref().map(RequirementIndex::as_str),
            RuleEdit::Update(index, _) | RuleEdit::Delete(index) => Some(index.as_str()),
        }
    }
}

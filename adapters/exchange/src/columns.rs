//! Guesses the field of a column by its heading, in English and German.

use std::collections::{HashMap, HashSet};

use reqlore_domain::backlog::fields::{RequirementType, find_by_name};
use reqlore_domain::ports::exchange::ImportMapping;
use reqlore_domain::records::answers::csv::{column_names, unmark};
use reqlore_domain::records::fields::IMPORTED_FROM;
use reqlore_domain::records::kinds::find_kind;

use crate::jira::JiraColumns;

/// The texts of a row, with its number as spreadsheets show it.
#[derive(Default)]
pub(crate) struct TableRow {
    pub(crate) number: u64,
    pub(crate) cells: Vec<String>,
}

/// The rows in which headings are found, below a title.
pub(crate) const HEADING_ROWS: usize = 20;
/// Maximum number of columns.
pub(crate) const MAX_COLUMNS: usize = 1_000;
/// Columns of our own CSV that are derived and not imported.
const DERIVED: [&str; 4] = ["done", "children", "updated_at", IMPORTED_FROM];

/// Headings by field, in lower case and without separators.
const HEADINGS: [(&str, &str); 16] = [
    (
        "id",
        "nr no nummer number key schlüssel kennung reqid requirementid anforderungsid issuekey \
         referenz reference",
    ),
    ("kind", "art itemtype issuetype vorgangstyp elementtyp"),
    (
        "title",
        "titel name summary zusammenfassung bezeichnung betreff subject überschrift \
         requirementtitle requirementname namederanforderung",
    ),
    (
        "text",
        "description beschreibung body inhalt anforderungstext details requirementtext \
         requirementdescription",
    ),
    ("status", "state zustand stand bearbeitungsstand"),
    ("priority", "prio priorität wichtigkeit dringlichkeit"),
    ("type", "typ anforderungsart requirementtype"),
    (
        "assignee",
        "zuständig verantwortlich verantwortlicher verantwortliche bearbeiter owner assignedto",
    ),
    ("tags", "tag labels label schlagworte schlagwort schlagwörter stichworte"),
    (
        "parent",
        "parentid parentkey epiclink customfieldepiclink parentissue übergeordnet gehörtzu \
         elternelement oberpunkt",
    ),
    ("epic", "epos epicname"),
    ("story", "userstory anwendergeschichte"),
    ("rank", "rang reihenfolge"),
    (
        "depends_on",
        "dependson abhängigvon hängtabvon setztvoraus blockedby dependencies inwardissuelinkblocks",
    ),
    ("blocks", "blockiert outwardissuelinkblocks"),
    ("relates_to", "relatesto relatedto outwardissuelinkrelates"),
];

/// German names of kinds, and types of issues in Jira.
const KINDS: [(&str, &str); 5] = [
    ("epic", "epos thema"),
    ("user_story", "anwendergeschichte geschichte task bug improvement newfeature"),
    ("requirement", "anforderung req subtask"),
    ("acceptance_criteria", "akzeptanzkriterium abnahmekriterium kriterium"),
    ("decision", "entscheidung"),
];

/// Priorities of Linear that have other names here.
const LINEAR_PRIORITIES: [(&str, &str); 2] = [("Urgent", "Critical"), ("No priority", "Medium")];

fn has_word(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

fn normalize(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The field of a heading: a built-in field, a custom field, a relation, or the heading itself.
pub(crate) fn guess_field(heading: &str, custom_fields: &[(String, String)]) -> String {
    let word = normalize(heading);
    for (name, label) in custom_fields {
        if normalize(name) == word || normalize(label) == word {
            return name.clone();
        }
    }
    for (field, headings) in HEADINGS {
        if normalize(field) == word || has_word(headings, &word) {
            return field.to_owned();
        }
    }
    heading.trim().to_owned()
}

/// True for the headings of our own CSV export. The columns after the built-in ones are extra keys,
/// relations and the text.
pub(crate) fn is_own_export(headings: &[String]) -> bool {
    let names = column_names();
    headings.get(..names.len()).is_some_and(|first| first == names)
}

/// The heading and field of each column; the mapping gets the guessed ones.
pub(crate) fn find_columns(
    headings: &[String],
    sample: &[TableRow],
    mapping: &mut ImportMapping,
) -> Result<Vec<(String, String)>, String> {
    if headings.len() > MAX_COLUMNS {
        return Err(format!(
            ": row 1: it has {} columns; at most {MAX_COLUMNS} are allowed",
            headings.len()
        ));
    }
    let is_own = is_own_export(headings);
    let mut columns: Vec<(String, String)> = Vec::new();
    let (mut names, mut counts) = (HashSet::new(), HashMap::new());
    for (index, heading) in headings.iter().enumerate() {
        let heading = unmark(heading.trim());
        let first_name =
            if heading.is_empty() { format!("column {}", index + 1) } else { heading.to_owned() };
        // Jira repeats a heading for each value of a list.
        let (mut name, number) =
            (first_name.clone(), counts.entry(first_name.clone()).or_insert(1));
        while !names.insert(name.clone()) {
            *number += 1;
            name = format!("{first_name} {number}");
        }
        let field = match mapping.columns.get(&name) {
            Some(field) => field.clone(),
            None if is_own => name.clone(),
            None => guess_field(&first_name, &mapping.custom_fields),
        };
        columns.push((name, field));
    }
    let is_jira = JiraColumns::find(headings).is_some();
    let has_keys = headings.iter().any(|heading| heading == "Parent key");
    let has =
        |columns: &[(String, String)], field: &str| columns.iter().any(|(_, one)| one == field);
    for (index, (heading, _)) in columns.clone().iter().enumerate() {
        let is_given = mapping.columns.contains_key(heading);
        let field = &columns[index].1;
        let guessed = match &**field {
            _ if is_given => continue,
            field if DERIVED.contains(&field) && heading == field => "",
            _ if is_own => continue,
            // It is a kind of item in many tools.
            "type" if !has(&columns, "kind") && has_kinds(sample, index) => "kind",
            // In Jira, these are internal numbers.
            "parent" if is_jira && has_keys && matches!(&**heading, "Parent" | "Parent id") => {
                heading.as_str()
            }
            "Anforderung" | "Requirement" | "requirement" if !has(&columns, "title") => "title",
            "Project" | "Projekt" if !has(&columns, "epic") => "epic",
            _ => continue,
        };
        let guessed = guessed.to_owned();
        columns[index].1 = guessed;
    }
    mapping.columns.extend(columns.iter().cloned());
    if headings.iter().any(|heading| heading == "Cycle Number") {
        let values = mapping.values.entry("priority".to_owned()).or_default();
        for (word, name) in LINEAR_PRIORITIES {
            values.entry(word.to_owned()).or_insert_with(|| name.to_owned());
        }
    }
    Ok(columns)
}

/// True for a column with kinds of items and without types of requirements.
fn has_kinds(sample: &[TableRow], index: usize) -> bool {
    let cells = || sample.iter().filter_map(|row| row.cells.get(index));
    let is_type = |cell: &String| find_by_name(&RequirementType::NAMES, |one| one, cell).is_some();
    cells().any(|cell| kind_of(cell).is_some()) && !cells().any(is_type)
}

/// The kind that a word names; `None` if it names none.
pub(crate) fn kind_of(word: &str) -> Option<&'static str> {
    if let Some(kind) = find_kind(word) {
        return Some(kind.name);
    }
    let word = normalize(word);
    let found = KINDS.iter().find(|(_, words)| has_word(words, &word));
    found.map(|(kind, _)| *kind)
}

//! Guesses the field of a column by its heading, in English and German.

use reqlore_domain::records::fields::IMPORTED_FROM;
use reqlore_domain::records::kinds::find_kind;

/// The columns of our own CSV files whose values follow from others.
pub(crate) const DERIVED: [&str; 4] = ["done", "children", "updated_at", IMPORTED_FROM];

/// Headings by field, in lower case and without separators.
const HEADINGS: [(&str, &[&str]); 14] = [
    (
        "id",
        &[
            "nr",
            "no",
            "nummer",
            "number",
            "key",
            "schlüssel",
            "kennung",
            "reqid",
            "issuekey",
            "referenz",
            "reference",
        ],
    ),
    ("kind", &["art", "itemtype", "issuetype", "vorgangstyp", "elementtyp"]),
    (
        "title",
        &[
            "titel",
            "name",
            "summary",
            "zusammenfassung",
            "bezeichnung",
            "betreff",
            "subject",
            "überschrift",
        ],
    ),
    ("text", &["description", "beschreibung", "body", "inhalt", "anforderungstext", "details"]),
    ("status", &["state", "zustand", "stand", "bearbeitungsstand"]),
    ("priority", &["prio", "priorität", "wichtigkeit", "dringlichkeit"]),
    ("type", &["typ", "anforderungsart", "requirementtype"]),
    (
        "assignee",
        &[
            "zuständig",
            "verantwortlich",
            "verantwortlicher",
            "verantwortliche",
            "bearbeiter",
            "owner",
            "assignedto",
        ],
    ),
    (
        "tags",
        &["tag", "labels", "label", "schlagworte", "schlagwort", "schlagwörter", "stichworte"],
    ),
    ("parent", &["parentid", "übergeordnet", "gehörtzu", "elternelement", "oberpunkt"]),
    ("epic", &["epos", "epicname", "epiclink"]),
    ("story", &["userstory", "anwendergeschichte"]),
    ("rank", &["rang", "reihenfolge"]),
    ("depends_on", &["dependson", "abhängigvon", "hängtabvon", "setztvoraus", "dependencies"]),
];

/// German names of kinds.
const KINDS: [(&str, &[&str]); 5] = [
    ("epic", &["epos", "thema"]),
    ("user_story", &["anwendergeschichte", "geschichte"]),
    ("requirement", &["anforderung", "req"]),
    ("acceptance_criteria", &["akzeptanzkriterium", "abnahmekriterium", "kriterium"]),
    ("decision", &["entscheidung"]),
];

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
        if normalize(field) == word || headings.contains(&&*word) {
            return field.to_owned();
        }
    }
    heading.trim().to_owned()
}

/// The kind that a word names; `None` if it names none.
pub(crate) fn kind_of(word: &str) -> Option<&'static str> {
    if let Some(kind) = find_kind(word) {
        return Some(kind.name);
    }
    let word = normalize(word);
    let found = KINDS.iter().find(|(_, words)| words.contains(&&*word));
    found.map(|(kind, _)| *kind)
}

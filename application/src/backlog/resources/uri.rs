//! URIs of the backlog, read exactly: what is not one of the forms below is an error that names
//! them. Nothing is ever fetched.

use reqlore_domain::backlog::reference::Reading;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::TemplateSpec;

use crate::backlog::arguments::not_found;

/// Everything here is JSON.
pub(super) const JSON: &str = "application/json";

/// The variable of every template.
pub(super) const VARIABLE: &str = "reference";

/// What a URI stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Uri {
    Item(Reference, View),
    Collection(Collection),
}

/// What is shown of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Item,
    Hierarchy,
    /// The children of a kind, whole.
    Children(ItemKind),
    Relationships,
}

impl View {
    fn suffix(self) -> &'static str {
        match self {
            Self::Item => "",
            Self::Hierarchy => "/hierarchy",
            Self::Children(ItemKind::Epic) => "/epics",
            Self::Children(ItemKind::UserStory) => "/user-stories",
            Self::Children(ItemKind::Requirement) => "/requirements",
            Self::Children(ItemKind::AcceptanceCriteria) => "/acceptance-criteria",
            Self::Relationships => "/relationships",
        }
    }
}

/// What there is of a kind in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Collection {
    Epics,
    UserStories,
    Requirements,
    RequirementTypes,
    RelationshipTypes,
}

impl Collection {
    pub(super) const ALL: [Self; 5] = [
        Self::Epics,
        Self::UserStories,
        Self::Requirements,
        Self::RequirementTypes,
        Self::RelationshipTypes,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Epics => "epics",
            Self::UserStories => "user-stories",
            Self::Requirements => "requirements",
            Self::RequirementTypes => "requirements-types",
            Self::RelationshipTypes => "relationship-types",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Epics => "Epics",
            Self::UserStories => "User stories",
            Self::Requirements => "Requirements",
            Self::RequirementTypes => "Requirement types",
            Self::RelationshipTypes => "Relationship types",
        }
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::Epics => "All epics of the project, the most urgent first",
            Self::UserStories => "All user stories of the project, the most urgent first",
            Self::Requirements => "All requirements of the project, the most urgent first",
            Self::RequirementTypes => "The types that a requirement can have, and what each means",
            Self::RelationshipTypes => {
                "How one requirement can relate to another, and what each type means"
            }
        }
    }

    pub(super) fn uri(self) -> String {
        format!("{COLLECTIONS}{}", self.name())
    }
}

const COLLECTIONS: &str = "requirements://";

/// One form of URIs: whose items, what of them, and the words for clients.
pub(crate) struct Form {
    pub(super) kind: ItemKind,
    pub(super) view: View,
    pub(crate) spec: TemplateSpec,
}

impl Form {
    const fn new(kind: ItemKind, view: View, words: [&'static str; 4]) -> Self {
        let [uri_template, name, title, description] = words;
        let spec = TemplateSpec { uri_template, name, title, description, mime_type: JSON };
        Self { kind, view, spec }
    }
}

/// All forms of items' URIs.
pub(crate) static TEMPLATES: [Form; 9] = [
    Form::new(
        ItemKind::Epic,
        View::Item,
        ["epic://{reference}", "epic", "Epic", "An epic like EP-001, with its user stories"],
    ),
    Form::new(
        ItemKind::Epic,
        View::Hierarchy,
        [
            "epic://{reference}/hierarchy",
            "epic-hierarchy",
            "Hierarchy of an epic",
            "An epic like EP-001 with its user stories, and the requirements and acceptance \
             criteria of each",
        ],
    ),
    Form::new(
        ItemKind::Epic,
        View::Children(ItemKind::UserStory),
        [
            "epic://{reference}/user-stories",
            "epic-user-stories",
            "User stories of an epic",
            "The user stories of an epic like EP-001, with their whole text",
        ],
    ),
    Form::new(
        ItemKind::UserStory,
        View::Item,
        [
            "user-story://{reference}",
            "user-story",
            "User story",
            "A user story like US-001, with its requirements and acceptance criteria",
        ],
    ),
    Form::new(
        ItemKind::UserStory,
        View::Children(ItemKind::Requirement),
        [
            "user-story://{reference}/requirements",
            "user-story-requirements",
            "Requirements of a user story",
            "The requirements of a user story like US-001, with their whole text",
        ],
    ),
    Form::new(
        ItemKind::UserStory,
        View::Children(ItemKind::AcceptanceCriteria),
        [
            "user-story://{reference}/acceptance-criteria",
            "user-story-acceptance-criteria",
            "Acceptance criteria of a user story",
            "The acceptance criteria of a user story like US-001, with their whole text",
        ],
    ),
    Form::new(
        ItemKind::Requirement,
        View::Item,
        [
            "requirement://{reference}",
            "requirement",
            "Requirement",
            "A requirement like REQ-001, with its relationships and links",
        ],
    ),
    Form::new(
        ItemKind::Requirement,
        View::Relationships,
        [
            "requirement://{reference}/relationships",
            "requirement-relationships",
            "Relationships of a requirement",
            "How a requirement like REQ-001 relates to others, in both directions",
        ],
    ),
    Form::new(
        ItemKind::AcceptanceCriteria,
        View::Item,
        [
            "acceptance-criteria://{reference}",
            "acceptance-criteria",
            "Acceptance criteria",
            "Acceptance criteria like AC-001 of a user story",
        ],
    ),
];

/// What URIs of items of this kind begin with.
fn scheme(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Epic => "epic://",
        ItemKind::UserStory => "user-story://",
        ItemKind::Requirement => "requirement://",
        ItemKind::AcceptanceCriteria => "acceptance-criteria://",
    }
}

/// The one spelling of a URI.
pub(crate) fn uri(reference: Reference, view: View) -> String {
    format!("{}{reference}{}", scheme(reference.kind), view.suffix())
}

/// Reads a URI, or says which there are.
pub(super) fn read(text: &str) -> Result<Uri> {
    let collection = Collection::ALL
        .into_iter()
        .find(|found| text.strip_prefix(COLLECTIONS).is_some_and(|name| name == found.name()));
    if let Some(collection) = collection {
        return Ok(Uri::Collection(collection));
    }
    for form in &TEMPLATES {
        let rest = text.strip_prefix(scheme(form.kind));
        let given = rest.and_then(|rest| rest.strip_suffix(form.view.suffix()));
        match given.map(|given| (given, Reference::read(form.kind, given))) {
            Some((_, Reading::Reference(reference))) => return Ok(Uri::Item(reference, form.view)),
            Some((given, Reading::TooLarge)) => return Err(not_found(form.kind, given)),
            Some((_, Reading::Malformed)) | None => {}
        }
    }
    Err(unknown(text))
}

fn unknown(text: &str) -> Error {
    let shown: String = text.chars().take(100).collect();
    let first = |kind: ItemKind| Reference { kind, number: 1 };
    let forms = TEMPLATES.iter().map(|form| uri(first(form.kind), form.view));
    let forms: Vec<String> = forms.chain(Collection::ALL.map(Collection::uri)).collect();
    let hint = format!("the forms are: {}", forms.join(", "));
    let message = format!("There is no resource of the form {shown:?}; {hint}.");
    Error::new(ErrorKind::InvalidArgument, message).field("uri").reference(shown).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S5: 6.1, 6.5
    #[test]
    fn the_parser_and_the_templates_tell_the_same_forms() {
        for form in &TEMPLATES {
            let reference = Reference { kind: form.kind, number: 47 };
            let printed = uri(reference, form.view);
            let template = form.spec.uri_template.replace("{reference}", &reference.to_string());
            assert_eq!(printed, template);
            assert_eq!(read(&printed).unwrap(), Uri::Item(reference, form.view), "{printed}");
            let short = printed.replace("047", "47");
            assert_eq!(read(&short).unwrap(), Uri::Item(reference, form.view), "{short}");
        }
        for collection in Collection::ALL {
            assert_eq!(read(&collection.uri()).unwrap(), Uri::Collection(collection));
        }
    }

    // S5: 6.1, 6.7; catalogue 40
    #[test]
    fn any_other_text_is_refused_with_the_forms_that_exist() {
        let all = "\
            |epic|epic://|epic://../1|epic://1/hierarchy/..|epic://EP-001/hierarchy/..|\
            epic://EP-001/..|epic://EP-001/|epic://EP-001//hierarchy|\
            epic://EP-001/Hierarchy|epic://EP-001/requirements|\
            epic://EP-001/relationships|epic://EP-001/hierarchy/hierarchy|EPIC://1|\
            EPIC://EP-001|Epic://EP-001|epic:EP-001|epic:/EP-001|epic:///EP-001|epic://1|\
            epic://1?x|epic://EP-001?x|epic://1#f|epic://EP-001#f|epic://user@1|\
            epic://user@EP-001|epic://EP-001:80|epic://ep-001|epic://EP%2D001|\
            epic://EP-\u{661}| epic://EP-001|epic://EP-001 |epic://EP-001\n|\
            epic://EP-001\0|epic://US-001|user-story://EP-001|user_story://US-001|\
            requirement://REQ-001/hierarchy|requirement://epics|\
            acceptance-criteria://AC-001/requirements|requirements://|\
            requirements://Epics|requirements://epics/|requirements://epics?limit=1|\
            requirements://REQ-001|requirements://acceptance-criteria|file:///etc/passwd|\
            http://127.0.0.1/|javascript:alert(1)";
        for wrong in all.split('|') {
            let error = read(wrong).expect_err(wrong);
            assert_eq!(error.kind, ErrorKind::InvalidArgument, "{wrong:?}");
            assert_eq!(error.field.as_deref(), Some("uri"), "{wrong:?}");
            for form in ["epic://EP-001/hierarchy", "requirements://requirements-types"] {
                assert!(error.message.contains(form), "{wrong:?}: {}", error.message);
            }
        }
        let long = read(&format!("epic://{}", "x".repeat(100_000))).unwrap_err();
        assert!(long.message.len() < 1_000, "{}", long.message.len());
    }

    // S5: 6.4
    #[test]
    fn a_number_that_no_item_has_is_not_found() {
        let error = read("epic://EP-99999999999/hierarchy").unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.message, "Epic not found: EP-99999999999");
    }
}

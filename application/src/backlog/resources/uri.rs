//! URIs of the backlog's resources. A text that does not match a form exactly is an error that
//! lists the forms. The server never fetches a URI.

use reqlore_domain::backlog::reference::ParsedReference;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::service::TemplateSpec;

use crate::backlog::arguments::not_found_error;

pub(super) const JSON: &str = "application/json";

/// The variable in each template.
pub(super) const VARIABLE: &str = "reference";
const PLACEHOLDER: &str = "{reference}";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResourceUri {
    Item(Reference, ItemView),
    Collection(&'static ProjectCollection),
}

/// The part of an item that a resource shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemView {
    Item,
    Hierarchy,
    /// The children of a kind as full records.
    Children(ItemKind),
    Relationships,
}

/// A resource about the whole project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProjectCollection {
    pub(super) contents: CollectionContents,
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) description: &'static str,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CollectionContents {
    /// All items of a kind, and the hint for a list that is cut.
    Items(ItemKind, &'static str),
    RequirementTypes,
    RelationshipTypes,
}

impl ProjectCollection {
    pub(super) fn uri(&self) -> String {
        format!("{COLLECTION_SCHEME}{}", self.name)
    }
}

const COLLECTION_SCHEME: &str = "requirements://";

pub(super) static COLLECTIONS: [ProjectCollection; 5] = [
    ProjectCollection {
        contents: CollectionContents::Items(
            ItemKind::Epic,
            "list_epics returns all in pages, search_global searches them",
        ),
        name: "epics",
        title: "Epics",
        description: "All epics of the project, by priority",
    },
    ProjectCollection {
        contents: CollectionContents::Items(
            ItemKind::UserStory,
            "read the stories of one epic, such as epic://EP-001/user-stories, or use \
             search_global",
        ),
        name: "user-stories",
        title: "User stories",
        description: "All user stories of the project, by priority",
    },
    ProjectCollection {
        contents: CollectionContents::Items(
            ItemKind::Requirement,
            "use search_requirements, or read the requirements of one story, such as \
             user-story://US-001/requirements",
        ),
        name: "requirements",
        title: "Requirements",
        description: "All requirements of the project, by priority",
    },
    ProjectCollection {
        contents: CollectionContents::RequirementTypes,
        name: "requirements-types",
        title: "Requirement types",
        description: "The types of requirements and their meanings",
    },
    ProjectCollection {
        contents: CollectionContents::RelationshipTypes,
        name: "relationship-types",
        title: "Relationship types",
        description: "The types of relationships between requirements and their meanings",
    },
];

/// A form of item URIs.
pub(crate) struct UriForm {
    pub(super) kind: ItemKind,
    pub(super) view: ItemView,
    pub(crate) spec: TemplateSpec,
}

impl UriForm {
    const fn new(kind: ItemKind, view: ItemView, texts: [&'static str; 4]) -> Self {
        let [uri_template, name, title, description] = texts;
        let spec = TemplateSpec { uri_template, name, title, description, mime_type: JSON };
        Self { kind, view, spec }
    }
}

pub(crate) static TEMPLATES: [UriForm; 9] = [
    UriForm::new(
        ItemKind::Epic,
        ItemView::Item,
        ["epic://{reference}", "epic", "Epic", "An epic such as EP-001, with its user stories"],
    ),
    UriForm::new(
        ItemKind::Epic,
        ItemView::Hierarchy,
        [
            "epic://{reference}/hierarchy",
            "epic-hierarchy",
            "Hierarchy of an epic",
            "An epic such as EP-001 with its user stories, and the requirements and acceptance \
             criteria of each",
        ],
    ),
    UriForm::new(
        ItemKind::Epic,
        ItemView::Children(ItemKind::UserStory),
        [
            "epic://{reference}/user-stories",
            "epic-user-stories",
            "User stories of an epic",
            "The user stories of an epic such as EP-001, with full texts",
        ],
    ),
    UriForm::new(
        ItemKind::UserStory,
        ItemView::Item,
        [
            "user-story://{reference}",
            "user-story",
            "User story",
            "A user story such as US-001, with its requirements and acceptance criteria",
        ],
    ),
    UriForm::new(
        ItemKind::UserStory,
        ItemView::Children(ItemKind::Requirement),
        [
            "user-story://{reference}/requirements",
            "user-story-requirements",
            "Requirements of a user story",
            "The requirements of a user story such as US-001, with full texts",
        ],
    ),
    UriForm::new(
        ItemKind::UserStory,
        ItemView::Children(ItemKind::AcceptanceCriteria),
        [
            "user-story://{reference}/acceptance-criteria",
            "user-story-acceptance-criteria",
            "Acceptance criteria of a user story",
            "The acceptance criteria of a user story such as US-001, with full texts",
        ],
    ),
    UriForm::new(
        ItemKind::Requirement,
        ItemView::Item,
        [
            "requirement://{reference}",
            "requirement",
            "Requirement",
            "A requirement such as REQ-001, with its relationships and links",
        ],
    ),
    UriForm::new(
        ItemKind::Requirement,
        ItemView::Relationships,
        [
            "requirement://{reference}/relationships",
            "requirement-relationships",
            "Relationships of a requirement",
            "The relationships of a requirement such as REQ-001, in both directions",
        ],
    ),
    UriForm::new(
        ItemKind::AcceptanceCriteria,
        ItemView::Item,
        [
            "acceptance-criteria://{reference}",
            "acceptance-criteria",
            "Acceptance criteria",
            "An acceptance criterion such as AC-001",
        ],
    ),
];

/// The URI of an item's view; empty if its kind does not have the view.
pub(crate) fn item_uri(reference: Reference, view: ItemView) -> String {
    for form in &TEMPLATES {
        if form.kind == reference.kind && form.view == view {
            return form.spec.uri_template.replace(PLACEHOLDER, &reference.to_string());
        }
    }
    String::new()
}

pub(super) fn parse_uri(text: &str) -> Result<ResourceUri> {
    if let Some(name) = text.strip_prefix(COLLECTION_SCHEME)
        && let Some(collection) = COLLECTIONS.iter().find(|collection| collection.name == name)
    {
        return Ok(ResourceUri::Collection(collection));
    }
    for form in &TEMPLATES {
        let (scheme, suffix) = form.spec.uri_template.split_once(PLACEHOLDER).unwrap_or_default();
        let Some(rest) = text.strip_prefix(scheme) else { continue };
        let Some(reference) = rest.strip_suffix(suffix) else { continue };
        match Reference::parse_kind(form.kind, reference) {
            ParsedReference::Reference(reference) => {
                return Ok(ResourceUri::Item(reference, form.view));
            }
            // The form is valid, but no item can have this number.
            ParsedReference::TooLarge => return Err(not_found_error(form.kind, reference)),
            ParsedReference::Malformed => {}
        }
    }
    Err(unknown_uri_error(text))
}

fn unknown_uri_error(text: &str) -> Error {
    let shown = truncate_echo(text);
    let mut examples = Vec::new();
    for form in &TEMPLATES {
        examples.push(item_uri(Reference { kind: form.kind, number: 1 }, form.view));
    }
    examples.extend(COLLECTIONS.iter().map(ProjectCollection::uri));
    let hint = format!("valid URIs are: {}", examples.join(", "));
    let message = format!("Unknown resource URI {shown:?}; {hint}");
    Error::new(ErrorKind::InvalidArgument, message).field("uri").reference(shown).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    // S5: 6.1, 6.5
    #[test]
    fn uri_of_each_form_round_trips() {
        for form in &TEMPLATES {
            let reference = Reference { kind: form.kind, number: 47 };
            let printed = item_uri(reference, form.view);
            assert_eq!(
                parse_uri(&printed).unwrap(),
                ResourceUri::Item(reference, form.view),
                "{printed}"
            );
            let short = printed.replace("047", "47");
            assert_eq!(
                parse_uri(&short).unwrap(),
                ResourceUri::Item(reference, form.view),
                "{short}"
            );
        }
        for collection in &COLLECTIONS {
            assert_eq!(parse_uri(&collection.uri()).unwrap(), ResourceUri::Collection(collection));
        }
    }

    // S5: 6.1, 6.7
    #[test]
    fn uri_of_an_unknown_form_is_refused_with_examples() {
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
            let error = parse_uri(wrong).expect_err(wrong);
            assert_eq!(error.kind, ErrorKind::InvalidArgument, "{wrong:?}");
            assert_eq!(error.field.as_deref(), Some("uri"), "{wrong:?}");
            for form in ["epic://EP-001/hierarchy", "requirements://requirements-types"] {
                assert!(error.message.contains(form), "{wrong:?}: {}", error.message);
            }
        }
        let long = parse_uri(&format!("epic://{}", "x".repeat(100_000))).unwrap_err();
        assert!(long.message.len() < 1_000, "{}", long.message.len());
    }

    // S5: 6.4
    #[test]
    fn uri_with_a_too_large_number_is_not_found() {
        let error = parse_uri("epic://EP-99999999999/hierarchy").unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound);
        assert_eq!(error.message, "Epic not found: EP-99999999999");
    }
}

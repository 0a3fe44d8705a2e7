//! Names of relations as read from the other end of a link.

use std::borrow::Cow;

/// Relations as read from their targets.
const INVERSE_RELATIONS: [(&str, &str); 24] = [
    ("addresses", "addressed by"),
    ("affects", "affected by"),
    ("based_on", "basis of"),
    ("blocked_by", "blocks"),
    ("blocks", "blocked by"),
    ("caused_by", "causes"),
    ("causes", "caused by"),
    ("cites", "cited by"),
    ("conflicts_with", "conflicts with"),
    ("contradicts", "contradicted by"),
    ("depends_on", "needed by"),
    ("derives_from", "source of"),
    ("duplicates", "duplicated by"),
    ("epic", "epic of"),
    ("implements", "implemented by"),
    ("mentions", "mentioned by"),
    ("references", "referenced by"),
    ("related", "related to"),
    ("relates_to", "related to"),
    ("resolves", "resolved by"),
    ("superseded_by", "supersedes"),
    ("supersedes", "superseded by"),
    ("supports", "supported by"),
    ("user_story", "user story of"),
];

pub(crate) fn known_relations() -> impl Iterator<Item = &'static str> {
    INVERSE_RELATIONS.iter().map(|(name, _)| *name)
}

/// A relation in words, read from its target: `affects` becomes `affected by`.
pub fn inverse_relation(relation: &str) -> Cow<'static, str> {
    let known = INVERSE_RELATIONS.iter().find(|(name, _)| *name == relation);
    match known {
        Some((_, inverse)) => Cow::Borrowed(inverse),
        None => Cow::Owned(format!("{relation} ←")),
    }
}

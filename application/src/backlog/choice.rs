//! Arguments that are one word of a closed list.

use std::borrow::Cow;

use reqlore_domain::backlog::{RelationshipType, RequirementType, Status};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A closed list of words.
pub(crate) trait List {
    type Value: Copy + 'static;
    const NAME: &'static str;
    const ALL: &'static [Self::Value];
    fn name(value: Self::Value) -> &'static str;
}

pub(crate) struct WorkStatuses;
pub(crate) struct RequirementStatuses;
pub(crate) struct RequirementTypes;
pub(crate) struct RelationshipTypes;

impl List for WorkStatuses {
    type Value = Status;
    const NAME: &'static str = "WorkStatus";
    const ALL: &'static [Status] = &Status::OF_WORK;
    fn name(value: Status) -> &'static str {
        value.name()
    }
}

impl List for RequirementStatuses {
    type Value = Status;
    const NAME: &'static str = "RequirementStatus";
    const ALL: &'static [Status] = &Status::OF_REQUIREMENTS;
    fn name(value: Status) -> &'static str {
        value.name()
    }
}

impl List for RequirementTypes {
    type Value = RequirementType;
    const NAME: &'static str = "RequirementType";
    const ALL: &'static [RequirementType] = &RequirementType::ALL;
    fn name(value: RequirementType) -> &'static str {
        value.name()
    }
}

impl List for RelationshipTypes {
    type Value = RelationshipType;
    const NAME: &'static str = "RelationshipType";
    const ALL: &'static [RelationshipType] = &RelationshipType::ALL;
    fn name(value: RelationshipType) -> &'static str {
        value.name()
    }
}

/// One of a list.
pub(crate) struct One<L: List>(pub(crate) L::Value);

impl<L: List> Clone for One<L> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<L: List> Copy for One<L> {}

fn names<L: List>() -> Vec<&'static str> {
    L::ALL.iter().map(|value| L::name(*value)).collect()
}

impl<'de, L: List> Deserialize<'de> for One<L> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let given = String::deserialize(deserializer)?;
        let found = L::ALL.iter().find(|value| L::name(**value) == given);
        found.map(|value| Self(*value)).ok_or_else(|| {
            let shown: String = given.chars().take(60).collect();
            D::Error::custom(format!("{shown:?} is none of {}", names::<L>().join(", ")))
        })
    }
}

impl<L: List> JsonSchema for One<L> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        L::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": names::<L>() })
    }
}

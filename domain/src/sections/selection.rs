//! Lists of indices and ranges, which select requirements of a section.

use std::cmp::Ordering;
use std::fmt;

use serde::Deserialize;

use super::requirement_index::{RequirementIndex, compare_indices, group_of};
use super::{Section, lines};
use crate::bounded_types::deserialize_text;

/// Maximum length of a list of indices, in characters.
pub const MAX_LIST_CHARS: usize = 1_000;

/// Indices and ranges, such as `3..7, 12, R.1..R.4`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexSelection(Vec<SelectedIndices>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum SelectedIndices {
    One(RequirementIndex),
    /// Both ends are in the range, and so are the indices below the last one: `7.1` in `3..7`.
    Range(RequirementIndex, RequirementIndex),
}

/// The requirements of an [`IndexSelection`] that a section has.
#[derive(Debug, PartialEq, Eq)]
pub struct SelectedRequirements {
    /// As stored, in the order of the file. Between neighbors, the text of the file.
    pub text: String,
    pub count: usize,
    /// The indices and ranges without a requirement.
    pub missing: Vec<String>,
}

impl Section<'_> {
    pub fn select(&self, selection: &IndexSelection) -> SelectedRequirements {
        let mut is_selected = vec![false; self.requirements.len()];
        let mut missing = Vec::new();
        for part in &selection.0 {
            let mut is_missing = true;
            for (position, requirement) in self.requirements.iter().enumerate() {
                if part.contains(requirement.index) {
                    is_selected[position] = true;
                    is_missing = false;
                }
            }
            if is_missing {
                missing.push(part.to_string());
            }
        }
        let mut text = String::new();
        let mut count = 0;
        let mut above: Option<usize> = None;
        for (position, requirement) in self.requirements.iter().enumerate() {
            if !is_selected[position] {
                continue;
            }
            match above {
                Some(above) if above + 1 == position => {
                    let end = self.requirements[above].block.end;
                    text.push_str(&self.source[end..requirement.block.start]);
                }
                Some(_) => text.push_str(&lines::line_end(self.source).repeat(2)),
                None => {}
            }
            text.push_str(self.stored_text(requirement));
            count += 1;
            above = Some(position);
        }
        SelectedRequirements { text, count, missing }
    }
}

impl IndexSelection {
    fn parse(list: &str) -> Result<Self, String> {
        let length = list.chars().count();
        if length > MAX_LIST_CHARS {
            return Err(format!(
                "at most {MAX_LIST_CHARS} characters are allowed, this has {length}; use ranges \
                 such as 3..7"
            ));
        }
        // Brackets and quotes belong to a list that is sent as JSON text.
        let parts = list.split([',', ';', '[', ']', '"']).map(str::trim);
        let parts = parts.filter(|part| !part.is_empty()).map(SelectedIndices::parse);
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        if parts.is_empty() {
            return Err("no index is given; name some, such as \"3..7, 12\"".to_owned());
        }
        Ok(Self(parts))
    }
}

impl<'de> Deserialize<'de> for IndexSelection {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Part(#[serde(deserialize_with = "deserialize_text")] String);

        #[derive(Deserialize)]
        #[serde(untagged)]
        enum List {
            Many(Vec<Part>),
            One(Part),
        }

        let list = match List::deserialize(deserializer) {
            Ok(List::Many(parts)) => parts.into_iter().map(|Part(text)| text).collect(),
            Ok(List::One(Part(text))) => vec![text],
            Err(_) => return Err(serde::de::Error::custom("send text such as \"3..7, 12\"")),
        };
        Self::parse(&list.join(",")).map_err(serde::de::Error::custom)
    }
}

impl SelectedIndices {
    fn parse(text: &str) -> Result<Self, String> {
        let Some((first, last)) = text.split_once("..") else {
            return RequirementIndex::try_from(text.to_owned()).map(Self::One);
        };
        let first = RequirementIndex::try_from(first.trim().to_owned())?;
        let last = RequirementIndex::try_from(last.trim().to_owned())?;
        if group_of(first.as_str()) != group_of(last.as_str()) {
            return Err(format!(
                "{first}..{last} spans two groups; a range stays in one, such as 3..7 or R.1..R.4"
            ));
        }
        if compare_indices(first.as_str(), last.as_str()) == Ordering::Greater {
            return Ok(Self::Range(last, first));
        }
        Ok(Self::Range(first, last))
    }

    fn contains(&self, index: &str) -> bool {
        match self {
            Self::One(one) => compare_indices(index, one.as_str()) == Ordering::Equal,
            Self::Range(first, last) => {
                let (first, last) = (first.as_str(), last.as_str());
                let is_below_last =
                    index.strip_prefix(last).is_some_and(|rest| rest.starts_with('.'));
                group_of(index) == group_of(first)
                    && compare_indices(index, first) != Ordering::Less
                    && (is_below_last || compare_indices(index, last) != Ordering::Greater)
            }
        }
    }
}

impl fmt::Display for SelectedIndices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(index) => write!(f, "{index}"),
            Self::Range(first, last) => write!(f, "{first}..{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const SOURCE: &str = "# S\n\n**1.** a\n\n**2.** b\n\n## Later\n\n**3.** c\n**3.1.** d\n\n\
                          **R.1.** r\n\n**R.2.** s\n\n## End\n";

    #[track_caller]
    fn check(list: &Value, text: &str, missing: &[&str]) {
        let missing: Vec<String> = missing.iter().map(|&index| index.to_owned()).collect();
        let selection = IndexSelection::deserialize(list).unwrap();
        let selected = Section::parse(SOURCE).select(&selection);
        assert_eq!(
            (&*selected.text, selected.missing.as_slice()),
            (text, missing.as_slice()),
            "{list}"
        );
        assert_eq!(selected.count, text.matches("**").count() / 2);
    }

    // S1: G.3.3
    #[test]
    fn selection_has_the_blocks_of_the_file_in_its_order() {
        check(&json!("3, 1"), "**1.** a\n\n**3.** c", &[]);
        check(&json!("1..3"), "**1.** a\n\n**2.** b\n\n## Later\n\n**3.** c\n**3.1.** d", &[]);
        check(&json!(["3.1", "R.1..R.9"]), "**3.1.** d\n\n**R.1.** r\n\n**R.2.** s", &[]);
        check(&json!(3), "**3.** c", &[]);
        check(&json!("[\"01\", \"2 .. 1\"]"), "**1.** a\n\n**2.** b", &[]);
        check(&json!(["2", 7, "R.5..R.9"]), "**2.** b", &["7", "R.5..R.9"]);
        check(&json!("P.1"), "", &["P.1"]);
    }

    #[test]
    fn selection_across_groups_or_without_an_index_is_rejected() {
        for (list, expected) in [
            (json!("R.1..3"), "R.1..3 spans two groups"),
            (json!("3.."), "1 to 10 characters"),
            (json!("Note"), "\"Note\" is not an index"),
            (json!(", "), "no index is given"),
            (json!("1,".repeat(1_001)), "at most 1000 characters"),
            (json!({ "from": 1 }), "send text such as"),
        ] {
            let error = IndexSelection::deserialize(&list).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn selection_of_distant_rules_keeps_the_line_ends_of_the_file() {
        let source = "# S\r\n\r\n**1.** a\r\n\r\n**2.** b\r\n\r\n**3.** c";
        let selection = IndexSelection::parse("1, 3").unwrap();
        assert_eq!(Section::parse(source).select(&selection).text, "**1.** a\r\n\r\n**3.** c");
    }
}

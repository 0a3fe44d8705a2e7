//! Kiro: one specification a folder below `.kiro/specs`. Its numbered requirements have a user
//! story and acceptance criteria. Templates and settings have files of the same name.

use reqlore_domain::ports::exchange::{ExchangeFormat, ImportMapping, ImportedItems, SourceFile};

use crate::names::{folder_of, title_of};
use crate::outline::Section;
use crate::spec_files::{SpecReader, read_specs, split_heading};
use crate::statements::take_statements;

pub(crate) struct Kiro;

impl ExchangeFormat for Kiro {
    fn name(&self) -> &'static str {
        "kiro"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        spec_of(path).is_some()
            && (spec_in_kiro(path).is_some() || beginning.contains("**User Story:**"))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        // Other files of a repository may have the same name.
        let names: [fn(&str) -> Option<&str>; 2] = [spec_in_kiro, spec_in_specs];
        let is_used =
            |name: &fn(&str) -> Option<&str>| files.iter().any(|file| name(&file.path).is_some());
        let name_of = names.into_iter().find(is_used).unwrap_or(spec_of);
        read_specs(files, "designs, tasks and steering", name_of, read_section)
    }
}

fn spec_in_kiro(path: &str) -> Option<&str> {
    spec_in_specs(path).filter(|_| path.rsplit('/').nth(3) == Some(".kiro"))
}

/// The specification of a file of the folder `.kiro`.
fn spec_in_specs(path: &str) -> Option<&str> {
    spec_of(path).filter(|_| path.rsplit('/').nth(2) == Some("specs"))
}

/// The specification of a path such as `.kiro/specs/login/requirements.md`.
fn spec_of(path: &str) -> Option<&str> {
    folder_of(path, "requirements.md")
}

fn read_section<'t>(
    reader: &mut SpecReader<'_>,
    section: &Section<'t>,
    whole: &'t str,
) -> Option<(&'t str, String)> {
    let heading = &section.heading;
    let split = split_heading(&heading.title).filter(|_| heading.level == 3);
    let Some((id, title)) = split.filter(|(id, _)| is_requirement(id, whole)) else {
        let is_text = matches!(&*heading.title, "Requirements Document" | "Introduction");
        return Some((if is_text { "" } else { section.line }, section.text.to_owned()));
    };
    let story = reader.add_story(id, title, whole);
    if title.is_empty() {
        // `**User Story:** As a user, I want …`
        let text = story.text.strip_prefix("**").and_then(|text| text.split_once("**"));
        story.title = title_of(text.map_or(&*story.text, |(_, text)| text));
        if story.title.is_empty() {
            id.clone_into(&mut story.title);
        }
    }
    None
}

/// True for `Requirement 1`, and in any language for a word and number with numbered criteria.
fn is_requirement(id: &str, whole: &str) -> bool {
    let word = id.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let is_numbered = word.ends_with([' ', '-', '_']) && word.len() < id.len();
    let has_criteria = || !take_statements(whole, |one| !one.number.is_empty()).1.is_empty();
    is_numbered && (word.trim_end() == "Requirement" || has_criteria())
}

//! Kiro: one specification a folder below `.kiro/specs`. Its numbered requirements have a user
//! story and acceptance criteria.

use reqlore_domain::ports::exchange::{ExchangeFormat, ImportMapping, ImportedItems, SourceFile};

use crate::names::{folder_of, title_of};
use crate::outline::Section;
use crate::spec_files::{SpecReader, read_specs, split_heading};

pub(crate) struct Kiro;

impl ExchangeFormat for Kiro {
    fn name(&self) -> &'static str {
        "kiro"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        spec_of(path).is_some() && (is_in_kiro(path) || beginning.contains("**User Story:**"))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        // Other files of a repository may have the same name.
        let has_folder = files.iter().any(|file| is_in_kiro(&file.path));
        let name_of: fn(&str) -> Option<&str> = if has_folder { spec_in_kiro } else { spec_of };
        read_specs(files, "designs, tasks and steering", name_of, read_section)
    }
}

fn is_in_kiro(path: &str) -> bool {
    path.split('/').any(|part| part == ".kiro")
}

fn spec_in_kiro(path: &str) -> Option<&str> {
    spec_of(path).filter(|_| is_in_kiro(path))
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
    let Some((id, title)) = split_heading(&heading.title).filter(|_| heading.level == 3) else {
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

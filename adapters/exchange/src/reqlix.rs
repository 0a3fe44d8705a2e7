//! reqlix: a category of requirements a file, in the first form `**1.** text` or the later form
//! `## G.E.1: Title` below chapters.

use reqlore_domain::ports::exchange::{
    ExchangeFormat, ImportMapping, ImportedItems, SourceFile, file_title,
};
use reqlore_domain::sections;
use serde_json::json;

use crate::markdown::is_markdown;
use crate::names::{split_paragraph, title_of};
use crate::outline::{self, Heading, Section};
use crate::spec_files::{SpecReader, read_specs};

pub(crate) struct Reqlix;

/// The folders in which reqlix looks for its files.
const FOLDERS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];

impl ExchangeFormat for Reqlix {
    fn name(&self) -> &'static str {
        "reqlix"
    }

    fn recognizes(&self, path: &str, beginning: &str) -> bool {
        category_of(path).is_some() && (is_in_folder(path) || has_indices(beginning))
    }

    fn read(&self, files: Vec<SourceFile>, _: &mut ImportMapping) -> Result<ImportedItems, String> {
        // A project has Markdown files of other kinds.
        let has_folder = files.iter().any(|file| is_in_folder(&file.path));
        let name_of: fn(&str) -> Option<&str> =
            if has_folder { category_in_folder } else { category_of };
        read_specs(files, "AGENTS.md", name_of, read_section)
    }
}

fn category_of(path: &str) -> Option<&str> {
    let name = file_title(path);
    (is_markdown(path) && name != "AGENTS").then_some(name)
}

fn is_in_folder(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut before = FOLDERS.iter().filter_map(|one| folder.strip_suffix(one));
    before.any(|before| before.is_empty() || before.ends_with('/'))
}

fn category_in_folder(path: &str) -> Option<&str> {
    category_of(path).filter(|_| is_in_folder(path))
}

/// The index of a heading such as `## G.E.1: Title`.
fn index_of(Heading { level, title, .. }: &Heading) -> Option<&str> {
    let (index, _) = title.split_once(':')?;
    let parts: Vec<&str> = index.split('.').collect();
    let [category, chapter, number] = parts[..] else { return None };
    let is_prefix = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let is_index = is_prefix(category) && is_prefix(chapter) && number.parse::<u32>().is_ok();
    (*level == 2 && is_index).then_some(index)
}

fn has_indices(text: &str) -> bool {
    outline::sections(text).1.iter().any(|section| index_of(&section.heading).is_some())
}

fn read_section<'t>(
    reader: &mut SpecReader<'_>,
    section: &Section<'t>,
    whole: &'t str,
) -> Option<(&'t str, String)> {
    let title = &section.heading.title;
    if let Some(index) = index_of(&section.heading) {
        let item = reader.add("requirement", reader.story, index, title);
        whole.trim_matches('\n').clone_into(&mut item.text);
        return None;
    }
    let found = sections::Section::parse(section.text);
    let is_chapter = section.heading.level == 1 && has_indices(whole);
    if found.requirements().is_empty() && !is_chapter {
        return Some((section.line, section.text.to_owned()));
    }
    let mut rest = found.outside_text();
    if !title.is_empty() {
        let title = title_of(title);
        let story = reader.add("user_story", 0, &title, &title);
        std::mem::take(&mut rest).trim().clone_into(&mut story.text);
    }
    for requirement in found.requirements() {
        let text = found.text(requirement);
        let (title, text) = split_paragraph(&text);
        let title = if title.is_empty() { requirement.index } else { &title };
        // Each heading has its own numbers.
        let id = format!("{}/{}", title_of(&section.heading.title), requirement.index);
        let item = reader.add("requirement", reader.story, &id, title);
        text.clone_into(&mut item.text);
        item.values.insert("index".to_owned(), json!(requirement.index));
    }
    Some(("", rest))
}

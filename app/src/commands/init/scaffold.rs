//! Text that init creates: the block in AGENTS.md, and the files of `--create`.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::sections::instructions;

pub(super) const AGENTS_MD: &str = "AGENTS.md";
pub(super) const AGENTS_MD_TITLE: &str = "all assistants";

const KNOWLEDGE_OF: [(Toolset, &str); 4] = [
    (Toolset::Sections, "- requirements, by section: `reqlix_*`\n"),
    (Toolset::Backlog, "- epics, user stories, acceptance criteria: `search_global`, `get_item`\n"),
    (Toolset::Knowledge, "- decisions, issues, ideas and their links: `ixchel_*`\n"),
    (Toolset::Docsets, "- where libraries are documented: `search_docs`\n"),
];

/// The block in AGENTS.md. An empty list means all toolsets.
///
/// Every session pays for it, so it repeats nothing of the server's own instructions.
pub(super) fn agents_md_block(toolsets: &[Toolset]) -> String {
    let is_served = |toolset: &Toolset| toolsets.is_empty() || toolsets.contains(toolset);
    let lines = KNOWLEDGE_OF.iter().filter(|(toolset, _)| is_served(toolset));
    format!(
        "## Reqlore\n\n\
         The MCP server `reqlore` holds what this project requires and knows:\n\n\
         {}\n\
         Ask it before you plan, write or review, and leave it true when behaviour changes. If\n\
         these tools are missing, say so instead of guessing; `reqlore doctor` finds the reason.\n",
        lines.map(|(_, line)| *line).collect::<String>()
    )
}

/// A value of `--create`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Scaffold {
    Requirements,
    Knowledge,
    Ixchel,
}

/// Folders for requirements; the first that exists is used.
const REQUIREMENTS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];
const IXCHEL: [&str; 3] = ["decisions", "ideas", "issues"];

const DOCSETS: &str = "\
# Where the documentation of the libraries that this project uses lies, for search_docs.
docsets:
  # An example; its files are looked for in .knowledge/docs/react-18.2/.
  react:
    version: \"18.2\"
    aliases: [reactjs]
    # Another folder of the project:
    # local_path: vendor/react/docs
";

impl Scaffold {
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Requirements => "requirements",
            Self::Knowledge => "documentation of libraries",
            Self::Ixchel => "knowledge graph",
        }
    }

    /// Paths and texts. Git does not track empty folders, so they get a `.gitkeep`.
    pub(super) fn files(self, project: &Path) -> Vec<(PathBuf, &'static str)> {
        match self {
            Self::Requirements => {
                let folders = REQUIREMENTS.map(|folder| project.join(folder));
                let existing = folders.iter().find(|folder| folder.is_dir());
                let folder = existing.unwrap_or(&folders[0]);
                vec![(folder.join(AGENTS_MD), instructions::PLACEHOLDER)]
            }
            Self::Knowledge => vec![(project.join(".knowledge/config.yaml"), DOCSETS)],
            Self::Ixchel => {
                let file = |name| project.join(".ixchel").join(name).join(".gitkeep");
                IXCHEL.iter().map(|name| (file(name), "")).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::docsets::Configuration;

    use super::*;

    #[test]
    fn docsets_is_a_valid_configuration() {
        let read = Configuration::read(DOCSETS, "/project").unwrap();
        assert_eq!(read.hints, []);
        let place = read.docsets[0].local_path.trim_start_matches("/project/");
        assert!(DOCSETS.contains(&format!("looked for in {place}.")), "{place}");
        let elsewhere = DOCSETS.replace("# local_path", "local_path");
        assert_eq!(Configuration::read(&elsewhere, "/project").unwrap().hints, []);
    }
}

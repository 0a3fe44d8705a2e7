//! `--create`: files to begin with, for those who ask for them. None is written over.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use reqlore_domain::sections::instructions;

/// What can be begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Folder {
    Requirements,
    Knowledge,
    Ixchel,
}

/// Where requirements are looked for, in this order.
const REQUIREMENTS: [&str; 2] = ["docs/development/requirements", "docs/dev/req"];
/// What a knowledge graph mostly begins with.
const IXCHEL: [&str; 3] = ["decisions", "ideas", "issues"];
/// git keeps no empty folder.
const KEEP: &str = ".gitkeep";

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

impl Folder {
    /// As a person knows it.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Requirements => "requirements",
            Self::Knowledge => "documentation of libraries",
            Self::Ixchel => "knowledge graph",
        }
    }

    /// The files, with what stands in them.
    pub(super) fn files(self, project: &Path) -> Vec<(PathBuf, &'static str)> {
        match self {
            Self::Requirements => {
                let folders = REQUIREMENTS.map(|folder| project.join(folder));
                let [usual, _] = &folders;
                let folder = folders.iter().find(|folder| folder.is_dir()).unwrap_or(usual);
                vec![(folder.join("AGENTS.md"), instructions::PLACEHOLDER)]
            }
            Self::Knowledge => vec![(project.join(".knowledge/config.yaml"), DOCSETS)],
            Self::Ixchel => {
                let folder = project.join(".ixchel");
                IXCHEL.iter().map(|name| (folder.join(name).join(KEEP), "")).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use reqlore_domain::docsets::Configuration;

    use super::*;

    #[test]
    fn the_configuration_to_begin_with_is_a_valid_one() {
        let read = Configuration::read(DOCSETS, "/project").unwrap();
        assert_eq!(read.hints, []);
        let place = read.docsets[0].local_path.trim_start_matches("/project/");
        assert!(DOCSETS.contains(&format!("looked for in {place}.")), "{place}");
        let elsewhere = DOCSETS.replace("# local_path", "local_path");
        assert_eq!(Configuration::read(&elsewhere, "/project").unwrap().hints, []);
    }
}

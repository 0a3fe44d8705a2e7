//! The block in AGENTS.md: what assistants are told before they talk to the server.
//!
//! The server's own instructions say which tool does what (`adapters/mcp`, `server/words.rs`). Both
//! are read in every session and paid for each time, so nothing stands here that stands there.

use reqlore_domain::ports::projects::Slice;

/// The file, in a project's root.
pub(super) const FILE: &str = "AGENTS.md";

/// What is kept, by the tools that reach it.
const KEPT: [(Slice, &str); 4] = [
    (Slice::Sections, "requirements in sections (`reqlix_*`)"),
    (Slice::Backlog, "epics, user stories and acceptance criteria (`search_global`)"),
    (Slice::Knowledge, "decisions, issues and ideas with their links (`ixchel_*`)"),
    (Slice::Docsets, "where libraries are documented (`search_docs`)"),
];

/// What stands between the markers. No toolsets are all.
pub(super) fn block(toolsets: &[Slice]) -> String {
    let is_served = |slice: &Slice| toolsets.is_empty() || toolsets.contains(slice);
    let kept = KEPT.iter().filter(|(slice, _)| is_served(slice)).map(|(_, words)| *words);
    format!(
        "## Reqlore\n\
         \n\
         The MCP server `reqlore` keeps this project's {}.\n\
         \n\
         - Before work: read what it says on the task.\n\
         - With a change of behaviour: change the requirement in the same commit.\n\
         - No such tools? Say so, and suggest `reqlore doctor`; don't guess what is required.\n",
        listed(&kept.collect::<Vec<_>>())
    )
}

fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

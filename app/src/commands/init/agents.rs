//! The block in AGENTS.md: what assistants are told before they talk to the server.
//!
//! The server's own instructions say which tool does what (`adapters/mcp`, `server/words.rs`). Both
//! are read in every session and paid for each time, so nothing stands here that stands there.

use reqlore_domain::ports::project_resolver::Toolset;

/// The file, in a project's root.
pub(super) const FILE: &str = "AGENTS.md";
/// Whose file it is.
pub(super) const TITLE: &str = "all assistants";

/// What is kept, and the tools that reach it.
const KEPT: [(Toolset, &str); 4] = [
    (Toolset::Sections, "- requirements, by section: `reqlix_*`\n"),
    (Toolset::Backlog, "- epics, user stories, acceptance criteria: `search_global`, `get_item`\n"),
    (Toolset::Knowledge, "- decisions, issues, ideas and their links: `ixchel_*`\n"),
    (Toolset::Docsets, "- where libraries are documented: `search_docs`\n"),
];

/// What stands between the markers. No toolsets are all.
pub(super) fn block(toolsets: &[Toolset]) -> String {
    let is_served = |slice: &Toolset| toolsets.is_empty() || toolsets.contains(slice);
    let kept = KEPT.iter().filter(|(slice, _)| is_served(slice)).map(|(_, line)| *line);
    format!(
        "## Reqlore\n\n\
         The MCP server `reqlore` holds what this project requires and knows:\n\n\
         {}\n\
         Ask it before you plan, write or review, and leave it true when behaviour changes. If\n\
         these tools are missing, say so instead of guessing; `reqlore doctor` finds the reason.\n",
        kept.collect::<String>()
    )
}

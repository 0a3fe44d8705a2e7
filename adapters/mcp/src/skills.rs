//! The skills extension (SEP-2640, `io.modelcontextprotocol/skills`).

use reqlore_domain::skills::{SKILL_FILE, SKILLS, Skill};
use rmcp::model::{ResourceContents, SkillFrontmatter, SkillResource, SkillResources};

const SCHEME: &str = "skill://";
const MIME_TYPE: &str = "text/markdown";

fn uri_of(skill: &Skill) -> String {
    format!("{SCHEME}{}/{SKILL_FILE}", skill.name)
}

/// The skills whose tool is served, ordered by URI.
pub(crate) fn served_skills(is_served: impl Fn(&str) -> bool) -> Vec<rmcp::model::Skill> {
    let served = SKILLS.iter().filter(|skill| is_served(skill.tool));
    let entry = |skill: &Skill| {
        let file = SkillResource::from_bytes(uri_of(skill), skill.text.as_bytes());
        let front_matter = SkillFrontmatter::new(skill.name, skill.description());
        rmcp::model::Skill::new(uri_of(skill), front_matter, SkillResources::Files(vec![file]))
    };
    served.map(entry).collect()
}

/// The file of a served skill.
pub(crate) fn skill_file(served: &[rmcp::model::Skill], uri: &str) -> Option<ResourceContents> {
    let served = served.iter().find(|skill| skill.uri == uri)?;
    let skill = SKILLS.iter().find(|skill| skill.name == served.name())?;
    Some(ResourceContents::text(skill.text, uri).with_mime_type(MIME_TYPE))
}

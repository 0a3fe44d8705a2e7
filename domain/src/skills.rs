//! Skills: texts that tell an assistant how to do a kind of work with this server.

/// The file of a skill in its folder.
pub const SKILL_FILE: &str = "SKILL.md";

/// A skill in the format of agentskills.io.
#[derive(Debug)]
pub struct Skill {
    pub name: &'static str,
    /// Markdown with front matter, in which name and description take one line each.
    pub text: &'static str,
    /// The tool that it needs.
    pub tool: &'static str,
}

pub const SKILLS: [Skill; 3] = [
    Skill {
        name: "reqlore-decision",
        text: include_str!("skills/reqlore-decision.md"),
        tool: "ixchel_create",
    },
    Skill {
        name: "reqlore-requirements",
        text: include_str!("skills/reqlore-requirements.md"),
        tool: "apply_changes",
    },
    Skill {
        name: "reqlore-task",
        text: include_str!("skills/reqlore-task.md"),
        tool: "claim_item",
    },
];

impl Skill {
    pub fn description(&self) -> &'static str {
        let found = self.text.lines().find_map(|line| line.strip_prefix("description: "));
        found.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_are_short_and_name_themselves() {
        for skill in &SKILLS {
            let start =
                format!("---\nname: {}\ndescription: {}\n---\n", skill.name, skill.description());
            assert!(skill.text.starts_with(&start), "{}", skill.name);
            let description = skill.description().len();
            assert!((50..=1_024).contains(&description), "{description}");
            // 600 tokens of four bytes.
            assert!(skill.text.len() <= 2_400, "{}: {}", skill.name, skill.text.len());
            assert!(skill.text.contains(&format!("`{}`", skill.tool)), "{}", skill.name);
        }
    }
}

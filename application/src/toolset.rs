//! The visible list of all tools.

use crate::sections;
use crate::tool::Tool;

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(sections::get_instructions::GetInstructions),
        Box::new(sections::get_requirements::GetRequirements),
        Box::new(sections::set_requirements::SetRequirements),
        Box::new(sections::delete_requirements::DeleteRequirements),
    ]
}

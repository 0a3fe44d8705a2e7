//! Creation of requirements in a large backlog, compared with a bare durable write.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use serde_json::json;

use crate::harness::client::Client;
use crate::harness::report::{ROUNDS, Row, Times, wrong_answer};
use crate::harness::{Result, durable_write, millis};
use crate::items::{Size, folder, reference};

const WRITES: usize = 100;

pub(crate) fn measure(client: &mut Client, project: &Path, size: Size) -> Result<()> {
    let folder = folder(project, ItemKind::Requirement);
    let before = client.processor_time()?;
    let mut best: Option<(Times, Times)> = None;
    let mut next = size.requirements;
    for _ in 0..ROUNDS {
        let (mut creates, mut texts) = (Vec::new(), Vec::new());
        for number in 0..WRITES {
            next += 1;
            let story = reference(ItemKind::UserStory, number * 7 % size.stories() + 1)?;
            let arguments = json!({
                "user_story": story.to_string(), "title": format!("The case {next}"),
                "description": "WHEN it comes THE system SHALL answer within half a second.",
                "type": "Functional", "priority": 2
            });
            let (elapsed, content) = client.call("create_requirement", &arguments)?;
            let expected = reference(ItemKind::Requirement, next)?;
            if content["reference_id"] != expected.to_string() {
                return wrong_answer("create_requirement", &content);
            }
            creates.push(elapsed);
            texts.push((format!(".bare-{next}"), content.to_string()));
        }
        // The server ignores hidden files without the extension of an item.
        let write = |(name, text): &(String, String)| durable_write(&folder, name, text.as_bytes());
        let writes = texts.iter().map(write).collect::<io::Result<Vec<Duration>>>()?;
        let round = (Times::from_unsorted(creates), Times::from_unsorted(writes));
        if best.as_ref().is_none_or(|(creates, _)| round.0.p50() < creates.p50()) {
            best = Some(round);
        }
    }
    let processor = client.processor_time()?.saturating_sub(before);
    let processor = processor / u32::try_from(ROUNDS * WRITES)?;
    let (creates, writes) = best.ok_or("no round")?;
    let row = Row::new("create_requirement").times(&creates).rate(&creates);
    println!("{}", row.processor(processor).bar(millis(2)));
    println!("{}", Row::new("  bare durable write in the same folder").times(&writes));
    println!("{}", Row::new("  difference").difference(&creates, &writes));
    for number in size.requirements + 1..=next {
        fs::remove_file(folder.join(format!(".bare-{number}")))?;
    }
    Ok(())
}

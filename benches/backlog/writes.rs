//! Creating requirements in a large backlog, beside what the same durable write costs by itself.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use serde_json::json;

use crate::client::Client;
use crate::items::{Size, folder, reference};
use crate::rounds::{ROUNDS, wrong};
use crate::table::{Row, Times};
use crate::{Result, durable};

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
                return Err(wrong("create_requirement", &content));
            }
            creates.push(elapsed);
            texts.push((format!(".bare-{next}"), content.to_string()));
        }
        // What is hidden and has not the ending of an item is nothing to the server.
        let write =
            |(name, text): &(String, String)| durable::write(&folder, name, text.as_bytes());
        let writes = texts.iter().map(write).collect::<io::Result<Vec<Duration>>>()?;
        let round = (Times::of(creates), Times::of(writes));
        if best.as_ref().is_none_or(|(creates, _)| round.0.p50() < creates.p50()) {
            best = Some(round);
        }
    }
    let processor = client.processor_time()?.saturating_sub(before);
    let processor = Some(processor / u32::try_from(ROUNDS * WRITES)?);
    let (creates, writes) = best.ok_or("no round")?;
    let row = Row::new("create_requirement").times(&creates).per_second(creates.per_second());
    println!("{}", Row { processor, ..row }.bar(Duration::from_millis(2)));
    println!("{}", Row::new("  a bare durable write there").times(&writes));
    let difference = Row {
        p50: Some(creates.p50().saturating_sub(writes.p50())),
        p99: Some(creates.p99().saturating_sub(writes.p99())),
        ..Row::new("  difference")
    };
    println!("{difference}");
    for number in size.requirements + 1..=next {
        fs::remove_file(folder.join(format!(".bare-{number}")))?;
    }
    Ok(())
}

//! From the start of a server to the first answer about a large backlog: with the heads in the
//! cache on disk, and without.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use reqlore_domain::backlog::ItemKind;
use serde_json::json;

use crate::items::{REQUIREMENTS, Size, reference};
use crate::rounds::{quietest, wrong};
use crate::table::{Row, Times};
use crate::{Result, start};

const STARTS: usize = 5;

pub(crate) fn measure(project: &Path, cache: &Path, size: Size) -> Result<()> {
    let bare = || -> Result<Duration> {
        match fs::remove_dir_all(cache) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => first(project, cache, size),
        }
    };
    let row = |what: &str, times: &Times, bar| {
        println!("{}", Row::new(what).times(times).bar(Duration::from_millis(bar)));
    };
    let times = quietest(|| (0..STARTS).map(|_| bare()).collect())?;
    row("start to the first answer, no cache", &times, 600);
    let warm = || first(project, cache, size);
    let times = quietest(|| (0..STARTS).map(|_| warm()).collect())?;
    row("start to the first answer, heads in a cache", &times, 200);
    Ok(())
}

fn first(project: &Path, cache: &Path, size: Size) -> Result<Duration> {
    let story = reference(ItemKind::UserStory, size.stories().div_ceil(2))?;
    let clock = Instant::now();
    let mut client = start(project, cache, "fs")?;
    let arguments = json!({ "user_story": story.to_string() });
    let (_, content) = client.call("get_user_story_requirements", &arguments)?;
    let elapsed = clock.elapsed();
    if content["requirements"].as_array().map(Vec::len) != Some(REQUIREMENTS) {
        return Err(wrong("the first answer", &content));
    }
    client.end()?;
    Ok(elapsed)
}

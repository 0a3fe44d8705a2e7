//! Reads of a large backlog: requirements of a story, hierarchy of an epic, search, first answer.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use reqlore_domain::backlog::ItemKind;
use serde_json::{Value, json};

use crate::harness::client::Client;
use crate::harness::language::SyntheticLanguage;
use crate::harness::report::{Row, measure_calls, quietest, wrong_answer};
use crate::harness::{Result, micros, millis};
use crate::items::{REQUIREMENTS, STORIES, Size, reference};
use crate::start;

const CALLS: usize = 300;
const PAGES: usize = 30;
const STARTS: usize = 5;

/// Reads the requirements of stories across the whole backlog.
pub(crate) fn stories(client: &mut Client, size: Size, bar: Duration) -> Result<()> {
    let story = |number: usize| {
        let number = number * 31 % size.stories() + 1;
        let story = reference(ItemKind::UserStory, number)?.to_string();
        Ok(json!({ "user_story": story }))
    };
    let stories = (0..CALLS).map(story).collect::<Result<Vec<Value>>>()?;
    let is_complete = |content: &Value| {
        content["requirements"].as_array().is_some_and(|all| all.len() == REQUIREMENTS)
    };
    let tool = "get_user_story_requirements";
    // The first call loads the metadata.
    measure_calls(tool, client, tool, &stories[..1], is_complete)?;
    let label = format!("{tool}, {REQUIREMENTS} results");
    println!("{}", measure_calls(label, client, tool, &stories, is_complete)?.bar(bar));
    Ok(())
}

/// Reads requirements across the whole backlog, with their links in both directions.
pub(crate) fn items(client: &mut Client, size: Size) -> Result<()> {
    let item = |number: usize| {
        let number = number * 31 % size.requirements + 1;
        let item = reference(ItemKind::Requirement, number)?.to_string();
        Ok(json!({ "reference": item }))
    };
    let items = (0..CALLS).map(item).collect::<Result<Vec<Value>>>()?;
    let is_complete = |content: &Value| content["links"]["incoming_total"].is_u64();
    let row = measure_calls("get_item", client, "get_item", &items, is_complete)?;
    println!("{}", row.bar(micros(200)));
    Ok(())
}

/// Reads first pages of lists, as boards and tables do.
pub(crate) fn lists(client: &mut Client, size: Size) -> Result<()> {
    let is_full = |content: &Value| content["items"].as_array().is_some_and(|all| !all.is_empty());
    for (label, arguments, bar) in [
        ("requirements by status", json!({ "kind": "requirement", "status": "Draft" }), millis(2)),
        ("user stories with progress", json!({ "kind": "user_story" }), millis(2)),
        ("requirements by title", json!({ "kind": "requirement", "sort": "title" }), millis(50)),
    ] {
        let label = format!("list_items, 50 {label} of {}", size.items());
        let calls = vec![arguments; PAGES];
        println!("{}", measure_calls(label, client, "list_items", &calls, is_full)?.bar(bar));
    }
    Ok(())
}

pub(crate) fn hierarchies(client: &mut Client, size: Size) -> Result<()> {
    let epic = |number: usize| {
        let epic = reference(ItemKind::Epic, number % size.epics() + 1)?.to_string();
        Ok(json!({ "epic": epic }))
    };
    let epics = (0..PAGES).map(epic).collect::<Result<Vec<Value>>>()?;
    let counts = json!({
        "user_stories": STORIES, "requirements": STORIES * REQUIREMENTS, "acceptance_criteria": 0
    });
    let is_complete = |content: &Value| content["counts"] == counts;
    let label = format!("epic_hierarchy, {} items", STORIES * (REQUIREMENTS + 1) + 1);
    println!(
        "{}",
        measure_calls(label, client, "epic_hierarchy", &epics, is_complete)?.bar(millis(3))
    );
    Ok(())
}

pub(crate) fn searches(client: &mut Client, language: &SyntheticLanguage) -> Result<()> {
    let queries = language.queries(CALLS);
    let tool = "search_global";
    // The first search builds the index.
    client.call(tool, &json!({ "query": queries[0] }))?;
    let is_found = |content: &Value| content["total"].as_u64() > Some(0);
    for limit in [10, 50] {
        let query = |query: &String| json!({ "query": query, "limit": limit });
        let queries: Vec<Value> = queries.iter().map(query).collect();
        let label = format!("{tool}, {limit} results");
        println!("{}", measure_calls(label, client, tool, &queries, is_found)?.bar(millis(3)));
    }
    Ok(())
}

/// Measures the time from start to first answer, with and without cached metadata.
pub(crate) fn starts(project: &Path, cache: &Path, size: Size) -> Result<()> {
    let cold = || {
        fs::create_dir_all(cache)?;
        fs::remove_dir_all(cache)?;
        first_answer(project, cache, size)
    };
    let times = quietest(|| (0..STARTS).map(|_| cold()).collect())?;
    println!("{}", Row::new("start to the first answer, no cache").times(&times).bar(millis(600)));
    let warm = || first_answer(project, cache, size);
    let times = quietest(|| (0..STARTS).map(|_| warm()).collect())?;
    let row = Row::new("start to the first answer, with cache");
    println!("{}", row.times(&times).bar(millis(200)));
    Ok(())
}

fn first_answer(project: &Path, cache: &Path, size: Size) -> Result<Duration> {
    let story = reference(ItemKind::UserStory, size.stories().div_ceil(2))?;
    let clock = Instant::now();
    let mut client = start(project, cache, "fs")?;
    let arguments = json!({ "user_story": story.to_string() });
    let (_, content) = client.call("get_user_story_requirements", &arguments)?;
    let elapsed = clock.elapsed();
    if content["requirements"].as_array().map(Vec::len) != Some(REQUIREMENTS) {
        return wrong_answer("the first answer", &content);
    }
    client.end()?;
    Ok(elapsed)
}

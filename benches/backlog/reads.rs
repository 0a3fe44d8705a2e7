//! Reading a large backlog: a story's requirements, an epic with all below it, search, resources.

use std::collections::BTreeSet;
use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use serde_json::{Value, json};

use crate::Result;
use crate::client::Client;
use crate::entities::Language;
use crate::items::{REQUIREMENTS, STORIES, Size, reference};
use crate::rounds::{calls, quietest, row, wrong};
use crate::table::{Row, Times};

const CALLS: usize = 300;
const PAGES: usize = 30;
const SEARCH: &str = "search_global";
/// The most results of a page.
const PAGE: usize = 100;

/// The requirements of stories from all over the backlog.
pub(crate) fn stories(client: &mut Client, size: Size, bar: Duration) -> Result<()> {
    let story = |number: usize| {
        let number = number * 31 % size.stories() + 1;
        let story = reference(ItemKind::UserStory, number)?.to_string();
        Ok(json!({ "user_story": story }))
    };
    let stories = (0..CALLS).map(story).collect::<Result<Vec<Value>>>()?;
    let is_whole = |content: &Value| {
        content["requirements"].as_array().is_some_and(|all| all.len() == REQUIREMENTS)
    };
    let tool = "get_user_story_requirements";
    // The first call reads what there is.
    calls(client, tool, &stories[..1], is_whole)?;
    let found = calls(client, tool, &stories, is_whole)?;
    println!("{}", row(format!("{tool}, {REQUIREMENTS} of them"), found).bar(bar));
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
    let is_whole = |content: &Value| content["counts"] == counts;
    let found = calls(client, "epic_hierarchy", &epics, is_whole)?;
    let what = format!("epic_hierarchy, {} items", STORIES * (REQUIREMENTS + 1) + 1);
    println!("{}", row(what, found).bar(Duration::from_millis(3)));
    Ok(())
}

pub(crate) fn searches(client: &mut Client, language: &Language) -> Result<()> {
    let queries = language.queries(CALLS);
    let (first, _) = client.call(SEARCH, &json!({ "query": queries[0] }))?;
    let row_of = Row { p50: Some(first), ..Row::new("first search ever, index included") };
    println!("{row_of}");
    let is_found = |content: &Value| content["total"].as_u64() > Some(0);
    for limit in [10, 50] {
        let query = |query: &String| json!({ "query": query, "limit": limit });
        let queries: Vec<Value> = queries.iter().map(query).collect();
        let found = calls(client, SEARCH, &queries, is_found)?;
        let what = format!("search_global, {limit} results");
        println!("{}", row(what, found).bar(Duration::from_millis(3)));
    }
    for query in queries.iter().step_by(CALLS / 5) {
        check_total(client, query)?;
    }
    println!("{}", Row::new("total against all pages").note("the same: met"));
    Ok(())
}

/// Going through all pages finds as many as the first one said, none of them twice.
fn check_total(client: &mut Client, query: &str) -> Result<()> {
    let mut seen = BTreeSet::new();
    let (mut arguments, mut results) = (json!({ "query": query, "limit": PAGE }), 0);
    loop {
        let (_, content) = client.call(SEARCH, &arguments)?;
        for result in content["results"].as_array().into_iter().flatten() {
            seen.insert(result["reference_id"].as_str().unwrap_or_default().to_owned());
            results += 1;
        }
        arguments["cursor"] = content["next_cursor"].clone();
        if arguments["cursor"].is_null() {
            let total = &content["total"];
            let is_true = *total == results && seen.len() == results;
            return if is_true { Ok(()) } else { Err(wrong("the total", total)) };
        }
    }
}

pub(crate) fn resources(client: &mut Client, size: Size) -> Result<()> {
    let all = json!({ "uri": "requirements://requirements" });
    for (what, method, params) in [
        ("resources/list, first page", "resources/list", json!({})),
        ("resources/read, all requirements", "resources/read", all),
    ] {
        let before = client.processor_time()?;
        let mut bytes = 0;
        let times = quietest(|| {
            let mut ask = |_| {
                let (elapsed, result) = client.ask(method, &params)?;
                bytes = result.to_string().len();
                Ok(elapsed)
            };
            (0..PAGES).map(&mut ask).collect()
        })?;
        let used = client.processor_time()?.saturating_sub(before);
        let found: (Times, Duration) = (times, used / u32::try_from(3 * PAGES)?);
        let note = format!("{bytes} bytes of {} items", size.items());
        println!("{}", row(what, found).note(note));
    }
    Ok(())
}

//! A whole backlog loaded by tool calls, each of them durable, and looked at afterwards: all of it
//! is there, and no reference was lost or given twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use reqlore_domain::backlog::ItemKind;
use serde_json::{Value, json};

use crate::client::Client;
use crate::rounds::wrong;
use crate::table::{Row, Times, per_second};
use crate::{Place, Result, durable, entities, items, start};

/// Epics, stories and requirements of the backlog that is made up.
const MADE_UP: (usize, usize, usize) = (36, 251, 707);

pub(crate) fn measure(place: &Place, data: Option<&Path>) -> Result<()> {
    let epics = match data {
        Some(file) => serde_json::from_slice(&fs::read(file)?)?,
        None => made_up(place),
    };
    let (project, cache) = place.empty("load")?;
    let mut client = start(&project, &cache, "fs")?;
    let mut load = Load { client: &mut client, times: Vec::new(), made: Vec::new() };
    let clock = Instant::now();
    load.all(&epics)?;
    let elapsed = clock.elapsed();
    let Load { times, made, .. } = load;
    let count = made.len();
    println!("\n{count} items, each created by a call");
    let processor = client.processor_time()? / u32::try_from(count)?;
    let times = Times::of(times);
    let row = Row::new("create").times(&times).per_second(per_second(count, elapsed));
    let row = Row { processor: Some(processor), ..row };
    println!("{}", row.note(format!("{:.2} s in all", elapsed.as_secs_f64())));
    println!("{}", bare(&project, count)?);
    client.end()?;

    let mut client = start(&project, &cache, "fs")?;
    check(&mut client, &project, &made)?;
    println!("{}", Row::new("looked at by another process").note("all there, once: met"));
    Ok(client.end()?)
}

/// One item: what is above it, its own reference, its title.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    parent: String,
    reference: String,
    title: String,
}

struct Load<'a> {
    client: &'a mut Client,
    times: Vec<Duration>,
    made: Vec<Made>,
}

impl Load<'_> {
    fn all(&mut self, epics: &Value) -> Result<()> {
        for epic in list(epics) {
            let epic_reference = self.create("create_epic", epic, None)?;
            for story in list(&epic["user_stories"]) {
                let of = ("epic", epic_reference.as_str());
                let story_reference = self.create("create_user_story", story, Some(of))?;
                for requirement in list(&story["requirements"]) {
                    let of = ("user_story", story_reference.as_str());
                    self.create("create_requirement", requirement, Some(of))?;
                }
            }
        }
        Ok(())
    }

    fn create(&mut self, tool: &str, item: &Value, of: Option<(&str, &str)>) -> Result<String> {
        let priority = item["priority"].as_u64().unwrap_or(2);
        let mut arguments = json!({
            "title": item["title"], "description": item["description"], "priority": priority
        });
        if let Some((kind, parent)) = of {
            arguments[kind] = json!(parent);
        }
        if tool == "create_requirement" {
            arguments["type"] = item["type"].clone();
        }
        let (elapsed, content) = self.client.call(tool, &arguments)?;
        self.times.push(elapsed);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = text(&content["reference_id"]);
        let parent = of.map(|(_, parent)| parent.to_owned()).unwrap_or_default();
        self.made.push(Made { parent, reference: reference.clone(), title: text(&item["title"]) });
        Ok(reference)
    }
}

/// What so many durable writes of small files cost there by themselves.
fn bare(project: &Path, count: usize) -> Result<Row> {
    let folder = project.join("bare");
    fs::create_dir(&folder)?;
    let text = "A line of sixty-four bytes, as there are some in each of them.\n".repeat(8);
    let clock = Instant::now();
    let write = |number: usize| durable::write(&folder, &format!("{number}"), text.as_bytes());
    let times = (0..count).map(write).collect::<std::io::Result<Vec<Duration>>>()?;
    let elapsed = clock.elapsed();
    let row = Row::new("  as many bare durable writes").times(&Times::of(times));
    let row = row.per_second(per_second(count, elapsed));
    Ok(row.note(format!("{:.2} s in all", elapsed.as_secs_f64())))
}

/// What another server finds is what was made.
fn check(client: &mut Client, project: &Path, made: &[Made]) -> Result<()> {
    let mut found = BTreeSet::new();
    for epic in made.iter().filter(|made| made.parent.is_empty()) {
        let (_, content) = client.call("epic_hierarchy", &json!({ "epic": epic.reference }))?;
        let take = |parent: &Value, item: &Value, found: &mut BTreeSet<Made>| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (parent, reference) = (text(parent), text(&item["reference_id"]));
            found.insert(Made { parent, reference, title: text(&item["title"]) });
        };
        take(&Value::Null, &content["epic"], &mut found);
        for story in list(&content["user_stories"]) {
            take(&content["epic"]["reference_id"], story, &mut found);
            for requirement in list(&story["requirements"]) {
                take(&story["reference_id"], requirement, &mut found);
            }
        }
    }
    if found.len() != made.len() || !made.iter().all(|made| found.contains(made)) {
        return Err(format!("{} were made and {} found", made.len(), found.len()).into());
    }
    for kind in [ItemKind::Epic, ItemKind::UserStory, ItemKind::Requirement] {
        let references: BTreeSet<&str> = made.iter().map(|made| made.reference.as_str()).collect();
        let count = references.iter().filter(|text| text.starts_with(kind.prefix())).count();
        for number in 1..=count {
            let reference = items::reference(kind, number)?.to_string();
            if !references.contains(reference.as_str()) {
                return Err(wrong("a number was left out", &json!(reference)));
            }
        }
        let files = fs::read_dir(items::folder(project, kind))?.count();
        if files != count {
            return Err(format!("{files} files of {count} items").into());
        }
    }
    Ok(())
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn made_up(place: &Place) -> Value {
    let mut random = entities::Random::new(3);
    let mut item = |number: usize| {
        let title = place.language.words(&mut random, 5);
        let description = place.language.words(&mut random, 40);
        json!({
            "title": title, "description": description,
            "type": "Functional", "priority": 1 + number % 4
        })
    };
    let (epics, stories, requirements) = MADE_UP;
    let mut all_stories: Vec<Value> = (0..stories).map(&mut item).collect();
    for (number, story) in all_stories.iter_mut().enumerate() {
        let count = (number..requirements).step_by(stories).count();
        story["requirements"] = (0..count).map(&mut item).collect();
    }
    let mut all_epics: Vec<Value> = (0..epics).map(&mut item).collect();
    for (number, epic) in all_epics.iter_mut().enumerate() {
        let of = all_stories.iter().skip(number).step_by(epics);
        epic["user_stories"] = of.cloned().collect();
    }
    Value::Array(all_epics)
}

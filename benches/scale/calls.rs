//! The measured calls, 300 or 1,000 of each kind, spread over the whole project.

use std::time::Duration;

use reqlore_domain::backlog::ItemKind;
use serde_json::{Value, json};

use crate::bars::Measurements;
use crate::harness::Result;
use crate::harness::client::Client;
use crate::harness::language::SyntheticLanguage;
use crate::harness::report::{Times, wrong_answer};
use crate::items::{ProjectSize, TAGS, reference};

const CALLS: usize = 300;
/// Number of reads, searches and writes before memory is measured.
const MIXED_CALLS: usize = 1_000;
const PAGE_SIZE: usize = 50;
/// Number of pages to walk to a page in the middle: walking further takes too long.
const MAX_WALK: usize = 20;

/// Filters of requirements: label, arguments, and true if any item matches.
const FILTERS: [(&str, &str, bool); 3] = [
    ("common filter", r#"{"status":"Active"}"#, true),
    ("rare filter", r#"{"status":"Obsolete"}"#, true),
    ("empty filter", r#"{"status":"Obsolete","type":"Data"}"#, false),
];

pub(crate) fn measure(
    client: &mut Client,
    other: Option<&mut Client>,
    language: &SyntheticLanguage,
    size: ProjectSize,
    measurements: &mut Measurements,
) -> Result<()> {
    let mut bench = CallBench { client, language, size, measurements };
    bench.items()?;
    bench.tags()?;
    bench.creations(CALLS)?;
    bench.pages("list_epics", "first page of epics", &json!({}), true)?;
    for (label, filter, is_matched) in FILTERS {
        let filter: Value = serde_json::from_str(filter)?;
        bench.pages("search_requirements", label, &filter, is_matched)?;
    }
    bench.searches(CALLS)?;
    bench.searches_after_creations()?;
    if let Some(other) = other {
        bench.searches_after_other_process(other)?;
    }
    bench.mixed_calls()
}

struct CallBench<'a> {
    client: &'a mut Client,
    language: &'a SyntheticLanguage,
    size: ProjectSize,
    measurements: &'a mut Measurements,
}

impl CallBench<'_> {
    fn items(&mut self) -> Result<()> {
        let mut times = Vec::with_capacity(CALLS);
        for number in 0..CALLS {
            times.push(self.read_item(number)?);
        }
        self.measurements.add_times("get_item", &Times::from_unsorted(times));
        Ok(())
    }

    fn read_item(&mut self, number: usize) -> Result<Duration> {
        let number = number * 7_919 % self.size.requirements() + 1;
        let item = reference(ItemKind::Requirement, number)?.to_string();
        let (elapsed, content) = self.client.call("get_item", &json!({ "reference": item }))?;
        if content["links"]["incoming_total"].is_u64() {
            return Ok(elapsed);
        }
        wrong_answer("get_item", &content)
    }

    fn tags(&mut self) -> Result<()> {
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            times.push(list_tags(self.client)?);
        }
        self.measurements.add_times("ixchel_tags", &Times::from_unsorted(times));
        Ok(())
    }

    fn creations(&mut self, count: usize) -> Result<()> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            times.push(self.create(number, "created")?);
        }
        self.measurements.add_times("create_requirement", &Times::from_unsorted(times));
        Ok(())
    }

    fn create(&mut self, number: usize, title: &str) -> Result<Duration> {
        create(self.client, self.language, self.size, number, title)
    }

    /// Measures the first page of a list and, if there is one, a page further on.
    fn pages(
        &mut self,
        tool: &str,
        label: &'static str,
        filter: &Value,
        is_matched: bool,
    ) -> Result<()> {
        let mut arguments = filter.clone();
        arguments["limit"] = json!(PAGE_SIZE);
        let content = self.measure_page(tool, label, &arguments)?;
        let total = usize::try_from(content["total"].as_u64().unwrap_or_default())?;
        if (total > 0) != is_matched {
            return wrong_answer(tool, &content);
        }
        let mut cursor = content["next_cursor"].clone();
        // A list of one page has no cursor, and none in the middle.
        for _ in 1..(total / PAGE_SIZE / 2).min(MAX_WALK) {
            arguments["cursor"] = cursor;
            let (_, content) = self.client.call(tool, &arguments)?;
            cursor = content["next_cursor"].clone();
        }
        if cursor.is_string() {
            arguments["cursor"] = cursor;
            self.measure_page(tool, middle_label(label), &arguments)?;
        }
        Ok(())
    }

    /// Measures one page and returns it.
    fn measure_page(
        &mut self,
        tool: &str,
        label: &'static str,
        arguments: &Value,
    ) -> Result<Value> {
        let mut times = Vec::new();
        let mut page = Value::Null;
        // A page that takes a second is measured once.
        while times.len() < CALLS && times.iter().sum::<Duration>() < Duration::from_secs(1) {
            let (elapsed, content) = self.client.call(tool, arguments)?;
            times.push(elapsed);
            page = content;
        }
        self.measurements.add_times(label, &Times::from_unsorted(times));
        Ok(page)
    }

    fn searches(&mut self, count: usize) -> Result<()> {
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            times.push(self.search(number)?);
        }
        self.measurements.add_times("search_global, six words", &Times::from_unsorted(times));
        Ok(())
    }

    fn search(&mut self, number: usize) -> Result<Duration> {
        let arguments = json!({ "query": self.language.query(number), "limit": 10 });
        let (elapsed, content) = self.client.call("search_global", &arguments)?;
        if content["total"].as_u64() > Some(0) {
            return Ok(elapsed);
        }
        wrong_answer("search_global", &content)
    }

    /// Each search must find the requirement that was created just before.
    fn searches_after_creations(&mut self) -> Result<()> {
        let mut times = Vec::with_capacity(MIXED_CALLS);
        for number in 0..MIXED_CALLS {
            let word = format!("zq{number}created");
            self.create(number, &word)?;
            times.push(self.find(number, &word)?);
        }
        self.measurements.add_times("search_global after a create", &Times::from_unsorted(times));
        Ok(())
    }

    /// Each search must find the requirement that another server created just before.
    fn searches_after_other_process(&mut self, other: &mut Client) -> Result<()> {
        let mut times = Vec::with_capacity(MIXED_CALLS);
        for number in 0..MIXED_CALLS {
            let word = format!("zq{number}other");
            create(other, self.language, self.size, number, &word)?;
            times.push(self.find(number, &word)?);
        }
        let label = "search_global after another process";
        self.measurements.add_times(label, &Times::from_unsorted(times));
        Ok(())
    }

    fn find(&mut self, number: usize, word: &str) -> Result<Duration> {
        let arguments = json!({ "query": format!("{word} {}", self.language.query(number)) });
        let (elapsed, content) = self.client.call("search_global", &arguments)?;
        if content["results"][0]["title"] == *word {
            return Ok(elapsed);
        }
        wrong_answer("search_global after a create", &content["results"][0])
    }

    fn mixed_calls(&mut self) -> Result<()> {
        for number in 0..MIXED_CALLS {
            self.read_item(number)?;
            self.search(number)?;
            self.create(number, "mixed")?;
        }
        Ok(())
    }
}

/// Creates a requirement durably.
pub(crate) fn create(
    client: &mut Client,
    language: &SyntheticLanguage,
    size: ProjectSize,
    number: usize,
    title: &str,
) -> Result<Duration> {
    let story = reference(ItemKind::UserStory, number % size.stories() + 1)?.to_string();
    let arguments = json!({
        "user_story": story, "title": title, "priority": 2, "type": "Functional",
        "description": language.query(number)
    });
    Ok(client.call("create_requirement", &arguments)?.0)
}

pub(crate) fn list_tags(client: &mut Client) -> Result<Duration> {
    let (elapsed, content) = client.call("ixchel_tags", &json!({}))?;
    if content["total"].as_u64() == Some(TAGS) {
        return Ok(elapsed);
    }
    wrong_answer("ixchel_tags", &content)
}

fn middle_label(label: &str) -> &'static str {
    match label {
        "first page of epics" => "middle page of epics",
        "common filter" => "common filter, middle page",
        _ => "middle page of another list",
    }
}

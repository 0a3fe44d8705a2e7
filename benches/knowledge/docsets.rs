//! Docset tools on five docsets in turn, and the list of a thousand.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::report::measure_calls;
use crate::harness::{Result, micros};
use crate::start;

const LIST: &str = "list_docsets";
const SEARCH: &str = "search_docs";
const COUNT: usize = 5;
const LONG_LIST: usize = 1_000;
const CALLS: usize = 2_000;

pub(crate) fn measure(folder: &Path) -> Result<()> {
    let project = folder.join("docsets");
    for docset in 0..COUNT {
        fs::create_dir_all(project.join(format!(".knowledge/docs/library-{docset}-1.{docset}")))?;
    }
    write_config(&project, COUNT)?;
    let (mut client, _) = start(&project, &folder.join("docsets-cache"), "static")?;

    let lists = vec![json!({}); CALLS];
    let is_list = |content: &Value| content["docsets"].as_array().map(Vec::len) == Some(COUNT);
    // The first calls read the configuration.
    measure_calls(LIST, &mut client, LIST, &lists[..50], is_list)?;
    let label = "list_docsets, 5 docsets (bar on p99)";
    println!("{}", measure_calls(label, &mut client, LIST, &lists, is_list)?.bar_p99(micros(300)));

    let searches: Vec<Value> = (0..CALLS).map(search_arguments).collect();
    let exists = |content: &Value| content["exists"] == true;
    let label = "search_docs, 5 docsets (bar on p99)";
    println!(
        "{}",
        measure_calls(label, &mut client, SEARCH, &searches, exists)?.bar_p99(micros(500))
    );

    write_config(&project, LONG_LIST)?;
    let is_long = |content: &Value| content["docsets"].as_array().map(Vec::len) == Some(LONG_LIST);
    measure_calls(LIST, &mut client, LIST, &lists[..5], is_long)?;
    let label = "list_docsets, 1,000 docsets (bar on p99)";
    let measured = measure_calls(label, &mut client, LIST, &lists[..200], is_long)?;
    println!("{}", measured.bar_p99(micros(5_000)));

    Ok(client.end()?)
}

fn search_arguments(number: usize) -> Value {
    let docset = format!("library-{}", number % COUNT);
    json!({
        "docset": docset,
        "keywords": [format!("useEffect{number}"), "cleanup"],
        "generalized_keywords": ["hooks"]
    })
}

fn write_config(project: &Path, count: usize) -> Result<()> {
    let mut text = "docsets:\n".to_owned();
    for docset in 0..count {
        write!(
            text,
            "  library-{docset}:\n    version: \"1.{docset}\"\n    aliases: [l{docset}]\n"
        )?;
    }
    Ok(fs::write(project.join(".knowledge/config.yaml"), text)?)
}

//! Docsets: five of them, asked in turn, and a configuration that is edited meanwhile.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::table::Row;
use crate::{Result, calls, micros, row, start, wrong};

const LIST: &str = "list_docsets";
const SEARCH: &str = "search_docs";
const COUNT: usize = 5;
const CALLS: usize = 2_000;

pub(crate) fn measure(folder: &Path) -> Result<()> {
    let project = folder.join("docsets");
    for docset in 0..COUNT {
        fs::create_dir_all(project.join(format!(".knowledge/docs/library-{docset}-1.{docset}")))?;
    }
    configure(&project, COUNT)?;
    let (mut client, _) = start(&project, &folder.join("docsets-cache"), "static")?;

    let lists = vec![json!({}); CALLS];
    let is_list = |content: &Value| docsets(content) == COUNT;
    // The first calls read the configuration.
    calls(&mut client, LIST, &lists[..50], is_list)?;
    let found = calls(&mut client, LIST, &lists, is_list)?;
    println!("{}", row("list_docsets, 5 docsets (bar on p99)", found).bar_p99(micros(300)));

    let searches: Vec<Value> = (0..CALLS).map(search).collect();
    let found = calls(&mut client, SEARCH, &searches, |content| content["exists"] == true)?;
    println!("{}", row("search_docs, 5 docsets (bar on p99)", found).bar_p99(micros(500)));

    for count in [COUNT + 1, COUNT] {
        configure(&project, count)?;
        let (_, content) = client.call(LIST, &json!({}))?;
        if docsets(&content) != count {
            return Err(wrong("the call after an edit of the configuration", &content));
        }
    }
    println!("{}", Row::new("configuration edited").note("the next call knows it: met"));
    Ok(client.end()?)
}

fn search(number: usize) -> Value {
    let docset = format!("library-{}", number % COUNT);
    json!({
        "docset": docset,
        "keywords": [format!("useEffect{number}"), "cleanup"],
        "generalized_keywords": ["hooks"]
    })
}

fn docsets(content: &Value) -> usize {
    content["docsets"].as_array().map_or(0, Vec::len)
}

fn configure(project: &Path, count: usize) -> Result<()> {
    let mut text = "docsets:\n".to_owned();
    for docset in 0..count {
        write!(
            text,
            "  library-{docset}:\n    version: \"1.{docset}\"\n    aliases: [l{docset}]\n"
        )?;
    }
    Ok(fs::write(project.join(".knowledge/config.yaml"), text)?)
}

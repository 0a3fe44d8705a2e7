//! Edits of front matter that change the keys they are told and no other byte.
//!
//! What is not replaced stays untouched by construction. The trap is what YAML makes of it: a new
//! value may end a block or swallow a line, so the result is read again, and an edit that changes
//! more than was asked is refused.

use super::place::{Splice, Tree};
use super::render::{Value, scalar};
use super::{Parts, read, split};
use crate::yaml::{self, Map, Node};

/// What a key shall say.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    pub key: &'a str,
    /// `None` removes the key.
    pub value: Option<Value>,
}

/// Edits the front matter of a text. A key that is there gets its value in its place, a new one
/// comes last, or before the `last` keys where those are at the end, which themselves come last; a
/// text without front matter gets one. Refused, with words for whoever can mend
/// the text, where the edit can't be proved to change nothing else.
pub fn edit(text: &str, sets: &[Set<'_>], last: &[&str]) -> Result<String, String> {
    let parts = split(text);
    let before = map(parts)?;
    let same = |set: &&Set<'_>| !is_set(&before, set);
    let sets: Vec<&Set<'_>> = sets.iter().filter(same).collect();
    if sets.is_empty() {
        return Ok(text.to_owned());
    }
    let edited = match parts.yaml {
        Some(yaml) => within(text, yaml, &before, &sets, last)?,
        None if begins_unended(parts.body) => {
            return Err(refusal("it begins with `---` and has no second line like that"));
        }
        None => in_front(text, parts.body, &sets),
    };
    prove(&edited, parts, &before, &sets)?;
    Ok(edited)
}

/// A front matter by itself.
pub fn new(sets: &[Set<'_>]) -> String {
    let lines: String = sets.iter().map(|set| line(set, "\n")).collect();
    format!("---\n{lines}---\n")
}

/// The text with another description: a blank line behind the front matter, the description
/// without line ends around it, and a line end; nothing where it is empty.
pub fn with_body(text: &str, description: &str) -> String {
    let head = &text[..text.len() - split(text).body.len()];
    let description = description.trim_matches(['\r', '\n']);
    let end = line_end(text);
    if description.is_empty() {
        return head.to_owned();
    }
    // Without front matter there is nothing that a blank line would part from the description.
    let gap = match head {
        "" | "\u{feff}" => String::new(),
        head if head.ends_with('\n') => end.to_owned(),
        _ => end.repeat(2),
    };
    format!("{head}{gap}{description}{end}")
}

fn refusal(reason: &str) -> String {
    format!("the front matter can't be edited safely: {reason}; edit the file by hand")
}

fn map(parts: Parts<'_>) -> Result<Map, String> {
    let at = |fault: yaml::Fault| refusal(&format!("line {}: {}", fault.line, fault.reason));
    let mut map = read(parts).map_err(at)?;
    match map.fault.take() {
        Some(fault) => Err(at(fault)),
        None => Ok(map),
    }
}

fn node<'a>(map: &'a Map, key: &str) -> Option<&'a Node> {
    map.entries.iter().find(|(name, _)| name == key).map(|(_, node)| node)
}

fn is_set(map: &Map, set: &Set<'_>) -> bool {
    match (&set.value, node(map, set.key)) {
        (Some(value), Some(node)) => value.is(&node.value),
        (value, node) => value.is_none() && node.is_none(),
    }
}

/// Did somebody begin front matter and not end it?
fn begins_unended(body: &str) -> bool {
    let mut lines = body.lines();
    lines.next().is_some_and(|line| line.trim_end() == "---")
        && lines.next().is_some_and(|line| line.contains(':'))
}

/// The kind of line end that a text has.
fn line_end(text: &str) -> &'static str {
    let first = text.split_inclusive('\n').next().unwrap_or_default();
    if first.ends_with("\r\n") { "\r\n" } else { "\n" }
}

fn line(set: &Set<'_>, end: &str) -> String {
    let value = set.value.as_ref().map(Value::render).unwrap_or_default();
    format!("{}: {value}{end}", scalar(set.key, true))
}

/// A front matter of its own before all the text.
fn in_front(text: &str, body: &str, sets: &[&Set<'_>]) -> String {
    let end = line_end(text);
    let mark = &text[..text.len() - body.len()];
    let lines: String = sets.iter().map(|set| line(set, end)).collect();
    let gap = if body.is_empty() || body.starts_with(['\r', '\n']) { "" } else { end };
    format!("{mark}---{end}{lines}---{end}{gap}{body}")
}

fn within(
    text: &str,
    yaml: &str,
    before: &Map,
    sets: &[&Set<'_>],
    last: &[&str],
) -> Result<String, String> {
    let end = line_end(text);
    let names: Vec<&str> = before.entries.iter().map(|(name, _)| name.as_str()).collect();
    let tree = Tree::read(yaml, &names, end).map_err(|reason| refusal(&reason))?;
    let mut splices = Vec::new();
    // A place that can't be told is the end.
    let run = names.iter().rev().take_while(|name| last.contains(name)).count();
    let early = tree.remove(names.len() - run).ok().filter(|_| run > 0);
    let early = early.map(|splice| splice.part.start);
    let (mut added, mut inserted) = (String::new(), String::new());
    for set in sets {
        let at = names.iter().position(|name| *name == set.key);
        let splice = match (at, &set.value) {
            (Some(at), Some(value)) => tree.replace(at, value),
            (Some(at), None) => tree.remove(at),
            (None, _) => {
                let is_late = early.is_none() || last.contains(&set.key);
                let lines = if is_late { &mut added } else { &mut inserted };
                lines.push_str(&tree.indent());
                lines.push_str(&line(set, end));
                continue;
            }
        };
        let odd = |what: String| refusal(&format!("`{}` has {what}", set.key));
        splices.push(splice.map_err(odd)?);
    }
    splices.push(Splice { part: yaml.len()..yaml.len(), text: added });
    let early = early.unwrap_or(yaml.len());
    splices.push(Splice { part: early..early, text: inserted });
    splices.sort_by_key(|splice| splice.part.start);
    // Both are parts of one text.
    let offset = yaml.as_ptr().addr() - text.as_ptr().addr();
    let mut edited = text.to_owned();
    for Splice { part, text } in splices.into_iter().rev() {
        edited.replace_range(offset + part.start..offset + part.end, &text);
    }
    Ok(edited)
}

/// Reads what was edited: the keys say what they were told, and nothing else is different.
fn prove(edited: &str, old: Parts<'_>, before: &Map, sets: &[&Set<'_>]) -> Result<(), String> {
    let parts = split(edited);
    let more = || refusal("something else would get another meaning");
    // A fault of the result is none that its author could find in the file.
    let after = map(parts).map_err(|_| more())?;
    // A new front matter is parted from its body by a blank line.
    let edges: &[char] = if old.yaml.is_some() { &[] } else { &['\r', '\n'] };
    let is_other = |(name, _): &&(String, Node)| sets.iter().all(|set| set.key != name);
    let others = |map: &Map| -> Vec<(String, Node)> {
        map.entries.iter().filter(is_other).cloned().collect()
    };
    let (was, is) = (others(before), others(&after));
    let kept = was.len() == is.len()
        && was.iter().zip(&is).all(|(was, is)| was.0 == is.0 && alike(&was.1, &is.1));
    let same_body = parts.body.trim_start_matches(edges) == old.body.trim_start_matches(edges);
    if !same_body || !kept || !sets.iter().all(|set| is_set(&after, set)) {
        return Err(more());
    }
    Ok(())
}

/// Do two nodes say the same, wherever they stand?
fn alike(a: &Node, b: &Node) -> bool {
    use yaml::Value::{List, Map};
    match (&a.value, &b.value) {
        (List(a), List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Map(a), Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.0 == b.0 && alike(&a.1, &b.1))
        }
        (a, b) => a == b,
    }
}

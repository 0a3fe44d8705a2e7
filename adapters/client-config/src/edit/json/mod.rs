//! An entry in JSON as clients read it: with comments and trailing commas, and no freer than that.

mod change;
mod document;
mod print;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use serde_json::{Map, Value};

use self::document::Document;
use super::{Entry, NAME, Unreadable};

pub(super) fn find(body: &str, path: &[&str]) -> Result<Option<Value>, Unreadable> {
    let readable = document::readable(body);
    let document = Document::read(&readable)?;
    Ok(match document.spot(path)? {
        Spot::Here { entry, .. } => Some(Value::from(ast::Value::Object(entry.clone()))),
        Spot::Nowhere | Spot::Missing { .. } => None,
    })
}

pub(super) fn put(body: &str, path: &[&str], entry: &Entry) -> Result<String, Unreadable> {
    let mut body = body.to_owned();
    // The first change may make the whole entry, each other one is for one key.
    for _ in 0..=entry.set.len() + entry.drop.len() {
        let Some(edited) = step(&body, path, entry)? else { break };
        body = edited;
    }
    Ok(body)
}

pub(super) fn take(body: &str, path: &[&str]) -> Result<String, Unreadable> {
    let readable = document::readable(body);
    let document = Document::read(&readable)?;
    let Spot::Here { map, at, .. } = document.spot(path)? else { return Ok(body.to_owned()) };
    Ok(change::remove(body, &document, map, at))
}

/// The next change that leads to the entry as it shall be, if there is one to do.
fn step(body: &str, path: &[&str], entry: &Entry) -> Result<Option<String>, Unreadable> {
    let readable = document::readable(body);
    let document = Document::read(&readable)?;
    let here = match document.spot(path)? {
        Spot::Nowhere => {
            let names: Vec<&str> = path.iter().copied().chain([NAME]).collect();
            return Ok(Some(change::begin(body, &nested(&names, &entry.set))));
        }
        Spot::Missing { map, depth } => {
            let names: Vec<&str> = path.iter().copied().chain([NAME]).skip(depth).collect();
            let value = nested(&names[1..], &entry.set);
            return Ok(Some(change::insert(body, &document, map, names[0], &value)));
        }
        Spot::Here { entry, .. } => entry,
    };
    for key in entry.drop {
        if let Some(at) = document.property(here, key)? {
            return Ok(Some(change::remove(body, &document, here, at)));
        }
    }
    for (key, value) in &entry.set {
        let Some(at) = document.property(here, key)? else {
            return Ok(Some(change::insert(body, &document, here, key, value)));
        };
        if Value::from(here.properties[at].value.clone()) != *value {
            return Ok(Some(change::replace(body, &document, here, at, value)));
        }
    }
    Ok(None)
}

/// The entry in the maps that are missing around it.
fn nested(names: &[&str], entry: &Map<String, Value>) -> Value {
    names.iter().rev().fold(Value::Object(entry.clone()), |inner, name| {
        Value::Object(Map::from_iter([((*name).to_owned(), inner)]))
    })
}

/// How far the path leads.
enum Spot<'d, 'a> {
    /// There is no value at all.
    Nowhere,
    /// To this map, which is the one of so many names of the path.
    Missing { map: &'d ast::Object<'a>, depth: usize },
    /// To our entry, the property `at` of this map.
    Here { map: &'d ast::Object<'a>, at: usize, entry: &'d ast::Object<'a> },
}

impl<'a> Document<'a> {
    fn spot(&self, path: &[&str]) -> Result<Spot<'_, 'a>, Unreadable> {
        let Some(root) = &self.root else { return Ok(Spot::Nowhere) };
        let Some(mut map) = root.as_object() else {
            let what = "the file is no JSON object; write `{}` instead of what is there, or move \
                        the file away, then run this again";
            return Err(Unreadable::at(self.text, root.start(), what));
        };
        for (depth, name) in path.iter().copied().chain([NAME]).enumerate() {
            let Some(at) = self.property(map, name)? else {
                return Ok(Spot::Missing { map, depth });
            };
            let property = &map.properties[at];
            let Some(inner) = property.value.as_object() else {
                let what = format!(
                    "the value of `{name}` has to be an object; remove `{name}`, or write `{{}}` \
                     as its value, then run this again"
                );
                return Err(Unreadable::at(self.text, property.value.start(), &what));
            };
            if depth == path.len() {
                return Ok(Spot::Here { map, at, entry: inner });
            }
            map = inner;
        }
        Ok(Spot::Nowhere)
    }

    /// Which property of the map has this name.
    fn property(&self, map: &ast::Object<'_>, name: &str) -> Result<Option<usize>, Unreadable> {
        let named = |property: &ast::ObjectProp| property.name.as_str() == name;
        let first = map.properties.iter().position(named);
        let last = map.properties.iter().rposition(named);
        match last {
            Some(at) if last != first => {
                let what = format!(
                    "`{name}` stands twice in this object, and clients differ in which they \
                     take; remove one, then run this again"
                );
                Err(Unreadable::at(self.text, map.properties[at].start(), &what))
            }
            _ => Ok(first),
        }
    }
}

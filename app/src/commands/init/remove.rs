//! What `--remove` would change: everything that the record tells of. What it does not tell of may
//! be others' who committed it, so that goes only where the client is named.
//!
//! Where what was put in still stands as it was, the bytes come back that were there before.
//! Otherwise only the entry or the block is cut out, and the person is told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use reqlore_client_config::edit::{self, Slot, block};
use reqlore_client_config::{Client, Place, Scope, Surroundings};
use serde_json::{Map, Value};

use super::plan::{self, Change, Outcome, Plan};
use super::record::{Kept, Record, What};
use super::{Options, agents, files, words};

const EDITED: &str = "it was edited since: only what is Reqlore's goes, the rest stays";
const UNRECORDED: &str =
    "there is no record of it: only what is Reqlore's goes, whatever stood there before";

pub(super) fn plan(
    options: &Options,
    clients: &[Client],
    record: &Record,
    around: &Surroundings,
) -> Plan {
    let mut plan = Plan::default();
    let is_asked = |kept: &Kept| is_asked(kept, options, around);
    for (path, kept) in record.files.iter().filter(|(_, kept)| is_asked(kept)) {
        plan.changes.push(recorded(path, kept, around));
    }
    for client in clients {
        // What has no place here was not put anywhere either.
        let named = plan::place(*client, options.scope(), around).ok();
        let named = named.filter(|_| !options.client.is_empty()).map(|(scope, _)| scope);
        for scope in [Scope::Project, Scope::User] {
            let Ok(place) = client.place(scope, around) else { continue };
            let seen = files::see(&place.file, None);
            if seen.as_ref().is_ok_and(|seen| record.files.contains_key(&seen.target)) {
                continue;
            }
            if named == Some(scope) {
                let change = plan.change(*client, scope, &place, around);
                take(change, |text| take_entry(text, &[place.slot]), UNRECORDED);
            } else if options.scope().is_none_or(|asked| asked == scope) && has_entry(&place) {
                plan.warnings.push(unrecorded(*client, scope, &place, around));
            }
        }
    }
    add_agents_md(&mut plan, options, record, around);
    plan.changes.sort_by_key(|change| change.what != What::Entry);
    plan
}

/// Others may have put it there and committed it, so it stays until somebody names the client.
fn unrecorded(client: Client, scope: Scope, place: &Place, around: &Surroundings) -> String {
    format!(
        "{} has an entry that is not on record as init's; to take it out: reqlore init --remove \
         --client {client} --scope {}",
        words::shown(&place.file, around),
        words::scope(scope)
    )
}

fn has_entry(place: &Place) -> bool {
    let text = files::see(&place.file, None).ok().and_then(|seen| seen.text);
    text.is_some_and(|text| matches!(edit::find(&text, place.slot), Ok(Some(_))))
}

fn is_asked(kept: &Kept, options: &Options, around: &Surroundings) -> bool {
    let is_here = kept.project.as_ref().is_none_or(|project| *project == around.project);
    let scope = if kept.project.is_some() { Scope::Project } else { Scope::User };
    let is_in_scope = options.scope().is_none_or(|asked| asked == scope);
    let is_named = |client: &Client| kept.clients.contains(client.name());
    let is_of_client = options.client.is_empty() || options.client.iter().any(is_named);
    kept.what != What::Block && is_here && is_in_scope && is_of_client
}

/// AGENTS.md is for all clients of the project, so it stays while one of them has its entry: one
/// of ours, or, where nothing is on record, anybody's.
fn add_agents_md(plan: &mut Plan, options: &Options, record: &Record, around: &Surroundings) {
    if options.no_agents_md || options.scope() == Some(Scope::User) {
        return;
    }
    let going = plan.changes.iter().filter(|change| !change.is_refused());
    let going: BTreeSet<&Path> = going.map(|change| &*change.target).collect();
    let is_here = |kept: &Kept| kept.project.as_ref() == Some(&around.project);
    let here: Vec<_> = record.files.iter().filter(|(_, kept)| is_here(kept)).collect();
    let stays = |(path, kept): &&(&PathBuf, &Kept)| {
        kept.what == What::Entry && !going.contains(path.as_path())
    };
    if let Some((path, kept)) = here.iter().find(|(_, kept)| kept.what == What::Block) {
        if !here.iter().any(|kept| stays(&kept)) {
            plan.changes.push(recorded(path, kept, around));
        }
        return;
    }
    let is_needed = Client::ALL.into_iter().any(|client| {
        let place = client.place(Scope::Project, around);
        place.is_ok_and(|place| {
            let seen = files::see(&place.file, None);
            seen.is_ok_and(|seen| !going.contains(&*seen.target)) && has_entry(&place)
        })
    });
    if here.is_empty() && !options.client.is_empty() && !is_needed {
        let path = around.project.join(agents::FILE);
        let mut change = see(What::Block, &[], Scope::Project, &path, around);
        take(&mut change, take_block, UNRECORDED);
        plan.changes.push(change);
    }
}

fn see(what: What, clients: &[Client], scope: Scope, path: &Path, a: &Surroundings) -> Change {
    let titles: Vec<&str> = clients.iter().map(|client| client.title()).collect();
    let title = match what {
        What::Entry => titles.join(", "),
        What::Block => agents::TITLE.to_owned(),
        What::Beginning => "To begin with".to_owned(),
    };
    let mut change = Change::see(what, &title, scope, path, &a.project);
    change.clients = clients.to_vec();
    change
}

/// What the record tells of one file.
fn recorded(path: &Path, kept: &Kept, around: &Surroundings) -> Change {
    let scope = if kept.project.is_some() { Scope::Project } else { Scope::User };
    let clients: Vec<Client> = kept.clients.iter().filter_map(|name| Client::named(name)).collect();
    let mut change = see(kept.what, &clients, scope, path, around);
    let Some(text) = change.before.clone() else { return change };
    let undone =
        kept.undo(&text).filter(|undone| kept.what != What::Block || is_whole(undone, &text));
    match (undone, kept.what) {
        (Some(undone), _) => change.become_text(Ok(undone)),
        (None, What::Entry) => {
            let places = clients.iter().filter_map(|client| client.place(scope, around).ok());
            let slots: Vec<Slot> = places.map(|place| place.slot).collect();
            take(&mut change, |text| take_entry(text, &slots), EDITED);
        }
        (None, What::Block) => take(&mut change, take_block, EDITED),
        (None, What::Beginning) if text.is_empty() => {}
        // All of it was ours; by now it is somebody's work.
        (None, What::Beginning) => return change,
    }
    change.is_known = true;
    let new_file = clients.first().map_or("", |client| client.new_file());
    if kept.is_new && !change.is_refused() && is_nothing(change.text(), new_file) {
        change.remove_file();
    }
    change
}

/// Cuts out what is ours, and says what that means.
fn take(change: &mut Change, cut: impl Fn(&str) -> Result<String, String>, why: &str) {
    let Some(text) = change.before.clone().filter(|_| !change.is_refused()) else { return };
    change.become_text(cut(&text));
    change.is_known = !matches!(change.outcome, Outcome::Same);
    if let Outcome::Write { note, .. } = &mut change.outcome {
        *note = Some(why.to_owned());
    }
}

fn take_entry(text: &str, slots: &[Slot]) -> Result<String, String> {
    let mut text = text.to_owned();
    // What can't be read holds nothing of ours where our name is not in it.
    let is_named = text.contains(edit::NAME);
    for slot in slots.iter().filter(|_| is_named) {
        text = edit::take(&text, *slot).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn take_block(text: &str) -> Result<String, String> {
    block::take(text).map_err(|error| error.to_string())
}

/// Has it every line that stood around the block? The file may have ended without a line end when
/// the block came in, and something may follow by now.
fn is_whole(undone: &str, text: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    block::take(text).is_ok_and(|cut| words(&cut) == words(undone))
}

/// Is a file that init made as good as empty, with only what it began with and what surrounded an
/// entry left?
fn is_nothing(text: &str, new_file: &str) -> bool {
    let words = text.trim_start_matches('\u{feff}').trim();
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).ok();
    let began = read(new_file).unwrap_or_default();
    let is_nothing =
        |(key, value): (&String, &Value)| is_empty(value) || began.get(key) == Some(value);
    words.is_empty() || read(words).is_some_and(|map| map.iter().all(is_nothing))
}

/// Are there only maps in it, like `{ "mcpServers": {} }`?
fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.values().all(is_empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_surrounded_an_entry_is_nothing() {
        let schema = "{\"$schema\": \"https://example.org\"}";
        for text in ["", "\n", "{}", "{\n  \"mcpServers\": {}\n}\n", "{\"a\": {\"b\": {}}}", schema]
        {
            assert!(is_nothing(text, schema), "{text}");
        }
        for text in ["x", "{\"a\": 1}", "{} // mine", "{\"a\": []}", "# mine\n", schema] {
            assert!(!is_nothing(text, ""), "{text}");
        }
    }
}

//! `reqlore export`: writes the project's items for another tool.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use reqlore_domain::backlog::ItemKind;
use reqlore_domain::error::ErrorKind;
use reqlore_domain::ports::exchange::{ExchangeFormat, ExportedFiles, find_format, format_names};
use reqlore_domain::records::answers::lists::{LISTED_KEYS, ListPage, ListedItem};
use reqlore_domain::untrusted_text::{encode_line, encode_lines};
use reqlore_exchange::{EXPORT_FORMATS, FORMATS};
use serde_json::json;

use super::output::{clean_line, print, write_stdout, write_stdout_bytes};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::config::AppConfig;
use crate::console::eprint_line;
use crate::exit::{CommandError, Result};

/// Items in one call. Each page counts all items of its kind.
const PAGE_ITEMS: usize = 1_000;
/// Keys of lists that no file has.
const LEFT_OUT: [&str; 2] = ["updated_at", "progress"];
/// All kinds of entities.
const ENTITY: &str = "entity";

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  reqlore export csv --out items.csv --epic EP-001")]
pub(crate) struct ExportOptions {
    #[arg(value_name = "FORMAT", help = format_names(&EXPORT_FORMATS).join(", "))]
    format: String,
    /// The file, or the folder for openspec and strictdoc [default: standard output]
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    /// Only this epic with all below it
    #[arg(long, value_name = "EPIC", help_heading = "Filters", add = super::complete::epics())]
    epic: Option<String>,
    /// Only this kind, such as requirement or decision; may be repeated
    #[arg(long = "kind", value_name = "KIND", help_heading = "Filters")]
    kinds: Vec<String>,
    /// Only items with this status
    #[arg(long, value_name = "STATUS", help_heading = "Filters")]
    status: Option<String>,
    /// Only items with this tag
    #[arg(long, value_name = "TAG", help_heading = "Filters")]
    tag: Option<String>,
    #[command(flatten)]
    project: ProjectOptions,
}

pub(crate) fn run(config: &AppConfig, options: &ExportOptions) -> Result<u8> {
    let invalid = |problem: String| CommandError::usage_error(format!("FORMAT: {problem}"));
    let named = |formats: &[_]| find_format(formats, &options.format);
    let format = named(&FORMATS).or_else(|_| named(&EXPORT_FORMATS)).map_err(invalid)?;
    // Before the project is read.
    format.write(Vec::new()).map_err(invalid)?;
    let client = ToolClient::open(config, &options.project, ClientPurpose::Read)?;
    let mut filter = options.filter()?;
    let mut records = Vec::new();
    visit_records(&client, |record| {
        if filter.accepts(&record) {
            records.push(record);
        }
    })?;
    drop(client);
    if records.is_empty() {
        return Err(CommandError::failure("no item matches; nothing was written"));
    }
    let (count, left_out) = left_out(format, &records);
    let count = records.len() - count;
    let files = format.write(records).map_err(invalid)?;
    if options.out.is_none() && !left_out.is_empty() {
        eprint_line(left_out.trim_end());
    }
    write_files(files, options.out.as_deref(), (count, &left_out))
}

/// The number of records that the format cannot write, and a sentence about them. Parents come
/// before children.
fn left_out(format: &dyn ExchangeFormat, records: &[ListedItem]) -> (usize, String) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut written = HashSet::new();
    for ListedItem { kind, reference_id, parent, .. } in records {
        let is_below = parent.as_ref().is_none_or(|parent| written.contains(parent));
        if !format.needs_parents() || is_below {
            written.insert(reference_id);
        }
        if !format.can_write_kind(kind) || !written.contains(reference_id) {
            *counts.entry(kind).or_default() += 1;
        }
    }
    let parts: Vec<String> = counts.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    let sentence = match &*parts.join(", ") {
        "" => String::new(),
        parts => format!(
            "Not exported, because {} has no such kind or no parent for them: {parts}.\n",
            format.name()
        ),
    };
    (counts.values().sum(), sentence)
}

/// `argument` named the format.
pub(super) fn parse_format(argument: &str, name: &str) -> Result<&'static dyn ExchangeFormat> {
    find_format(&FORMATS, name)
        .map_err(|problem| CommandError::usage_error(format!("{argument}: {problem}")))
}

/// Calls `visit` with each record, items in the order of [`ItemKind::ALL`] and then entities.
pub(super) fn visit_records(client: &ToolClient, mut visit: impl FnMut(ListedItem)) -> Result<()> {
    let mut keys = LISTED_KEYS.to_vec();
    keys.retain(|key| !LEFT_OUT.contains(key));
    let kinds = ItemKind::ALL.map(ItemKind::name).into_iter().chain([ENTITY]);
    for kind in kinds {
        let mut arguments =
            json!({ "kind": kind, "sort": "reference", "show": keys, "limit": PAGE_ITEMS });
        loop {
            let page: ListPage = match client.call("list_items", arguments.clone()) {
                // The toolset of entities is turned off.
                Err(error) if error.kind == ErrorKind::InvalidArgument && kind == ENTITY => break,
                page => page?,
            };
            page.items.into_iter().for_each(&mut visit);
            match page.next_cursor {
                Some(cursor) => arguments["cursor"] = json!(cursor),
                None => break,
            }
        }
    }
    Ok(())
}

struct RecordFilter<'a> {
    options: &'a ExportOptions,
    kinds: Vec<&'static str>,
    /// The parents of the visited records, from which the epic of each follows.
    parents: HashMap<String, String>,
}

impl ExportOptions {
    fn filter(&self) -> Result<RecordFilter<'_>> {
        let mut kinds = Vec::new();
        for name in &self.kinds {
            let kind = reqlore_domain::records::kinds::find_kind(name).ok_or_else(|| {
                CommandError::usage_error(format!("--kind: {:?} is not a kind", clean_line(name)))
            })?;
            kinds.push(kind.name);
        }
        Ok(RecordFilter { options: self, kinds, parents: HashMap::new() })
    }
}

impl RecordFilter<'_> {
    /// Parents must be visited before their children.
    fn accepts(&mut self, record: &ListedItem) -> bool {
        let ListedItem { reference_id, parent, .. } = record;
        if let Some(parent) = parent {
            self.parents.insert(reference_id.clone(), parent.clone());
        }
        let ExportOptions { epic, status, tag, .. } = self.options;
        let is_below = |epic: &String| {
            let mut id = reference_id;
            while let Some(parent) = self.parents.get(id) {
                id = parent;
            }
            id.eq_ignore_ascii_case(epic.trim())
        };
        epic.as_ref().is_none_or(is_below)
            && (self.kinds.is_empty() || self.kinds.contains(&&*record.kind))
            && status.as_ref().is_none_or(|status| {
                record.status.as_ref().is_some_and(|one| one.eq_ignore_ascii_case(status.trim()))
            })
            && tag.as_ref().is_none_or(|tag| {
                record.tags.iter().any(|one| one.to_lowercase() == tag.trim().to_lowercase())
            })
    }
}

fn write_files(
    files: ExportedFiles,
    out: Option<&Path>,
    (count, left_out): (usize, &str),
) -> Result<u8> {
    if files.is_empty() {
        return Err(CommandError::failure("no item fits this format; nothing was written"));
    }
    let is_tree = files.iter().any(|(path, _)| path.contains('/'));
    let Some(out) = out else {
        return match files.into_iter().next() {
            // Texts of others could control a terminal.
            Some((_, content)) if !is_tree && io::stdout().is_terminal() => {
                match String::from_utf8(content) {
                    Ok(text) => write_stdout(&encode_lines(&text)),
                    Err(_) => {
                        Err(CommandError::usage_error("--out: this format is binary; name a file"))
                    }
                }
            }
            Some((_, content)) if !is_tree => write_stdout_bytes(&content),
            _ => Err(CommandError::usage_error("--out: name a folder for the files")),
        };
    };
    let shown = encode_line(&out.display().to_string()).into_owned();
    let failed = |error: std::io::Error| CommandError::failure(format!("--out: {shown}: {error}"));
    for (path, content) in files {
        let path = if is_tree { out.join(path) } else { out.to_owned() };
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        std::fs::write(&path, content).map_err(failed)?;
    }
    let noun = if count == 1 { "item" } else { "items" };
    print(&format!("Wrote {count} {noun} to {shown}.\n{left_out}"))
}

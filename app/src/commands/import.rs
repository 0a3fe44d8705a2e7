//! `reqlore import`: imports the items of another tool, or shows what would be imported.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use reqlore_application::exchange::{ImportOptions, ImportPlan, ImportReport, new_fields};
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::ports::exchange::{
    ExchangeFormat, ImportMapping, ImportedItems, MAX_SOURCE_BYTES, SourceFile, format_names,
};
use reqlore_domain::ports::service::ProgressSink;
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use reqlore_domain::records::answers::record_schema::{RecordSchemaAnswer, RecordSchemaChange};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::untrusted_text::encode_line;
use reqlore_exchange::FORMATS;
use serde_json::json;

use super::export::{parse_format, visit_records};
use super::output::{clean_line, print, print_json};
use super::tool_client::{ClientPurpose, ProjectOptions, ToolClient};
use crate::config::AppConfig;
use crate::exit::{CommandError, EXIT_FAILED, EXIT_OK, Result};
use crate::progress::ProgressDisplay;

const MAX_FILES: usize = 20_000;
const MAX_DEPTH: usize = 20;
/// The part of a file in which a format is recognized.
const SAMPLE_BYTES: u64 = 64 << 10;
/// Maximum lines of each section of the report.
const MAX_LINES: usize = 50;
const MAX_MAPPING_BYTES: u64 = 1 << 20;
const EXTENSIONS: [&str; 12] = [
    "csv", "tsv", "xlsx", "xlsm", "json", "md", "markdown", "yml", "yaml", "sdoc", "reqif",
    "reqifz",
];
/// Hidden folders that tools use for specifications.
const HIDDEN_SOURCES: [&str; 2] = [".kiro", ".specify"];

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
#[command(after_help = "Example:\n  reqlore import items.csv --map items.toml --dry-run")]
pub(crate) struct ImportCommandOptions {
    /// A file, or a folder with the files of one format
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    #[arg(long, value_name = "FORMAT", help = from_help())]
    from: Option<String>,
    /// Show what would be created, updated and skipped
    #[arg(long)]
    dry_run: bool,
    /// The meaning of columns and values; a missing file is written with the guessed one
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// The epic of stories and requirements whose source has none
    #[arg(long, value_name = "EPIC", add = super::complete::epics())]
    into: Option<String>,
    /// Replace items that were edited both here and in the source
    #[arg(long)]
    update: bool,
    /// Create custom fields for unmapped values; requires permission to edit project.toml
    #[arg(long)]
    add_fields: bool,
    /// Print the report as JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print the report as Markdown
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    project: ProjectOptions,
}

fn from_help() -> String {
    format!("The format: {} [default: recognized]", format_names(&FORMATS).join(", "))
}

pub(crate) fn run(config: &AppConfig, options: &ImportCommandOptions) -> Result<u8> {
    let mapping = read_mapping(options.map.as_deref())?;
    let paths = source_files(&options.source, project_root(config, &options.project))?;
    let named = options.from.as_deref().or(Some(&mapping.format)).filter(|name| !name.is_empty());
    let (format, ignored) = match named {
        Some("agentic-knowledge") => return Err(docsets_error(&options.source)),
        Some(name) => (parse_format("--from", name)?, None),
        None => recognize(&paths)?,
    };
    let purpose = if options.dry_run { ClientPurpose::Read } else { ClientPurpose::Add };
    let client = ToolClient::open(config, &options.project, purpose)?;
    let mut document = client.schema_document(json!({ "users": true }))?;
    let mut schema = RecordSchema::parse(&document.text);
    let mut mapping = mapping.for_format(format, &schema);
    let mut imported = match read_items(format, paths, &mut mapping) {
        Err(mut error) if !mapping.columns.is_empty() => {
            let report = ImportReport::default();
            if let Ok(true) = write_mapping(options.map.as_deref(), &mut mapping, &report) {
                error.message += "\nThe columns that were read are in the new mapping file.";
            }
            return Err(error);
        }
        imported => imported?,
    };
    imported.notes.extend(ignored);
    let has_new_fields =
        options.add_fields && add_fields(&mut document, &mut schema, &mapping, &mut imported)?;
    let import = ImportOptions {
        format: format.name().to_owned(),
        into: options.into.as_ref().map(|epic| epic.trim().to_uppercase()),
        update: options.update,
        values: mapping.values.clone(),
        users: document.users.take(),
    };
    let mut plan = ImportPlan::new(&schema, import, imported);
    visit_records(&client, |record| plan.add_stored(&record))?;
    plan.decide();
    let is_mapped = write_mapping(options.map.as_deref(), &mut mapping, plan.report())?;
    if options.dry_run || !plan.report().problems.is_empty() {
        print_report(options, plan.report(), &mapping, is_mapped, &[])?;
        return Ok(if plan.report().problems.is_empty() { EXIT_OK } else { EXIT_FAILED });
    }
    if has_new_fields {
        let change = json!({ "text": document.text, "if_version": document.version });
        client.call::<RecordSchemaChange>("set_record_schema", change)?;
    }
    let progress = ProgressDisplay::on_terminal();
    let written = plan.apply(|batch, done, total| {
        progress.progress(done, total, "Importing");
        let arguments = json!({ "changes": batch.entries });
        client.call("apply_changes", arguments).map(|applied: AppliedChanges| applied.results)
    });
    drop(progress);
    if let Err((done, total, error)) = written {
        let mut error = CommandError::from(error);
        error.message += &match done {
            0 if has_new_fields => {
                "\nThe new fields were added to project.toml; no items were imported.".to_owned()
            }
            0 => "\nNothing was imported.".to_owned(),
            done => format!(
                "\n{done} of {total} changes were written. Correct the problem and run the same \
                 command again: it continues with the rest."
            ),
        };
        return Err(error);
    }
    print_report(options, plan.report(), &mapping, is_mapped, &plan.renumbered())
}

/// Adds custom fields to the document of the schema. False if there is no value without a field.
fn add_fields(
    document: &mut RecordSchemaAnswer,
    schema: &mut RecordSchema,
    mapping: &ImportMapping,
    imported: &mut ImportedItems,
) -> Result<bool> {
    let tables = new_fields(schema, mapping, imported);
    if tables.is_empty() {
        return Ok(false);
    }
    // An invalid entry of the user may have the name of a new one.
    let mut problem = schema.diagnostics.pop();
    if problem.is_none() {
        document.text += &tables;
        *schema = RecordSchema::parse(&document.text);
        problem = schema.diagnostics.pop();
    }
    match problem {
        None => Ok(true),
        Some(Diagnostic { line, message, .. }) => Err(CommandError::usage_error(format!(
            "--add-fields: .reqlore/project.toml: line {}: {message}",
            line.unwrap_or(1)
        ))),
    }
}

fn shown(path: &Path) -> String {
    encode_line(&path.display().to_string()).into_owned()
}

fn source_error(path: &Path, problem: impl std::fmt::Display) -> CommandError {
    CommandError::usage_error(format!("SOURCE: {}: {problem}", shown(path)))
}

/// The root of the project; `None` for a team server in a folder without a project.
fn project_root<'c>(config: &'c AppConfig, project: &ProjectOptions) -> Option<&'c Path> {
    let has_root = config.found_root.as_ref().is_none_or(|found| found.reason.is_some());
    (has_root || project.server_url().is_none()).then_some(&*config.root)
}

/// The files of a source, with their paths relative to the root, or to a source outside of it.
fn source_files(source: &Path, root: Option<&Path>) -> Result<Vec<(String, PathBuf)>> {
    let found = std::fs::metadata(source).map_err(|error| source_error(source, error))?;
    // Without the target of a linked file: it keeps its identity when the link changes.
    let folder = if found.is_dir() { Some(source) } else { source.parent() };
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(|error| source_error(source, error))?;
    let root = root.and_then(|root| root.canonicalize().ok());
    let below = root.and_then(|root| folder.strip_prefix(root).ok()).unwrap_or(Path::new(""));
    let mut prefix = String::new();
    for name in below {
        prefix.extend([&*name.to_string_lossy(), "/"]);
    }
    let mut files = Vec::new();
    if found.is_dir() {
        add_folder(source, &prefix, 0, &mut files)?;
        files.sort();
    } else {
        let name = source.file_name().unwrap_or_default().to_string_lossy();
        files.push((prefix + &name, source.to_owned()));
    }
    let mut bytes = 0;
    for (_, path) in &files {
        bytes += std::fs::metadata(path).map_err(|error| source_error(path, error))?.len();
    }
    match bytes {
        _ if files.is_empty() => {
            let extensions = EXTENSIONS.join(", ");
            Err(source_error(source, format!("it has no file that ends with {extensions}")))
        }
        bytes if bytes > MAX_SOURCE_BYTES => {
            let size = bytes.div_ceil(1 << 20);
            let problem = format!("it has {size} MiB; at most 100 are allowed; split it");
            Err(source_error(source, problem))
        }
        _ => Ok(files),
    }
}

/// Symbolic links are not followed.
fn add_folder(
    folder: &Path,
    prefix: &str,
    depth: usize,
    files: &mut Vec<(String, PathBuf)>,
) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| source_error(folder, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| source_error(folder, error))?;
        let kind = entry.file_type().map_err(|error| source_error(&entry.path(), error))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let is_hidden = name.starts_with('.') && !HIDDEN_SOURCES.contains(&&*name);
        if kind.is_dir() && !is_hidden && name != "node_modules" && depth < MAX_DEPTH {
            add_folder(&entry.path(), &format!("{path}/"), depth + 1, files)?;
        } else if kind.is_file() {
            let extension = name.rsplit_once('.').map(|(_, end)| end.to_ascii_lowercase());
            if extension.is_some_and(|end| EXTENSIONS.contains(&&*end)) {
                if files.len() == MAX_FILES {
                    let problem =
                        format!("it has more than {MAX_FILES} files; name a folder in it");
                    return Err(source_error(folder, problem));
                }
                files.push((path, entry.path()));
            }
        }
    }
    Ok(())
}

fn docsets_error(path: &Path) -> CommandError {
    source_error(
        path,
        "docsets need no import; put the file at .knowledge/config.yaml, or into a database with \
         `reqlore docsets import FILE`",
    )
}

/// The first format that recognizes a file, and a note on files of other formats.
fn recognize(files: &[(String, PathBuf)]) -> Result<(&'static dyn ExchangeFormat, Option<String>)> {
    let (mut counts, mut docsets) = ([0; FORMATS.len()], None);
    for (name, path) in files {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| source_error(path, error))?;
        let read = file.take(SAMPLE_BYTES).read_to_end(&mut bytes);
        read.map_err(|error| source_error(path, error))?;
        let beginning = String::from_utf8_lossy(&bytes);
        if let Some(format) = FORMATS.iter().position(|one| one.recognizes(name, &beginning)) {
            counts[format] += 1;
        }
        if beginning.lines().any(|line| line == "docsets:") {
            docsets = Some(path);
        }
    }
    let mut found = FORMATS.into_iter().zip(counts).filter(|(_, count)| *count > 0);
    let Some((format, _)) = found.next() else {
        if let Some(path) = docsets {
            return Err(docsets_error(path));
        }
        let names = format_names(&FORMATS).join("|");
        let message = format!("SOURCE: the format is unknown; name it with --from {names}");
        return Err(CommandError::usage_error(message));
    };
    let others: Vec<String> =
        found.map(|(format, count)| format!("{count} {}", format.name())).collect();
    let others = others.join(", ");
    let ignored = format!("ignored files of other formats: {others}; import them with --from");
    Ok((format, Some(ignored).filter(|_| !others.is_empty())))
}

fn read_items(
    format: &dyn ExchangeFormat,
    paths: Vec<(String, PathBuf)>,
    mapping: &mut ImportMapping,
) -> Result<ImportedItems> {
    let mut files = Vec::with_capacity(paths.len());
    for (name, path) in paths {
        let file = File::open(&path).map_err(|error| source_error(&path, error))?;
        files.push(SourceFile { path: name, content: Box::new(BufReader::new(file)) });
    }
    let problem = |problem: String| {
        CommandError::usage_error(format!("SOURCE: {}; nothing was imported", clean_line(&problem)))
    };
    let imported = format.read(files, mapping).map_err(problem)?;
    if imported.items.is_empty() {
        let name = format.name();
        return Err(problem(format!(
            "it has no item in the format {name}; check the ending of its name, or name another \
             format with --from"
        )));
    }
    Ok(imported)
}

fn read_mapping(path: Option<&Path>) -> Result<ImportMapping> {
    let Some(path) = path else { return Ok(ImportMapping::default()) };
    let invalid = |problem: &dyn std::fmt::Display| {
        CommandError::usage_error(format!("--map: {}: {problem}", shown(path)))
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(ImportMapping::default()),
        Err(error) => return Err(invalid(&error)),
    };
    let mut text = String::new();
    file.take(MAX_MAPPING_BYTES).read_to_string(&mut text).map_err(|error| invalid(&error))?;
    toml::from_str(&text).map_err(|error| invalid(&error.message()))
}

/// Writes a new mapping file, with the unknown values to be filled in. False if it exists.
fn write_mapping(
    path: Option<&Path>,
    mapping: &mut ImportMapping,
    report: &ImportReport,
) -> Result<bool> {
    for (field, texts) in &report.unknown_values {
        let values = mapping.values.entry(field.clone()).or_default();
        for text in texts {
            values.entry(text.clone()).or_default();
        }
    }
    let Some(path) = path else { return Ok(false) };
    let text = toml::to_string_pretty(mapping).map_err(CommandError::failure)?;
    match File::create_new(path).and_then(|mut file| file.write_all(text.as_bytes())) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(CommandError::failure(format!("--map: {}: {error}", shown(path)))),
    }
}

fn print_report(
    options: &ImportCommandOptions,
    report: &ImportReport,
    mapping: &ImportMapping,
    is_mapped: bool,
    renumbered: &[(String, String)],
) -> Result<u8> {
    if options.json {
        let data = json!({
            "dry_run": options.dry_run, "report": report, "mapping": mapping,
            "renumbered": renumbered,
        });
        return print_json(&data);
    }
    let is_failed = !report.problems.is_empty();
    let [created, updated] = [report.created.len(), report.updated.len()];
    let mut text = match (is_failed, options.dry_run) {
        (true, _) => "Nothing was imported: correct the problems.\n".to_owned(),
        (_, true) => {
            format!("Dry run: {created} to create, {updated} to update. Nothing was written.\n")
        }
        (_, false) => format!("Imported: {created} created, {updated} updated.\n"),
    };
    if !mapping.columns.is_empty() {
        text += if options.markdown { "\n## Columns\n" } else { "Columns:\n" };
        for (column, field) in &mapping.columns {
            let field = if field.is_empty() { "(ignored)" } else { field };
            let bullet = if options.markdown { "- " } else { "  " };
            text += &format!("{bullet}{} → {}\n", encode_line(column), encode_line(field));
        }
    }
    text += if options.markdown { "\n" } else { "" };
    text += &report.text(options.markdown, MAX_LINES);
    for (from, to) in renumbered {
        text += &format!("Renumbered: {} → {to}\n", encode_line(from));
    }
    if let Some(map) = options.map.as_deref() {
        let map = shown(map);
        if is_mapped {
            text += &format!("The mapping was written to {map}; edit it and run again.\n");
        } else if !report.unknown_values.is_empty() {
            text += &format!("Add the unknown values to [values] in {map} and run again.\n");
        }
    }
    print(&text)
}

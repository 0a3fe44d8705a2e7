//! Parses the configuration of the docsets. All problems are reported at once, with their
//! positions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::template::{ConfigFormat, InstructionTemplate};
use super::{
    Docset, DocsetConfig, MAX_CONFIG_BYTES, MINIMAL_CONFIG, check_name, check_version,
    quote_excerpt, similar_word,
};
use crate::diagnostic::Diagnostic;
use crate::unresolved_merge::find_unresolved_merge;
use crate::yaml::{self, SourcePosition, YamlDialect, YamlEntry, YamlNode, YamlValue};

const DOCS_ROOT: &str = ".knowledge/docs";
/// Root of docsets with `sources`. The tool that downloads sources writes the files there.
const SOURCES_ROOT: &str = ".knowledge/docsets";
/// Maximum length of a title or description.
const MAX_TEXT_CHARS: usize = 2_000;
const MAX_PATH_CHARS: usize = 1_000;
const PROPERTIES: [&str; 3] = ["docs_root", "template", "docsets"];
const DOCSET_PROPERTIES: [&str; 5] =
    ["version", "aliases", "description", "template", "local_path"];
/// Further properties of a docset, which are not suggested for an unknown one.
const V2_PROPERTIES: [&str; 3] = ["id", "name", "sources"];

const START: SourcePosition = SourcePosition { line: 1, column: 1, span: 0..0 };

impl DocsetConfig {
    /// Parses a configuration. `folder` is the absolute path, with forward slashes, of the folder
    /// that contains `.knowledge`. It is an error if it leaves no docset usable; the diagnostics
    /// are sorted by line and not empty.
    pub fn parse(text: &str, folder: &str) -> Result<Self, Vec<Diagnostic>> {
        let root = parse_root(text).map_err(|diagnostic| vec![diagnostic])?;
        let entries = root.entries();
        let folder = normalize_path(folder);
        // The default, which `docs_root` replaces.
        let docs_root = format!("{folder}{DOCS_ROOT}/");
        let mut parser = ConfigParser { folder, docs_root, ..ConfigParser::default() };
        parser.parse_docs_root(entries);
        parser.parse_templates(entries);
        parser.warn_unknown(entries, &PROPERTIES, &[]);
        let mut parsed_docsets = parser.parse_docsets(entries);
        // After all docsets, because a conflict names both lines.
        find_name_conflicts(&mut parsed_docsets);
        let ConfigParser { docs_root, mut errors, mut docset_errors, mut warnings, .. } = parser;
        let mut docsets = Vec::new();
        let (mut names, mut invalid_names) = (BTreeMap::new(), BTreeMap::new());
        for parsed in parsed_docsets {
            if parsed.errors.is_empty() {
                for name in parsed.names {
                    names.insert(name.value.to_owned(), docsets.len());
                }
                docsets.push(parsed.docset);
            } else {
                for name in parsed.names {
                    invalid_names
                        .entry(name.value.to_owned())
                        .or_insert_with(|| parsed.errors.clone());
                }
                docset_errors.extend(parsed.errors);
            }
        }
        if !errors.is_empty() || (docsets.is_empty() && !docset_errors.is_empty()) {
            errors.extend(docset_errors);
            errors.sort();
            return Err(errors);
        }
        docset_errors.sort();
        warnings.sort();
        Ok(Self { docs_root, docsets, warnings, docset_errors, names, invalid_names })
    }
}

/// Parses a text whose root is a map or empty.
fn parse_root(text: &str) -> Result<YamlNode, Diagnostic> {
    if text.len() > MAX_CONFIG_BYTES {
        let bytes = text.len();
        return Err(START.diagnostic(format!(
            "the file has {bytes} bytes, at most {MAX_CONFIG_BYTES} are read; shorten it"
        )));
    }
    if let Some(merge) = find_unresolved_merge(text) {
        return Err(merge);
    }
    let mut diagnostic = match yaml::parse_yaml(text, YamlDialect::Configuration) {
        Ok(tree) => match (tree.duplicate, &tree.root.value) {
            (Some(duplicate), _) => duplicate,
            (None, YamlValue::Map(_) | YamlValue::Null) => return Ok(tree.root),
            (None, _) => tree.root.position.diagnostic(properties_expected()),
        },
        Err(error) => error,
    };
    let line = diagnostic.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default();
    // Messages with an example have several lines.
    if !line.trim().is_empty() && !diagnostic.message.contains('\n') {
        let line = quote_excerpt(line.trim());
        diagnostic.message = format!("{} (in {line})", diagnostic.message);
    }
    Err(diagnostic)
}

fn properties_expected() -> String {
    format!("properties (`key: value`) are expected here, such as:\n{MINIMAL_CONFIG}")
}

/// A text of the configuration and its position.
#[derive(Clone, Copy)]
struct LocatedText<'a> {
    value: &'a str,
    position: &'a SourcePosition,
}

struct ParsedDocset<'a> {
    docset: Docset,
    /// The name and the aliases.
    names: Vec<LocatedText<'a>>,
    errors: Vec<Diagnostic>,
}

#[derive(Default)]
struct ConfigParser {
    /// The project's folder, with a trailing slash.
    folder: String,
    docs_root: String,
    has_docs_root: bool,
    /// The common template, parsed in both formats.
    template_v1: Option<Arc<InstructionTemplate>>,
    template_v2: Option<Arc<InstructionTemplate>>,
    /// Problems of the whole configuration and, while a docset is parsed, its own.
    errors: Vec<Diagnostic>,
    /// Errors of docsets without a name.
    docset_errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl ConfigParser {
    fn report(&mut self, position: &SourcePosition, message: impl Into<String>) {
        self.errors.push(position.diagnostic(message));
    }

    fn reject(&mut self, text: LocatedText<'_>, property: &str, message: &str) {
        self.report(text.position, format!("{property}: {message}"));
    }

    /// Reports any value that is not a text.
    fn expect_text<'a>(&mut self, node: &'a YamlNode) -> Option<LocatedText<'a>> {
        if let YamlValue::Scalar(value) = &node.value {
            return Some(LocatedText { value, position: &node.position });
        }
        self.report(&node.position, "text is expected here; write it, or remove the key");
        None
    }

    /// The text of a property; `None` if it is missing or null.
    fn property<'a>(&mut self, entries: &'a [YamlEntry], key: &str) -> Option<LocatedText<'a>> {
        let node = yaml::find_key(entries, key)?;
        if node.value == YamlValue::Null { None } else { self.expect_text(node) }
    }

    fn parse_docs_root(&mut self, entries: &[YamlEntry]) {
        let Some(text) = self.property(entries, "docs_root") else { return };
        self.has_docs_root = true;
        let root = match resolve_path(&self.folder, text.value) {
            Ok(root) => root,
            Err(message) => return self.reject(text, "docs_root", &message),
        };
        if self.check_outside(text, "docs_root", &root) {
            self.docs_root = root;
        }
    }

    /// Warns about a folder outside of the project and rejects one of the system. Returns true if
    /// the folder may be used.
    fn check_outside(&mut self, text: LocatedText<'_>, property: &str, path: &str) -> bool {
        if path.starts_with(&self.folder) {
            return true;
        }
        // A repository must not send an assistant to secrets of the machine.
        if belongs_to_system(path) {
            let message = format!(
                "{} belongs to the system; name the folder of the documentation",
                quote_excerpt(text.value)
            );
            self.reject(text, property, &message);
            return false;
        }
        // A cloned project must not silently send assistants to other folders.
        let message = format!(
            "{property} is outside of the project: assistants will search {}; make sure that \
             this is intended",
            quote_excerpt(path)
        );
        self.warnings.push(text.position.diagnostic(message));
        true
    }

    fn parse_templates(&mut self, entries: &[YamlEntry]) {
        let Some(text) = self.property(entries, "template") else { return };
        // The formats of the docsets are not known yet.
        let v1 = InstructionTemplate::parse(text.value, ConfigFormat::V1);
        let v2 = InstructionTemplate::parse(text.value, ConfigFormat::V2);
        match (v1, v2) {
            (Ok(v1), Ok(v2)) => {
                self.template_v1 = Some(Arc::new(v1));
                self.template_v2 = Some(Arc::new(v2));
            }
            (Err(message), _) | (_, Err(message)) => self.reject(text, "template", &message),
        }
    }

    /// Warns about unknown properties that resemble a property in `suggested`.
    fn warn_unknown(&mut self, entries: &[YamlEntry], suggested: &[&str], known: &[&str]) {
        for YamlEntry { key, key_position, .. } in entries {
            if suggested.contains(&key.as_str()) || known.contains(&key.as_str()) {
                continue;
            }
            if let Some(similar) = similar_word(key, suggested.iter().copied()) {
                let message =
                    format!("unknown property {}; did you mean `{similar}`?", quote_excerpt(key));
                self.warnings.push(key_position.diagnostic(message));
            }
        }
    }

    fn parse_docsets<'a>(&mut self, entries: &'a [YamlEntry]) -> Vec<ParsedDocset<'a>> {
        let Some(node) = yaml::find_key(entries, "docsets") else {
            self.report_missing_docsets();
            return Vec::new();
        };
        let mut docsets = Vec::new();
        match &node.value {
            YamlValue::Null => {}
            // The key is the name, so `name` is the title.
            YamlValue::Map(entries) => {
                for YamlEntry { key, key_position, node } in entries {
                    let known = self.errors.len();
                    if !matches!(node.value, YamlValue::Map(_) | YamlValue::Null) {
                        self.report(&node.position, properties_expected());
                    }
                    let title = self.property(node.entries(), "name");
                    let name = LocatedText { value: key, position: key_position };
                    let parsed = self.parse_docset(name, title, node.entries(), ConfigFormat::V1);
                    let errors = self.errors.split_off(known);
                    docsets.push(ParsedDocset { errors, ..parsed });
                }
            }
            YamlValue::List(items) => {
                for item in items {
                    let known = self.errors.len();
                    let parsed = self.parse_list_item(item);
                    let errors = self.errors.split_off(known);
                    match parsed {
                        Some(parsed) => docsets.push(ParsedDocset { errors, ..parsed }),
                        None => self.docset_errors.extend(errors),
                    }
                }
            }
            YamlValue::Scalar(_) => {
                let message = format!(
                    "docsets: a map of docsets or a list is expected, such as:\n{MINIMAL_CONFIG}"
                );
                self.report(&node.position, message);
            }
        }
        docsets
    }

    fn report_missing_docsets(&mut self) {
        // The warning about a similar key becomes a part of the error.
        let warning = self.warnings.iter().find(|warning| warning.message.contains("`docsets`"));
        let diagnostic = match warning {
            Some(warning) => Diagnostic {
                message: format!(
                    "the section docsets is missing ({}); add it, for instance:\n{MINIMAL_CONFIG}",
                    warning.message
                ),
                ..*warning
            },
            None => START.diagnostic(format!(
                "the section docsets is missing; add it, for instance:\n{MINIMAL_CONFIG}"
            )),
        };
        self.errors.push(diagnostic);
    }

    /// A docset of a list, which has a `name`, or an `id` in format V2.
    fn parse_list_item<'a>(&mut self, item: &'a YamlNode) -> Option<ParsedDocset<'a>> {
        let YamlValue::Map(entries) = &item.value else {
            self.report(&item.position, properties_expected());
            return None;
        };
        match (self.property(entries, "id"), self.property(entries, "name")) {
            (Some(id), title) => Some(self.parse_docset(id, title, entries, ConfigFormat::V2)),
            (None, Some(name)) => Some(self.parse_docset(name, None, entries, ConfigFormat::V1)),
            (None, None) => {
                self.report(&item.position, "this docset has no name; add `name: …`");
                None
            }
        }
    }

    fn parse_docset<'a>(
        &mut self,
        name: LocatedText<'a>,
        title: Option<LocatedText<'_>>,
        entries: &'a [YamlEntry],
        format: ConfigFormat,
    ) -> ParsedDocset<'a> {
        self.warn_unknown(entries, &DOCSET_PROPERTIES, &V2_PROPERTIES);
        if let Err(message) = check_name(name.value) {
            self.reject(name, "docsets", &message);
        }
        let aliases = self.parse_aliases(entries);
        let version = self.property(entries, "version");
        if let Some(version) = version
            && let Err(message) = check_version(version.value)
        {
            self.reject(version, "version", &message);
        }
        let template = self.parse_template(entries, format);
        let description = self.property(entries, "description");
        let docset = Docset {
            name: name.value.to_owned(),
            version: version.map(|version| version.value.to_owned()),
            aliases: aliases.iter().map(|alias| alias.value.to_owned()).collect(),
            title: self.check_prose(title, "name"),
            description: self.check_prose(description, "description"),
            local_path: self.local_path(name.value, version, entries, format),
            template,
            line: name.position.line,
        };
        let mut names = vec![name];
        names.extend(aliases);
        ParsedDocset { docset, names, errors: Vec::new() }
    }

    /// The docset's own template, or else the common one.
    fn parse_template(
        &mut self,
        entries: &[YamlEntry],
        format: ConfigFormat,
    ) -> Option<Arc<InstructionTemplate>> {
        let Some(text) = self.property(entries, "template") else {
            return match format {
                ConfigFormat::V1 => self.template_v1.clone(),
                ConfigFormat::V2 => self.template_v2.clone(),
            };
        };
        match InstructionTemplate::parse(text.value, format) {
            Ok(template) => Some(Arc::new(template)),
            Err(message) => {
                self.reject(text, "template", &message);
                None
            }
        }
    }

    fn parse_aliases<'a>(&mut self, entries: &'a [YamlEntry]) -> Vec<LocatedText<'a>> {
        let mut aliases = Vec::new();
        let Some(node) = yaml::find_key(entries, "aliases") else { return aliases };
        match &node.value {
            YamlValue::Null => {}
            YamlValue::List(items) => {
                for item in items {
                    let Some(alias) = self.expect_text(item) else { continue };
                    if let Err(message) = check_name(alias.value) {
                        self.reject(alias, "aliases", &message);
                    }
                    aliases.push(alias);
                }
            }
            YamlValue::Scalar(_) | YamlValue::Map(_) => {
                self.report(&node.position, "a list is expected here, such as [reactjs]");
            }
        }
        aliases
    }

    /// Checks the length of a title or description; `None` if it is blank.
    fn check_prose(&mut self, text: Option<LocatedText<'_>>, property: &str) -> Option<String> {
        let text = text.filter(|text| !text.value.trim().is_empty())?;
        let length = text.value.chars().count();
        if length > MAX_TEXT_CHARS {
            let message =
                format!("at most {MAX_TEXT_CHARS} characters, this has {length}; shorten it");
            self.reject(text, property, &message);
        }
        Some(text.value.to_owned())
    }

    /// The folder of a docset: `local_path`, or a local source, or else a folder below a root.
    fn local_path(
        &mut self,
        name: &str,
        version: Option<LocatedText<'_>>,
        entries: &[YamlEntry],
        format: ConfigFormat,
    ) -> String {
        if let Some(text) = self.property(entries, "local_path") {
            match resolve_path(&self.folder, text.value) {
                Ok(path) if path.starts_with(&self.folder) || is_absolute(text.value) => {
                    self.check_outside(text, "local_path", &path);
                    return path;
                }
                Ok(_) => {
                    let message = format!(
                        "{} is outside of the project's folder; name a folder inside, or write \
                         an absolute path",
                        quote_excerpt(text.value)
                    );
                    self.reject(text, "local_path", &message);
                }
                Err(message) => self.reject(text, "local_path", &message),
            }
        }
        let Self { folder, docs_root, .. } = self;
        if format == ConfigFormat::V2
            && let Some(sources) = yaml::find_key(entries, "sources")
            && sources.value != YamlValue::Null
        {
            return match local_source(sources, folder) {
                Some(path) => path,
                // Several sources, or a remote one, are stored by name.
                None if self.has_docs_root => format!("{docs_root}{name}/"),
                None => format!("{folder}{SOURCES_ROOT}/{name}/"),
            };
        }
        match version {
            Some(version) => format!("{docs_root}{name}-{}/", version.value),
            None => format!("{docs_root}{name}/"),
        }
    }
}

/// Reports names and aliases that an earlier docset has. No two docsets may have names that differ
/// only in case, because their folders would be the same on some systems.
fn find_name_conflicts(docsets: &mut [ParsedDocset<'_>]) {
    let mut spellings = BTreeSet::new();
    let mut owners: BTreeMap<String, (usize, LocatedText<'_>)> = BTreeMap::new();
    for (at, parsed) in docsets.iter_mut().enumerate() {
        for text in &parsed.names {
            let folded = text.value.to_lowercase();
            // One docset may have a name in several spellings.
            let (owner, first) = *owners.entry(folded).or_insert((at, *text));
            let is_duplicate = !spellings.insert(text.value);
            if is_duplicate || owner != at {
                let message = format!(
                    "{} is taken by {} on line {}; names and aliases are unique together in any \
                     case; rename one",
                    quote_excerpt(text.value),
                    quote_excerpt(first.value),
                    first.position.line
                );
                parsed.errors.push(text.position.diagnostic(message));
            }
        }
    }
}

/// The folder of `sources` that consist of exactly one local path inside the project.
fn local_source(sources: &YamlNode, folder: &str) -> Option<String> {
    let YamlValue::List(sources) = &sources.value else { return None };
    let [source] = sources.as_slice() else { return None };
    let kind = yaml::find_key(source.entries(), "type")?.text()?;
    let YamlValue::List(paths) = &yaml::find_key(source.entries(), "paths")?.value else {
        return None;
    };
    let [path] = paths.as_slice() else { return None };
    let resolved = resolve_path(folder, path.text()?).ok()?;
    (kind == "local_folder" && resolved.starts_with(folder)).then_some(resolved)
}

/// Makes a path absolute, with forward slashes and a trailing slash. A relative path begins at
/// `base`. Works on the text only: symbolic links are not followed.
fn resolve_path(base: &str, text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > MAX_PATH_CHARS {
        return Err(format!(
            "a path of 1 to {MAX_PATH_CHARS} characters is required, this has {length}"
        ));
    }
    if text.contains(char::is_control) {
        return Err(format!("{} contains a control character; remove it", quote_excerpt(text)));
    }
    if text.starts_with('~') {
        return Err(format!(
            "{} is not expanded; write the whole path, or one relative to the project's folder",
            quote_excerpt(text)
        ));
    }
    // One configuration serves Windows and other systems.
    let text = text.replace('\\', "/");
    if is_absolute(&text) {
        return Ok(normalize_path(&text));
    }
    Ok(normalize_path(&format!("{base}/{text}")))
}

fn is_absolute(path: &str) -> bool {
    let path = path.replace('\\', "/");
    drive_prefix(&path).is_some() || path.starts_with('/')
}

/// True for system folders, which may contain secrets.
fn belongs_to_system(path: &str) -> bool {
    const SYSTEM: [&str; 7] = ["/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/run/", "/var/run/"];
    path == "/" || path.ends_with(":/") || SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// Removes `.`, `..` and empty parts, and adds a trailing slash.
fn normalize_path(path: &str) -> String {
    let drive = drive_prefix(path).unwrap_or_default();
    let mut parts: Vec<&str> = Vec::new();
    for part in path[drive.len()..].split('/') {
        match part {
            "" | "." => {}
            // `..` at the root stays at the root, as in file systems.
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut normalized = format!("{drive}/");
    for part in parts {
        normalized.push_str(part);
        normalized.push('/');
    }
    normalized
}

/// `C:` of `C:/docs`.
fn drive_prefix(path: &str) -> Option<&str> {
    let has_letter = path.starts_with(|c: char| c.is_ascii_alphabetic());
    (has_letter && path.get(1..3) == Some(":/")).then(|| &path[..2])
}

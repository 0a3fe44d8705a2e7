//! Parses the configuration of the docsets. All problems are reported at once, each with its place.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::template::InstructionTemplate;
use super::{
    Docset, DocsetConfig, MAX_BYTES, MINIMAL, check_name, check_version, nearest, quote_excerpt,
};
use crate::diagnostic::Diagnostic;
use crate::yaml::{self, SourcePosition, YamlDialect, YamlEntry, YamlNode, YamlValue};

const DOCS_ROOT: &str = ".knowledge/docs";
/// Root of docsets with `sources`, whose tool puts the files there.
const SOURCES_ROOT: &str = ".knowledge/docsets";
/// Maximum length of a title or description, in characters.
const MAX_WORDS: usize = 2_000;
/// Maximum length of a path, in characters.
const MAX_PATH: usize = 1_000;
const PROPERTIES: [&str; 3] = ["docs_root", "template", "docsets"];
/// The properties of a docset, and those of the later format.
const DOCSET_PROPERTIES: [&str; 5] =
    ["version", "aliases", "description", "template", "local_path"];
const OTHER_PROPERTIES: [&str; 3] = ["id", "name", "sources"];

const START: SourcePosition = SourcePosition { line: 1, column: 1, span: 0..0 };

impl DocsetConfig {
    /// Parses a configuration. `folder` is the absolute path, with forward slashes, of the folder
    /// that contains `.knowledge`. The diagnostics of an error are sorted by line and not empty.
    pub fn read(text: &str, folder: &str) -> Result<Self, Vec<Diagnostic>> {
        let tree = parse(text).map_err(|error| vec![error])?;
        let entries = tree.entries();
        let folder = normalised(folder);
        let docs_root = format!("{folder}{DOCS_ROOT}/");
        let mut reader = Reader { folder, docs_root, ..Reader::default() };
        reader.read_docs_root(entries);
        reader.read_templates(entries);
        reader.hint_unknown(entries, &PROPERTIES, &[]);
        let docsets = reader.docsets(entries);
        let names = reader.names(&docsets);
        let Reader { docs_root, mut errors, mut hints, .. } = reader;
        if !errors.is_empty() {
            errors.sort();
            return Err(errors);
        }
        hints.sort();
        let docsets = docsets.into_iter().map(|(docset, _)| docset).collect();
        Ok(Self { docs_root, docsets, hints, names })
    }
}

fn parse(text: &str) -> Result<YamlNode, Diagnostic> {
    if text.len() > MAX_BYTES {
        let bytes = text.len();
        return Err(START.diagnostic(format!(
            "the file has {bytes} bytes, at most {MAX_BYTES} are read; shorten it"
        )));
    }
    let tree = yaml::parse_yaml(text, YamlDialect::Configuration);
    let error = match tree.map(|tree| (tree.root, tree.duplicate)) {
        Ok((root, None)) if matches!(root.value, YamlValue::Map(_) | YamlValue::Null) => {
            return Ok(root);
        }
        Ok((root, None)) => root.position.diagnostic(properties_expected()),
        Ok((_, Some(duplicate))) => duplicate,
        Err(error) => error,
    };
    let line = error.line.and_then(|line| text.lines().nth(line - 1)).unwrap_or_default().trim();
    if line.is_empty() || error.message.contains('\n') {
        return Err(error);
    }
    Err(Diagnostic { message: format!("{} (in {})", error.message, quote_excerpt(line)), ..error })
}

fn properties_expected() -> String {
    format!("properties (`key: value`) are expected here, such as:\n{MINIMAL}")
}

/// A text of the configuration and its place.
#[derive(Clone, Copy)]
struct Text<'a> {
    value: &'a str,
    at: &'a SourcePosition,
}

/// A docset with the texts of its name and aliases.
type Placed<'a> = (Docset, Vec<Text<'a>>);

#[derive(Default)]
struct Reader {
    /// The project's folder, with a slash at its end.
    folder: String,
    docs_root: String,
    has_own_docs_root: bool,
    /// The common template, and the same in the later format.
    templates: [Option<Arc<InstructionTemplate>>; 2],
    errors: Vec<Diagnostic>,
    hints: Vec<Diagnostic>,
}

impl Reader {
    fn error(&mut self, at: &SourcePosition, message: impl Into<String>) {
        self.errors.push(at.diagnostic(message));
    }

    fn refuse(&mut self, text: Text<'_>, property: &str, message: &str) {
        self.error(text.at, format!("{property}: {message}"));
    }

    /// Reports anything but a text.
    fn required<'a>(&mut self, node: &'a YamlNode) -> Option<Text<'a>> {
        if let YamlValue::Scalar(value) = &node.value {
            return Some(Text { value, at: &node.position });
        }
        self.error(&node.position, "a text is expected here; write one, or remove the key");
        None
    }

    /// The text of a property; null counts as absent.
    fn text<'a>(&mut self, entries: &'a [YamlEntry], property: &str) -> Option<Text<'a>> {
        let node =
            yaml::find_key(entries, property).filter(|node| node.value != YamlValue::Null)?;
        self.required(node)
    }

    fn read_docs_root(&mut self, entries: &[YamlEntry]) {
        let Some(text) = self.text(entries, "docs_root") else { return };
        self.has_own_docs_root = true;
        let root = match resolve(&self.folder, text.value) {
            Ok(root) => root,
            Err(message) => return self.refuse(text, "docs_root", &message),
        };
        if !root.starts_with(&self.folder) {
            if belongs_to_system(&root) {
                let message = format!(
                    "{} belongs to the system; name the folder of the documentation",
                    quote_excerpt(text.value)
                );
                return self.refuse(text, "docs_root", &message);
            }
            // Anyone who clones the project should know that assistants leave it.
            let message = format!(
                "docs_root leads out of the project: assistants are sent to {}; make sure that \
                 this is intended",
                quote_excerpt(&root)
            );
            self.hints.push(text.at.diagnostic(message));
        }
        self.docs_root = root;
    }

    fn read_templates(&mut self, entries: &[YamlEntry]) {
        let Some(text) = self.text(entries, "template") else { return };
        let read = |is_later| InstructionTemplate::read(text.value, is_later).map(Arc::new);
        match (read(false), read(true)) {
            (Ok(single), Ok(doubled)) => self.templates = [Some(single), Some(doubled)],
            (Err(message), _) | (_, Err(message)) => self.refuse(text, "template", &message),
        }
    }

    fn hint_unknown(&mut self, entries: &[YamlEntry], known: &[&str], others: &[&str]) {
        for YamlEntry { key, key_position: key_at, .. } in entries {
            if known.contains(&&**key) || others.contains(&&**key) {
                continue;
            }
            if let Some(similar) = nearest(key, known.iter().copied()) {
                let message =
                    format!("unknown property {}; did you mean `{similar}`?", quote_excerpt(key));
                self.hints.push(key_at.diagnostic(message));
            }
        }
    }

    fn docsets<'a>(&mut self, entries: &'a [YamlEntry]) -> Vec<Placed<'a>> {
        let Some(node) = yaml::find_key(entries, "docsets") else {
            let hint = self.hints.iter().find(|hint| hint.message.contains("`docsets`")).cloned();
            let similar = hint.as_ref().map(|hint| format!(" ({})", hint.message));
            let message = format!(
                "the section docsets is missing{}; add it, for instance:\n{MINIMAL}",
                similar.unwrap_or_default()
            );
            let place = hint.unwrap_or_else(|| START.diagnostic(""));
            self.errors.push(Diagnostic { message, ..place });
            return Vec::new();
        };
        let mut docsets = Vec::new();
        match &node.value {
            YamlValue::Null => {}
            // The key is the name, and a `name` the title.
            YamlValue::Map(entries) => {
                for YamlEntry { key, key_position: key_at, node } in entries {
                    if !matches!(node.value, YamlValue::Map(_) | YamlValue::Null) {
                        self.error(&node.position, properties_expected());
                        continue;
                    }
                    let title = self.text(node.entries(), "name");
                    let name = Text { value: key, at: key_at };
                    docsets.push(self.docset(name, title, node.entries(), false));
                }
            }
            YamlValue::List(items) => {
                for item in items {
                    docsets.extend(self.listed(item));
                }
            }
            YamlValue::Scalar(_) => {
                let message = format!(
                    "docsets: docsets by name, or a list of them, are expected, for instance:\n\
                     {MINIMAL}"
                );
                self.error(&node.position, message);
            }
        }
        docsets
    }

    /// A docset of a list: named by `name`, or by `id` in the later format.
    fn listed<'a>(&mut self, item: &'a YamlNode) -> Option<Placed<'a>> {
        let YamlValue::Map(entries) = &item.value else {
            self.error(&item.position, properties_expected());
            return None;
        };
        match (self.text(entries, "id"), self.text(entries, "name")) {
            (Some(id), title) => Some(self.docset(id, title, entries, true)),
            (None, Some(name)) => Some(self.docset(name, None, entries, false)),
            (None, None) => {
                self.error(&item.position, "this docset has no name; add `name: …`");
                None
            }
        }
    }

    fn docset<'a>(
        &mut self,
        name: Text<'a>,
        title: Option<Text<'_>>,
        entries: &'a [YamlEntry],
        is_later: bool,
    ) -> Placed<'a> {
        self.hint_unknown(entries, &DOCSET_PROPERTIES, &OTHER_PROPERTIES);
        if let Err(message) = check_name(name.value) {
            self.refuse(name, "docsets", &message);
        }
        let aliases = self.aliases(entries);
        let version = self.text(entries, "version");
        if let Some(version) = version
            && let Err(message) = check_version(version.value)
        {
            self.refuse(version, "version", &message);
        }
        let own = self.text(entries, "template");
        let template = match own.map(|text| (text, InstructionTemplate::read(text.value, is_later)))
        {
            Some((text, Err(message))) => {
                self.refuse(text, "template", &message);
                None
            }
            Some((_, Ok(template))) => Some(Arc::new(template)),
            None => self.templates[usize::from(is_later)].clone(),
        };
        let description = self.text(entries, "description");
        let docset = Docset {
            name: name.value.to_owned(),
            version: version.map(|version| version.value.to_owned()),
            aliases: aliases.iter().map(|alias| alias.value.to_owned()).collect(),
            title: self.words(title, "name"),
            description: self.words(description, "description"),
            local_path: self.local_path(name.value, version, entries, is_later),
            template,
            line: name.at.line,
        };
        (docset, std::iter::once(name).chain(aliases).collect())
    }

    fn aliases<'a>(&mut self, entries: &'a [YamlEntry]) -> Vec<Text<'a>> {
        let mut aliases = Vec::new();
        match yaml::find_key(entries, "aliases").map(|node| (&node.position, &node.value)) {
            None | Some((_, YamlValue::Null)) => {}
            Some((_, YamlValue::List(items))) => {
                for item in items {
                    let Some(alias) = self.required(item) else { continue };
                    if let Err(message) = check_name(alias.value) {
                        self.refuse(alias, "aliases", &message);
                    }
                    aliases.push(alias);
                }
            }
            Some((at, _)) => self.error(at, "a list is expected here, such as [reactjs]"),
        }
        aliases
    }

    /// Text of any words; blank text counts as absent.
    fn words(&mut self, text: Option<Text<'_>>, property: &str) -> Option<String> {
        let text = text.filter(|text| !text.value.trim().is_empty())?;
        let length = text.value.chars().count();
        if length > MAX_WORDS {
            let message = format!("at most {MAX_WORDS} characters, this has {length}; shorten it");
            self.refuse(text, property, &message);
        }
        Some(text.value.to_owned())
    }

    fn local_path(
        &mut self,
        name: &str,
        version: Option<Text<'_>>,
        entries: &[YamlEntry],
        is_later: bool,
    ) -> String {
        if let Some(text) = self.text(entries, "local_path") {
            match resolve(&self.folder, text.value) {
                Ok(path) if path.starts_with(&self.folder) => return path,
                Ok(_) => {
                    let message = format!(
                        "{} is outside of the project's folder; name a folder inside, or set \
                         docs_root to the folder of the documentation",
                        quote_excerpt(text.value)
                    );
                    self.refuse(text, "local_path", &message);
                }
                Err(message) => self.refuse(text, "local_path", &message),
            }
        }
        let Self { folder, docs_root, .. } = self;
        let sources =
            yaml::find_key(entries, "sources").filter(|node| node.value != YamlValue::Null);
        if let Some(sources) = sources.filter(|_| is_later) {
            return match local_source(sources, folder) {
                Some(path) => path,
                None if self.has_own_docs_root => format!("{docs_root}{name}/"),
                None => format!("{folder}{SOURCES_ROOT}/{name}/"),
            };
        }
        let version = version.map_or_else(String::new, |version| format!("-{}", version.value));
        format!("{docs_root}{name}{version}/")
    }

    /// Names and aliases are unique together. Two docsets can't have names that differ only in
    /// case, because their folders would be the same on some systems.
    fn names(&mut self, docsets: &[Placed<'_>]) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        let mut folded: BTreeMap<String, (usize, Text<'_>)> = BTreeMap::new();
        for (at, (_, texts)) in docsets.iter().enumerate() {
            for text in texts {
                let (owner, first) =
                    *folded.entry(text.value.to_lowercase()).or_insert((at, *text));
                let is_taken = names.insert(text.value.to_owned(), at).is_some();
                if is_taken || owner != at {
                    let message = format!(
                        "{} is taken by {} on line {}; names and aliases are unique together in \
                         any case; rename one",
                        quote_excerpt(text.value),
                        quote_excerpt(first.value),
                        first.at.line
                    );
                    self.error(text.at, message);
                }
            }
        }
        names
    }
}

/// The folder of sources that are exactly one local path inside the project.
fn local_source(sources: &YamlNode, folder: &str) -> Option<String> {
    let YamlValue::List(sources) = &sources.value else { return None };
    let [source] = sources.as_slice() else { return None };
    let kind = yaml::find_key(source.entries(), "type")?.text()?;
    let YamlValue::List(paths) = &yaml::find_key(source.entries(), "paths")?.value else {
        return None;
    };
    let [path] = paths.as_slice() else { return None };
    let resolved = resolve(folder, path.text()?).ok()?;
    (kind == "local_folder" && resolved.starts_with(folder)).then_some(resolved)
}

/// An absolute path with forward slashes and a slash at its end. A relative path begins at `base`.
/// Pure text: links are not followed.
fn resolve(base: &str, text: &str) -> Result<String, String> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > MAX_PATH {
        return Err(format!("a path of 1 to {MAX_PATH} characters is required, this has {length}"));
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
    let text = text.replace('\\', "/");
    if drive(&text).is_some() || text.starts_with('/') {
        return Ok(normalised(&text));
    }
    Ok(normalised(&format!("{base}/{text}")))
}

/// True for folders of the system, which may contain secrets.
fn belongs_to_system(path: &str) -> bool {
    const SYSTEM: [&str; 7] = ["/etc/", "/proc/", "/sys/", "/dev/", "/boot/", "/run/", "/var/run/"];
    path == "/" || path.ends_with(":/") || SYSTEM.iter().any(|folder| path.starts_with(folder))
}

/// The path without `.`, `..` and empty parts, with a slash at its end.
fn normalised(path: &str) -> String {
    let drive = drive(path).unwrap_or_default();
    let mut parts: Vec<&str> = Vec::new();
    for part in path[drive.len()..].split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = format!("{drive}/");
    for part in parts {
        whole.push_str(part);
        whole.push('/');
    }
    whole
}

/// `C:` of `C:/docs`.
fn drive(path: &str) -> Option<&str> {
    let letter = path.starts_with(|c: char| c.is_ascii_alphabetic());
    (letter && path.get(1..3) == Some(":/")).then(|| &path[..2])
}

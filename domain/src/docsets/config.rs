//! From the configuration as written to one that can be worked with (S3 REQ-4, REQ-5).
//!
//! All faults are told at once, each with its line; YAML that can't be read at all is a single one.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_saphyr::{Location, Spanned};

use super::source::{Entry, Raw, Shape, Text, fault};
use super::template::Template;
use super::{Configuration, Docset, Fault, MINIMAL, later, name, nearest, path, source};

const DOCS_ROOT: &str = ".knowledge/docs";
/// The longest title or description, in characters.
const MAX_WORDS: usize = 2_000;

impl Configuration {
    /// Reads a configuration. `folder` is the project's: the absolute path, with forward slashes,
    /// of the folder that contains `.knowledge`. The faults are sorted by line and not none.
    pub fn read(text: &str, folder: &str) -> Result<Self, Vec<Fault>> {
        let raw = source::read(text).map_err(|fault| vec![fault])?;
        let mut reader = Reader::new(folder, &raw);
        let docsets = reader.docsets(raw);
        let names = reader.names(&docsets);
        let docsets = docsets.into_iter().map(|(docset, _)| docset).collect();
        let mut faults = reader.faults;
        if !faults.is_empty() {
            faults.sort();
            return Err(faults);
        }
        let mut hints = reader.hints;
        hints.sort();
        Ok(Self { docs_root: reader.docs_root, docsets, hints, names })
    }
}

/// A docset with the places of its name and aliases.
type Placed = (Docset, Vec<Text>);

struct Reader {
    /// The project's folder, with a slash at its end.
    folder: String,
    docs_root: String,
    has_docs_root: bool,
    /// The top level's template as S3 reads it, and as the later format does.
    templates: [Option<Arc<Template>>; 2],
    faults: Vec<Fault>,
    hints: Vec<Fault>,
}

impl Reader {
    fn new(folder: &str, raw: &Raw) -> Self {
        let mut reader = Self {
            folder: path::normalised(folder),
            docs_root: String::new(),
            has_docs_root: raw.docs_root.is_some(),
            templates: [None, None],
            faults: Vec::new(),
            hints: Vec::new(),
        };
        let written = raw.docs_root.as_ref().map_or(DOCS_ROOT, |root| root.value.as_str());
        match path::resolve(&reader.folder, written) {
            Ok(docs_root) if path::lies_in(&docs_root, &reader.folder) => {
                reader.docs_root = docs_root;
            }
            Ok(docs_root) if path::belongs_to_system(&docs_root) => {
                let message = format!(
                    "{} belongs to the system; name the folder that holds documentation",
                    name::shown(written)
                );
                reader.refuse(raw.docs_root.as_ref(), "docs_root", &message);
            }
            Ok(docs_root) => {
                reader.hint_at(raw.docs_root.as_ref(), &docs_root);
                reader.docs_root = docs_root;
            }
            Err(message) => reader.refuse(raw.docs_root.as_ref(), "docs_root", &message),
        }
        if let Some(template) = &raw.template {
            let read = |doubled| Template::read(&template.value, doubled).map(Arc::new);
            match (read(false), read(true)) {
                (Ok(single), Ok(doubled)) => reader.templates = [Some(single), Some(doubled)],
                (Err(message), _) | (_, Err(message)) => {
                    reader.refuse(Some(template), "template", &message);
                }
            }
        }
        reader.hint(&raw.unknown, &Raw::PROPERTIES);
        reader
    }

    fn refuse(&mut self, at: Option<&Text>, property: &str, message: &str) {
        let location = at.map_or(Location::UNKNOWN, |text| text.referenced);
        self.faults.push(fault(&location, format!("{property}: {message}")));
    }

    /// Who cloned the project should know that assistants are sent out of it.
    fn hint_at(&mut self, at: Option<&Text>, docs_root: &str) {
        let location = at.map_or(Location::UNKNOWN, |text| text.referenced);
        let message = format!(
            "docs_root leads out of the project: assistants are sent to {}; make sure that this is \
             meant",
            name::shown(docs_root)
        );
        self.hints.push(fault(&location, message));
    }

    fn hint(&mut self, unknown: &[Text], known: &[&str]) {
        for key in unknown {
            if let Some(meant) = nearest(&key.value, known.iter().copied()) {
                let message = format!(
                    "nobody reads the property {}; did you mean `{meant}`?",
                    name::shown(&key.value)
                );
                self.hints.push(fault(&key.referenced, message));
            }
        }
    }

    fn docsets(&mut self, raw: Raw) -> Vec<Placed> {
        let Some(Spanned { value, referenced, .. }) = raw.docsets else {
            let meant = self.hints.iter().find(|hint| hint.message.contains("`docsets`"));
            let (location, meant) = match meant {
                Some(hint) => ((hint.line, hint.column), format!(" ({})", hint.message)),
                None => ((1, 1), String::new()),
            };
            let message =
                format!("the section docsets is missing{meant}; add it, for instance:\n{MINIMAL}");
            self.faults.push(Fault { line: location.0, column: location.1, message });
            return Vec::new();
        };
        match value {
            Shape::Nothing => Vec::new(),
            Shape::Map(entries) => entries
                .into_iter()
                .map(|(key, entry)| self.keyed(key, entry.map(|entry| entry.value)))
                .collect(),
            Shape::List(entries) => {
                entries.into_iter().filter_map(|entry| self.listed(entry)).collect()
            }
            Shape::Other => {
                let message = format!(
                    "docsets: docsets by name, or a list of them, are expected, for instance:\n\
                     {MINIMAL}"
                );
                self.faults.push(fault(&referenced, message));
                Vec::new()
            }
        }
    }

    /// A docset of the map: its key is its name, and a `name` beside it a title.
    fn keyed(&mut self, key: Text, entry: Option<Entry>) -> Placed {
        let mut entry = entry.unwrap_or_default();
        let title = entry.name.take();
        self.docset(key, title, entry, false)
    }

    /// A docset of the list: named by `name`, or in the later format by `id`.
    fn listed(&mut self, entry: Spanned<Entry>) -> Option<Placed> {
        let Spanned { value: mut entry, referenced, .. } = entry;
        match (entry.id.take(), entry.name.take()) {
            (Some(id), title) => Some(self.docset(id, title, entry, true)),
            (None, Some(name)) => Some(self.docset(name, None, entry, false)),
            (None, None) => {
                let message = "this docset has no name; add `name: …` to it";
                self.faults.push(fault(&referenced, message));
                None
            }
        }
    }

    fn docset(&mut self, key: Text, title: Option<Text>, entry: Entry, is_later: bool) -> Placed {
        self.hint(&entry.unknown, &Entry::PROPERTIES);
        if let Err(message) = name::check(&key.value) {
            self.refuse(Some(&key), "docsets", &message);
        }
        for alias in &entry.aliases {
            if let Err(message) = name::check(&alias.value) {
                self.refuse(Some(alias), "aliases", &message);
            }
        }
        if let Some(version) = &entry.version
            && let Err(message) = name::check_version(&version.value)
        {
            self.refuse(Some(version), "version", &message);
        }
        let local_path = self.local_path(&key.value, &entry, is_later);
        let own = entry.template.as_ref().map(|text| (text, Template::read(&text.value, is_later)));
        let template = match own {
            Some((text, Err(message))) => {
                self.refuse(Some(text), "template", &message);
                None
            }
            Some((_, Ok(template))) => Some(Arc::new(template)),
            None => self.templates[usize::from(is_later)].clone(),
        };
        let docset = Docset {
            name: key.value.clone(),
            version: entry.version.map(|version| version.value),
            aliases: entry.aliases.iter().map(|alias| alias.value.clone()).collect(),
            title: self.words(title, "name"),
            description: self.words(entry.description, "description"),
            local_path,
            template,
            line: fault(&key.referenced, "").line,
        };
        (docset, std::iter::once(key).chain(entry.aliases).collect())
    }

    /// Free words for people and models; blank ones are none.
    fn words(&mut self, text: Option<Text>, property: &str) -> Option<String> {
        let text = text.filter(|text| !text.value.trim().is_empty())?;
        let length = text.value.chars().count();
        if length > MAX_WORDS {
            let message = format!("at most {MAX_WORDS} characters, this has {length}; shorten it");
            self.refuse(Some(&text), property, &message);
        }
        Some(text.value)
    }

    fn local_path(&mut self, name: &str, entry: &Entry, is_later: bool) -> String {
        if let Some(text) = &entry.local_path {
            let inside = |path: &String| path::lies_in(path, &self.folder);
            let resolved = path::resolve(&self.folder, &text.value);
            let outside = || {
                format!(
                    "{} lies outside of the project's folder; name a folder inside, or let \
                     docs_root name where documentation lies",
                    name::shown(&text.value)
                )
            };
            match resolved.and_then(|path| inside(&path).then_some(path).ok_or_else(outside)) {
                Ok(path) => return path,
                Err(message) => self.refuse(Some(text), "local_path", &message),
            }
        }
        if let Some(sources) = entry.sources.as_ref().filter(|_| is_later) {
            if let Some(path) = later::local_folder(sources, &self.folder) {
                return path;
            }
            if !self.has_docs_root {
                return format!("{}{}/{name}/", self.folder, later::DOCS_ROOT);
            }
            return format!("{}{name}/", self.docs_root);
        }
        match &entry.version {
            Some(version) => format!("{}{name}-{}/", self.docs_root, version.value),
            None => format!("{}{name}/", self.docs_root),
        }
    }

    /// Names and aliases are unique together; twins in case alone are refused between docsets,
    /// because their folders are one on some systems, and nobody can tell them apart.
    fn names(&mut self, docsets: &[Placed]) -> BTreeMap<String, usize> {
        let mut names = BTreeMap::new();
        let mut folded: BTreeMap<String, (usize, &Text)> = BTreeMap::new();
        for (at, (_, words)) in docsets.iter().enumerate() {
            for word in words {
                let twin = folded.entry(word.value.to_lowercase()).or_insert((at, word));
                let taken = names.insert(word.value.clone(), at).is_some();
                if taken || twin.0 != at {
                    let (line, shown) = (twin.1.referenced.line(), name::shown(&twin.1.value));
                    let message = format!(
                        "{} is taken: {shown} stands on line {line}, and names and aliases are \
                         unique together, whatever their case; rename one",
                        name::shown(&word.value)
                    );
                    self.faults.push(fault(&word.referenced, message));
                }
            }
        }
        names
    }
}

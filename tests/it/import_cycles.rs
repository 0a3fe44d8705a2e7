//! Files of one crate import each other in one direction, so that each can be read and moved alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::repository;
use crate::tidy::rust_sources;

/// Product files that may lie in a cycle of imports, in all crates together. Only lower it.
const MAX_FILES_IN_CYCLES: usize = 14;

/// The crate's `src` folder, then the names of the module.
type Module = Vec<String>;

/// The modules of all crates, and the names by which one file refers to modules.
struct FileScope<'a> {
    files: &'a BTreeMap<Module, String>,
    module: &'a Module,
    imported_modules: BTreeMap<String, Module>,
}

impl FileScope<'_> {
    /// The module of the longest prefix of the path, and whether the path names an item in it.
    fn resolve(&self, path: &[String]) -> Option<(Module, bool)> {
        let child = |name: &String| [self.module.as_slice(), std::slice::from_ref(name)].concat();
        let (mut module, mut rest) = match path {
            [name, rest @ ..] if name == "crate" => (self.module[..1].to_vec(), rest),
            [name, rest @ ..] if name == "self" || name == "super" => {
                (self.module.clone(), if name == "self" { rest } else { path })
            }
            [name, rest @ ..] if self.imported_modules.contains_key(name) => {
                (self.imported_modules[name].clone(), rest)
            }
            [name, rest @ ..] if self.files.contains_key(&child(name)) => (child(name), rest),
            _ => return None,
        };
        while let [name, others @ ..] = rest {
            if name == "super" {
                module.pop();
            } else {
                module.push(name.clone());
                if !self.files.contains_key(&module) {
                    module.pop();
                    break;
                }
            }
            rest = others;
        }
        Some((module, rest.iter().any(|name| name != "self")))
    }
}

/// Identifiers and single signs, without comments, strings and the items behind `#[cfg(test)]`.
fn tokens(text: &str) -> Vec<String> {
    let mut product = String::new();
    for (index, part) in text.split("#[cfg(test)]").enumerate() {
        let mut depth = 0;
        let item_end = part.char_indices().find_map(|(at, sign)| {
            depth += i32::from(sign == '{') - i32::from(sign == '}');
            (depth == 0 && (sign == ';' || sign == '}')).then_some(at + 1)
        });
        product += if index == 0 { part } else { &part[item_end.unwrap_or(part.len())..] };
    }
    let mut tokens = Vec::new();
    for line in product.lines() {
        for (index, code) in line.split("//").next().unwrap().split('"').enumerate() {
            if index % 2 == 1 {
                continue;
            }
            let mut word = String::new();
            for sign in code.chars().chain([' ']) {
                if sign.is_alphanumeric() || sign == '_' {
                    word.push(sign);
                    continue;
                }
                tokens.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                tokens.extend((!sign.is_whitespace()).then(|| sign.to_string()));
            }
        }
    }
    tokens
}

/// Reads one path or tree of paths that starts at `position`. Returns the position after it.
fn read_paths(
    tokens: &[String],
    mut position: usize,
    prefix: &[String],
    found: &mut Vec<Vec<String>>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(position).map(String::as_str) {
            Some("{") if !path.is_empty() => {
                position += 1;
                while tokens.get(position).is_some_and(|token| token != "}") {
                    position = read_paths(tokens, position, &path, found).max(position + 1);
                }
                return position + 1;
            }
            Some(name) if name.starts_with(|sign: char| sign.is_alphabetic() || sign == '_') => {
                path.push(name.to_owned());
                position += 1;
            }
            _ => break,
        }
        let is_continued =
            [0, 1].iter().all(|n| tokens.get(position + n).is_some_and(|t| t == ":"));
        if !is_continued {
            break;
        }
        position += 2;
    }
    found.push(path);
    position
}

/// The modules that the file refers to for one of their items.
fn imports(files: &BTreeMap<Module, String>, module: &Module) -> BTreeSet<Module> {
    let tokens = tokens(&files[module]);
    let mut scope = FileScope { files, module, imported_modules: BTreeMap::new() };
    let mut paths = Vec::new();
    let mut position = 0;
    while let Some(token) = tokens.get(position) {
        let first = paths.len();
        position = read_paths(&tokens, position, &[], &mut paths).max(position + 1);
        if token != "use" {
            continue;
        }
        position = read_paths(&tokens, position, &[], &mut paths);
        for path in &paths[first..] {
            if let Some((target, false)) = scope.resolve(path) {
                let name = path.iter().rfind(|name| *name != "self").unwrap().clone();
                scope.imported_modules.insert(name, target);
            }
        }
    }
    let targets = paths.iter().filter_map(|path| scope.resolve(path));
    targets.filter(|(target, names_item)| *names_item && target != module).map(|t| t.0).collect()
}

/// The product files of all crates, by module.
fn product_files() -> (BTreeMap<Module, String>, BTreeMap<Module, String>) {
    let (mut texts, mut paths) = (BTreeMap::new(), BTreeMap::new());
    for (path, text) in rust_sources() {
        let path = path.strip_prefix(&format!("{}/", repository().display())).unwrap().to_owned();
        let Some((crate_folder, file)) = path.split_once("/src/") else { continue };
        if crate_folder.starts_with("tests") || file.contains("tests") || file.contains("test_") {
            continue;
        }
        let names = file.trim_end_matches(".rs").split('/');
        let names = names.filter(|name| !["lib", "main", "mod"].contains(name));
        let module: Module = [crate_folder].into_iter().chain(names).map(str::to_owned).collect();
        texts.insert(module.clone(), text);
        paths.insert(module, path);
    }
    (texts, paths)
}

#[test]
fn files_import_each_other_in_one_direction() {
    let (texts, paths) = product_files();
    let edges: BTreeMap<&Module, BTreeSet<Module>> =
        texts.keys().map(|module| (module, imports(&texts, module))).collect();
    let mut reachable = BTreeMap::new();
    for module in texts.keys() {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![module];
        while let Some(next) = waiting.pop() {
            waiting.extend(edges[next].iter().filter(|target| seen.insert((*target).clone())));
        }
        reachable.insert(module, seen);
    }
    let mut cycles: BTreeMap<&Module, Vec<&str>> = BTreeMap::new();
    for module in texts.keys().filter(|module| reachable[module].contains(*module)) {
        let first = reachable[module].iter().find(|other| reachable[*other].contains(module));
        cycles.entry(first.unwrap()).or_default().push(&paths[module]);
    }
    let count: usize = cycles.values().map(Vec::len).sum();
    assert!(
        count <= MAX_FILES_IN_CYCLES,
        "{count} files lie in cycles of imports:\n{:#?}",
        cycles.values().collect::<Vec<_>>()
    );
}

//! `reqlore check`: finds problems in a project's documents; `check --fix` repairs references.

pub mod finding;
mod freshness;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::DocsetConfig;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{ErrorKind, Result};
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::knowledge::entity_graph::{EntityGraph, EntityLookup, EntityNode};
use reqlore_domain::knowledge::{EntityLink, is_entity_id};
use reqlore_domain::link_values::is_known_relation;
use reqlore_domain::name_form::{compose, fold_name};
use reqlore_domain::ports::documents::{Refresh, read_all};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::storage_health::StorageHealth;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::Section;
use reqlore_domain::sections::instructions::{self, SectionListUpdate, SectionTitles};
use reqlore_domain::timestamp::Timestamp;

use crate::backlog;
use crate::backlog::check::ReferenceIndex;
use crate::backlog::item_lookup::BacklogReader;
use crate::backlog::repair::{RepairReport, find_duplicates, repair_duplicates, repair_links};
use crate::check::finding::{CheckFinding, line_containing};
use crate::docsets::ConfigSource;
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::task_context::always_rules::always_rules;

/// Finds damage in the whole storage, with the documents of all projects, users and the audit log.
/// `subject` names the storage.
pub async fn find_damage(store: &dyn StorageHealth, subject: &str) -> Result<Vec<CheckFinding>> {
    let mut findings = Vec::new();
    for damage in store.find_damage().await? {
        let message = format!("{damage}; restore a backup with `reqlore restore`");
        findings.push(CheckFinding::of_file(subject.to_owned(), message));
    }
    Ok(findings)
}

/// Finds all problems of the server's own project, ordered by toolset, document and line.
pub async fn check_documents(ports: &ApplicationPorts) -> Result<Vec<CheckFinding>> {
    let caller = Caller::local("check", Access::Read);
    let mut findings = Vec::new();
    let mut records_of: BTreeMap<ProjectKey, Vec<Arc<DocumentMeta>>> = BTreeMap::new();
    for toolset in Toolset::ALL {
        // The configuration may give each toolset a different folder.
        let project = ports.projects.resolve(&caller, None, toolset).await?;
        let records = records_of.entry(project.clone()).or_default();
        findings.extend(match toolset {
            Toolset::Sections => check_sections(ports, &project).await?,
            Toolset::Backlog => backlog::check::check(ports, &project, records).await?,
            Toolset::Docsets => check_docsets(ports, &caller).await?,
            Toolset::Knowledge => check_knowledge(ports, &project, records).await?,
        });
    }
    for (project, records) in &records_of {
        findings.extend(freshness::check_freshness(ports, project, records).await?);
    }
    Ok(findings)
}

/// Repairs references: of two items with one reference, the younger one gets a new reference.
/// Links to an item that was renumbered on another branch are updated.
///
/// An error means that nothing was changed.
pub async fn repair_references(ports: &ApplicationPorts, caller: Caller) -> Result<RepairReport> {
    let project = ports.projects.resolve(&caller, None, Toolset::Backlog).await?;
    let act = WriteContext {
        caller: Arc::new(caller),
        tool: "check --fix",
        reason: "two items had one reference".to_owned(),
        correlation_id: String::new(),
        at: ports.clock.now(),
        audited: None,
        idempotency_key: None,
    };
    let backlog = BacklogReader { ports, project: &project };
    let names = ReferenceIndex::read(ports, &project).await?;
    let younger = find_duplicates(backlog, &names).await?;
    let mut repairs = RepairReport::default();
    repair_links(backlog, &names, &act, &mut repairs).await;
    repair_duplicates(backlog, younger, &act, &mut repairs).await;
    Ok(repairs)
}

/// Finds the problems of a project's sections, ordered by document and line.
async fn check_sections(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let (sections, _) = read_all(&*ports.documents, project, DocumentKind::Section).await?;
    let mut findings = Vec::new();
    for meta in &sections {
        if let Some(problem) = &meta.diagnostic {
            findings.push(CheckFinding::new(&meta.id, problem.clone()));
            continue;
        }
        let Some(document) = get_one(&*ports.documents, project, &meta.id).await? else { continue };
        // A text that is not UTF-8 is a problem of its metadata, reported above.
        let Ok(section) = document.text().map(Section::parse) else { continue };
        for diagnostic in section.diagnostics() {
            findings.push(CheckFinding::new(&meta.id, diagnostic));
        }
    }
    findings.extend(find_twins(&sections));
    findings.extend(check_list(ports, project, &sections).await?);
    for problem in always_rules(ports, project, 0).await?.problems {
        findings.push(CheckFinding::for_document(&DocumentId::schema(), problem));
    }
    Ok(findings)
}

/// Finds names that differ only in case or in the form of their letters. On a file system that
/// ignores these, only one of two such documents would survive.
fn find_twins(metadata: &[Arc<DocumentMeta>]) -> Vec<CheckFinding> {
    let mut first_by_folded: HashMap<String, &DocumentId> = HashMap::new();
    let mut findings = Vec::new();
    for meta in metadata {
        let first = *first_by_folded.entry(fold_name(&meta.id.name)).or_insert(&meta.id);
        if *first == meta.id {
            continue;
        }
        let difference = if compose(&first.name) == compose(&meta.id.name) {
            "the form of its accented letters (composed or decomposed)"
        } else {
            "case"
        };
        let message = format!("differs only in {difference} from {first}; rename one");
        findings.push(CheckFinding::for_document(&meta.id, message));
    }
    findings
}

/// Compares the list of sections in AGENTS.md with the stored sections.
async fn check_list(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    sections: &[Arc<DocumentMeta>],
) -> Result<Vec<CheckFinding>> {
    let id = DocumentId::instructions();
    // A new project has no AGENTS.md, or only the placeholder.
    let Some(document) = get_one(&*ports.documents, project, &id).await? else {
        return Ok(Vec::new());
    };
    if sections.is_empty() && document.body == instructions::NEW_INSTRUCTIONS {
        return Ok(Vec::new());
    }
    let meta = DocumentMeta::from_document(&document, Timestamp::default());
    if let Some(problem) = meta.diagnostic {
        return Ok(vec![CheckFinding::new(&id, problem)]);
    }
    let source = document.text().unwrap_or_default();
    let mut titles = SectionTitles::new();
    for section in sections {
        titles.insert(section.id.name.clone(), section.title.clone());
    }
    let message = match instructions::update_section_list(source, &titles) {
        SectionListUpdate { body: None, note: None } => return Ok(Vec::new()),
        SectionListUpdate { body: None, note: Some(note) } => note,
        SectionListUpdate { .. } => "the list under \"## Sections\" is outdated; the next \
                                     reqlix_set_requirements updates it"
            .to_owned(),
    };
    Ok(vec![CheckFinding::for_document(&id, message)])
}

/// Finds errors and probable typing mistakes in the configuration, and missing folders.
async fn check_docsets(ports: &ApplicationPorts, caller: &Caller) -> Result<Vec<CheckFinding>> {
    let id = DocumentId::docsets();
    let source = match ConfigSource::find(ports, caller).await {
        Ok(source) => source,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) if error.kind == ErrorKind::Unreadable => {
            return Ok(vec![CheckFinding::for_document(&id, error.message)]);
        }
        Err(error) => return Err(error),
    };
    let mut findings = Vec::new();
    let project = &source.project;
    let Some(document) = get_one(source.documents, project, &id).await? else {
        return Ok(findings);
    };
    let text = match document.text() {
        Ok(text) => text,
        Err(problem) => return Ok(vec![CheckFinding::for_document(&id, problem)]),
    };
    let folder = ports.projects.folder(project).await?;
    let (docsets, diagnostics) = match DocsetConfig::parse(text, &folder) {
        Ok(DocsetConfig { docsets, mut warnings, docset_errors, .. }) => {
            warnings.extend(docset_errors);
            (docsets, warnings)
        }
        Err(diagnostics) => (Vec::new(), diagnostics),
    };
    for Diagnostic { line, column, message } in diagnostics {
        let message = format!("column {}: {message}", column.unwrap_or(1));
        findings.push(CheckFinding::new(&id, Diagnostic::new(line, message)));
    }
    // A search in a missing folder would find nothing, without an error.
    for docset in &docsets {
        if !ports.projects.has_folder(&docset.local_path).await {
            let message = format!(
                "docset {}: the folder {} does not exist; create it or correct `local_path`",
                docset.name, docset.local_path
            );
            findings.push(CheckFinding::new(&id, Diagnostic::new(docset.line, message)));
        }
    }
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}

/// Finds the problems of a project's entities, ordered by file and line. Adds the entities to
/// `records`.
async fn check_knowledge(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    records: &mut Vec<Arc<DocumentMeta>>,
) -> Result<Vec<CheckFinding>> {
    let documents = &ports.documents;
    // A full refresh examines every file, also those that the watcher missed.
    documents.changes_since(project, None, 1, Refresh::Full).await?;
    let (mut entities, _) = read_all(&**documents, project, DocumentKind::Entity).await?;
    let schema = ports.schema(project).await?;
    schema.remove_field_links(&mut entities);
    let mut graph = EntityGraph::default();
    for meta in &entities {
        if let Some(node) = EntityNode::from_metadata(meta) {
            graph.insert(node);
        }
    }
    let graph = &graph;
    let names = ReferenceIndex::read(ports, project).await?;
    let mut findings = find_twins(&entities);
    records.extend(entities);
    for node in graph.nodes() {
        let id = DocumentId::entity(&*node.name);
        let mut diagnostics: Vec<Diagnostic> = node.diagnostic.iter().cloned().collect();
        // Problems with the word whose line they are reported on.
        let mut problems: Vec<(&str, String)> = Vec::new();
        let own_problem = match graph.find(&node.entity.id) {
            EntityLookup::One(_) => file_name_problem(node),
            _ => duplicate_id_problem(graph, node),
        };
        problems.extend(own_problem.map(|message| (node.entity.id.as_str(), message)));
        problems.extend(broken_links(graph, &names, node));
        problems.extend(schema.problems(&*node.entity));
        if !problems.is_empty() {
            // The text is needed for the line numbers only.
            let document = get_one(&*ports.documents, project, &id).await?;
            let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
            for (word, message) in problems {
                diagnostics.push(Diagnostic::new(line_containing(text, word), message));
            }
        }
        diagnostics.sort_by_key(|diagnostic| diagnostic.line);
        for diagnostic in diagnostics {
            findings.push(CheckFinding::new(&id, diagnostic));
        }
    }
    Ok(findings)
}

/// Returns links to missing entities and items, as target and problem.
///
/// Item references are not checked in a project without a backlog: they may name items elsewhere.
fn broken_links<'a>(
    graph: &'a EntityGraph,
    names: &ReferenceIndex,
    node: &'a EntityNode,
) -> Vec<(&'a str, String)> {
    let mut broken = Vec::new();
    let mut broken_items = Vec::new();
    for links in graph.outgoing(node) {
        let relation = links.relation;
        for edge in &links.targets {
            if edge.node.is_some() {
                continue;
            }
            if is_entity_id(edge.id) {
                let problem = describe_missing(graph, edge.id);
                broken.push((edge.id, format!("{relation} leads to {problem}")));
            }
            if !names.is_empty()
                && let Some(reference) = Reference::parse(edge.id)
                && let Some(problem) = names.explain_broken_link(reference)
            {
                broken_items.push((edge.id, format!("{relation} leads to {problem}")));
            }
        }
    }
    broken.extend(broken_items);
    for EntityLink { relation, target, is_certain, .. } in &node.entity.links {
        // With a colon it may name a rule of a section.
        let is_link = !is_certain && is_known_relation(relation) && !target.contains(':');
        if is_link && graph.find(target) == EntityLookup::Nothing {
            let problem = describe_missing(graph, target);
            broken.push((target, format!("{relation} leads to {problem}")));
        }
    }
    broken
}

fn describe_missing(graph: &EntityGraph, id: &str) -> String {
    if let EntityLookup::Several(names) = graph.find(id) {
        return format!("{id}, which {} use as their id", names.join(" and "));
    }
    match graph.similar_id(id) {
        Some(similar) => format!("{id}, which does not exist; did you mean {similar}?"),
        None => format!("{id}, which does not exist; correct or remove the link"),
    }
}

/// Reports a file whose name differs from the id of its entity.
fn file_name_problem(node: &EntityNode) -> Option<String> {
    let (id, stem) = (&node.entity.id, node.name.rsplit('/').next()?);
    if *id == compose(&node.name) || *id == compose(stem) {
        return None;
    }
    Some(format!(
        "the id is {id}, but the file is {stem}.md; rename the file to {id}.md or correct the id"
    ))
}

fn duplicate_id_problem(graph: &EntityGraph, node: &EntityNode) -> Option<String> {
    let EntityLookup::Several(names) = graph.find(&node.entity.id) else { return None };
    let mut other_files = Vec::new();
    for name in names {
        if *name != node.name {
            other_files.push(DocumentId::entity(name).to_string());
        }
    }
    let (id, files) = (&node.entity.id, other_files.join(", "));
    Some(format!("the id {id} is also used by {files}; give each entity its own id"))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::DocumentId;

    use crate::test_support::TestApplication;

    #[tokio::test]
    async fn check_sections_differing_in_case_reports_non_adjacent_names() {
        let testing = TestApplication::new();
        for name in ["Api", "Box", "api"] {
            testing.write(DocumentId::section(name), "**1.** x\n").await;
        }
        let findings = testing.check().await;
        let expected = "section api:: differs only in case from section Api; rename one";
        assert!(findings.iter().any(|finding| finding == expected), "{findings:#?}");
    }

    #[tokio::test]
    async fn check_names_twins_that_differ_in_the_form_of_letters() {
        let testing = TestApplication::new();
        for (name, twin) in [
            ("re\u{301}sume\u{301}", "r\u{e9}sum\u{e9}"),
            ("\u{1100}\u{1161}", "\u{ac00}"),
            ("\u{212b}", "\u{c5}"),
        ] {
            testing.write(DocumentId::section(name), "**1.** x\n").await;
            testing.write(DocumentId::section(twin), "**1.** x\n").await;
            testing.write_entity(name, "# One\n").await;
            testing.write_entity(twin, "# Two\n").await;
        }
        let findings = testing.check().await;
        let twins = findings.iter().filter(|finding| finding.contains("the form of its accented"));
        assert_eq!(twins.count(), 6, "{findings:#?}");
        assert!(!findings.iter().any(|finding| finding.contains("rename the file")));
    }
}

//! `reqlore check`: problems in a project's documents, and the repairs of `check --fix`.

use std::sync::Arc;

use reqlore_domain::backlog::Reference;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::docsets::DocsetConfig;
use reqlore_domain::document::{DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::knowledge::{EntityGraph, EntityLookup, EntityNode, names_entity};
use reqlore_domain::ports::documents::{DocumentFilter, Refresh, Revision};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::sections::{Section, instructions};
use serde::Serialize;

use crate::backlog::check::ReferenceIndex;
use crate::backlog::item_lookup::BacklogReader;
use crate::backlog::repair::{RepairReport, relink, renumber, younger};
use crate::transaction::get_one;
use crate::{ApplicationPorts, backlog};

/// A problem that a user can repair.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckFinding {
    /// Such as `AGENTS.md` or `section general`.
    pub document: String,
    /// Counted from 1; absent where the whole document is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The problem and its remedy.
    pub message: String,
}

impl CheckFinding {
    pub(crate) fn new(id: &DocumentId, found: Diagnostic) -> Self {
        Self { document: id.to_string(), line: found.line, message: found.message }
    }

    /// A finding on a document as a whole.
    pub(crate) fn whole(id: &DocumentId, message: String) -> Self {
        Self { document: id.to_string(), line: None, message }
    }
}

/// All problems of the server's own project: toolset by toolset, by document and line.
pub async fn check(ports: &ApplicationPorts) -> Result<Vec<CheckFinding>> {
    let caller = Caller::local("check", Access::Read);
    let project = async |slice| ports.projects.resolve(&caller, None, slice).await;
    let mut findings = check_sections(ports, &project(Toolset::Sections).await?).await?;
    findings.extend(backlog::check::check(ports, &project(Toolset::Backlog).await?).await?);
    findings.extend(check_docsets(ports, &project(Toolset::Docsets).await?).await?);
    findings.extend(check_knowledge(ports, &project(Toolset::Knowledge).await?).await?);
    Ok(findings)
}

/// Repairs without a question: links follow an item that another branch renumbered, and of equal
/// references the younger item gets a new one. An error means that nothing was changed.
pub async fn fix(ports: &ApplicationPorts, caller: Caller) -> Result<RepairReport> {
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
    let younger = younger(backlog, &names).await?;
    let mut repairs = RepairReport::default();
    relink(backlog, &names, &act, &mut repairs).await;
    renumber(backlog, younger, &act, &mut repairs).await;
    Ok(repairs)
}

/// The problems of a project's sections, by document and line.
async fn check_sections(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let page = ports.documents.find(project, &DocumentFilter::all(DocumentKind::Section)).await?;
    let mut findings = Vec::new();
    for head in &page.metadata {
        if let Some(fault) = &head.fault {
            findings.push(CheckFinding::whole(&head.id, fault.message.clone()));
            continue;
        }
        let Some(document) = get_one(&*ports.documents, project, &head.id).await? else { continue };
        let Ok(section) = document.text().map(Section::of) else { continue };
        let found = section.diagnostics().into_iter();
        findings.extend(found.map(|found| CheckFinding::new(&head.id, found)));
    }
    for pair in page.metadata.windows(2) {
        if pair[0].id.name.to_lowercase() == pair[1].id.name.to_lowercase() {
            let message = format!("differs only in case from {}; rename one", pair[0].id);
            findings.push(CheckFinding::whole(&pair[1].id, message));
        }
    }
    findings.extend(check_list(ports, project, &page.metadata).await?);
    Ok(findings)
}

/// Compares the list in AGENTS.md with the sections.
async fn check_list(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    heads: &[Arc<DocumentMeta>],
) -> Result<Vec<CheckFinding>> {
    let id = DocumentId::instructions();
    // A project may have none yet, or just the placeholder.
    let Some(document) = get_one(&*ports.documents, project, &id).await? else {
        return Ok(Vec::new());
    };
    if heads.is_empty() && document.body == instructions::PLACEHOLDER {
        return Ok(Vec::new());
    }
    let Ok(source) = std::str::from_utf8(&document.body) else {
        return Ok(vec![CheckFinding::whole(
            &id,
            "not UTF-8 text; save the file as UTF-8".to_owned(),
        )]);
    };
    let titles = heads.iter().map(|head| (head.id.name.clone(), head.title.clone())).collect();
    let is_true = instructions::with_sections(source, &titles).is_none();
    let message = "the list under \"## Sections\" is not what is there; the next set mends it";
    Ok(if is_true { Vec::new() } else { vec![CheckFinding::whole(&id, message.to_owned())] })
}

/// The faults and likely slips of the configuration, and missing folders.
async fn check_docsets(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let id = DocumentId::docsets();
    let Some(document) = get_one(&*ports.documents, project, &id).await? else {
        return Ok(Vec::new());
    };
    let text = match document.text() {
        Ok(text) => text,
        Err(fault) => return Ok(vec![CheckFinding::whole(&id, fault)]),
    };
    let folder = ports.projects.folder(project).await?;
    let on_line = |Diagnostic { line, column, message }: Diagnostic| {
        let message = format!("column {}: {message}", column.unwrap_or(1));
        CheckFinding::new(&id, Diagnostic::new(line, message))
    };
    let configuration = match DocsetConfig::read(text, &folder) {
        Ok(configuration) => configuration,
        Err(faults) => return Ok(faults.into_iter().map(on_line).collect()),
    };
    let mut findings: Vec<CheckFinding> = configuration.hints.into_iter().map(on_line).collect();
    for docset in &configuration.docsets {
        if !ports.projects.has_folder(&docset.local_path).await {
            let message = format!(
                "the folder {} of docset {} is not there; put the documentation there, or name \
                 its folder with `local_path`",
                docset.local_path, docset.name
            );
            findings.push(CheckFinding::new(&id, Diagnostic::new(docset.line, message)));
        }
    }
    findings.sort_by_key(|finding| finding.line);
    Ok(findings)
}

/// The problems of a project's entities, file by file.
async fn check_knowledge(
    ports: &ApplicationPorts,
    project: &ProjectKey,
) -> Result<Vec<CheckFinding>> {
    let documents = &ports.documents;
    documents.changes(project, DocumentKind::Entity, Revision::default(), Refresh::Full).await?;
    let heads = documents.find(project, &DocumentFilter::all(DocumentKind::Entity)).await?.metadata;
    let graph = &mut EntityGraph::default();
    heads.iter().filter_map(|head| EntityNode::of(head)).for_each(|node| graph.put(node));
    let graph = &*graph;
    let names = &ReferenceIndex::read(ports, project).await?;
    let mut findings = Vec::new();
    for node in graph.nodes() {
        let id = DocumentId::entity(&*node.name);
        let mut found: Vec<Diagnostic> = node.fault.iter().cloned().collect();
        let broken = broken_links(graph, names, node);
        let claimed_once = matches!(graph.find(&node.entity.id), EntityLookup::One(_));
        let misnamed = file_name_problem(node).filter(|_| claimed_once);
        let twice = duplicate_id_problem(graph, node);
        if !broken.is_empty() || misnamed.is_some() || twice.is_some() {
            // The text is read for the line numbers alone.
            let document = get_one(&*ports.documents, project, &id).await?;
            let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
            let own = misnamed.into_iter().chain(twice);
            let own = own.map(|message| (node.entity.id.as_str(), message));
            for (word, message) in own.chain(broken) {
                found.push(Diagnostic::new(line_containing(text, word), message));
            }
        }
        found.sort_by_key(|found| found.line);
        findings.extend(found.into_iter().map(|found| CheckFinding::new(&id, found)));
    }
    Ok(findings)
}

/// Links to missing entities and items. Without a backlog, items of another project may be meant.
fn broken_links<'a>(
    graph: &'a EntityGraph,
    names: &ReferenceIndex,
    node: &'a EntityNode,
) -> Vec<(&'a str, String)> {
    let mut broken = Vec::new();
    let mut broken_items = Vec::new();
    for links in graph.outgoing(node) {
        let relation = links.relation;
        for edge in links.targets.iter().filter(|edge| edge.node.is_none()) {
            if names_entity(edge.id) {
                broken.push((
                    edge.id,
                    format!("{relation} leads to {}", describe_missing(graph, edge.id)),
                ));
            }
            let reference = Reference::parse(edge.id).filter(|_| !names.is_empty());
            let why = reference.and_then(|reference| names.why_broken(reference));
            broken_items.extend(why.map(|why| (edge.id, format!("{relation} leads to {why}"))));
        }
    }
    broken.extend(broken_items);
    broken
}

fn describe_missing(graph: &EntityGraph, id: &str) -> String {
    if let EntityLookup::Several(names) = graph.find(id) {
        return format!("{id}, which {} claim", names.join(" and "));
    }
    match graph.similar(id).first() {
        Some(similar) => format!("{id}, which is not there; did you mean {similar}?"),
        None => format!("{id}, which is not there; mend or remove it"),
    }
}

/// The problem of a file that is not named like its entity.
fn file_name_problem(node: &EntityNode) -> Option<String> {
    let (id, stem) = (&node.entity.id, node.name.rsplit('/').next()?);
    (*id != node.name && id != stem).then(|| {
        format!("its id is {id}, and the file is called {stem}.md; name it {id}.md or mend the id")
    })
}

fn duplicate_id_problem(graph: &EntityGraph, node: &EntityNode) -> Option<String> {
    let EntityLookup::Several(names) = graph.find(&node.entity.id) else { return None };
    let others = names.iter().filter(|name| **name != node.name);
    let others: Vec<String> = others.map(|name| DocumentId::entity(*name).to_string()).collect();
    let id = &node.entity.id;
    Some(format!("the id {id} is claimed by {} as well; give each its own", others.join(", ")))
}

/// The line of the front matter that holds a word; counted from 1.
fn line_containing(text: &str, word: &str) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    yaml.lines().position(|line| line.contains(word)).map(|at| at + 2)
}

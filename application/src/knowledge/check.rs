//! What a person should mend in the knowledge graph; `reqlore check` prints it.

use reqlore_domain::backlog::Reference;
use reqlore_domain::diagnostic::Diagnostic;
use reqlore_domain::document::{DocumentId, Kind};
use reqlore_domain::error::Result;
use reqlore_domain::front_matter;
use reqlore_domain::knowledge::names_entity;
use reqlore_domain::knowledge::{Edge, Found, Graph, Node};
use reqlore_domain::ports::documents::{Filter, Refresh, Revision};
use reqlore_domain::project::ProjectKey;

use crate::Ports;
use crate::backlog::check::Names;
use crate::finding::Finding;

/// Everything there is to mend in a project's entities, file by file.
pub(crate) async fn check(ports: &Ports, project: &ProjectKey) -> Result<Vec<Finding>> {
    let documents = &ports.documents;
    documents.changes(project, Kind::Entity, Revision::default(), Refresh::Full).await?;
    let heads = documents.find(project, &Filter::all(Kind::Entity)).await?.heads;
    let graph = &mut Graph::default();
    heads.iter().filter_map(|head| Node::of(head)).for_each(|node| graph.put(node));
    let graph = &*graph;
    let names = &Names::read(ports, project).await?;
    let mut findings = Vec::new();
    for node in graph.nodes() {
        let id = DocumentId::entity(&*node.name);
        let mut found: Vec<Diagnostic> = node.fault.iter().cloned().collect();
        let broken = broken_links(graph, names, node);
        let claimed_once = matches!(graph.find(&node.entity.id), Found::One(_));
        let misnamed = misnamed(node).filter(|_| claimed_once);
        let twice = twice_claimed(graph, node);
        if !broken.is_empty() || misnamed.is_some() || twice.is_some() {
            // Only now its text is of interest: for the lines.
            let read = ports.documents.get(project, std::slice::from_ref(&id)).await?;
            let document = read.into_iter().flatten().next();
            let text = document.as_ref().and_then(|document| document.text().ok()).unwrap_or("");
            let own = misnamed.into_iter().chain(twice);
            let own = own.map(|message| (node.entity.id.as_str(), message));
            for (word, message) in own.chain(broken) {
                found.push(Diagnostic::new(line_of(text, word), message));
            }
        }
        found.sort_by_key(|found| found.line);
        findings.extend(found.into_iter().map(|found| Finding::new(&id, found)));
    }
    Ok(findings)
}

/// Links to entities and items that are not there. A project without a backlog may mean items of
/// another one.
fn broken_links<'a>(graph: &'a Graph, names: &Names, node: &'a Node) -> Vec<(&'a str, String)> {
    let outgoing = graph.outgoing(node);
    let edges =
        || outgoing.iter().flat_map(|links| links.targets.iter().map(|e| (links.relation, e)));
    let broken = edges().filter(|(_, edge)| edge.node.is_none() && names_entity(edge.id));
    let message = |(relation, Edge { id, .. }): (&str, &Edge<'a>)| match graph.find(id) {
        Found::Several(names) => {
            format!("{relation} leads to {id}, which {} claim", names.join(" and "))
        }
        _ => match graph.similar(id).first() {
            Some(similar) => {
                format!("{relation} leads to {id}, which is not there; did you mean {similar}?")
            }
            None => format!("{relation} leads to {id}, which is not there; mend or remove it"),
        },
    };
    let broken = broken.map(|(relation, edge)| (edge.id, message((relation, edge))));
    let items = edges().filter(|(_, edge)| edge.node.is_none() && !names.is_empty());
    let items = items.filter_map(|(relation, edge)| {
        let why = names.why_broken(Reference::parse(edge.id)?)?;
        Some((edge.id, format!("{relation} leads to {why}")))
    });
    broken.chain(items).collect()
}

/// A file that is called otherwise than its entity is hard to find.
fn misnamed(node: &Node) -> Option<String> {
    let (id, stem) = (&node.entity.id, node.name.rsplit('/').next()?);
    (*id != node.name && id != stem).then(|| {
        format!("its id is {id}, and the file is called {stem}.md; name it {id}.md or mend the id")
    })
}

fn twice_claimed(graph: &Graph, node: &Node) -> Option<String> {
    let Found::Several(names) = graph.find(&node.entity.id) else { return None };
    let others = names.iter().filter(|name| **name != node.name);
    let others: Vec<String> = others.map(|name| DocumentId::entity(*name).to_string()).collect();
    let id = &node.entity.id;
    Some(format!("the id {id} is claimed by {} as well; give each its own", others.join(", ")))
}

/// The line of the front matter that holds a word; counted from 1.
fn line_of(text: &str, word: &str) -> Option<usize> {
    let yaml = front_matter::split(text).yaml?;
    yaml.lines().position(|line| line.contains(word)).map(|at| at + 2)
}

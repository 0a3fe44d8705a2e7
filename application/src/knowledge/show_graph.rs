//! `ixchel_graph`.

use async_trait::async_trait;
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::cut_report::CutReport;
use reqlore_domain::records::answers::document_label::DocumentLabel;
use reqlore_domain::records::answers::links::{
    EntityGraph, IncomingLinks, LinkEntry, LinkedDocument, OutgoingLinks,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::Repo;
use super::entity_request::{EntityId, find_address};
use crate::addresses::address::AddressTarget;
use crate::addresses::links::IncomingLink;
use crate::answers::answer::{Answer, ToolAnswer, serialization_error, whole_advice};
use crate::answers::show_keys::{EntryKeys, ShowKeys};
use crate::backlog::item_lookup::FileWarnings;
use crate::tools::tool::{Tool, ToolRequest, read_tool};

pub(crate) struct GraphTool;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Entity ID or path, or any other ID.
    id: EntityId,
    /// Folder.
    repo: Option<Repo>,
    #[serde(default)]
    show: ShowKeys<LinkKeys>,
}

struct LinkKeys;

impl EntryKeys for LinkKeys {
    const KEYS: &'static [&'static str] = &["kind", "title", "status", "superseded_by", "tags"];
}

#[async_trait]
impl Tool for GraphTool {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, EntityGraph>(
            "ixchel_graph",
            "Follow the links of a decision",
            "Returns the links and backlinks of a decision or other entity, by relation.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let Arguments { id, repo, show } = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let address = find_address(context, &call.caller, &id, repo.as_ref()).await?;
        let mut warnings = FileWarnings::default();
        if let AddressTarget::Item(meta) | AddressTarget::Entity(meta) = &address.target {
            warnings.add_diagnostics([meta]);
        }
        let mut outgoing = Vec::new();
        for link in address.read_outgoing(context).await? {
            warnings.add_diagnostics(link.target.iter().map(|node| &node.meta));
            let mut entry = link.entry();
            // As the document spells it.
            entry.label.id = link.id;
            outgoing.push(entry);
        }
        let incoming = address.read_incoming(context).await?;
        warnings.add_diagnostics(incoming.iter().map(|link| &link.source.meta));
        let mut incoming: Vec<LinkEntry> = incoming.iter().map(IncomingLink::entry).collect();
        for entry in outgoing.iter_mut().chain(&mut incoming) {
            entry.label.keep(|key| show.has(key));
        }
        let label = address.read_label(context).await?;
        let has_links = !outgoing.is_empty() || !incoming.is_empty();
        let mut answer = ToolAnswer::new(GraphAnswer { label, outgoing, incoming, show });
        if !has_links {
            answer.add_notes(["It has no links.".to_owned()]);
        }
        answer.add_shown(address.target.shown_links(call.caller.project.as_str()));
        answer.add_notes(warnings.into_list());
        Ok(answer)
    }
}

struct GraphAnswer {
    label: DocumentLabel,
    outgoing: Vec<LinkEntry>,
    incoming: Vec<LinkEntry>,
    show: ShowKeys<LinkKeys>,
}

impl GraphAnswer {
    fn cut(&self, parts: usize) -> (&[LinkEntry], &[LinkEntry], CutReport) {
        let outgoing = &self.outgoing[..parts.min(self.outgoing.len())];
        let incoming = &self.incoming[..parts.saturating_sub(self.outgoing.len())];
        let mut cut = Vec::new();
        for (name, shown, all) in
            [("outgoing", outgoing, &self.outgoing), ("incoming", incoming, &self.incoming)]
        {
            if shown.len() < all.len() {
                cut.push(format!("{name}: the first {} of {}", shown.len(), all.len()));
            }
        }
        if !cut.is_empty() {
            cut.push(whole_advice(self.text(self.part_count()).len()));
        }
        (outgoing, incoming, CutReport::new(cut))
    }

    /// The links by relation, in the order of the first link of each.
    fn groups(&self, links: &[LinkEntry]) -> Vec<(String, Vec<LinkedDocument>)> {
        let mut groups: Vec<(String, Vec<LinkedDocument>)> = Vec::new();
        for link in links {
            let document = LinkedDocument {
                label: link.label.clone(),
                attribute: link.attribute.clone(),
                missing_title: (link.is_missing && self.show.has("title")).then_some(()),
            };
            match groups.iter_mut().find(|(relation, _)| *relation == link.relation) {
                Some((_, group)) => group.push(document),
                None => groups.push((link.relation.clone(), vec![document])),
            }
        }
        groups
    }
}

impl Answer for GraphAnswer {
    fn part_count(&self) -> usize {
        self.outgoing.len() + self.incoming.len()
    }

    fn text(&self, parts: usize) -> String {
        let (outgoing, incoming, cut) = self.cut(parts);
        let mut lines = vec![self.label.text()];
        lines.extend(outgoing.iter().map(|link| format!("- {}", link.outgoing_text())));
        lines.extend(incoming.iter().map(|link| format!("- {}", link.incoming_text())));
        let mut text = lines.join("\n");
        cut.add_to_text(&mut text);
        text
    }

    fn data(&self, parts: usize) -> Result<Value> {
        let (shown_outgoing, shown_incoming, cut) = self.cut(parts);
        let (mut outgoing, mut incoming) = (Vec::new(), Vec::new());
        for (relation, targets) in self.groups(shown_outgoing) {
            outgoing.push(OutgoingLinks { relation, targets });
        }
        for (relation, sources) in self.groups(shown_incoming) {
            incoming.push(IncomingLinks { relation, sources });
        }
        let (label, incoming_total) = (self.label.clone(), self.incoming.len());
        serde_json::to_value(EntityGraph { label, outgoing, incoming, incoming_total, cut })
            .map_err(serialization_error)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::test_support::TestApplication;

    // S4: AC-002.4
    #[tokio::test]
    async fn graph_links_to_items_have_their_titles() {
        let testing = TestApplication::new();
        let text = "---\nid: dec-1d2c8f\ntitle: Files\nimplements: [REQ-48, iss-bbbbbb, REQ-049]\n\
                    ---\nFiles it is.\n";
        testing.write_entity("decisions/dec-1d2c8f", text).await;
        testing.write_entity("issues/iss-bbbbbb", "---\nid: iss-bbbbbb\ntitle: Why\n---\n").await;
        testing.write_item("REQ-048-3f9a1c", "---\ntitle: Keep\n---\n").await;
        let arguments = json!({ "id": "dec-1d2c8f" });
        let graph = testing.data("ixchel_graph", arguments.clone()).await;
        let targets = json!([
            { "id": "REQ-48", "kind": "requirement", "title": "Keep", "status": "Draft" },
            { "id": "iss-bbbbbb", "kind": "issue", "title": "Why" },
            { "id": "REQ-049", "kind": "requirement", "title": null },
        ]);
        assert_eq!(graph["outgoing"], json!([{ "rel": "implements", "targets": targets }]));
        testing.write_item("REQ-048-ffffff", "---\ntitle: Twin\n---\n").await;
        let graph = testing.data("ixchel_graph", arguments).await;
        assert_eq!(
            graph["outgoing"][0]["targets"][0]["title"],
            Value::Null,
            "two items have this reference"
        );
    }
}

//! The later format: what is unambiguous in it is read (rulings 4 say nothing of it).

use super::{Configuration, FOLDER, read};

#[test]
fn an_id_is_the_name_and_sources_lie_where_their_tool_puts_them() {
    let text = "\
docsets:
  - id: sdk
    name: MCP TypeScript SDK
    description: Official SDK
    sources: [{type: git_repo, url: 'https://example.org/x.git', paths: [README.md]}]
  - id: local
    name: Local Documentation
    sources: [{type: local_folder, paths: [./docs]}]
  - id: two
    name: Two folders
    sources: [{type: local_folder, paths: [./docs, ./more]}]
  - id: outside
    sources: [{type: local_folder, paths: [../docs]}]
  - id: odd
    sources: nonsense
  - id: react
    name: React
    local_path: ./node_modules/react/docs
";
    let configuration = read(text);
    let paths: Vec<_> = configuration
        .docsets
        .iter()
        .map(|d| (d.name.as_str(), &d.local_path[FOLDER.len()..]))
        .collect();
    assert_eq!(
        paths,
        [
            ("sdk", "/.knowledge/docsets/sdk/"),
            ("local", "/docs/"),
            ("two", "/.knowledge/docsets/two/"),
            ("outside", "/.knowledge/docsets/outside/"),
            ("odd", "/.knowledge/docsets/odd/"),
            ("react", "/node_modules/react/docs/"),
        ]
    );
    assert_eq!(configuration.docsets[0].title.as_deref(), Some("MCP TypeScript SDK"));
    let rooted = read(&format!("docs_root: /srv\n{text}"));
    assert_eq!(rooted.docsets[0].local_path, "/srv/sdk/");
}

#[test]
fn doubled_braces_are_variables_there_and_there_alone() {
    let template =
        "template: '{{docset_name}} {{docset_description}} {{keywords}} {keywords} {{x}}'";
    let later = read(&format!("{template}\ndocsets: [{{id: a, name: A B, description: c}}]"));
    assert_eq!(later.docsets[0].instruction(&["k"], &[]), "A B c k k {{x}}");
    let plain = read(&format!("{template}\ndocsets: {{a: {{description: c}}}}"));
    let expected = "{{docset_name}} {{docset_description}} {k} k {{x}}";
    assert_eq!(plain.docsets[0].instruction(&["k"], &[]), expected);
}

#[test]
fn an_id_must_fit_the_rule_of_names() {
    let faults =
        Configuration::read("docsets:\n  - id: my docs\n    name: x\n", FOLDER).unwrap_err();
    assert!(faults[0].to_string().starts_with(".knowledge/config.yaml:2:9: docsets: \"my docs\""));
}

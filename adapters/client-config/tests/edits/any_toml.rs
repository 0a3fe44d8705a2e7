//! Properties of any TOML, however it is written.

use proptest::prelude::*;
use toml_edit::{DocumentMut, Item};

use super::{
    TOML, check_characters_stay, check_damaged, check_other_values_stay, command, put, take,
    without_space,
};

/// Lines before the first table, each used at most once.
const ROOT: [&str; 6] = [
    "# a comment with [mcp_servers.reqlore]",
    "model = \"x\" # good",
    "a.b = 1\na.'c d' = 2",
    "list = [ # one\n  1, 2,\n]",
    "text = '''\n[mcp_servers.reqlore]\ncommand = 1\n'''",
    "\"\" = { a = \"}\", b = [ '#' ] }",
];

/// Notations of the servers, one per file: lines at the top, then tables.
const OURS: [(&str, &str); 14] = [
    ("", ""),
    ("mcp_servers = {}", ""),
    ("mcp_servers = { b.c = 1, }", ""),
    ("mcp_servers = { reqlore = { url = 1 } } # c", ""),
    ("mcp_servers = {\n b = { c = 1 }, # c,\n reqlore = { x = 1, url = 2 }, # d\n}", ""),
    ("mcp_servers = { reqlore.env.A = 1, b = 1, reqlore.url = '#,' }", ""),
    ("mcp_servers.b.c = 1\nmcp_servers.reqlore.url = 1 # u\n  mcp_servers.\"reqlore\".x = 2", ""),
    ("mcp_servers.reqlore = { }", "[mcp_servers.b]"),
    ("", "[mcp_servers]\nb.c = 1\nreqlore = { command = 'x', env = { A = 1 } }\n"),
    ("", "[mcp_servers] # m\n\treqlore.args = [\n1 ] # a\n\treqlore.env.A = 1\n\tb = 1\n"),
    ("", "[mcp_servers.b]\nc = 1\n\n  [mcp_servers.reqlore] # r\n\n  # one\n  url = 1\n"),
    ("", "[mcp_servers.reqlore.env]\nA = 1\n\n[mcp_servers.b]\nc = 1\n"),
    ("", "[ mcp_servers . 'reqlore' ]\nx.y = 1\n# two\n[mcp_servers.reqlore.env]\nA = 1\n\n"),
    ("", "[[mcp_servers.reqlore.url]]\na = 1\n[[mcp_servers.reqlore.url]]\n"),
];

const TABLES: [&str; 4] =
    ["[z] # z\nk = 1\n", "[[y]]\n\n[[y]]\nk = [[1], {}]\n", "\n\n[x.y]\n", "[v]\nw.x = 1\n# end"];

fn file() -> impl Strategy<Value = String> {
    let root = prop::sample::subsequence(&ROOT[..], 0..4);
    let tables = prop::sample::subsequence(&TABLES[..], 0..4);
    let ours = (prop::sample::select(&OURS[..]), any::<prop::sample::Index>());
    let signs = (any::<bool>(), any::<bool>(), any::<bool>());
    (root, tables, ours, signs).prop_map(|(mut lines, tables, ((top, table), at), signs)| {
        lines.extend([top].iter().filter(|top| !top.is_empty()));
        let mut tables: Vec<&str> = tables;
        tables.insert(at.index(tables.len() + 1), table);
        lines.extend(tables.iter().filter(|table| !table.is_empty()));
        let (has_bom, has_cr, has_end) = signs;
        let mut text = if has_bom { "\u{feff}".to_owned() } else { String::new() };
        text.push_str(&lines.join("\n"));
        if has_end {
            text.push('\n');
        }
        if has_cr { text.replace('\n', "\r\n") } else { text }
    })
}

/// Everything except our entry, as another program would write it.
fn others(text: &str) -> String {
    let text = text.trim_start_matches('\u{feff}');
    let mut document: DocumentMut = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    if let Some(servers) = document.get_mut("mcp_servers").and_then(Item::as_table_like_mut) {
        servers.remove("reqlore");
        if servers.is_empty() {
            document.remove("mcp_servers");
        }
    }
    let mut lines = Vec::new();
    flatten("", document.as_item(), &mut lines);
    lines.sort();
    lines.join("\n")
}

fn flatten(name: &str, item: &Item, lines: &mut Vec<String>) {
    if let Some(table) = item.as_table_like() {
        lines.push(name.to_owned());
        for (key, item) in table.iter() {
            flatten(&format!("{name}.{key:?}"), item, lines);
        }
    } else if let Some(tables) = item.as_array_of_tables() {
        for (at, table) in tables.iter().enumerate() {
            flatten(&format!("{name}[{at}]"), &Item::Table(table.clone()), lines);
        }
    } else if let Some(value) = item.as_value() {
        lines.push(format!("{name} = {}", value.clone().decorated("", "")));
    }
}

proptest! {
    #![proptest_config(super::cases(250))]

    #[test]
    fn edit_keeps_all_other_values(text in file()) {
        check_other_values_stay(&text, TOML, others);
    }

    #[test]
    fn edit_keeps_every_character_around_the_table(text in file()) {
        let without = check_characters_stay(&text, TOML);
        let again = take(&put(&without, TOML, &command()), TOML);
        prop_assert_eq!(without_space(&again), without_space(&without));
    }

    #[test]
    fn damaged_file_is_edited_correctly_or_rejected(
        text in file(),
        at in any::<usize>(),
        length in 0..3_usize,
        signs in "[\"\'{}\\[\\],.=#\\\\\r\n 1a]{0,3}",
    ) {
        check_damaged(&text, (at, length, &signs), TOML, others);
    }
}

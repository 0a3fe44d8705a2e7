//! Tests of the Markdown renderer with ordinary and hostile texts.

use std::cell::RefCell;
use std::sync::Arc;

use super::{ANCHOR_LABEL, TextContext, render_markdown, toggle_task};

fn context() -> TextContext {
    let image = |path: &str| path.starts_with("docs/").then(|| format!("/p/shop/files/{path}"));
    TextContext {
        item_url: Arc::new(|id| (id != "REQ-404").then(|| format!("/p/shop/item/{id}"))),
        image_url: Arc::new(image),
        has_buttons: false,
        anchors: RefCell::default(),
    }
}

fn render(text: &str) -> String {
    render_markdown(text, 3, &context())
}

#[test]
fn markdown_has_tables_tasks_and_struck_text() {
    let html = render(
        "| a | b | c |\n|---|--:|:-:|\n| 1 | ~~2~~ |\n| 3 |  | 4 |\n\n- [x] done\n- [ ] open\n",
    );
    assert!(html.contains("<thead><tr><th>a</th><th class=\"right\">b</th>"), "{html}");
    assert!(html.contains("<th class=\"center\">c</th></tr></thead><tbody>"), "{html}");
    assert!(html.contains("<td>1</td><td class=\"right\"><del>2</del></td>"), "{html}");
    assert!(html.contains("<td class=\"center\">4</td></tr>\n</tbody></table>"), "{html}");
    assert!(html.contains("<li>☑ done</li>"), "{html}");
    assert!(html.contains("<li>☐ open</li>"), "{html}");
}

#[test]
fn markdown_headings_continue_those_of_the_page() {
    let html = render("# A\n\n### B\n\n###### C\n\n## D\n\n# E\n");
    let levels = ["<h3", "<h4", "<h5", "<h4", "<h3"];
    assert_eq!(html.lines().map(|line| &line[..3]).collect::<Vec<_>>(), levels);
}

#[test]
fn markdown_headings_have_unique_anchors() {
    let context = context();
    let html = render_markdown("# Pay `by` Card!\n\n[x](#pay-by-card)", 2, &context);
    assert!(html.starts_with("<h2 id=\"text-pay-by-card\">Pay <code>by</code> Card! <a"), "{html}");
    assert!(html.contains("class=\"anchor\""), "{html}");
    assert_eq!(html.matches("href=\"#text-pay-by-card\"").count(), 2, "{html}");
    let again = render_markdown("# Pay by card\n\n# REQ-7", 2, &context);
    assert!(again.contains("<h2 id=\"text-pay-by-card-1\">"), "{again}");
    assert!(again.contains("<h2 id=\"text-req-7\"><a href=\"/p/shop/item/REQ-007\""), "{again}");
}

#[test]
fn markdown_boxes_of_tasks_are_buttons_if_they_can_be_ticked() {
    let text =
        "- [x] done\n\n> 1. [ ] open\n>    - [X] inner\n\n`- [ ] code`\n\n```\n- [ ] x\n```\n";
    let html = render_markdown(text, 2, &TextContext { has_buttons: true, ..context() });
    assert_eq!(html.matches("<button").count(), 3, "{html}");
    let button = "<li><button class=\"check\" id=\"text-task-0\" role=\"checkbox\" name=\"task\" \
                  value=\"0\" aria-checked=\"true\" aria-label=\"Task 1 is done\"></button> done";
    assert!(html.contains(button), "{html}");
    let toggled = |task| toggle_task(text, task);
    assert_eq!(toggled(0).unwrap(), text.replace("- [x] done", "- [ ] done"));
    assert_eq!(toggled(1).unwrap(), text.replace("[ ] open", "[x] open"));
    assert_eq!(toggled(2).unwrap(), text.replace("[X]", "[ ]"));
    assert_eq!(toggled(3), None);
}

#[test]
fn markdown_links_references_outside_of_code() {
    let html = render("See REQ-7, dec-1d2c8f and REQ-404; `US-1` [EP-001](https://a.example).");
    let rel = r#"rel="noreferrer noopener nofollow""#;
    assert!(html.contains(&format!(r#"<a href="/p/shop/item/REQ-007" {rel}>REQ-7</a>"#)), "{html}");
    assert!(html.contains(r#"<a href="/p/shop/item/dec-1d2c8f""#), "{html}");
    assert!(html.contains("and REQ-404; <code>US-1</code>"), "{html}");
    assert!(html.contains(&format!(r#"<a href="https://a.example" {rel}>EP-001</a>"#)), "{html}");
    assert_eq!(render("```\nREQ-001\n```"), "<pre><code>REQ-001\n</code></pre>\n");
}

#[test]
fn markdown_relative_links_are_text_except_item_files() {
    let html = render("[a](../x.md) [b](?c) [d](/signout) [e](../req/REQ-001-login.md) [f](//g.h)");
    assert!(html.contains("<p>a b d <a href=\"/p/shop/item/REQ-001\""), "{html}");
    assert!(html.ends_with(">e</a> f</p>\n"), "{html}");
}

#[test]
fn markdown_images_of_other_servers_become_links() {
    let html =
        render("![plan](https://a.example/b.png) ![x](data:image/png;base64,AA) ![y](z.png)");
    assert!(html.contains(r#"<a href="https://a.example/b.png""#), "{html}");
    assert!(html.contains(">Image: plan</a> x Image z.png: y</p>"), "{html}");
}

#[test]
fn markdown_images_of_the_project_are_shown() {
    let html = render("![a *REQ-1* \"b\"](docs/a%20b.png) [![c](docs/c.png)](https://a.example)");
    let image = r#"<img src="/p/shop/files/docs/a%20b.png" alt="a REQ-1 &quot;b&quot;">"#;
    assert!(html.contains(image), "{html}");
    assert!(
        html.contains(r#"nofollow"><img src="/p/shop/files/docs/c.png" alt="c"></a>"#),
        "{html}"
    );
}

const FORBIDDEN_TAGS: [&str; 20] = [
    "script", "svg", "iframe", "form", "input", "button", "style", "math", "base", "meta", "link",
    "object", "embed", "textarea", "title", "select", "div", "/main", "/div", "/body",
];

#[test]
fn markdown_of_an_attacker_has_no_active_content() {
    let texts = [
        "<script>alert(1)</script>",
        "<svg/onload=alert(1)>",
        "<svg><animate onbegin=alert(1) attributeName=x></svg>",
        "<img src=x onerror=alert(1)>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\" java\tscript:alert(1)\">x</a>",
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](vbscript:x) [y](data:text/html,<script>alert(1)</script>)",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
        "<form action=/signout><input name=a><button>b</button></form>",
        "<p style=position:fixed id=main class=card onclick=alert(1)>x</p>",
        "<style>body{display:none}</style>",
        "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
        "<<script>script>alert(1)<</script>/script>",
        "```\"><script>alert(1)</script>\nx\n```",
        "# x {#main .card onclick=alert(1)}",
        "<base href=//a.example><meta http-equiv=refresh content=0><link rel=stylesheet href=//a>",
        "![x](javascript:alert(1))",
        "<https://a.example/\" onmouseover=\"alert(1)>",
        "[x](https://a.example/\"onmouseover=alert(1))",
        "<a href=/signout>x</a><a href=reqlore:REQ-404>y</a>",
        "<!-- --!><img src=x onerror=alert(1)> -->",
        "<textarea></textarea><title><select><option>x",
        "<div></div></div></main></body></html>x",
        "<IMG src=docs/a.png onerror=alert(1)>",
        "<p\n><img src=docs/a.png>",
        "<button name=task value=1 formaction=/signout>x</button>",
        "<h2 id=main class=check><a class=anchor aria-label=x>y</a></h2><p id=\"text-a\" style=\"text-align: right\">",
        "![x](docs/a.png\"onerror=alert(1))",
        "![x](//a.example/docs/b.png) ![y](javascript:alert(1)) ![z](data:image/svg+xml,<svg>)",
        "<table><td class=card style=\"position: fixed\" onclick=alert(1)>x",
    ];
    for text in texts {
        let html = render(text).replace(ANCHOR_LABEL, "own");
        for tag in FORBIDDEN_TAGS {
            assert!(!html.contains(&format!("<{tag}")), "{text}: {html}");
        }
        for element in html.split('<').skip(1) {
            let element = element.split('>').next().unwrap_or_default();
            for attribute in element.split_whitespace().skip(1) {
                let name = attribute.split('=').next().unwrap_or_default();
                let is_rel_word = ["noopener", "nofollow\""].contains(&name);
                let known = ["href", "rel", "start", "class", "id", "alt", "src", "aria-label"];
                assert!(is_rel_word || known.contains(&name), "{text}: {html}");
                let is_own = match name {
                    "class" => ["class=\"anchor\"", "class=\"right\"", "class=\"check\""]
                        .contains(&attribute),
                    "id" => attribute.starts_with("id=\"text-"),
                    "aria-label" => attribute == "aria-label=\"own\"",
                    "src" => attribute.starts_with("src=\"/p/shop/files/docs/"),
                    _ => true,
                };
                assert!(is_own, "{text}: {html}");
            }
            let href = element.split_once("href=\"").map(|(_, rest)| rest.to_lowercase());
            let is_safe = href.is_none_or(|href| {
                ["http:", "https:", "mailto:", "/p/shop/item/", "#text-"]
                    .iter()
                    .any(|ok| href.starts_with(ok))
            });
            assert!(is_safe, "{text}: {html}");
        }
    }
}

#[test]
fn markdown_keeps_harmless_raw_html() {
    assert_eq!(render("H<sub>2</sub>O"), "<p>H<sub>2</sub>O</p>\n");
    let many = "<b>x".repeat(501);
    assert!(render(&many).contains("&lt;b&gt;x"));
}

#[test]
fn markdown_with_deep_nesting_stays_shallow() {
    let texts = [
        ">".repeat(50_000),
        format!("{}x", "> ".repeat(25_000)),
        format!("{}x", "- ".repeat(25_000)),
        "*a **b ".repeat(7_000),
        "[".repeat(50_000),
        format!("{}x{}", "[".repeat(20_000), "](http://a)".repeat(2_700)),
        "![".repeat(25_000),
        "<b>".repeat(17_000),
        "<div>".repeat(10_000),
        "`".repeat(50_000),
        "<!--".repeat(12_000),
        "|a".repeat(25_000),
        "~~".repeat(25_000),
        "&".repeat(20_000),
        "\\".repeat(50_000),
        "a-".repeat(25_000),
        "REQ-1 ".repeat(4_000),
        "x\n\n".repeat(70_000),
    ];
    for text in &texts {
        let html = render(text);
        let (mut depth, mut deepest) = (0_i32, 0);
        for element in html.split('<').skip(1) {
            if element.starts_with("br") || element.starts_with("hr") {
                continue;
            }
            depth += if element.starts_with('/') { -1 } else { 1 };
            deepest = deepest.max(depth);
        }
        assert!(deepest <= 40, "{deepest}: {}", &text[..20]);
    }
}

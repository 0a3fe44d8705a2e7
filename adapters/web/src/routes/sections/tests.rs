//! Tests of the pages of sections, knowledge and docsets.

use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use serde_json::{Map, Value, json};

use crate::test_support::{PageClient, check_names, untouched_form, with_hidden};

const HOSTILE: &str = "\"><script>alert(1)</script>";
const TOOLS: [&str; 3] = ["get_item", "list_items", "reqlix_set_requirements"];

fn answer(tool: &str, arguments: &Map<String, Value>) -> Result<Value> {
    let section = format!(
        "# General\n\n**1.** Log in {HOSTILE}\n\n## Later\n\n**2.1.** See REQ-7.\n\n**2.1.** Twice.\n"
    );
    match tool {
        "get_item" if arguments["reference"] == "section:general" => Ok(json!({
            "item": { "kind": "section", "id": "general", "title": HOSTILE, "text": section,
                      "version": "00112233aabbccdd" },
            "links": { "outgoing": [], "incoming": [], "incoming_total": 0 },
            "diagnostic": HOSTILE
        })),
        "list_items" => Ok(json!({
            "items": [{ "reference_id": "dec-1d2c8f", "kind": HOSTILE, "title": HOSTILE,
                        "status": HOSTILE, "tags": [HOSTILE], "updated_at": HOSTILE }],
            "total": 1
        })),
        "ixchel_tags" => Ok(json!({ "total": 1, "tags": [{ "tag": HOSTILE, "count": 2 }] })),
        "list_docsets" => Ok(json!({ "docsets": [
            { "name": HOSTILE, "version": HOSTILE, "aliases": [HOSTILE], "local_path": HOSTILE,
              "description": HOSTILE },
            { "name": null, "error": HOSTILE },
        ] })),
        "reqlix_set_requirements" if arguments["index"] == "x y" => {
            Err(Error::new(ErrorKind::InvalidArgument, HOSTILE).field("index"))
        }
        "reqlix_set_requirements" if arguments["if_version"] == "ffff" => {
            Err(Error::new(ErrorKind::Conflict, "changed").field("if_version"))
        }
        "reqlix_get_instructions" => {
            Ok(json!({ "text": format!("## Sections\n\n- {HOSTILE} (key: {HOSTILE})\n") }))
        }
        "reqlix_set_requirements" => Ok(json!({
            "section": "general", "index": arguments["index"], "text": "", "added": false,
            "reindexed": [], "warnings": []
        })),
        _ => Err(Error::new(ErrorKind::NotFound, "missing")),
    }
}

#[tokio::test]
async fn lists_and_sections_encode_hidden_characters() {
    let client = PageClient::new(&TOOLS, |tool, arguments| {
        let is_list = tool == "reqlix_get_instructions";
        let answer = answer(tool, arguments)?;
        // The text of AGENTS.md has its titles.
        Ok(if is_list {
            json!({ "text": format!("## Sections\n\n- a\u{202a}\u{202b}\u{3164} (key: k)\n") })
        } else {
            with_hidden(&answer)
        })
    });
    for page in ["sections", "sections/general", "knowledge", "docsets"] {
        check_names(page, &client.get(&format!("/p/default/{page}")).await.body);
    }
}

#[tokio::test]
async fn lists_and_sections_with_hostile_content_are_escaped() {
    let client = PageClient::new(&TOOLS, answer);
    for page in [
        "sections",
        "sections/general",
        "sections/general/edit?index=1",
        "sections/general/edit?index=%22%3E%3Cscript%3E",
        "knowledge?tag=%22%3E%3Cscript%3E&kind=%22%3E%3Cscript%3E&q=%22%3E%3Cscript%3E",
        "docsets",
    ] {
        let response = client.get(&format!("/p/default/{page}")).await;
        assert_eq!(response.status(), 200, "{page}: {}", response.body);
        assert!(!response.body.contains("<script>"), "{page}: {}", response.body);
    }
}

#[tokio::test]
async fn section_page_shows_each_requirement_with_its_form() {
    let client = PageClient::new(&TOOLS, answer);
    let body = client.get("/p/default/sections/general").await.body;
    for expected in [
        "<h2 id=\"text-later\">Later <a",
        "3 rules",
        r#"See <a href="/p/default/item/REQ-007""#,
        "/p/default/sections/general/edit?index=2.1",
    ] {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    let reader = PageClient::new(&TOOLS, answer).with_access(Access::Read);
    assert!(!reader.get("/p/default/sections/general").await.body.contains("/edit"));
    assert_eq!(reader.get("/p/default/sections/general/edit").await.status(), 404);
    assert_eq!(client.get("/p/default/sections/missing").await.status(), 404);
}

#[tokio::test]
async fn section_form_keeps_the_typed_text_after_an_error() {
    let client = PageClient::new(&TOOLS, answer);
    let page = "/p/default/sections/general/edit";
    let saved = client.post(page, "index=1&text=New&version=0011").await;
    assert_eq!(
        saved.header("location"),
        "/p/default/sections/general?done=saved-7-general%3A1#rule-1"
    );
    let invalid = client.post(page, "index=x+y&text=%3Cscript%3E&version=0011").await;
    assert_eq!(invalid.status(), 422);
    assert!(invalid.body.contains("&#60;script&#62;</textarea>"), "{}", invalid.body);
    assert!(invalid.body.contains("id=\"index-error\""), "{}", invalid.body);
    assert!(invalid.body.contains("name=\"version\" value=\"0011\""), "{}", invalid.body);
    let conflict = client.post(page, "index=2.1&text=See+REQ-8.&version=ffff").await;
    assert_eq!(conflict.status(), 409);
    let body = conflict.body;
    assert!(body.contains("See <del>REQ-7.</del><ins>REQ-8.</ins>"), "{body}");
    assert!(body.contains("name=\"version\" value=\"00112233aabbccdd\""), "{body}");
}

#[tokio::test]
async fn rule_saved_untouched_changes_nothing() {
    for text in ["a", "a\r\nb", "a\rb", "a\n\n- b\n- c  ", "\"<&>'", "a\u{202e}\u{85}b", "é\tx"] {
        let client = PageClient::new(&TOOLS, move |tool, _| match tool {
            "get_item" => Ok(json!({
                "item": { "kind": "section", "id": "general", "title": "General", "version": "0011",
                          "text": format!("# General\n\n**1.** {text}\n\n**2.** x\n") }
            })),
            _ => panic!("{tool} was called"),
        });
        let target = "/p/default/sections/general/edit";
        let page = client.get(&format!("{target}?index=1")).await.body;
        let response = client.post(target, &untouched_form(&page, target)).await;
        assert_eq!(
            response.header("location"),
            "/p/default/sections/general?done=same--general",
            "{text:?}"
        );
    }
}

#[tokio::test]
async fn listed_section_without_rules_has_a_page() {
    let tools = ["get_item", "create_epic", "reqlix_set_requirements"];
    let client = PageClient::new(&tools, |tool, _| match tool {
        "reqlix_get_instructions" => {
            Ok(json!({ "text": "## Sections\n\n- Code style (key: code_style)\n" }))
        }
        _ => Err(Error::new(ErrorKind::NotFound, "missing")),
    });
    let page = client.get("/p/default/sections/code_style").await;
    assert_eq!(page.status(), 200, "{}", page.body);
    let link = "data-new href=\"/p/default/sections/code_style/edit\"";
    assert!(page.body.contains("No rules yet") && page.body.contains(link), "{}", page.body);
    assert!(!page.body.contains("/history"), "{}", page.body);
    assert_eq!(client.get("/p/default/sections/other").await.status(), 404);
}

#[tokio::test]
async fn invalid_key_of_a_section_is_refused_before_its_text() {
    let client = PageClient::new(&TOOLS, answer);
    let page = client.get("/p/default/sections?new=my%20%3Ckey").await;
    assert_eq!(page.status(), 422, "{}", page.body);
    assert!(page.body.contains("value=\"my &#60;key\""), "{}", page.body);
    assert!(page.body.contains("id=\"new-error\""), "{}", page.body);
    let form = client.get("/p/default/sections/new%22%3E%3Cscript%3E/edit").await;
    let url = "/p/default/sections?new=new%22%3E%3Cscript%3E";
    assert_eq!((form.status(), form.header("location")), (303, url));
    assert!(!client.get(url).await.body.contains("<script>"));
}

use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE, COOKIE};
use reqlore_domain::error::{Error, ErrorKind};
use reqlore_domain::identity::Access;
use serde_json::{Value, json};

use crate::session::form_token;
use crate::test_support::{PageClient, PageResponse, SECRET};

/// Pages with an undo that records its arguments, and refuses the change 9.
fn client() -> (PageClient, Arc<Mutex<Vec<Value>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let log = calls.clone();
    let client = PageClient::new(&["list_items"], move |tool, arguments| {
        if tool != "undo" {
            return Ok(json!({ "items": [] }));
        }
        log.lock().unwrap().push(Value::Object(arguments.clone()));
        match arguments.get("change").and_then(Value::as_i64) {
            Some(9) => Err(Error::new(ErrorKind::Conflict, "Not undone: changed later: ben")),
            Some(404) => Err(Error::new(ErrorKind::NotFound, "The change is not known")),
            _ => Ok(json!({ "documents": [{ "id": "US-001" }, { "id": "<b>" }] })),
        }
    });
    (client, calls)
}

async fn post_as_script(client: &PageClient, form: &str) -> PageResponse {
    let form = format!("{form}&csrf={}", form_token(SECRET));
    let request = Request::post("/p/default/undo")
        .header(COOKIE, format!("reqlore={SECRET}"))
        .header(ACCEPT, "application/json")
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    client.send(request.body(Body::from(form)).unwrap()).await
}

#[tokio::test]
async fn change_notice_has_its_undo_only_for_writers() {
    let (client, _) = client();
    let page = "/p/default/board?q=a&done=moved-12-US-001";
    let body = client.get(page).await.body;
    let notice = body.split_once("id=\"done\"").unwrap().1.split_once("</form>").unwrap().0;
    assert!(notice.contains("name=\"change\" value=\"12\""), "{notice}");
    assert!(notice.contains("role=\"status\">US-001 was moved.</p>"), "{notice}");
    assert!(notice.contains("<button class=\"button\">Undo"), "{notice}");
    // Texts of an address are not a notice, or have no undo.
    for (done, shown) in
        [("moved-x-US-001", true), ("same--US-001", true), ("hacked-12-US-001", false), ("", false)]
    {
        let body = client.get(&format!("/p/default/board?done={done}")).await.body;
        assert_eq!(body.contains("<p role=\"status\">"), shown, "{done}");
        assert!(body.contains("name=\"change\" value=\"\""), "{done}: {body}");
    }
    let body = client.with_access(Access::Read).get(page).await.body;
    assert!(!body.contains("id=\"done\""), "{body}");
}

#[tokio::test]
async fn undo_names_the_change_and_returns_to_its_page() {
    let (client, calls) = client();
    let form = "change=12&next=/p/default/board?q=a%26done=moved-12-US-001";
    let page = client.post("/p/default/undo", form).await;
    assert_eq!(page.status(), 303, "{}", page.body);
    let target = "/p/default/board?q=a&done=undone-7-US-001+and+1+more";
    assert_eq!(page.header("location"), target);
    let shown = client.get(target).await.body;
    assert!(shown.contains("The change of US-001 and 1 more was undone."), "{shown}");
    let answer = post_as_script(&client, "change=12").await;
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let message = "The change of US-001 and 1 more was undone.";
    assert_eq!(answer, json!({ "message": message, "change": "7" }));
    assert_eq!(*calls.lock().unwrap(), [json!({ "change": 12 }), json!({ "change": 12 })]);
}

#[tokio::test]
async fn undo_that_is_refused_says_who_changed_it() {
    let (client, calls) = client();
    for (change, status, reason) in
        [("9", 409, "changed later: ben"), ("404", 422, "The change is not known")]
    {
        let page = client.post("/p/default/undo", &format!("change={change}")).await;
        assert_eq!(page.status(), status);
        assert!(page.body.contains(reason), "{}", page.body);
        let answer = post_as_script(&client, &format!("change={change}")).await;
        assert!(answer.status() >= 400 && answer.body.contains(reason), "{}", answer.body);
    }
    // Without a change, the tool would undo another one.
    calls.lock().unwrap().clear();
    for form in ["", "change=x", "reference=US-001"] {
        assert_eq!(client.post("/p/default/undo", form).await.status(), 400, "{form}");
    }
    assert_eq!(calls.lock().unwrap().len(), 0);
}

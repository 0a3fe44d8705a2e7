//! Tests of rules that all pages share: sessions, forms, headers and assets.

use axum::body::Body;
use axum::http::Request;
use axum::http::header::COOKIE;
use reqlore_domain::identity::Access;
use serde_json::json;

use crate::session::derived_token;
use crate::test_support::{PageClient, SECRET, TOKEN, untouched_form};

fn client() -> PageClient {
    PageClient::new(&["list_items"], |_, _| Ok(json!({ "items": [] })))
}

fn form(path: &str, body: &str) -> Request<Body> {
    let request = Request::post(path).header(COOKIE, format!("reqlore={SECRET}"));
    let request = request.header("content-type", "application/x-www-form-urlencoded");
    request.body(Body::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let client = client();
    for path in ["/signin", "/nowhere", "/p/other/board", "/", "/assets/none.css"] {
        let page = client.get(path).await;
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; style-src 'self';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        for (name, value) in [
            ("referrer-policy", "same-origin"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(page.header(name), value, "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn page_without_a_session_redirects_to_the_sign_in() {
    let client = client();
    for cookie in ["", "reqlore=forged", "other=session-secret"] {
        let request = Request::get("/p/default/board?kind=epic").header(COOKIE, cookie);
        let page = client.send(request.body(Body::empty()).unwrap()).await;
        let target = "/signin?next=%2Fp%2Fdefault%2Fboard%3Fkind%3Depic";
        assert_eq!((page.status(), page.header("location")), (303, target));
    }
}

#[tokio::test]
async fn hidden_project_answers_like_a_missing_page() {
    let client = client();
    let hidden = client.get("/p/other/board").await;
    let missing = client.get("/p/default/none").await;
    assert_eq!((hidden.status(), &hidden.body), (404, &missing.body));
    assert_eq!(missing.status(), 404);
}

#[tokio::test]
async fn error_page_has_the_theme_of_the_request() {
    let client = client();
    for (theme, scheme) in [("dark", "dark"), ("light", "light"), ("", "light dark")] {
        let cookies = format!("reqlore={SECRET}; reqlore-theme={theme}");
        let request = Request::get("/p/default/none").header(COOKIE, cookies);
        let page = client.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(page.status(), 404);
        assert!(page.body.contains(&format!("content=\"{scheme}\"")), "{theme}: {}", page.body);
        assert!(page.header("content-type").starts_with("text/html"), "{theme}");
        assert!(page.header("content-security-policy").contains("default-src 'none'"), "{theme}");
    }
}

#[tokio::test]
async fn form_without_the_token_of_the_session_is_rejected() {
    let client = client();
    for body in ["theme=dark", "theme=dark&csrf=", "theme=dark&csrf=0123"] {
        let page = client.send(form("/theme", body)).await;
        assert_eq!((page.status(), page.header("set-cookie")), (403, ""), "{body}");
    }
    let page = client.post("/theme", "theme=dark&next=/p/default/board").await;
    assert_eq!((page.status(), page.header("location")), (303, "/p/default/board"));
    assert!(page.header("set-cookie").starts_with("reqlore-theme=dark; Path=/; SameSite=Lax"));
    let page = client.post("/theme", "theme=dark&next=//evil.example").await;
    assert_eq!(page.header("location"), "/");
}

#[tokio::test]
async fn form_of_an_earlier_session_is_offered_again() {
    let client = client();
    let path = "/p/default/sections/general/edit";
    let fields = "text=%3Cb%3E%0D%0Asecond&next=%22x&csrf=";
    let ended = Request::post(path).header("content-type", "application/x-www-form-urlencoded");
    let ended = client.send(ended.body(Body::from(fields)).unwrap()).await;
    assert_eq!(ended.status(), 403);
    assert!(ended.body.contains("your session has ended"), "{}", ended.body);
    assert!(ended.body.contains("href=\"/signin\" target=\"_blank\""), "{}", ended.body);
    let earlier = client.send(form(path, fields)).await;
    assert_eq!(earlier.status(), 403);
    for page in [&ended, &earlier] {
        assert!(page.body.contains("<pre>&#60;b&#62;\nsecond</pre>"), "{}", page.body);
        assert!(page.body.contains("name=\"next\" value=\"&#34;x\""), "{}", page.body);
        let token = derived_token("csrf", SECRET);
        assert_eq!(page.body.contains(&token), page.body == earlier.body, "{}", page.body);
        let sent = untouched_form(&page.body, path);
        assert_eq!(sent, "text=%3Cb%3E%0D%0Asecond&next=%22x");
    }
}

#[tokio::test]
async fn script_gets_the_reason_of_a_refused_form() {
    for (cookie, reason) in [("", "session has ended"), (SECRET, "an earlier session")] {
        let request = Request::post("/p/default/move")
            .header(COOKIE, format!("reqlore={cookie}"))
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded");
        let answer = client().send(request.body(Body::from("csrf=old")).unwrap()).await;
        assert_eq!((answer.status(), answer.header("content-type")), (403, "application/json"));
        assert!(answer.body.contains(reason), "{}", answer.body);
    }
}

#[tokio::test]
async fn pages_below_a_base_path_link_below_it() {
    let mut client = client();
    client.change(|config| config.base_path = "/reqlore/".to_owned());
    let page = client.get("/p/default/board").await;
    for attribute in ["href", "action", "src", "data-events"] {
        assert!(page.body.contains(&format!(" {attribute}=\"/reqlore/")), "{}", page.body);
        let all = page.body.matches(&format!(" {attribute}=\"/")).count();
        assert_eq!(page.body.matches(&format!(" {attribute}=\"/reqlore/")).count(), all);
    }
    let request = Request::get("/p/default/board").body(Body::empty()).unwrap();
    let target = "/reqlore/signin?next=%2Freqlore%2Fp%2Fdefault%2Fboard";
    assert_eq!(client.send(request).await.header("location"), target);
    let next = "/reqlore/p/default/tree";
    let page = client.send(form("/signin", &format!("token={TOKEN}&next={next}"))).await;
    assert_eq!(page.header("location"), next);
    assert!(page.header("set-cookie").starts_with("reqlore=session-secret; Path=/reqlore/;"));
    let page = client.post("/theme", "theme=dark&next=/p/default/board").await;
    assert_eq!(page.header("location"), "/reqlore/");
    client.change(|config| config.has_tls = true);
    let page = client.send(form("/signin", &format!("token={TOKEN}"))).await;
    assert!(page.header("set-cookie").starts_with("__Secure-reqlore="), "{}", page.body);
}

#[tokio::test]
async fn pages_of_a_folder_show_its_name() {
    let mut client = client();
    client.change(|config| config.folder_name = "my <shop>".to_owned());
    let page = client.get("/p/default/board").await.body;
    assert!(page.contains("<title>Board · my &#60;shop&#62; · Reqlore</title>"), "{page}");
    assert!(page.contains("<span class=\"project\">my &#60;shop&#62;</span>"), "{page}");
}

#[tokio::test]
async fn sign_in_sets_a_cookie_that_scripts_cannot_read() {
    let client = client();
    let page = client.send(form("/signin", "token=wrong&next=/p/default/tree")).await;
    assert_eq!((page.status(), page.header("set-cookie")), (401, ""));
    assert!(!page.body.contains("wrong"), "{}", page.body);
    let page = client.send(form("/signin", &format!("token={TOKEN}&next=/p/default/tree"))).await;
    assert_eq!((page.status(), page.header("location")), (303, "/p/default/tree"));
    let cookie = format!("reqlore={SECRET}; Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(page.header("set-cookie"), cookie);
}

#[tokio::test]
async fn token_for_metrics_sees_no_page() {
    assert_eq!(client().with_access(Access::Metrics).get("/p/default/board").await.status(), 404);
}

#[tokio::test]
async fn asset_is_cached_under_the_hash_of_its_content() {
    let client = client();
    let page = client.get("/signin").await;
    let assets: Vec<&str> =
        page.body.split('"').filter(|part| part.starts_with("/assets/")).collect();
    assert_eq!(assets.len(), 3, "{}", page.body);
    for path in assets {
        let asset = client.get(path).await;
        assert_eq!(asset.status(), 200, "{path}");
        assert!(asset.header("cache-control").ends_with("immutable"), "{path}");
    }
}

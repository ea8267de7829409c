//! The service as a browser sees it: the page, logging in, what is saved and never shown.

use belljar_server::Scope;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::json;

use crate::support::{Ask as _, Client, World, options, world, world_with};

/// A browser without a key.
fn ask(world: &World, method: Method, path: &str) -> RequestBuilder {
    let url = format!("http://{}{path}", world.address);
    reqwest::Client::new().request(method, url)
}

fn log_in(world: &World, key: &str) -> RequestBuilder {
    ask(world, Method::POST, "/login").json(&json!({"key": key}))
}

fn cookie(response: &Response) -> &str {
    response.headers()["set-cookie"].to_str().unwrap()
}

#[tokio::test]
async fn the_page_is_there_and_loads_nothing_from_elsewhere() {
    let world = world().await;
    let page = ask(&world, Method::GET, "/").with(200).await;
    let headers = page.headers();
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
    let policy = headers["content-security-policy"].to_str().unwrap();
    for part in [
        "default-src 'none'",
        "script-src 'self';",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "form-action 'none'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("sandbox") && !policy.contains("http"));
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["referrer-policy"], "no-referrer");
    assert_eq!(headers["cross-origin-opener-policy"], "same-origin");
    assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
    let text = page.text().await.unwrap();
    assert!(text.contains("<title>Belljar"), "{text}");
    // Behind a proxy with a prefix, what begins at the root is somebody else's.
    assert!(
        !text.contains("src=\"/") && !text.contains("href=\"/"),
        "{text}"
    );
    ask(&world, Method::GET, "/assets/none.js")
        .problem(404, "route_not_found")
        .await;
}

#[tokio::test]
async fn a_browser_logs_in_and_out() {
    let world = world().await;
    let client = world.client_with("team-7", &[Scope::Runs]).await;
    let key = &client.key.text;
    let logged_in = log_in(&world, key).with(204).await;
    assert_eq!(
        cookie(&logged_in),
        format!("belljar={key}; HttpOnly; SameSite=Strict")
    );
    for (name, value) in [
        ("x-forwarded-proto", "https".to_owned()),
        ("origin", format!("https://{}", world.address)),
    ] {
        let encrypted = log_in(&world, key).header(name, value).with(204).await;
        assert!(cookie(&encrypted).ends_with("; Secure"), "{name}");
    }

    let me = |cookie: &str| ask(&world, Method::GET, "/v1/me").header("cookie", cookie.to_owned());
    let cookies = format!("theme=dark; belljar={key}; other=1");
    let shown = me(&cookies).header("x-belljar", "1").json_with(200).await;
    assert_eq!(shown["tenant"], "team-7");
    assert_eq!(shown["scopes"], json!(["runs"]));
    assert_eq!(
        (&shown["demo"], &shown["models"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(shown["budget"]["steps"], 20);
    assert!(shown["version"].is_string());
    // The scope is that of the key, as with the other header.
    let sessions = ask(&world, Method::GET, "/v1/sessions").header("cookie", &cookies);
    sessions
        .header("x-belljar", "1")
        .problem(403, "scope_missing")
        .await;

    let out = ask(&world, Method::POST, "/logout").with(204).await;
    assert!(cookie(&out).starts_with("belljar=;") && cookie(&out).ends_with("; Max-Age=0"));
}

/// A page of another site makes the browser send the cookie, but not the header; and its origin is told.
#[tokio::test]
async fn another_site_can_do_nothing_with_the_cookie() {
    let world = world_with(options(|options| {
        options.hosts = vec!["belljar.example".into()];
    }))
    .await;
    let client = world.client("a").await;
    let cookie = format!("belljar={}", client.key.text);
    let create = || ask(&world, Method::POST, "/v1/sessions").header("cookie", &cookie);
    create().body("{}").problem(401, "unauthorized").await;
    create()
        .header("x-belljar", "yes")
        .problem(401, "unauthorized")
        .await;
    for origin in [
        "https://evil.example",
        "null",
        "http://127.0.0.1",
        "http://localhost:3000",
        "https://belljar.example.evil.example",
    ] {
        let request = create().header("x-belljar", "1").header("origin", origin);
        request.problem(403, "wrong_origin").await;
        let request = log_in(&world, &client.key.text).header("origin", origin);
        request.problem(403, "wrong_origin").await;
    }
    for origin in [
        format!("http://{}", world.address),
        "https://belljar.example".into(),
    ] {
        let request = create().header("x-belljar", "1").header("origin", origin);
        request.json_with(201).await;
    }
    // A header that says something else counts, and not the cookie.
    let request = create()
        .header("x-belljar", "1")
        .header("authorization", "Bearer x");
    request.problem(401, "unauthorized").await;
}

#[tokio::test]
async fn wrong_keys_are_refused_and_soon_no_longer_looked_at() {
    let world = world().await;
    let (client, other) = (world.client("a").await, world.client("b").await);
    let (prefix, secret) = client.key.text.rsplit_once('_').unwrap();
    for body in ["", "{", "{\"key\": 1}", "{\"key\": \"x\", \"more\": 1}"] {
        let request = ask(&world, Method::POST, "/login").body(body);
        request.problem(400, "bad_body").await;
    }
    let long = ask(&world, Method::POST, "/login").body("x".repeat(5000));
    long.problem(400, "bad_body").await;
    // Of a key that there is not, any number may be tried: there is nothing to find.
    for _ in 0..15 {
        log_in(&world, "bj_00000000_x")
            .problem(401, "unauthorized")
            .await;
        log_in(&world, "").problem(401, "unauthorized").await;
    }
    let wrong = format!(
        "{prefix}_{}",
        secret.replace(|c: char| c.is_ascii_digit(), "f")
    );
    for _ in 0..10 {
        log_in(&world, &wrong).problem(401, "unauthorized").await;
    }
    let refused = log_in(&world, &client.key.text).with(429).await;
    assert_eq!(refused.headers()["retry-after"], "60");
    log_in(&world, &other.key.text).with(204).await;
    // It keeps nobody out who has it in a program.
    client.get("/v1/me").with(200).await;
}

/// E7, E8: what programs made is saved and never shown, whatever its name says.
#[tokio::test]
async fn files_are_never_pages() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let script = "<script src=https://evil.example></script>";
    for name in ["a.html", "a.svg", "a.pdf", "a.xhtml", "a"] {
        let path = format!("{session}/files/{name}");
        client.put(&path, script).with(204).await;
        saved(&client, &path).await;
    }
    saved(&client, &format!("{session}/archive")).await;
}

async fn saved(client: &Client, path: &str) {
    let response = client.get(path).with(200).await;
    let headers = response.headers();
    let disposition = headers["content-disposition"].to_str().unwrap();
    assert!(
        disposition.starts_with("attachment;"),
        "{path}: {disposition}"
    );
    assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
    let kind = headers["content-type"].to_str().unwrap();
    assert!(kind.starts_with("application/"), "{path}: {kind}");
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.ends_with("; sandbox"), "{path}: {policy}");
}

//! What those may do who administer the service, and who is not let in.

use belljar_server::{Scope, Tenants, openapi_admin};
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Ask as _, world};

/// K2: every route of admins needs a key with the scope `admin`, and is nowhere but at their address.
#[tokio::test]
async fn every_admin_route_needs_the_scope() {
    let world = world().await;
    let tenant = world.admin(&[Scope::Sessions, Scope::Runs]).await;
    let all = world.client_with("operators", &Scope::ALL).await;
    let document = openapi_admin();
    let mut count = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in item.as_object().unwrap().keys() {
            count += 1;
            let method: Method = method.to_uppercase().parse().unwrap();
            let path = path
                .replace("{name}", "default")
                .replace("{prefix}", &tenant.key.info.prefix)
                .replace("{id}", "none");
            let request = || tenant.request(method.clone(), &path);
            request().problem(403, "scope_missing").await;
            let nobody = request().header("authorization", "");
            nobody.problem(401, "unauthorized").await;
            // The address of tenants has nothing of it, whatever the key.
            let elsewhere = all.request(method.clone(), &path);
            elsewhere.problem(404, "route_not_found").await;
        }
    }
    assert_eq!(count, 14);
    // Nothing of this has revoked it.
    world
        .client_with("operators", &[Scope::Sessions])
        .await
        .session()
        .await;
    // Nor has a page of another name a way in.
    let admin = world.admin(&[Scope::Admin]).await;
    let led = admin.get("/v1/admin/keys").header("host", "evil.example");
    led.problem(421, "wrong_host").await;
    world.ends().await;
}

#[tokio::test]
async fn keys_are_made_listed_and_revoked() {
    let world = world().await;
    let admin = world.admin(&[Scope::Admin]).await;
    let body = json!({"tenant": "team-7", "scopes": ["sessions"]});
    let made = admin.post("/v1/admin/keys", body).json_with(201).await;
    let (key, prefix) = (
        made["key"].as_str().unwrap(),
        made["prefix"].as_str().unwrap(),
    );
    let theirs = || {
        let url = format!("http://{}/v1/sessions", world.address);
        reqwest::Client::new().get(url).bearer_auth(key)
    };
    theirs().with(200).await;
    let listed = admin.get("/v1/admin/keys").json_with(200).await;
    let found = listed["keys"].as_array().unwrap().iter();
    let found: Vec<_> = found.filter(|one| one["prefix"] == prefix).collect();
    assert_eq!(found[0]["tenant"], "team-7");
    assert!(!listed.to_string().contains(key));
    let path = format!("/v1/admin/keys/{prefix}");
    admin.delete(&path).with(204).await;
    theirs().problem(401, "unauthorized").await;
    admin.delete(&path).problem(404, "key_not_found").await;
    for bad in [
        json!({"tenant": "a.>", "scopes": ["sessions"]}),
        json!({"tenant": "a", "scopes": ["all"]}),
        json!({"tenant": "a", "scopes": []}),
        json!({"tenant": "a", "scopes": ["sessions"], "key": "mine"}),
    ] {
        let request = admin.post("/v1/admin/keys", bad);
        request.problem(400, "bad_body").await;
    }
    world.ends().await;
}

#[tokio::test]
async fn quotas_are_set_and_hold_at_once() {
    let world = world().await;
    let admin = world.admin(&[Scope::Admin]).await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "print('x' * 9)").await;
    let path = "/v1/admin/tenants/a";
    let quotas = json!({"quotas": {"sessions": 1, "output_bytes": 10}});
    let set = admin.post(&format!("{path}/quotas"), quotas);
    let set = set.json_with(200).await;
    assert_eq!(set["quotas"], json!({"sessions": 1, "output_bytes": 10}));
    let shown = admin.get(path).json_with(200).await;
    assert_eq!(shown["used"]["sessions"], 1, "{shown:#}");
    assert_eq!(shown["used"]["output_bytes"], 10);
    assert_eq!(shown["used"]["disk_bytes"], 0);
    let refused = client.post("/v1/sessions", json!({}));
    refused.problem(429, "quota_exceeded").await;
    let less = json!({"quotas": {"output_bytes": null}});
    admin.post(&format!("{path}/quotas"), less).with(200).await;
    let refused = client.post("/v1/sessions", json!({}));
    refused.problem(429, "too_many_sessions").await;
    let listed = admin.get("/v1/admin/tenants").json_with(200).await;
    let names = listed["tenants"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|one| &one["name"]).collect();
    assert_eq!(names, ["a", "default", "operators"]);
    let nobody = admin.get("/v1/admin/tenants/nobody");
    nobody.problem(404, "tenant_not_found").await;
    for (path, bad, code) in [
        (path, json!({"quotas": {"luck": 1}}), "bad_body"),
        (path, json!({"quotas": {"tokens": -1}}), "bad_body"),
        (path, json!({"quotas": {}, "tenant": "b"}), "bad_body"),
        ("/v1/admin/tenants/A", json!({"quotas": {}}), "bad_request"),
    ] {
        let request = admin.post(&format!("{path}/quotas"), bad);
        request.problem(400, code).await;
    }
    let errors = admin.get("/v1/admin/errors").json_with(200).await;
    assert_eq!(errors["codes"]["quota_exceeded"], 1, "{errors:#}");
    let health = admin.get("/v1/admin/health").json_with(200).await;
    assert_eq!(
        (&health["draining"], &health["sessions"]),
        (&json!(false), &json!(1))
    );
    world.ends().await;
}

#[tokio::test]
async fn sessions_of_all_tenants_are_listed_and_ended() {
    let world = world().await;
    let admin = world.admin(&[Scope::Admin]).await;
    let (a, b) = (world.client("a").await, world.client("b").await);
    let sessions = [a.session().await, b.session().await, a.session().await];
    let first = admin.get("/v1/admin/sessions?limit=2").json_with(200).await;
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = admin.get(&format!("/v1/admin/sessions?cursor={cursor}"));
    let rest = rest.json_with(200).await;
    assert!(rest.get("next_cursor").is_none());
    let all: Vec<Value> = [&first, &rest]
        .into_iter()
        .flat_map(|page| page["sessions"].as_array().unwrap().clone())
        .collect();
    let tenants: Vec<_> = all.iter().map(|one| &one["tenant"]).collect();
    assert_eq!(tenants, ["a", "b", "a"]);
    let ids: Vec<_> = all.iter().map(|one| one["id"].as_str().unwrap()).collect();
    let path = format!("/v1/admin/sessions/{}", ids[1]);
    admin.delete(&path).with(204).await;
    b.get(&sessions[1]).problem(404, "session_not_found").await;
    a.get(&sessions[0]).with(200).await;
    admin.delete(&path).problem(404, "session_not_found").await;
    world.ends().await;
}

/// What was done is written down, by whoever did it, without secrets, and nobody changes it.
#[tokio::test]
async fn what_was_done_is_written_down() {
    let world = world().await;
    let admin = world.admin(&[Scope::Admin]).await;
    let actor = admin.key.info.prefix.clone();
    let client = world.client("a").await;
    let session = client.session().await;
    let id = session.rsplit('/').next().unwrap();
    let body = json!({"tenant": "a", "scopes": ["sessions", "runs"]});
    let made = admin.post("/v1/admin/keys", body).json_with(201).await;
    let prefix = made["prefix"].as_str().unwrap();
    admin
        .delete(&format!("/v1/admin/keys/{prefix}"))
        .with(204)
        .await;
    let quotas = json!({"quotas": {"tokens": 5}});
    admin
        .post("/v1/admin/tenants/a/quotas", quotas)
        .with(200)
        .await;
    admin
        .delete(&format!("/v1/admin/sessions/{id}"))
        .with(204)
        .await;
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("/v1/admin/audit?limit=3{cursor}"));
        let page = page.json_with(200).await;
        all.extend(page["events"].as_array().unwrap().clone());
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    all.reverse();
    let brief: Vec<_> = all
        .iter()
        .map(|event| {
            let field = |name: &str| event[name].as_str().unwrap_or("").to_owned();
            (
                field("actor"),
                field("act"),
                field("tenant"),
                field("detail"),
            )
        })
        .collect();
    let of = |actor: &str, act: &str, tenant: &str, detail: &str| {
        (
            actor.to_owned(),
            act.to_owned(),
            tenant.to_owned(),
            detail.to_owned(),
        )
    };
    let line = "command line";
    assert_eq!(
        (brief[0].0.as_str(), brief[0].1.as_str()),
        ("service", "key_created")
    );
    let rest: Vec<_> = brief[1..].to_vec();
    let expected = [
        of("service", "service_started", "", env!("CARGO_PKG_VERSION")),
        of(line, "key_created", "operators", &format!("{actor} admin")),
        of(
            line,
            "key_created",
            "a",
            &format!("{} sessions", client.key.info.prefix),
        ),
        of(
            &actor,
            "key_created",
            "a",
            &format!("{prefix} sessions,runs"),
        ),
        of(&actor, "key_revoked", "a", prefix),
        of(&actor, "quota_set", "a", "tokens=5"),
        of(&actor, "session_ended", "a", id),
    ];
    for event in &expected {
        assert!(rest.contains(event), "{event:?} is not in {rest:#?}");
    }
    assert_eq!(rest.len(), expected.len(), "{rest:#?}");
    let secret = made["key"].as_str().unwrap().rsplit('_').next().unwrap();
    assert!(!format!("{all:?}").contains(secret));

    let data = world.ends().await;
    let tenants = Tenants::open(data.path()).await.unwrap();
    let newest = tenants.audit(None, 1).await.unwrap();
    assert_eq!(newest[0].act, "service_drained");
}

//! The OpenAPI document and the page of errors are those of the code; every route keeps tenants apart.

use belljar_server::{Code, ERRORS_PAGE, Scope, openapi, openapi_admin};
use belljar_test_model::ScriptedModel;
use reqwest::Method;
use serde_json::{Value, json};

use crate::runs::{offering, one_run};
use crate::support::{Ask as _, Client, world, world_with};

#[test]
fn the_documented_api_is_that_of_the_code() {
    for (name, argument, document) in [
        ("openapi.json", "", openapi()),
        ("openapi-admin.json", " admin", openapi_admin()),
    ] {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let documented = std::fs::read_to_string(format!("{docs}/{name}")).unwrap();
        assert!(
            documented == format!("{document:#}\n"),
            "docs/{name} is not up to date: \
             cargo run -p belljar-server --example openapi{argument} > docs/{name}"
        );
    }
}

#[test]
fn every_code_has_its_section_and_every_section_its_code() {
    let mut sections: Vec<_> = ERRORS_PAGE
        .lines()
        .filter_map(|line| line.strip_prefix("## "))
        .collect();
    let mut codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    sections.sort_unstable();
    codes.sort_unstable();
    assert_eq!(sections, codes);
}

/// References lead somewhere, and names of operations are not given twice.
#[test]
fn the_documents_are_whole() {
    assert_whole(&openapi(), 86);
    assert_whole(&openapi_admin(), 14);
    // Few things need no key, and each has tests of its own.
    let document = openapi();
    let open: Vec<_> = operations(&document)
        .filter(|(_, _, operation)| operation.get("security").is_some())
        .map(|(path, _, _)| path.as_str())
        .collect();
    assert_eq!(
        open,
        ["/login", "/logout", "/v1/shared", "/v1/shared/steps"]
    );
}

/// Every operation has an example in docs/api.md, whose blocks a test of the program runs.
#[test]
fn every_operation_has_an_example() {
    let page = include_str!("../../../../docs/api.md");
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
    let calls: Vec<(Method, String)> = blocks
        .flat_map(|block| block.split("call ").skip(1))
        .filter_map(|call| {
            let (method, rest) = call.split_once(' ')?;
            let path = rest.split([' ', ';', '\n']).next()?;
            let path = path.replace(['\'', '"'], "");
            let path = path.split('?').next()?.to_owned();
            Some((method.parse().ok()?, path))
        })
        .collect();
    let documents = [openapi(), openapi_admin()];
    let all = || documents.iter().flat_map(operations);
    let mut missing = Vec::new();
    for (template, method, _) in all() {
        // A path that is written out is no example of one with a name in it.
        let written_out = |path: &str| all().any(|(other, of, _)| other == path && of == method);
        let shown = |(called, path): &(Method, String)| {
            *called == method
                && (path == template || is_one_of(path, template) && !written_out(path))
        };
        if !calls.iter().any(shown) {
            missing.push(format!("{method} {template}"));
        }
    }
    assert!(missing.is_empty(), "docs/api.md lacks {missing:?}");
}

/// Whether a path is one that this template stands for; `{path}` has several parts.
fn is_one_of(path: &str, template: &str) -> bool {
    let (mut parts, mut expected) = (path.split('/'), template.split('/'));
    loop {
        match (parts.next(), expected.next()) {
            (None, None) | (Some(_), Some("{path}")) => return true,
            (Some(part), Some(name)) if name.starts_with('{') && !part.is_empty() => {}
            (Some(part), Some(name)) if part == name => {}
            _ => return false,
        }
    }
}

fn assert_whole(document: &Value, expected: usize) {
    assert_eq!(document["openapi"], "3.1.0");
    let mut pending = vec![document];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    let pointer = reference.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{reference}");
                }
                pending.extend(fields.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    let mut names: Vec<_> = operations(document)
        .map(|(_, _, operation)| operation["operationId"].as_str().unwrap().to_owned())
        .collect();
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!((names.len(), all), (all, expected));
}

#[tokio::test]
async fn problems_point_to_their_page() {
    let world = world().await;
    let client = world.client("a").await;
    let problem = client
        .get("/v1/sessions/none")
        .problem(404, "session_not_found")
        .await;
    let page = client
        .get(problem["type"].as_str().unwrap())
        .with(200)
        .await;
    let page = page.text().await.unwrap();
    assert!(
        page.starts_with("## session_not_found\n\nNo session has this id"),
        "{page}"
    );
    assert!(!page.contains("cell_not_found"), "{page}");
    let served: Value = client.get("/openapi.json").json_with(200).await;
    assert_eq!(served, openapi());
}

fn operations(document: &Value) -> impl Iterator<Item = (&String, Method, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| {
            let method = method.to_uppercase().parse().unwrap();
            (path, method, operation)
        })
    })
}

/// A request that would succeed for the owner of the session.
fn request(
    client: &Client,
    method: &Method,
    path: &str,
    operation: &Value,
) -> reqwest::RequestBuilder {
    let request = client.request(method.clone(), path);
    match operation["operationId"].as_str().unwrap() {
        "run_cell" | "preview_edit" => request.json(&json!({"code": "x = 2"})),
        "store_notebook" => request.json(&json!({"revision": 0, "cells": []})),
        "create_checkpoint" | "restore_session" => request.json(&json!({"name": "one"})),
        "create_namespace" => request.json(&json!({"name": "two"})),
        "put_file" => request.body("other"),
        "create_upload" => crate::uploads::creation(request, 3),
        "show_upload" | "delete_upload" => crate::uploads::tus(request),
        "add_to_upload" => crate::uploads::part_of(request, 0, b"abc"),
        // The end of an archive: one without entries.
        "upload_archive" => request.body(vec![0; 1024]),
        "stat_file" => client.request(method.clone(), &format!("{path}?path=one")),
        "read_column_statistics" => client.request(method.clone(), &format!("{path}?column=0")),
        "make_directory" => request.json(&json!({"path": "made"})),
        "rename_file" => request.json(&json!({"from": "one", "to": "two"})),
        "move_lease" => request.json(&json!({"seconds": 600})),
        "run_command" => request.json(&json!({"command": "true"})),
        "answer_input" => request.json(&json!({"number": 1, "text": "x"})),
        "write_input" => request.json(&json!({"text": "x"})),
        "signal_command" => request.json(&json!({"signal": "SIGINT"})),
        "resize_terminal" => request.json(&json!({"rows": 5, "columns": 20})),
        "raise_budget" => request.json(&json!({"steps": 20})),
        "set_policy" => request.json(&json!({"approvals": "always"})),
        "follow_up_run" => request.json(&json!({"task": "Go on."})),
        "branch_run" => request.json(&json!({"step": 1})),
        "update_run" => request.json(&json!({"title": "Other"})),
        "log_in" => request.json(&json!({"key": client.key.text})),
        "create_run" => request.json(&json!({"task": "Do it."})),
        "decide_approval" => request.json(&json!({"hash": "0", "decision": {"kind": "accept"}})),
        _ => request,
    }
}

/// K1: with every route and verb of the document, another tenant's session is one that is not there, to
/// the byte; without a key nothing is answered, and a revoked key is none.
#[tokio::test]
async fn every_route_keeps_tenants_apart() {
    let model = ScriptedModel::react(one_run).unwrap();
    let world = world_with(offering(&model)).await;
    let owner = world.client_with("a", &Scope::ALL).await;
    let other = world.client_with("b", &Scope::ALL).await;
    let revoked = world.client_with("a", &Scope::ALL).await;
    assert!(
        world
            .server
            .tenants()
            .revoke(&revoked.key.info.prefix)
            .await
            .unwrap()
    );

    let session = furnished(&owner).await;
    let id = session.rsplit('/').next().unwrap();
    let (node, random) = id.split_once('-').unwrap();
    assert_eq!((node.len(), random.len()), (8, 32));
    let absent = format!("{node}-{}", "0".repeat(32));
    let run = owner.waiting_run().await;
    let run = run.rsplit('/').next().unwrap();
    // Of what a tenant has no directory yet, and of what it has one.
    let with_runs = world.client_with("c", &Scope::ALL).await;
    with_runs.waiting_run().await;

    let document = openapi();
    let mut with_ids = 0;
    for (path, method, operation) in operations(&document) {
        if operation.get("security").is_some() {
            continue;
        }
        let of_runs = path.starts_with("/v1/runs");
        let id = if of_runs { run } else { id };
        let fill = |id: &str| {
            path.replace("{id}", id)
                .replace("{approval}", "1.0")
                .replace("{cell}", "1")
                .replace("{pid}", "1")
                .replace("{port}", "8000")
                .replace("{path}", "one")
                .replace("{share}", "1")
                .replace("{upload}", "one")
                .replace("{name}", "one")
        };
        for client in [None, Some(&revoked)] {
            let mut request = request(&owner, &method, &fill(id), operation);
            request = request.header("authorization", "");
            if let Some(client) = client {
                request = self::request(client, &method, &fill(id), operation);
            }
            if method == Method::HEAD {
                request.with(401).await;
            } else {
                request.problem(401, "unauthorized").await;
            }
        }
        if !path.contains("{id}") {
            continue;
        }
        with_ids += 1;
        for other in [&other, &with_runs] {
            let theirs = request(other, &method, &fill(id), operation)
                .with(404)
                .await;
            let nobodys = request(other, &method, &fill(&absent), operation)
                .with(404)
                .await;
            let heads = [&theirs, &nobodys].map(|response| {
                let mut headers = response.headers().clone();
                // The lengths are the same, since the ids are of the same length.
                headers.remove("x-request-id");
                headers.remove("date");
                headers
            });
            assert_eq!(heads[0], heads[1], "{method} {path}");
            let theirs = theirs.text().await.unwrap();
            let nobodys = nobodys.text().await.unwrap();
            assert_eq!(theirs.replace(id, &absent), nobodys, "{method} {path}");
            let code = if of_runs {
                "run_not_found"
            } else {
                "session_not_found"
            };
            let has_body = method != Method::HEAD;
            assert!(
                !has_body || theirs.contains(code),
                "{method} {path}: {theirs}"
            );
        }
    }
    assert_eq!(with_ids, 75);

    // Nothing of all this has changed anything.
    assert_eq!(
        owner
            .printed(&session, "print(x, open('one').read())")
            .await,
        "1 1\n"
    );
    let kept = owner.get(&format!("/v1/runs/{run}")).json_with(200).await;
    assert_eq!(kept["state"], "waits", "{kept:#}");
    let listed = other.get("/v1/runs").json_with(200).await;
    assert_eq!(listed["runs"], json!([]));
    let listed = other.get("/v1/sessions").json_with(200).await;
    assert_eq!(listed["sessions"], json!([]));
    world.ends().await;
}

/// The routes of the matrix do something for the owner: a 404 there is not a mistake of the test.
#[tokio::test]
async fn every_route_answers_its_owner() {
    let model = ScriptedModel::react(one_run).unwrap();
    let mut options = offering(&model);
    options.runs.tenant_runs = 20;
    options.ports_domain = Some("localhost".to_owned());
    let world = world_with(options).await;
    let owner = world.client_with("a", &Scope::ALL).await;
    let document = openapi();
    for (path, method, operation) in operations(&document) {
        if path.starts_with("/v1/runs") {
            answers_its_owner_about_a_run(&owner, path, &method, operation).await;
            continue;
        }
        if path.starts_with("/v1/shared") {
            let shares = format!("{}/shares", owner.waiting_run().await);
            let share = owner.post(&shares, json!({})).json_with(201).await;
            let token = share["token"].as_str().unwrap();
            let asked = owner.without_key(method, path);
            asked.bearer_auth(token).with(200).await;
            continue;
        }
        let session = furnished(&owner).await;
        let mut pid = Value::Null;
        if path.contains("{pid}") {
            let asked = json!({"argv": ["cat"], "terminal": {"rows": 5, "columns": 20}});
            let command = owner.post(&format!("{session}/commands"), asked);
            pid = command.json_with(201).await["pid"].clone();
        }
        if operation["operationId"] == "stream_command" {
            // Its stream lasts as long as the command.
            let command = format!("{session}/commands/{pid}");
            owner.delete(&command).with(204).await;
        }
        let mut upload = String::new();
        if path.contains("{upload}") {
            upload = crate::uploads::begun(&owner, &session, 3).await;
        }
        let filled = path
            .replace("{id}", session.rsplit('/').next().unwrap())
            .replace("{upload}", upload.rsplit('/').next().unwrap())
            .replace("{pid}", &pid.to_string())
            .replace("{cell}", "1")
            .replace("{port}", "8000")
            .replace("{path}", "one")
            .replace("{name}", "one");
        let response = request(&owner, &method, &filled, operation)
            .send()
            .await
            .unwrap();
        let status = response.status().as_u16();
        if operation["operationId"] == "load_snapshot" {
            assert_eq!(status, 415, "{method} {path}");
            continue;
        }
        if operation["operationId"] == "answer_input" {
            // The cell has ended; one that waits is a test of its own.
            assert_eq!(status, 409, "{method} {path}");
            continue;
        }
        if operation["tags"][0] == "variables" {
            // There are no tables without pandas: those are tests of their own.
            let text = response.text().await.unwrap();
            assert!(text.contains("variable_not_found"), "{path}: {text}");
            continue;
        }
        let documented = operation["responses"].get(status.to_string());
        if operation["operationId"] == "watch_directory" {
            // It lasts as long as the session.
            assert_eq!(status, 200);
            continue;
        }
        let text = response.text().await.unwrap();
        assert!(documented.is_some(), "{method} {path}: {status} {text}");
    }
}

async fn answers_its_owner_about_a_run(
    owner: &Client,
    path: &str,
    method: &Method,
    operation: &Value,
) {
    let run = owner.waiting_run().await;
    let waits = owner.get(&run).json_with(200).await["waits_for"][0].clone();
    let filled = path
        .replace("{id}", run.rsplit('/').next().unwrap())
        .replace("{approval}", waits["id"].as_str().unwrap())
        .replace("{path}", "one");
    let name = operation["operationId"].as_str().unwrap();
    let share = match name {
        "revoke_share" => {
            let shares = format!("{run}/shares");
            owner.post(&shares, json!({})).json_with(201).await["id"].clone()
        }
        _ => Value::Null,
    };
    let filled = filled.replace("{share}", share.as_str().unwrap_or_default());
    let decision = json!({"hash": waits["hash"], "decision": {"kind": "accept"}});
    let of_ended = [
        "get_artifact",
        "stream_run",
        "follow_up_run",
        "branch_run",
        "delete_run",
        "reproduce_run",
    ];
    if of_ended.contains(&name) {
        let approval = format!("{run}/approvals/{}", waits["id"].as_str().unwrap());
        owner.post(&approval, decision.clone()).with(204).await;
        owner.until(&run, "answered").await;
    }
    let mut request = request(owner, method, &filled, operation);
    if name == "decide_approval" {
        request = request.json(&decision);
    }
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let documented = operation["responses"].get(status.to_string());
    let text = response.text().await.unwrap();
    assert!(documented.is_some(), "{method} {path}: {status} {text}");
}

/// A session with a cell, a file, a checkpoint and a namespace.
async fn furnished(owner: &Client) -> String {
    let session = owner.session().await;
    owner.run(&session, "x = 1").await;
    owner
        .put(&format!("{session}/files/one"), "1")
        .with(204)
        .await;
    owner
        .post(&format!("{session}/checkpoints"), json!({"name": "one"}))
        .with(204)
        .await;
    owner
        .post(&format!("{session}/namespaces"), json!({"name": "one"}))
        .with(201)
        .await;
    session
}

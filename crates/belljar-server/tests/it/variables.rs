//! Environment variables and secrets over HTTP.

use std::path::Path;

use belljar_server::ServerOptions;
use serde_json::{Value, json};

use crate::support::{Ask as _, Client, world, world_in};

const TOKEN: &str = "tok-2c26b46b68ffc68f";

async fn session(client: &Client) -> String {
    let asked = json!({"variables": {"PLACE": "north"}, "secrets": {"TOKEN": TOKEN}});
    let session = client.post("/v1/sessions", asked).json_with(201).await;
    assert_eq!(session["variables"], json!(["PLACE"]));
    assert_eq!(session["secrets"], json!(["TOKEN"]));
    assert!(!session.to_string().contains(TOKEN));
    format!("/v1/sessions/{}", session["id"].as_str().unwrap())
}

const LOOK: &str = "import os; print(os.environ.get('PLACE'), os.environ.get('TOKEN', '')[::-1], os.environ.get('TOKEN'))";

fn with_token() -> String {
    let reversed: String = TOKEN.chars().rev().collect();
    format!("north {reversed} [secret TOKEN]\n")
}

/// Whether a file below a directory contains a text.
fn has(directory: &Path, text: &str) -> bool {
    directory.read_dir().unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return has(&path, text);
        }
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes())
    })
}

/// Cells and commands have them; forks have what is granted; no answer has a value of a secret.
#[tokio::test]
async fn a_session_has_variables_and_secrets() {
    let world = world().await;
    let client = world.client("a").await;
    let session = session(&client).await;
    assert_eq!(client.printed(&session, LOOK).await, with_token());
    let cell = json!({"code": LOOK, "variables": {"PLACE": "south"}});
    let outcome = client
        .post(&format!("{session}/cells"), cell)
        .json_with(200)
        .await;
    assert!(
        outcome["stdout"]["text"]
            .as_str()
            .unwrap()
            .starts_with("south "),
        "{outcome}"
    );
    let command = json!({"command": "echo $PLACE $TOKEN"});
    let command = client
        .post(&format!("{session}/commands"), command)
        .json_with(200)
        .await;
    assert_eq!(
        command["stdout"]["text"], "north [secret TOKEN]\n",
        "{command:#}"
    );
    for (asked, secrets, starts) in [
        (json!({}), Value::Null, "north  None"),
        (json!({"secrets": ["TOKEN"]}), json!(["TOKEN"]), "north f"),
        (json!({"secrets": ["*"]}), json!(["TOKEN"]), "north f"),
    ] {
        let forks = client
            .post(&format!("{session}/fork"), asked)
            .json_with(201)
            .await;
        let fork = &forks["sessions"][0];
        assert_eq!(fork["secrets"], secrets);
        let fork = format!("/v1/sessions/{}", fork["id"].as_str().unwrap());
        let printed = client.printed(&fork, LOOK).await;
        assert!(printed.starts_with(starts), "{printed}");
    }
    let unknown = json!({"secrets": ["OTHER"]});
    let unknown = client.post(&format!("{session}/fork"), unknown);
    unknown.problem(400, "variable_refused").await;
}

#[tokio::test]
async fn what_is_refused_names_the_variable_and_no_value() {
    let world = world().await;
    let client = world.client("a").await;
    for (asked, name) in [
        (
            json!({"variables": {"LD_PRELOAD": "value-of-it"}}),
            "LD_PRELOAD",
        ),
        (json!({"variables": {"A=B": "value-of-it"}}), "A=B"),
        (json!({"variables": {"A": "value-of-it\0"}}), "A"),
        (json!({"secrets": {"PIN": "short"}}), "PIN"),
        (json!({"secrets": {"PATH": "value-of-it"}}), "PATH"),
        (
            json!({"variables": {"A": "x"}, "secrets": {"A": "value-of-it"}}),
            "A",
        ),
    ] {
        let refused = client.post("/v1/sessions", asked);
        let detail = refused.problem(400, "variable_refused").await["detail"].to_string();
        assert!(detail.contains(&format!("`{name}`")), "{detail}");
        assert!(
            !detail.contains("value-of-it") && !detail.contains("short\""),
            "{detail}"
        );
    }
    let session = client.session().await;
    let cell = json!({"code": "1", "variables": {"PYTHONSTARTUP": "x"}});
    let refused = client.post(&format!("{session}/cells"), cell);
    refused.problem(400, "variable_refused").await;
}

/// Variables come back with the session; secrets do not, and the next outcome says so. No file has had them.
#[tokio::test]
async fn a_restart_loses_secrets_and_says_so() {
    let world = world().await;
    let client = world.client("a").await;
    let session = session(&client).await;
    let request = json!({"code": format!("{LOOK}\ncopy = os.environ['TOKEN']\nx = 1")});
    let request = client.post(&format!("{session}/cells"), request);
    request.header("idempotency-key", "once").with(200).await;
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .with(200)
        .await;
    assert!(!has(world.data.path(), TOKEN));
    // This service still has them.
    assert_eq!(client.printed(&session, LOOK).await, with_token());
    client
        .run(&session, "import os; copy = os.environ['TOKEN']")
        .await;
    let data = world.ends().await;
    assert!(!has(data.path(), TOKEN));
    let world = world_in(data, ServerOptions::default()).await;
    let client = world.client_by(client.key.clone());
    let shown = client.get(&session).json_with(200).await;
    assert_eq!(
        (&shown["variables"], &shown["secrets"]),
        (&json!(["PLACE"]), &Value::Null)
    );
    let outcome = client.run(&session, LOOK).await;
    assert_eq!(outcome["stdout"]["text"], "north  None\n", "{outcome:#}");
    let notes = outcome["notes"].to_string();
    assert!(notes.contains("the secrets `TOKEN` are gone"), "{notes}");
    assert!(notes.contains("the variable `copy` is gone"), "{notes}");
}

//! What is left of a secret in the files and answers of the service.

use std::path::Path;

use serde_json::json;

use crate::harness::{Case, Severity};
use crate::support::Ask as _;

const SECRET: &str = "s3cr3t-60303ae22b998861";

/// The files below a directory that contain a text.
fn files_with(directory: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let entries = directory.read_dir().unwrap().flatten();
    let found = entries.flat_map(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return files_with(&path, text);
        }
        let bytes = std::fs::read(&path).unwrap_or_default();
        let has = bytes
            .windows(text.len())
            .any(|window| window == text.as_bytes());
        if has { vec![path] } else { Vec::new() }
    });
    found.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn n60_a_secret_in_the_files_of_the_service() {
    let case = Case::begin(
        "N60",
        Severity::HostLeak,
        "a secret that code prints, names files with, keeps in variables and raises; then hibernation, a snapshot, and a \
         repeated request",
        "no answer and no file of the service has it; another tenant learns nothing",
    )
    .await;
    let hostile = case.hostile().await;
    let asked = json!({"secrets": {"TOKEN": SECRET}});
    let start = || {
        let request = hostile.post("/v1/sessions", asked.clone());
        request.header("idempotency-key", "once-with-a-secret")
    };
    let mut answers = vec![start().json_with(201).await, start().json_with(201).await];
    let id = answers[0]["id"].as_str().unwrap().to_owned();
    let session = format!("/v1/sessions/{id}");
    for code in [
        "import os; t = os.environ['TOKEN']; print(t)",
        "for c in t: print(c, end='', flush=True)",
        "raise ValueError(t)",
        "display({'text/html': t}, raw=True)",
        "open(t, 'w').close(); globals()[t] = t",
    ] {
        let cell = json!({"code": code});
        let cell = hostile.post(&format!("{session}/cells"), cell);
        answers.push(
            cell.header("idempotency-key", code.len().to_string())
                .json_with(200)
                .await,
        );
    }
    let command = json!({"command": "env"});
    answers.push(
        hostile
            .post(&format!("{session}/commands"), command)
            .json_with(200)
            .await,
    );
    answers.push(
        hostile
            .get(&format!("{session}/manifest"))
            .json_with(200)
            .await,
    );
    let snapshot = hostile.get(&format!("{session}/snapshot")).with(200).await;
    let snapshot = snapshot.bytes().await.unwrap();
    // The name of a file is the program's; no contents are.
    let has = |bytes: &[u8]| {
        bytes
            .windows(SECRET.len())
            .filter(|window| *window == SECRET.as_bytes())
            .count()
    };
    assert!(has(&snapshot) <= 1, "{}", has(&snapshot));
    hostile.run(&session, "os.remove(t)").await;
    answers.push(
        hostile
            .post(&format!("{session}/hibernate"), json!({}))
            .json_with(200)
            .await,
    );
    answers.push(hostile.get(&session).json_with(200).await);
    for answer in &answers {
        assert!(!answer.to_string().contains(SECRET), "{answer:#}");
    }
    assert_eq!(
        files_with(case.world.data.path(), SECRET),
        Vec::<std::path::PathBuf>::new()
    );
    hostile.delete(&session).with(204).await;
    case.end().await;
}

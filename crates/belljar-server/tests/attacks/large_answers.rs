//! Answers that a program in a session can make long, and what is kept of them.

use serde_json::{Value, json};

use crate::harness::{Case, Severity};
use crate::support::Ask as _;

/// What a snapshot left out is listed within bounds, and an answer that is too large to be kept for a repeated request
/// is not: the repeat is told so, and has no effect.
#[tokio::test(flavor = "multi_thread")]
async fn n16_what_was_left_out_is_bounded_and_not_kept() {
    let case = Case::begin(
        "N16",
        Severity::HostDos,
        "20,000 links and 2,000 names that a snapshot leaves out, with an `Idempotency-Key`",
        "1,000 of each are listed; the response is not kept, and the repetition is refused, with no effect",
    )
    .await;
    let client = case.hostile().await;
    let session = client.session().await;
    let code = "import os\nfor n in range(20_000): os.symlink('x', f'{n:0120}')\n\
                globals().update({f'{n:0150}': (i for i in ()) for n in range(2000)})";
    let outcome = client.run(&session, code).await;
    assert_eq!(outcome["status"], "success", "{outcome:#}");
    let hibernate = || {
        let request = client.post(&format!("{session}/hibernate"), json!({}));
        request.header("idempotency-key", "sleep")
    };
    let answer = hibernate().with(200).await.text().await.unwrap();
    assert!(answer.len() < 1 << 20, "{}", answer.len());
    let left_out: Value = serde_json::from_str(&answer).unwrap();
    for (kind, more) in [("names", "1000 more names"), ("files", "19000 more files")] {
        let listed = left_out[kind].as_array().unwrap();
        assert_eq!(listed.len(), 1001, "{kind}");
        let last = listed.last().unwrap();
        assert_eq!(last["name"], "");
        assert_eq!(last["why"], format!("{more} were not saved"));
    }
    client
        .post(&format!("{session}/wake"), json!({}))
        .with(204)
        .await;
    hibernate().problem(410, "answer_gone").await;
    let shown = client.get(&session).json_with(200).await;
    assert_eq!(shown["state"], "awake");
    case.end().await;
}

/// So are files that are listed: by their number, and by the length of their paths.
#[tokio::test(flavor = "multi_thread")]
async fn n17_lists_of_files_are_bounded_by_bytes() {
    let case = Case::begin(
        "N17",
        Severity::HostDos,
        "2,000 files with paths of 2,600 bytes, listed",
        "1 MiB of paths at most, `truncated`",
    )
    .await;
    let client = case.hostile().await;
    let session = client.session().await;
    // Paths of about 2,600 bytes.
    let code = "import os\ndeep = '/'.join(10 * ['d' * 250])\nos.makedirs(deep)\n\
                for n in range(2000): open(f'{deep}/{n:090}', 'w').close()";
    let outcome = client.run(&session, code).await;
    assert_eq!(outcome["status"], "success", "{outcome:#}");
    let answer = client.get(&format!("{session}/files")).with(200).await;
    let answer = answer.text().await.unwrap();
    assert!(answer.len() < 2 << 20, "{}", answer.len());
    let list: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(list["truncated"], true);
    assert!(list["files"].as_array().unwrap().len() > 300);
    case.end().await;
}

//! J: the template.

use crate::harness::{Case, Severity};

#[tokio::test(flavor = "multi_thread")]
async fn j2_hashes() {
    let case = Case::begin(
        "J2",
        Severity::Lateral,
        "compare hash('a') across sessions",
        "accepted: the same in all sessions of one engine, since they are forks of one template",
    )
    .await;
    let (one, other) = (case.session().await, case.session().await);
    let hash = case.printed(&one, "print(hash('a'))").await;
    assert_eq!(hash, case.printed(&other, "print(hash('a'))").await);
    case.end([one, other]).await;
}

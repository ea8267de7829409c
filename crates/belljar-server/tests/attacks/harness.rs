//! One case: a service, a tenant that must not notice, and the oracle at its end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use belljar_server::{Scope, ServerOptions};
use serde_json::json;

use crate::record::Record;
pub(crate) use crate::record::Severity;
use crate::support::{Ask as _, Client, World, until_free, world_with};

/// How long the peer may wait for an answer, also while the attack goes on.
const PATIENCE: Duration = Duration::from_secs(20);

/// Panics of any thread of this process, which is also the service's.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// One case. It must end with [`Case::end`], which asks the oracle.
pub(crate) struct Case {
    record: Record,
    /// The service. Taken at the end.
    pub(crate) world: World,
    /// Another tenant, who must not notice.
    pub(crate) peer: Client,
    /// The path of its session.
    pub(crate) peer_session: String,
    /// In the peer's session: the variable `kept`, and the file `kept.txt`.
    canary: String,
    oracle: MustEnd,
}

impl Case {
    /// Starts a case on a service with the usual options. `attack` and `expectation` stand in the table of
    /// results: a few words, or a piece of code.
    pub(crate) async fn begin(
        id: &'static str,
        severity: Severity,
        attack: &'static str,
        expectation: &'static str,
    ) -> Self {
        Self::begin_with(ServerOptions::default(), id, severity, attack, expectation).await
    }

    /// Starts a case on a service with other options.
    pub(crate) async fn begin_with(
        options: ServerOptions,
        id: &'static str,
        severity: Severity,
        attack: &'static str,
        expectation: &'static str,
    ) -> Self {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANICS.fetch_add(1, Ordering::Relaxed);
            usual(panic);
        }));
        let world = world_with(options).await;
        let peer = world.client("peer").await;
        let peer_session = peer.session().await;
        let mut bytes = [0; 8];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
        let canary = format!("CANARY-{:016x}", u64::from_ne_bytes(bytes));
        let keep = format!("kept = '{canary}'; open('kept.txt', 'w').write(kept); print(1)");
        assert_eq!(peer.printed(&peer_session, &keep).await, "1\n");
        Self {
            record: Record {
                id,
                severity,
                attack,
                expectation,
            },
            world,
            peer,
            peer_session,
            canary,
            oracle: MustEnd(id),
        }
    }

    /// A client of the tenant that attacks, with a key for sessions.
    pub(crate) async fn hostile(&self) -> Client {
        self.world.client("hostile").await
    }

    /// A client of the tenant that attacks, with a key for all that tenants may have.
    #[allow(dead_code, reason = "for cases about runs")]
    pub(crate) async fn hostile_with(&self, scopes: &[Scope]) -> Client {
        self.world.client_with("hostile", scopes).await
    }

    /// Nothing of the peer stands in what the hostile client was given.
    pub(crate) fn search(&self, what: &str, text: &str) {
        let secret = self.peer.key.text.rsplit('_').next().unwrap();
        let id = self.peer_session.rsplit('/').next().unwrap();
        let number = self.canary.trim_start_matches("CANARY-");
        for (name, found) in [
            ("key", secret),
            ("session id", id),
            ("variable or file", number),
        ] {
            assert!(
                !text.contains(found),
                "oracle: the peer's {name} stands in {what}"
            );
        }
    }

    /// The service answers, and the peer has what it had.
    pub(crate) async fn check_peer(&self) {
        let check = async {
            let health = format!("http://{}/healthz", self.world.admin);
            let health = reqwest::get(health).await.expect("oracle: no answer");
            assert_eq!(health.status(), 200, "oracle: the service is not healthy");
            let code = "print(6 * 7, kept, open('kept.txt').read())";
            let printed = self.peer.printed(&self.peer_session, code).await;
            let canary = &self.canary;
            let expected = format!("42 {canary} {canary}\n");
            assert_eq!(printed, expected, "oracle: the peer's session changed");
        };
        tokio::time::timeout(PATIENCE, check)
            .await
            .expect("oracle: the peer waits");
    }

    /// Asks the oracle, and writes the record.
    pub(crate) async fn end(self) {
        self.check_peer().await;
        let another = self.peer.post("/v1/sessions", json!({}));
        let another = tokio::time::timeout(PATIENCE, another.json_with(201)).await;
        let another = another.expect("oracle: the peer can't start a session");
        let path = format!("/v1/sessions/{}", another["id"].as_str().unwrap());
        assert_eq!(self.peer.printed(&path, "print(1)").await, "1\n");
        for kind in ["requests", "cells", "streams", "transfers"] {
            until_free(&self.world, kind).await;
        }
        let metrics = self.world.metrics().await;
        let faults = "belljar_http_problems_total{code=\"internal\"} 0\n";
        assert!(
            metrics.contains(faults),
            "oracle: a request ended in a fault of ours:\n{metrics}"
        );
        self.world.ends().await;
        let panics = PANICS.load(Ordering::Relaxed);
        assert_eq!(panics, 0, "oracle: something panicked");
        std::mem::forget(self.oracle);
        self.record
            .write("not asked", rustix::process::geteuid().is_root());
    }
}

/// Fails a case that did not ask the oracle.
struct MustEnd(&'static str);

impl Drop for MustEnd {
    fn drop(&mut self) {
        assert!(
            std::thread::panicking(),
            "{} did not ask the oracle: call end",
            self.0
        );
    }
}

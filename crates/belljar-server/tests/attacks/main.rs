//! Section N of the attack suite: hostile clients against a real service, with real sessions in the
//! environment `bare`, and an oracle that is asked after each case.
//!
//! To add a case:
//!
//! 1. Take a number that no other case has (`N40`, a variant is `N40a`) and write a test in the module of
//!    its topic, named `n40_what_happens`, or `heavy_n40_…` if it fills the machine or measures time:
//!    `#[tokio::test(flavor = "multi_thread")]`. A new topic is a new module: name it below.
//! 2. `let case = Case::begin("N40", Severity::PeerDos, "the attack", "what must happen").await;`, or
//!    `Case::begin_with(options(|options| options.tenant_cells = 2), "N40", …)` for a service with other
//!    options.
//! 3. `let hostile = case.hostile().await;` is a client with a key of the tenant `hostile`; `case.world` is the
//!    service (`case.world.raw` sends bytes as they are), `case.peer` another tenant with the session
//!    `case.peer_session`. Ask with `hostile.get(…)`, `hostile.post(…)` and assert on what exactly comes
//!    back: `.problem(429, "too_many_streams")`, `.json_with(200)`.
//! 4. Where the attack is after something of the peer: `case.search("what it is", &text)` with all that
//!    the hostile client was given. The peer's key, session id, variable and file may not be in it.
//! 5. Where the peer must not notice during the attack: `case.check_peer().await` in the midst of it.
//! 6. Drop streams and connections of the hostile client, then `case.end().await` asks the oracle:
//!    `/healthz` answers, the peer's session computes and has its variable and file, the peer can start another
//!    one, no request ended in a fault (`internal` in `/metrics` is 0), nothing in this process panicked, and
//!    no place for a request, cell, stream or transfer is still taken.
//! 7. Break the protection or turn the expectation round once, and see it fail.
//! 8. `.ci/security-tests` writes the table in docs/security-tests.md anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod admins;
mod approvals;
mod floods;
mod harness;
mod isolation;
mod large_answers;
mod mcp;
#[path = "../it/mcp_client.rs"]
#[allow(dead_code, reason = "the tests in `it` use more of it")]
mod mcp_client;
mod mcp_messages;
mod memory;
#[path = "../it/port_client.rs"]
#[allow(dead_code, reason = "the tests in `it` use more of it")]
mod port_client;
mod ports;
#[path = "../../../belljar-journal/tests/postgres/mod.rs"]
mod postgres;
#[path = "../../../belljar-sandbox/tests/attacks/record.rs"]
mod record;
mod secrets;
mod small;
mod smuggling;
#[path = "../it/spread.rs"]
#[allow(dead_code, reason = "the tests in `it` use more of it")]
mod spread;
mod stores;
#[path = "../it/support.rs"]
#[allow(dead_code, reason = "the tests in `it` use more of it")]
mod support;
mod tenants;
#[path = "../../../belljar-journal/tests/weed/mod.rs"]
mod weed;

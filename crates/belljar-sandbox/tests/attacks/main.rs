//! The attack suite: hostile code against real walls, and an oracle that is asked after each case.
//!
//! To add a case:
//!
//! 1. Take its number from the catalogue (a variant is `A4a`, `A4b`; no two cases share one), and
//!    write a test in the section's module, named `a4a_what_happens`, or `heavy_a4a_…` if it fills
//!    the machine or watches the sibling: `#[tokio::test(flavor = "multi_thread")]`.
//! 2. `let case = Case::begin("A4a", Severity::PeerDos, "the attack", "what must happen").await;`
//! 3. Where the walls deny something, show first that it works without them:
//!    `let control = case.control(CODE).await; assert_eq!(control.stdout, "0 0\n", "{control:?}");`
//! 4. `let session = case.session().await;` then `case.printed`, `case.fails`, `case.outcome` or
//!    `case.run` with the session and the code; assert on what exactly comes back.
//! 5. Where others must not notice: `let watch = case.watch_sibling();` before, and
//!    `watch.finish().await;` after the attack.
//! 6. `case.end([session]).await;` asks the oracle: the host answers, the sibling has what it had,
//!    nothing is left of the victim, nothing is left at all, no canary was seen.
//! 7. Break the protection or turn the expectation round once, and see it fail.
//! 8. `.ci/security-tests` writes the table in docs/security-tests.md anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod a_files;
mod a_memory;
mod a_puts;
mod a_resources;
mod b_clocks;
mod b_time;
mod c_crashes;
mod c_hostile;
#[path = "../support/clock.rs"]
mod clock;
mod control;
mod d_channel;
mod d_driver;
mod d_frames;
mod e_output;
mod f_files;
mod f_host;
mod f_races;
mod f_shared;
mod f_trees;
mod g_hosts;
mod g_kernel;
mod g_sockets;
mod h_namespace_groups;
mod h_processes;
mod harness;
mod i_names;
mod i_network;
mod j_template;
mod l_input;
mod l_tools;
mod l_wheels;
mod o_commands;
mod oracle;
mod p_secrets;
mod q_mounts;
mod r_namespaces;
mod record;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/wheels.rs"]
mod wheels;
#[path = "../network/world.rs"]
#[allow(dead_code, reason = "the tests of the proxy use the rest")]
mod world;

//! The host's clock is set, by hand or by a time server, while the service works.

use belljar_server::{Quota, ServerOptions};
use serde_json::json;

use crate::quotas::{refused, world_of};
use crate::set_clock::{Set, with_clock};
use crate::support::Ask as _;

/// Keys hold, sessions live, an answer is kept for a request that comes again, and a day that the clock comes
/// back to has what was used on it.
#[test]
fn nothing_is_lost_or_given_twice_when_the_clock_is_set() {
    let test = "clock::nothing_is_lost_or_given_twice_when_the_clock_is_set";
    with_clock(test, Set::Wall, async |clock| {
        let quotas = [(Quota::OutputBytes, 100)];
        let world = world_of(&quotas, ServerOptions::default()).await;
        let client = world.client("a").await;
        let session = client.session().await;
        client.run(&session, "n = 0").await;
        let path = format!("{session}/cells");
        let once = || {
            let request = client.post(&path, json!({"code": "n += 1; print(n)"}));
            request.header("idempotency-key", "once")
        };
        let first = once().json_with(200).await;
        for offset in ["+2d", "-20y", "+10y", "+0"] {
            clock.set(offset);
            assert_eq!(once().json_with(200).await, first, "{offset}");
        }
        assert_eq!(client.printed(&session, "print(n)").await, "1\n");
        let cell = || client.post(&path, json!({"code": "print('x' * 200)"}));
        cell().json_with(200).await;
        refused(cell(), "output_bytes").await;
        // Another day has a quota of its own.
        clock.set("+1d");
        cell().json_with(200).await;
        refused(cell(), "output_bytes").await;
        for offset in ["+0", "+1d", "+0"] {
            clock.set(offset);
            refused(cell(), "output_bytes").await;
        }
        world.ends().await;
    });
}

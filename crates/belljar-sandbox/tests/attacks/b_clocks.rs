//! B15 to B19: the host's clock is set, by hand or by a time server, while sessions work.
//!
//! It is set for the host's process and nowhere else.

use std::time::{Duration, Instant, SystemTime};

use belljar_sandbox::protocol::{Cause, Fate, Status};
use belljar_sandbox::{Limits, Packages, SessionOptions};
use serde_json::json;

use crate::clock::{Set, with_clock};
use crate::harness::{Case, Severity, environment_canary};
use crate::support::{bare_environment, eventually, good, printed, seconds, template, timed};
use crate::wheels::{Shop, install};

/// The kernel's time, by which it dates files.
fn kernel_seconds() -> u64 {
    let file = tempfile::tempfile().unwrap();
    let modified = file.metadata().unwrap().modified().unwrap();
    let since = modified.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// How far the clock is from where it was, in years.
fn years_since(before: SystemTime) -> f64 {
    let apart = SystemTime::now().duration_since(before);
    let seconds = apart.map_or_else(|back| -back.duration().as_secs_f64(), |on| on.as_secs_f64());
    seconds / (365.0 * 24.0 * 3600.0)
}

const JUMPS: [(&str, f64); 4] = [("+10y", 10.0), ("-20y", -20.0), ("+1d", 0.0), ("+0", 0.0)];

#[test]
fn waits_b15_cells() {
    environment_canary();
    with_clock("b_clocks::waits_b15_cells", Set::Wall, async |clock| {
        let case = Case::begin(
            "B15",
            Severity::SelfDos,
            "the host's clock is set ten years on, twenty back, a day on, and right, while cells run",
            "no cell ends early, none ends late, and each keeps its variables: limits are kept by a clock that nobody sets",
        )
        .await;
        let session = case
            .session_with(Limits {
                grace: seconds(3.0),
                ..Limits::default()
            })
            .await;
        case.printed(&session, "kept = 1").await;
        let before = SystemTime::now();
        for (offset, years) in JUMPS {
            let code = "import time; time.sleep(1); print('whole')";
            let run = session.run(timed(code, seconds(20.0)));
            tokio::time::sleep(seconds(0.3)).await;
            clock.set(offset);
            let outcome = run.await.unwrap();
            assert_eq!(outcome.stdout.text, "whole\n", "{offset}: {outcome:?}");
            assert!((years_since(before) - years).abs() < 0.1, "{offset}");
            assert!(outcome.durations.total_us >= 1_000_000, "{outcome:?}");
            assert!(outcome.durations.total_us < 15_000_000, "{outcome:?}");
        }
        for (offset, _) in JUMPS {
            let run = session.run(timed("while True: pass", seconds(1.0)));
            tokio::time::sleep(seconds(0.3)).await;
            clock.set(offset);
            let outcome = run.await.unwrap();
            let limit_ms = 1000;
            assert_eq!(outcome.cause, Cause::WallTime { limit_ms }, "{outcome:?}");
            assert_eq!(outcome.state, Fate::Kept, "{offset}: {outcome:?}");
            assert!(outcome.durations.total_us >= 1_000_000, "{outcome:?}");
            assert!(outcome.durations.total_us < 10_000_000, "{outcome:?}");
        }
        assert_eq!(case.printed(&session, "print(kept)").await, "1\n");
        case.end([session]).await;
    });
}

#[test]
fn b16_hibernation() {
    environment_canary();
    with_clock("b_clocks::b16_hibernation", Set::Wall, async |clock| {
        let case = Case::begin(
            "B16",
            Severity::SelfDos,
            "the host's clock is set ten years on and twenty back while sessions are idle",
            "one that may be idle for an hour stays awake; one that sleeps after half a second falls asleep, and wakes with what it had",
        )
        .await;
        let idle = |after| SessionOptions {
            hibernate_after: Some(after),
            ..SessionOptions::from(Limits::default())
        };
        let engine = case.engine();
        let patient = engine.session_with(idle(seconds(3600.0))).await.unwrap();
        good(&patient, "kept = 1").await;
        for (offset, _) in JUMPS {
            let hibernated = engine.session_with(idle(seconds(0.5))).await.unwrap();
            good(&hibernated, "kept = 2").await;
            clock.set(offset);
            eventually("the sleep", || hibernated.is_hibernated()).await;
            assert!(!patient.is_hibernated(), "{offset}");
            assert_eq!(printed(&hibernated, "print(kept)").await, "2\n");
        }
        assert_eq!(printed(&patient, "print(kept)").await, "1\n");
        patient.close().await.unwrap();
        case.end([]).await;
    });
}

#[test]
fn b17_starts_and_checkpoints() {
    environment_canary();
    with_clock(
        "b_clocks::b17_starts_and_checkpoints",
        Set::Wall,
        async |clock| {
            let case = Case::begin(
            "B17",
            Severity::PeerDos,
            "the host's clock is set between each two of: start, cell, checkpoint, crash, restore, fork, hibernation, wake, end",
            "each works; the template stays; no session is lost; what a session sees is the kernel's time, not the host's",
        )
        .await;
            let warm = template().unwrap();
            let engine = case.engine();
            for (offset, _) in JUMPS {
                clock.set(offset);
                let session = case.session().await;
                clock.set("-1y");
                case.printed(&session, "import time; kept = 3").await;
                let seen = case.printed(&session, "print(int(time.time()))").await;
                let seen: u64 = seen.trim().parse().unwrap();
                assert!(kernel_seconds().abs_diff(seen) < 60, "{seen}");
                session.checkpoint("before").await.unwrap();
                clock.set(offset);
                case.printed(&session, "kept = 4").await;
                session.restore("before").await.unwrap();
                clock.set("+1y");
                let fork = session.fork(1).await.unwrap().remove(0);
                assert_eq!(case.printed(&fork, "print(kept)").await, "3\n");
                fork.close().await.unwrap();
                clock.set(offset);
                assert_eq!(case.printed(&session, "print(kept)").await, "3\n");
                session.close().await.unwrap();
                let hibernated = engine.session().await.unwrap();
                good(&hibernated, "kept = 5").await;
                hibernated.hibernate().await.unwrap();
                clock.set("-30d");
                assert_eq!(printed(&hibernated, "print(kept)").await, "5\n");
                hibernated.close().await.unwrap();
            }
            assert_eq!(template(), Some(warm), "the template was replaced");
            case.end([]).await;
        },
    );
}

#[test]
fn b18_packages() {
    environment_canary();
    with_clock("b_clocks::b18_packages", Set::Wall, async |clock| {
        let shop = Shop::new();
        shop.wheel("timely", json!({"files": {"timely.py": "x = 1\n"}}));
        let case = Case::begin_on(
            shop.builder(bare_environment(), Packages::Any),
            "B18",
            Severity::SelfDos,
            "the host's clock is set back and on after a package was installed, and its index is gone",
            "the layer that is there is given, whatever its date; work that another install has begun is not swept away",
        )
        .await;
        let options = || SessionOptions {
            packages: Packages::Any,
            ..crate::support::without_checkpoints(Limits::default())
        };
        let session = case.session_of(options()).await;
        assert_eq!(install(&session, "timely").await.unwrap(), ["timely==1.0"]);
        std::fs::rename(shop.path("wheels"), shop.path("gone")).unwrap();
        let mut sessions = vec![session];
        for offset in ["-1y", "+12h", "+1y", "+0"] {
            clock.set(offset);
            let session = case.session_of(options()).await;
            let installed = install(&session, "timely").await;
            assert_eq!(installed.unwrap(), ["timely==1.0"], "{offset}");
            assert_eq!(
                case.printed(&session, "import timely; print(timely.x)")
                    .await,
                "1\n"
            );
            sessions.push(session);
        }
        // Two days on, the work of another looks old.
        let work = shop.path("data/packages/staging/begun");
        let left = shop.path("data/packages/staging/left");
        for path in [&work, &left] {
            std::fs::create_dir(path).unwrap();
        }
        let lock = std::fs::File::open(&work).unwrap();
        lock.lock().unwrap();
        clock.set("+2d");
        let other = shop.engine();
        other.session().await.unwrap().close().await.unwrap();
        other.shutdown().await;
        assert!(work.is_dir() && !left.exists());
        drop(lock);
        std::fs::remove_dir(work).unwrap();
        case.end(sessions).await;
    });
}

#[test]
fn b19_a_machine_that_was_paused() {
    environment_canary();
    with_clock(
        "b_clocks::b19_a_machine_that_was_paused",
        Set::Both,
        async |clock| {
            let case = Case::begin(
            "B19",
            Severity::PeerDos,
            "all of the host's clocks are an hour on at once, as after a pause of the machine, with a cell that runs and sessions that are idle",
            "the cell's time is over and it says so; no session is lost, no template or spawner taken for dead; the next cell and session are as ever",
        )
        .await;
            let warm = template().unwrap();
            let (session, idle) = (case.session().await, case.session().await);
            case.printed(&session, "kept = 1").await;
            case.printed(&idle, "kept = 2").await;
            for hours in 1..=3 {
                let before = Instant::now();
                let run = session.run(timed("while True: pass", seconds(60.0)));
                tokio::time::sleep(seconds(0.3)).await;
                clock.set(&format!("+{hours}h"));
                let outcome = run.await.unwrap();
                assert!(
                    before.elapsed() > Duration::from_mins(50),
                    "the clock was not set"
                );
                assert_eq!(
                    (outcome.status, outcome.state),
                    (Status::Timeout, Fate::Kept),
                    "{outcome:?}"
                );
                assert_eq!(case.printed(&session, "print(kept)").await, "1\n");
                assert_eq!(case.printed(&idle, "print(kept)").await, "2\n");
                let new = case.engine().session().await.unwrap();
                assert_eq!(printed(&new, "print(3)").await, "3\n");
                new.close().await.unwrap();
            }
            assert_eq!(template(), Some(warm), "the template was replaced");
            case.end([session, idle]).await;
        },
    );
}

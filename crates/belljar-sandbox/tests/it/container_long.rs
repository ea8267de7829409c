//! What is left after kills (N4), and after many sessions, on one tier. `.ci/containers kills` and `.ci/containers soak`
//! run them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belljar_sandbox::Error;
use belljar_sandbox::protocol::Fate;

use rustix::process::{Pid, Signal};

use crate::container_hostile::{check_lives, until_gone};
use crate::support::containers::{containers, docker, is_gvisor, is_in_containers};
use crate::support::{descriptors, engine, eventually, mounts, resident, seconds, traces};

/// The host program that [`container_kills`] kills, or whose container it kills: cells until the session ends.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a part of container_kills"]
async fn container_kills_host() {
    let engine = engine();
    let Ok(session) = engine.session().await else {
        return engine.shutdown().await;
    };
    loop {
        let file = session.put("file", &vec![7; 100_000]);
        match session.run("import time; time.sleep(0.02)").await {
            Ok(outcome) if outcome.is_success() && file.is_ok() => {}
            Ok(outcome) if outcome.is_success() => {}
            Ok(outcome) => {
                assert_eq!(outcome.state, Fate::Lost, "{outcome:?}");
                break;
            }
            Err(error) => {
                assert!(matches!(error, Error::Ended(_)), "{error}");
                break;
            }
        }
    }
    engine.shutdown().await;
}

/// A number below `most`.
fn random(most: u64) -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).unwrap();
    u64::from_le_bytes(bytes) % most
}

/// The processes of gVisor's sandboxes that engines of this process have, each with its command line.
fn sandboxes(host: u32) -> Vec<(Pid, String)> {
    let ours = format!("/belljar-{host}-");
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter_map(|entry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let command = std::fs::read_to_string(entry.path().join("cmdline")).ok()?;
        (command.contains("runsc") && command.contains(&ours)).then_some((pid, command))
    })
    .collect()
}

/// Kills the container or gVisor's kernel, or else the steward or the process that has the kernel's files. Whether there
/// was such a thing already.
fn kill_part(host: u32, part: usize) -> bool {
    let kill = |pid| rustix::process::kill_process(pid, Signal::KILL).is_ok();
    if is_gvisor() {
        let name = ["runsc-sandbox", "runsc-gofer"][part];
        let found = sandboxes(host).into_iter();
        return found
            .filter(|(_, command)| command.starts_with(name))
            .any(|(pid, _)| kill(pid));
    }
    let Some((container, _)) = containers(host).pop() else {
        return false;
    };
    if part == 0 {
        docker(&["kill", &container]);
        return true;
    }
    let steward = docker(&["inspect", "--format", "{{.State.Pid}}", &container]);
    let steward = steward.trim().parse().ok().and_then(Pid::from_raw);
    steward.is_some_and(kill)
}

/// Until nothing runs of the sessions of this process.
async fn until_ended(host: u32) {
    if is_gvisor() {
        eventually("the end of gVisor's sandboxes", || {
            sandboxes(host).is_empty()
        })
        .await;
    } else {
        until_gone(host).await;
    }
}

/// N4: containers, stewards and host programs are killed at random moments. Nothing is left of any, and a host program
/// whose container is gone ends by itself.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and needs a container engine"]
async fn container_kills() {
    let rounds = std::env::var("BELLJAR_TEST_ROUNDS").map_or(100, |rounds| rounds.parse().unwrap());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    let (mut early, mut never_started, mut pids) = (0, 0, Vec::new());
    // Looks at the image: a host program whose look is killed has no session to speak of.
    engine().shutdown().await;
    for round in 0..rounds {
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "container_long::container_kills_host",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = host.id();
        tokio::time::sleep(Duration::from_millis(random(3000))).await;
        let begun = Instant::now();
        let victim = round % 3;
        if victim == 2 {
            host.kill().unwrap();
        } else if !kill_part(pid, victim) {
            early += 1;
            host.kill().unwrap();
        }
        // It ends with its session, whatever was killed.
        let status = loop {
            if let Some(status) = host.try_wait().unwrap() {
                break status;
            }
            assert!(
                begun.elapsed() < seconds(60.0),
                "round {round}: the host program did not end"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        assert_ne!(
            status.code(),
            Some(101),
            "round {round}: the host program panicked"
        );
        until_ended(pid).await;
        times[victim].push(begun.elapsed());
        if is_in_containers() {
            never_started += containers(pid).len();
        }
        pids.push(pid);
    }
    // What was made and never started is removed by the next engine.
    check_lives(&engine().session().await.unwrap()).await;
    let is_clean = |pid: &u32| {
        let left = traces(*pid);
        left.containers.is_empty() && left.cgroups.is_empty() && left.directories.is_empty()
    };
    eventually("the removal of what was left", || pids.iter().all(is_clean)).await;
    let names = if is_gvisor() {
        ["gVisor's kernel", "gVisor's files", "host"]
    } else {
        ["container", "steward", "host"]
    };
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort();
        let (middle, last) = (times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{name}: {} kills, nothing left after {middle:.1?} (median), {last:.1?} (most)",
            times.len()
        );
    }
    println!("{early} before there was one, {never_started} between its making and its start");
}

/// Many sessions one after the other: nothing grows.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes, and needs a container engine"]
async fn container_soak() {
    let rounds: usize =
        std::env::var("BELLJAR_TEST_ROUNDS").map_or(500, |rounds| rounds.parse().unwrap());
    let engine = engine();
    let look = || {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let shims = processes
            .filter(|entry| {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let ours = [b"containerd-shim".as_slice(), b"runsc-sandbox", b"conmon"];
                ours.iter()
                    .any(|name| command.windows(name.len()).any(|part| part == *name))
            })
            .count();
        (descriptors(), threads, shims, mounts(), resident())
    };
    let mut before = None;
    for round in 0..rounds {
        let session = engine.session().await.unwrap();
        check_lives(&session).await;
        session.close().await.unwrap();
        if round == 20 {
            until_ended(std::process::id()).await;
            tokio::time::sleep(seconds(2.0)).await;
            before = Some((look(), traces(std::process::id())));
        }
    }
    until_ended(std::process::id()).await;
    tokio::time::sleep(seconds(2.0)).await;
    let (before, traces_before) = before.unwrap();
    let after = look();
    println!(
        "descriptors, threads, containers' processes, mounts, kB of memory: {before:?} after 20 sessions, {after:?} after {rounds}"
    );
    assert!(
        after.0 <= before.0 && after.1 <= before.1,
        "descriptors and threads"
    );
    assert!(after.2 <= before.2, "processes of containers");
    assert!(after.3 <= before.3, "mounts");
    assert!(after.4 < before.4 + (8 << 10), "memory");
    assert_eq!(traces(std::process::id()), traces_before);
    engine.shutdown().await;
}

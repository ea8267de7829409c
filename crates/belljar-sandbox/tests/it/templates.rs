//! J2, J3: which sessions share a hash seed and a memory layout, and how not to.

use std::time::{Duration, Instant};

use belljar_sandbox::{Backend, Engine, Environment, Error, Rotation, Session, SessionOptions};

use crate::support::{
    bare_environment, builder, engine, eventually, good, plain_builder, printed, template, traces,
};

/// What two forks of one template have in common.
async fn layout(session: &Session) -> String {
    printed(
        session,
        "print(hash('a'), [l.split()[0] for l in open('/proc/self/maps') if 'libc' in l][0])",
    )
    .await
}

fn of_tenant(name: &str) -> SessionOptions {
    SessionOptions {
        tenant: Some(name.to_owned()),
        ..SessionOptions::default()
    }
}

/// Sessions of one tenant share a template; those of two never do, nor with those of none.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_templates_of_their_own() {
    let engine = engine();
    let mut seen = Vec::new();
    for options in [
        SessionOptions::default(),
        of_tenant("a"),
        of_tenant("b"),
        of_tenant("a"),
    ] {
        seen.push(layout(&engine.session_with(options).await.unwrap()).await);
    }
    assert_eq!(seen[1], seen[3]);
    seen.pop();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3, "{seen:?}");
}

/// Starting the sessions of a tenant is charged to its share of the CPUs, its template's forks too.
#[tokio::test(flavor = "multi_thread")]
async fn a_template_works_on_its_tenants_share() {
    let engine = engine();
    let _sessions = (
        engine.session_with(of_tenant("a")).await.unwrap(),
        engine.session_with(of_tenant("b")).await.unwrap(),
    );
    let trees = traces(std::process::id()).cgroups;
    let groups = trees.iter().flat_map(|tree| tree.read_dir().unwrap());
    let templates = groups.map(|group| group.unwrap().path().join("template/cgroup.procs"));
    let templates: Vec<_> = templates.filter(|path| path.exists()).collect();
    assert_eq!(templates.len(), 2, "{templates:?}");
    let members = |path| std::fs::read_to_string(path).unwrap().lines().count();
    // A fork is there only until it has joined those of its session.
    eventually("the template alone is there", || {
        templates.iter().all(|path| members(path) == 1)
    })
    .await;
}

/// A worn template is replaced; the sessions that came from it live on, and how they end is known.
#[tokio::test(flavor = "multi_thread")]
async fn templates_are_replaced_by_count_and_by_age() {
    for rotation in [
        Rotation {
            sessions: Some(2),
            age: None,
        },
        Rotation {
            sessions: None,
            age: Some(Duration::from_millis(50)),
        },
    ] {
        let engine = plain_builder(bare_environment()).rotation(rotation).build();
        let first = engine.session().await.unwrap();
        let before = layout(&first).await;
        good(&first, "x = 1").await;
        let mut changed = false;
        for _ in 0..100 {
            let session = engine.session().await.unwrap();
            changed = layout(&session).await != before;
            if changed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(changed, "{rotation:?}: the template was not replaced");
        assert_eq!(printed(&first, "print(x)").await, "1\n");
        let outcome = first.run("import os; os._exit(7)").await.unwrap();
        assert_eq!(outcome.exit_code, 7, "{outcome:?}");
    }
}

/// The `fresh` backend: an interpreter for each session, and nothing of it is left.
#[tokio::test(flavor = "multi_thread")]
async fn fresh_sessions_share_nothing() {
    let engine = builder(bare_environment()).backend(Backend::Fresh).build();
    let (one, two) = (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    );
    assert_ne!(layout(&one).await, layout(&two).await);
    // Keeper, spawner, and an init and an interpreter for each session.
    eventually("the end of both templates", || {
        crate::support::processes_below(std::process::id()).len() == 6
    })
    .await;
    let outcome = one.run("import os; os._exit(3)").await.unwrap();
    assert_eq!(outcome.exit_code, 3, "{outcome:?}");
    assert_eq!(printed(&two, "print(1)").await, "1\n");
}

fn stop(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
}

fn is_there(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

fn process_named(name: &str) -> u32 {
    let below = crate::support::processes_below(std::process::id());
    let found = below
        .into_iter()
        .find(|pid| crate::support::name(*pid) == name);
    found.unwrap()
}

async fn starts(engine: &Engine, count: usize) -> Vec<(Session, Duration)> {
    let begun = Instant::now();
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..count {
        let engine = engine.clone();
        starts.spawn(async move {
            let session = engine.session().await.unwrap();
            assert_eq!(printed(&session, "print(6 * 7)").await, "42\n");
            (session, begun.elapsed())
        });
    }
    starts.join_all().await
}

/// A template that is stopped is ended and replaced; who asked for a session waits longer and gets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_template_is_replaced() {
    let engine = engine();
    let live = engine.session().await.unwrap();
    good(&live, "kept = 1").await;
    let stopped = template().unwrap();
    stop(stopped);
    let sessions = starts(&engine, 3).await;
    let slowest = sessions.iter().map(|(_, took)| *took).max().unwrap();
    println!("from SIGSTOP to the next good sessions: {slowest:?}");
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    assert!(!is_there(stopped));
    // And the one after that is as quick as any.
    let (_, took) = starts(&engine, 1).await.remove(0);
    assert!(took < Duration::from_secs(4), "{took:?}");
    // Sessions that came from it live on, and how they end is known.
    assert_eq!(printed(&live, "print(kept)").await, "1\n");
    let outcome = live.run("import os; os._exit(7)").await.unwrap();
    assert_eq!(outcome.exit_code, 7, "{outcome:?}");
}

/// It is missed though nobody asks for a session: how those end that came from it is learnt from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_template_is_missed_while_nobody_starts() {
    let engine = engine();
    let live = engine.session().await.unwrap();
    good(&live, "kept = 1").await;
    let stopped = template().unwrap();
    stop(stopped);
    let begun = Instant::now();
    while is_there(stopped) || template().is_none_or(|new| new == stopped) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it was not replaced"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("from SIGSTOP to the new template: {:?}", begun.elapsed());
    let outcome = live.run("import os; os._exit(7)").await.unwrap();
    assert_eq!(outcome.exit_code, 7, "{outcome:?}");
}

/// Behind a spawner that is stopped nothing starts: new walls are raised. What lives or sleeps behind the old
/// ones continues, and they end with the last of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_spawner_gets_new_walls() {
    let before = traces(std::process::id());
    let engine = engine();
    let (live, hibernated) = (
        engine.session().await.unwrap(),
        engine.session().await.unwrap(),
    );
    good(&live, "kept = 1").await;
    good(&hibernated, "kept = 2").await;
    hibernated.hibernate().await.unwrap();
    let stopped = process_named("belljar-spawner");
    stop(stopped);
    let sessions = starts(&engine, 3).await;
    let slowest = sessions.iter().map(|(_, took)| *took).max().unwrap();
    println!("from SIGSTOP of the spawner to the next good sessions: {slowest:?}");
    assert!(slowest < Duration::from_secs(30), "{slowest:?}");
    assert_eq!(printed(&live, "print(kept)").await, "1\n");
    assert_eq!(printed(&hibernated, "print(kept)").await, "2\n");
    let refused = live.fork(1).await.unwrap_err();
    assert!(
        matches!(refused, Error::Session(_) | Error::Fork(_)),
        "{refused}"
    );
    drop((live, hibernated));
    eventually("the end of the old walls", || !is_there(stopped)).await;
    drop(sessions);
    engine.shutdown().await;
    assert_eq!(traces(std::process::id()), before);
}

/// A keeper that is stopped is not waited for: it is ended, everything with it, and what it would have
/// removed is removed.
#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_keeper_does_not_hold_up_the_end() {
    let before = traces(std::process::id());
    let engine = engine();
    let session = engine.session().await.unwrap();
    good(&session, "kept = 1").await;
    stop(process_named("belljar-keeper"));
    assert_eq!(printed(&session, "print(kept)").await, "1\n");
    let begun = Instant::now();
    engine.shutdown().await;
    let took = begun.elapsed();
    println!("the end of a stopped keeper took {took:?}");
    assert!(took < Duration::from_secs(20), "{took:?}");
    drop((session, engine));
    eventually("the end of all processes", || {
        crate::support::processes_below(std::process::id()).is_empty()
    })
    .await;
    assert_eq!(traces(std::process::id()), before);
}

/// A Python whose packages read what sessions don't see, as those of distributions do: they start
/// without what can't be imported, and with the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_usual_module_that_fails_is_left_out() {
    let directory = tempfile::tempdir().unwrap();
    let venv = directory.path().join("venv");
    let made = std::process::Command::new(bare_environment().python())
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status();
    assert!(made.unwrap().success());
    let (major, minor, _) = bare_environment().version();
    let packages = venv.join(format!("lib/python{major}.{minor}/site-packages"));
    std::fs::write(packages.join("numpy.py"), "open('/etc/no-such-file')").unwrap();
    std::fs::write(
        packages.join("networkx.py"),
        "import time; when = time.time()",
    )
    .unwrap();
    let environment = Environment::from_python(&venv).unwrap();
    assert_eq!(environment.preload(), ["numpy", "networkx"]);
    let engine = builder(environment).build();
    let code = "import sys; print('numpy' in sys.modules, 'networkx' in sys.modules)";
    for _ in 0..2 {
        let session = engine.session().await.unwrap();
        assert_eq!(printed(&session, code).await, "False True\n");
    }
}

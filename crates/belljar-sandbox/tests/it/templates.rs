//! J2, J3: which sessions share a hash seed and a memory layout, and how not to.

use std::time::Duration;

use belljar_sandbox::{Backend, Engine, Rotation, Session, SessionOptions};

use crate::support::{bare_environment, builder, engine, eventually, good, printed, traces};

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

/// What it takes to start the sessions of a tenant is taken from its share of the processors, its template's forks too.
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
        let engine = Engine::builder(bare_environment())
            .rotation(rotation)
            .build();
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

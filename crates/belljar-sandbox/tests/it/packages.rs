//! Packages that a session gets while it lives.

use std::time::{Duration, Instant};

use belljar_sandbox::protocol::Language;
use belljar_sandbox::{Checkpoints, Error, PackageError, Packages, SessionOptions};
use serde_json::json;

use crate::support::{bare_environment, builder, data_environment, good, printed};
use crate::wheels::{Shop, install};

const ALL: &str = "import alpha_one, beta_two, gamma_three; print(alpha_one.name, beta_two.name)";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_installed_is_importable_in_the_next_cell() {
    let shop = Shop::with_three();
    let session = shop.session().await;
    let before = session.run("import alpha_one").await.unwrap();
    assert_eq!(before.exception.unwrap().type_name, "ModuleNotFoundError");
    good(&session, "x = 1").await;
    let installed = install(&session, "alpha-one, Gamma_Three>=1")
        .await
        .unwrap();
    assert_eq!(
        installed,
        ["alpha-one==1.0", "beta-two==1.0", "gamma-three==1.0"]
    );
    assert_eq!(printed(&session, ALL).await, "alpha_one beta_two\n");
    assert_eq!(printed(&session, "print(x)").await, "1\n");
    let version = "import importlib.metadata as m; print(m.version('alpha-one'))";
    assert_eq!(printed(&session, version).await, "1.0\n");
    // Neither another session nor the environment has it.
    let other = shop.session().await;
    let outcome = other.run("import alpha_one").await.unwrap();
    assert!(!outcome.is_success(), "{outcome:?}");
    // What is there already adds nothing.
    assert!(install(&session, "beta-two").await.unwrap().is_empty());
}

/// What is promised, where nothing else holds up the machine: the best of up to thirty rounds.
#[tokio::test(flavor = "multi_thread")]
async fn heavy_three_wheels_of_the_cache_are_ready_in_300_ms() {
    let shop = Shop::with_three();
    let engine = shop.engine();
    let first = engine.session().await.unwrap();
    install(&first, "alpha-one, gamma-three").await.unwrap();
    let mut best = [Duration::MAX; 2];
    let limits = [Duration::from_millis(100), Duration::from_millis(300)];
    let holds = |best: &[Duration; 2]| best.iter().zip(&limits).all(|(best, limit)| best < limit);
    for round in 0..30 {
        if holds(&best) {
            break;
        }
        // As it is asked for again, and as uv unpacks it again from its cache.
        for (list, best) in [
            "alpha-one, gamma-three",
            &format!("alpha-one, gamma-three!=9.{round}"),
        ]
        .into_iter()
        .zip(&mut best)
        {
            let session = engine.session().await.unwrap();
            good(&session, "1").await;
            let start = Instant::now();
            assert_eq!(install(&session, list).await.unwrap().len(), 3);
            good(&session, ALL).await;
            *best = start.elapsed().min(*best);
        }
    }
    assert_eq!(shop.layers(), 1, "the same contents are the same layer");
    assert!(holds(&best), "{best:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_environment_stays_as_it_is() {
    let shop = Shop::new();
    let same = json!({"files": {"user_of_numpy.py": "import numpy"}, "requires": ["numpy"]});
    shop.wheel("user_of_numpy", same);
    shop.wheel(
        "numpy",
        json!({"version": "99.0", "files": {"numpy/__init__.py": "evil = 1"}}),
    );
    let wants = json!({"files": {"wants_more.py": ""}, "requires": ["numpy>=99"]});
    shop.wheel("wants_more", wants);
    // A module of the environment in another package's wheel.
    shop.wheel(
        "shadow",
        json!({"files": {"shadow.py": "", "pandas/__init__.py": "evil = 1"}}),
    );
    let engine = shop.builder(data_environment(), Packages::Any).build();
    let session = engine.session().await.unwrap();
    let installed = install(&session, "user-of-numpy, shadow").await.unwrap();
    assert_eq!(installed, ["shadow==1.0", "user-of-numpy==1.0"]);
    for refused in ["wants-more", "numpy>=99"] {
        let error = install(&session, refused).await.unwrap_err().to_string();
        assert!(error.contains("numpy"), "{error}");
        assert!(error.contains("belljar env create"), "{error}");
    }
    let code = "import user_of_numpy, numpy, pandas; print(numpy.__version__ < '9', hasattr(pandas, 'evil'))";
    assert_eq!(printed(&session, code).await, "True False\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_decides_and_says_what_it_denied() {
    let shop = Shop::with_three();
    let engine = shop.builder(bare_environment(), Packages::Deny).build();
    let denied = |error: Error| match error {
        Error::Packages(PackageError::Denied(name)) => name,
        other => panic!("{other}"),
    };
    let session = engine.session().await.unwrap();
    let error = install(&session, "alpha-one").await.unwrap_err();
    assert_eq!(denied(error), "alpha-one");
    let options = SessionOptions {
        packages: Packages::allow(["Alpha_One"]),
        ..SessionOptions::default()
    };
    let session = engine.session_with(options.clone()).await.unwrap();
    let error = install(&session, "alpha-one, beta-two").await.unwrap_err();
    assert_eq!(denied(error), "beta-two");
    // What an allowed package depends on comes with it.
    let installed = install(&session, "alpha-one").await.unwrap();
    assert_eq!(installed, ["alpha-one==1.0", "beta-two==1.0"]);
    // An engine that shows none can't be made to.
    let engine = builder(bare_environment()).build();
    let session = engine.session_with(options).await.unwrap();
    let error = install(&session, "alpha-one").await.unwrap_err();
    assert!(
        matches!(error, Error::Packages(PackageError::Off)),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_forks_and_hibernated_sessions_keep_their_packages() {
    let shop = Shop::with_three();
    let engine = shop.engine();
    let options = SessionOptions {
        checkpoints: Checkpoints::Every,
        packages: Packages::Any,
        ..SessionOptions::default()
    };
    let session = engine.session_with(options.clone()).await.unwrap();
    good(&session, "x = 1").await;
    // The copy to go back to is from before.
    install(&session, "alpha-one, gamma-three").await.unwrap();
    let crash = session.run("import os; os.abort()").await.unwrap();
    assert!(!crash.is_success());
    good(&session, ALL).await;
    let fork = session.fork(1).await.unwrap().remove(0);
    good(&fork, ALL).await;
    assert!(install(&fork, "beta-two").await.unwrap().is_empty());
    fork.close().await.unwrap();
    good(&session, "from alpha_one import m1; class_of = m1.__name__").await;
    session.hibernate().await.unwrap();
    good(&session, ALL).await;

    let file = shop.path("a.snapshot");
    session.snapshot(&file).await.unwrap();
    let (loaded, report) = engine.load(&file, options.clone()).await.unwrap();
    assert!(report.packages.is_empty(), "{report:?}");
    good(&loaded, ALL).await;
    // If it may not be installed, it is reported.
    let options = SessionOptions {
        packages: Packages::Deny,
        ..options
    };
    let (loaded, report) = engine.load(&file, options).await.unwrap();
    assert_eq!(report.packages.len(), 3, "{report:?}");
    assert!(
        report.packages[0].starts_with("alpha-one 1.0 is missing: "),
        "{report:?}"
    );
    assert!(!loaded.run(ALL).await.unwrap().is_success());
    // Another store gets it anew.
    let other = Shop::with_three();
    let (loaded, report) = other
        .engine()
        .load(
            &file,
            SessionOptions {
                packages: Packages::Any,
                ..SessionOptions::default()
            },
        )
        .await
        .unwrap();
    assert!(report.packages.is_empty(), "{report:?}");
    good(&loaded, ALL).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_install_the_same_at_once() {
    let shop = Shop::with_three();
    let engine = shop.engine();
    let mut sessions = Vec::new();
    for _ in 0..6 {
        sessions.push(engine.session().await.unwrap());
    }
    let tasks: Vec<_> = sessions
        .into_iter()
        .map(|session| {
            tokio::spawn(async move {
                install(&session, "alpha-one, gamma-three").await.unwrap();
                good(&session, ALL).await;
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(shop.layers(), 1);
    let staging = std::fs::read_dir(shop.path("data/packages/staging")).unwrap();
    assert_eq!(staging.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_installed_before_needs_no_index_and_no_uv() {
    let shop = Shop::with_three();
    install(&shop.session().await, "alpha-one").await.unwrap();
    std::fs::remove_dir_all(shop.path("wheels")).unwrap();
    std::fs::remove_dir_all(shop.path("data/packages/uv")).unwrap();
    let session = shop.session().await;
    assert_eq!(install(&session, "alpha-one").await.unwrap().len(), 2);
    // What is asked for otherwise does need them.
    let other = shop.session().await;
    let error = install(&other, "alpha-one!=3").await.unwrap_err();
    assert!(
        matches!(error, Error::Packages(PackageError::Uv { .. })),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_that_lost_files_in_a_power_cut_is_made_again() {
    let shop = Shop::with_three();
    install(&shop.session().await, "gamma-three").await.unwrap();
    let record = std::fs::read_dir(shop.path("data/packages/records")).unwrap();
    let record = record.last().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&record).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["boot"] = json!("another");
    std::fs::write(&record, value.to_string()).unwrap();
    let layers = shop.path("data/packages/layers");
    let layer = std::fs::read_dir(layers)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // As it would be: a file without contents. uv's cache has the same file, if it was linked.
    std::fs::remove_file(layer.join("gamma_three/m1.py")).unwrap();
    std::fs::write(layer.join("gamma_three/m1.py"), "").unwrap();
    let session = shop.session().await;
    install(&session, "gamma-three").await.unwrap();
    good(&session, "from gamma_three.m1 import value").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_module_is_suggested_where_it_may_be_installed() {
    let shop = Shop::new();
    let session = shop.session().await;
    let outcome = session.run("import yaml").await.unwrap();
    assert_eq!(outcome.package.as_deref(), Some("pyyaml"));
    let next = outcome.next_step(Language::English).unwrap();
    assert!(next.contains("# requires: pyyaml"), "{next}");
    let next = outcome.next_step(Language::Chinese).unwrap();
    assert!(next.contains("# requires: pyyaml"), "{next}");
    let outcome = crate::support::session()
        .await
        .run("import yaml")
        .await
        .unwrap();
    assert_eq!(outcome.package, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_say_what_uv_said() {
    let shop = Shop::new();
    let session = shop.session().await;
    let error = install(&session, "nothing-of-that-name")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("nothing-of-that-name was not found"),
        "{error}"
    );
    assert!(error.contains("only wheels"), "{error}");
    // The session continues.
    good(&session, "1").await;
    // A disk that can't be written to.
    let staging = shop.path("data/packages/staging");
    std::fs::remove_dir(&staging).unwrap();
    let error = install(&session, "another").await.unwrap_err().to_string();
    assert!(error.contains("staging"), "{error}");
    assert!(session.install(&[]).await.unwrap().is_empty());
}

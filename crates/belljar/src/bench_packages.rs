//! Installing three wheels that uv has in its cache, beside what uv alone takes for it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandbox::{EngineBuilder, PackageStore, Packages, Requirement};

const IMPORT: &str = "import alpha_one, beta_two, gamma_three";

/// How long one round took, to the end of the cell that imports the three.
#[derive(Debug)]
pub(crate) struct Round {
    /// Of packages whose layer is known.
    pub(crate) known: Duration,
    /// Of packages that uv has in its cache, for a request that is new.
    pub(crate) cached: Duration,
    /// `uv pip install --target` of the same.
    pub(crate) uv: Duration,
}

pub(crate) async fn rounds(
    builder: EngineBuilder,
    python: &Path,
    n: usize,
) -> anyhow::Result<Vec<Round>> {
    let directory = tempfile::tempdir().context("a directory for packages")?;
    let wheels = directory.path().join("wheels");
    std::fs::create_dir(&wheels)?;
    let made = Command::new(python)
        .args(["-I", "-c", include_str!("bench_packages.py")])
        .arg(&wheels)
        .status();
    ensure!(
        made.context("making wheels")?.success(),
        "no wheels were made"
    );
    let store = PackageStore::open(directory.path()).indexes([wheels.display().to_string()]);
    let engine = builder.packages(Packages::Any).package_store(store).build();
    engine.warm().await?;
    let uv = || uv_alone(directory.path(), python);
    let mut rounds = Vec::new();
    // The first two fill the caches.
    for round in 0..n + 2 {
        let mut times = Vec::new();
        let new = format!("alpha-one, gamma-three!=9.{round}");
        for list in ["alpha-one, gamma-three", &new] {
            let session = engine.session().await?;
            session.run("1").await?;
            let required = Requirement::list(list)?;
            let started = Instant::now();
            session.install(&required).await?;
            let outcome = session.run(IMPORT).await?;
            times.push(started.elapsed());
            ensure!(outcome.is_success(), "not importable: {outcome:?}");
            session.close().await?;
        }
        let uv = uv()?;
        if let ([known, cached], true) = (times.as_slice(), round >= 2) {
            rounds.push(Round {
                known: *known,
                cached: *cached,
                uv,
            });
        }
    }
    engine.shutdown().await;
    Ok(rounds)
}

fn uv_alone(directory: &Path, python: &Path) -> anyhow::Result<Duration> {
    let uv = std::env::var_os("BELLJAR_UV").unwrap_or_else(|| "uv".into());
    let target = tempfile::tempdir_in(directory)?;
    let mut command = Command::new(uv);
    command
        .args([
            "pip",
            "install",
            "--no-config",
            "--quiet",
            "--no-index",
            "--find-links",
        ])
        .arg(directory.join("wheels"))
        .arg("--python")
        .arg(python)
        .arg("--target")
        .arg(target.path())
        .args(["alpha-one", "gamma-three"])
        .env("UV_CACHE_DIR", directory.join("packages/uv"))
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let started = Instant::now();
    let status = command.status().context("uv")?;
    ensure!(status.success(), "uv did not install: {status}");
    Ok(started.elapsed())
}

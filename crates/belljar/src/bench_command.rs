//! `belljar bench`: our figures beside their references, measured in the same run.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use belljar_sandbox::protocol::{Event, Fate, Language, ToolStub};
use belljar_sandbox::{Backend, Cell, Checkpoints, Engine, Environment, Session, SessionOptions};
use clap::Args;
use serde_json::{Value, json};

use crate::bench_many;
use crate::bench_packages;
use crate::bench_programs;
use crate::bench_snapshot::{self, Round};
use crate::bench_tiers::{self, Bare};
use crate::show;
use crate::start::{SessionArgs, load};
use crate::words;

/// What a first cell typically does: it uses numpy, pandas and pyplot.
pub(crate) const FIRST_CELL: &str = "import numpy as np, pandas as pd, matplotlib.pyplot as plt\n\
    frame = pd.DataFrame({'a': np.arange(3)})\n\
    print(frame['a'].sum(), plt.get_backend())\n";

/// The same in a Jupyter kernel, from its start to the reply; run by `--jupyter PYTHON`.
const JUPYTER: &str = include_str!("bench_jupyter.py");

/// The least that running code in another interpreter can cost: a line in, a line out.
const BARE_LOOP: &str = "import sys\nns = {}\nread, write = sys.stdin.readline, sys.stdout.write\n\
    while True:\n    line = read()\n    if not line: break\n    \
    exec(compile(line, '<cell>', 'exec'), ns)\n    write('ok\\n')\n    sys.stdout.flush()\n";

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    /// Python with ipykernel, numpy, pandas and matplotlib, for comparison
    #[arg(long, value_name = "PATH")]
    jupyter: Option<PathBuf>,
    /// Fewer repetitions
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    session: SessionArgs,
}

pub(crate) async fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    // On a worker of the runtime, where a server's tasks are too.
    tokio::spawn(bench(args))
        .await
        .context("the benchmark panicked")?
}

async fn bench(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let report = Report { json: args.json };
    let texts = &words::texts().bench;
    let scale = if args.quick { 10 } else { 1 };
    let environment = args.session.environment().await?;
    if let Some(tool) = args.session.tool(&environment) {
        let bare = Bare::new(&tool, environment.python());
        return bench_tier(&args.session, environment, &bare, &report, scale).await;
    }
    // As a service has it.
    let engine = args.session.engines().await?.first().clone();

    let (start, bare) = session_start(&engine, 100 / scale).await?;
    let bare_name = texts.bare_fork;
    report.figure("session_start", &start, bare_name, &bare);
    let pooled = session_start_pooled(&args.session, 50 / scale).await?;
    report.figure("session_start_pooled", &pooled, bare_name, &bare);
    match &args.jupyter {
        Some(python) => {
            let jupyter = jupyter(python, (10 / scale).max(2))?;
            report.figure("session_start_jupyter", &start, texts.jupyter, &jupyter);
        }
        None => report.left_out("session_start_jupyter", texts.needs_jupyter),
    }
    let (ours, reference, unfiltered) = cell_round_trip(&engine, 5000 / scale).await?;
    report.figure("cell_round_trip", &ours, texts.pipe, &reference);
    // What seccomp and Landlock cost, of the whole.
    let without = texts.no_filters;
    report.figure("cell_round_trip_walls", &ours, without, &unfiltered);
    let (bridge, cell) = bridge_round_trip(&engine, 2000 / scale).await?;
    report.figure("bridge_round_trip", &bridge, texts.cell, &cell);
    let commands = bench_programs::rounds(&engine, 1000 / scale).await?;
    let (commands, shell) = commands.into_iter().unzip();
    let bare_program = texts.program;
    report.figure(
        "command_round_trip",
        &Times(commands),
        bare_program,
        &Times(shell),
    );
    let (filtered, unfiltered) = session_start_walls(&engine, 200 / scale).await?;
    report.figure("session_start_walls", &filtered, without, &unfiltered);
    let fresh = session_start_fresh(&args.session, (10 / scale).max(2)).await?;
    report.figure("session_start_fresh", &fresh, bare_name, &bare);
    let (auto, off, restore) = checkpoints(&engine, 40 / scale).await?;
    report.figure("cell_after_pause_auto", &auto, texts.no_checkpoints, &off);
    let anew = start_anew(&engine, (10 / scale).max(2)).await?;
    report.figure("restore_after_crash", &restore, texts.pickle, &anew);
    let burst = bench_many::burst(&engine, 200).await?;
    report.figure("burst_200", &Times(burst), bare_name, &bare);
    let time = Duration::from_secs(if args.quick { 3 } else { 30 });
    let (n, per_second) = bench_many::creates(&engine, time).await?;
    report.line(
        &json!({"name": "creates_per_second", "n": n, "per_second": per_second}),
        &format!(
            "{:<24} n={n:<5} {per_second:.0} per second",
            "creates_per_second"
        ),
    );
    let n = 500 / scale;
    let kilobytes = bench_many::idle_memory(&engine, n).await?;
    report.line(
        &json!({"name": "idle_session_private_kb", "n": n, "p50_kb": kilobytes}),
        &format!(
            "{:<24} n={n:<5} p50 {kilobytes} kB",
            "idle_session_private_kb"
        ),
    );
    let (rounds, forks) = bench_snapshot::rounds(&engine, (5 / scale).max(1), 20 / scale).await?;
    let times = |of: fn(&Round) -> Duration| Times(rounds.iter().map(of).collect());
    let (save, write) = (times(|round| round.save), times(|round| round.write));
    report.figure("snapshot_500mb_save", &save, texts.write, &write);
    let (load, read) = (times(|round| round.load), times(|round| round.read));
    report.figure("snapshot_500mb_load", &load, texts.read, &read);
    let anew = times(|round| round.save + round.load);
    report.figure("fork_500mb", &Times(forks), texts.save_and_load, &anew);
    let python = engine.environment().python().to_owned();
    let builder = args.session.builder(engine.environment().clone());
    engine.shutdown().await;
    let rounds = bench_packages::rounds(builder, &python, 20 / scale).await?;
    let times = |of: fn(&bench_packages::Round) -> Duration| Times(rounds.iter().map(of).collect());
    let uv = times(|round| round.uv);
    let alone = texts.uv;
    report.figure("install_cached", &times(|round| round.cached), alone, &uv);
    report.figure("install_known", &times(|round| round.known), alone, &uv);
    Ok(ExitCode::SUCCESS)
}

/// Sessions in containers or in gVisor, beside those of Belljar's own walls and the bare tool.
async fn bench_tier(
    args: &SessionArgs,
    environment: Environment,
    bare: &Bare,
    report: &Report,
    scale: usize,
) -> anyhow::Result<ExitCode> {
    let texts = &words::texts().bench;
    let own_environment = match environment.image() {
        Some(_) => load("default")?,
        None => environment.clone(),
    };
    let engine = args.cold(environment.clone())?;
    let own = args.builder(own_environment.clone()).build();
    engine.warm().await?;
    own.warm().await?;
    own.wait_until_shared().await?;
    // What the bare tool imports.
    let cell_alone = environment
        .clone()
        .preload_only(|module| FIRST_CELL.contains(module));
    let cold_engine = || args.cold(cell_alone.clone());
    let (cold, tool) = bench_tiers::cold(cold_engine, bare, (20 / scale).max(3)).await?;
    report.figure("first_cell", &cold, texts.bare_tool, &tool);
    if environment.image().is_none() {
        let (restored, empty) = bench_tiers::restored(&engine, (20 / scale).max(3)).await?;
        report.figure(
            "first_cell_restored",
            &restored,
            texts.empty_sandbox,
            &empty,
        );
    }
    // Half as much again as it takes.
    let refill = Duration::from_micros(u64::try_from(cold.percentile(99))? * 3 / 2);
    let pools = [
        args.build_one(args.builder(cell_alone).warm_pool(1))?,
        args.builder(own_environment).warm_pool(1).build(),
    ];
    let (pooled, own_pooled) =
        bench_tiers::pooled([&pools[0], &pools[1]], (20 / scale).max(3), refill).await?;
    report.figure("first_cell_pooled", &pooled, texts.own_pooled, &own_pooled);
    for pool in pools {
        pool.shutdown().await;
    }
    let (ours, theirs) = bench_tiers::round_trips([&engine, &own], 1000 / scale).await?;
    report.figure("cell_round_trip", &ours, texts.own_cell, &theirs);
    let late = bench_tiers::deadlines(&engine, (10 / scale).max(3)).await?;
    let grace = Times(vec![engine.limits().grace]);
    report.figure("after_deadline", &late, texts.grace, &grace);
    if let Some(bytes) = bench_tiers::memory(&engine).await? {
        let megabytes = bytes / 1_000_000;
        report.line(
            &json!({"name": "ready_session_mb", "megabytes": megabytes}),
            &format!("{:<24} {megabytes} MB", "ready_session_mb"),
        );
    }
    engine.shutdown().await;
    own.shutdown().await;
    Ok(ExitCode::SUCCESS)
}

/// From the request to the result of a first cell, and the bare reference, in turns.
async fn session_start(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times)> {
    let bare_forks = engine.bare_forks().await?;
    engine.wait_until_shared().await?;
    let (mut ours, mut bare) = (Times::default(), Times::default());
    for round in 0..n + 5 {
        let reference = bare_forks.fork().await?;
        let started = Instant::now();
        let session = engine.session().await?;
        first_cell(&session).await?;
        let elapsed = started.elapsed();
        session.close().await?;
        // The first rounds warm the caches of both.
        if round >= 5 {
            ours.push(elapsed);
            bare.push(reference);
        }
    }
    Ok((ours, bare))
}

/// A session with all walls and one without seccomp and Landlock, in turns, each as often the first
/// as the second.
async fn session_start_walls(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times)> {
    let (mut filtered, mut unfiltered) = (Times::default(), Times::default());
    for round in 0..n + 5 {
        for turn in [round % 2, (round + 1) % 2] {
            let started = Instant::now();
            let session = if turn == 0 {
                engine.session().await?
            } else {
                engine.unfiltered_session().await?
            };
            first_cell(&session).await?;
            let elapsed = started.elapsed();
            session.close().await?;
            match (turn, round >= 5) {
                (_, false) => {}
                (0, true) => filtered.push(elapsed),
                (_, true) => unfiltered.push(elapsed),
            }
        }
    }
    Ok((filtered, unfiltered))
}

async fn session_start_fresh(args: &SessionArgs, n: usize) -> anyhow::Result<Times> {
    let engine = args
        .builder(args.environment().await?)
        .backend(Backend::Fresh);
    starts(engine.build(), n, Duration::ZERO, FIRST_CELL).await
}

async fn session_start_pooled(args: &SessionArgs, n: usize) -> anyhow::Result<Times> {
    let engine = args.builder(args.environment().await?).warm_pool(4);
    // Time to refill the warm pool, as between two users.
    let pause = Duration::from_millis(100);
    starts(engine.build(), n, pause, "x = 1").await
}

/// Sessions of an engine of their own, one after the other.
async fn starts(engine: Engine, n: usize, pause: Duration, cell: &str) -> anyhow::Result<Times> {
    engine.warm().await?;
    engine.wait_until_shared().await?;
    let mut times = Times::default();
    for _ in 0..n {
        let started = Instant::now();
        let session = engine.session().await?;
        let outcome = session.run(cell).await?;
        times.push(started.elapsed());
        ensure!(
            outcome.is_success(),
            "the first cell failed: {}",
            outcome.brief(Language::English)
        );
        session.close().await?;
        tokio::time::sleep(pause).await;
    }
    engine.shutdown().await;
    Ok(times)
}

pub(crate) async fn first_cell(session: &Session) -> anyhow::Result<()> {
    let outcome = session.run(FIRST_CELL).await?;
    ensure!(
        outcome.is_success(),
        "the first cell failed: {}",
        outcome.brief(Language::English)
    );
    Ok(())
}

/// A cell in a session, the same by a bare interpreter, and by a session without seccomp and
/// Landlock, in turns; the two sessions each as often before as after the bare one.
async fn cell_round_trip(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times, Times)> {
    let session = engine.session().await?;
    let unfiltered = engine.unfiltered_session().await?;
    let mut reference = BareInterpreter::start(engine.environment().python())?;
    let mut times = (Times::default(), Times::default(), Times::default());
    for round in 0..n + 100 {
        let (first, last) = if round % 2 == 0 {
            (&session, &unfiltered)
        } else {
            (&unfiltered, &session)
        };
        let first = one_cell(first).await?;
        let started = Instant::now();
        reference.run("x=1")?;
        let bare = started.elapsed();
        let last = one_cell(last).await?;
        if round >= 100 {
            let (ours, without) = if round % 2 == 0 {
                (first, last)
            } else {
                (last, first)
            };
            times.0.push(ours);
            times.1.push(bare);
            times.2.push(without);
        }
    }
    Ok(times)
}

async fn one_cell(session: &Session) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let outcome = session.run("x=1").await?;
    let elapsed = started.elapsed();
    ensure!(outcome.is_success(), "x=1 failed: {outcome:?}");
    Ok(elapsed)
}

/// A cell that makes one call, which is answered at once, and one that makes none, in turns.
async fn bridge_round_trip(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times)> {
    let tool = ToolStub {
        name: "echo".into(),
        description: String::new(),
        parameters: json!({"properties": {"value": {"type": "integer"}}}),
        result: None,
    };
    let session = engine
        .session_with(SessionOptions {
            limits: engine.limits().clone(),
            checkpoints: Checkpoints::Off,
            tools: vec![tool],
            ..SessionOptions::default()
        })
        .await?;
    let (mut bridge, mut bare) = (Times::default(), Times::default());
    for round in 0..n + 100 {
        let (without, with) = (one_cell(&session).await?, one_call(&session).await?);
        if round >= 100 {
            bridge.push(with);
            bare.push(without);
        }
    }
    Ok((bridge, bare))
}

async fn one_call(session: &Session) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut run = session.run(Cell {
        answers: true,
        ..Cell::from("x=tools.echo(1)")
    });
    while let Some(event) = run.next().await {
        match event? {
            Event::Called { call, .. } => session.answer(call, Ok(json!(1).into())).await?,
            Event::Outcome(outcome) => {
                ensure!(outcome.is_success(), "the call failed: {outcome:?}");
            }
            _ => {}
        }
    }
    Ok(started.elapsed())
}

/// What a session has that is restored: a frame of 100 MB.
const STATE: &str = "import numpy as np, pandas as pd\n\
    frame = pd.DataFrame({'a': np.arange(12_500_000, dtype='float64')})\n";

/// A cell after a pause of 50 ms in a session with checkpoints and in one without, in turns; and a
/// crash up to the outcome, when the session has been restored.
async fn checkpoints(engine: &Engine, n: usize) -> anyhow::Result<(Times, Times, Times)> {
    let options = |checkpoints| SessionOptions {
        checkpoints,
        limits: engine.limits().clone(),
        ..SessionOptions::default()
    };
    let auto = engine.session_with(options(Checkpoints::Auto)).await?;
    let off = engine.session_with(options(Checkpoints::Off)).await?;
    for session in [&auto, &off] {
        let outcome = session.run(STATE).await?;
        ensure!(outcome.is_success(), "{outcome:?}");
    }
    let pause = Duration::from_millis(50);
    let mut times = (Times::default(), Times::default(), Times::default());
    for round in 0..n + 5 {
        tokio::time::sleep(pause).await;
        let with = one_cell(&auto).await?;
        tokio::time::sleep(pause).await;
        let without = one_cell(&off).await?;
        if round >= 5 {
            times.0.push(with);
            times.1.push(without);
        }
    }
    for _ in 0..n {
        tokio::time::sleep(pause).await;
        let started = Instant::now();
        let outcome = auto.run("import ctypes; ctypes.string_at(0)").await?;
        times.2.push(started.elapsed());
        ensure!(outcome.state != Fate::Lost, "{outcome:?}");
    }
    Ok(times)
}

/// What there was before checkpoints: the state is on a disk as a pickle, and a new session reads it.
async fn start_anew(engine: &Engine, n: usize) -> anyhow::Result<Times> {
    let session = engine.session().await?;
    let outcome = session
        .run(format!("{STATE}frame.to_pickle('frame')"))
        .await?;
    ensure!(outcome.is_success(), "{outcome:?}");
    let pickle = std::env::temp_dir().join(format!("belljar-bench-{}", std::process::id()));
    std::fs::write(&pickle, session.get("frame")?)?;
    drop(session);
    let mut times = Times::default();
    for _ in 0..n {
        let started = Instant::now();
        let session = engine.session().await?;
        session.put("frame", &std::fs::read(&pickle)?)?;
        let code = "import pandas as pd; frame = pd.read_pickle('frame')";
        let outcome = session.run(code).await?;
        ensure!(outcome.is_success(), "{outcome:?}");
        times.push(started.elapsed());
    }
    std::fs::remove_file(&pickle)?;
    Ok(times)
}

fn jupyter(python: &Path, n: usize) -> anyhow::Result<Times> {
    let output = Command::new(python)
        .args(["-c", JUPYTER, &n.to_string(), FIRST_CELL])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", python.display()))?;
    ensure!(
        output.status.success(),
        "the Jupyter reference failed ({})",
        output.status
    );
    let seconds: Vec<f64> =
        serde_json::from_slice(&output.stdout).context("the output of the Jupyter reference")?;
    Ok(Times(
        seconds.into_iter().map(Duration::from_secs_f64).collect(),
    ))
}

/// An interpreter that executes a line and answers with one.
struct BareInterpreter {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl BareInterpreter {
    fn start(python: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new(python)
            .args(["-I", "-c", BARE_LOOP])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{}`", python.display()))?;
        let stdin = child.stdin.take().context("its input")?;
        let stdout = child.stdout.take().context("its output")?;
        Ok(Self {
            child,
            stdin,
            stdout: BufReader::new(stdout),
        })
    }

    fn run(&mut self, line: &str) -> anyhow::Result<()> {
        self.stdin.write_all(format!("{line}\n").as_bytes())?;
        let mut answer = String::new();
        self.stdout.read_line(&mut answer)?;
        ensure!(
            answer == "ok\n",
            "unexpected output of the bare interpreter: {answer:?}"
        );
        Ok(())
    }
}

impl Drop for BareInterpreter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The time that `percent` of the measurements stay below, in microseconds.
    fn percentile(&self, percent: usize) -> u128 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(index).map_or(0, Duration::as_micros)
    }
}

struct Report {
    json: bool,
}

impl Report {
    fn figure(&self, name: &str, ours: &Times, reference: &str, theirs: &Times) {
        let (p50, p99, base) = (
            ours.percentile(50),
            ours.percentile(99),
            theirs.percentile(50),
        );
        // Microseconds as floats: exact far beyond any duration measured here.
        #[expect(clippy::cast_precision_loss, reason = "a ratio of two durations")]
        let ratio = (p50 as f64 / base.max(1) as f64 * 10_000.0).round() / 10_000.0;
        self.line(
            &json!({
                "name": name,
                "n": ours.0.len(),
                "p50_us": p50,
                "p99_us": p99,
                "reference": reference,
                "reference_p50_us": base,
                "ratio": ratio,
            }),
            &format!(
                "{name:<24} n={:<5} p50 {p50:>8} µs   p99 {p99:>8} µs   {ratio:>8} × {reference} ({base} µs)",
                ours.0.len()
            ),
        );
    }

    fn left_out(&self, name: &str, why: &str) {
        if !self.json {
            let why = words::texts().bench.skipped(why);
            show::note(&format!("{name:<24} {why}"));
        }
    }

    fn line(&self, object: &Value, text: &str) {
        let mut stdout = std::io::stdout().lock();
        let _ = if self.json {
            writeln!(stdout, "{object}")
        } else {
            writeln!(stdout, "{text}")
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles() {
        let times = Times((1..=100).map(Duration::from_micros).collect());
        assert_eq!((times.percentile(50), times.percentile(99)), (50, 99));
        assert_eq!(Times::default().percentile(50), 0);
    }
}

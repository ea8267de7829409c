//! RES-1 to RES-3: what an outcome says.

use std::time::Instant;

use belljar_sandbox::protocol::{Cause, Fate, Language, Outcome, Status};
use belljar_sandbox::{Error, Limits};

use crate::support::{Stopwatch, good, seconds, session, session_with, timed};

fn signal(number: i32, name: &str) -> Cause {
    Cause::Signal {
        number,
        name: name.to_owned(),
    }
}

/// RES-1, RES-2: crashes name their signal, keep partial output, and lose the state plainly.
#[tokio::test]
async fn res_2_crashes_are_named() {
    for (code, cause, exit_code) in [
        (
            "import ctypes; ctypes.string_at(0)",
            signal(11, "SIGSEGV"),
            -11,
        ),
        ("import os; os.abort()", signal(6, "SIGABRT"), -6),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            signal(9, "SIGKILL"),
            -9,
        ),
        ("import os; os._exit(3)", Cause::Exit { code: 3 }, 3),
        (
            "import os; os.execv('/bin/true', ['true'])",
            Cause::Exit { code: 0 },
            0,
        ),
    ] {
        let session = session().await;
        let outcome = session
            .run(format!("print('before', flush=True)\n{code}"))
            .await
            .unwrap();
        assert_eq!(
            (outcome.status, &outcome.cause),
            (Status::Crashed, &cause),
            "{code}"
        );
        assert_eq!(
            (outcome.state, outcome.exit_code),
            (Fate::Lost, exit_code),
            "{code}"
        );
        assert_eq!(outcome.stdout.text, "before\n", "{code}");
        let next = outcome.next_step(Language::English).unwrap();
        assert!(next.contains("lost"), "{next}");
    }
    // C8: a program that takes the driver's place does not become the session.
    let session = session().await;
    let outcome = session
        .run("import os; os.execv('/bin/sleep', ['sleep', '999'])")
        .await
        .unwrap();
    assert!(
        matches!(outcome.cause, Cause::Protocol { .. }),
        "{outcome:?}"
    );
}

/// RES-2: a memory error is a failure with the true exception where Python can still raise it.
#[tokio::test]
async fn res_2_memory_error_is_a_failure() {
    let session = session_with(Limits {
        memory_bytes: 256 << 20,
        ..Limits::default()
    })
    .await;
    good(&session, "x = 1").await;
    let outcome = session.run("data = bytearray(1 << 30)").await.unwrap();
    assert_eq!(
        (outcome.status, outcome.state),
        (Status::Failure, Fate::Kept)
    );
    assert_eq!(outcome.exception.unwrap().type_name, "MemoryError");
    good(&session, "x + 1").await;
    let growing = session
        .run("parts = []\nwhile True: parts.append(bytearray(1 << 20))")
        .await
        .unwrap();
    assert_eq!(
        (growing.status, growing.state),
        (Status::Failure, Fate::Kept),
        "{growing:?}"
    );
    assert_eq!(growing.exception.unwrap().type_name, "MemoryError");
}

/// RES-1: memory that only the kernel can stop is named as the cause.
#[tokio::test]
async fn res_1_a_memory_kill_is_named() {
    let limits = Limits {
        memory_bytes: 128 << 20,
        ..Limits::default()
    };
    let session = session_with(limits).await;
    // Files in memory are not the process's own data, so only the cgroup sees them; the children
    // share the session's memory.
    let code = "print('filling', flush=True)\nimport os\nfor i in range(4):\n    if os.fork() == 0:\n        x = bytearray(100 << 20)\n        import time; time.sleep(30)\nimport mmap\nm = mmap.mmap(-1, 200 << 20)\nfor i in range(0, 200 << 20, 4096): m[i] = 1";
    let outcome = session.run(code).await.unwrap();
    assert_eq!(outcome.status, Status::Crashed, "{outcome:?}");
    assert_eq!(
        outcome.cause,
        Cause::Memory {
            limit_bytes: 128 << 20
        }
    );
    assert_eq!(
        (outcome.state, outcome.stdout.text.as_str()),
        (Fate::Lost, "filling\n")
    );
    assert!(outcome.peak_memory_bytes.unwrap() > 100 << 20);
}

/// RES-3: durations, peak memory, what changed.
#[tokio::test]
async fn res_3_what_it_took() {
    let session = session().await;
    let outcome = good(&session, "import time\ntime.sleep(0.2)\ndata = bytearray(50 << 20)\nfor i in range(0, len(data), 4096): data[i] = 1").await;
    assert!(
        outcome.durations.total_us >= 200_000 && outcome.durations.run_us >= 200_000,
        "{outcome:?}"
    );
    assert!(outcome.durations.total_us >= outcome.durations.run_us);
    assert!(
        outcome.durations.cpu_us > 0
            && outcome.durations.cpu_us < outcome.durations.total_us + 100_000
    );
    assert!(outcome.peak_memory_bytes.unwrap() > 50 << 20);
    assert_eq!(outcome.changes.added.len(), 3);
    let small = good(&session, "del data\nimport gc\ngc.collect()").await;
    assert!(small.peak_memory_bytes.is_some());
}

/// ENV-5: a deadline is an interrupt, a grace period, then the death of everything, whatever the
/// code ignores.
#[tokio::test]
async fn env_5_a_kill_that_always_works() {
    for code in [
        "import itertools; sum(itertools.repeat(1))",
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "while True:\n    try:\n        for i in range(10**9): x = i\n    except BaseException: continue",
        "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32))\nos.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None\nwhile True: time.sleep(1)",
    ] {
        let limits = Limits {
            grace: seconds(0.3),
            ..Limits::default()
        };
        let session = session_with(limits).await;
        let started = Stopwatch::start();
        let outcome = session.run(timed(code, seconds(0.5))).await.unwrap();
        assert!(
            started.elapsed() < seconds(3.0),
            "{code}: {:?}",
            started.elapsed()
        );
        assert_eq!(outcome.status, Status::Timeout, "{code}");
        assert_eq!(outcome.cause, Cause::WallTime { limit_ms: 500 });
        assert_eq!(outcome.state, Fate::Lost, "{code}");
        assert!(matches!(session.run("1").await, Err(Error::Ended(_))));
    }
}

/// ENV-5: CPU time can be limited apart from wall time.
#[tokio::test]
async fn env_5_cpu_time() {
    let limits = Limits {
        cpu_time: Some(seconds(0.5)),
        ..Limits::default()
    };
    let session = session_with(limits).await;
    good(&session, "import time; time.sleep(1)").await;
    let outcome = session.run("while True: pass").await.unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause),
        (Status::Timeout, &Cause::CpuTime { limit_ms: 500 })
    );
    assert_eq!(outcome.state, Fate::Kept);
}

/// ENV-5: output beyond the cap is cut in the middle, the whole is in a file, and past the hard
/// limit the cell is stopped.
#[tokio::test]
async fn env_5_output_limits() {
    let limits = Limits {
        output_bytes: 4 << 20,
        output_kept_bytes: 10_000,
        ..Limits::default()
    };
    let session = session_with(limits).await;
    let outcome = good(&session, "for i in range(100_000): print(i)").await;
    assert!(
        outcome.stdout.text.starts_with("0\n1\n")
            && outcome.stdout.text.ends_with("99998\n99999\n")
    );
    assert!(outcome.stdout.text.contains("bytes left out"));
    assert_eq!(outcome.stdout.bytes, 588_890);
    let whole = std::fs::read_to_string(outcome.stdout.file.as_ref().unwrap()).unwrap();
    assert_eq!(
        whole,
        (0..100_000).map(|i| format!("{i}\n")).collect::<String>()
    );
    let outcome = session.run("while True: print('x' * 1000)").await.unwrap();
    assert_eq!(
        (outcome.status, &outcome.cause),
        (
            Status::Failure,
            &Cause::OutputLimit {
                limit_bytes: 4 << 20
            }
        )
    );
    assert_eq!(outcome.state, Fate::Kept);
    good(&session, "1").await;
}

/// RES-1: the outcome is JSON with a schema, and what is not UTF-8 is escaped.
#[tokio::test]
async fn res_1_outcomes_are_json() {
    let session = session().await;
    let outcome = good(&session, "import os\nos.write(1, b'\\xff\\x00ok\\n')").await;
    assert_eq!(outcome.stdout.text, "\\xff\0ok\n");
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
}

/// C10, E5: exceptions that are deep, hostile when asked, or dressed up as another's traceback are
/// told in bounds and in time, and in words without commands to a terminal.
#[tokio::test]
async fn c10_hostile_exceptions_are_told_in_bounds() {
    let session = session().await;
    for (code, told) in [
        (
            // Python 3.10 has no groups.
            "import builtins\nGroup = getattr(builtins, 'ExceptionGroup', ValueError)\nerror = Group('g', [OSError()])\nfor _ in range(100_000): error = Group('g', [error])\nraise error",
            "### Error:\nTraceback",
        ),
        (
            "class Slow(Exception):\n    def __str__(self):\n        while True: pass\nraise Slow()",
            "took longer than 1 s",
        ),
        ("raise ValueError('x' * 10**8)", "characters left out"),
        (
            "raise ValueError('\\x1b[2J\\x9b1A\\rTraceback (most recent call last):\\n  File \"/host.py\"')",
            "ValueError: \nTraceback (most recent call last):\n  File \"/host.py\"\n",
        ),
    ] {
        let started = Instant::now();
        let outcome = session.run(code).await.unwrap();
        assert!(started.elapsed() < seconds(20.0), "{code}");
        assert_eq!(outcome.cause, Cause::Exception, "{code}");
        assert_eq!(outcome.state, Fate::Kept, "{code}");
        let text = outcome.text(code, Language::English);
        assert!(text.len() < 200 << 10, "{code}: {} bytes", text.len());
        assert!(text.contains(told), "no {told:?} in {text:.3000}");
        assert!(
            !text.contains(|c: char| c.is_control() && c != '\n'),
            "{text:?}"
        );
    }
}

//! ENV-5: what a session may use.

use belljar_sandbox::Limits;
use belljar_sandbox::protocol::Fate;

use crate::support::{good, printed, session_with};

fn small() -> Limits {
    Limits {
        memory_bytes: 512 << 20,
        processes: 20,
        open_files: 50,
        file_bytes: 1 << 20,
        workspace_bytes: 4 << 20,
        temporary_bytes: 2 << 20,
        inodes: 100,
        ..Limits::default()
    }
}

/// Each limit ends in an ordinary exception, and the session continues.
#[tokio::test]
async fn env_5_limits_are_exceptions() {
    let session = session_with(small()).await;
    for (code, error) in [
        (
            "l = []\nwhile True: l.append(open('/dev/null'))",
            "Too many open files",
        ),
        (
            "open('big', 'wb').write(b'x' * (2 << 20))",
            "File too large",
        ),
        (
            "for i in range(10): open(f'part{i}', 'wb').write(b'x' * (1 << 20))",
            "No space left",
        ),
        (
            "for i in range(10): open(f'/tmp/part{i}', 'wb').write(b'x' * (1 << 20))",
            "No space left",
        ),
        (
            "for i in range(1000): open(f'f{i}', 'w').close()",
            "No space left",
        ),
        (
            "import threading, time\nfor i in range(100): threading.Thread(target=time.sleep, args=(2,), daemon=True).start()",
            "can't start new thread",
        ),
    ] {
        let outcome = session.run(code).await.unwrap();
        assert_eq!(outcome.state, Fate::Kept, "{code}: {outcome:?}");
        let exception = outcome
            .exception
            .unwrap_or_else(|| panic!("{code} succeeded"));
        assert!(exception.value.contains(error), "{code}: {exception:?}");
        good(&session, "l = None\nimport os, glob\nfor f in glob.glob('/workspace/*') + glob.glob('/tmp/part*'): os.remove(f)").await;
    }
}

/// A fork bomb stays inside its limit and ends with its session.
#[tokio::test]
async fn env_5_fork_bomb() {
    let session = session_with(small()).await;
    let outcome = session.run("import os\nwhile True:\n    if os.fork() == 0:\n        import time; time.sleep(60); os._exit(0)").await.unwrap();
    assert_eq!(outcome.exception.unwrap().type_name, "BlockingIOError");
    good(&session, "1").await;
    let below = crate::support::processes_below(std::process::id()).len();
    assert!(below < 40, "{below} processes");
    session.close().await.unwrap();
}

/// The CPU limit holds for all of a session's processes together.
#[tokio::test]
async fn env_5_cpus() {
    let limits = Limits {
        milli_cpus: 200,
        ..Limits::default()
    };
    let session = session_with(limits).await;
    let code = "import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        end = time.time() + 2\n        while time.time() < end: pass\n        os._exit(0)\ntime.sleep(2)";
    let outcome = good(&session, code).await;
    assert!(
        outcome.durations.cpu_us < 700_000,
        "{:?}",
        outcome.durations
    );
}

/// A limit can't be raised from inside.
#[tokio::test]
async fn env_5_limits_cannot_be_raised() {
    let session = session_with(small()).await;
    let code = "import resource\nfor r in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_DATA, resource.RLIMIT_NPROC, resource.RLIMIT_CORE):\n    soft, hard = resource.getrlimit(r)\n    try:\n        resource.setrlimit(r, (hard + 1, hard + 1))\n        print('raised', r)\n    except (ValueError, OSError): pass\nprint(resource.getrlimit(resource.RLIMIT_CORE))";
    assert_eq!(printed(&session, code).await, "(1, 1)\n");
}

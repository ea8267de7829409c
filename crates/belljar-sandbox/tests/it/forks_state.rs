//! Forks as sessions: they have all that other sessions have.

use belljar_sandbox::protocol::{Cause, Event, Fate};
use belljar_sandbox::{Cell, Checkpoints, Error, OnFailure, SessionOptions};

use crate::support::{engine, good, printed, session};

fn all_or_nothing(code: &str) -> Cell {
    Cell {
        on_failure: OnFailure::Restore,
        ..Cell::from(code)
    }
}

/// Named copies and all-or-nothing cells, in a fork and in a fork of it, by each policy.
#[tokio::test(flavor = "multi_thread")]
async fn forks_go_back() {
    for checkpoints in [Checkpoints::Off, Checkpoints::Auto, Checkpoints::Every] {
        let options = SessionOptions {
            checkpoints,
            ..SessionOptions::default()
        };
        let session = engine().session_with(options).await.unwrap();
        good(&session, "import os; x = [1]").await;
        session.checkpoint("of the parent").await.unwrap();
        let fork = session.fork(1).await.unwrap().remove(0);
        let deep = fork.fork(1).await.unwrap().remove(0);
        for fork in [&fork, &deep] {
            assert!(matches!(
                fork.restore("of the parent").await,
                Err(Error::NoCheckpoint(_))
            ));
            good(fork, "x.append(2); open('kept', 'w')").await;
            fork.checkpoint("two").await.unwrap();
            let mut cell = good(fork, "x.append(3)").await.cell;
            for (code, cause) in [
                ("x.append(4); 1 / 0", Cause::Exception),
                ("x.append(4); os._exit(7)", Cause::Exit { code: 7 }),
            ] {
                let outcome = fork.run(all_or_nothing(code)).await.unwrap();
                assert_eq!(outcome.cause, cause, "{outcome:?}");
                assert_eq!(outcome.state, Fate::Restored { cell }, "{outcome:?}");
                assert_eq!(printed(fork, "print(x)").await, "[1, 2, 3]\n");
                fork.restore("two").await.unwrap();
                cell = good(fork, "x.append(3)").await.cell;
            }
            assert!(
                fork.run(all_or_nothing("x.append(4)"))
                    .await
                    .unwrap()
                    .is_success()
            );
            assert_eq!(printed(fork, "print(x)").await, "[1, 2, 3, 4]\n");
            fork.restore("two").await.unwrap();
            let text = format!("[1, 2] {}\n", fork.directory().display());
            assert_eq!(printed(fork, "print(x, os.getcwd())").await, text);
            good(fork, "open('kept')").await;
        }
        session.restore("of the parent").await.unwrap();
        assert_eq!(printed(&session, "print(x)").await, "[1]\n");
    }
}

/// An interrupt hits the cell of the one that is meant.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_is_interrupted_alone() {
    let session = session().await;
    good(&session, "import time, os\nos.makedirs('sub')").await;
    let forks = session.fork(2).await.unwrap();
    let mut runs: Vec<_> = [&session, &forks[0], &forks[1]]
        .map(|one| one.run("print('on')\nfor _ in range(40): time.sleep(0.02)\nprint('done')"))
        .into();
    for run in &mut runs {
        while !matches!(run.next().await.unwrap().unwrap(), Event::Output { .. }) {}
    }
    assert!(forks[0].interrupt());
    let mut causes = Vec::new();
    for run in runs {
        causes.push(run.outcome().await.unwrap().cause);
    }
    assert_eq!(
        causes,
        [Cause::Completed, Cause::Interrupted, Cause::Completed]
    );
    assert!(!forks[0].interrupt());
    assert_eq!(printed(&forks[0], "print(1)").await, "1\n");
}

/// The parent has threads, some of which hold locks, and an event loop with tasks on it. The fork
/// has none of them, and a loop of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_of_a_busy_session_awaits() {
    let session = session().await;
    let setup = r"
import asyncio, logging, threading, time, queue
jobs = queue.Queue(); counted = [0]
def work():
    while True:
        counted[0] += 1
        logging.getLogger('worker').debug('x')
        with open('scratch', 'w') as file: file.write(str(counted[0]))
        time.sleep(0.0005)
workers = [threading.Thread(target=work, daemon=True) for _ in range(8)]
for worker in workers: worker.start()
async def tick():
    while True: await asyncio.sleep(0.001)
async def add(a, b):
    await asyncio.sleep(0.001)
    return a + b
print(await add(1, 2))
ticking = asyncio.ensure_future(tick())
await asyncio.sleep(0.01)
";
    assert_eq!(printed(&session, setup).await, "3\n");
    let forks = session.fork(10).await.unwrap();
    for fork in &forks {
        let code = "print(await add(2, 3), await asyncio.gather(*(add(n, n) for n in range(3))), threading.active_count())\n\
            loop = asyncio.get_running_loop()\nprint(await loop.run_in_executor(None, lambda: 7))\n\
            thread = threading.Thread(target=lambda: logging.getLogger('worker').warning('x')); thread.start(); thread.join()";
        assert_eq!(printed(fork, code).await, "5 [0, 2, 4] 1\n7\n");
    }
    assert_eq!(
        printed(&session, "await asyncio.sleep(0.01)\nprint(ticking.done(), sum(w.is_alive() for w in workers), await add(1, 1))").await,
        "False 8 2\n"
    );
}

/// Forks of forks go as deep as the kernel stacks rules, and then say so.
#[tokio::test(flavor = "multi_thread")]
async fn forks_of_forks_go_fifteen_deep() {
    let mut line = vec![session().await];
    good(
        &line[0],
        "import os; depth = 0; open('depth', 'w').write('0')",
    )
    .await;
    loop {
        let last = line.last().unwrap();
        match last.fork(1).await {
            Ok(mut forks) => line.push(forks.remove(0)),
            Err(Error::Fork(why)) => {
                assert_eq!(why, "forks of forks can be at most 15 levels deep");
                break;
            }
            Err(error) => panic!("{error}"),
        }
        let code = "depth += 1; before = open('depth').read(); open('depth', 'w').write(str(depth)); print(depth, before)";
        let depth = line.len() - 1;
        let text = printed(&line[depth], code).await;
        assert_eq!(text, format!("{depth} {}\n", depth - 1));
    }
    assert_eq!(line.len(), 16);
    // None reaches up, whoever is gone meanwhile.
    line.drain(1..8);
    let last = line.last().unwrap();
    let code = "def closed(path):\n    try: return os.listdir(path)\n    except OSError as error: return error.strerror\nprint({closed(path) for path in ('/workspace', '/forks/1', '/forks/1/2/3', os.path.dirname(os.getcwd()) + '/..')}, open('depth').read())";
    assert_eq!(printed(last, code).await, "{'Permission denied'} 15\n");
}

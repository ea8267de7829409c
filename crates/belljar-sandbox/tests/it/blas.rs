//! Threads of numerical libraries follow the CPU limit, and survive forks.

use belljar_sandbox::protocol::{Fate, Status};
use belljar_sandbox::{Checkpoints, Limits, Session, SessionOptions};

use crate::commands::run;
use crate::support::{data_engine, good, printed, repeats, seconds, timed};

/// A product that takes all threads, then the number of threads in the process.
const PRODUCT: &str = "import os, numpy\na = numpy.ones((700, 700))\nassert (a @ a)[0, 0] == 700\n\
    print(len(os.listdir('/proc/self/task')))";

fn options(milli_cpus: u64, checkpoints: Checkpoints) -> SessionOptions {
    SessionOptions {
        checkpoints,
        limits: Limits {
            milli_cpus,
            memory_bytes: 1 << 30,
            ..Limits::default()
        },
        ..SessionOptions::default()
    }
}

/// The threads that a session with two CPUs has on this host.
fn two() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().min(2))
}

async fn session(checkpoints: Checkpoints) -> Session {
    let options = options(2000, checkpoints);
    data_engine().session_with(options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn threads_follow_the_cpus() {
    let engine = data_engine();
    for (milli_cpus, threads) in [(500, 1), (1000, 1), (2000, two())] {
        let options = options(milli_cpus, Checkpoints::Off);
        let session = engine.session_with(options).await.unwrap();
        assert_eq!(printed(&session, PRODUCT).await, format!("{threads}\n"));
        // One loaded by the session itself.
        let later = "import scipy.linalg\n_ = scipy.linalg.lu(a + numpy.eye(700))\n\
            print(len(os.listdir('/proc/self/task')))";
        let both = 1 + 2 * (threads - 1);
        assert_eq!(printed(&session, later).await, format!("{both}\n"));
        let script = "echo $OMP_NUM_THREADS $OPENBLAS_NUM_THREADS $MKL_NUM_THREADS";
        let (_, stdout, _) = run(&session, script).await;
        assert_eq!(stdout, format!("{threads} {threads} {threads}\n"));
        // OpenMP hangs after a fork if it had threads.
        let openmp = "print(os.environ['OMP_NUM_THREADS'])";
        assert_eq!(printed(&session, openmp).await, "1\n");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn products_work_in_checkpoints_and_forks() {
    let session = session(Checkpoints::Every).await;
    let threads = format!("{}\n", two());
    for _ in 0..repeats(10, 50) {
        assert_eq!(printed(&session, PRODUCT).await, threads);
        let outcome = session.run("os._exit(1)").await.unwrap();
        assert!(
            matches!(outcome.state, Fate::Restored { .. }),
            "{outcome:?}"
        );
        let notes = outcome.notes.join("\n");
        assert!(!notes.contains("thread"), "{notes}");
        assert_eq!(printed(&session, PRODUCT).await, threads);
        for fork in session.fork(2).await.unwrap() {
            assert_eq!(printed(&fork, PRODUCT).await, threads);
            fork.close().await.unwrap();
        }
    }
}

/// A thread of the program multiplies without a pause, as does each cell, while checkpoints are made.
#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_computes_hangs_no_checkpoint() {
    let session = session(Checkpoints::Every).await;
    let thread = "import threading, numpy\ndone = 0\ndef compute():\n    global done\n    \
        b = numpy.ones((400, 400))\n    while True:\n        b @ b\n        done += 1\n\
        threading.Thread(target=compute, daemon=True).start()";
    good(&session, thread).await;
    for _ in 0..repeats(15, 100) {
        good(&session, PRODUCT).await;
    }
    let still = "import time\nbefore = done\ntime.sleep(1)\nprint(done > before)";
    assert_eq!(printed(&session, still).await, "True\n");
    let outcome = session.run("os._exit(1)").await.unwrap();
    assert!(
        matches!(outcome.state, Fate::Restored { .. }),
        "{outcome:?}"
    );
    good(&session, PRODUCT).await;
}

/// `OpenBLAS` ends a process without memory for its threads. Their 41 MB each are there from the start; half a megabyte
/// is requested by each product.
#[tokio::test(flavor = "multi_thread")]
async fn a_product_needs_little_memory_for_threads() {
    let session = session(Checkpoints::Off).await;
    let full = "import numpy\na = numpy.ones((700, 700)); out = numpy.empty_like(a)\nkept = []\n\
        try:\n    while True: kept.append(numpy.empty(1 << 17))\n\
        except MemoryError: del kept[-2:]; print('full')\n\
        numpy.matmul(a, a, out=out)\nprint(out[0, 0])";
    let cell = timed(full, seconds(60.0));
    let outcome = session.run(cell).await.unwrap();
    assert_eq!(outcome.status, Status::Success, "{outcome:?}");
    assert_eq!(outcome.stdout.text, "full\n700.0\n");
}

//! Work on many bytes at once, kept off the threads that serve all requests.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::charged::SMALL;

/// Half of the CPUs: the others are for everybody else.
static PERMITS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cpus = available_parallelism().map_or(1, std::num::NonZero::get);
    Semaphore::new((cpus / 2).max(1))
});

/// Does work on so many bytes: elsewhere, and a few at a time, where they are many.
pub(crate) async fn offload<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    // It takes less time than to hand it to another thread.
    if bytes <= SMALL {
        return work();
    }
    // Never closed.
    let _permit = PERMITS.acquire().await;
    match spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

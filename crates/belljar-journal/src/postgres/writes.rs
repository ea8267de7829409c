//! Statements that write events: one at a time for each run.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use sqlx::postgres::PgArguments;

use super::connections::{Connections, within};
use crate::RunId;

/// How long a statement may take.
pub(super) const WRITE: Duration = Duration::from_secs(20);

/// The writes of this process.
///
/// A statement that was sent takes effect, whether its caller still waits for it or not. So each runs to its end, and the
/// next write to the same run begins after it: what the next one finds is then certain.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes(Arc<Mutex<HashMap<RunId, Arc<tokio::sync::Mutex<()>>>>>);

impl Writes {
    /// How many rows the statement has written.
    pub(super) async fn write(
        &self,
        connections: &Connections,
        run: &RunId,
        statement: &'static str,
        arguments: PgArguments,
    ) -> sqlx::Result<u64> {
        let turn = Turn::take(self.clone(), run.clone());
        let connections = connections.clone();
        let write = async move {
            let _first = turn.lock.lock().await;
            let mut connection = connections.take().await?;
            let query = sqlx::query_with(statement, arguments);
            let result = within(WRITE, query.execute(&mut *connection)).await;
            Ok(connection.finish(result)?.rows_affected())
        };
        let write = ToItsEnd {
            write: Some(Box::pin(write)),
            has_begun: false,
        };
        write.await
    }
}

type Write = Pin<Box<dyn Future<Output = sqlx::Result<u64>> + Send>>;

/// A write that continues in the background if it is dropped after it has begun.
///
/// Not a task from the beginning: two more switches between threads would cost as much as the statement.
struct ToItsEnd {
    /// There until it is over.
    write: Option<Write>,
    has_begun: bool,
}

impl Future for ToItsEnd {
    type Output = sqlx::Result<u64>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.has_begun = true;
        let Some(write) = &mut self.write else {
            return Poll::Pending;
        };
        let polled = write.as_mut().poll(context);
        if polled.is_ready() {
            self.write = None;
        }
        polled
    }
}

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        if self.has_begun
            && let Some(write) = self.write.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(write);
        }
    }
}

/// The lock of a run's writes, there as long as somebody has or wants it.
struct Turn {
    writes: Writes,
    run: RunId,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl Turn {
    fn take(writes: Writes, run: RunId) -> Self {
        let lock = {
            let mut locks = writes.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.entry(run.clone()).or_default().clone()
        };
        Self { writes, run, lock }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut locks = self.writes.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and this one.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.run);
        }
    }
}

//! Reading a table of a session. The guest does it in a process that ends with it; its answer is bounded in time and bytes,
//! and parsed strictly.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belljar_protocol::{
    GuestFrame, HostFrame, TableProblem, TableRequest, TableView, encode_frame,
};
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;

use crate::error::Error;
use crate::session::guest::{ANSWER_TIME, Guest};
use crate::session::guest_error::{GuestError, ProtocolError};
use crate::session::handle::SessionHandle;
use crate::session::table_error::TableError;
use crate::state::lifecycle::Lifecycle;
use crate::variables::StreamScrubber;

/// Bytes of a page: a million characters, as JSON.
const MAX_PAGE: u64 = 8 << 20;
const CSV_PART: u64 = 1 << 20;

/// How long the guest may take. It watches the time itself; the host waits a little longer.
const PAGE_TIME: Duration = Duration::from_secs(20);
const CSV_TIME: Duration = Duration::from_mins(2);

/// One request for a part of a table.
#[derive(Debug)]
pub(super) struct TableRead {
    namespace: Option<String>,
    name: String,
    view: TableView,
    request: TableRequest,
    limit_bytes: u64,
    part_bytes: u64,
    time: Duration,
}

impl TableRead {
    /// What is answered in one part.
    pub(super) fn page(
        namespace: Option<&str>,
        name: &str,
        view: &TableView,
        request: TableRequest,
    ) -> Self {
        Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            view: view.clone(),
            request,
            limit_bytes: MAX_PAGE,
            part_bytes: MAX_PAGE + 1,
            time: PAGE_TIME,
        }
    }

    pub(super) fn csv(
        namespace: Option<&str>,
        name: &str,
        view: &TableView,
        limit_bytes: u64,
    ) -> Self {
        Self {
            limit_bytes,
            part_bytes: CSV_PART,
            time: CSV_TIME,
            ..Self::page(namespace, name, view, TableRequest::Csv)
        }
    }

    /// Reads a page. What is no page ends the session; secrets are replaced in what is one.
    pub(super) async fn parsed<T: DeserializeOwned + Send + 'static>(
        self,
        lifecycle: &Arc<Lifecycle>,
        parse: impl FnOnce(&[u8]) -> Result<T, String> + Send + 'static,
    ) -> Result<T, Error> {
        let lifecycle = Arc::clone(lifecycle);
        // In a task, so that a caller who gives up leaves no guest in the middle of an answer.
        let reading = tokio::spawn(async move {
            let (handle, mut guest) = lifecycle.wires().await?;
            handle.check()?;
            let scrubber = handle.variables.scrubber();
            let (none, _) = mpsc::channel(1);
            let mut stream = StreamScrubber::new(Arc::clone(scrubber));
            let json = self.answer(&handle, &mut guest, &mut stream, &none).await?;
            let lie = |why| handle.fail(ProtocolError::Table(why).into());
            let page = parse(&json).map_err(lie)?;
            if scrubber.is_empty() {
                return Ok(page);
            }
            // Marks may be longer than the limits of what a guest sends.
            serde_json::from_slice(&scrubber.json(json)).map_err(|error| lie(error.to_string()))
        });
        reading.await.map_err(panicked)?
    }

    /// Passes parts on, without secrets. The receiver may give up; the guest is still read to its end.
    pub(super) async fn sent(
        self,
        lifecycle: &Arc<Lifecycle>,
        parts: mpsc::Sender<Vec<u8>>,
    ) -> Result<(), Error> {
        let lifecycle = Arc::clone(lifecycle);
        let reading = tokio::spawn(async move {
            let (handle, mut guest) = lifecycle.wires().await?;
            handle.check()?;
            let mut stream = StreamScrubber::new(Arc::clone(handle.variables.scrubber()));
            let rest = self
                .answer(&handle, &mut guest, &mut stream, &parts)
                .await?;
            let mut rest = stream.push(&rest).into_owned();
            rest.extend(stream.finish());
            let _ = parts.send(rest).await;
            Ok(())
        });
        reading.await.map_err(panicked)?
    }

    /// Asks the guest, and returns the last part. An end that is no answer ends the session.
    async fn answer(
        &self,
        handle: &SessionHandle,
        guest: &mut Guest,
        stream: &mut StreamScrubber,
        parts: &mpsc::Sender<Vec<u8>>,
    ) -> Result<Vec<u8>, Error> {
        let question = HostFrame::ReadTable {
            name: &self.name,
            namespace: self.namespace.as_deref(),
            view: &self.view,
            wanted: self.request,
            limit_bytes: self.limit_bytes,
            part_bytes: self.part_bytes,
            seconds: self.time.as_secs_f64(),
        };
        let question = encode_frame(&question, &[]).map_err(Error::session)?;
        // Only the guest's own time counts: not that of a receiver who is busy.
        let mut patience = self.time + ANSWER_TIME;
        let mut total = 0;
        let asked = tokio::time::timeout(patience, guest.control.write_all(&question)).await;
        let asked = asked.map_err(|_| handle.fail(Error::Unresponsive))?;
        asked.map_err(|error| handle.fail(GuestError::from(error).into()))?;
        loop {
            let start = Instant::now();
            let frame = tokio::time::timeout(patience, guest.answer(&handle.meter)).await;
            let frame = frame.map_err(|_| handle.fail(Error::Unresponsive))?;
            let (frame, raw) = frame.map_err(|error| handle.fail(error.into()))?;
            patience = patience.saturating_sub(start.elapsed());
            total += raw.blob.len() as u64;
            let lie = match frame {
                _ if total > self.limit_bytes => ProtocolError::LongTable,
                GuestFrame::TablePart if raw.blob.len() as u64 == self.part_bytes => {
                    let _ = parts.send(stream.push(&raw.blob).into_owned()).await;
                    continue;
                }
                GuestFrame::TableEnd { problem: None } => return Ok(raw.blob),
                GuestFrame::TableEnd {
                    problem: Some(problem),
                } => return Err(self.explain(problem).into()),
                _ => ProtocolError::OtherAnswer,
            };
            return Err(handle.fail(lie.into()));
        }
    }

    fn explain(&self, problem: TableProblem) -> TableError {
        let name = self.name.clone();
        match problem {
            TableProblem::NoName => TableError::NoName(name),
            TableProblem::NotATable => TableError::NotATable(name),
            TableProblem::NoColumn => TableError::NoColumn(name),
            TableProblem::NotComparable => TableError::NotComparable(name),
            TableProblem::TooSlow => TableError::TooSlow {
                name,
                seconds: self.time.as_secs(),
            },
            TableProblem::TooLarge => TableError::TooLarge {
                name,
                limit: self.limit_bytes,
            },
            TableProblem::Killed => TableError::Killed(name),
            TableProblem::NoProcess => TableError::NoProcess(name),
            TableProblem::Failed => TableError::Failed(name),
        }
    }
}

fn panicked(error: tokio::task::JoinError) -> Error {
    Error::io("the task that reads a table")(io::Error::other(error))
}

//! Long cells and runs as tasks: a client that knows the extension gets a handle and polls it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rmcp::ErrorData;
use rmcp::model::{CreateTaskResult, DetailedTask, InputRequest, InputResponses};
use rmcp::task_manager::{TaskExit, TaskManager, TaskOptions};

use crate::question::AskMethod;
use crate::work::Work;

/// How long a cell or a run may take before its call is answered with a task.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How long a task is kept after the longest time that its work can take.
const KEPT: Duration = Duration::from_mins(2);

/// The most tasks at once: results of completed ones are held in memory.
const MOST: usize = 32;

/// The tasks of one connection.
#[derive(Default)]
pub(crate) struct Tasks {
    manager: TaskManager,
    /// When the kept ones will expire.
    kept: Mutex<VecDeque<Instant>>,
}

impl Tasks {
    /// Whether one more can be made.
    pub(crate) fn have_room(&self) -> bool {
        self.count() < MOST
    }

    pub(crate) fn are_none(&self) -> bool {
        self.count() == 0
    }

    fn count(&self) -> usize {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        kept.retain(|gone| *gone > now);
        kept.len()
    }

    /// Makes a task of running work.
    pub(crate) fn make(&self, mut work: Work, method: AskMethod) -> CreateTaskResult {
        let time = work.limit + KEPT;
        // The manager keeps one that is done for this time once more.
        let gone = Instant::now() + 2 * time;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(gone);
        drop(kept);
        let milliseconds = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let options = TaskOptions::new().with_ttl_ms(milliseconds);
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                let mut asked = 0_u32;
                let result = loop {
                    tokio::select! {
                        result = &mut work.running => break result,
                        () = context.cancelled() => {
                            work.stop.cancel();
                            // Only then is the session free for the next cell.
                            let _ = (&mut work.running).await;
                            return Err(TaskExit::Cancelled);
                        }
                        Some(question) = work.questions.recv() => {
                            if method == AskMethod::Nobody {
                                question.refuse();
                                continue;
                            }
                            asked += 1;
                            let request = InputRequest::Elicitation(question.request());
                            let given = context.request_input(format!("approval-{asked}"), request);
                            question.answer(given.await.ok());
                        }
                    }
                };
                result.map_err(|error| {
                    ErrorData::internal_error(format!("the call failed: {error}"), None).into()
                })
            })
        });
        CreateTaskResult::new(task)
    }

    /// A person's decisions on questions of a task.
    pub(crate) fn update(&self, id: &str, responses: InputResponses) -> Result<(), ErrorData> {
        self.manager.update_task(id, responses)
    }

    pub(crate) fn get(&self, id: &str) -> Result<DetailedTask, ErrorData> {
        self.manager.get_task(id)
    }

    pub(crate) fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        self.manager.cancel_task(id)
    }
}

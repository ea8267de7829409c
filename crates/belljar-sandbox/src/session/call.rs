//! Tool calls and questions of code in a cell: they are answered, and a session that waits in one can be forked
//! there.

use belljar_protocol::{CallAnswer, CallId, HostFrame, ToolError, ToolResult, encode_frame};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::lock::lock;
use crate::session::handle::CallRequest;
use crate::session::{CellRun, Session, Work};

/// A result that takes more bytes goes by a file.
const MAX_INLINE: usize = 1 << 20;

/// The most characters of an error of a tool.
const MAX_ERROR: usize = 10_000;

/// The most bytes of an answer to a question.
const MAX_LINE: usize = 64 << 10;

/// Directory of results that are passed as files.
const RESULTS: &str = "tool_results";

impl Session {
    /// Answers a call of the running cell, which [`Event::Called`] reported; in any order. A
    /// [`ToolError`] becomes the exception `tools.ToolError` in the session.
    ///
    /// Waits while the session takes in earlier answers.
    ///
    /// # Errors
    /// [`Error::NoCall`] if no code waits for this answer any more.
    ///
    /// [`Event::Called`]: belljar_protocol::Event::Called
    pub async fn answer(
        &self,
        call: CallId,
        result: Result<ToolResult, ToolError>,
    ) -> Result<(), Error> {
        let none = Error::NoCall { call };
        if !self.is_in_call() {
            return Err(none);
        }
        let frame = self.answer_frame(call, result);
        let request = |done| CallRequest::Answer { call, frame, done };
        self.call_request(request).await.unwrap_or(Err(none))
    }

    /// Answers a question of the running cell, which [`Event::InputRequested`] reported. `None` is
    /// the end of input: `EOFError` in the session.
    ///
    /// # Errors
    /// [`Error::NoCall`] if no code waits for this answer any more, and [`Error::InputTooLong`] above 64 KiB.
    ///
    /// [`Event::InputRequested`]: belljar_protocol::Event::InputRequested
    pub async fn answer_input(&self, call: CallId, line: Option<String>) -> Result<(), Error> {
        let none = Error::NoCall { call };
        if !self.is_in_call() {
            return Err(none);
        }
        if line.as_ref().is_some_and(|line| line.len() > MAX_LINE) {
            return Err(Error::InputTooLong { limit: MAX_LINE });
        }
        let value = line.map_or(Value::Null, Value::String);
        let answer = CallAnswer::Value(&value);
        let number = call.number;
        // Text can always be written as JSON.
        let frame = encode_frame(&HostFrame::Answer { number, answer }, &[]).unwrap_or_default();
        let request = |done| CallRequest::Input { call, frame, done };
        self.call_request(request).await.unwrap_or(Err(none))
    }

    /// Answers the call during which a fork was made: in the fork, the cell continues from there.
    /// Its earlier output belongs to its parent.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn resume(&self, result: Result<ToolResult, ToolError>) -> CellRun {
        let waiting = self.now().and_then(|awake| *lock(&awake.handle.waiting));
        let call = waiting.unwrap_or_default();
        self.begin(Work::Answer(call, self.answer_frame(call, result)))
    }

    /// Whether a cell runs that has calls open, and a caller who answers them.
    pub(crate) fn is_in_call(&self) -> bool {
        self.now()
            .is_some_and(|awake| lock(&awake.handle.calls).is_some())
    }

    /// Passes a request to the driver of the cell; `None` if it has no call open any more.
    pub(crate) async fn call_request<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> CallRequest,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        {
            let awake = self.now()?;
            let calls = lock(&awake.handle.calls);
            calls.as_ref()?.send(request(done)).ok()?;
        }
        answer.await.ok()
    }

    /// The answer as a frame. What can't be sent becomes an error that the code in the session
    /// sees.
    fn answer_frame(&self, call: CallId, result: Result<ToolResult, ToolError>) -> Vec<u8> {
        let number = call.number;
        let frame = |answer: CallAnswer<'_>| {
            // Plain values can always be written as JSON.
            encode_frame(&HostFrame::Answer { number, answer }, &[]).unwrap_or_default()
        };
        let failed = |words: &str| {
            let words: String = words.chars().take(MAX_ERROR).collect();
            frame(CallAnswer::Error(&words))
        };
        match result {
            Ok(ToolResult::Value(value)) => {
                let inline = frame(CallAnswer::Value(&value));
                if inline.len() <= MAX_INLINE {
                    return inline;
                }
                drop(inline);
                match self.put_result(call, &value) {
                    Ok(path) => frame(CallAnswer::File(&path)),
                    Err(error) => failed(&format!("the result is too large: {error}")),
                }
            }
            Ok(ToolResult::Kept { marker }) => frame(CallAnswer::Kept(&marker)),
            Err(ToolError(words)) => failed(&words),
        }
    }

    fn put_result(&self, call: CallId, value: &Value) -> Result<String, Error> {
        let path = format!("{RESULTS}/{}-{}.json", call.cell, call.number);
        let json = serde_json::to_vec(value).map_err(Error::session)?;
        self.put(&path, &json)?;
        Ok(path)
    }
}

//! Tool calls and questions of the running cell, as the host counts them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use belljar_protocol::{Call, CallAnswer, CallDenial, CallId, Event, HostFrame, Question, visible};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::Error;
use crate::lock::lock;
use crate::session::guest::WaitingCall;
use crate::session::guest_error::ProtocolError;
use crate::session::handle::{AwakeSession, CallRequest};
use crate::state::forks::make_forks;
use crate::variables::SecretGrant;

use super::CellDriver;

/// The most unanswered calls, and the bytes of their arguments. The guest keeps to the same limits,
/// so more than this is not an accident. Calls that the code cancelled still count: each has an
/// event, which may be unread.
const MAX_UNANSWERED: usize = 4096;
const MAX_UNANSWERED_BYTES: usize = 8 << 20;

/// Answers are accepted as long as no more than this waits to be sent.
const MAX_OUTGOING: usize = 4 << 20;

/// The most characters of the name of an unknown tool.
const MAX_NAME: usize = 100;

/// The most questions of a cell: each has an event, which may be unread. The guest keeps to it.
const MAX_QUESTIONS: u32 = 1000;

/// The most bytes of a prompt. The guest cuts it to 1,000 characters.
const MAX_PROMPT: usize = 4096;

/// How long a cell may wait for answers to its questions before that counts as wall time: a cell
/// ends, also if nobody answers.
const MAX_QUESTION_TIME: Duration = Duration::from_mins(10);

/// Something that code in the session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    Tool {
        /// Whether the main thread waits for it alone.
        blocks: bool,
    },
    Question,
}

type Requests = (UnboundedSender<CallRequest>, UnboundedReceiver<CallRequest>);

pub(super) struct Calls {
    /// Requests of callers, who have the sender while calls are open; none if nobody answers.
    requests: Option<Requests>,
    /// Whether the caller answers calls of tools; whether it answers questions.
    answers: bool,
    input: bool,
    /// Number of the last one.
    made: u32,
    /// By number.
    open: BTreeMap<u32, Open>,
    questions: u32,
    /// Since when the open question waits, and how long those before it did.
    question_since: Option<Instant>,
    question_time: Duration,
    /// Bytes of arguments, by number.
    unanswered: BTreeMap<u32, usize>,
    unanswered_bytes: usize,
}

impl Calls {
    pub(super) fn new(answers: bool, input: bool) -> Self {
        Self {
            requests: (answers || input).then(unbounded_channel),
            answers,
            input,
            made: 0,
            open: BTreeMap::new(),
            questions: 0,
            question_since: None,
            question_time: Duration::ZERO,
            unanswered: BTreeMap::new(),
            unanswered_bytes: 0,
        }
    }

    pub(super) fn takes_questions(&self) -> bool {
        self.input
    }

    /// Whether the cell waits for its caller, so that its own time stands still.
    pub(super) fn pause_clock(&self) -> bool {
        let is_tool = |open: &Open| matches!(open, Open::Tool { .. });
        let asks = self.question_since.is_some_and(|since| {
            self.question_time.saturating_add(since.elapsed()) < MAX_QUESTION_TIME
        });
        asks || self.open.values().any(is_tool)
    }

    /// For a fork: the cell has made calls before.
    pub(super) fn go_on_from(&mut self, waiting: &WaitingCall) {
        self.made = waiting.made;
    }

    /// The next request of a caller; never if there can be none.
    pub(super) async fn next_request(&mut self, outgoing: usize) -> CallRequest {
        if !self.open.is_empty()
            && outgoing <= MAX_OUTGOING
            && let Some((_, requests)) = &mut self.requests
            && let Some(request) = requests.recv().await
        {
            return request;
        }
        std::future::pending().await
    }

    fn forget_answered(&mut self, number: u32) {
        self.unanswered_bytes -= self.unanswered.remove(&number).unwrap_or(0);
        self.close(number);
    }

    /// Nobody waits for it any more. What it was, if it was open.
    fn close(&mut self, number: u32) -> Option<Open> {
        let open = self.open.remove(&number)?;
        if open == Open::Question
            && let Some(since) = self.question_since.take()
        {
            self.question_time += since.elapsed();
        }
        Some(open)
    }
}

impl CellDriver<'_> {
    pub(super) fn take_call(&mut self, call: Call, arguments: &[u8]) -> Result<(), ProtocolError> {
        let calls = &mut self.calls;
        let number = call.number;
        if number <= calls.made || number > self.handle.limits.calls {
            let last = calls.made;
            return Err(ProtocolError::CallNumber { number, last });
        }
        calls.made = number;
        let id = CallId {
            cell: self.cell,
            number,
        };
        let taken = if calls.answers {
            let scrubber = self.handle.variables.scrubber();
            let arguments = scrubber.json(arguments);
            self.handle.tools.arguments(&call.tool, &arguments)
        } else {
            Err(CallDenial::NobodyAnswers)
        };
        let arguments_taken = match taken {
            Ok(arguments) => arguments,
            Err(why) => {
                let answer = CallAnswer::Denied(&why.to_string());
                self.send(&HostFrame::Answer { number, answer })?;
                let tool: String = call.tool.chars().take(MAX_NAME).collect();
                let tool = visible(&tool).into_owned();
                self.tell(Event::CallDenied {
                    call: id,
                    tool,
                    why,
                });
                return Ok(());
            }
        };
        calls.unanswered.insert(number, arguments.len());
        calls.unanswered_bytes += arguments.len();
        if calls.unanswered.len() > MAX_UNANSWERED || calls.unanswered_bytes > MAX_UNANSWERED_BYTES
        {
            return Err(ProtocolError::TooManyCalls);
        }
        let blocks = call.blocks;
        calls.open.insert(number, Open::Tool { blocks });
        self.offer_requests();
        // What was printed before it comes before it.
        self.read_rest();
        self.flush();
        self.tell(Event::Called {
            call: id,
            tool: call.tool,
            arguments: arguments_taken,
        });
        Ok(())
    }

    pub(super) fn take_question(&mut self, question: Question) -> Result<(), ProtocolError> {
        let calls = &mut self.calls;
        let number = question.number;
        if number <= calls.made {
            let last = calls.made;
            return Err(ProtocolError::QuestionNumber { number, last });
        }
        calls.made = number;
        calls.questions += 1;
        if calls.questions > MAX_QUESTIONS || question.prompt.len() > MAX_PROMPT {
            return Err(ProtocolError::TooManyQuestions);
        }
        if !calls.input {
            // A fork that was made in a call has another caller than its cell began with.
            let answer = CallAnswer::Denied("nobody answers");
            return self.send(&HostFrame::Answer { number, answer });
        }
        if calls.question_since.is_some() {
            return Err(ProtocolError::TwoQuestions);
        }
        calls.question_since = Some(Instant::now());
        calls.open.insert(number, Open::Question);
        self.offer_requests();
        // What was printed before it comes before it.
        self.read_rest();
        self.flush();
        self.tell(Event::InputRequested {
            call: CallId {
                cell: self.cell,
                number,
            },
            prompt: question.prompt,
            password: question.password,
        });
        Ok(())
    }

    /// The code in the session no longer waits for it.
    pub(super) fn cancel_call(&mut self, number: u32) {
        // An answer may have crossed it on the way.
        let Some(open) = self.calls.close(number) else {
            return;
        };
        self.offer_requests();
        let call = CallId {
            cell: self.cell,
            number,
        };
        self.tell(match open {
            Open::Tool { .. } => Event::CallCancelled { call },
            Open::Question => Event::InputClosed { call },
        });
    }

    /// The cell is over, and so are its calls.
    pub(super) fn cancel_calls(&mut self) {
        for number in self.calls.open.keys().copied().collect::<Vec<_>>() {
            self.cancel_call(number);
        }
    }

    /// Callers can send requests while a call is open.
    fn offer_requests(&mut self) {
        let Some((sender, requests)) = &mut self.calls.requests else {
            return;
        };
        let mut offered = lock(&self.handle.calls);
        if self.calls.open.is_empty() {
            *offered = None;
            // A late caller notices it by this.
            while requests.try_recv().is_ok() {}
        } else if offered.is_none() {
            *offered = Some(sender.clone());
        }
    }

    /// Performs a caller's request while the cell has calls open.
    pub(super) async fn take_request(&mut self, request: CallRequest) {
        match request {
            CallRequest::Answer { call, frame, done } => {
                let open = self.open_call(call);
                let result = if matches!(open, Some(Open::Tool { .. })) {
                    self.pass_answer(call, frame);
                    Ok(())
                } else {
                    Err(Error::NoCall { call })
                };
                let _ = done.send(result);
            }
            CallRequest::Input { call, frame, done } => {
                let result = if self.open_call(call) == Some(Open::Question) {
                    self.pass_answer(call, frame);
                    self.tell(Event::InputClosed { call });
                    Ok(())
                } else {
                    Err(Error::NoCall { call })
                };
                let _ = done.send(result);
            }
            CallRequest::Fork { count, grant, done } => {
                let _ = done.send(self.fork_in_call(count, &grant).await);
            }
        }
    }

    fn open_call(&self, call: CallId) -> Option<Open> {
        let open = self.calls.open.get(&call.number).copied();
        open.filter(|_| call.cell == self.cell)
    }

    fn pass_answer(&mut self, call: CallId, frame: Vec<u8>) {
        self.calls.forget_answered(call.number);
        self.outgoing.extend(frame);
        self.offer_requests();
    }

    async fn fork_in_call(
        &mut self,
        count: u32,
        grant: &SecretGrant,
    ) -> Result<Vec<AwakeSession>, Error> {
        let mut open = self.calls.open.iter();
        let (Some((&number, Open::Tool { blocks: true })), None) = (open.next(), open.next())
        else {
            return Err(Error::Fork(
                "its cell is running\nhint: fork between cells, or while the cell waits in one tool call on its main thread".into(),
            ));
        };
        self.send_rest().await?;
        self.guest.waiting = Some(WaitingCall {
            id: CallId {
                cell: self.cell,
                number,
            },
            nonce: String::new(),
            made: self.calls.made,
        });
        let forks = make_forks(self.handle, self.guest, count, grant).await;
        self.guest.waiting = None;
        forks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cell ends, also if nobody answers its questions.
    #[test]
    fn waiting_for_an_answer_is_free_for_ten_minutes() {
        let mut calls = Calls::new(false, true);
        let ask = |calls: &mut Calls, number| {
            calls.open.insert(number, Open::Question);
            calls.question_since = Some(Instant::now());
        };
        assert!(!calls.pause_clock());
        ask(&mut calls, 1);
        assert!(calls.pause_clock());
        assert_eq!(calls.close(1), Some(Open::Question));
        assert!(!calls.pause_clock());
        calls.question_time = MAX_QUESTION_TIME;
        ask(&mut calls, 2);
        assert!(!calls.pause_clock());
    }
}

//! Tool calls of the running cell, as the host counts them.

use std::collections::BTreeMap;

use belljar_protocol::{Call, CallAnswer, CallDenial, CallId, Event, HostFrame, visible};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::error::Error;
use crate::lock::lock;
use crate::session::guest::WaitingCall;
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

type Requests = (UnboundedSender<CallRequest>, UnboundedReceiver<CallRequest>);

pub(super) struct Calls {
    /// Requests of callers, who have the sender while calls are open; none if nobody answers.
    requests: Option<Requests>,
    /// Number of the last one.
    made: u32,
    /// Whether the main thread waits for it alone, by number.
    open: BTreeMap<u32, bool>,
    /// Bytes of arguments, by number.
    unanswered: BTreeMap<u32, usize>,
    unanswered_bytes: usize,
}

impl Calls {
    pub(super) fn new(answers: bool) -> Self {
        Self {
            requests: answers.then(unbounded_channel),
            made: 0,
            open: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            unanswered_bytes: 0,
        }
    }

    pub(super) fn are_open(&self) -> bool {
        !self.open.is_empty()
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

    fn forget_answered(&mut self, number: u32) -> bool {
        self.unanswered_bytes -= self.unanswered.remove(&number).unwrap_or(0);
        self.open.remove(&number).is_some()
    }
}

impl CellDriver<'_> {
    pub(super) fn take_call(&mut self, call: Call, arguments: &[u8]) -> Result<(), String> {
        let calls = &mut self.calls;
        let number = call.number;
        if number <= calls.made || number > self.handle.limits.calls {
            return Err(format!("call {number} after call {}", calls.made));
        }
        calls.made = number;
        let id = CallId {
            cell: self.cell,
            number,
        };
        let taken = if calls.requests.is_some() {
            let scrubber = self.handle.variables.scrubber();
            let arguments = scrubber.json(arguments.to_vec());
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
            return Err("too many calls at once".into());
        }
        calls.open.insert(number, call.blocks);
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

    /// The code in the session no longer waits for it.
    pub(super) fn cancel_call(&mut self, number: u32) {
        // An answer may have crossed it on the way.
        if self.calls.open.remove(&number).is_some() {
            self.offer_requests();
            self.tell(Event::CallCancelled {
                call: CallId {
                    cell: self.cell,
                    number,
                },
            });
        }
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
                let result = if call.cell == self.cell && self.calls.forget_answered(call.number) {
                    self.outgoing.extend(frame);
                    self.offer_requests();
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

    async fn fork_in_call(
        &mut self,
        count: u32,
        grant: &SecretGrant,
    ) -> Result<Vec<AwakeSession>, Error> {
        let mut open = self.calls.open.iter();
        let (Some((&number, true)), None) = (open.next(), open.next()) else {
            return Err(Error::Fork(
                "its cell does not wait in one call alone, on its main thread".into(),
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

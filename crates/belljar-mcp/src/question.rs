//! Asking a person through the client, before code runs.
//!
//! A decision is for the exact code that was shown. The view is complete, with deceptive characters
//! escaped.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use belljar_agent::{Approval, Approvals, Decision, ShellCommand, Subject};
use belljar_sandbox::protocol::plain;
use rmcp::model::{
    ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, EnumSchema, ProtocolVersion, ServerRequest,
};
use rmcp::service::RequestContext;
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::error::CallError;

/// The most characters of a person's message to the model.
const FEEDBACK: usize = 4000;

/// How a client is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AskMethod {
    /// By a request of ours while its call waits.
    Request,
    /// By a result that requests input; the call comes again with it.
    Retry,
    /// Not at all.
    Nobody,
}

impl AskMethod {
    pub(crate) fn from_context(context: &RequestContext<RoleServer>) -> Self {
        let capabilities = context.client_capabilities();
        let elicitation = capabilities.and_then(|capabilities| capabilities.elicitation);
        // A client that names neither forms nor URLs means forms.
        let forms = elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none());
        let version = context.protocol_version();
        let is_stateless = version.is_some_and(|it| it >= ProtocolVersion::V_2026_07_28);
        match (forms, is_stateless) {
            (false, _) => Self::Nobody,
            (true, true) => Self::Retry,
            (true, false) => Self::Request,
        }
    }
}

/// A question on its way to a person.
pub(crate) struct Question {
    approval: Approval,
    /// None if nobody can be asked.
    decided: oneshot::Sender<Option<Decision>>,
}

impl Question {
    /// As the client shows it.
    pub(crate) fn request(&self) -> ElicitRequest {
        ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
            meta: None,
            message: approval_text(&self.approval),
            requested_schema: form(),
        })
    }

    /// Reads what the client sent, which may be anything.
    pub(crate) fn answer(self, given: Option<Value>) {
        let given = given.and_then(|given| serde_json::from_value(given).ok());
        let _ = self.decided.send(Some(decision(given)));
    }

    /// Nobody can be asked.
    pub(crate) fn refuse(self) {
        let _ = self.decided.send(None);
    }

    /// Asks by a request of ours.
    pub(crate) async fn put_to(self, peer: Peer<RoleServer>) {
        let request = ServerRequest::ElicitRequest(self.request());
        let given = match peer.send_request(request).await {
            Ok(ClientResult::ElicitResult(result)) => Some(result),
            Ok(_) => None,
            Err(error) => {
                tracing::info!(%error, "the client did not ask its user");
                None
            }
        };
        let _ = self.decided.send(Some(decision(given)));
    }
}

/// Where work asks. Whoever follows the work passes the questions to the client.
#[derive(Clone)]
pub(crate) struct Questions {
    sender: mpsc::Sender<Question>,
    approvals: Arc<Mutex<Approvals>>,
}

impl Questions {
    /// With it, the receiver of the questions. What is accepted for the rest of the connection is
    /// noted in its approvals.
    pub(crate) fn new(approvals: Arc<Mutex<Approvals>>) -> (Self, mpsc::Receiver<Question>) {
        let (sender, arrive) = mpsc::channel(1);
        (Self { sender, approvals }, arrive)
    }

    /// The person's decision; where nobody can be asked, feedback that says so.
    pub(crate) async fn ask(&self, approval: &Approval) -> Decision {
        let asked = self.put(approval).await;
        asked.unwrap_or_else(|| Decision::Feedback {
            text: CallError::NobodyToAsk.to_string(),
        })
    }

    /// The person's decision, if one can be asked; a question that nobody passes on counts as declined.
    async fn put(&self, approval: &Approval) -> Option<Decision> {
        let (decided, decision) = oneshot::channel();
        let approval = approval.clone();
        let subject = approval.subject.clone();
        if self
            .sender
            .send(Question { approval, decided })
            .await
            .is_err()
        {
            return Some(Decision::Reject);
        }
        let decision = decision.await.unwrap_or(Some(Decision::Reject))?;
        if decision == (Decision::Accept { rest_of_run: true }) {
            let mut approvals = self
                .approvals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            approvals.allow(&subject);
        }
        Some(decision)
    }

    /// Asks whether code may run, if approval is needed; returns the reason if not.
    pub(crate) async fn ask_for_code(&self, code: &str) -> Result<(), CallError> {
        let asked = {
            let approvals = self
                .approvals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            approvals.ask_for_code(code)
        };
        self.decide("code", asked, |approval| approval.is_for_code(code))
            .await
    }

    /// The same for a command.
    pub(crate) async fn ask_for_command(&self, command: &ShellCommand) -> Result<(), CallError> {
        let asked = {
            let approvals = self
                .approvals
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            approvals.ask_for_command(command.clone())
        };
        self.decide("command", asked, |approval| {
            approval.is_for_command(command)
        })
        .await
    }

    async fn decide(
        &self,
        what: &'static str,
        asked: Option<Approval>,
        is_shown: impl FnOnce(&Approval) -> bool,
    ) -> Result<(), CallError> {
        let Some(approval) = asked else {
            return Ok(());
        };
        let feedback = match self.put(&approval).await {
            None => return Err(CallError::NobodyToAsk),
            // What runs is what was shown.
            Some(Decision::Accept { .. }) if is_shown(&approval) => return Ok(()),
            Some(Decision::Feedback { text }) => Some(text),
            Some(_) => None,
        };
        Err(CallError::NotApproved { what, feedback })
    }
}

const ACCEPT: &str = "accept";
const ACCEPT_REST: &str = "accept_rest";
const REJECT: &str = "reject";

fn form() -> ElicitationSchema {
    let choices = [ACCEPT, ACCEPT_REST, REJECT].map(str::to_owned);
    let choice = EnumSchema::builder(choices.to_vec())
        .untitled()
        .title("Decision")
        .description(
            "accept: run it; accept_rest: run it, and don't ask again in this connection for code that can \
             only do the same; reject: don't run it",
        )
        .build();
    ElicitationSchema::builder()
        .required_enum_schema("decision", choice)
        .optional_string_with("feedback", |text| {
            text.title("Feedback")
                .description("With reject: a message for the model")
        })
        .build_unchecked()
}

/// Anything that is not a clear yes is a no.
fn decision(given: Option<ElicitResult>) -> Decision {
    let content = match given {
        Some(result) if result.action == ElicitationAction::Accept => result.content,
        _ => None,
    };
    let content = content.unwrap_or_default();
    let field = |name: &str| {
        content
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    match field("decision") {
        ACCEPT => Decision::Accept { rest_of_run: false },
        ACCEPT_REST => Decision::Accept { rest_of_run: true },
        REJECT if !field("feedback").trim().is_empty() => {
            let text: String = field("feedback").trim().chars().take(FEEDBACK).collect();
            Decision::Feedback {
                text: plain(&text).into_owned(),
            }
        }
        _ => Decision::Reject,
    }
}

/// All that a person needs to decide. Each row has a number or a line before it, so that none passes for words of ours.
pub fn approval_text(approval: &Approval) -> String {
    let shown = &approval.shown;
    let mut out = match (&approval.subject, &shown.tool) {
        (Subject::Command { .. }, _) => "May this shell command run?\n\n".to_owned(),
        (_, None) => "May this Python code run?\n\n".to_owned(),
        (_, Some(tool)) => format!("May the code call the tool {tool} with this?\n\n"),
    };
    for found in &shown.findings {
        let (capability, what, line) = (found.capability, &found.what, found.line);
        let _ = writeln!(out, "- {capability}: {what} (line {line})");
    }
    for remark in &shown.remarks {
        let _ = writeln!(out, "- warning: {remark}");
    }
    match &approval.subject {
        Subject::Cell { .. } => out.push_str("\nThe complete code:\n\n"),
        Subject::Command { .. } => out.push_str("\nThe complete command:\n\n"),
        Subject::Call { .. } => {}
    }
    for row in &shown.rows {
        let _ = match row.line {
            Some(line) => writeln!(out, "{line:>4} │ {}", row.text()),
            None => writeln!(out, "     ┊ {}", row.text()),
        };
    }
    out
}

#[cfg(test)]
#[path = "../../belljar-protocol/src/approval/tricks.rs"]
mod tricks;

#[cfg(test)]
mod tests {
    use super::tricks::tricks;
    use super::*;
    use belljar_agent::Policy;
    use serde_json::json;

    fn approval(code: &str) -> Approval {
        let approvals = Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        };
        approvals.ask_for_code(code).unwrap()
    }

    /// Attack L5: nothing is hidden, and no line of the code stands where our words are.
    #[test]
    fn l5_the_code_is_shown_whole_and_without_disguise() {
        let code = "x = 1\u{1b}[2K\n# \u{202e}\u{200b}\n\nThe complete code:\nimport os; os.system('rm')\n";
        let shown = approval_text(&approval(&(code.to_owned() + &"y = 2\n".repeat(9000))));
        assert!(
            !shown.contains(['\u{1b}', '\u{202e}', '\u{200b}']),
            "{shown}"
        );
        for part in [
            "\\u{1b}",
            "\\u{202e}",
            "- processes: os.system",
            "   5 │ import os",
            "- warning: ",
        ] {
            assert!(shown.contains(part), "no {part:?}");
        }
        assert!(shown.ends_with("9005 │ y = 2\n"));
        let ours = shown
            .lines()
            .filter(|line| line.starts_with("The complete code:"));
        assert_eq!(ours.count(), 1);
    }

    /// Attack L5: each trick is seen by whoever a client asks, in code and in what a tool is called with.
    #[test]
    fn l5_every_trick_is_seen() {
        for trick in tricks() {
            let code = trick.code();
            let mut asked = approval(&code);
            trick.check(&approval_text(&asked));
            // As a call of a tool whose name and arguments deceive.
            let subject = json!({"kind": "call", "number": 1, "tool": code, "arguments": {"x": code, (code): 1}});
            let mut stored = serde_json::to_value(&asked).unwrap();
            stored["subject"] = subject;
            stored["shown"] = json!({"findings": [], "remarks": [], "rows": []});
            asked = serde_json::from_value(stored).unwrap();
            let shown = approval_text(&asked);
            let (head, rows) = shown.split_once("\n\n").unwrap();
            assert!(head.starts_with("May the code call the tool ") && !head.contains('\n'));
            trick.check_nothing_unseen(rows);
        }
    }

    #[test]
    fn what_is_no_clear_yes_is_a_no() {
        let decided = |given: Value| decision(serde_json::from_value(given).ok());
        let accept = |content: Value| decided(json!({"action": "accept", "content": content}));
        let yes = |rest_of_run| Decision::Accept { rest_of_run };
        assert_eq!(accept(json!({"decision": "accept"})), yes(false));
        assert_eq!(accept(json!({"decision": "accept_rest"})), yes(true));
        let told = accept(json!({"decision": "reject", "feedback": " no\u{1b}[2J "}));
        assert_eq!(told, Decision::Feedback { text: "no".into() });
        for no in [
            json!({"decision": "reject"}),
            json!({"decision": "edit", "code": "1"}),
            json!({"decision": "Accept"}),
            json!({"decision": true}),
            json!({"decision": ["accept"]}),
            json!({"feedback": "accept"}),
            json!("accept"),
            json!({}),
            Value::Null,
        ] {
            assert_eq!(accept(no.clone()), Decision::Reject, "{no}");
        }
        for action in ["decline", "cancel", "other"] {
            let given = json!({"action": action, "content": {"decision": "accept"}});
            assert_eq!(decided(given), Decision::Reject, "{action}");
        }
        assert_eq!(decided(json!(7)), Decision::Reject);
        assert_eq!(decision(None), Decision::Reject);
    }

    /// Attack L4: an approval is for the bytes that were shown.
    #[tokio::test]
    async fn l4_a_decision_is_for_the_code_that_was_shown() {
        let shown = approval("1");
        assert!(shown.is_for_code("1"));
        assert!(!shown.is_for_code("1 "));
        // Nobody carries the question.
        let (questions, arrive) = Questions::new(Arc::new(Mutex::new(Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        })));
        drop(arrive);
        assert_eq!(questions.ask(&shown).await, Decision::Reject);
        assert!(questions.ask_for_code("1").await.is_err());
    }
}

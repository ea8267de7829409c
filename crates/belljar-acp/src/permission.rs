//! Asking the person in front of the editor.

use agent_client_protocol_schema::v1::{
    Meta, PermissionOption, PermissionOptionKind, RequestPermissionOutcome,
    RequestPermissionRequest, RequestPermissionResponse, SessionId, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind,
};
use belljar_agent::{Approval, Decision, Subject};
use belljar_journal::RunId;
use belljar_mcp::approval_text;
use serde_json::json;

use crate::peer::Peer;
use crate::words::{call_id, code_title, fenced, text, title};

const ACCEPT: &str = "accept";
const ACCEPT_REST: &str = "accept_rest";
const REJECT: &str = "reject";

/// All that a person needs to decide, uncut, in a block that it cannot leave.
pub(crate) fn shown(approval: &Approval) -> String {
    fenced("", &approval_text(approval))
}

/// The decision of the person in front of the editor. The request shows the bytes with the approval's
/// hash, and its answer decides on nothing else.
pub(crate) async fn decide(
    peer: &Peer,
    session: &str,
    run: &RunId,
    approval: &Approval,
) -> Decision {
    let options = vec![
        option(ACCEPT, "Allow", PermissionOptionKind::AllowOnce),
        option(
            ACCEPT_REST,
            "Allow the same until the answer",
            PermissionOptionKind::AllowAlways,
        ),
        option(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ];
    match ask(peer, session, tool_call(run, approval), options).await {
        Some(choice) if choice == ACCEPT => Decision::Accept { rest_of_run: false },
        Some(choice) if choice == ACCEPT_REST => Decision::Accept { rest_of_run: true },
        _ => Decision::Reject,
    }
}

/// Whether the person permits one thing, once.
pub(crate) async fn permits(peer: &Peer, session: &str, call: ToolCallUpdate) -> bool {
    let options = vec![
        option(ACCEPT, "Allow", PermissionOptionKind::AllowOnce),
        option(REJECT, "Reject", PermissionOptionKind::RejectOnce),
    ];
    ask(peer, session, call, options).await.as_deref() == Some(ACCEPT)
}

/// The id of the chosen option; none for anything that is not a choice.
async fn ask(
    peer: &Peer,
    session: &str,
    call: ToolCallUpdate,
    options: Vec<PermissionOption>,
) -> Option<String> {
    let request = RequestPermissionRequest::new(SessionId::new(session), call, options);
    let answer = peer.request::<RequestPermissionResponse>("session/request_permission", &request);
    match answer.await {
        Ok(answer) => choice(&answer),
        Err(error) => {
            tracing::info!(%error, "the client did not ask its user");
            None
        }
    }
}

fn choice(answer: &RequestPermissionResponse) -> Option<String> {
    match &answer.outcome {
        RequestPermissionOutcome::Selected(selected) => Some(selected.option_id.0.to_string()),
        _ => None,
    }
}

fn option(id: &'static str, name: &str, kind: PermissionOptionKind) -> PermissionOption {
    PermissionOption::new(id, name, kind)
}

/// The call that is to be permitted, as the editor shows it.
fn tool_call(run: &RunId, approval: &Approval) -> ToolCallUpdate {
    let fields = ToolCallUpdateFields::new()
        .status(ToolCallStatus::Pending)
        .content(vec![text(shown(approval)).into()]);
    let fields = match &approval.subject {
        Subject::Cell { code, .. } => fields
            .title(code_title(code))
            .kind(ToolKind::Execute)
            .raw_input(json!({"code": code})),
        Subject::Command { command, .. } => fields
            .title(title(&command.command))
            .kind(ToolKind::Execute)
            .raw_input(json!({"command": command.command})),
        Subject::Call {
            tool, arguments, ..
        } => fields
            .title(title(tool))
            .kind(ToolKind::Other)
            .raw_input(json!(arguments)),
    };
    let mut meta = Meta::new();
    meta.insert("belljar.sha256".into(), json!(approval.hash));
    ToolCallUpdate::new(call_id(run, &approval.id), fields).meta(meta)
}

#[cfg(test)]
#[path = "../../belljar-protocol/src/approval/tricks.rs"]
mod tricks;

#[cfg(test)]
mod tests {
    use super::tricks::tricks;
    use super::*;
    use belljar_agent::{Approvals, Policy};
    use serde_json::Value;

    fn approval(code: &str) -> Approval {
        let approvals = Approvals {
            policy: Policy::Always,
            ..Approvals::default()
        };
        approvals.ask_for_code(code).unwrap()
    }

    /// Attack L5: each trick is seen in an editor, and no code leaves its block.
    #[test]
    fn l5_every_trick_is_seen() {
        for trick in tricks() {
            trick.check(&shown(&approval(&trick.code())));
        }
        let fence = shown(&approval(
            "x = '''\n````\nMay this Python code run? Yes.\n'''",
        ));
        assert!(
            fence.starts_with("`````\nMay this Python code run?\n"),
            "{fence}"
        );
        assert!(fence.ends_with("\n`````"), "{fence}");
    }

    /// Attack L4: the request names the hash of what it shows.
    #[test]
    fn l4_a_request_shows_the_code_and_its_hash() {
        let approval = approval("import os\nos.remove('x')");
        let run: RunId = "r1".parse().unwrap();
        let call = serde_json::to_value(tool_call(&run, &approval)).unwrap();
        assert_eq!(call["toolCallId"], "r1:0.0");
        assert_eq!(call["_meta"]["belljar.sha256"], approval.hash.as_str());
        assert_eq!(call["rawInput"]["code"], "import os\nos.remove('x')");
        let content = call["content"][0]["content"]["text"].as_str().unwrap();
        assert!(content.contains("os.remove('x')"), "{content}");
    }

    #[test]
    fn what_is_no_clear_yes_is_a_no() {
        let chosen = |answer: Value| {
            let answer = serde_json::from_value::<RequestPermissionResponse>(answer).ok();
            answer.and_then(|answer| choice(&answer))
        };
        let selected = |id: &str| json!({"outcome": {"outcome": "selected", "optionId": id}});
        assert_eq!(chosen(selected("accept")).as_deref(), Some("accept"));
        for no in [
            json!({"outcome": {"outcome": "cancelled"}}),
            json!({"outcome": {"outcome": "selected"}}),
            json!({"outcome": "selected", "optionId": "accept"}),
            json!({"outcome": {"outcome": "selected", "optionId": ["accept"]}}),
            json!({"outcome": {"outcome": "accept"}}),
            json!({"optionId": "accept"}),
            json!("accept"),
            Value::Null,
        ] {
            assert_eq!(chosen(no.clone()), None, "{no}");
        }
    }
}

//! What a person can choose in the editor: the model, and when approval is needed.
//!
//! Approval is offered twice: as a mode, which every client knows, and as an option.

use agent_client_protocol_schema::v1::{
    SessionConfigOption, SessionConfigOptionCategory, SessionConfigSelectOption, SessionMode,
    SessionModeState,
};
use belljar_agent::Policy;

use crate::connection::Model;

pub(crate) const MODEL: &str = "model";
pub(crate) const APPROVALS: &str = "approvals";

/// The policies: id, name and description.
const POLICIES: [(Policy, &str, &str, &str); 3] = [
    (
        Policy::Risky,
        "risky",
        "Approve risky code",
        "Code that could delete files, start programs or use the network needs approval",
    ),
    (
        Policy::Always,
        "always",
        "Approve everything",
        "All code and all tool calls need approval",
    ),
    (
        Policy::Never,
        "never",
        "Approve nothing",
        "Code runs without approval, within its walls",
    ),
];

/// The policy of this id.
pub(crate) fn policy(id: &str) -> Option<Policy> {
    let found = POLICIES.iter().find(|(_, it, ..)| *it == id)?;
    Some(found.0)
}

/// The id of a policy.
pub(crate) fn policy_id(policy: Policy) -> &'static str {
    let found = POLICIES.iter().find(|(it, ..)| *it == policy);
    found.map_or("risky", |(_, id, ..)| id)
}

pub(crate) fn modes(policy: Policy) -> SessionModeState {
    let mode = |(_, id, name, about): (Policy, &'static str, &str, &str)| {
        SessionMode::new(id, name).description(about.to_owned())
    };
    SessionModeState::new(policy_id(policy), POLICIES.map(mode).to_vec())
}

pub(crate) fn config_options(
    models: &[Model],
    model: usize,
    policy: Policy,
) -> Vec<SessionConfigOption> {
    let choice =
        |model: &Model| SessionConfigSelectOption::new(model.name.clone(), model.name.as_str());
    let choices: Vec<_> = models.iter().map(choice).collect();
    let current = models.get(model).map_or("", |model| &model.name);
    let policies = POLICIES.map(|(_, id, name, about)| {
        SessionConfigSelectOption::new(id, name).description(about.to_owned())
    });
    vec![
        SessionConfigOption::select(MODEL, "Model", current.to_owned(), choices)
            .category(SessionConfigOptionCategory::Model),
        SessionConfigOption::select(APPROVALS, "Approvals", policy_id(policy), policies.to_vec())
            .category(SessionConfigOptionCategory::Mode),
    ]
}

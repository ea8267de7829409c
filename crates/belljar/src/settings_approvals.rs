//! Settings of approvals.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use belljar_agent::{Approvals, Policy};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::settings::{Layers, Origin, SettingsArgs};
use crate::settings_list::POLICIES;

/// Whether somebody is there to be asked.
pub(crate) fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

impl Layers<'_> {
    pub(crate) fn approvals(&mut self, flags: &SettingsArgs) -> Approvals {
        let usual = if is_attended() { "risky" } else { "never" };
        let policy = self.text(
            "approvals.policy",
            "approvals.policy",
            flags.approve().map(str::to_owned),
            Some((usual.to_owned(), Origin::Default)),
        );
        Approvals {
            policy: policy.and_then(|word| read(&word)).unwrap_or_default(),
            tools: self.policies("approvals.tools."),
            capabilities: self.policies("approvals.capabilities."),
        }
    }

    /// Policies by name, for all names that the file has.
    fn policies<K: DeserializeOwned + Ord>(&mut self, prefix: &str) -> BTreeMap<K, Policy> {
        let mut policies = BTreeMap::new();
        for key in self.below(prefix) {
            let name = format!("{prefix}{key}");
            let found = self.text(&name, &name, None, None);
            if let (Some(key), Some(policy)) = (read(&key), found.and_then(|word| read(&word))) {
                policies.insert(key, policy);
            }
        }
        policies
    }
}

/// A word as what it stands for.
fn read<T: DeserializeOwned>(word: &str) -> Option<T> {
    serde_json::from_value(Value::from(word)).ok()
}

/// The policies by name.
pub(crate) fn policy_names() -> clap::builder::PossibleValuesParser {
    clap::builder::PossibleValuesParser::new(POLICIES)
}

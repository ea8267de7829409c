//! What is written of a case that held. Shared by the attack suites of the sandbox and of the service.

use std::path::PathBuf;

/// What an attack would win, from the worst on.
#[derive(Clone, Copy, Debug)]
#[allow(
    dead_code,
    reason = "the words of the catalogue; not each has a case in each suite"
)]
pub(crate) enum Severity {
    Escape,
    HostLeak,
    Exfil,
    Lateral,
    HostDos,
    PeerDos,
    InternalEsc,
    InternalRead,
    SelfDos,
    Integrity,
}

/// A line of docs/security-tests.md.
pub(crate) struct Record {
    pub(crate) id: &'static str,
    pub(crate) severity: Severity,
    pub(crate) attack: &'static str,
    pub(crate) expectation: &'static str,
}

impl Record {
    /// Writes that the case held to the directory `BELLJAR_ATTACK_RESULTS`, if the variable is set.
    pub(crate) fn write(&self, control: &str, privileged: bool) {
        let Some(directory) = std::env::var_os("BELLJAR_ATTACK_RESULTS") else {
            return;
        };
        let record = serde_json::json!({
            "id": self.id,
            "severity": format!("{:?}", self.severity).replace("Dos", "DoS"),
            "attack": self.attack,
            "expectation": self.expectation,
            "control": control,
            "privileged": privileged,
            "result": "held",
        });
        let path = PathBuf::from(directory).join(format!("{}.json", self.id));
        assert!(!path.exists(), "two cases are named {}", self.id);
        std::fs::write(path, record.to_string()).unwrap();
    }
}

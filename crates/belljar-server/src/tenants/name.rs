//! Names of tenants, scopes of keys.

use std::fmt;
use std::str::FromStr;

/// The name of a tenant: letters, digits and hyphens, so that it means nothing special anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantName(String);

impl TenantName {
    /// The tenant that the first key belongs to.
    pub const FIRST: &str = "default";

    /// The tenant of demo mode.
    pub(crate) fn demo() -> Self {
        Self("demo".to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TenantName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) || text.starts_with('-') {
            return Err(
                "a tenant name has only lower-case letters, digits and hyphens, at most 64".into(),
            );
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for TenantName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Scope of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Start and use sessions.
    Sessions,
    /// Start and use runs.
    Runs,
    /// Administer the service.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sessions, Self::Runs, Self::Admin];

    /// As text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Runs => "runs",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Scope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| "expected the scope `sessions`, `runs` or `admin`".into())
    }
}

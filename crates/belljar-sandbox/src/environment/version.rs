//! The version of a Python.

use serde::{Deserialize, Serialize};

/// Written as text (`"3.11.7"`), compared as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct PythonVersion(pub(super) u8, pub(super) u8, pub(super) u8);

impl PythonVersion {
    /// The oldest Python that sessions can run.
    pub(super) const OLDEST: Self = Self(3, 10, 0);
}

impl std::fmt::Display for PythonVersion {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl From<PythonVersion> for String {
    fn from(version: PythonVersion) -> Self {
        version.to_string()
    }
}

impl TryFrom<String> for PythonVersion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let mut parts = text.split('.').map(str::parse::<u8>);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(micro)), None) => {
                Ok(Self(major, minor, micro))
            }
            _ => Err(format!("`{text}` is not a Python version like `3.12.1`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_as_numbers() {
        let version = PythonVersion::try_from("3.9.18".to_owned()).unwrap();
        assert_eq!(version, PythonVersion(3, 9, 18));
        assert!(version < PythonVersion::OLDEST, "3.9 is older than 3.10");
        assert_eq!(String::from(version), "3.9.18");
        for wrong in ["", "3", "3.11", "3.11.7.1", "3.x.1", "3.11.700"] {
            assert!(
                PythonVersion::try_from(wrong.to_owned()).is_err(),
                "{wrong}"
            );
        }
    }
}

//! The tools that are granted to a session: their Python names, and the check of calls. The host's
//! own list decides, whatever the guest says.

mod python;
mod schema;
mod signature;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use belljar_protocol::{CallDenial, GuestTool, ToolStub};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::lock::lock;
use crate::session::tools_error::ToolsError;

pub use signature::ToolSignature;

/// The most tools of one session, and their bytes as JSON.
const MAX_TOOLS: usize = 1000;
const MAX_BYTES: usize = 4 << 20;

/// The most bytes of the arguments of one call, as JSON; larger values are passed as files.
pub(crate) const MAX_ARGUMENTS: usize = 256 << 10;

/// The tools of one session.
#[derive(Debug, Default)]
pub(crate) struct Toolset {
    /// Schemas of the arguments by name of the tool.
    schemas: HashMap<String, Value>,
    stubs: Vec<GuestTool>,
    revoked: Mutex<HashSet<String>>,
}

impl Clone for Toolset {
    /// Revoking a tool in one does not affect the other.
    fn clone(&self) -> Self {
        Self {
            schemas: self.schemas.clone(),
            stubs: self.stubs.clone(),
            revoked: Mutex::new(self.revoked().clone()),
        }
    }
}

impl Toolset {
    /// # Errors
    /// [`Error::Tools`] if one can't be granted, or two would have the same name in Python.
    pub(crate) fn new(tools: &[ToolStub]) -> Result<Self, Error> {
        let mut toolset = Self::default();
        let mut names: HashMap<String, &str> = HashMap::new();
        let bytes = |tool| serde_json::to_vec(tool).map_or(0, |json| json.len());
        if tools.len() > MAX_TOOLS || tools.iter().map(bytes).sum::<usize>() > MAX_BYTES {
            return Err(ToolsError::TooMany {
                tools: MAX_TOOLS,
                bytes: MAX_BYTES,
            }
            .into());
        }
        for tool in tools {
            let stub = python::stub(tool)?;
            if let Some(other) = names.insert(stub.identifier.clone(), &tool.name) {
                return Err(ToolsError::SameName {
                    one: other.to_owned(),
                    other: tool.name.clone(),
                    identifier: stub.identifier,
                }
                .into());
            }
            toolset
                .schemas
                .insert(tool.name.clone(), tool.parameters.clone());
            toolset.stubs.push(stub);
        }
        Ok(toolset)
    }

    pub(crate) fn stubs(&self) -> &[GuestTool] {
        &self.stubs
    }

    /// The arguments of a call, if it is allowed.
    pub(crate) fn arguments(
        &self,
        tool: &str,
        json: &[u8],
    ) -> Result<Map<String, Value>, CallDenial> {
        let schema = self.schemas.get(tool).ok_or(CallDenial::NotGranted)?;
        if self.revoked().contains(tool) {
            return Err(CallDenial::NotGranted);
        }
        let wrong = |why: String| CallDenial::Arguments { why };
        if json.len() > MAX_ARGUMENTS {
            return Err(wrong(format!("they have {} bytes", json.len())));
        }
        let arguments: Value =
            serde_json::from_slice(json).map_err(|error| wrong(error.to_string()))?;
        if let Some(why) = schema::mismatch(&arguments, schema, "") {
            return Err(wrong(why));
        }
        match arguments {
            Value::Object(arguments) => Ok(arguments),
            _ => Err(wrong("they are no object".into())),
        }
    }

    /// Denies calls of a tool from now on.
    pub(crate) fn revoke(&self, tool: &str) {
        self.revoked().insert(tool.to_owned());
    }

    fn revoked(&self) -> std::sync::MutexGuard<'_, HashSet<String>> {
        lock(&self.revoked)
    }
}

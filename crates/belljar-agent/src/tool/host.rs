//! Tools of the host that code in a run's session may call, over the bridge.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use belljar_protocol::{ToolError, ToolStub};
use belljar_sandbox::ToolSignature;
use futures_util::future::{BoxFuture, FutureExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The effects of a tool: whether approval is needed, and whether an interrupted call may be
/// performed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffects {
    /// None: it only reads.
    None,
    /// Some, but two calls with one [key](Invocation::key) have the effect of one.
    Once,
    /// Some, with each call.
    #[default]
    EachCall,
}

/// A tool that is granted to the code of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantedTool {
    /// Its definition for code.
    #[serde(flatten)]
    pub stub: ToolStub,
    /// Its effects.
    #[serde(default)]
    pub effects: ToolEffects,
    /// Whether the model can call it by itself too, without code.
    #[serde(default)]
    pub direct: bool,
}

impl GrantedTool {
    /// Its name for the model: the same as in code.
    pub(crate) fn direct_name(&self) -> Option<String> {
        let signature = self.direct.then(|| ToolSignature::new(&self.stub))?.ok()?;
        Some(signature.identifier().to_owned())
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The arguments by name; they match the tool's schema.
    pub arguments: Map<String, Value>,
    /// A unique id among all calls of all runs. A call that is performed again, because the host
    /// died, has the same.
    pub key: String,
}

/// The result of a tool.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A value.
    Value(Value),
    /// Something that is not JSON: it stays with the host, represented by a marker, which is
    /// replaced in the answer of the run. Text is inserted itself, anything else as the name of a
    /// file.
    Kept {
        /// Its MIME type, such as `image/png`.
        mime: String,
        /// It.
        data: Vec<u8>,
    },
}

type Perform =
    dyn Fn(Invocation) -> BoxFuture<'static, Result<Given, ToolError>> + Send + Sync + 'static;

/// A tool, and its implementation.
#[derive(Clone)]
pub struct HostTool {
    /// Its definition for a run.
    pub granted: GrantedTool,
    perform: Arc<Perform>,
}

impl HostTool {
    /// A tool with this implementation.
    pub fn new<F>(
        stub: ToolStub,
        effects: ToolEffects,
        perform: impl Fn(Invocation) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Given, ToolError>> + Send + 'static,
    {
        Self {
            granted: GrantedTool {
                stub,
                effects,
                direct: false,
            },
            perform: Arc::new(move |invocation| perform(invocation).boxed()),
        }
    }

    /// The same tool, which the model can call by itself too: the model then reads each result, all
    /// of it.
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.granted.direct = true;
        self
    }

    /// Performs a call.
    pub fn perform(&self, invocation: Invocation) -> BoxFuture<'static, Result<Given, ToolError>> {
        (self.perform)(invocation)
    }
}

impl fmt::Debug for HostTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostTool").field(&self.granted).finish()
    }
}

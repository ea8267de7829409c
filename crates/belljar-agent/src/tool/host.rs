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

/// What a tool does to the world: whether a person is asked before, and whether a call that a host
/// began and did not end may be made once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolEffects {
    /// Nothing: it only looks.
    None,
    /// Something, but two calls with one [key](Invocation::key) do it once.
    Once,
    /// Something, each time that it is called.
    #[default]
    EachCall,
}

/// A tool that is granted to the code of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GrantedTool {
    /// What code needs to know to call it.
    #[serde(flatten)]
    pub stub: ToolStub,
    /// What it does.
    #[serde(default)]
    pub effects: ToolEffects,
    /// Whether the model can call it by itself too, without code.
    #[serde(default)]
    pub direct: bool,
}

impl GrantedTool {
    /// The name by which the model calls it: that which its code has for it.
    pub(crate) fn direct_name(&self) -> Option<String> {
        let signature = self.direct.then(|| ToolSignature::new(&self.stub))?.ok()?;
        Some(signature.identifier().to_owned())
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The arguments by name; they fit the tool's schema.
    pub arguments: Map<String, Value>,
    /// Names this call among all of all runs. A call that is made once more, because the host died
    /// while it was performed, has the same.
    pub key: String,
}

/// What a tool gave.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A value.
    Value(Value),
    /// Something that is not JSON: it stays with the host, and a marker stands for it, which is
    /// replaced in the answer of the run. Text by itself, anything else by the name of a file.
    Kept {
        /// What kind of data it is, such as `image/png`.
        mime: String,
        /// It.
        data: Vec<u8>,
    },
}

type Perform =
    dyn Fn(Invocation) -> BoxFuture<'static, Result<Given, ToolError>> + Send + Sync + 'static;

/// A tool, and how it is performed.
#[derive(Clone)]
pub struct HostTool {
    /// Its definition for a run.
    pub granted: GrantedTool,
    perform: Arc<Perform>,
}

impl HostTool {
    /// A tool that does this when it is called.
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

    /// The same tool, which the model can call by itself too: each result then is read by the model,
    /// all of it.
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

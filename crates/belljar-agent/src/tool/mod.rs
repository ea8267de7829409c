//! Tools for a model. One definition of a tool yields its description for the model, the schema of
//! its arguments and its name.

mod compute;
mod host;
mod plan;
mod python;
mod read_file;

use belljar_protocol::{Language, plain};

use crate::ToolSpec;

pub use compute::{COMPUTE, Computations, Computed, Evaluator, serve_computation};
pub use host::{Given, GrantedTool, HostTool, Invocation, ToolEffects};
pub use plan::{
    PLAN, Plan, PlanChange, PlanFault, PlanStatistics, PlanTree, PlanUpdate, Task, TaskStatus,
};
pub use read_file::READ_FILE;
pub(crate) use read_file::{ReadFile, read};

/// The tools of these names, after `python` and `answer`, which every run has, and before those of the
/// host that the model can call by itself. The place where tools are registered.
pub(crate) fn specs(
    names: &[String],
    granted: &[GrantedTool],
    language: Language,
) -> Vec<ToolSpec> {
    let mut specs = vec![python::spec(language), python::answer_spec(language)];
    for name in names {
        specs.extend(match name.as_str() {
            COMPUTE => Some(Computations::spec(language)),
            PLAN => Some(Plan::spec(language)),
            READ_FILE => Some(read_file::spec(language)),
            _ => None,
        });
    }
    for tool in granted {
        specs.extend(tool.direct_name().map(|name| ToolSpec {
            name,
            description: plain(&tool.stub.description).into_owned(),
            parameters: tool.stub.parameters.clone(),
        }));
    }
    specs
}

/// What every tool asks for.
fn purpose(language: Language) -> serde_json::Value {
    let description = match language {
        Language::English => "Why this tool is called now.",
        Language::Chinese => "工具调用的目的，即调用该工具的具体场景或问题。",
    };
    serde_json::json!({ "type": "string", "description": description })
}

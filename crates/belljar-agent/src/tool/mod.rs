//! Tools for a model. A [`Tool`] owns its name, its description, the schema of its arguments, its
//! implementation, and where users can choose it. To add one, write its file and add it to [`TOOLS`].

mod api;
mod compute;
mod host;
mod plan;
mod python;
mod read_file;
mod run_command;

use belljar_protocol::{Language, plain};

use crate::ToolSpec;

pub use api::{Surface, Tool, ToolContext, ToolOutput, ToolState};
pub use compute::{COMPUTE, Computations, Computed, Evaluator, serve_computation};
pub use host::{Given, GrantedTool, HostTool, Invocation, ToolEffects};
pub use plan::{
    PLAN, Plan, PlanChange, PlanFault, PlanStatistics, PlanTree, PlanUpdate, Task, TaskStatus,
};
pub use read_file::READ_FILE;
pub use run_command::{command_state, command_text};

/// All tools that a run can have besides `python` and `answer`.
pub const TOOLS: &[&dyn Tool] = &[
    &compute::tool::Compute,
    &plan::tool::PlanTool,
    &read_file::ReadFileTool,
    &run_command::RunCommandTool,
];

/// The tool that the model knows by this name.
pub fn find_tool(name: &str) -> Option<&'static dyn Tool> {
    TOOLS.iter().copied().find(|tool| tool.name() == name)
}

/// The tools that users can choose there.
pub fn tools_on(surface: Surface) -> impl Iterator<Item = &'static dyn Tool> {
    let tools = TOOLS.iter().copied();
    tools.filter(move |tool| tool.surfaces().contains(&surface))
}

/// The tools of these names, after `python` and `answer`, which every run has, and before those of the
/// host that the model can call by itself.
pub(crate) fn specs(
    names: &[String],
    granted: &[GrantedTool],
    language: Language,
) -> Vec<ToolSpec> {
    let mut specs = vec![python::spec(language), python::answer_spec(language)];
    let chosen = names.iter().filter_map(|name| find_tool(name));
    specs.extend(chosen.map(|tool| tool.spec(language)));
    for tool in granted {
        specs.extend(tool.direct_name().map(|name| ToolSpec {
            name,
            description: plain(&tool.stub.description).into_owned(),
            parameters: tool.stub.parameters.clone(),
        }));
    }
    specs
}

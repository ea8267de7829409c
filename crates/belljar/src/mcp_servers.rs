//! The MCP servers of the settings, and the tools that they give to runs.

use std::path::PathBuf;

use anyhow::Context as _;
use belljar_agent::HostTool;
use belljar_mcp::{Accept, ClientError, Connection, Withheld, connect};
use belljar_sandbox::protocol::Language;

use crate::settings::Settings;
use crate::show;

/// Connects to each server at once; in the order of their names.
pub(crate) async fn connect_all(
    settings: &Settings,
) -> anyhow::Result<Vec<(String, Result<Connection, ClientError>)>> {
    let mut connecting = Vec::new();
    for (name, spec) in settings.servers.clone() {
        let pins = pins(settings);
        connecting.push(tokio::spawn(async move {
            let connection = connect(&name, &spec, &pins, Accept::AsBefore).await;
            (name, connection)
        }));
    }
    let mut connected = Vec::new();
    for task in connecting {
        connected.push(task.await.context("connecting to an MCP server")?);
    }
    Ok(connected)
}

/// Where it is kept which tools were accepted.
pub(crate) fn pins(settings: &Settings) -> PathBuf {
    settings.data_dir.join("mcp")
}

/// The tools of all servers, and the connections, which they need. Prints tools that are not granted to
/// standard error. An unusable server is an error: a run would look for its tools in vain.
pub(crate) async fn mcp_tools(
    settings: &Settings,
) -> anyhow::Result<(Vec<HostTool>, Vec<Connection>)> {
    let (mut tools, mut connections) = (Vec::new(), Vec::new());
    for (_, connection) in connect_all(settings).await? {
        let connection = connection?;
        for line in held_back(&connection, settings.language) {
            show::note(&line);
        }
        let direct = settings.servers.get(connection.name());
        let direct = direct.is_some_and(|server| server.direct);
        let given = connection.tools().into_iter();
        tools.extend(given.map(|tool| if direct { tool.direct() } else { tool }));
        connections.push(connection);
    }
    Ok((tools, connections))
}

/// Notes for the user about tools that are not granted.
fn held_back(connection: &Connection, language: Language) -> Vec<String> {
    let (server, texts) = (connection.name(), &language.texts().settings);
    let mut lines = Vec::new();
    let mut can_be_accepted = false;
    for tool in connection.offered() {
        let Some(withheld) = tool
            .withheld
            .as_ref()
            .filter(|withheld| **withheld != Withheld::NotWanted)
        else {
            continue;
        };
        let (name, why) = (&tool.name, show::message(&withheld.to_string()));
        lines.push(texts.tool_withheld(server, name, &why));
        can_be_accepted |= !matches!(withheld, Withheld::Unusable(_));
    }
    if can_be_accepted {
        lines.push(texts.accept_tools(server));
    }
    lines
}

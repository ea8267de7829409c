//! Tools of MCP servers that the client names: for the code of a session's runs, as those of the
//! settings.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use agent_client_protocol_schema::v1::McpServer;
use belljar_agent::HostTool;
use belljar_mcp::{Accept, Connection, ServerSpec, Source, connect};

use crate::words::quoted;

/// The most servers of a session.
const MOST_SERVERS: usize = 16;

/// Connects to the servers of a client. An unusable one is an error: a run would look for its tools in
/// vain.
pub(crate) async fn connect_all(
    servers: Vec<McpServer>,
    before: &[HostTool],
    pins: &Path,
) -> Result<(Vec<HostTool>, Vec<Connection>), String> {
    if servers.len() > MOST_SERVERS {
        return Err(format!("`mcpServers` may have {MOST_SERVERS} servers"));
    }
    let mut names: HashSet<String> = before.iter().filter_map(server_of).collect();
    let (mut tools, mut connections) = (Vec::new(), Vec::new());
    for server in servers {
        let (name, spec) = spec(server)?;
        if !names.insert(name.clone()) {
            return Err(format!(
                "there are two MCP servers with the name `{name}`: the settings file of Belljar may have one of them"
            ));
        }
        let connection = connect(&name, &spec, pins, Accept::AsBefore).await;
        let connection = connection.map_err(|error| error.to_string())?;
        let withheld = connection.offered().filter(|tool| tool.withheld.is_some());
        for tool in withheld {
            tracing::warn!(server = name, tool = tool.name, "a tool is not granted");
        }
        tools.extend(connection.tools());
        connections.push(connection);
    }
    Ok((tools, connections))
}

/// The server of a tool, whose name begins with it.
fn server_of(tool: &HostTool) -> Option<String> {
    let (server, _) = tool.granted.stub.name.split_once('_')?;
    Some(server.to_owned())
}

/// A server as one of the settings. Names there are short and plain, because code writes them.
fn spec(server: McpServer) -> Result<(String, ServerSpec), String> {
    let (name, spec) = match server {
        McpServer::Stdio(server) => {
            let program = server.command.to_str().map(str::to_owned);
            let program = program.ok_or("the command of an MCP server is not valid UTF-8")?;
            let variables = server.env.into_iter();
            let env: BTreeMap<String, Source> = variables
                .map(|variable| (variable.name, Source::Text(variable.value)))
                .collect();
            let spec = ServerSpec {
                command: [vec![program], server.args].concat(),
                env,
                ..ServerSpec::default()
            };
            (server.name, spec)
        }
        McpServer::Http(server) if server.headers.is_empty() => {
            let spec = ServerSpec {
                url: Some(server.url),
                ..ServerSpec::default()
            };
            (server.name, spec)
        }
        McpServer::Http(server) => {
            return Err(format!(
                "the MCP server {} needs headers: name it in the settings file of Belljar, which reads keys from files or variables",
                quoted(&server.name)
            ));
        }
        McpServer::Sse(server) => {
            return Err(format!(
                "the MCP server {} uses SSE, which Belljar does not speak: use its HTTP address",
                quoted(&server.name)
            ));
        }
        _ => return Err("an MCP server has an unknown transport".into()),
    };
    let plain = name.to_lowercase();
    let plain = plain.chars().filter(char::is_ascii_alphanumeric);
    let plain: String = plain.take(24).collect();
    match ServerSpec::check_name(&plain) {
        Ok(()) => Ok((plain, spec)),
        Err(why) => Err(format!("the MCP server {}: {why}", quoted(&name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(server: Value) -> Result<(String, ServerSpec), String> {
        spec(serde_json::from_value(server).unwrap())
    }

    #[test]
    fn servers_of_a_client_are_servers_of_the_settings() {
        let (name, spec) = read(json!({
            "name": "My Files-2", "command": "/bin/files", "args": ["--all"],
            "env": [{"name": "A", "value": "variable:HOME"}],
        }))
        .unwrap();
        assert_eq!(name, "myfiles2");
        assert_eq!(spec.command, ["/bin/files", "--all"]);
        // A value is never read as the place of one.
        assert_eq!(spec.env["A"], Source::Text("variable:HOME".into()));
        let http =
            json!({"type": "http", "name": "web", "url": "https://x.org/mcp", "headers": []});
        assert_eq!(read(http).unwrap().1.url.unwrap(), "https://x.org/mcp");
        let header = json!([{"name": "Authorization", "value": "Bearer secret"}]);
        for (wrong, why) in [
            (
                json!({"type": "http", "name": "web", "url": "https://x.org", "headers": header}),
                "needs headers",
            ),
            (
                json!({"type": "sse", "name": "web", "url": "https://x.org", "headers": []}),
                "uses SSE",
            ),
            (
                json!({"name": "数据", "command": "/bin/x", "args": [], "env": []}),
                "lower-case letters",
            ),
        ] {
            let refused = read(wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}

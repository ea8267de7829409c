//! `belljar mcp-servers`: the servers of the settings, their tools, and accepting these.

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::bail;
use belljar_agent::ToolEffects;
use belljar_mcp::{Accept, Connection, OfferedTool, connect};
use belljar_sandbox::protocol::Language;
use clap::{Args, Subcommand};

use crate::mcp_servers::{connect_all, pins};
use crate::settings::{self, Settings};
use crate::show;

#[derive(Debug, Args)]
#[command(after_help = "\
Servers are configured in the settings file (`belljar config path`):
  [mcp.files]
  command = [\"npx\", \"-y\", \"@modelcontextprotocol/server-filesystem\", \"/srv/data\"]

The first connection to a server accepts all its tools. Tools that are added or changed later are not \
granted to runs until you accept them here.

Exit code: 0, or 1 if a server cannot be used.")]
pub(crate) struct McpServersArgs {
    #[command(subcommand)]
    command: Option<McpServersCommand>,
}

#[derive(Debug, Subcommand)]
enum McpServersCommand {
    /// Accept the current tools of a server
    Accept {
        /// Name of the server in the settings
        name: String,
    },
}

pub(crate) async fn run(args: McpServersArgs) -> anyhow::Result<ExitCode> {
    let settings = settings::load()?;
    match args.command {
        None => list(&settings).await,
        Some(McpServersCommand::Accept { name }) => accept(&settings, &name).await,
    }
}

async fn list(settings: &Settings) -> anyhow::Result<ExitCode> {
    if settings.servers.is_empty() {
        let texts = &settings.language.texts().settings;
        show::note(&texts.no_servers(&settings.file.display()));
    }
    let mut code = ExitCode::SUCCESS;
    for (_, connection) in connect_all(settings).await? {
        match connection {
            Ok(connection) => print(&connection, settings.language)?,
            Err(error) => {
                show::error(&error.into());
                code = ExitCode::from(1);
            }
        }
    }
    Ok(code)
}

async fn accept(settings: &Settings, name: &str) -> anyhow::Result<ExitCode> {
    let Some(spec) = settings.servers.get(name) else {
        let names: Vec<&str> = settings.servers.keys().map(String::as_str).collect();
        let texts = &settings.language.texts().settings;
        bail!(texts.no_such_server(name, &names.join(", ")));
    };
    let connection = connect(name, spec, &pins(settings), Accept::Now).await?;
    print(&connection, settings.language)?;
    Ok(ExitCode::SUCCESS)
}

fn print(connection: &Connection, language: Language) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let (name, revision) = (connection.name(), connection.revision());
    let granted = connection
        .offered()
        .filter(|tool| tool.withheld.is_none())
        .count();
    let counted = language.texts().settings.granted(granted);
    writeln!(out, "{name}  MCP {revision}  {counted}")?;
    for tool in connection.offered() {
        writeln!(out, "  {}", line(tool, language))?;
        let first = tool.description.lines().next().unwrap_or_default();
        if !first.is_empty() {
            writeln!(out, "      {first}")?;
        }
    }
    Ok(())
}

fn line(tool: &OfferedTool, language: Language) -> String {
    let shown = tool.signature.as_ref().unwrap_or(&tool.name);
    let texts = &language.texts().settings;
    let effects = match tool.effects {
        ToolEffects::None => texts.read_only,
        ToolEffects::Once => texts.idempotent,
        ToolEffects::EachCall => "",
    };
    match &tool.withheld {
        Some(withheld) => texts.not_granted(shown, &show::message(&withheld.to_string())),
        None if effects.is_empty() => shown.clone(),
        None => format!("{shown}  ({effects})"),
    }
}

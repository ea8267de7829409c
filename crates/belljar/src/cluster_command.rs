//! `belljar cluster`: the nodes of a cluster, their runs and sessions.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use belljar_journal::{ClusterStatus, Eviction, NodeStatus};
use clap::Subcommand;

use crate::serve_command::open_objects;
use crate::{show, table};

/// How often `--wait` looks, besides the second that each look takes.
const LOOK: Duration = Duration::from_secs(1);

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show live nodes with their states, runs and sessions
    Status {
        /// PostgreSQL database of the cluster
        #[arg(long, value_name = "ADDRESS")]
        database: String,
    },
    /// Empty a node: others continue its runs and sessions
    Drain {
        /// Id or address of the node, as `belljar cluster status` prints it
        node: String,
        /// PostgreSQL database of the cluster
        #[arg(long, value_name = "ADDRESS")]
        database: String,
        /// Wait until the node has no runs and no sessions
        #[arg(long)]
        wait: bool,
    },
    /// Remove a lost node: others take its runs and sessions
    Evict {
        /// Id of the node, as `belljar cluster status` prints it
        node: String,
        /// PostgreSQL database of the cluster
        #[arg(long, value_name = "ADDRESS")]
        database: String,
    },
    /// Copy the data of a stopped single node into the cluster
    Import {
        /// Data directory of the node
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
        /// PostgreSQL database of the cluster
        #[arg(long, value_name = "ADDRESS")]
        database: String,
        /// Object store of the cluster: `s3://BUCKET/PREFIX?endpoint=URL&region=REGION`
        #[arg(long, value_name = "ADDRESS")]
        objects: String,
    },
}

pub(crate) async fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    match command {
        ClusterCommand::Status { database } => status(&database).await?,
        ClusterCommand::Drain {
            node,
            database,
            wait,
        } => drain(&node, &database, wait).await?,
        ClusterCommand::Evict { node, database } => evict(&node, &database).await?,
        ClusterCommand::Import {
            data,
            database,
            objects,
        } => Box::pin(import(&data, &database, &objects)).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn status(database: &str) -> anyhow::Result<()> {
    let status = ClusterStatus::read(database).await?;
    table::print(
        &["node", "address", "since", "state", "runs", "sessions"],
        &[false, false, false, false, true, true],
        status.nodes.into_iter().map(row),
    )?;
    show::note(&format!(
        "[runs without a node: {} ready, {} waiting for approval, {} stuck, {} of dead nodes; sessions without a node: {}]",
        status.ready, status.waiting, status.stuck, status.orphaned, status.free_sessions
    ));
    Ok(())
}

fn row(node: NodeStatus) -> [String; 6] {
    let state = if !node.is_beating {
        "silent"
    } else if node.is_drained() {
        "drained"
    } else if node.is_draining {
        "draining"
    } else {
        "beats"
    };
    [
        node.place.name,
        node.place.address,
        table::time(node.started),
        state.to_owned(),
        node.runs.to_string(),
        node.sessions
            .map_or_else(String::new, |count| count.to_string()),
    ]
}

async fn import(data: &Path, database: &str, objects: &str) -> anyhow::Result<()> {
    let objects = open_objects(objects)?;
    let Some(imported) = belljar_server::import(data, database, &objects).await? else {
        show::note("[the data were imported before: nothing is left to do]");
        return Ok(());
    };
    let records = imported.records.iter();
    let records: Vec<String> = records
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    show::note(&format!(
        "[node {} imported: {}, {} hibernated sessions, {} runs with {} events and {} objects ({} bytes)]",
        imported.node,
        records.join(", "),
        imported.sessions,
        imported.runs,
        imported.events,
        imported.objects,
        imported.bytes
    ));
    if imported.missing > 0 {
        show::note(&format!(
            "[warning: {} objects that events name were missing or damaged before]",
            imported.missing
        ));
    }
    Ok(())
}

async fn evict(node: &str, database: &str) -> anyhow::Result<()> {
    match ClusterStatus::evict(database, node).await? {
        Eviction::Done { runs, sessions } => show::note(&format!(
            "[node {node} is removed; for other nodes: runs {runs}, sessions that had moved to it {sessions}; its own sessions are \
             lost unless it returns]"
        )),
        Eviction::Beating => bail!(
            "node `{node}` beats\nhint: stop it, or empty it with `belljar cluster drain {node}`"
        ),
        Eviction::Unknown => bail!(
            "the cluster knows no node with the id `{}`\nhint: list nodes with `belljar cluster status`",
            node.escape_debug()
        ),
    }
    Ok(())
}

async fn drain(node: &str, database: &str, wait: bool) -> anyhow::Result<()> {
    let drained = ClusterStatus::drain(database, node).await?;
    let Some(name) = drained.first() else {
        bail!(
            "no live node has the id or address `{}`\nhint: list nodes with `belljar cluster status`",
            node.escape_debug()
        );
    };
    if !wait {
        show::note(&format!("[node {name} is draining]"));
        return Ok(());
    }
    let mut told = None;
    loop {
        let status = ClusterStatus::read(database).await?;
        let mut nodes = status.nodes.into_iter();
        let Some(status) = nodes.find(|status| status.place.name == *name) else {
            bail!("node `{name}` ended before it was drained");
        };
        if status.is_drained() {
            show::note(&format!("[node {name} is drained]"));
            return Ok(());
        }
        if !status.is_draining {
            bail!("node `{name}` was started again before it was drained");
        }
        let left = (status.runs, status.sessions);
        if told != Some(left) {
            told = Some(left);
            let sessions = status.sessions.unwrap_or_default();
            show::note(&format!(
                "[node {name} is draining: {} runs and {sessions} sessions left]",
                status.runs
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

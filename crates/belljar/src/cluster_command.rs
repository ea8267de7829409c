//! `belljar cluster`: the nodes of a cluster and their runs.

use std::process::ExitCode;

use belljar_journal::{ClusterStatus, NodeStatus};
use clap::Subcommand;

use crate::{show, table};

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show live nodes, whether they beat, and how many runs each drives
    Status {
        /// PostgreSQL database of the cluster
        #[arg(long, value_name = "ADDRESS")]
        database: String,
    },
}

pub(crate) async fn run(command: ClusterCommand) -> anyhow::Result<ExitCode> {
    let ClusterCommand::Status { database } = command;
    let status = ClusterStatus::read(&database).await?;
    table::print(
        &["node", "address", "since", "beats", "runs"],
        &[false, false, false, false, true],
        status.nodes.into_iter().map(row),
    )?;
    show::note(&format!(
        "[runs without a node: {} ready, {} waiting for approval, {} stuck, {} of dead nodes]",
        status.ready, status.waiting, status.stuck, status.orphaned
    ));
    Ok(ExitCode::SUCCESS)
}

fn row(node: NodeStatus) -> [String; 5] {
    let beats = if node.is_beating { "yes" } else { "no" };
    [
        node.place.name,
        node.place.address,
        table::time(node.started),
        beats.to_owned(),
        node.runs.to_string(),
    ]
}

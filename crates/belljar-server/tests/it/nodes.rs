//! Nodes of a cluster for tests: services with one database and one object store.

use std::time::Duration;

use belljar_journal::Objects;
use belljar_server::{ClusterOptions, Scope, ServerOptions};
use belljar_test_model::{Scripted, ScriptedModel};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tokio::net::TcpListener;

use crate::runs::offering;
use crate::support::{Client, World, world_in};
use crate::weed;

pub(crate) const BOTH: [Scope; 2] = [Scope::Sessions, Scope::Runs];

/// What the nodes of a test share.
pub(crate) struct Cluster {
    pub(crate) database: String,
    pub(crate) objects: Objects,
    pub(crate) model: ScriptedModel,
    change: fn(&mut ServerOptions),
}

impl Cluster {
    pub(crate) fn new(database: String, script: impl IntoIterator<Item = Scripted>) -> Self {
        Self {
            database,
            objects: weed::objects(),
            model: ScriptedModel::start(script).unwrap(),
            change: |_| {},
        }
    }

    /// The same, whose nodes have other options.
    pub(crate) fn with(self, change: fn(&mut ServerOptions)) -> Self {
        Self { change, ..self }
    }

    pub(crate) fn options(&self) -> ServerOptions {
        let mut options = offering(&self.model);
        options.objects = Some(self.objects.clone());
        options.cluster = Some(ClusterOptions {
            // A machine that is busy with other tests.
            lease: Duration::from_secs(3),
            ..ClusterOptions::new(self.database.clone(), "")
        });
        (self.change)(&mut options);
        options
    }

    pub(crate) async fn node(&self) -> World {
        world_in(tempfile::tempdir().unwrap(), self.options()).await
    }

    /// Two nodes, and one client at each of them.
    pub(crate) async fn two(&self) -> (World, World, Client, Client) {
        let (one, two) = (self.node().await, self.node().await);
        let here = one.client_with("a", &BOTH).await;
        let other = two.client_by(here.key.clone());
        (one, two, here, other)
    }

    /// What a run has in the object store.
    pub(crate) async fn objects_of(&self, run: &str) -> Vec<String> {
        let run = format!("/{}/", run.rsplit('/').next().unwrap());
        let mut names = Vec::new();
        let see = |name: &str, _| names.push(name.to_owned());
        self.objects.below("runs").list(see).await.unwrap();
        names.retain(|name| name.contains(&run));
        names
    }

    /// Leads other nodes to an address that takes connections and says nothing, in place of that of a node.
    pub(crate) async fn silence(&self, node: &World) -> TcpListener {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, node) = (silent.local_addr().unwrap(), node_id(node));
        let moved =
            format!("UPDATE belljar.lives SET address = 'http://{address}' WHERE node = '{node}'");
        self.sql(&moved).await;
        silent
    }

    /// Snapshots of sessions in the object store.
    pub(crate) async fn snapshots(&self) -> Vec<String> {
        let mut names = Vec::new();
        let see = |name: &str, _| names.push(name.to_owned());
        self.objects.below("sessions").list(see).await.unwrap();
        names
    }

    /// The rows of a table of the cluster.
    pub(crate) async fn count(&self, table: &str) -> i64 {
        let mut connection = PgConnection::connect(&self.database).await.unwrap();
        let count = format!("SELECT count(*) FROM belljar.{table}");
        let row = sqlx::query(AssertSqlSafe(count)).fetch_one(&mut connection);
        row.await.unwrap().get(0)
    }

    pub(crate) async fn sql(&self, statement: &str) {
        let mut connection = PgConnection::connect(&self.database).await.unwrap();
        let query = sqlx::query(AssertSqlSafe(statement.to_owned()));
        query.execute(&mut connection).await.unwrap();
    }
}

/// The id of a node.
pub(crate) fn node_id(node: &World) -> String {
    std::fs::read_to_string(node.data.path().join("node")).unwrap()
}

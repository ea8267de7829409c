//! The same tests on a cluster. With `BELLJAR_TEST_NODES=3`, the service of a test is three nodes, and each connection of
//! its clients goes to the next of them, as by way of a load balancer. The tests say nothing of it: see `.ci/nodes`.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belljar_server::{ClusterOptions, ServerOptions, Tenants};
use tokio::io::{AsyncWriteExt as _, copy, sink};
use tokio::net::{TcpListener, TcpStream};

use crate::{postgres, weed};

/// In the data directory of the first node, so that the next start of a service finds what this one had.
const OTHERS: &str = "other-nodes";

/// How many nodes the service of a test has.
fn count() -> usize {
    std::env::var("BELLJAR_TEST_NODES").map_or(1, |count| count.parse().unwrap())
}

/// Whether services have several nodes, unless their tests begin the nodes themselves.
pub(crate) fn is_on() -> bool {
    count() > 1
}

/// Lets the service of a test be one of several nodes; the data directories of all of them.
pub(crate) fn spread(data: &Path, options: &mut ServerOptions) -> Vec<PathBuf> {
    let mut all = vec![data.to_owned()];
    if !is_on() || options.cluster.is_some() || options.demo {
        return all;
    }
    let (database, objects) = shared(data);
    options.cluster = Some(ClusterOptions {
        // A machine that is busy with other tests.
        lease: Duration::from_secs(3),
        ..ClusterOptions::new(database, "")
    });
    options.objects.get_or_insert_with(|| weed::open(&objects));
    for node in 1..count() {
        let other = data.join(OTHERS).join(node.to_string());
        fs::create_dir_all(&other).unwrap();
        all.push(other);
    }
    all
}

/// The keys of a service with this data directory, as another process opens them.
pub(crate) async fn tenants(data: &Path) -> Tenants {
    let opened = if is_on() {
        Box::pin(Tenants::connect(&shared(data).0)).await
    } else {
        Tenants::open(data).await
    };
    opened.unwrap()
}

/// The database and the objects of a service with this data directory.
fn shared(data: &Path) -> (String, String) {
    let kept = data.join(OTHERS).join("shared");
    let text = fs::read_to_string(&kept).unwrap_or_else(|_| {
        let objects = weed::address(&weed::prefix(), weed::port());
        let text = format!("{} {objects}", postgres::database());
        fs::create_dir_all(kept.parent().unwrap()).unwrap();
        fs::write(&kept, &text).unwrap();
        text
    });
    let (database, objects) = text.split_once(' ').unwrap();
    (database.to_owned(), objects.to_owned())
}

/// Leads each connection to the next node, until it is dropped.
pub(crate) struct Balancer {
    pub(crate) address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Balancer {
    pub(crate) async fn start(nodes: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            for turn in 0.. {
                let Ok((client, _)) = listener.accept().await else {
                    return;
                };
                let first = turn % nodes.len();
                tokio::spawn(lead(client, [&nodes[first..], &nodes[..first]].concat()));
            }
        });
        Self { address, task }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Leads a connection to the first of these that takes it.
async fn lead(client: TcpStream, nodes: Vec<SocketAddr>) {
    let Ok(node) = TcpStream::connect(&nodes[..]).await else {
        return;
    };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_node, mut to_node) = node.into_split();
    let back = async {
        let _ = copy(&mut from_node, &mut to_client).await;
        let _ = to_client.shutdown().await;
    };
    tokio::pin!(back);
    tokio::select! {
        sent = copy(&mut from_client, &mut to_node) => match sent {
            // The client has hung up.
            Ok(_) => return,
            // The node takes no more, and may have answered.
            Err(_) => back.as_mut().await,
        },
        () = &mut back => {}
    }
    // An answer is lost if its connection is closed before all that was sent is read.
    let mut nowhere = sink();
    let rest = copy(&mut from_client, &mut nowhere);
    let _ = tokio::time::timeout(Duration::from_secs(1), rest).await;
}

//! The data of a stopped single node, brought into a cluster.
//!
//! Runs come first, then hibernated sessions, and last the keys, by one transaction with an audit event. Nobody uses the
//! data before. What is there already is compared instead, so that a repetition continues an import that was broken off.

use std::fs::TryLockError;
use std::io;
use std::path::Path;

use belljar_agent::{FILE_BYTES, RunError, RunsDirectory};
use belljar_journal::{Blobs, FetchedObject, FileDigest, Import, MovedSession, Objects, RunId};

use crate::error::ServerError;
use crate::handover::is_stored;
use crate::node::{make_private_file, node_id};
use crate::object_snapshots::{claim, new_name};
use crate::runs::objects_of_runs;
use crate::service::hibernated;
use crate::tenants::{KeptSession, Saved, TenantName, Tenants};

/// The runs that are listed at once.
const PAGE: usize = 500;

/// What an import has brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The id of the node.
    pub node: String,
    /// Keys, quotas and so on, by their names, and how many.
    pub records: Vec<(&'static str, usize)>,
    /// Runs.
    pub runs: u64,
    /// Their events.
    pub events: u64,
    /// Their large values, artifacts and saved sessions.
    pub objects: u64,
    /// The bytes of these.
    pub bytes: u64,
    /// Those of them that the node did not have either, or had damaged.
    pub missing: u64,
    /// Hibernated sessions.
    pub sessions: u64,
}

/// Brings the data of a single node into the cluster of a database and an object store. None if all of it was brought
/// before. The data directory is only read.
///
/// # Errors
/// If a service uses the directory, if its blobs are in an object store, or if the cluster has other data with the same ids.
pub async fn import(
    data: &Path,
    database: &str,
    objects: &Objects,
) -> Result<Option<Imported>, ServerError> {
    let failed = |source| ServerError::Io {
        path: data.to_owned(),
        source,
    };
    let from = match Tenants::open_existing(data).await? {
        Some(from) if data.join("node").is_file() => from,
        _ => return Err(ServerError::NoData(data.to_owned())),
    };
    let lock = make_private_file(&data.join("server.lock")).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(ServerError::Running(data.to_owned())),
        Err(TryLockError::Error(error)) => return Err(failed(error)),
    }
    let mut imported = Imported {
        node: node_id(data).map_err(failed)?,
        ..Imported::default()
    };
    let tenants = Tenants::connect(database).await?;
    let into = Import::connect(database).await?;
    objects.check().await?;
    claim(objects, &into.cluster().await?).await?;
    if tenants.has_imported(&imported.node).await? {
        return Ok(None);
    }
    tenants.check_import(&from, &imported.node).await?;
    let spool = tempfile::tempdir().map_err(failed)?;
    let runs = data.join("runs");
    let directories = match std::fs::read_dir(&runs) {
        Ok(directories) => directories.collect::<io::Result<Vec<_>>>(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    for entry in directories.map_err(failed)? {
        let name = entry.file_name();
        let tenant = name
            .to_str()
            .and_then(|name| name.parse::<TenantName>().ok());
        if let Some(tenant) = tenant.filter(|_| RunsDirectory::exists(&entry.path())) {
            let objects = objects_of_runs(objects).below(tenant.as_str());
            let to = Blobs::in_objects(objects, spool.path(), FILE_BYTES).await?;
            Box::pin(import_runs(
                &entry.path(),
                &tenant,
                &into,
                &to,
                &mut imported,
            ))
            .await?;
        }
    }
    for kept in from.kept_sessions().await? {
        import_session(data, kept, &into, objects, spool.path(), &mut imported).await?;
    }
    imported.records = tenants.import(&from, &imported.node).await?;
    Ok(Some(imported))
}

async fn import_runs(
    path: &Path,
    tenant: &TenantName,
    into: &Import,
    to: &Blobs,
    imported: &mut Imported,
) -> Result<(), ServerError> {
    let failed = |error: RunError| ServerError::Run(Box::new(error));
    let directory = RunsDirectory::open(path).await.map_err(failed)?;
    let mut ids: Vec<RunId> = Vec::new();
    loop {
        let page = directory.journal().runs(ids.last(), PAGE).await?;
        if page.is_empty() {
            break;
        }
        ids.extend(page.into_iter().map(|run| run.first.run));
    }
    // The oldest first: lists have the newest first.
    for id in ids.iter().rev() {
        let run = Box::pin(directory.import(id, tenant.as_str(), into, to)).await;
        let run = run.map_err(failed)?;
        imported.runs += 1;
        imported.events += run.events;
        imported.objects += run.objects;
        imported.bytes += run.bytes;
        imported.missing += run.missing;
    }
    Ok(())
}

async fn import_session(
    data: &Path,
    kept: KeptSession,
    into: &Import,
    objects: &Objects,
    spool: &Path,
    imported: &mut Imported,
) -> Result<(), ServerError> {
    let Saved::Snapshot(file) = kept.saved else {
        // It was lost before.
        return Ok(());
    };
    if is_stored(&file) {
        return Err(ServerError::InObjects(data.to_owned()));
    }
    let id = kept.id;
    let tenant = kept.tenant.as_str();
    match into.session(&id).await? {
        Some(found) if found == tenant => return Ok(()),
        Some(_) => return Err(ServerError::InCluster(id)),
        None => {}
    }
    let snapshots = objects.below("sessions");
    // The same for each attempt: what one has stored is replaced by the next.
    let unique = id.replace('-', "");
    let name = |digest: &FileDigest| new_name(&imported.node, &unique, digest);
    let digest = snapshots
        .put_file(&hibernated(data).join(file), name)
        .await?;
    let snapshot = name(&digest);
    match snapshots.get_file(&snapshot, &digest, spool).await? {
        FetchedObject::File(_) => {}
        FetchedObject::Missing | FetchedObject::Damaged => {
            return Err(belljar_journal::Error::CorruptBlob(digest.hash).into());
        }
    }
    into.add_session(&MovedSession {
        id,
        tenant: tenant.to_owned(),
        record: kept.record,
        snapshot,
    })
    .await?;
    imported.sessions += 1;
    Ok(())
}

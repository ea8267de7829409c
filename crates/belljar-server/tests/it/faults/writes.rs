//! The writes: what each needs before, how a client causes it, and what must hold when the fault is gone.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use belljar_journal::failpoint;
use belljar_server::{Quota, Tenants};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use super::{Desk, Fault};
use crate::deletion::holds;
use crate::support::{Ask as _, Client};

/// Which of the small disks a write goes to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Disk {
    Data,
    Engine,
}

/// A write of a store.
pub(super) struct Write {
    pub(super) store: &'static str,
    pub(super) what: &'static str,
    pub(super) point: Option<&'static str>,
    pub(super) disk: Disk,
    /// Whether it opens a file by its name, so that it finds a mount that is read-only from now on. Files of SQLite are
    /// open already.
    by_name: bool,
    act: Act,
}

/// How a client causes it.
#[derive(Clone, Copy)]
enum Act {
    CreateKey,
    RevokeKey,
    SetQuota,
    SetIsolation,
    EndSession,
    StartRunOnce,
    StartRun,
    StartRunWithFile,
    Decide,
    InterruptRun,
    FinishRun,
    CancelRun,
    DeleteRun,
    LabelRun,
    ShareRun,
    RevokeShare,
    SweepRun,
    RunCell,
    PutFile,
    Archive,
    Snapshot,
    Hibernate,
    StartSession,
    LongOutput,
}

const fn write(
    store: &'static str,
    what: &'static str,
    point: &'static str,
    by_name: bool,
    act: Act,
) -> Write {
    Write {
        store,
        what,
        point: Some(point),
        disk: Disk::Data,
        by_name,
        act,
    }
}

/// All of them.
pub(super) const WRITES: &[Write] = &[
    write(
        "tenants",
        "create a key",
        "tenants.create_key",
        false,
        Act::CreateKey,
    ),
    write(
        "tenants",
        "revoke a key",
        "tenants.revoke_key",
        false,
        Act::RevokeKey,
    ),
    write(
        "tenants",
        "set a quota",
        "tenants.set_quotas",
        false,
        Act::SetQuota,
    ),
    write(
        "tenants",
        "set the least isolation",
        "tenants.set_isolation",
        false,
        Act::SetIsolation,
    ),
    write(
        "tenants",
        "audit the end of a session",
        "tenants.record",
        false,
        Act::EndSession,
    ),
    write(
        "tenants",
        "note the run of an idempotency key",
        "tenants.keep_run_key",
        false,
        Act::StartRunOnce,
    ),
    write(
        "tenants",
        "forget the run of an idempotency key",
        "tenants.forget_run",
        false,
        Act::DeleteRun,
    ),
    write(
        "tenants",
        "set the title of a run",
        "tenants.relabel_run",
        false,
        Act::LabelRun,
    ),
    write(
        "tenants",
        "make a share link",
        "tenants.share_run",
        false,
        Act::ShareRun,
    ),
    write(
        "tenants",
        "revoke a share link",
        "tenants.revoke_share",
        false,
        Act::RevokeShare,
    ),
    write(
        "tenants",
        "count the use of a tenant",
        "tenants.keep_spent",
        false,
        Act::RunCell,
    ),
    write(
        "journal",
        "begin a run",
        "journal.append",
        false,
        Act::StartRun,
    ),
    write(
        "journal",
        "a decision of a person",
        "journal.append",
        false,
        Act::Decide,
    ),
    write(
        "journal",
        "the end of a cell",
        "journal.append",
        false,
        Act::InterruptRun,
    ),
    write(
        "journal",
        "cancel a run",
        "journal.append",
        false,
        Act::CancelRun,
    ),
    write(
        "journal",
        "delete a run",
        "journal.remove",
        false,
        Act::DeleteRun,
    ),
    write(
        "journal",
        "give the space of a deleted run back",
        "journal.compact",
        false,
        Act::SweepRun,
    ),
    write(
        "blobs",
        "keep a file of a task",
        "blobs.put",
        true,
        Act::StartRunWithFile,
    ),
    write(
        "blobs",
        "remove what deleted runs had",
        "blobs.remove",
        false,
        Act::SweepRun,
    ),
    write(
        "runs",
        "make the directory of a run",
        "runs.directory",
        true,
        Act::StartRun,
    ),
    write(
        "runs",
        "save the session after a cell",
        "runs.save_session",
        true,
        Act::FinishRun,
    ),
    write(
        "runs",
        "keep an artifact",
        "runs.artifact",
        true,
        Act::FinishRun,
    ),
    write(
        "runs",
        "delete the files of a run",
        "runs.delete_files",
        true,
        Act::DeleteRun,
    ),
    write("spool", "upload a file", "spool.upload", true, Act::PutFile),
    write(
        "spool",
        "make an archive",
        "spool.archive",
        true,
        Act::Archive,
    ),
    write(
        "spool",
        "make a snapshot",
        "spool.snapshot",
        true,
        Act::Snapshot,
    ),
    Write {
        store: "hibernated sessions",
        what: "hibernate a session",
        point: None,
        disk: Disk::Data,
        by_name: true,
        act: Act::Hibernate,
    },
    of_engine("engine", "start a session", Act::StartSession),
    of_engine("engine", "keep the whole of a long output", Act::LongOutput),
];

/// A write to the engine's directory.
const fn of_engine(store: &'static str, what: &'static str, act: Act) -> Write {
    Write {
        store,
        what,
        point: None,
        disk: Disk::Engine,
        by_name: false,
        act,
    }
}

/// What held when the fault was gone, and what was acknowledged.
#[derive(Default)]
pub(super) struct Held {
    pub(super) words: &'static str,
    pub(super) key: Option<String>,
    pub(super) run: Option<String>,
}

fn held(words: &'static str) -> Held {
    Held {
        words,
        ..Held::default()
    }
}

const FULL: &str = "507 `storage_full`";
const FAILED: &str = "503 `storage_failed`";

/// The status and the code of an answer; a typed refusal says when to come again.
async fn saw(request: RequestBuilder) -> String {
    words(request.send().await.unwrap()).await
}

async fn words(response: Response) -> String {
    let status = response.status();
    if status.is_success() {
        return status.as_u16().to_string();
    }
    let again = response.headers().contains_key("retry-after");
    let problem: Value = response.json().await.unwrap();
    assert!(again, "{problem:#}");
    let text = problem.to_string();
    for leak in ["/tmp", "os error", "sqlite"] {
        assert!(!text.contains(leak), "{text}");
    }
    format!(
        "{} `{}`",
        status.as_u16(),
        problem["code"].as_str().unwrap()
    )
}

impl Write {
    pub(super) fn meets(&self, fault: Fault) -> bool {
        match fault {
            Fault::Full | Fault::Failed => true,
            Fault::ReadOnly => self.by_name,
            Fault::Injected(..) => self.point.is_some(),
        }
    }

    /// What it is about: the path or the name of something.
    pub(super) async fn prepare(&self, desk: &Desk) -> String {
        let client = &desk.client;
        match self.act {
            Act::SetQuota | Act::SetIsolation | Act::StartSession => String::new(),
            Act::CreateKey => key_count(&desk.admin).await.to_string(),
            Act::StartRun | Act::StartRunOnce | Act::StartRunWithFile => {
                run_count(client).await.to_string()
            }
            Act::RevokeKey => {
                let key = json!({"tenant": "a", "scopes": ["sessions"]});
                let made = desk.admin.post("/v1/admin/keys", key).json_with(201).await;
                made["key"].as_str().unwrap().to_owned()
            }
            Act::EndSession
            | Act::RunCell
            | Act::PutFile
            | Act::Archive
            | Act::Snapshot
            | Act::Hibernate
            | Act::LongOutput => {
                let session = client.session().await;
                client
                    .run(&session, "kept = 42\nopen('f', 'w').write('1' * 100_000)")
                    .await;
                session
            }
            Act::Decide | Act::CancelRun => client.waiting_run().await,
            Act::InterruptRun | Act::FinishRun => {
                let run = client.start(json!({"task": "Slowly."})).await;
                let mut events = client.events(&run, 0).await;
                while events.next().await.unwrap().kind != "call_started" {}
                run
            }
            Act::DeleteRun | Act::LabelRun | Act::ShareRun => answered(client).await,
            Act::RevokeShare => {
                let shares = format!("{}/shares", answered(client).await);
                let made = client.post(&shares, json!({})).json_with(201).await;
                format!("{shares}/{}", made["id"].as_str().unwrap())
            }
            Act::SweepRun => {
                let file = json!({"name": "given", "contents": "Z2l2ZW4gb25jZQ=="});
                let run = client
                    .start(json!({"task": "Write.", "files": [file]}))
                    .await;
                client.until(&run, "answered").await;
                run
            }
        }
    }

    /// Does it while the fault is there; what the client saw.
    pub(super) async fn act(&self, desk: &Desk, target: &str) -> String {
        let (client, admin) = (&desk.client, &desk.admin);
        match self.act {
            Act::CreateKey => saw(Self::create_key(desk)).await,
            Act::RevokeKey => {
                let prefix = target.split('_').nth(1).unwrap();
                let saw = saw(admin.delete(&format!("/v1/admin/keys/{prefix}"))).await;
                // At once, and while the disk is as it is.
                let refused = client.with_key(target).get("/v1/sessions");
                refused.problem(401, "unauthorized").await;
                format!("{saw}; the key is refused at once")
            }
            Act::SetQuota => saw(quota(admin, 7_000)).await,
            Act::SetIsolation => saw(isolation(admin, "gvisor")).await,
            Act::EndSession => saw(end_session(admin, target)).await,
            Act::StartRunOnce => saw(run_once(client, target)).await,
            Act::StartRun => saw(client.post("/v1/runs", json!({"task": "Write."}))).await,
            Act::StartRunWithFile => saw(run_with_file(client)).await,
            Act::Decide => saw(decide(client, target).await).await,
            Act::CancelRun => {
                let saw = saw(client.post(&format!("{target}/cancel"), json!({}))).await;
                if saw == "202" {
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    let run = client.get(target).json_with(200).await;
                    return format!("{saw}, then `{}`", run["state"].as_str().unwrap());
                }
                saw
            }
            Act::InterruptRun | Act::FinishRun => loop {
                let run = client.get(target).json_with(200).await;
                let state = run["state"].as_str().unwrap();
                if state != "running" {
                    break format!("202, then `{state}`");
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            },
            Act::DeleteRun | Act::RevokeShare => saw(client.delete(target)).await,
            Act::LabelRun => saw(title(client, target, "Refused")).await,
            Act::ShareRun => saw(client.post(&format!("{target}/shares"), json!({}))).await,
            Act::SweepRun => {
                let saw = saw(client.delete(target)).await;
                // What it left is removed after the answer.
                while saw == "204" && failpoint::hits() == Some(0) {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                saw
            }
            Act::RunCell => {
                let cell = client.post(&format!("{target}/cells"), json!({"code": "print(kept)"}));
                let saw = saw(cell).await;
                // It is written every two seconds.
                tokio::time::sleep(Duration::from_millis(2500)).await;
                saw
            }
            Act::PutFile => saw(client.put(&format!("{target}/files/g"), vec![b'g'; 3000])).await,
            Act::Archive => saw(client.get(&format!("{target}/archive"))).await,
            Act::Snapshot => saw(client.get(&format!("{target}/snapshot"))).await,
            Act::Hibernate => saw(client.post(&format!("{target}/hibernate"), json!({}))).await,
            Act::StartSession => saw(client.post("/v1/sessions", json!({}))).await,
            Act::LongOutput => {
                let long = json!({"code": "print('x' * 5_000_000)"});
                saw(client.post(&format!("{target}/cells"), long)).await
            }
        }
    }

    fn create_key(desk: &Desk) -> RequestBuilder {
        let key = json!({"tenant": "a", "scopes": ["sessions", "runs"]});
        desk.admin.post("/v1/admin/keys", key)
    }

    /// Looks whether all is as it was, and whether the same works now.
    pub(super) async fn works_again(
        &self,
        desk: &Desk,
        target: &str,
        saw: &str,
        about: &str,
    ) -> Held {
        let (client, admin) = (&desk.client, &desk.admin);
        let refused = saw.starts_with(FULL) || saw.starts_with(FAILED);
        match self.act {
            Act::CreateKey => {
                assert!(refused, "{about}: {saw}");
                assert_eq!(key_count(admin).await.to_string(), target, "{about}");
                let made = Self::create_key(desk).json_with(201).await;
                let key = made["key"].as_str().map(str::to_owned);
                let words = "no key was made; the next one is";
                Held { key, ..held(words) }
            }
            Act::RevokeKey => {
                assert!(refused, "{about}: {saw}");
                soon(async || is_revoked(desk, target).await, about).await;
                held("the revocation is on disk without another request")
            }
            Act::SetQuota => {
                assert!(refused, "{about}: {saw}");
                let shown = admin.get("/v1/admin/tenants").json_with(200).await;
                assert!(!shown.to_string().contains("7000"), "{about}: {shown:#}");
                quota(admin, 1_000).with(200).await;
                held("the quota was as before; the next change holds")
            }
            Act::SetIsolation => {
                assert!(refused, "{about}: {saw}");
                let shown = admin.get("/v1/admin/tenants").json_with(200).await;
                assert!(!shown.to_string().contains("gvisor"), "{about}: {shown:#}");
                isolation(admin, "full").with(200).await;
                held("the least isolation was as before; the next change holds")
            }
            Act::EndSession => {
                assert!(refused, "{about}: {saw}");
                assert_eq!(
                    client.printed(target, "print(kept)").await,
                    "42\n",
                    "{about}"
                );
                end_session(admin, target).with(204).await;
                held("the session stayed live; the next request ended it")
            }
            Act::StartRun | Act::StartRunOnce | Act::StartRunWithFile => {
                assert!(refused, "{about}: {saw}");
                assert_eq!(run_count(client).await.to_string(), target, "{about}");
                let again = match self.act {
                    Act::StartRunOnce => run_once(client, target),
                    Act::StartRunWithFile => run_with_file(client),
                    _ => client.post("/v1/runs", json!({"task": "Write."})),
                };
                let run = again.json_with(202).await;
                let run = format!("/v1/runs/{}", run["id"].as_str().unwrap());
                client.until(&run, "answered").await;
                acknowledged(run, "no run had begun; the next one did")
            }
            Act::Decide => {
                assert!(refused, "{about}: {saw}");
                decide(client, target).await.with(204).await;
                client.until(target, "answered").await;
                acknowledged(
                    target.to_owned(),
                    "the run kept waiting; the next decision was taken",
                )
            }
            Act::CancelRun => {
                let shown = client.until(target, "ended").await;
                assert_eq!(shown["reason"]["kind"], "stopped", "{about}: {shown:#}");
                held("the run was cancelled without another request")
            }
            Act::InterruptRun => {
                finished(client, target, about).await;
                acknowledged(
                    target.to_owned(),
                    "the run resumed by itself and has its artifact",
                )
            }
            Act::FinishRun => {
                let words = finished(client, target, about).await;
                acknowledged(target.to_owned(), words)
            }
            Act::DeleteRun => {
                if saw == "204" {
                    client.get(target).problem(404, "run_not_found").await;
                    return held("it was deleted: its files made the space");
                }
                assert!(refused, "{about}: {saw}");
                client.delete(target).with(204).await;
                client.get(target).problem(404, "run_not_found").await;
                held("the next request deleted it")
            }
            Act::LabelRun => {
                assert!(refused, "{about}: {saw}");
                let shown = client.get(target).json_with(200).await;
                assert!(shown.get("title").is_none(), "{about}: {shown:#}");
                title(client, target, "Kept").with(200).await;
                held("the run had no title; the next one is kept")
            }
            Act::ShareRun => {
                assert!(refused, "{about}: {saw}");
                let shares = format!("{target}/shares");
                let listed = client.get(&shares).json_with(200).await;
                assert_eq!(listed["shares"], json!([]), "{about}");
                client.post(&shares, json!({})).with(201).await;
                held("no link was made; the next one is")
            }
            Act::RevokeShare => {
                assert!(refused, "{about}: {saw}");
                client.delete(target).with(204).await;
                client.delete(target).problem(404, "share_not_found").await;
                held("the next request revoked it")
            }
            Act::SweepRun => {
                if saw != "204" {
                    assert!(refused, "{about}: {saw}");
                    client.delete(target).with(204).await;
                }
                let another = self.prepare(desk).await;
                client.delete(&another).with(204).await;
                let blobs = desk.world.data.path().join("runs/a/blobs");
                soon(async || !holds(&blobs, b"given once"), about).await;
                held("the next deletion gave the space of both back")
            }
            Act::RunCell => {
                assert_eq!(saw, "200", "{about}");
                soon(async || is_counted(desk).await, about).await;
                held("the count is on disk without another request")
            }
            Act::PutFile => {
                assert!(refused, "{about}: {saw}");
                let path = format!("{target}/files/g");
                client.get(&path).problem(404, "file_not_found").await;
                client.put(&path, vec![b'g'; 3000]).with(204).await;
                let got = client.get(&path).with(200).await;
                assert_eq!(got.bytes().await.unwrap(), vec![b'g'; 3000], "{about}");
                end_session(admin, target).with(204).await;
                held("nothing of the file was there; the next upload is whole")
            }
            Act::Archive | Act::Snapshot => {
                assert!(refused, "{about}: {saw}");
                let path = match self.act {
                    Act::Archive => "archive",
                    _ => "snapshot",
                };
                let got = client.get(&format!("{target}/{path}")).with(200).await;
                assert!(!got.bytes().await.unwrap().is_empty(), "{about}");
                assert_eq!(
                    client.printed(target, "print(kept)").await,
                    "42\n",
                    "{about}"
                );
                end_session(admin, target).with(204).await;
                held("the session stayed live; the next download is whole")
            }
            Act::StartSession => {
                assert!(refused || saw == "201", "{about}: {saw}");
                client.session().await;
                held("the next session starts")
            }
            Act::LongOutput => {
                assert_eq!(saw, "200", "{about}");
                assert_eq!(
                    client.printed(target, "print(kept)").await,
                    "42\n",
                    "{about}"
                );
                end_session(admin, target).with(204).await;
                held("the cell ended; its outcome has the head and the tail of the output")
            }
            Act::Hibernate => {
                assert!(refused, "{about}: {saw}");
                assert_eq!(
                    client.printed(target, "print(kept)").await,
                    "42\n",
                    "{about}"
                );
                let hibernate = client.post(&format!("{target}/hibernate"), json!({}));
                hibernate.with(200).await;
                assert_eq!(
                    client.printed(target, "print(kept)").await,
                    "42\n",
                    "{about}"
                );
                end_session(admin, target).with(204).await;
                held("the session stayed awake with its variables; it sleeps and wakes now")
            }
        }
    }
}

fn acknowledged(run: String, words: &'static str) -> Held {
    Held {
        run: Some(run),
        ..held(words)
    }
}

/// Waits until a run has answered: its artifact can be downloaded, or is said not to be there.
async fn finished(client: &Client, run: &str, about: &str) -> &'static str {
    let shown = client.until(run, "answered").await;
    if shown["artifacts"][0]["path"] == "one" {
        let file = client.get(&format!("{run}/artifacts/one")).with(200).await;
        assert_eq!(file.text().await.unwrap(), "1", "{about}");
        return "the run answered and has its artifact";
    }
    assert_eq!(shown["not_kept"][0]["path"], "one", "{about}: {shown:#}");
    assert!(
        shown["not_kept"][0]["why"].is_string(),
        "{about}: {shown:#}"
    );
    "the run answered and says why it has no artifact"
}

async fn key_count(admin: &Client) -> usize {
    let keys = admin.get("/v1/admin/keys").json_with(200).await;
    keys["keys"].as_array().unwrap().len()
}

/// A run that has answered; its path.
async fn answered(client: &Client) -> String {
    let run = client.start(json!({"task": "Write."})).await;
    client.until(&run, "answered").await;
    run
}

fn title(client: &Client, run: &str, title: &str) -> RequestBuilder {
    let request = client.request(reqwest::Method::PATCH, run);
    request.json(&json!({"title": title}))
}

async fn run_count(client: &Client) -> usize {
    let page = client.get("/v1/runs?limit=100").json_with(200).await;
    page["runs"].as_array().unwrap().len()
}

fn quota(admin: &Client, amount: u64) -> RequestBuilder {
    let quotas = json!({"quotas": {"disk_bytes": amount}});
    admin.post("/v1/admin/tenants/b/quotas", quotas)
}

fn isolation(admin: &Client, least: &str) -> RequestBuilder {
    let path = "/v1/admin/tenants/b/isolation";
    admin.post(path, json!({"least": least}))
}

fn end_session(admin: &Client, session: &str) -> RequestBuilder {
    admin.delete(&session.replace("/v1/", "/v1/admin/"))
}

fn run_once(client: &Client, key: &str) -> RequestBuilder {
    let request = client.post("/v1/runs", json!({"task": "Write."}));
    request.header("idempotency-key", key)
}

/// With a file that was never there before: what is on disk already is not written again.
fn run_with_file(client: &Client) -> RequestBuilder {
    let contents = BASE64.encode(format!("{:?}", std::time::SystemTime::now()));
    let file = json!({"name": "given", "contents": contents});
    client.post("/v1/runs", json!({"task": "Write.", "files": [file]}))
}

async fn decide(client: &Client, run: &str) -> RequestBuilder {
    let shown = client.get(run).json_with(200).await;
    let asked = &shown["waits_for"][0];
    client.decide(run, asked, &asked["hash"], json!({"kind": "accept"}))
}

/// Whether the disk has a key as revoked.
async fn is_revoked(desk: &Desk, key: &str) -> bool {
    let stored = Tenants::open(desk.world.data.path()).await.unwrap();
    let keys = stored.keys().await.unwrap();
    let prefix = key.split('_').nth(1).unwrap();
    let found = keys.iter().find(|key| key.prefix == prefix).unwrap();
    found.revoked.is_some()
}

/// Whether the disk has all that the service has counted.
async fn is_counted(desk: &Desk) -> bool {
    let shown = desk.admin.get("/v1/admin/tenants/a").json_with(200).await;
    let stored = Tenants::open(desk.world.data.path()).await.unwrap();
    let today = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs()
        / 86_400;
    let spent = stored.spent(today.try_into().unwrap()).await.unwrap();
    let spent = spent.get(&"a".parse().unwrap());
    let output = spent.and_then(|spent| spent.get(&Quota::OutputBytes).copied());
    output.is_some() && output == shown["used"]["output_bytes"].as_u64()
}

async fn soon(mut holds: impl AsyncFnMut() -> bool, about: &str) {
    for _ in 0..600 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{about}: it never was so");
}

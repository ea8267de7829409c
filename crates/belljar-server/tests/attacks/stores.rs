//! What a tenant tries with the disk of the service, and with the files of its runs.

use std::time::Duration;

use belljar_agent::{Dialect, Profile, Provider};
use belljar_journal::failpoint;
use belljar_server::{OfferedModel, Scope, ServerOptions};
use belljar_test_model::{Scripted, ScriptedModel};
use serde_json::{Value, json};

use crate::harness::{Case, Severity};
use crate::support::{Ask as _, Client, options, soon};

const ENOSPC: i32 = 28;

/// Files whose names the host can't take, and what is no file any more when the run ends.
const FILES: &str = r"
import os
def deep(name, levels):
    here = os.getcwd()
    for _ in range(levels):
        os.mkdir(name)
        os.chdir(name)
    open('end', 'w').write('x')
    os.chdir(here)
deep('d' * 200, 18)
deep('e', 500)
open(b'not\xfftext', 'w').write('x')
open('line\nand\x1b[31m', 'w').write('x')
open('n' * 255, 'w').write('x')
open('back\\slash', 'w').write('x')
for name in ['becomes-a-directory', 'becomes-a-pipe', 'becomes-a-link', 'vanishes', 'good']:
    open(name, 'w').write('1')
print('made')
";

const CHANGES: &str = r"
for name in ['becomes-a-directory', 'becomes-a-pipe', 'becomes-a-link', 'vanishes']:
    os.remove(name)
os.mkdir('becomes-a-directory')
os.mkfifo('becomes-a-pipe')
os.symlink('/etc/passwd', 'becomes-a-link')
print('changed')
";

/// A service whose model says this.
fn saying(script: impl IntoIterator<Item = String>) -> (ServerOptions, ScriptedModel) {
    let model = ScriptedModel::start(script.into_iter().map(Scripted::text)).unwrap();
    let mut profile = Profile::built_in("llamacpp").unwrap();
    profile.base_url = model.base_url();
    let offered = OfferedModel {
        name: "llamacpp/scripted".into(),
        provider: Provider::new(profile, "scripted").unwrap(),
        dialect: Dialect::FencedCode,
        max_tokens: 1024,
        temperature: Some(0.0),
        review: false,
    };
    (
        options(|options| options.runs.models = vec![offered]),
        model,
    )
}

fn code(code: &str) -> String {
    format!("```python\n{code}\n```")
}

async fn start(hostile: &Client, body: Value) -> String {
    let run = hostile.post("/v1/runs", body).json_with(202).await;
    format!("/v1/runs/{}", run["id"].as_str().unwrap())
}

async fn until(hostile: &Client, run: &str, state: &str) -> Value {
    let mut shown = Value::Null;
    soon(async || {
        shown = hostile.get(run).json_with(200).await;
        shown["state"] == state
    })
    .await;
    shown
}

fn paths(list: &Value) -> Vec<&str> {
    let all = list.as_array().into_iter().flatten();
    all.map(|file| file["path"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn n20_a_full_disk_keeps_no_revoked_key_alive() {
    let case = Case::begin(
        "N20",
        Severity::Lateral,
        "fill the disk, and keep using a key while it is revoked",
        "the key is refused at once, its stream ends; the revocation is written when there is space",
    )
    .await;
    let hostile = case.hostile().await;
    let admin = case.world.admin(&[Scope::Admin]).await;
    let session = hostile.session().await;
    let mut stream = hostile
        .stream(&session, "import time\ntime.sleep(60)")
        .await;
    failpoint::arm("tenants.revoke_key", ENOSPC);
    let path = format!("/v1/admin/keys/{}", hostile.key.info.prefix);
    let problem = admin.delete(&path).problem(507, "storage_full").await;
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("refused from now on"), "{detail}");
    hostile.get(&session).problem(401, "unauthorized").await;
    let ends = async { while stream.next().await.is_some() {} };
    let ended = tokio::time::timeout(Duration::from_secs(10), ends).await;
    ended.expect("the stream of a revoked key goes on");
    case.check_peer().await;
    assert!(failpoint::disarm() > 0);
    soon(async || {
        let disk = belljar_server::Tenants::open(case.world.data.path()).await;
        let keys = disk.unwrap().keys().await.unwrap();
        let key = keys
            .iter()
            .find(|key| key.prefix == hostile.key.info.prefix);
        key.unwrap().revoked.is_some()
    })
    .await;
    hostile.get(&session).problem(401, "unauthorized").await;
    let end = session.replace("/v1/", "/v1/admin/");
    admin.delete(&end).with(204).await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n21_no_name_of_a_file_keeps_a_run_from_ending() {
    let script = [code(FILES), code(CHANGES), "FINAL: It is done.".to_owned()];
    let (options, _model) = saying(script);
    let case = Case::begin_with(
        options,
        "N21",
        Severity::PeerDos,
        "a run whose files have paths of 4,000 bytes or 500 levels, no UTF-8, control characters, or become pipes, links and directories",
        "the run ends and names what it could not keep; it can be deleted",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = start(&hostile, json!({"task": "Make files."})).await;
    let shown = until(&hostile, &run, "answered").await;
    let kept = paths(&shown["artifacts"]);
    assert!(kept.contains(&"good"), "{shown:#}");
    let not_kept = paths(&shown["not_kept"]);
    let long = |path: &&str| path.starts_with("dddd") || path.starts_with("e/e/e");
    let count = not_kept.iter().filter(|path| long(path)).count();
    assert_eq!(count, 2, "{shown:#}");
    for name in ["becomes-a-directory", "becomes-a-pipe", "becomes-a-link"] {
        assert!(not_kept.contains(&name), "{shown:#}");
        assert!(!kept.contains(&name), "{shown:#}");
    }
    assert!(!kept.contains(&"vanishes") && !not_kept.contains(&"vanishes"));
    hostile.delete(&run).with(204).await;
    hostile.get(&run).problem(404, "run_not_found").await;
    let id = run.rsplit('/').next().unwrap();
    let left = case.world.data.path().join("runs/hostile/runs").join(id);
    assert!(!left.exists(), "{left:?}");
    case.end().await;
}

/// More names than the last event can have.
#[tokio::test(flavor = "multi_thread")]
async fn n22_no_number_of_files_keeps_a_run_from_ending() {
    let many = |cell: usize| {
        code(&format!(
            "import os\nfolder = '/'.join([c * 240 for c in 'abcd']) + '/{cell}'\n\
             os.makedirs(folder)\nfor n in range(1000): open(f'{{folder}}/{{n}}', 'w')\nprint({cell}, 'of', 2)"
        ))
    };
    let script = [many(1), many(2), "FINAL: There are 2 of 2.".to_owned()];
    let (options, _model) = saying(script);
    let case = Case::begin_with(
        options,
        "N22",
        Severity::PeerDos,
        "a run that makes 2,000 files with paths of 1,000 bytes",
        "the run ends: files up to a bound on their names are kept, the rest is counted",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = start(&hostile, json!({"task": "Make files."})).await;
    let shown = until(&hostile, &run, "answered").await;
    let kept = shown["artifacts"].as_array().unwrap().len() as u64;
    let named = shown["not_kept"].as_array().unwrap().len() as u64;
    let more = shown["not_kept_more"].as_u64().unwrap();
    assert_eq!(kept + named + more, 2000);
    assert!(
        (1000..2000).contains(&kept) && named == 100,
        "{kept} {named}"
    );
    hostile.delete(&run).with(204).await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n23_a_run_on_a_failing_disk_is_cancelled_when_the_disk_works() {
    let (options, _model) = saying([code("1 + 1")]);
    let case = Case::begin_with(
        options,
        "N23",
        Severity::PeerDos,
        "cancel a run again and again while nothing can be appended to its journal",
        "each try is answered, the peer does not notice; the run is cancelled as soon as the disk works, and can be deleted",
    )
    .await;
    let hostile = case.hostile_with(&[Scope::Runs]).await;
    let run = start(&hostile, json!({"task": "Compute.", "approvals": "always"})).await;
    until(&hostile, &run, "waits").await;
    failpoint::arm("journal.append", ENOSPC);
    for _ in 0..20 {
        let asked = hostile.post(&format!("{run}/cancel"), json!({})).send();
        let status = asked.await.unwrap().status().as_u16();
        assert!([202, 507].contains(&status), "{status}");
    }
    case.check_peer().await;
    assert!(failpoint::disarm() > 0);
    let shown = until(&hostile, &run, "ended").await;
    assert_eq!(shown["reason"]["kind"], "stopped", "{shown:#}");
    hostile.delete(&run).with(204).await;
    case.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n24_uploads_to_a_full_disk_are_refused_and_leave_nothing() {
    let case = Case::begin(
        "N24",
        Severity::PeerDos,
        "upload files to a service whose disk is full, 50 times",
        "507 each time with a time to come again; no place stays taken, cells of the peer run on",
    )
    .await;
    let hostile = case.hostile().await;
    let session = hostile.session().await;
    failpoint::arm("spool.upload", ENOSPC);
    for _ in 0..50 {
        let upload = hostile.put(&format!("{session}/files/f"), vec![0; 3000]);
        upload.problem(507, "storage_full").await;
    }
    case.check_peer().await;
    assert_eq!(failpoint::disarm(), 50);
    let spool = std::fs::read_dir(case.world.data.path().join("spool")).unwrap();
    assert_eq!(spool.count(), 0);
    let file = format!("{session}/files/f");
    hostile.get(&file).problem(404, "file_not_found").await;
    hostile.put(&file, vec![1; 3000]).with(204).await;
    case.end().await;
}

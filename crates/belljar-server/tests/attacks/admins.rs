//! Who may not be an admin.

use std::sync::Arc;

use belljar_sandbox::Engine;
use belljar_server::{Scope, Server, ServerError, ServerOptions, TenantName, Tenants, Tls};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Case, Severity};
use crate::support::{bare, options};

async fn server(data: &std::path::Path, options: ServerOptions) -> Server {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tenants = Tenants::open(data).await.unwrap();
    tenants.first_key().await.unwrap();
    let engine = Engine::builder(bare()).build();
    Server::new(engine, tenants, data, options).await.unwrap()
}

/// Serves on these addresses while something is done.
async fn serving<T>(
    server: &Server,
    admin: Option<&str>,
    act: impl AsyncFnOnce(u16, u16) -> T,
) -> Result<T, String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (admin, admin_port) = match admin {
        Some(address) => {
            let admin = TcpListener::bind(address).await.unwrap();
            let port = admin.local_addr().unwrap().port();
            (Some(admin), port)
        }
        None => (None, 0),
    };
    let mut done = None;
    let stop = async { done = Some(act(port, admin_port).await) };
    let ended = server.serve(listener, admin, stop).await;
    ended.map_err(|error| error.to_string())?;
    Ok(done.unwrap())
}

async fn get(url: String) -> (u16, Value) {
    let answer = reqwest::get(url).await.unwrap();
    (
        answer.status().as_u16(),
        answer.json().await.unwrap_or_default(),
    )
}

/// A demonstration has no admins, whatever a data directory has.
#[tokio::test(flavor = "multi_thread")]
async fn n18_a_demonstration_has_no_admins() {
    let case = Case::begin(
        "N18",
        Severity::InternalEsc,
        "`--demo` with an admin address and a data directory whose demo key is an admin's",
        "the start is refused; the demo key has no scope `admin`",
    )
    .await;
    let data = tempfile::tempdir().unwrap();
    // As an earlier version left it.
    let tenants = Tenants::open(data.path()).await.unwrap();
    let demo: TenantName = "demo".parse().unwrap();
    tenants.create_key(&demo, &Scope::ALL, None).await.unwrap();
    drop(tenants);
    let server = server(data.path(), options(|options| options.demo = true)).await;
    let why = serving(&server, Some("127.0.0.1:0"), async |_, admin| {
        let keys = format!("http://127.0.0.1:{admin}/v1/admin/keys");
        let made = json!({"tenant": "evil", "scopes": ["admin"]});
        reqwest::Client::new()
            .post(keys)
            .json(&made)
            .send()
            .await
            .unwrap()
            .status()
    })
    .await;
    let why = why.unwrap_err();
    assert!(why.contains("a demo has no admin address"), "{why}");
    let me = serving(&server, None, async |port, _| {
        get(format!("http://127.0.0.1:{port}/v1/me")).await
    });
    let (status, me) = me.await.unwrap();
    assert_eq!((status, &me["scopes"]), (200, &json!(["sessions", "runs"])));
    case.end().await;
}

/// Beyond loopback, an admin address has TLS, unless the operator says that it needs none.
#[tokio::test(flavor = "multi_thread")]
async fn n19_admin_keys_are_not_sent_in_the_clear() {
    let case = Case::begin(
        "N19",
        Severity::InternalRead,
        "an admin address beyond loopback without TLS",
        "the start is refused, unless `insecure_admin` is set; with a certificate it is TLS",
    )
    .await;
    let data = [0; 3].map(|_| tempfile::tempdir().unwrap());
    let anywhere = Some("0.0.0.0:0");
    let healthy = async |_, admin: u16| {
        let url = format!("http://127.0.0.1:{admin}/healthz");
        let answer = reqwest::get(url).await;
        answer.map(|answer| answer.status().as_u16()).ok()
    };
    let plain = server(data[0].path(), options(|_| {})).await;
    let why = serving(&plain, anywhere, healthy).await.unwrap_err();
    assert!(why.contains("has no TLS"), "{why}");
    let on_loopback = serving(&plain, Some("127.0.0.1:0"), healthy).await;
    assert_eq!(on_loopback, Ok(Some(200)));
    let insecure = options(|options| options.insecure_admin = true);
    let insecure = server(data[1].path(), insecure).await;
    assert_eq!(serving(&insecure, anywhere, healthy).await, Ok(Some(200)));

    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let [certificate, key] = ["c.pem", "k.pem"].map(|name| data[2].path().join(name));
    std::fs::write(&certificate, cert.pem()).unwrap();
    std::fs::write(&key, signing_key.serialize_pem()).unwrap();
    let tls = Arc::new(Tls::open(&certificate, &key).unwrap());
    let secure = options(|options| options.tls = Some(tls));
    let secure = server(data[2].path(), secure).await;
    let certificate = reqwest::Certificate::from_pem(cert.pem().as_bytes()).unwrap();
    let http = reqwest::Client::builder().tls_certs_only([certificate]);
    let http = http.build().unwrap();
    let statuses = serving(&secure, anywhere, async |port, admin: u16| {
        let url = format!("https://localhost:{admin}/healthz");
        let answer = http.get(url).send().await.unwrap();
        (healthy(port, admin).await, answer.status().as_u16())
    });
    assert_eq!(statuses.await, Ok((None, 200)));
    case.end().await;
}

/// What is said to who starts it so.
#[test]
fn refusals_say_what_to_do() {
    for error in [
        ServerError::DemoAdmin,
        ServerError::InsecureAdmin("10.0.0.1".parse().unwrap()),
    ] {
        let text = error.to_string();
        assert!(text.contains("\nhint: "), "{text}");
    }
}

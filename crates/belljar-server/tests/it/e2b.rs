//! The wire of E2B's SDKs, as hostile and ordinary clients use it. The SDKs themselves are run by `.ci/e2b`.

use belljar_server::ServerOptions;
use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use crate::support::{Ask as _, Client, World, options, world, world_in, world_with};

const CONTROL: [(&str, &str); 13] = [
    ("GET", "/sandboxes/{id}"),
    ("DELETE", "/sandboxes/{id}"),
    ("POST", "/sandboxes/{id}/connect"),
    ("POST", "/v2/sandboxes/{id}/connect"),
    ("POST", "/sandboxes/{id}/resume"),
    ("POST", "/sandboxes/{id}/timeout"),
    ("POST", "/sandboxes/{id}/refreshes"),
    ("POST", "/sandboxes/{id}/pause"),
    ("POST", "/sandboxes/{id}/fork"),
    ("GET", "/sandboxes/{id}/metrics"),
    ("GET", "/sandboxes/{id}/logs"),
    ("GET", "/v2/sandboxes/{id}/logs"),
    ("PUT", "/sandboxes/{id}/network"),
];

const WITHOUT_ID: [(&str, &str); 7] = [
    ("GET", "/sandboxes"),
    ("POST", "/sandboxes"),
    ("POST", "/v2/sandboxes"),
    ("GET", "/snapshots"),
    ("GET", "/templates/aliases/x"),
    ("POST", "/volumes"),
    ("GET", "/no-such-route"),
];

const OF_SANDBOX: [(&str, &str); 25] = [
    ("GET", "/health"),
    ("GET", "/files?path=a"),
    ("POST", "/files?path=a"),
    ("POST", "/execute"),
    ("GET", "/contexts"),
    ("POST", "/contexts"),
    ("DELETE", "/contexts/default"),
    ("POST", "/contexts/default/restart"),
    ("POST", "/filesystem.Filesystem/Stat"),
    ("POST", "/filesystem.Filesystem/ListDir"),
    ("POST", "/filesystem.Filesystem/MakeDir"),
    ("POST", "/filesystem.Filesystem/Move"),
    ("POST", "/filesystem.Filesystem/Remove"),
    ("POST", "/filesystem.Filesystem/WatchDir"),
    ("POST", "/filesystem.Filesystem/CreateWatcher"),
    ("POST", "/filesystem.Filesystem/GetWatcherEvents"),
    ("POST", "/filesystem.Filesystem/RemoveWatcher"),
    ("POST", "/process.Process/Start"),
    ("POST", "/process.Process/Connect"),
    ("POST", "/process.Process/List"),
    ("POST", "/process.Process/SendInput"),
    ("POST", "/process.Process/StreamInput"),
    ("POST", "/process.Process/CloseStdin"),
    ("POST", "/process.Process/SendSignal"),
    ("POST", "/process.Process/Update"),
];

fn on() -> ServerOptions {
    options(|options| options.e2b = true)
}

/// A sandbox, as its client knows it.
pub(crate) struct Sandbox {
    client: Client,
    pub(crate) id: String,
    pub(crate) token: String,
}

/// A request to the control API with the key of a client.
pub(crate) fn control(client: &Client, method: &str, path: &str) -> RequestBuilder {
    let method: Method = method.parse().unwrap();
    let request = client.without_key(method, &format!("/e2b{path}"));
    request.header("x-api-key", &client.key.text)
}

pub(crate) async fn sandbox(client: &Client) -> Sandbox {
    let asked = json!({"templateID": "base", "metadata": {}, "envVars": {}});
    let made = control(client, "POST", "/v2/sandboxes").json(&asked);
    let made = made.json_with(201).await;
    Sandbox {
        client: client.clone(),
        id: made["sandboxID"].as_str().unwrap().to_owned(),
        token: made["envdAccessToken"].as_str().unwrap().to_owned(),
    }
}

impl Sandbox {
    /// The same by way of another node.
    pub(crate) fn at(&self, client: &Client) -> Self {
        Self {
            client: client.clone(),
            id: self.id.clone(),
            token: self.token.clone(),
        }
    }

    /// A request with its id and without its token.
    pub(crate) fn bare(&self, method: &str, path: &str) -> RequestBuilder {
        let method: Method = method.parse().unwrap();
        let request = self.client.without_key(method, &format!("/e2b{path}"));
        request.header("e2b-sandbox-id", &self.id)
    }

    pub(crate) fn ask(&self, method: &str, path: &str) -> RequestBuilder {
        let request = self.bare(method, path);
        request.header("x-access-token", &self.token)
    }

    async fn call(&self, method: &str, body: Value, status: u16) -> Value {
        let request = self.ask("POST", &format!("/{method}"));
        request.json(&body).json_with(status).await
    }

    /// The lines of a cell.
    pub(crate) async fn lines(&self, code: &str) -> Vec<Value> {
        let asked = json!({"code": code});
        let response = self.ask("POST", "/execute").json(&asked).with(200).await;
        let text = response.text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect()
    }
}

async fn message(response: Response) -> String {
    let body: Value = response.json().await.unwrap();
    body["message"].as_str().unwrap().to_owned()
}

/// K1: without a key or token nothing is done, and a sandbox of another tenant is as one that is not there.
#[tokio::test]
async fn k1_no_tenant_reaches_a_sandbox_of_another() {
    let world = world_with(on()).await;
    let (owner, other) = (world.client("a").await, world.client("b").await);
    let mine = sandbox(&owner).await;
    let theirs = sandbox(&other).await;
    let absent = format!("{}{}", &mine.id[..9], "0".repeat(32));
    for (method, path) in CONTROL.iter().chain(&WITHOUT_ID) {
        let path = path.replace("{id}", &mine.id);
        let request = control(&owner.with_key("bj_wrong_key"), method, &path);
        let refused = request.json(&json!({})).json_with(401).await;
        assert_eq!(refused["code"], 401, "{method} {path}");
    }
    for (method, path) in CONTROL {
        let mut told = Vec::new();
        for id in [&mine.id, &absent] {
            let request = control(&other, method, &path.replace("{id}", id));
            let answer = request.json(&json!({"timeout": 1})).json_with(404).await;
            told.push(answer.to_string().replace(id, "ID"));
        }
        assert_eq!(told[0], told[1], "{method} {path}");
    }
    for (method, path) in OF_SANDBOX {
        for token in ["", "0", &theirs.token] {
            let request = mine.bare(method, path).header("x-access-token", token);
            request.body("{}").with(401).await;
        }
        mine.bare(method, path).body("{}").with(401).await;
        // Nobody learns whether there is one.
        let nobodys = Sandbox {
            client: other.clone(),
            id: absent.clone(),
            token: theirs.token.clone(),
        };
        nobodys.ask(method, path).body("{}").with(401).await;
    }
    // A session of `/v1` is no sandbox, and has no token.
    let session = owner.session().await;
    let id = session.rsplit('/').next().unwrap();
    control(&owner, "GET", &format!("/sandboxes/{id}"))
        .with(404)
        .await;
    let listed = control(&owner, "GET", "/v2/sandboxes").json_with(200).await;
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed:#}");
    assert_eq!(listed[0]["sandboxID"], mine.id);
    // Nothing of all this has changed anything.
    mine.ask("GET", "/health").with(204).await;
    assert_eq!(mine.lines("6 * 7").await[1]["text"], "42");
    world.ends().await;
}

/// Off unless the operator wants it.
#[tokio::test]
async fn off_by_default() {
    let world = world().await;
    let client = world.client("a").await;
    for path in ["/e2b/sandboxes", "/e2b/health", "/files?path=a"] {
        client.get(path).problem(404, "route_not_found").await;
    }
    world.ends().await;
}

/// A token ends with its key, and works after a restart. A key without the scope makes no sandboxes.
#[tokio::test]
async fn a_token_lives_as_long_as_its_key() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let runs_only = world.client_with("a", &[belljar_server::Scope::Runs]).await;
    control(&runs_only, "GET", "/sandboxes").with(403).await;
    let kept = sandbox(&client).await;
    kept.lines("x = 1").await;
    let key = client.key.clone();
    let data = world.ends().await;
    let world: World = world_in(data, on()).await;
    let client = world.client_by(key);
    let again = Sandbox {
        client: client.clone(),
        ..kept
    };
    assert_eq!(again.lines("x + 1").await[1]["text"], "2");
    // Another key of the tenant takes it over, and then it is that key that counts.
    let second = world.client("a").await;
    let connect = format!("/v2/sandboxes/{}/connect", again.id);
    control(&second, "POST", &connect)
        .json(&json!({}))
        .with(200)
        .await;
    let tenants = world.server.tenants();
    assert!(tenants.revoke(&client.key.info.prefix).await.unwrap());
    again.ask("GET", "/health").with(204).await;
    assert!(tenants.revoke(&second.key.info.prefix).await.unwrap());
    again.ask("GET", "/health").with(401).await;
    world.ends().await;
}

/// Paths, names of parts and bodies that no client of good will sends.
#[tokio::test]
async fn hostile_files_are_refused() {
    let world = world_with(options(|options| {
        options.e2b = true;
        options.session.limits.transfer_bytes = 1 << 20;
    }))
    .await;
    let sandbox = sandbox(&world.client("a").await).await;
    let form = |name: &str| {
        format!(
            "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\nx\r\n--b--\r\n"
        )
    };
    let kind = "multipart/form-data; boundary=b";
    let post = |path: &str, kind: &str| sandbox.ask("POST", path).header("content-type", kind);
    for name in [
        "../x",
        "a/../../x",
        "/etc/passwd",
        "/proc/self/mem",
        "a\\..\\x",
        "%2e%2e/x",
        "a\0b",
        &"x".repeat(300),
        &"d/".repeat(3000),
    ] {
        let response = post("/files", kind).body(form(name)).send().await.unwrap();
        let status = response.status().as_u16();
        assert!([400, 403].contains(&status), "{name:?}: {status}");
    }
    for body in [
        "",
        "--b",
        "no form",
        "--b\r\n\r\n",
        "--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
    ] {
        let response = post("/files", kind).body(body).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 400, "{body:?}");
    }
    let both = form("one").replace("--b--\r\n", &form("two"));
    post("/files?path=a", kind).body(both).with(400).await;
    let octets = "application/octet-stream";
    post("/files?path=a", octets)
        .body(vec![0; (1 << 20) + 1])
        .with(413)
        .await;
    post("/files?path=a", "text/plain")
        .body("x")
        .with(415)
        .await;
    let zipped = post("/files?path=a", octets).header("content-encoding", "gzip");
    zipped.body("no gzip").with(400).await;
    let zeros = {
        use std::io::Write as _;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(&vec![0; 8 << 20]).unwrap();
        encoder.finish().unwrap()
    };
    let zipped = post("/files?path=a", octets).header("content-encoding", "gzip");
    zipped.body(zeros).with(400).await;
    // What is written is where it should be, and nothing else was.
    post("/files", kind)
        .body(form("/home/user/fine"))
        .with(200)
        .await;
    let listed = sandbox
        .call("filesystem.Filesystem/ListDir", json!({"path": "."}), 200)
        .await;
    let listed = listed["entries"].as_array().unwrap();
    let paths: Vec<_> = listed.iter().map(|entry| &entry["path"]).collect();
    // The first part of the form that had one too many, and this one.
    assert_eq!(paths, ["/home/user/a", "/home/user/fine"]);
    world.ends().await;
}

/// Clients expect that links are followed. None leads out of the sandbox.
#[tokio::test]
async fn links_lead_to_files_of_the_sandbox_only() {
    let world = world_with(on()).await;
    let sandbox = sandbox(&world.client("a").await).await;
    let code = "import os
os.makedirs('real/below'); open('real/file', 'w').write('old'); open('/tmp/x', 'w').write('temporary')
for name, target in {'link': '/home/user/real', 'far': '/tmp/x', 'gone': 'nothing', 'loop': 'loop', 'passwd': '/etc/passwd',
                     'up': '../../etc/passwd', 'proc': '/proc/self/environ', 'root': '/'}.items():
    os.symlink(target, name)";
    sandbox.lines(code).await;
    let file = |method: &str, path: &str| {
        let request = sandbox.ask(method, &format!("/files?path={path}"));
        request.header("content-type", "application/octet-stream")
    };
    let read = async |path: &str| file("GET", path).with(200).await.text().await.unwrap();
    assert_eq!(read("link/file").await, "old");
    assert_eq!(read("far").await, "temporary");
    file("POST", "link/file").body("new").with(200).await;
    assert_eq!(read("/home/user/real/file").await, "new");
    for outside in ["passwd", "up", "proc", "root/etc/passwd", "loop", "loop/x"] {
        for method in ["GET", "POST"] {
            let response = file(method, outside).body("x").send().await.unwrap();
            let status = response.status().as_u16();
            assert!([400, 403, 404].contains(&status), "{outside}: {status}");
        }
    }
    let stat = "filesystem.Filesystem/Stat";
    let seen = sandbox.call(stat, json!({"path": "link"}), 200).await;
    assert_eq!(seen["entry"]["type"], "FILE_TYPE_SYMLINK");
    assert_eq!(seen["entry"]["symlinkTarget"], "/home/user/real");
    sandbox.call(stat, json!({"path": "gone"}), 404).await;
    let remove = "filesystem.Filesystem/Remove";
    sandbox
        .call(remove, json!({"path": "link/below"}), 200)
        .await;
    sandbox.call(stat, json!({"path": "real/below"}), 404).await;
    // What is removed is the link.
    sandbox.call(remove, json!({"path": "link"}), 200).await;
    assert_eq!(read("real/file").await, "new");
    world.ends().await;
}

/// Frames that are none, messages that are others, processes that are not there.
#[tokio::test]
async fn hostile_calls_are_refused() {
    let world = world_with(on()).await;
    let sandbox = sandbox(&world.client("a").await).await;
    let start = |bytes: Vec<u8>| {
        let request = sandbox.ask("POST", "/process.Process/Start");
        request
            .header("content-type", "application/connect+json")
            .body(bytes)
    };
    let frame = |flags: u8, text: &str| {
        let length = u32::try_from(text.len()).unwrap().to_be_bytes();
        [&[flags], length.as_slice(), text.as_bytes()].concat()
    };
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let tagged = r#"{"process":{"cmd":"true"},"tag":"t"}"#;
    let nowhere = r#"{"process":{"cmd":"true","cwd":"/nowhere"}}"#;
    for (bytes, code) in [
        (Vec::new(), "invalid_argument"),
        (vec![0, 0], "invalid_argument"),
        (vec![0, 255, 255, 255, 255], "invalid_argument"),
        (frame(1, "{}"), "invalid_argument"),
        (frame(0, "{}"), "invalid_argument"),
        (frame(0, &deep), "invalid_argument"),
        (frame(0, nowhere), "invalid_argument"),
        (frame(0, r#"{"process":{"cmd":""}}"#), "invalid_argument"),
        (
            frame(0, "{\"process\":{\"cmd\":\"a\\u0000\"}}"),
            "invalid_argument",
        ),
        (
            [frame(0, nowhere), frame(0, nowhere)].concat(),
            "invalid_argument",
        ),
        (frame(0, tagged), "unimplemented"),
    ] {
        let response = start(bytes.clone()).with(200).await;
        let body = response.bytes().await.unwrap();
        assert_eq!(body[0], 2, "{bytes:?}");
        let end: Value = serde_json::from_slice(&body[5..]).unwrap();
        assert_eq!(end["error"]["code"], code, "{end}");
    }
    let gone = json!({"process": {"pid": 999_999}, "signal": "SIGNAL_SIGKILL"});
    let told = sandbox.call("process.Process/SendSignal", gone, 404).await;
    assert_eq!(told["code"], "not_found");
    let stream = sandbox.ask("POST", "/process.Process/StreamInput");
    let stream = stream.header("content-type", "application/connect+json");
    let no_start = frame(0, r#"{"data":{"input":{"stdin":"eA=="}}}"#);
    let told = stream.body(no_start).with(200).await.bytes().await.unwrap();
    assert!(String::from_utf8_lossy(&told).contains("`start`"));
    let outside = json!({"path": "/etc"});
    let told = sandbox
        .call("filesystem.Filesystem/Stat", outside, 403)
        .await;
    assert!(
        told["message"]
            .as_str()
            .unwrap()
            .starts_with("permission denied"),
        "{told}"
    );
    // Another port has nothing behind it, and another user nobody.
    let port = sandbox
        .ask("GET", "/health")
        .header("e2b-sandbox-port", "8080");
    assert!(
        message(port.with(502).await)
            .await
            .contains("port is not open")
    );
    let root = sandbox.ask("GET", "/health");
    root.header("authorization", "Basic cm9vdDo=")
        .with(204)
        .await;
    let unknown = sandbox.ask("GET", "/health");
    unknown
        .header("authorization", "Basic YWxpY2U6")
        .with(401)
        .await;
    assert_eq!(sandbox.lines("1").await[1]["text"], "1");
    world.ends().await;
}

/// A client that leaves interrupts its cell, and no other one.
#[tokio::test]
async fn a_client_that_leaves_interrupts_its_cell() {
    let world = world_with(on()).await;
    let sandbox = sandbox(&world.client("a").await).await;
    sandbox.lines("kept = 1").await;
    let forever = json!({"code": "print('on', flush=True)\nwhile True: pass"});
    let mut response = sandbox
        .ask("POST", "/execute")
        .json(&forever)
        .with(200)
        .await;
    let mut seen = String::new();
    while !seen.contains("stdout") {
        let chunk = response.chunk().await.unwrap().unwrap();
        seen.push_str(std::str::from_utf8(&chunk).unwrap());
    }
    drop(response);
    // It waits for the one before, which would run for half a minute.
    let lines = sandbox.lines("kept + 1").await;
    assert_eq!(lines[1]["text"], "2", "{lines:#?}");
    assert_eq!(lines[0]["execution_count"], 3);
    assert_eq!(lines.last().unwrap()["type"], "end_of_execution");
    world.ends().await;
}

/// A lease ends a sandbox; a paused one has none and does nothing; one that resumes by itself does.
#[tokio::test]
async fn pausing_and_leases() {
    let world = world_with(on()).await;
    let client = world.client("a").await;
    let first = sandbox(&client).await;
    let path = format!("/sandboxes/{}", first.id);
    let pause = || control(&client, "POST", &format!("{path}/pause")).json(&json!({}));
    first.lines("x = 1").await;
    pause().with(204).await;
    pause().with(409).await;
    let gone = first.ask("GET", "/health").with(502).await;
    assert!(message(gone).await.contains("was not found"));
    first
        .ask("POST", "/execute")
        .json(&json!({"code": "1"}))
        .with(502)
        .await;
    let shown = control(&client, "GET", &path).json_with(200).await;
    assert_eq!(shown["state"], "paused", "{shown:#}");
    let connect =
        control(&client, "POST", &format!("{path}/connect")).json(&json!({"timeout": 60}));
    connect.with(201).await;
    assert_eq!(first.lines("x").await[1]["text"], "1");
    // A lease that is too long, and memory that is to be left out.
    let timeout = |seconds: u64| {
        let request = control(&client, "POST", &format!("{path}/timeout"));
        request.json(&json!({"timeout": seconds}))
    };
    timeout(10_000_000).with(400).await;
    timeout(120).with(204).await;
    let without = control(&client, "POST", &format!("{path}/pause"));
    without.json(&json!({"memory": false})).with(400).await;
    control(&client, "DELETE", &path).with(204).await;
    control(&client, "DELETE", &path).with(404).await;
    first.ask("GET", "/health").with(502).await;
    let asked = json!({
        "templateID": "base", "autoPause": true, "autoResume": {"enabled": true}, "timeout": 60,
    });
    let made = control(&client, "POST", "/v2/sandboxes")
        .json(&asked)
        .json_with(201)
        .await;
    let second = Sandbox {
        client: client.clone(),
        id: made["sandboxID"].as_str().unwrap().to_owned(),
        token: made["envdAccessToken"].as_str().unwrap().to_owned(),
    };
    let path = format!("/sandboxes/{}", second.id);
    let pause = control(&client, "POST", &format!("{path}/pause"));
    pause.json(&json!({})).with(204).await;
    assert_eq!(second.lines("2").await[1]["text"], "2");
    let shown = control(&client, "GET", &path).json_with(200).await;
    assert_eq!(
        shown["lifecycle"],
        json!({"autoResume": true, "onTimeout": "pause"})
    );
    world.ends().await;
}

/// Names of a domain lead to the control API and to each sandbox, without a prefix and without headers.
#[tokio::test]
async fn a_domain_names_sandboxes() {
    let world = world_with(options(|options| {
        options.e2b = true;
        options.e2b_domain = Some("belljar.test".to_owned());
    }))
    .await;
    let client = world.client("a").await;
    let ask = |method: Method, host: &str, path: &str| {
        let request = client.without_key(method, path);
        request.header("host", host)
    };
    let asked = json!({"templateID": "base"});
    let made = ask(Method::POST, "api.belljar.test", "/sandboxes");
    let made = made.header("x-api-key", &client.key.text).json(&asked);
    let made = made.json_with(201).await;
    assert_eq!(made["domain"], "belljar.test", "{made:#}");
    let (id, token) = (&made["sandboxID"], &made["trafficAccessToken"]);
    let (id, token) = (id.as_str().unwrap(), token.as_str().unwrap());
    let host = |port: u16| format!("{port}-{id}.belljar.test");
    let health = || ask(Method::GET, &host(49983), "/health");
    health().header("x-access-token", token).with(204).await;
    health().with(401).await;
    let lines = ask(Method::POST, &host(49999), "/execute").json(&json!({"code": "6 * 7"}));
    let lines = lines
        .header("e2b-traffic-access-token", token)
        .with(200)
        .await;
    assert!(lines.text().await.unwrap().contains(r#""text":"42""#));
    let port = ask(Method::GET, &host(8080), "/health").header("x-access-token", token);
    port.with(502).await;
    // Other names are none of ours, and our own name has `/v1`.
    ask(Method::GET, "api.other.test", "/sandboxes")
        .with(421)
        .await;
    client.get("/v1/sessions").with(200).await;
    world.ends().await;
}

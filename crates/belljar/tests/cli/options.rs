//! Each entry of docs/options.md, for real: what an option promises holds on every way in that has it.
//! The column of the SDK is in `sdk/python/tests/test_options.py`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use belljar_sandbox::{
    AllowList, Cell, Checkpoints, Engine, EngineSet, EnvironmentStore, HostDirectory, Limits,
    Network, PackageStore, Packages, Secrets, Session, SessionOptions, Variables,
};
use belljar_test_model::{Scripted, ScriptedModel};
use rustix::process::Signal;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::mcp::Client;
use crate::options_table::{Entry, OPTIONS, WAYS};
use crate::packages::Shop;
use crate::run::code;
use crate::serve::{ask_with, start, stop};
use crate::support::{Ended, eventually};

/// The limits that all ways in are given.
const LIMITS: [&str; 8] = [
    "--memory",
    "128",
    "--cpus",
    "0.2",
    "--processes",
    "16",
    "--disk",
    "1",
];

/// What `--secret TOKEN` takes from the environment of each command here.
const TOKEN: &str = "tok-0123456789";

const LIMITED: &str = "limited\n";

/// A program that answers one request.
const LISTEN: &str = "\
import socket, threading
listener = socket.create_server(('127.0.0.1', 8000))
def answer():
    connection, _ = listener.accept()
    connection.recv(65536)
    connection.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 8\\r\\n\\r\\nlimited\\n')
    connection.close()
threading.Thread(target=answer, daemon=True).start()";

/// Code that prints `limited` where the option holds.
fn probe(option: &str) -> &'static str {
    match option {
        "packages" => "# requires: gamma-three\nimport gamma_three\nprint('limited')",
        "network" => {
            "import urllib.request\n\
             try:\n    urllib.request.urlopen('http://denied.example/', timeout=9)\n\
             except OSError as error:\n    print('limited' if '403' in str(error) else error)"
        }
        "memory" => {
            "try:\n    held = bytearray(300 << 20)\n    print('free')\n\
             except MemoryError:\n    print('limited')"
        }
        "CPUs" => {
            "import time\n\
             start, used = time.perf_counter(), time.process_time()\n\
             while time.perf_counter() - start < 1: pass\n\
             print('limited' if time.process_time() - used < 0.5 else 'free')"
        }
        "processes" => {
            "import threading\n\
             stop, made = threading.Event(), []\n\
             try:\n    for _ in range(40):\n        made.append(threading.Thread(target=stop.wait))\n        \
             made[-1].start()\n    print('free')\n\
             except RuntimeError:\n    print('limited')\n\
             finally:\n    stop.set()"
        }
        "disk" => {
            "import os\n\
             try:\n    with open('big', 'wb') as file: file.write(bytes(4 << 20))\n    print('free')\n\
             except OSError:\n    print('limited')\n\
             os.remove('big')"
        }
        "host directories" => "import os\nprint(*os.listdir('/data'))",
        "variables" => {
            "import os; print('limited' if os.environ.get('PLACE') == 'north' else 'free')"
        }
        "secrets" => {
            "import os; token = os.environ.get('TOKEN', '')\n\
             print('limited' if len(token) == 14 else 'free'); _ = open('seen', 'w').write(token)"
        }
        // Of the host: no walls show it.
        "isolation" => "import os; print('limited' if os.path.exists('/etc/shadow') else 'walls')",
        other => panic!("no probe of {other}"),
    }
}

/// Tries each entry of a way in.
fn each(way: &str, mut check: impl FnMut(&str)) {
    for option in rows(way) {
        check(option);
    }
}

/// A shop with two environments: the second has `json` in its preload list.
fn shop() -> Shop {
    let shop = Shop::new();
    for arguments in [
        &["env", "create", "one"][..],
        &["env", "create", "two", "--preload", "wave"],
    ] {
        let mut command = shop.prepare(arguments);
        command.args(["--python", &shop.python]);
        shop.scratch.finish(command.spawn().unwrap()).exits_with(0);
    }
    shop
}

/// Whether this is the second environment.
const WHICH: &str = "import sys; print('limited' if 'wave' in sys.modules else 'one')";

/// The flags that give an option to a command.
fn flags(option: &str) -> &'static [&'static str] {
    match option {
        "packages" => &["--packages", "gamma-three"],
        "network" => &["--allow", "allowed.example"],
        "memory" => &LIMITS[..2],
        "CPUs" => &LIMITS[2..4],
        "processes" => &LIMITS[4..6],
        "disk" => &LIMITS[6..],
        "environment" => &["--env", "two"],
        "isolation" => &["--walls", "none"],
        "cell timeout" => &["--timeout", "1"],
        "host directories" => &["--mount", "/usr:limited"],
        "variables" => &["--var", "PLACE=north"],
        "secrets" => &["--secret", "TOKEN"],
        _ => &[],
    }
}

fn with_environment<'a>(option: &str, first: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = first.to_vec();
    if option != "environment" {
        arguments.extend(["--env", "one"]);
    }
    arguments.extend(flags(option));
    arguments
}

#[test]
fn options_of_exec() {
    let shop = shop();
    let exec = |option: &str, more: &[&str]| -> Ended {
        let mut command = shop.prepare(&with_environment(option, &["exec"]));
        command.env("TOKEN", TOKEN);
        shop.scratch.finish(command.args(more).spawn().unwrap())
    };
    each("exec", |option| match option {
        "cell timeout" => drop(exec(option, &["while True: pass"]).exits_with(124)),
        "environment" => drop(exec(option, &[WHICH]).exits_with(0).prints(LIMITED)),
        "files" => {
            shop.scratch.write("in.txt", "42");
            let copy = "open('out.txt', 'w').write(open('in.txt').read()); None";
            exec(option, &["--put", "in.txt", "--out", "results", copy]).exits_with(0);
            assert_eq!(shop.scratch.read("results/out.txt"), "42");
        }
        "seed values" => {
            let ended = exec(option, &["--seed", "{\"n\": 41}", "print(n + 1)"]);
            ended.exits_with(0).prints("42\n");
        }
        option => drop(exec(option, &[probe(option)]).exits_with(0).prints(LIMITED)),
    });
    let shown = exec("secrets", &["import os; print(os.environ['TOKEN'])"]);
    shown.exits_with(0).prints("[secret TOKEN]\n");
    for (arguments, said) in [
        (
            ["--secret", "NOT_SET_HERE"],
            "has no variable `NOT_SET_HERE`",
        ),
        (["--var", "LD_PRELOAD=x"], "`LD_PRELOAD` is reserved"),
        (["--var", "PLACE"], "expected NAME=VALUE"),
    ] {
        exec("files", &[&arguments[..], &["1"]].concat())
            .exits_with(2)
            .says(said);
    }
    for (twice, said) in [
        (
            ["--env", "one", "--env", "two"],
            "`--env` was given 2 times",
        ),
        (
            ["--env", "one", "--walls", "full,none"],
            "`--walls` has 2 values",
        ),
    ] {
        let twice = [&["exec"][..], &twice, &["1"]].concat();
        let twice = shop.prepare(&twice).spawn().unwrap();
        shop.scratch.finish(twice).exits_with(2).says(said);
    }
}

#[test]
fn options_of_the_repl() {
    let shop = shop();
    let repl = |option: &str, lines: &str| -> Ended {
        let mut command = shop.prepare(&with_environment(option, &["repl"]));
        let mut child = command.env("TOKEN", TOKEN).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).unwrap();
        drop(stdin);
        shop.scratch.finish(child)
    };
    each("repl", |option| match option {
        "cell timeout" => drop(repl(option, "while True: pass\n\n").says("longer than 1 s")),
        "environment" => drop(repl(option, &format!("{WHICH}\n")).prints(LIMITED)),
        "checkpoints" => {
            let lines = "x = 42\n/checkpoint a\nx = 1\n/restore a\nprint(x)\n";
            assert!(repl(option, lines).stdout.contains("42\n"));
        }
        "files" => {
            shop.scratch.write("in.txt", "42");
            let lines = "/put in.txt a.txt\nprint(open('a.txt').read())\n/get a.txt back.txt\n";
            assert!(repl(option, lines).stdout.contains("42\n"));
            assert_eq!(shop.scratch.read("back.txt"), "42");
        }
        "packages" => {
            let lines = "# requires: gamma-three\nimport gamma_three; print('limited')\n";
            drop(repl(option, lines).prints(LIMITED));
        }
        option => drop(repl(option, &format!("exec({:?})\n", probe(option))).prints(LIMITED)),
    });
}

#[test]
fn options_of_the_shell() {
    let shop = shop();
    let shell = |option: &str, more: &[&str]| -> Ended {
        let mut command = shop.prepare(&with_environment(option, &["shell"]));
        command.env("TOKEN", TOKEN);
        command.args(more).stdin(std::process::Stdio::null());
        shop.scratch.finish(command.spawn().unwrap())
    };
    each("shell", |option| match option {
        "cell timeout" => drop(shell(option, &["sleep 100"]).exits_with(124)),
        "environment" => {
            let prefix = shell(option, &["python", "-c", "import sys; print(sys.prefix)"]);
            assert!(prefix.stdout.contains("/two"), "{prefix:#?}");
        }
        "files" => {
            shop.scratch.write("in.txt", "42");
            shell(
                option,
                &["--put", "in.txt", "--out", "results", "cp in.txt out.txt"],
            )
            .exits_with(0);
            assert_eq!(shop.scratch.read("results/out.txt"), "42");
        }
        option => {
            let ended = shell(option, &["python", "-c", probe(option)]);
            ended.exits_with(0).prints(LIMITED);
        }
    });
}

#[test]
fn options_of_run() {
    let shop = shop();
    let run = |option: &str, source: &str, more: &[&str]| -> Ended {
        // The code is shown, too: it does not have the word that it prints.
        let source = source.replace("limited", "lim' 'ited");
        let model = ScriptedModel::start([code(&source), Scripted::text("FINAL: limited")]);
        let (model, more) = (model.unwrap(), more.to_vec());
        let url = model.base_url();
        let fixed = ["run", "--model", "llamacpp/scripted", "--base-url", &url];
        let mut command = shop.prepare(&with_environment(option, &fixed));
        command.env("NO_COLOR", "1").env("TOKEN", TOKEN);
        command.args(more).arg("Look.");
        command.stdin(std::process::Stdio::null());
        shop.scratch.finish(command.spawn().unwrap())
    };
    each("run", |option| match option {
        "cell timeout" => {
            let ended = run(option, "while True: pass", &[]);
            ended.says("KeyboardInterrupt");
        }
        "environment" => drop(run(option, WHICH, &[]).says(LIMITED)),
        "checkpoints" => {
            // The variables of a crashed process come back from the checkpoint.
            let scripts = [
                code("x = 41"),
                code("import os; os._exit(1)"),
                code("print('got', x + 1)"),
                Scripted::text("FINAL: 42"),
            ];
            let model = ScriptedModel::start(scripts).unwrap();
            let url = model.base_url();
            let fixed = ["run", "--model", "llamacpp/scripted", "--base-url", &url];
            let mut command = shop.prepare(&with_environment(option, &fixed));
            command.arg("Look.").stdin(std::process::Stdio::null());
            let ended = shop.scratch.finish(command.spawn().unwrap());
            ended.says("got 42");
        }
        "files" => {
            shop.scratch.write("in.txt", "42");
            let source = "text = open('in.txt').read(); open('new.txt', 'w').write(text); print('got', text)";
            run(option, source, &["--put", "in.txt", "--out", "results"]).says("got 42");
            assert_eq!(shop.scratch.read("results/new.txt"), "42");
        }
        option => drop(run(option, probe(option), &[]).says(LIMITED)),
    });
}

/// A client of a service.
struct Http<'a> {
    address: &'a str,
    key: &'a str,
}

impl Http<'_> {
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let answer = ask_with(self.address, self.key, method, path, &body.to_string());
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn session(&self, options: &Value) -> String {
        let (status, session) = self.ask("POST", "/v1/sessions", options);
        assert_eq!(status, 201, "{session}");
        format!("/v1/sessions/{}", session["id"].as_str().unwrap())
    }

    fn refused(&self, options: &Value, code: &str) -> String {
        let (status, problem) = self.ask("POST", "/v1/sessions", options);
        assert_eq!((status, &problem["code"]), (400, &json!(code)), "{problem}");
        problem["detail"].as_str().unwrap().to_owned()
    }

    fn run(&self, session: &str, cell: &Value) -> Value {
        let (status, outcome) = self.ask("POST", &format!("{session}/cells"), cell);
        assert_eq!(status, 200, "{outcome}");
        outcome
    }

    fn prints(&self, session: &str, code: &str) -> String {
        let outcome = self.run(session, &json!({"code": code}));
        outcome["stdout"]["text"].as_str().unwrap().to_owned()
    }
}

#[test]
fn options_over_http() {
    let shop = shop();
    let mut command = shop.prepare(&["serve", "--env", "one", "--env", "two"]);
    command
        .args(["--listen", "127.0.0.1:0", "--data", "service"])
        .args(["--packages", "gamma-three,alpha-one"])
        .args(["--allow", "allowed.example"])
        .args(["--ports-domain", "localhost"])
        .args(flags("host directories"));
    let (mut child, _stderr, address) = start(command);
    let mut key = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut key).unwrap();
    let http = Http {
        address: &address,
        key: key.trim(),
    };
    let limits = json!({"memory_bytes": 128 << 20, "milli_cpus": 200, "processes": 16,
        "workspace_bytes": 1 << 20});
    each("HTTP", |option| match option {
        "packages" => packages_over_http(&http),
        "network" => {
            let session = http.session(&json!({"network": {"allow": ["allowed.example"]}}));
            assert_eq!(http.prints(&session, probe(option)), LIMITED);
            let code =
                "import urllib.request\nurllib.request.urlopen('http://a.example', timeout=9)";
            let remedy =
                |session: &str| http.run(session, &json!({"code": code}))["remedy"].clone();
            let by = json!({"option": "network", "set_by": "service", "value": "a.example"});
            assert_eq!(remedy(&session), by);
            let offline = json!({"option": "network", "set_by": "service"});
            assert_eq!(remedy(&http.session(&json!({}))), offline);
        }
        "cell timeout" => {
            let session = http.session(&json!({}));
            let cell = json!({"code": "while True: pass", "wall_time_ms": 300});
            assert_eq!(http.run(&session, &cell)["status"], "timeout");
        }
        "environment" => environments_over_http(&http),
        "isolation" => {
            let session = http.session(&json!({"isolation": "full"}));
            assert_eq!(http.prints(&session, probe(option)), "walls\n");
            let (_, view) = http.ask("GET", &session, &json!({}));
            assert_eq!(view["isolation"], "full");
            let gvisor = json!({"isolation": "gvisor"});
            let detail = http.refused(&gvisor, "isolation_not_offered");
            assert_eq!(detail, "it offers full for environment `one`");
        }
        "checkpoints" => {
            let session = http.session(&json!({"checkpoints": "off"}));
            http.prints(&session, "x = 42");
            let name = json!({"name": "a"});
            http.ask("POST", &format!("{session}/checkpoints"), &name);
            http.prints(&session, "x = 1");
            http.ask("POST", &format!("{session}/restore"), &name);
            assert_eq!(http.prints(&session, "print(x)"), "42\n");
        }
        "files" => {
            let session = http.session(&json!({}));
            let file = format!("{session}/files/a.json");
            assert_eq!(http.ask("PUT", &file, &json!(42)).0, 204);
            assert_eq!(
                http.prints(&session, "print(open('a.json').read())"),
                "42\n"
            );
            assert_eq!(http.ask("GET", &file, &json!({})), (200, json!(42)));
        }
        "host directories" => {
            let session = http.session(&json!({"mounts": ["limited"]}));
            assert_eq!(http.prints(&session, probe(option)), LIMITED);
            assert_eq!(
                http.ask("GET", &session, &json!({})).1["mounts"],
                json!(["limited"])
            );
            assert_eq!(http.prints(&http.session(&json!({})), probe(option)), "\n");
            let detail = http.refused(&json!({"mounts": ["other"]}), "mount_not_offered");
            assert_eq!(detail, "it offers limited");
        }
        "variables" | "secrets" => {
            let given = json!({"variables": {"PLACE": "north"}, "secrets": {"TOKEN": TOKEN}});
            let session = http.session(&given);
            assert_eq!(http.prints(&session, probe(option)), LIMITED);
            let (_, view) = http.ask("GET", &session, &json!({}));
            assert_eq!(
                (&view["variables"], &view["secrets"]),
                (&json!(["PLACE"]), &json!(["TOKEN"]))
            );
        }
        "namespaces" => {
            let session = http.session(&json!({}));
            let path = format!("{session}/namespaces");
            let (status, _) = http.ask("POST", &path, &json!({"name": "other"}));
            assert_eq!(status, 201);
            http.prints(&session, "x = 1");
            let cell = json!({"code": "print('x' in globals())", "namespace": "other"});
            let (_, outcome) = http.ask("POST", &format!("{session}/cells"), &cell);
            assert_eq!(outcome["stdout"]["text"], "False\n");
        }
        "ports" => {
            let session = http.session(&json!({}));
            http.prints(&session, LISTEN);
            let (status, port) = http.ask("POST", &format!("{session}/ports/8000"), &json!({}));
            assert_eq!(status, 200, "{port}");
            let mut stream = TcpStream::connect(&address).unwrap();
            let request = format!(
                "GET / HTTP/1.1\r\nHost: {}\r\nX-Belljar-Port-Token: {}\r\nConnection: close\r\n\r\n",
                port["host"].as_str().unwrap(),
                port["token"].as_str().unwrap()
            );
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with(LIMITED), "{answer}");
        }
        "name, metadata, time to live" => labels_over_http(&http),
        option => {
            let session = http.session(&json!({"limits": limits}));
            assert_eq!(http.prints(&session, probe(option)), LIMITED);
        }
    });
    stop(&shop.scratch, child, Signal::TERM).exits_with(0);
}

/// Within the operator's list, and per session within that.
fn packages_over_http(http: &Http<'_>) {
    let code = probe("packages");
    let session = http.session(&json!({}));
    let outcome = http.run(&session, &json!({"code": code}));
    assert_eq!(outcome["stdout"]["text"], LIMITED);
    assert_eq!(outcome["installed"], json!(["gamma-three 1.0"]));
    // The second time there is nothing to install.
    let outcome = http.run(&session, &json!({"code": code}));
    assert_eq!(
        (&outcome["status"], &outcome["installed"]),
        (&json!("success"), &Value::Null)
    );

    let only = |names: &Value| json!({"packages": {"allow": names}});
    let session = http.session(&only(&json!(["Gamma_Three"])));
    assert_eq!(http.prints(&session, code), LIMITED);
    let alpha = json!({"code": "# requires: alpha-one\nimport alpha_one"});
    let refused = |session: &str, cell: &Value, status: u16, code: &str| {
        let (got, problem) = http.ask("POST", &format!("{session}/cells"), cell);
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{problem}");
    };
    refused(&session, &alpha, 400, "package_not_allowed");
    // The session continues, and an unknown package is refused with another code.
    assert_eq!(http.prints(&session, "print(6 * 7)"), "42\n");
    let none = http.session(&only(&json!([])));
    refused(&none, &json!({"code": code}), 400, "package_not_allowed");
    let wrong = json!({"code": "# requires: -r /etc/passwd\n1"});
    refused(&none, &wrong, 422, "package_not_installed");
    let detail = http.refused(&only(&json!(["requests"])), "package_not_allowed");
    assert!(detail.contains("alpha-one, gamma-three"), "{detail}");
    http.refused(&only(&json!(["alpha-one>1"])), "package_not_allowed");
    let missing = http.run(&none, &json!({"code": "import yaml"}));
    let by = json!({"option": "packages", "set_by": "service", "value": "pyyaml"});
    assert_eq!(missing["remedy"], by);
}

fn environments_over_http(http: &Http<'_>) {
    let (_, me) = http.ask("GET", "/v1/me", &json!({}));
    assert_eq!(me["environments"], json!(["one", "two"]));
    let first = http.session(&json!({}));
    assert_eq!(http.prints(&first, WHICH), "one\n");
    let session = http.session(&json!({"environment": "two"}));
    assert_eq!(http.prints(&session, WHICH), LIMITED);
    let (_, view) = http.ask("GET", &session, &json!({}));
    assert_eq!(view["environment"], "two");
    let (_, forks) = http.ask("POST", &format!("{session}/fork"), &json!({"count": 1}));
    assert_eq!(forks["sessions"][0]["environment"], "two", "{forks}");
    let three = json!({"environment": "three"});
    let detail = http.refused(&three, "environment_not_offered");
    assert_eq!(detail, "it offers one, two");
}

fn labels_over_http(http: &Http<'_>) {
    let made = json!({"name": "report", "metadata": {"team": "7"}, "ttl_seconds": 600});
    let session = http.session(&made);
    let (_, view) = http.ask("GET", &session, &json!({}));
    assert_eq!(
        (&view["name"], &view["metadata"]),
        (&made["name"], &made["metadata"])
    );
    assert!(view["expires_at"].as_u64() > view["created_at"].as_u64());
    let listed = |query: &str| {
        let (_, page) = http.ask("GET", &format!("/v1/sessions?{query}"), &json!({}));
        page["sessions"].as_array().unwrap().len()
    };
    assert_eq!((listed("name=report"), listed("name=other")), (1, 0));
    assert_eq!(listed("metadata=team%3D7&name=report"), 1);
    assert_eq!(listed("metadata=team%3D8"), 0);
    assert_eq!(
        http.ask("GET", "/v1/sessions?metadata=team", &json!({})).0,
        400
    );

    let change = json!({"name": "", "metadata": {"team": "8"}});
    let (status, view) = http.ask("PATCH", &session, &change);
    assert_eq!((status, &view["name"]), (200, &Value::Null), "{view}");
    assert_eq!(listed("metadata=team%3D8"), 1);
    assert!(view["expires_at"].is_u64());
    http.refused(&json!({"metadata": {"": "x"}}), "bad_body");

    let (_, view) = http.ask(
        "POST",
        &format!("{session}/lease"),
        &json!({"seconds": 900, "then": "sleep"}),
    );
    assert_eq!(
        (&view["lease"]["then"], &view["expires_at"]),
        (&json!("sleep"), &Value::Null)
    );
    let far = json!({"seconds": 25 * 3600});
    assert_eq!(http.ask("POST", &format!("{session}/lease"), &far).0, 400);

    // Its time is over: nothing runs in it any more, and it is shown as ended.
    http.ask("PATCH", &session, &json!({"ttl_seconds": 1}));
    let state = || http.ask("GET", &session, &json!({})).1["state"].clone();
    eventually(state, |state| state == "ended");
    let (status, problem) = http.ask("POST", &format!("{session}/cells"), &json!({"code": "1"}));
    assert_eq!((status, &problem["code"]), (409, &json!("session_ended")));
    assert_eq!(http.ask("PATCH", &session, &json!({"name": "late"})).0, 409);
}

#[test]
fn options_over_mcp() {
    let shop = shop();
    let mut command = shop.prepare(&["mcp", "--env", "one", "--env", "two", "--timeout", "20"]);
    command
        .args(LIMITS)
        .args(flags("packages"))
        .args(flags("variables"))
        .args(flags("secrets"))
        .env("TOKEN", TOKEN)
        .args(flags("network"))
        .args(flags("host directories"));
    let Shop { scratch, .. } = shop;
    let mut mcp = Client::start_by(scratch, command);
    mcp.initialize(&json!({}));
    each("MCP", |option| match option {
        "packages" => {
            assert_eq!(mcp.run(probe(option)), LIMITED);
            let code = json!({"code": "# requires: alpha-one\n1"});
            let refused = mcp.call("run_python", &code);
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert_eq!(refused["isError"], true);
            assert!(text.contains("--packages alpha-one"), "{text}");
            let missing = mcp.call("run_python", &json!({"code": "import yaml"}));
            let text = missing["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("`--packages pyyaml`"), "{text}");
        }
        "cell timeout" => {
            let cell = json!({"code": "while True: pass", "timeout_seconds": 1});
            let ended = mcp.call("run_python", &cell);
            assert_eq!(ended["structuredContent"]["status"], "timeout", "{ended}");
        }
        "environment" => {
            let made = mcp.call("create_session", &json!({"environment": "two"}));
            let id = &made["structuredContent"]["session_id"];
            let ran = mcp.call("run_python", &json!({"code": WHICH, "session_id": id}));
            assert_eq!(ran["structuredContent"]["stdout"]["text"], LIMITED, "{ran}");
            assert_eq!(mcp.run(WHICH), "one\n");
            let refused = mcp.call("create_session", &json!({"environment": "three"}));
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("there are: one, two"), "{text}");
        }
        "isolation" => {
            let made = mcp.call("create_session", &json!({"isolation": "full"}));
            let id = &made["structuredContent"]["session_id"];
            let cell = json!({"code": probe(option), "session_id": id});
            let ran = mcp.call("run_python", &cell);
            assert_eq!(ran["structuredContent"]["stdout"]["text"], "walls\n");
            let refused = mcp.call("create_session", &json!({"isolation": "none"}));
            let text = refused["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("environment `one` has: full"), "{text}");
        }
        "checkpoints" => {
            mcp.run("x = 42");
            mcp.call("checkpoint", &json!({"name": "a"}));
            mcp.run("x = 1");
            mcp.call("restore", &json!({"name": "a"}));
            assert_eq!(mcp.run("print(x)"), "42\n");
        }
        "files" => {
            mcp.call("write_file", &json!({"path": "a.txt", "content": "42"}));
            assert_eq!(mcp.run("print(open('a.txt').read())"), "42\n");
            let read = mcp.call("read_file", &json!({"path": "a.txt"}));
            assert!(read.to_string().contains("42"), "{read}");
        }
        "secrets" => {
            assert_eq!(mcp.run(probe(option)), LIMITED);
            let read = mcp.call("read_file", &json!({"path": "seen"})).to_string();
            assert!(
                read.contains("[secret TOKEN]") && !read.contains(TOKEN),
                "{read}"
            );
        }
        option => assert_eq!(mcp.run(probe(option)), LIMITED, "{option}"),
    });
}

async fn printed(session: &Session, cell: impl Into<Cell>) -> String {
    session.run(cell).await.unwrap().stdout.text
}

#[tokio::test]
async fn options_of_the_library() {
    let shop = shop();
    let store = EnvironmentStore::open(shop.scratch.path("data"));
    let engine = |name: &str| {
        let wheels = shop.scratch.path("wheels").display().to_string();
        let packages = PackageStore::open(shop.scratch.path("data")).indexes([wheels]);
        Engine::builder(store.load(name).unwrap())
            .packages(Packages::Any)
            .package_store(packages)
            .mount(HostDirectory::new("limited", "/usr".as_ref()).unwrap())
            .build()
    };
    let (one, two) = (engine("one"), engine("two"));
    let allowed = AllowList::parse(["allowed.example"]).unwrap();
    let options = SessionOptions {
        limits: Limits {
            memory_bytes: 128 << 20,
            milli_cpus: 200,
            processes: 16,
            workspace_bytes: 1 << 20,
            ..Limits::default()
        },
        network: Network::Allow(allowed),
        packages: Packages::allow(["gamma-three"]),
        mounts: vec!["limited".into()],
        checkpoints: Checkpoints::Every,
        variables: Variables::new([("PLACE".into(), "north".into())].into()).unwrap(),
        secrets: Secrets::new([("TOKEN".into(), TOKEN.into())].into()).unwrap(),
        ..SessionOptions::default()
    };
    let session = one.session_with(options).await.unwrap();
    for option in rows("Rust") {
        match option {
            "packages" => {
                let cell = |code: &str| Cell {
                    installs: true,
                    ..Cell::from(code)
                };
                assert_eq!(printed(&session, cell(probe(option))).await, LIMITED);
                let refused = session
                    .run(cell("# requires: alpha-one"))
                    .await
                    .unwrap_err();
                assert!(refused.to_string().contains("`alpha-one`"), "{refused}");
            }
            "cell timeout" => {
                let cell = Cell {
                    wall_time: Some(Duration::from_millis(300)),
                    ..Cell::from("while True: pass")
                };
                let outcome = session.run(cell).await.unwrap();
                assert!(!outcome.is_success(), "{outcome:?}");
            }
            "environment" => {
                let other = two.session().await.unwrap();
                assert_eq!(printed(&other, WHICH).await, LIMITED);
                assert_eq!(printed(&session, WHICH).await, "one\n");
            }
            "isolation" => {
                let open = Engine::builder(store.load("one").unwrap());
                let engines = EngineSet::new(one.clone(), [open.without_walls().build()]);
                let engine = engines.choose(None, Some("none"), None).unwrap();
                let other = engine.session().await.unwrap();
                assert_eq!(printed(&other, probe(option)).await, LIMITED);
                assert_eq!(printed(&session, probe(option)).await, "walls\n");
            }
            "checkpoints" => {
                printed(&session, "kept = 42").await;
                session.run("import os; os._exit(1)").await.unwrap();
                assert_eq!(printed(&session, "print(kept)").await, "42\n");
            }
            "files" => {
                session.put("a.txt", b"42").unwrap();
                assert_eq!(
                    printed(&session, "print(open('a.txt').read())").await,
                    "42\n"
                );
                assert_eq!(session.get("a.txt").unwrap(), b"42");
            }
            "namespaces" => {
                session.create_namespace("other", None).await.unwrap();
                printed(&session, "main_alone = 1").await;
                let cell = Cell {
                    namespace: Some("other".into()),
                    ..Cell::from("print('main_alone' in globals())")
                };
                assert_eq!(printed(&session, cell).await, "False\n");
            }
            "ports" => {
                printed(&session, LISTEN).await;
                let mut stream = session.connect(8000).await.unwrap();
                stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
                let mut answer = String::new();
                stream.read_to_string(&mut answer).await.unwrap();
                assert!(answer.ends_with(LIMITED), "{answer}");
            }
            "seed values" => {
                let values: Map<String, Value> =
                    [("given".to_owned(), json!(42))].into_iter().collect();
                session.seed(&values).await.unwrap();
                assert_eq!(printed(&session, "print(given)").await, "42\n");
            }
            option => assert_eq!(printed(&session, probe(option)).await, LIMITED, "{option}"),
        }
    }
    drop(session);
    one.shutdown().await;
    two.shutdown().await;
}

/// The options that a way in has.
fn rows(way: &str) -> Vec<&'static str> {
    let column = WAYS.iter().position(|name| *name == way).unwrap();
    let has = |entries: &[Entry; 8]| match entries[column] {
        Entry::Set(how) => !how.is_empty(),
        Entry::No(reason) => {
            assert!(!reason.is_empty(), "an empty entry has a reason");
            false
        }
    };
    let rows = OPTIONS.iter().filter(|(_, entries)| has(entries));
    rows.map(|(option, _)| *option).collect()
}

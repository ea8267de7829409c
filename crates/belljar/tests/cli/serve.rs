//! `belljar serve` and `belljar keys`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStderr};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{BELLJAR, Ended, Scratch, bare};

/// A service on a port of its own, and where it listens.
fn serve(scratch: &Scratch) -> (Child, BufReader<ChildStderr>, String) {
    let mut child = scratch
        .prepare(BELLJAR)
        .args(["serve", "--env", bare(), "--data", "service"])
        .args(["--listen", "127.0.0.1:0"])
        .spawn()
        .unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let address = listens_on(&mut stderr);
    (child, stderr, address)
}

fn listens_on(stderr: &mut BufReader<ChildStderr>) -> String {
    let lines = stderr.lines().map(Result::unwrap);
    let mut addresses = lines.filter_map(|line| Some(line.split_once("http://")?.1.to_owned()));
    let address = addresses.next().expect("it ended");
    address.trim_end_matches(']').to_owned()
}

fn stop(scratch: &Scratch, child: Child, signal: Signal) -> Ended {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
    scratch.finish(child)
}

fn ask(address: &str, key: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// The key is printed by the first start alone, and good for all; a signal ends the service and everything
/// that it started.
#[test]
fn the_service_starts_and_stops() {
    let scratch = Scratch::new();
    let (mut child, _stderr, address) = serve(&scratch);
    let mut key = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut key)
        .unwrap();
    let key = key.trim();
    assert!(key.starts_with("bj_"), "{key}");
    let made = ask(&address, key, "POST", "/v1/sessions");
    assert!(made.starts_with("HTTP/1.1 201 "), "{made}");
    let refused = ask(&address, "bj_00000000_0", "POST", "/v1/sessions");
    assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
    stop(&scratch, child, Signal::TERM).exits_with(0).prints("");

    let (child, _stderr, address) = serve(&scratch);
    let listed = ask(&address, key, "GET", "/v1/sessions");
    assert!(listed.starts_with("HTTP/1.1 200 "), "{listed}");
    stop(&scratch, child, Signal::INT).exits_with(0).prints("");
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let scratch = Scratch::new();
    let keys = |arguments: &[&str]| {
        scratch.belljar(&[&["keys"], arguments, &["--data", "service"]].concat())
    };
    let key = keys(&["create", "--tenant", "team-7", "--scope", "sessions"]).exits_with(0);
    let prefix = key.stdout.split('_').nth(1).unwrap().to_owned();
    let list = keys(&["list"]).exits_with(0);
    assert!(
        list.stdout
            .starts_with(&format!("{prefix}\tteam-7\tsessions\t")),
        "{list:#?}"
    );
    assert!(list.stdout.ends_with("\tvalid\n"), "{list:#?}");
    keys(&["revoke", &prefix]).exits_with(0).prints("");
    keys(&["revoke", &prefix])
        .exits_with(2)
        .says("no key that is valid has the prefix");
    assert!(keys(&["list"]).stdout.contains("\trevoked at "));
    keys(&["create", "--tenant", "a b"])
        .exits_with(2)
        .says("lower-case letters");
    // All are revoked: nobody could use it.
    scratch
        .belljar(&[
            "serve",
            "--env",
            bare(),
            "--data",
            "service",
            "--listen",
            "127.0.0.1:0",
        ])
        .exits_with(2)
        .says("belljar keys create");
}

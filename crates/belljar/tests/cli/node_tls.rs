//! `belljar serve --node-ca`: mutual TLS between nodes.

use std::process::Command;

use crate::nodes::Cluster;
use crate::serve::{body, text_of};
use crate::support::Scratch;

/// Makes an authority, a certificate of it for nodes, and options with both.
fn certificates(scratch: &Scratch) -> Vec<String> {
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(scratch.path("")).args(line.split(' '));
        let ended = command.output().unwrap();
        assert!(ended.status.success(), "{line}: {ended:?}");
    };
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!(
        "{request} -subj /CN=nodes -keyout ca.key -out ca.pem"
    ));
    openssl(&format!(
        "{request} -subj /CN=node -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE \
         -addext extendedKeyUsage=serverAuth,clientAuth -CA ca.pem -CAkey ca.key -keyout node.key -out node.pem"
    ));
    let files = [("certificate", "node.pem"), ("key", "node.key")];
    let mut options: Vec<String> = files
        .iter()
        .map(|(option, file)| format!("--tls-{option}={}", scratch.path(file).display()))
        .collect();
    options.push(format!("--node-ca={}", scratch.path("ca.pem").display()));
    options
}

/// A session is used by way of another node, and a client passes for none.
#[test]
fn nodes_with_an_authority_are_one_service() {
    let files = Scratch::new();
    let mut cluster = Cluster::new([]);
    cluster.options = certificates(&files);
    let mut first = cluster.node();
    let key = first.key();
    let second = cluster.node();
    let ask = |node: &str, path: &str, more: &[&str]| {
        let mut curl = Command::new("curl");
        curl.current_dir(files.path(""))
            .args([
                "--silent",
                "--show-error",
                "--include",
                "--cacert",
                "ca.pem",
            ])
            .args(["--header", &format!("Authorization: Bearer {key}")])
            .args(["--header", "Content-Type: application/json"])
            .args(more)
            .arg(format!("https://{node}{path}"));
        let ended = curl.output().unwrap();
        assert!(ended.status.success(), "{ended:?}");
        String::from_utf8(ended.stdout).unwrap()
    };
    let made = ask(&first.address, "/v1/sessions", &["--data", "{}"]);
    let session = format!("/v1/sessions/{}", text_of(body(&made), "id"));
    let cell = ["--data", r#"{"code": "print(6 * 7)"}"#];
    let ran = ask(&second.address, &format!("{session}/cells"), &cell);
    assert!(ran.starts_with("HTTP/1.1 200 "), "{ran}");
    assert!(ran.contains(r#""text":"42\n""#), "{ran}");
    let forged = ["--header", "X-Belljar-Node: 1"];
    let refused = ask(&first.address, &session, &forged);
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert_eq!(text_of(body(&refused), "code"), "node_not_trusted");
    second.stop();
    first.stop();
}

//! Files that are uploaded in parts.

use std::time::Duration;

use belljar_server::{Quota, ServerOptions};
use reqwest::{Method, RequestBuilder};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::quotas::{refused, world_of};
use crate::support::{Ask as _, Client, options, world, world_with};

/// `data/table.csv` in base64.
const NAME: &str = "ZGF0YS90YWJsZS5jc3Y=";

pub(crate) fn tus(request: RequestBuilder) -> RequestBuilder {
    request.header("tus-resumable", "1.0.0")
}

pub(crate) fn creation(request: RequestBuilder, length: usize) -> RequestBuilder {
    tus(request)
        .header("upload-length", length)
        .header("upload-metadata", format!("kind dGFibGU=,filename {NAME}"))
}

fn create(client: &Client, session: &str, length: usize) -> RequestBuilder {
    let request = client.request(Method::POST, &format!("{session}/uploads"));
    creation(request, length)
}

/// Begins an upload; its path.
pub(crate) async fn begun(client: &Client, session: &str, length: usize) -> String {
    let created = create(client, session, length).with(201).await;
    assert_eq!(created.headers()["tus-resumable"], "1.0.0");
    created.headers()["location"].to_str().unwrap().to_owned()
}

pub(crate) fn part_of(request: RequestBuilder, offset: usize, bytes: &[u8]) -> RequestBuilder {
    tus(request)
        .header("upload-offset", offset)
        .header("content-type", "application/offset+octet-stream")
        .body(bytes.to_vec())
}

fn part(client: &Client, upload: &str, offset: usize, bytes: &[u8]) -> RequestBuilder {
    part_of(client.request(Method::PATCH, upload), offset, bytes)
}

/// How many bytes have arrived.
async fn offset(client: &Client, upload: &str) -> String {
    let shown = tus(client.request(Method::HEAD, upload)).with(200).await;
    shown.headers()["upload-offset"]
        .to_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn a_file_comes_in_parts() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let whole: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = begun(&client, &session, whole.len()).await;
    let (first, rest) = whole.split_at(1_000_000);
    let added = part(&client, &upload, 0, first).with(204).await;
    assert_eq!(added.headers()["upload-offset"], "1000000");
    // Nothing is there before the last part.
    let file = format!("{session}/files/data/table.csv");
    client.get(&file).problem(404, "file_not_found").await;

    // The same part again, and one after a gap.
    for wrong in [0, 2_000_000] {
        let refused = part(&client, &upload, wrong, first);
        let refused = refused.problem(409, "upload_offset").await;
        assert!(refused["detail"].as_str().unwrap().starts_with("1000000 "));
    }
    assert_eq!(offset(&client, &upload).await, "1000000");
    // More than was announced.
    let long = part(&client, &upload, 1_000_000, &whole);
    long.problem(400, "bad_body").await;
    assert_eq!(offset(&client, &upload).await, "1000000");

    part(&client, &upload, 1_000_000, rest).with(204).await;
    let got = client.get(&file).with(200).await;
    assert_eq!(got.bytes().await.unwrap(), whole);
    // Whoever did not get the last answer can ask, and ends without a second effect.
    assert_eq!(offset(&client, &upload).await, "3000000");
    client.put(&file, "changed").with(204).await;
    part(&client, &upload, 3_000_000, b"").with(204).await;
    assert_eq!(
        client.get(&file).with(200).await.text().await.unwrap(),
        "changed"
    );
}

/// What arrived before the connection broke counts.
#[tokio::test]
async fn an_upload_goes_on_where_it_broke_off() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let upload = begun(&client, &session, 10_000).await;
    let head = format!(
        "PATCH {upload} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nTus-Resumable: 1.0.0\r\n\
         Upload-Offset: 0\r\nContent-Type: application/offset+octet-stream\r\nContent-Length: 10000\r\n\r\n",
        world.address, client.key.text
    );
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&[b'x'; 4_000]).await.unwrap();
    drop(stream);
    let arrived = async {
        while offset(&client, &upload).await != "4000" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let arrived = tokio::time::timeout(Duration::from_secs(20), arrived).await;
    arrived.expect("what was sent does not count");
    part(&client, &upload, 4_000, &[b'x'; 6_000])
        .with(204)
        .await;
    let code = "print(len(open('data/table.csv').read()))";
    assert_eq!(client.printed(&session, code).await, "10000\n");
}

#[tokio::test]
async fn uploads_are_bounded() {
    let small = options(|options| options.session.limits.transfer_bytes = 1_000);
    let world = world_with(small).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let large = create(&client, &session, 1_001);
    large.problem(413, "file_too_large").await;
    let uploads = format!("{session}/uploads");
    let old = client.request(Method::POST, &uploads);
    old.header("upload-length", 3)
        .problem(412, "tus_version")
        .await;
    let nameless = tus(client.request(Method::POST, &uploads)).header("upload-length", 3);
    nameless.problem(400, "bad_header").await;

    let first = begun(&client, &session, 3).await;
    for _ in 1..8 {
        begun(&client, &session, 3).await;
    }
    let ninth = create(&client, &session, 3);
    ninth.problem(429, "too_many_transfers").await;
    let typed = tus(client.request(Method::PATCH, &first)).header("upload-offset", 0);
    typed
        .body("abc")
        .problem(415, "unsupported_media_type")
        .await;
    // One that is complete makes room, and so does one that is given up.
    part(&client, &first, 0, b"abc").with(204).await;
    let ninth = begun(&client, &session, 3).await;
    tus(client.delete(&ninth)).with(204).await;
    let gone = part(&client, &ninth, 0, b"abc");
    gone.problem(404, "upload_not_found").await;
    // An empty file has no parts.
    begun(&client, &session, 0).await;
    let code = "print(len(open('data/table.csv').read()))";
    assert_eq!(client.printed(&session, code).await, "0\n");

    // Another tenant finds nothing, and neither does anybody after the end of the session.
    let other = world.client("b").await;
    let foreign = part(&other, &first, 0, b"abc");
    foreign.problem(404, "session_not_found").await;
    let pending = begun(&client, &session, 3).await;
    client.delete(&session).with(204).await;
    let late = part(&client, &pending, 0, b"abc");
    late.problem(404, "session_not_found").await;
}

/// Parts on their way count towards the quota, and no more once they are given up.
#[tokio::test]
async fn uploads_count_towards_the_quota_of_the_disk() {
    let quotas = [(Quota::DiskBytes, 100_000)];
    let world = world_of(&quotas, ServerOptions::default()).await;
    let client = world.client("a").await;
    let session = client.session().await;
    let upload = begun(&client, &session, 200_000).await;
    part(&client, &upload, 0, &vec![7; 60_000]).with(204).await;
    refused(
        part(&client, &upload, 60_000, &vec![7; 60_000]),
        "disk_bytes",
    )
    .await;
    assert_eq!(offset(&client, &upload).await, "60000");
    let another = begun(&client, &session, 200_000).await;
    refused(part(&client, &another, 0, &vec![7; 60_000]), "disk_bytes").await;
    tus(client.delete(&upload)).with(204).await;
    part(&client, &another, 0, &vec![7; 60_000]).with(204).await;
    // A part on its way counts once.
    part(&client, &another, 60_000, &vec![7; 40_000])
        .with(204)
        .await;
}

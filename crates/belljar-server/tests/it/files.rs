//! Files of a workspace.

use serde_json::json;

use crate::support::{Ask as _, Events, options, world, world_with};

#[tokio::test]
async fn files_go_in_and_come_out() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let files = format!("{session}/files");
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    client
        .put(&format!("{files}/a/large.bin"), large.clone())
        .with(204)
        .await;
    let got = client.get(&format!("{files}/a/large.bin")).with(200).await;
    assert_eq!(got.headers()["content-length"], "3000000");
    assert_eq!(got.bytes().await.unwrap(), large);
    client
        .put(&format!("{files}/a/large.bin"), "short")
        .with(204)
        .await;
    assert_eq!(
        client
            .printed(&session, "print(open('a/large.bin').read())")
            .await,
        "short\n"
    );
    let list = client.get(&files).json_with(200).await;
    let paths = json!([
        {"path": "a", "kind": "directory", "size": 0},
        {"path": "a/large.bin", "kind": "file", "size": 5},
    ]);
    assert_eq!(list["files"], paths);
    let below = client.get(&format!("{files}?path=a")).json_with(200).await;
    assert_eq!(below["files"].as_array().unwrap().len(), 1);
    client
        .delete(&format!("{files}/a"))
        .problem(409, "file_refused")
        .await;
    client
        .delete(&format!("{files}/a/large.bin"))
        .with(204)
        .await;
    client.delete(&format!("{files}/a")).with(204).await;
    client
        .get(&format!("{files}/a/large.bin"))
        .problem(404, "file_not_found")
        .await;
}

/// F1: no name leads out of the workspace, however it is written.
#[tokio::test]
async fn names_that_lead_out_are_refused() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let (key, address) = (&client.key.text, world.address);
    let long = "x".repeat(5000);
    let names = [
        "../one",
        "a/../../one",
        "%2e%2e/one",
        "%2e%2e%2fone",
        "%252e%252e%252fone",
        "a//b",
        "./one",
        "a/.",
        "a%5cb",
        "..%5cone",
        "one%00",
        "a/",
        &long,
    ];
    // The same with a `/` before it, which leads to the root of the session.
    let absolute = ["/etc/passwd", "%2fetc%2fpasswd"];
    for name in names.into_iter().chain(absolute) {
        let (status, code) = if absolute.contains(&name) {
            (403, "path_denied")
        } else {
            (400, "bad_path")
        };
        for method in ["GET", "PUT", "DELETE"] {
            // A client would tidy the path up.
            let request = format!(
                "{method} {session}/files/{name} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
                 Content-Length: 0\r\nConnection: close\r\n\r\n"
            );
            let answer = world.raw(request.as_bytes()).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{method} {name}: {answer}"
            );
            assert!(
                answer.contains(&format!("\"{code}\"")),
                "{method} {name}: {answer}"
            );
        }
    }
    for (path, status, code) in [
        ("..", 400, "bad_path"),
        ("%2e%2e", 400, "bad_path"),
        ("a%5cb", 400, "bad_path"),
        ("/etc", 403, "path_denied"),
    ] {
        let list = client.get(&format!("{session}/files?path={path}"));
        list.problem(status, code).await;
        let stat = client.get(&format!("{session}/stat?path={path}"));
        stat.problem(status, code).await;
    }
    for (path, status, code) in [
        ("../x", 400, "bad_path"),
        ("a\\b", 400, "bad_path"),
        ("", 400, "bad_path"),
        ("/etc/x", 403, "path_denied"),
    ] {
        let make = client.post(&format!("{session}/directories"), json!({"path": path}));
        make.problem(status, code).await;
        let rename = format!("{session}/rename");
        for body in [
            json!({"from": path, "to": "x"}),
            json!({"from": "x", "to": path}),
        ] {
            client.post(&rename, body).problem(status, code).await;
        }
    }
}

/// What a person does with files, and what is refused.
#[tokio::test]
async fn files_are_looked_at_moved_and_deleted() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let files = format!("{session}/files");
    let stat = async |path: &str| {
        let status = client.get(&format!("{session}/stat?path={path}"));
        status.json_with(200).await
    };
    let post = |route: &str, body| client.post(&format!("{session}/{route}"), body);
    let code = "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('123'); \
        os.chmod('a/b/c', 0o600); os.utime('a/b/c', (1, 1700000000)); os.symlink('c', 'a/b/link')";
    client.run(&session, code).await;
    let status = json!({"path": "a/b/c", "kind": "file", "size": 3, "mode": 0o600, "modified_at": 1_700_000_000});
    assert_eq!(stat("a/b/c").await, status);
    assert_eq!(stat("/workspace/a/b/c").await["size"], 3);
    assert_eq!(stat("a").await["kind"], "directory");
    assert_eq!(stat("a/b/link").await["kind"], "other");
    let missing = client.get(&format!("{session}/stat?path=nothing"));
    missing.problem(404, "file_not_found").await;

    post("directories", json!({"path": "d/e"})).with(204).await;
    post("directories", json!({"path": "d/e"})).with(204).await;
    let over = post("directories", json!({"path": "a/b/c"}));
    over.problem(409, "file_exists").await;

    let rename = json!({"from": "a/b/c", "to": "new/place"});
    post("rename", rename.clone()).with(204).await;
    post("rename", rename).problem(404, "file_not_found").await;
    assert_eq!(stat("new/place").await["size"], 3);
    let over = post("rename", json!({"from": "new/place", "to": "a"}));
    over.problem(409, "file_exists").await;
    let inside = post("rename", json!({"from": "a", "to": "a/x"}));
    inside.problem(409, "file_refused").await;

    let delete = |query: &str| client.delete(&format!("{files}/a{query}"));
    delete("").problem(409, "file_refused").await;
    delete("?recursive=false")
        .problem(409, "file_refused")
        .await;
    delete("?recursive=true").with(204).await;
    delete("?recursive=true")
        .problem(404, "file_not_found")
        .await;

    // `/tmp`, with its first `/` as it is or encoded.
    for path in ["%2Ftmp/x/y", "/tmp/x/y"] {
        client
            .put(&format!("{files}/{path}"), "in tmp")
            .with(204)
            .await;
        let got = client.get(&format!("{files}/{path}")).with(200).await;
        assert_eq!(got.bytes().await.unwrap(), "in tmp");
    }
    let list = client
        .get(&format!("{files}?path=/tmp/x"))
        .json_with(200)
        .await;
    assert_eq!(list["files"][0]["path"], "/tmp/x/y");
    let print = "print(open('/tmp/x/y').read())";
    assert_eq!(client.printed(&session, print).await, "in tmp\n");
    let delete = client.delete(&format!("{files}/%2Ftmp/x?recursive=true"));
    delete.with(204).await;
    let list = client
        .get(&format!("{files}?path=/tmp"))
        .json_with(200)
        .await;
    assert_eq!(list["files"], json!([]));
}

/// F2, F7: links and pipes are shown and never opened.
#[tokio::test]
async fn what_is_no_regular_file_is_not_opened() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let code =
        "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('pipe'); open('one', 'w').close()";
    client.run(&session, code).await;
    for name in ["link", "pipe"] {
        let path = format!("{session}/files/{name}");
        client.get(&path).problem(409, "not_regular").await;
        client.put(&path, "x").problem(409, "not_regular").await;
    }
    let archive = client.get(&format!("{session}/archive")).with(200).await;
    assert_eq!(names_in(&archive.bytes().await.unwrap()), ["one"]);
}

/// F13: a file is saved under its own name, and never shown.
#[tokio::test]
async fn a_download_is_an_attachment() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/files/a%22%0D%0Ax%3A%20%E2%80%AE.html");
    client.put(&path, "<script>").with(204).await;
    let got = client.get(&path).with(200).await;
    let headers = got.headers();
    assert_eq!(headers["content-type"], "application/octet-stream");
    assert_eq!(
        headers["content-disposition"],
        "attachment; filename*=UTF-8''a%22%0D%0Ax%3A%20%E2%80%AE.html"
    );
    assert!(!headers.contains_key("x"));
}

#[tokio::test]
async fn the_workspace_comes_as_an_archive() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let name = format!("{}/{}", "d".repeat(100), "f".repeat(100));
    let code = format!(
        "import os; os.mkdir('{0}'); open('{name}', 'w').write('deep'); open('one', 'w').write('1')",
        "d".repeat(100)
    );
    client.run(&session, &code).await;
    let archive = client.get(&format!("{session}/archive")).with(200).await;
    assert_eq!(archive.headers()["content-type"], "application/x-tar");
    let bytes = archive.bytes().await.unwrap();
    assert_eq!(
        names_in(&bytes),
        [format!("{}/", "d".repeat(100)), name, "one".into()]
    );
}

/// K6: what is too large is refused before it is sent, or as soon as it is too much.
#[tokio::test]
async fn a_file_that_is_too_large_is_refused() {
    let world = world_with(options(|options| {
        options.session.limits.transfer_bytes = 1000;
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/files/large");
    client.put(&path, vec![0; 1000]).with(204).await;
    let (key, address) = (&client.key.text, world.address);
    let head = format!("PUT {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n");
    let announced = format!("{head}Content-Length: 10000000000\r\n\r\n");
    let answer = world.raw(announced.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let chunk = "0".repeat(1001);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n3e9\r\n{chunk}\r\n");
    let answer = world.raw(chunked.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    client
        .run(&session, "open('larger', 'w').write('x' * 1001)")
        .await;
    client
        .get(&format!("{session}/files/larger"))
        .problem(413, "file_too_large")
        .await;
}

/// A full workspace is told as such, in our words.
#[tokio::test]
async fn a_full_workspace_refuses_a_file() {
    let world = world_with(options(|options| {
        options.session.limits.workspace_bytes = 64 << 10;
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    let put = client.put(&format!("{session}/files/large"), vec![0; 100 << 10]);
    put.problem(409, "file_refused").await;
}

/// Uploads count towards the session's memory: what does not fit is refused, and the session lives on.
#[tokio::test]
async fn uploads_over_the_memory_limit_are_refused() {
    const MEMORY: u64 = 64 << 20;
    let world = world_with(options(|options| {
        options.session.limits.memory_bytes = MEMORY;
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "kept = 42").await;
    let mut taken = 0;
    for number in 0..10 {
        let path = format!("{session}/files/{number}");
        let put = client.put(&path, vec![7; 17_000_000]);
        if put.try_clone().unwrap().send().await.unwrap().status() == 204 {
            taken += 1;
        } else {
            put.problem(409, "file_refused").await;
        }
    }
    assert_eq!(taken, 3);
    let shown = client.get(&session).json_with(200).await;
    let used = shown["use"]["memory_bytes"].as_u64().unwrap();
    assert!((3 * 17_000_000..=MEMORY).contains(&used), "{shown:#}");
    assert_eq!(client.printed(&session, "print(kept)").await, "42\n");
}

/// Whole directories go in and come out, also below `/tmp`.
#[tokio::test]
async fn directories_go_in_and_come_out() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    for (name, mode) in [("./run.sh", 0o750), ("deep/er/名.txt", 0o600)] {
        header.set_mode(mode);
        builder
            .append_data(&mut header, name, &b"hello"[..])
            .unwrap();
    }
    header.set_size(0);
    header.set_entry_type(tar::EntryType::Directory);
    builder.append_data(&mut header, "empty", &b""[..]).unwrap();
    let archive = builder.into_inner().unwrap();
    let all = ["deep/", "deep/er/", "deep/er/名.txt", "empty/", "run.sh"];
    for directory in ["in/side", "%2Ftmp/in", "%2Fworkspace"] {
        let path = format!("{session}/archive?path={directory}");
        client.put(&path, archive.clone()).with(204).await;
        let got = client.get(&path).with(200).await.bytes().await.unwrap();
        let names = names_in(&got);
        let known = |name: &&String| all.contains(&name.as_str());
        assert_eq!(names.iter().filter(known).count(), all.len(), "{names:?}");
        if directory != "%2Fworkspace" {
            assert_eq!(names, all);
        }
    }
    let code = "import os; print(open('in/side/deep/er/名.txt').read(), os.path.isdir('/tmp/in/empty'), \
        oct(os.stat('run.sh').st_mode), oct(os.stat('deep/er/名.txt').st_mode))";
    let printed = "hello True 0o100755 0o100644\n";
    assert_eq!(client.printed(&session, code).await, printed);
    // What is there and not in the archive stays.
    client
        .put(&format!("{session}/files/in/side/mine"), "1")
        .with(204)
        .await;
    let path = format!("{session}/archive?path=in/side");
    client.put(&path, archive).with(204).await;
    client
        .get(&format!("{session}/files/in/side/mine"))
        .with(200)
        .await;

    let bad = |name: &str| client.get(&format!("{session}/archive?path={name}"));
    bad("nothing").problem(404, "file_not_found").await;
    bad("run.sh").problem(409, "not_regular").await;
    bad("..").problem(400, "bad_path").await;
    bad("/etc").problem(403, "path_denied").await;
}

/// F31: an archive that is none, or leads elsewhere, is refused before anything is written.
#[tokio::test]
async fn a_hostile_archive_is_refused() {
    let world = world_with(options(|options| {
        options.session.limits.workspace_bytes = 1 << 20;
    }))
    .await;
    let client = world.client("a").await;
    let session = client.session().await;
    let path = format!("{session}/archive");
    let put = |body: Vec<u8>| client.put(&path, body);
    put(vec![b'x'; 600]).problem(422, "archive_refused").await;
    put(vec![0; (1 << 20) + 1])
        .problem(413, "body_too_large")
        .await;
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    builder
        .append_data(&mut header, "first", &b"1"[..])
        .unwrap();
    header.set_size(0);
    header.set_entry_type(tar::EntryType::Symlink);
    builder.append_link(&mut header, "link", "/etc").unwrap();
    let problem = put(builder.into_inner().unwrap());
    let problem = problem.problem(422, "archive_refused").await;
    assert!(problem["detail"].as_str().unwrap().contains("`link`"));
    let list = client.get(&format!("{session}/files")).json_with(200).await;
    assert_eq!(list["files"], json!([]));
    // More files than an archive has is no archive with fewer.
    let many = "for i in range(10001): open(f'f{i}', 'w').close()";
    client.run(&session, many).await;
    client.get(&path).problem(422, "archive_refused").await;
}

/// Changes are streamed as they happen, to the end of the directory.
#[tokio::test]
async fn a_directory_is_watched() {
    let world = world().await;
    let client = world.client("a").await;
    let session = client.session().await;
    client.run(&session, "import os; os.mkdir('d')").await;
    let watch = client.get(&format!("{session}/watch?path=d"));
    let mut events = Events::from_request(watch).await;
    let code = "open('d/a', 'w').write('1'); os.rename('d/a', 'd/b'); os.chmod('d/b', 0o600); \
        os.remove('d/b'); os.mkdir('d/名')";
    client.run(&session, code).await;
    client
        .put(&format!("{session}/files/d/put"), "x")
        .with(204)
        .await;
    client
        .run(&session, "import shutil; shutil.rmtree('d')")
        .await;
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        let name = event.data["name"].as_str().unwrap_or_default();
        seen.push(format!("{} {name}", event.kind));
    }
    let expected = [
        "created a",
        "written a",
        "renamed a",
        "created b",
        "attributes b",
        "deleted b",
        "created 名",
        "created put",
    ];
    assert_eq!(seen[..expected.len()], expected, "{seen:?}");
    assert_eq!(seen.last().unwrap(), "end ", "{seen:?}");

    for (path, status, code) in [
        ("d", 404, "file_not_found"),
        ("/etc", 403, "path_denied"),
        ("..", 400, "bad_path"),
    ] {
        let watch = client.get(&format!("{session}/watch?path={path}"));
        watch.problem(status, code).await;
    }
    // Hibernation ends it; a session has so many and no more.
    let path = format!("{session}/watch");
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(Events::from_request(client.get(&path)).await);
    }
    client.get(&path).problem(429, "too_many_streams").await;
    client
        .post(&format!("{session}/hibernate"), json!({}))
        .with(200)
        .await;
    for mut events in open {
        assert_eq!(events.next().await.unwrap().kind, "end");
        assert!(events.next().await.is_none());
    }
}

fn names_in(archive: &[u8]) -> Vec<String> {
    let mut archive = tar::Archive::new(archive);
    let entries = archive.entries().unwrap();
    entries
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

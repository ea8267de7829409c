//! Snapshots that are damaged or hostile.

use std::path::Path;
use std::time::{Duration, Instant};

use belljar_sandbox::{Engine, Error, Limits, SnapshotError};

use crate::snapshots::{Place, not_loaded};
use crate::support::{engine, good, printed, seconds, session};

fn damage(path: &Path, error: &Error) {
    assert!(
        matches!(error, Error::Snapshot(_)),
        "{}: {error:?}",
        path.display()
    );
}

/// Every flipped bit, every cut, every lie of a length is found before anything is opened.
#[tokio::test]
async fn damaged_snapshots_are_refused() {
    let session = session().await;
    good(
        &session,
        "x = list(range(100)); open('f', 'w').write('content')",
    )
    .await;
    let place = Place::new();
    session.snapshot(&place.path()).await.unwrap();
    let whole = std::fs::read(place.path()).unwrap();
    let engine = engine();
    let path = place.0.path().join("damaged");
    let refused = async |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = engine.load(&path, Limits::default()).await.unwrap_err();
        damage(&path, &error);
        error
    };
    for at in (0..whole.len())
        .step_by(whole.len().div_ceil(300))
        .chain([whole.len() - 1])
    {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        refused(&bytes).await;
    }
    for length in [
        0,
        1,
        15,
        16,
        19,
        20,
        60,
        75,
        76,
        77,
        whole.len() / 2,
        whole.len() - 1,
    ] {
        refused(&whole[..length]).await;
    }
    refused(&[whole.as_slice(), b"x"].concat()).await;
    // Lengths that lie, with a checksum that is right.
    let lengths = whole.len() - 56;
    for field in 0..3 {
        for value in [u64::MAX, u64::MAX / 2, 1 << 40, 0, 7] {
            let mut bytes = whole.clone();
            let at = lengths + field * 8;
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            refused(&signed(bytes)).await;
        }
    }
    for other in [&b"not a snapshot"[..], b"belljar-snapshot"] {
        let error = refused(other).await;
        assert!(matches!(
            error,
            Error::Snapshot(SnapshotError::NotASnapshot)
        ));
    }
    let mut bytes = whole.clone();
    bytes[16] = 9;
    let error = refused(&signed(bytes)).await;
    assert!(matches!(error, Error::Snapshot(SnapshotError::Version(9))));
    let error = engine
        .load(place.0.path(), Limits::default())
        .await
        .unwrap_err();
    damage(place.0.path(), &error);
}

/// With the checksum that belongs to it.
fn signed(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.truncate(bytes.len() - 32);
    let hash: [u8; 32] = blake3::hash(&bytes).into();
    bytes.extend_from_slice(&hash);
    bytes
}

/// A snapshot as anyone can write it.
fn forged(variables: &[u8], files: &[u8], header: &serde_json::Value) -> Vec<u8> {
    let header = header.to_string().into_bytes();
    let mut bytes = b"belljar-snapshot\x02\0\0\0".to_vec();
    for part in [variables, files, &header] {
        bytes.extend_from_slice(part);
    }
    for length in [variables.len(), files.len(), header.len()] {
        bytes.extend_from_slice(&(length as u64).to_le_bytes());
    }
    bytes.extend_from_slice(&[0; 32]);
    signed(bytes)
}

fn header(engine: &Engine, names: &[&str]) -> serde_json::Value {
    let names: Vec<_> = names
        .iter()
        .map(|n| serde_json::json!({"name": n, "type": "int"}))
        .collect();
    serde_json::json!({
        "belljar": "0", "python": engine.environment().version(), "environment": "bare",
        "packages": [], "cells": u32::MAX, "sources": {"<cell 1>": "x"}, "library": "pickle",
        "names": names, "files_left_out": [],
    })
}

fn record(name: &str, pickle: &[u8]) -> Vec<u8> {
    let head = format!(
        r#"{{"name":"{name}","cell":1,"first":0,"data":{},"buffers":[]}}"#,
        pickle.len()
    );
    let length = u32::try_from(head.len()).unwrap().to_le_bytes();
    [&length, head.as_bytes(), pickle].concat()
}

/// The pickle of `[function(argument)]`.
fn calls(module: &str, function: &str, argument: &str) -> Vec<u8> {
    format!("(lc{module}\n{function}\n({argument}tRa.").into_bytes()
}

fn entry(path: &[u8], kind: u8, chunks: &[&[u8]]) -> Vec<u8> {
    let mut bytes = u32::try_from(path.len()).unwrap().to_le_bytes().to_vec();
    bytes.extend_from_slice(path);
    bytes.push(kind);
    for chunk in chunks {
        bytes.extend_from_slice(&u32::try_from(chunk.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(chunk);
    }
    bytes
}

/// Pickles run code; they run it behind the walls of a session of their own, which alone suffers.
#[tokio::test]
async fn hostile_pickles_harm_only_their_own_session() {
    let engine = engine();
    let bystander = engine.session().await.unwrap();
    good(&bystander, "x = 'unharmed'").await;
    let place = Place::new();
    let marker = place.0.path().join("marker");
    let limits = Limits {
        memory_bytes: 128 << 20,
        wall_time: seconds(2.0),
        ..Limits::default()
    };
    let load = async |variables: &[u8], names: &[&str]| {
        std::fs::write(
            place.path(),
            forged(variables, &[], &header(&engine, names)),
        )
        .unwrap();
        engine.load(&place.path(), limits.clone()).await
    };

    // A command: runs inside, sees nothing of the host.
    let command = format!(
        "S'touch {} ; echo ran > /workspace/ran'\n",
        marker.display()
    );
    let variables = [
        record("a", &calls("os", "system", &command)),
        record("b", b"(lI7\na."),
    ]
    .concat();
    let (session, report) = load(&variables, &["a", "b"]).await.unwrap();
    assert!(!marker.exists());
    assert_eq!(not_loaded(&report).len(), 0);
    assert_eq!(session.get("ran").unwrap(), b"ran\n");
    assert_eq!(printed(&session, "print(b)").await, "7\n");

    // Those that end their session.
    for pickle in [
        calls("os", "_exit", "I0\n"),
        calls("os", "abort", ""),
        calls(
            "builtins",
            "eval",
            "S'__import__(\"collections\").deque(__import__(\"itertools\").repeat(1), 0)'\n",
        ),
        // Speaks on the session's channel instead of the driver.
        calls(
            "builtins",
            "eval",
            "S'__import__(\"os\").write(__import__(\"belljar_guest.state\").state.STATE.control, b\"x\" * 99)'\n",
        ),
    ] {
        let text = String::from_utf8_lossy(&pickle).into_owned();
        let started = Instant::now();
        let result = load(&record("a", &pickle), &["a"]).await;
        let error = result.expect_err(&text);
        assert!(
            matches!(error, Error::Snapshot(SnapshotError::Lost(_))),
            "{text}: {error:?}"
        );
        assert!(started.elapsed() < Duration::from_secs(30), "{text}");
    }

    // Those that fail, or are no pickles: told name by name, and the others come back.
    let bad: [(&[u8], &str); 8] = [
        (
            b"(lcbuiltins\nbytearray\n(I500000000\ntRa.",
            "MemoryError: ",
        ),
        (b"garbage", "_pickle.UnpicklingError: "),
        (b"", "EOFError: "),
        (b"(lI1\nI2\na.", "AttributeError: "),
        (b"(lI1\naI2\na.", "ValueError: "),
        (b"(lcno_such_module\nx\na.", "ModuleNotFoundError: "),
        (
            b"(lctime\nsleep\n(I60\ntRa.",
            "it took longer than its time",
        ),
        (b"(lcbuiltins\nexit\n(I1\ntRa.", "SystemExit: 1"),
    ];
    for (pickle, why) in bad {
        let variables = [record("a", pickle), record("b", b"(lI7\na.")].concat();
        let (session, report) = load(&variables, &["a", "b", "c"]).await.unwrap();
        let told = not_loaded(&report);
        assert!(told["a"].starts_with(why), "{told:?}");
        assert_eq!(told["c"], "it was not found in the snapshot");
        assert_eq!(printed(&session, "print(b)").await, "7\n", "{why}");
    }

    // Many that are slow: each has its time, then all of them; the session answers in the end.
    let slow = |n: usize| record(&format!("s{n}"), b"(lctime\nsleep\n(F0.3\ntRa.");
    let variables: Vec<u8> = (0..32).flat_map(slow).collect();
    let names: Vec<String> = (0..32).map(|n| format!("s{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (_session, report) = load(&variables, &names).await.unwrap();
    let told = not_loaded(&report);
    assert!(!told.contains_key("s0"), "{told:?}");
    assert_eq!(
        told["s31"],
        "TimeoutError: the time of the whole snapshot was up"
    );

    // Records that lie.
    for variables in [
        b"\xff\xff\xff\xff".to_vec(),
        b"\x02\0\0\0{}".to_vec(),
        b"\x04\0\0\0\xff\xff\xff\xff".to_vec(),
        [
            &40_u32.to_le_bytes()[..],
            br#"{"name":"a","cell":1,"data":-1,"buffers":"#,
        ]
        .concat(),
        record("__builtins__", b"(lI7\na."),
        record("a b", b"(lI7\na."),
    ] {
        let (session, report) = load(&variables, &["a"]).await.unwrap();
        assert_eq!(not_loaded(&report).len(), 1, "{variables:?}");
        assert_eq!(printed(&session, "print(len('abc'))").await, "3\n");
    }
    assert_eq!(printed(&bystander, "print(x)").await, "unharmed\n");
}

/// Paths that lead outside of the workspace lead nowhere.
#[tokio::test]
async fn hostile_paths_are_refused() {
    let engine = engine();
    let place = Place::new();
    let load = async |files: &[u8]| {
        std::fs::write(place.path(), forged(&[], files, &header(&engine, &[]))).unwrap();
        engine.load(&place.path(), Limits::default()).await
    };
    let target = place.0.path().join("outside");
    for path in [
        "../x",
        "a/../../x",
        target.to_str().unwrap(),
        "",
        ".",
        "a//b",
        "a/",
        "a\0b",
    ] {
        for kind in 0..3 {
            let chunks: &[&[u8]] = if kind == 2 { &[] } else { &[b"x", b""] };
            let error = load(&entry(path.as_bytes(), kind, chunks))
                .await
                .unwrap_err();
            assert!(matches!(error, Error::File(_)), "{path:?}: {error:?}");
        }
    }
    assert!(!target.exists());
    let good_entry = entry(b"a", 0, &[b"x", b""]);
    for files in [
        entry(b"a", 3, &[]),
        entry(b"\xff", 0, &[b""]),
        entry(b"a", 0, &[b"x"]),
        [&b"\xff\xff\xff\xff"[..], b"a"].concat(),
        [&good_entry[..], b"\x01\0"].concat(),
        [&b"\x01\0\0\0a\0"[..], b"\xff\xff\xff\xff"].concat(),
    ] {
        let error = load(&files).await.unwrap_err();
        assert!(
            matches!(error, Error::Snapshot(SnapshotError::Damaged(_))),
            "{files:?}: {error:?}"
        );
    }
    // A file in the place of a directory.
    let twice = [good_entry.clone(), entry(b"a/b", 0, &[b""])].concat();
    assert!(matches!(load(&twice).await.unwrap_err(), Error::File(_)));
    // More than a workspace holds.
    let chunk = vec![0; 1 << 20];
    let chunks: Vec<&[u8]> = std::iter::repeat_n(chunk.as_slice(), 20)
        .chain([&b""[..]])
        .collect();
    let files = entry(b"big", 0, &chunks);
    std::fs::write(place.path(), forged(&[], &files, &header(&engine, &[]))).unwrap();
    let small = Limits {
        workspace_bytes: 4 << 20,
        ..Limits::default()
    };
    let error = engine.load(&place.path(), small).await.unwrap_err();
    assert!(matches!(error, Error::File(_)), "{error:?}");
    // A counter at its end does no harm.
    let (session, report) = load(&good_entry).await.unwrap();
    assert_eq!(
        (report.files, good(&session, "1").await.cell),
        (1, u32::MAX / 2 + 1)
    );
}

/// Another minor version of Python is refused before a session is started; a patch is not.
#[tokio::test]
async fn another_python_is_refused() {
    let engine = engine();
    let place = Place::new();
    let (major, minor, patch) = engine.environment().version();
    let load = async |version: (u8, u8, u8)| {
        let mut header = header(&engine, &[]);
        header["python"] = serde_json::json!(version);
        std::fs::write(place.path(), forged(&[], &[], &header)).unwrap();
        engine.load(&place.path(), Limits::default()).await
    };
    assert!(load((major, minor, patch + 1)).await.is_ok());
    for other in [(major, minor + 1, patch), (major + 1, minor, patch)] {
        let error = load(other).await.unwrap_err();
        assert!(
            matches!(error, Error::Snapshot(SnapshotError::Python { .. })),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(&format!("{major}.{minor}")),
            "{error}"
        );
    }
}

/// The list of namespaces is as bounded in a file as everywhere, and what is in none of them is not bound.
#[tokio::test]
async fn hostile_namespaces_are_refused() {
    let engine = engine();
    let place = Place::new();
    let load = async |namespaces: &[&str], variables: &[u8]| {
        let mut header = header(&engine, &["x"]);
        let list = namespaces.iter();
        let list: Vec<_> = list
            .map(|name| serde_json::json!({"name": name, "directory": "/"}))
            .collect();
        header["namespaces"] = list.into();
        std::fs::write(place.path(), forged(variables, &[], &header)).unwrap();
        engine.load(&place.path(), Limits::default()).await
    };
    let many: Vec<String> = (0..16).map(|number| number.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    for names in [
        &["main"][..],
        &["__main__"],
        &["a", "a"],
        &["../a"],
        &[""],
        &many,
    ] {
        let refused = load(names, &[]).await.unwrap_err();
        let damaged = matches!(refused, Error::Snapshot(SnapshotError::Damaged(_)));
        assert!(damaged, "{names:?}: {refused:?}");
    }
    let stray = r#"{"name":"x","namespace":"none","cell":1,"first":0,"data":6,"buffers":[]}"#;
    let length = u32::try_from(stray.len()).unwrap().to_le_bytes();
    let variables = [&length, stray.as_bytes(), b"(lI7\na"].concat();
    let (session, report) = load(&["a"], &variables).await.unwrap();
    assert_eq!(not_loaded(&report).len(), 1);
    assert_eq!(session.namespaces().await.unwrap().len(), 2);
    assert_eq!(
        printed(&session, "print('x' in globals())").await,
        "False\n"
    );
}

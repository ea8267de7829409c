//! Environments that are container images: kept by name, and used by it.

use serde_json::{Value, json};

use crate::support::{BELLJAR, Ended, Scratch, bare};

/// Runs `belljar` with environments of this directory alone.
fn belljar(scratch: &Scratch, arguments: &[&str]) -> Ended {
    let mut command = scratch.prepare(BELLJAR);
    command.env("BELLJAR_DATA_DIR", scratch.path("data"));
    let child = command.args(arguments).spawn().unwrap();
    scratch.finish(child)
}

/// An environment of an engine that there is not, as `belljar env create` would have kept it.
fn keep(scratch: &Scratch, data: &std::path::Path) {
    let socket = format!("unix://{}", scratch.path("no.sock").display());
    let container = json!({"address": socket, "certificates": null, "runtime": "runsc"});
    let digest = format!("sha256:{}", "a".repeat(64));
    let image = json!({"name": "team/analysis:4", "digest": digest, "container": container});
    let environment = json!({
        "name": "analysis", "python": "/usr/bin/python3", "version": "3.12.1", "packages": [], "preload": ["json"],
        "fonts": [], "read_only_paths": [], "image": image,
    });
    let directory = data.join("environments/analysis");
    std::fs::create_dir_all(&directory).unwrap();
    let record = json!({"format": 2, "environment": environment});
    std::fs::write(directory.join("environment.json"), record.to_string()).unwrap();
}

/// What can't be had is refused at once, and nothing is kept.
#[test]
fn an_image_that_cannot_be_had_is_refused() {
    let scratch = Scratch::new();
    let create = |more: &[&str]| {
        let fixed = ["env", "create", "analysis", "--image", "python:3.12"];
        belljar(&scratch, &[&fixed[..], more].concat()).exits_with(2)
    };
    create(&["--docker", "unix:///nonexistent/docker.sock"])
        .says("/nonexistent/docker.sock cannot be reached")
        .says("hint: start Docker or Podman");
    create(&["--docker", "tcp://127.0.0.1:1"]).says("needs TLS");
    for more in [
        ["six"].as_slice(),
        &["--from", "default"],
        &["--preload", "json"],
    ] {
        create(more).says("cannot be used with");
    }
    let no_image = ["env", "create", "analysis", "--runtime", "runsc"];
    belljar(&scratch, &no_image).exits_with(2).says("--image");
    let listed = belljar(&scratch, &["env", "list"]).exits_with(0);
    listed.prints("").says("No environments yet");
}

/// It is listed and shown as what it is, and nothing else is done with it than it can do.
#[test]
fn an_image_is_listed_shown_and_removed() {
    let scratch = Scratch::new();
    keep(&scratch, &scratch.path("data"));
    let listed = belljar(&scratch, &["env", "list"]).exits_with(0);
    let lines: Vec<Vec<&str>> = listed
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let head = ["NAME", "PYTHON", "PACKAGES", "IMAGE", "PRELOAD"];
    let row = ["analysis", "3.12.1", "0", "team/analysis:4", "json"];
    assert_eq!(lines, [head, row]);
    let shown = belljar(&scratch, &["env", "show", "analysis"]).exits_with(0);
    for part in [
        "image     team/analysis:4",
        "sha256:aaaa",
        "no.sock",
        "runtime   runsc",
    ] {
        assert!(shown.stdout.contains(part), "no {part:?} in {shown:#?}");
    }
    assert!(!shown.stdout.contains("visible"), "{shown:#?}");
    let create = ["env", "create", "analysis", "--image", "other"];
    belljar(&scratch, &create)
        .exits_with(2)
        .says("exists already");
    for refused in [
        ["env", "add", "analysis", "six"].as_slice(),
        &["env", "create", "more", "--from", "analysis"],
    ] {
        let refused = belljar(&scratch, refused).exits_with(2);
        refused.says("Belljar cannot add packages to it\nhint: build an image");
    }
    belljar(&scratch, &["exec", "--env", "analysis", "1"])
        .exits_with(2)
        .says("no.sock cannot be reached");
    belljar(&scratch, &["env", "remove", "analysis"])
        .exits_with(0)
        .says("Removed environment `analysis`");
    belljar(&scratch, &["env", "show", "analysis"]).exits_with(2);
}

/// Walls that are named are not replaced by a container.
#[test]
fn an_image_has_no_other_walls() {
    let scratch = Scratch::new();
    keep(&scratch, &scratch.path("data"));
    let words = "environment `analysis` is a container image: its isolation is `container`\nhint: leave out `--walls`";
    for walls in ["full", "gvisor", "none"] {
        let image = ["--env", "analysis", "--walls", walls];
        for command in [["exec"].as_slice(), &["serve"], &["mcp"]] {
            let code: &[&str] = if command == ["exec"] { &["1"] } else { &[] };
            let ended = belljar(&scratch, &[command, &image, code].concat());
            ended.exits_with(2).says(words);
        }
    }
    // Beside others: a client could choose to do without walls.
    let own = scratch.belljar(&["env", "show", bare(), "--json"]);
    let own: Value = serde_json::from_str(&own.stdout).unwrap();
    let python = std::path::Path::new(own["python"].as_str().unwrap());
    let own = python.ancestors().nth(3).unwrap();
    std::os::unix::fs::symlink(own, scratch.path("data/environments/bare")).unwrap();
    let both = ["mcp", "--env", "bare", "--env", "analysis"];
    belljar(&scratch, &[&both[..], &["--walls", "none"]].concat())
        .exits_with(2)
        .says(words);
}

/// With a real engine: created, used, and still the same image when its name is gone. `.ci/containers` runs it.
#[test]
#[ignore = "needs a container engine"]
fn image_is_an_environment() {
    let scratch = Scratch::new();
    let address = std::env::var("BELLJAR_TEST_ENGINE").unwrap();
    let image = std::env::var("BELLJAR_TEST_IMAGE").unwrap();
    let docker = |arguments: &[&str]| {
        let mut command = std::process::Command::new("docker");
        command.args(["--host", &address]).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let name = format!("belljar-pinned:{}", std::process::id());
    docker(&["tag", &image, &name]);
    let create = ["env", "create", "analysis", "--docker", &address];
    belljar(&scratch, &[&create[..], &["--image", "no-such:1"]].concat())
        .exits_with(2)
        .says("has no image `no-such:1`\nhint: get it with `docker pull no-such:1`");
    let runtime = ["--image", &name, "--runtime", "no-such-runtime"];
    belljar(&scratch, &[&create[..], &runtime].concat())
        .exits_with(2)
        .says("it has no runtime `no-such-runtime`");
    belljar(&scratch, &[&create[..], &["--image", &name]].concat())
        .exits_with(0)
        .says("Environment `analysis` is ready");
    docker(&["rmi", &name]);
    let exec = ["exec", "--env", "analysis", "--json", "print(6 * 7)"];
    let ended = belljar(&scratch, &exec).exits_with(0).lines();
    let outcome = ended.last().unwrap();
    assert_eq!(outcome["walls"], "container", "{ended:#?}");
    assert_eq!(outcome["stdout"]["text"], "42\n", "{ended:#?}");
    let shown = belljar(&scratch, &["env", "show", "analysis", "--json"]);
    let mut kept: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(kept["image"]["name"], name);
    // As if that version were removed.
    kept["image"]["digest"] = format!("sha256:{}", "0".repeat(64)).into();
    let record = json!({"format": 2, "environment": kept});
    let path = scratch.path("data/environments/analysis/environment.json");
    std::fs::write(path, record.to_string()).unwrap();
    belljar(&scratch, &["exec", "--env", "analysis", "1"])
        .exits_with(2)
        .says("no longer has")
        .says("create it again");
}

//! The keeper, the spawner and an init, without any Python.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use belljar_walls::{
    Channel, InitRequest, Keeper, KeeperPlan, Report, Request, RootSpec, WallsSpec, session_ids,
};

fn start(directory: &Path) -> (Keeper, Channel) {
    std::fs::create_dir(directory.join("root")).unwrap();
    let plan = KeeperPlan {
        directory: directory.to_owned(),
        cgroup_trees: vec![],
    };
    let spec = WallsSpec {
        none: false,
        root: RootSpec::default(),
        root_directory: directory.join("root"),
        ids: session_ids(),
    };
    let log = std::fs::File::create(directory.join("keeper.log")).unwrap();
    let (mut keeper, channel) = Keeper::start(&plan, log.into()).unwrap();
    keeper.raise(&spec).unwrap();
    match channel.receive::<Report>().unwrap() {
        Some((Report::Up, _)) => (keeper, channel),
        other => panic!("{other:?}"),
    }
}

fn start_init(channel: &Channel, id: u64) -> Vec<OwnedFd> {
    let request = Request::Init(InitRequest {
        id,
        owner: u32::from(session_ids().is_some()),
        workspace_bytes: 1 << 20,
        temporary_bytes: 1 << 20,
        proxy: false,
        directories: Vec::new(),
        inodes: 100,
    });
    channel.send(&request, &[]).unwrap();
    match channel.receive::<Report>().unwrap() {
        Some((Report::Init { id: got }, descriptors)) if got == id => descriptors,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_init_offers_its_namespaces_and_everything_ends_with_the_keeper() {
    let directory = tempfile::tempdir().unwrap().keep();
    let (mut keeper, channel) = start(&directory);
    let started = Instant::now();
    let inits: Vec<_> = (0..20).map(|id| start_init(&channel, id)).collect();
    eprintln!("an init takes {:?}", started.elapsed() / 20);
    assert!(inits.iter().all(|descriptors| descriptors.len() == 10));
    keeper.stop().unwrap();
    assert!(!directory.exists());
    for descriptors in &inits {
        let mut watched = [rustix::event::PollFd::new(
            &descriptors[0],
            rustix::event::PollFlags::IN,
        )];
        let second = rustix::event::Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        assert_eq!(
            rustix::event::poll(&mut watched, Some(&second)),
            Ok(1),
            "init is gone"
        );
    }
}

#[test]
fn a_killed_init_is_reported() {
    let directory = tempfile::tempdir().unwrap().keep();
    let (keeper, channel) = start(&directory);
    let mut descriptors = start_init(&channel, 7);
    belljar_walls::Process::new(descriptors.remove(0))
        .kill()
        .unwrap();
    let report = channel.receive::<Report>().unwrap();
    assert!(
        matches!(report, Some((Report::InitExited { id: 7 }, _))),
        "{report:?}"
    );
    drop(keeper);
    std::thread::sleep(Duration::from_millis(10));
    assert!(!directory.exists());
}

#[test]
fn a_host_that_dies_before_the_walls_are_up_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap().keep();
    let plan = KeeperPlan {
        directory: directory.clone(),
        cgroup_trees: vec![],
    };
    let log = std::fs::File::create(directory.join("keeper.log")).unwrap();
    let (keeper, _channel) = Keeper::start(&plan, log.into()).unwrap();
    drop(keeper);
    assert!(!directory.exists());
}

//! Objects of runs that don't exist.

use std::time::Duration;

use belljar_journal::{NewEvent, Node, NodeOptions, Objects, RunId, Timestamp};

use crate::postgres::database;
use crate::weed;

const HOUR: Duration = Duration::from_hours(1);

async fn names(objects: &Objects) -> Vec<String> {
    let mut names = Vec::new();
    let list = objects.list(|name, _| names.push(name.to_owned()));
    list.await.unwrap();
    names.sort();
    names
}

#[tokio::test]
async fn objects_of_runs_that_do_not_exist_are_removed_once_they_are_old() {
    let options = NodeOptions::new("one", "http://one");
    let node = Node::join(&database(), options).await.unwrap();
    let run: RunId = "here".parse().unwrap();
    let event = NewEvent::new("test", 1, Timestamp(0), &"body").unwrap();
    let begun = node.begin_run(&run, "t", &[event]).await.unwrap();
    let objects = weed::objects();
    let (here, gone) = ("t/here/blobs/ab/cd", "t/gone/blobs/ab/cd");
    for name in [here, gone, "t/gone/sessions/ab/cd"] {
        objects.put(name, name).await.unwrap();
    }
    // They may be of a run that is about to begin.
    assert_eq!(node.remove_orphans(&objects, HOUR).await.unwrap(), 0);
    assert_eq!(names(&objects).await.len(), 3);
    let now = Duration::ZERO;
    assert_eq!(node.remove_orphans(&objects, now).await.unwrap(), 2);
    assert_eq!(names(&objects).await, [here]);
    drop(begun);
    node.journal().remove(&run).await.unwrap();
    assert_eq!(node.remove_orphans(&objects, now).await.unwrap(), 1);
    assert_eq!(names(&objects).await, [""; 0]);
}

/// The age is that of the last write: what is written again is young.
#[tokio::test]
async fn the_age_of_an_object_is_told_by_the_clock_of_the_store() {
    let objects = weed::objects();
    objects.put("first", "x").await.unwrap();
    objects.put("second", "x").await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    objects.put("second", "x").await.unwrap();
    let old = objects.older_than(Duration::from_secs(3)).await.unwrap();
    assert_eq!(old, ["first"]);
    assert_eq!(names(&objects).await, ["first", "second"]);
}

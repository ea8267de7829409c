//! What a tree of tasks must be, and what can be learnt from it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::{DEPTH, PlanChange, PlanFault, PlanStatistics, PlanTree, Task, TaskStatus};

/// A task and where it stands in its tree.
pub(super) struct Place<'a> {
    pub(super) task: &'a Task,
    parent: Option<&'a Task>,
    pub(super) level: usize,
}

/// All tasks, parents before their children.
pub(super) fn walk(tree: &PlanTree) -> Vec<Place<'_>> {
    let mut places = Vec::new();
    let mut waiting: Vec<Place<'_>> = Vec::new();
    let place = |task, parent, level| Place {
        task,
        parent,
        level,
    };
    waiting.extend(
        tree.tree_nodes
            .iter()
            .rev()
            .map(|task| place(task, None, 0)),
    );
    while let Some(next) = waiting.pop() {
        let children = next.task.children.iter().rev();
        waiting.extend(children.map(|child| place(child, Some(next.task), next.level + 1)));
        places.push(next);
    }
    places
}

pub(super) fn check(tree: &PlanTree) -> Result<(), PlanFault> {
    let places = walk(tree);
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    for Place { task, level, .. } in &places {
        if *level >= DEPTH {
            return Err(PlanFault::TooDeep);
        }
        if task.task_name.trim().is_empty() {
            return Err(PlanFault::NoName);
        }
        if !names.insert(&task.task_name) {
            return Err(PlanFault::SameName {
                name: task.task_name.clone(),
            });
        }
        if !task.task_id.is_empty() && !ids.insert(&task.task_id) {
            return Err(PlanFault::SameId {
                id: task.task_id.clone(),
            });
        }
    }
    for Place { task, .. } in &places {
        for dependency in &task.dependencies {
            if !names.contains(dependency) {
                return Err(PlanFault::NoSuchTask {
                    task: task.task_name.clone(),
                    dependency: dependency.clone(),
                });
            }
        }
    }
    match cycle(&places) {
        Some(names) => Err(PlanFault::Cycle { names }),
        None => Ok(()),
    }
}

/// A circle of tasks that wait for each other. A task waits for its dependencies and for its
/// children; so a child that depends on its own parent is a circle too.
fn cycle(places: &[Place<'_>]) -> Option<Vec<String>> {
    let number: HashMap<&str, usize> = (0..)
        .zip(places)
        .map(|(index, place)| (place.task.task_name.as_str(), index))
        .collect();
    let waits_for = |index: usize| -> Vec<usize> {
        let task = places[index].task;
        let children = task.children.iter().map(|child| &child.task_name);
        let names = task.dependencies.iter().chain(children);
        names
            .filter_map(|name| number.get(name.as_str()).copied())
            .collect()
    };
    let mut done = vec![false; places.len()];
    for start in 0..places.len() {
        // The path from `start`, and what each task on it still has to look at.
        let mut path = vec![(start, waits_for(start))];
        let mut on_path = BTreeSet::from([start]);
        while let Some((here, rest)) = path.last_mut() {
            let here = *here;
            match rest.pop() {
                Some(next) if on_path.contains(&next) => {
                    let from = path.iter().position(|(index, _)| *index == next)?;
                    let mut names: Vec<String> = path[from..]
                        .iter()
                        .map(|(index, _)| places[*index].task.task_name.clone())
                        .collect();
                    names.push(places[next].task.task_name.clone());
                    return Some(names);
                }
                Some(next) if done[next] => {}
                Some(next) => {
                    on_path.insert(next);
                    path.push((next, waits_for(next)));
                }
                None => {
                    done[here] = true;
                    on_path.remove(&here);
                    path.pop();
                }
            }
        }
    }
    None
}

/// Tasks without an id get the one that their name had, else a new one.
pub(super) fn give_ids(
    tree: &mut PlanTree,
    old: &[Place<'_>],
    next_id: &mut u32,
) -> Result<(), PlanFault> {
    let before: HashMap<&str, &str> = old
        .iter()
        .map(|place| (place.task.task_name.as_str(), place.task.task_id.as_str()))
        .collect();
    let mut taken: HashSet<String> = walk(tree)
        .iter()
        .map(|place| place.task.task_id.clone())
        .collect();
    let known: HashSet<&str> = old
        .iter()
        .map(|place| place.task.task_id.as_str())
        .collect();
    let mut tasks: Vec<&mut Task> = tree.tree_nodes.iter_mut().rev().collect();
    while let Some(task) = tasks.pop() {
        if task.task_id.is_empty() {
            task.task_id = match before.get(task.task_name.as_str()) {
                Some(id) => (*id).to_owned(),
                None => loop {
                    *next_id += 1;
                    let id = format!("TASK-{next_id}");
                    if !taken.contains(&id) && !known.contains(id.as_str()) {
                        break id;
                    }
                },
            };
            if !taken.insert(task.task_id.clone()) {
                return Err(PlanFault::SameId {
                    id: task.task_id.clone(),
                });
            }
        }
        tasks.extend(task.children.iter_mut().rev());
    }
    Ok(())
}

pub(super) fn changes(old: &[Place<'_>], new: &[Place<'_>]) -> Vec<PlanChange> {
    fn by_id<'a>(places: &'a [Place<'a>]) -> HashMap<&'a str, &'a Place<'a>> {
        let id = |place: &'a Place<'a>| (place.task.task_id.as_str(), place);
        places.iter().map(id).collect()
    }
    let parent_name = |place: &Place<'_>| place.parent.map(|parent| parent.task_name.clone());
    let parent_id = |place: &Place<'_>| place.parent.map(|parent| parent.task_id.clone());
    let (before, now) = (by_id(old), by_id(new));
    let mut changes = Vec::new();
    for place in new {
        let name = place.task.task_name.clone();
        let Some(was) = before.get(place.task.task_id.as_str()) else {
            changes.push(PlanChange::Added { name });
            continue;
        };
        if was.task.status != place.task.status {
            changes.push(PlanChange::Status {
                name: name.clone(),
                from: was.task.status,
                to: place.task.status,
            });
        }
        // By id: a parent that got another name is the same parent.
        if parent_id(was) != parent_id(place) {
            changes.push(PlanChange::Moved {
                name,
                from: parent_name(was),
                to: parent_name(place),
            });
        }
    }
    let gone = old
        .iter()
        .filter(|place| !now.contains_key(place.task.task_id.as_str()));
    changes.extend(gone.map(|place| PlanChange::Removed {
        name: place.task.task_name.clone(),
    }));
    changes
}

pub(super) fn statistics(places: &[Place<'_>]) -> PlanStatistics {
    let mut by_status: BTreeMap<TaskStatus, usize> = TaskStatus::ALL
        .into_iter()
        .map(|status| (status, 0))
        .collect();
    for place in places {
        *by_status.entry(place.task.status).or_default() += 1;
    }
    PlanStatistics {
        by_status,
        total: places.len(),
    }
}

/// Tasks to be done whose dependencies, and those of all tasks that they are part of, are
/// finished, and that have no unfinished part themselves. A skipped dependency holds nobody up; a
/// failed one does.
pub(super) fn ready(places: &[Place<'_>]) -> Vec<String> {
    let finished = |status| matches!(status, TaskStatus::Completed | TaskStatus::Skipped);
    let status: HashMap<&str, TaskStatus> = places
        .iter()
        .map(|place| (place.task.task_name.as_str(), place.task.status))
        .collect();
    let free = |task: &Task| {
        let of = |name: &String| status.get(name.as_str()).copied().unwrap_or_default();
        task.dependencies.iter().all(|name| finished(of(name)))
    };
    // Parents come first, so theirs is known.
    let mut open: HashMap<&str, bool> = HashMap::new();
    let mut ready = Vec::new();
    for Place { task, parent, .. } in places {
        let above = parent.is_none_or(|parent| open[parent.task_name.as_str()]);
        let here = above && free(task) && !finished(task.status);
        open.insert(&task.task_name, here);
        let waits = matches!(task.status, TaskStatus::Pending | TaskStatus::Retry);
        let parts_done = task.children.iter().all(|child| finished(child.status));
        if here && waits && parts_done {
            ready.push(task.task_name.clone());
        }
    }
    ready
}

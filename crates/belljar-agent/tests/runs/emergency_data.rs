//! Data of the emergency scenario (S1), made to the shapes of the source document, and the figures
//! that follow from it, worked out here and not in Python.

use serde_json::{Value, json};

/// Numbers that look random, and are the same every time.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    /// A number of four places, so that text and memory agree on it.
    pub(crate) fn between(&mut self, from: f64, to: f64) -> f64 {
        let part = f64::from(u32::try_from(self.below(1 << 20)).unwrap()) / f64::from(1 << 20);
        ((from + (to - from) * part) * 1e4).round() / 1e4
    }
}

pub(crate) const FILES: usize = 5;
const TASKS: usize = 12;
const CARRIERS: usize = 4;
pub(crate) const LOCATIONS: usize = 10;
const PRIORITIES: [&str; 3] = ["高", "中", "低"];

#[derive(Clone, Copy)]
pub(crate) struct Point {
    latitude: f64,
    longitude: f64,
}

struct Task {
    id: String,
    priority: usize,
    quantity: usize,
    to: usize,
}

struct Carrier {
    capacity: usize,
    place: Point,
}

/// One file.
pub(crate) struct Scenario {
    tasks: Vec<Task>,
    carriers: Vec<Carrier>,
    locations: Vec<Point>,
    risks: Vec<(Point, usize)>,
    pub(crate) json: Value,
}

/// What the figures must be.
pub(crate) struct Expected {
    /// Tasks of high, medium and low priority.
    pub(crate) priorities: [usize; 3],
    pub(crate) unassigned: usize,
    pub(crate) greedy_kilometres: f64,
    /// From the first location to the sixth, of the first file; without risk points and with them.
    pub(crate) paths: [f64; 2],
}

fn object(required: &[&str], numbers: &[&str]) -> Value {
    let property = |name: &&str| {
        let kind = if numbers.contains(name) {
            "number"
        } else {
            "string"
        };
        ((*name).to_owned(), json!({ "type": kind }))
    };
    let properties: serde_json::Map<String, Value> = required.iter().map(property).collect();
    json!({"type": "object", "required": required, "properties": properties})
}

/// The entities of the source document, and the members that the files have.
pub(crate) fn schema() -> Value {
    let mut task = object(
        &[
            "task_id",
            "task_type",
            "priority",
            "status",
            "created_at",
            "disaster_type",
            "to",
            "resource_id",
        ],
        &[],
    );
    task["properties"]["priority"]["enum"] = json!(PRIORITIES);
    task["properties"]["status"]["enum"] = json!(["pending", "in_progress", "completed", "failed"]);
    json!({
        "title": "应急响应数据",
        "description": "随机生成的救援场景：任务、载具、物资、地点、路径、风险点与反馈",
        "definitions": {
            "TASK": task,
            "CARRIER": object(&["carrier_id", "carrier_type", "capacity", "status", "lat", "lng"], &["capacity", "lat", "lng"]),
            "RESOURCE": object(&["resource_id", "resource_type", "quantity", "unit"], &["quantity"]),
            "LOCATION": object(&["location_id", "lat", "lng", "address", "location_type"], &["lat", "lng"]),
            "PATH": object(&["path_id", "from", "to"], &[]),
            "RISK_POINT": object(&["risk_id", "lat", "lng", "risk_type", "risk_level"], &["lat", "lng", "risk_level"]),
            "TASK_FEEDBACK": object(&["feedback_id", "task_id", "status_update", "progress_percent"], &["progress_percent"]),
        },
    })
}

pub(crate) fn scenario(number: usize) -> Scenario {
    let mut chance = Chance::new(number as u64 * 7919);
    let point = |chance: &mut Chance| Point {
        latitude: chance.between(39.7, 40.2),
        longitude: chance.between(116.1, 116.7),
    };
    let locations: Vec<Point> = (0..LOCATIONS).map(|_| point(&mut chance)).collect();
    let risks: Vec<(Point, usize)> = (0..4)
        .map(|at| (locations[at * 2 + 1], 1 + chance.below(3)))
        .collect();
    let carriers: Vec<Carrier> = (0..CARRIERS)
        .map(|at| Carrier {
            capacity: [40, 8, 20, 60][at],
            place: point(&mut chance),
        })
        .collect();
    let tasks: Vec<Task> = (0..TASKS)
        .map(|at| Task {
            id: format!("任务-{number:02}-{at:02}"),
            priority: chance.below(3),
            quantity: 1 + chance.below(70),
            to: chance.below(LOCATIONS),
        })
        .collect();
    let place = |point: &Point| (point.latitude, point.longitude);
    let disaster = ["地震", "洪水", "火灾"][number % 3];
    let json = json!({
        "scenario": format!("救援场景{number:02}（{disaster}）"),
        "TASK": tasks.iter().enumerate().map(|(at, task)| json!({
            "task_id": task.id, "task_type": (["运送物资", "转移伤员"][at % 2]),
            "priority": PRIORITIES[task.priority], "status": "pending",
            "created_at": format!("2025-06-{number:02}T{at:02}:00:00"), "disaster_type": disaster,
            "to": format!("地点{}", task.to), "resource_id": format!("物资{at}"),
        })).collect::<Vec<_>>(),
        "RESOURCE": tasks.iter().enumerate().map(|(at, task)| json!({
            "resource_id": format!("物资{at}"), "resource_type": (["饮用水", "帐篷", "药品"][at % 3]),
            "quantity": task.quantity, "unit": "箱",
        })).collect::<Vec<_>>(),
        "CARRIER": carriers.iter().enumerate().map(|(at, carrier)| json!({
            "carrier_id": format!("载具{at}"), "carrier_type": (["卡车", "无人机", "直升机", "卡车"][at]),
            "capacity": carrier.capacity, "status": "idle",
            "lat": place(&carrier.place).0, "lng": place(&carrier.place).1,
        })).collect::<Vec<_>>(),
        "LOCATION": locations.iter().enumerate().map(|(at, point)| json!({
            "location_id": format!("地点{at}"), "lat": place(point).0, "lng": place(point).1,
            "address": format!("北京市第{at}街道"), "location_type": "受灾点",
        })).collect::<Vec<_>>(),
        "PATH": (0..LOCATIONS).flat_map(|from| (1..3).map(move |step| json!({
            "path_id": format!("路{from}-{step}"), "from": format!("地点{from}"),
            "to": format!("地点{}", (from + step) % LOCATIONS),
        }))).collect::<Vec<_>>(),
        "RISK_POINT": risks.iter().enumerate().map(|(at, (point, level))| json!({
            "risk_id": format!("风险{at}"), "lat": place(point).0, "lng": place(point).1,
            "risk_type": "道路中断", "risk_level": level,
        })).collect::<Vec<_>>(),
        "TASK_FEEDBACK": [{"feedback_id": "反馈0", "task_id": tasks[0].id, "status_update": "已接收", "progress_percent": 0}],
    });
    Scenario {
        tasks,
        carriers,
        locations,
        risks,
        json,
    }
}

fn kilometres(one: Point, other: Point) -> f64 {
    let (a, b) = (one.latitude.to_radians(), other.latitude.to_radians());
    let half_north = ((b - a) / 2.0).sin();
    let half_east = ((other.longitude - one.longitude).to_radians() / 2.0).sin();
    let part = half_north.powi(2) + a.cos() * b.cos() * half_east.powi(2);
    2.0 * 6371.0088 * part.sqrt().asin()
}

pub(crate) fn expected(scenarios: &[Scenario]) -> Expected {
    let mut expected = Expected {
        priorities: [0; 3],
        unassigned: 0,
        greedy_kilometres: 0.0,
        paths: [false, true].map(|risky| shortest_path(&scenarios[0], risky)),
    };
    for scenario in scenarios {
        for task in &scenario.tasks {
            expected.priorities[task.priority] += 1;
        }
        let (kilometres, unassigned) = greedy(scenario);
        expected.greedy_kilometres += kilometres;
        expected.unassigned += unassigned;
    }
    expected
}

/// The most urgent tasks first, each to the nearest carrier that is idle and large enough; if none
/// of those that are large enough is idle, all have come back by then, and stand where they were
/// last.
fn greedy(scenario: &Scenario) -> (f64, usize) {
    let mut places: Vec<Point> = scenario.carriers.iter().map(|c| c.place).collect();
    let mut idle = vec![true; places.len()];
    let mut order: Vec<&Task> = scenario.tasks.iter().collect();
    order.sort_by_key(|task| task.priority);
    let (mut total, mut unassigned) = (0.0, 0);
    for task in order {
        let fits = |at: &usize| scenario.carriers[*at].capacity >= task.quantity;
        let able: Vec<usize> = (0..places.len()).filter(fits).collect();
        if able.is_empty() {
            unassigned += 1;
            continue;
        }
        if !able.iter().any(|at| idle[*at]) {
            idle.fill(true);
        }
        let to = scenario.locations[task.to];
        let distance = |at: usize| kilometres(places[at], to);
        let able = able.into_iter().filter(|at| idle[*at]);
        let nearest = able.min_by(|a, b| distance(*a).total_cmp(&distance(*b)));
        let nearest = nearest.unwrap();
        total += distance(nearest);
        places[nearest] = to;
        idle[nearest] = false;
    }
    (total, unassigned)
}

/// By Floyd and Warshall; the cells use Dijkstra's way.
fn shortest_path(scenario: &Scenario, risky: bool) -> f64 {
    let points = &scenario.locations;
    let risk = |point: Point| -> f64 {
        let near = scenario.risks.iter();
        let near = near.filter(|(risk, _)| kilometres(*risk, point) < 5.0);
        near.map(|(_, level)| f64::from(u32::try_from(*level).unwrap()))
            .sum()
    };
    let mut cost = vec![vec![f64::INFINITY; LOCATIONS]; LOCATIONS];
    for from in 0..LOCATIONS {
        cost[from][from] = 0.0;
        for step in 1..3 {
            let to = (from + step) % LOCATIONS;
            let (one, other) = (points[from], points[to]);
            let factor = if risky {
                1.0 + risk(one) + risk(other)
            } else {
                1.0
            };
            let length = kilometres(one, other) * factor;
            cost[from][to] = length;
            cost[to][from] = length;
        }
    }
    for via in 0..LOCATIONS {
        for from in 0..LOCATIONS {
            for to in 0..LOCATIONS {
                cost[from][to] = cost[from][to].min(cost[from][via] + cost[via][to]);
            }
        }
    }
    cost[0][5]
}

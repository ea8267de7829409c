//! Which options of a session there are, and how each way in sets them. docs/options.md is this table;
//! tests try each entry of it for real.

/// How one way in sets an option.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// By this.
    Set(&'static str),
    /// Not at all, for this reason.
    No(&'static str),
}

use Entry::{No, Set};

/// The ways in, in the order of the entries of a row.
pub(crate) const WAYS: [&str; 8] = ["exec", "repl", "shell", "run", "HTTP", "SDK", "MCP", "Rust"];

/// An option, and its entry for each way in.
pub(crate) type Row = (&'static str, [Entry; 8]);

const ENDS: Entry = No("the session ends with the command");
const CODE: Entry = No("run a cell that assigns them");
const ONE_NAMESPACE: Entry = No("all cells are of one program");
const NO_NAMES: Entry = No("its sessions have no host names, unlike those of a service");

/// All options.
pub(crate) const OPTIONS: [Row; 18] = [
    (
        "packages",
        [
            Set("`--packages`"),
            Set("`--packages`"),
            Set("`--packages`, installed first"),
            Set("`--packages`"),
            Set("`packages.allow`, within `serve --packages`"),
            Set("`packages=`"),
            Set("`mcp --packages`, `serve --packages`"),
            Set("`SessionOptions::packages`"),
        ],
    ),
    (
        "network",
        [
            Set("`--allow`"),
            Set("`--allow`"),
            Set("`--allow`"),
            Set("`--allow`"),
            Set("`network.allow`, within `serve --allow`"),
            Set("`allow=`"),
            Set("`mcp --allow`; over the service none, since a model would choose"),
            Set("`SessionOptions::network`"),
        ],
    ),
    (
        "memory",
        [
            Set("`--memory`"),
            Set("`--memory`"),
            Set("`--memory`"),
            Set("`--memory`"),
            Set("`limits.memory_bytes`, within `serve --memory`"),
            Set("`limits=`"),
            Set("`mcp --memory`, `serve --memory`"),
            Set("`Limits::memory_bytes`"),
        ],
    ),
    (
        "CPUs",
        [
            Set("`--cpus`"),
            Set("`--cpus`"),
            Set("`--cpus`"),
            Set("`--cpus`"),
            Set("`limits.milli_cpus`, within `serve --cpus`"),
            Set("`limits=`"),
            Set("`mcp --cpus`, `serve --cpus`"),
            Set("`Limits::milli_cpus`"),
        ],
    ),
    (
        "processes",
        [
            Set("`--processes`"),
            Set("`--processes`"),
            Set("`--processes`"),
            Set("`--processes`"),
            Set("`limits.processes`, within `serve --processes`"),
            Set("`limits=`"),
            Set("`mcp --processes`, `serve --processes`"),
            Set("`Limits::processes`"),
        ],
    ),
    (
        "disk",
        [
            Set("`--disk`"),
            Set("`--disk`"),
            Set("`--disk`"),
            Set("`--disk`"),
            Set("`limits.workspace_bytes`, within `serve --disk`"),
            Set("`limits=`"),
            Set("`mcp --disk`, `serve --disk`"),
            Set("`Limits::workspace_bytes`"),
        ],
    ),
    (
        "cell timeout",
        [
            Set("`--timeout`"),
            Set("`--timeout`"),
            Set("`--timeout`, of the command; none by default"),
            Set("`--timeout`"),
            Set("`wall_time_ms` of the cell, within `serve --timeout`"),
            Set("`run(wall_time=)`"),
            Set("`timeout_seconds` of `run_python` and `run_command`, within `mcp --timeout`"),
            Set("`Cell::wall_time`"),
        ],
    ),
    (
        "environment",
        [
            Set("`--env`"),
            Set("`--env`"),
            Set("`--env`"),
            Set("`--env`"),
            Set("`environment` of a session or a run, one of `serve --env`"),
            Set("`environment=`, also of `run()`"),
            Set("`environment` of `create_session` and `ask_agent`, one of `mcp --env`"),
            Set("`Engine::builder`"),
        ],
    ),
    (
        "isolation",
        [
            Set("`--walls`, `--image`"),
            Set("`--walls`, `--image`"),
            No("commands need the isolation `full`"),
            Set("`--walls`, `--image`"),
            Set("`isolation` of a session or a run, one of `serve --walls`"),
            Set("`isolation=`, also of `run()`"),
            Set("`isolation` of `create_session` and `ask_agent`, one of `mcp --walls`"),
            Set("`EngineBuilder::gvisor`, `EngineSet::choose`"),
        ],
    ),
    (
        "checkpoints",
        [
            No("one cell, then the session ends"),
            Set("`/checkpoint`, `/restore`"),
            No("commands leave no variables"),
            Set("after each cell"),
            Set("`checkpoints`, `POST …/checkpoints`"),
            Set("`checkpoints=`, `checkpoint()`"),
            Set("`checkpoint`, `restore`"),
            Set("`SessionOptions::checkpoints`"),
        ],
    ),
    (
        "files",
        [
            Set("`--put`, `--out`"),
            Set("`--put`, `--out`; `/put`, `/get`"),
            Set("`--put`, `--out`"),
            Set("`--put`, `--out`"),
            Set("`PUT` and `GET …/files/PATH`"),
            Set("`session.files`"),
            Set("`write_file`, `read_file`"),
            Set("`Session::put`, `Session::get`"),
        ],
    ),
    (
        "host directories",
        [
            Set("`--mount`"),
            Set("`--mount`"),
            Set("`--mount`"),
            Set("`--mount`"),
            Set("`mounts`, names of `serve --mount`"),
            Set("`mounts=`"),
            Set("`mcp --mount`; over the service none, since a model would choose"),
            Set("`SessionOptions::mounts`, `EngineBuilder::mount`"),
        ],
    ),
    (
        "variables",
        [
            Set("`--var`"),
            Set("`--var`"),
            Set("`--var`"),
            Set("`--var`"),
            Set("`variables`, of the session and of a cell"),
            Set("`variables=`, `run(variables=)`"),
            Set("`mcp --var`; over the service none, since a model would choose"),
            Set("`SessionOptions::variables`, `Cell::variables`"),
        ],
    ),
    (
        "secrets",
        [
            Set("`--secret`"),
            Set("`--secret`"),
            Set("`--secret`"),
            Set("`--secret`"),
            Set("`secrets`"),
            Set("`secrets=`"),
            Set("`mcp --secret`; over the service none, since a model would choose"),
            Set("`SessionOptions::secrets`"),
        ],
    ),
    (
        "seed values",
        [
            Set("`--seed`"),
            CODE,
            No("there are no cells"),
            No("the model assigns them, from the task and its files"),
            CODE,
            CODE,
            CODE,
            Set("`Session::seed`"),
        ],
    ),
    (
        "namespaces",
        [
            ENDS,
            ONE_NAMESPACE,
            No("there are no cells"),
            ONE_NAMESPACE,
            Set("`namespace` of a cell, `POST …/namespaces`"),
            Set("`run(namespace=)`, `create_namespace()`"),
            No("a model creates another session"),
            Set("`Cell::namespace`, `Session::create_namespace`"),
        ],
    ),
    (
        "ports",
        [
            ENDS,
            NO_NAMES,
            NO_NAMES,
            NO_NAMES,
            Set("`POST …/ports/PORT`, with `serve --ports-domain`"),
            Set("`port()`, `fetch()`"),
            No("sessions are not in the list, and have no host names"),
            Set("`Session::connect`"),
        ],
    ),
    (
        "name, metadata, time to live",
        [
            ENDS,
            ENDS,
            ENDS,
            ENDS,
            Set("`name`, `metadata`, `ttl_seconds`, `POST …/lease`, within `serve --max-lease`"),
            Set("`name=`, `metadata=`, `ttl=`, `extend()`"),
            No("sessions are not in the list, and end with the connection"),
            No("a session is a value of the program, which ends it"),
        ],
    ),
];

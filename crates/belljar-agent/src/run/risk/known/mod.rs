//! What is known of Python's modules and packages, and of functions and methods.
//!
//! Modules come in four kinds: those of which any use is a capability, those of which nothing is one,
//! those of which some names are harmless ([`members`]), and all others, which are unknown.

mod members;
mod methods;
mod packages;

pub(super) use members::path as exact;
pub(super) use methods::{attribute, is_loader, reads, writes};
pub(super) use packages::is_data;

use super::Capability;
use packages::is_harmless;

/// What naming something means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Nothing.
    Fine,
    /// It is a module of which some names are risky.
    Module,
    /// It can do this.
    Does(Capability),
}

/// What naming this path means.
pub(super) fn class(path: &str) -> Class {
    let ends = path.match_indices('.').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        if let Some(capability) = members::path(&path[..end]) {
            return Class::Does(capability);
        }
    }
    if let Some(capability) = part(path) {
        return Class::Does(capability);
    }
    if members::is_partial(path) {
        return Class::Module;
    }
    if let Some(known) = members::member(path) {
        return if known {
            Class::Fine
        } else {
            Class::Does(Capability::Unknown)
        };
    }
    if is_data(path) {
        let mut parts = path.split('.').skip(1);
        let is_private = |part: &str| part.starts_with('_') && !part.ends_with("__");
        if parts.any(is_private) {
            return Class::Does(Capability::Unknown);
        }
    }
    Class::Fine
}

/// What importing a module means.
pub(super) fn import(module: &str) -> Option<Capability> {
    if let Some(capability) = exactly(module).or_else(|| part(module)) {
        return Some(capability);
    }
    if let Some(capability) = members::path(module) {
        return Some(capability);
    }
    let is_known =
        is_harmless(module) || members::is_partial(module) || members::member(module) == Some(true);
    (!is_known).then_some(Capability::Unknown)
}

/// Modules of which any use is this.
fn exactly(module: &str) -> Option<Capability> {
    Some(match module {
        "MySQLdb" | "_socket" | "_ssl" | "aiohttp" | "anthropic" | "asyncpg" | "azure"
        | "boto3" | "botocore" | "cassandra" | "datasets" | "discord" | "dns" | "elasticsearch"
        | "fabric" | "fastapi" | "flask" | "fsspec" | "ftplib" | "gcsfs" | "gdown"
        | "gensim.downloader" | "google.cloud" | "grpc" | "gspread" | "http.client"
        | "http.cookiejar" | "http.server" | "httplib2" | "httpx" | "huggingface_hub"
        | "imaplib" | "kaggle" | "mysql" | "nntplib" | "openai" | "pandas_datareader"
        | "paramiko" | "playwright" | "poplib" | "pooch" | "praw" | "psycopg" | "psycopg2"
        | "pycurl" | "pymongo" | "pymysql" | "pyodbc" | "redis" | "requests" | "s3fs" | "scapy"
        | "selenium" | "slack_sdk" | "smart_open" | "smtplib" | "socket" | "socketserver"
        | "ssl" | "telegram" | "telnetlib" | "tornado" | "tweepy" | "twisted"
        | "urllib.request" | "urllib.robotparser" | "urllib2" | "urllib3" | "uvicorn"
        | "websocket" | "websockets" | "wget" | "wikipedia" | "wsgiref" | "xmlrpc" | "yfinance"
        | "zmq" => Capability::Network,
        "_posixsubprocess" | "multiprocess" | "multiprocessing" | "pexpect" | "plumbum" | "pty"
        | "sh" | "subprocess" | "webbrowser" => Capability::Processes,
        "conda" | "easy_install" | "ensurepip" | "micropip" | "pip" | "setuptools" | "venv"
        | "virtualenv" => Capability::Installs,
        "send2trash" => Capability::Deletions,
        _ => return None,
    })
}

/// What is in such a module, by its path.
fn part(path: &str) -> Option<Capability> {
    const WITHOUT: [&str; 5] = [
        "multiprocessing.cpu_count",
        "multiprocessing.dummy",
        "multiprocessing.pool.ThreadPool",
        "socket.gethostname",
        "datasets.load_from_disk",
    ];
    if WITHOUT.contains(&path) {
        return None;
    }
    if let Some(capability) = exactly(path) {
        return Some(capability);
    }
    let mut dots = path.match_indices('.').map(|(at, _)| at);
    dots.find_map(|end| exactly(&path[..end]))
}

/// A path as it is usually written: modules that are in other modules are named by themselves, as in
/// `pathlib.os`, and names that stand for others by those.
pub(super) fn rooted(path: &str) -> String {
    let mut path = path;
    let mut dots = path.match_indices('.').map(|(at, _)| at + 1);
    let starts = |at: &usize| {
        let rest = &path[*at..];
        let first = first_of(rest);
        let bare = first.trim_start_matches('_');
        let of_package = is_submodule(&path[..*at - 1], first);
        !of_package && (is_everywhere(bare) || exactly(bare).is_some_and(|_| first != "sh"))
    };
    if let Some(at) = dots.rfind(starts) {
        path = path[at..].trim_start_matches('_');
    }
    for (other, usual) in [
        ("builtins.", ""),
        ("posix.", "os."),
        ("nt.", "os."),
        ("_io.", "io."),
        ("_pickle.", "pickle."),
        ("_operator.", "operator."),
        ("_ctypes.", "ctypes."),
        ("posixpath.", "os.path."),
        ("pathlib._local.", "pathlib."),
        ("matplotlib.pylab.", "matplotlib.pyplot."),
    ] {
        if let Some(rest) = path.strip_prefix(other) {
            return format!("{usual}{rest}");
        }
    }
    path.to_owned()
}

/// A name of what a rooted path names, rooted.
pub(super) fn member_of(path: &str, name: &str) -> String {
    let whole = format!("{path}.{name}");
    let bare = name.trim_start_matches('_');
    let stands_for_another = matches!(
        first_of(path),
        "builtins" | "posix" | "nt" | "posixpath" | "pathlib" | "matplotlib"
    );
    if stands_for_another || path.starts_with('_') || is_everywhere(bare) || exactly(bare).is_some()
    {
        rooted(&whole)
    } else {
        whole
    }
}

/// Names of modules that are also names of things in packages.
fn is_submodule(package: &str, name: &str) -> bool {
    let first = first_of(package);
    matches!(
        (first, name),
        (
            "numpy"
                | "scipy"
                | "sklearn"
                | "torch"
                | "tensorflow"
                | "keras"
                | "skimage"
                | "plotly"
                | "statsmodels"
                | "sympy"
                | "torchvision"
                | "transformers",
            "datasets" | "io" | "code" | "signal" | "multiprocessing" | "types" | "inspect"
        ) | (
            "matplotlib" | "seaborn" | "bokeh" | "pandas" | "polars",
            "io" | "types" | "datasets"
        ) | ("dash" | "rich", "io")
            | (
                "urllib" | "xml" | "concurrent" | "email" | "http" | "logging" | "importlib",
                _
            )
            | ("os" | "sys", "sys" | "path")
    )
}

/// Functions that are there whatever code binds their names to.
pub(super) fn is_risky_builtin(name: &str) -> bool {
    matches!(
        name,
        "__builtins__" | "__import__" | "compile" | "eval" | "exec"
    )
}

/// Modules whose names mean them even where code binds the name, and within other modules.
pub(super) fn is_everywhere(name: &str) -> bool {
    matches!(
        name,
        "builtins"
            | "codecs"
            | "ctypes"
            | "gc"
            | "importlib"
            | "inspect"
            | "io"
            | "os"
            | "pathlib"
            | "pickle"
            | "posix"
            | "runpy"
            | "shutil"
            | "sqlite3"
            | "subprocess"
            | "sys"
            | "tempfile"
            | "types"
    )
}

/// Names of modules that are as often names of variables: they mean the module only where it is
/// imported.
pub(super) fn is_common_word(name: &str) -> bool {
    matches!(
        name,
        "azure"
            | "code"
            | "datasets"
            | "dns"
            | "io"
            | "mysql"
            | "redis"
            | "sh"
            | "signal"
            | "telegram"
            | "types"
            | "wikipedia"
            | "site"
            | "select"
            | "parser"
            | "test"
            | "trace"
            | "profile"
            | "symbol"
            | "token"
            | "string"
            | "time"
            | "copy"
            | "queue"
            | "inspect"
            | "pickle"
            | "gc"
    )
}

/// What a name means that an earlier cell defined, if it is a usual one.
pub(super) fn usual(name: &str) -> &str {
    match name {
        "alt" => "altair",
        "dd" => "dask.dataframe",
        "gpd" => "geopandas",
        "np" => "numpy",
        "nx" => "networkx",
        "pd" => "pandas",
        "pl" => "polars",
        "plt" => "matplotlib.pyplot",
        "px" => "plotly.express",
        "sm" => "statsmodels.api",
        "smf" => "statsmodels.formula.api",
        "sns" => "seaborn",
        "tf" => "tensorflow",
        "xr" => "xarray",
        "Path" => "pathlib.Path",
        other => other,
    }
}

/// The first part of a dotted path.
pub(super) fn first_of(path: &str) -> &str {
    path.split('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_their_kind() {
        for module in [
            "math",
            "numpy.linalg",
            "xml.etree.ElementTree",
            "os",
            "os.path",
            "urllib.parse",
            "importlib.metadata",
            "tqdm",
            "sklearn.datasets",
            "concurrent.futures",
            "logging",
            "bs4",
        ] {
            assert_eq!(import(module), None, "{module}");
        }
        for module in [
            "antigravity",
            "unittest.mock",
            "runpy",
            "helper",
            "ctypes",
            "importlib.util",
            "logging.config",
            "numpy.f2py",
            "atexit",
            "pdb",
        ] {
            assert_eq!(import(module), Some(Capability::Unknown), "{module}");
        }
        assert_eq!(import("urllib.request"), Some(Capability::Network));
        assert_eq!(rooted("pandas.io.common.os.remove"), "os.remove");
        assert_eq!(rooted("random._os.remove"), "os.remove");
        assert_eq!(
            rooted("sklearn.datasets.load_iris"),
            "sklearn.datasets.load_iris"
        );
        assert_eq!(rooted("builtins.eval"), "eval");
    }
}

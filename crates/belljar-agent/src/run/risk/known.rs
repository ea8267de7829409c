//! What is known of modules, functions and methods of Python: which capability the use of one is.

use super::Capability;

/// Modules of which any use is this.
pub(super) fn module(path: &str) -> Option<Capability> {
    exactly(path).or_else(|| part(path))
}

/// What is in such a module, by its path.
pub(super) fn part(path: &str) -> Option<Capability> {
    const WITHOUT: [&str; 4] = [
        "multiprocessing.cpu_count",
        "multiprocessing.dummy",
        "multiprocessing.pool.ThreadPool",
        "socket.gethostname",
    ];
    if WITHOUT.contains(&path) {
        return None;
    }
    let mut dots = path.match_indices('.').map(|(at, _)| at);
    dots.find_map(|end| exactly(&path[..end]))
}

fn exactly(module: &str) -> Option<Capability> {
    Some(match module {
        "MySQLdb" | "_socket" | "_ssl" | "aiohttp" | "anthropic" | "asyncpg" | "azure"
        | "boto3" | "botocore" | "cassandra" | "discord" | "dns" | "elasticsearch" | "fabric"
        | "fastapi" | "flask" | "ftplib" | "gdown" | "google.cloud" | "grpc" | "gspread"
        | "http.client" | "http.server" | "httplib2" | "httpx" | "huggingface_hub" | "imaplib"
        | "kaggle" | "mysql" | "nntplib" | "openai" | "pandas_datareader" | "paramiko"
        | "playwright" | "poplib" | "praw" | "psycopg" | "psycopg2" | "pycurl" | "pymongo"
        | "pymysql" | "pyodbc" | "redis" | "requests" | "scapy" | "selenium" | "slack_sdk"
        | "smtplib" | "socket" | "socketserver" | "ssl" | "telegram" | "telnetlib" | "tornado"
        | "tweepy" | "twisted" | "urllib.request" | "urllib.robotparser" | "urllib2"
        | "urllib3" | "uvicorn" | "websocket" | "websockets" | "wget" | "wikipedia" | "xmlrpc"
        | "yfinance" | "zmq" => Capability::Network,
        "_posixsubprocess" | "multiprocessing" | "pexpect" | "plumbum" | "pty" | "sh"
        | "subprocess" | "webbrowser" => Capability::Processes,
        "conda" | "easy_install" | "ensurepip" | "micropip" | "pip" => Capability::Installs,
        "send2trash" => Capability::Deletions,
        "Cython"
        | "_ctypes"
        | "cffi"
        | "code"
        | "codeop"
        | "ctypes"
        | "importlib.machinery"
        | "importlib.util"
        | "marshal"
        | "pyximport"
        | "runpy" => Capability::Unknown,
        _ => return None,
    })
}

/// Functions and other names by their whole path.
pub(super) fn path(path: &str) -> Option<Capability> {
    if let Some(name) = path.strip_prefix("os.")
        && let Some(capability) = of_os(name)
    {
        return Some(capability);
    }
    Some(match path {
        "__builtins__"
        | "__import__"
        | "__loader__"
        | "__spec__"
        | "compile"
        | "eval"
        | "exec"
        | "get_ipython"
        | "gc.get_objects"
        | "gc.get_referents"
        | "gc.get_referrers"
        | "importlib.__import__"
        | "importlib.import_module"
        | "importlib.reload"
        | "inspect.currentframe"
        | "inspect.stack"
        | "sys._getframe"
        | "sys.meta_path"
        | "sys.path_hooks"
        | "sys.setprofile"
        | "sys.settrace"
        | "types.CodeType"
        | "types.FunctionType"
        // What these read can be code.
        | "_pickle.load" | "_pickle.loads" | "cloudpickle.load" | "cloudpickle.loads"
        | "dill.load" | "dill.loads" | "joblib.load" | "jsonpickle.decode"
        | "pandas.read_pickle" | "pickle.Unpickler" | "pickle.load" | "pickle.loads"
        | "shelve.open" | "torch.load" | "yaml.Loader" | "yaml.UnsafeLoader"
        | "yaml.unsafe_load" => Capability::Unknown,
        "asyncio.open_connection"
        | "asyncio.open_unix_connection"
        | "asyncio.start_server"
        | "logging.handlers.HTTPHandler"
        | "logging.handlers.SMTPHandler"
        | "logging.handlers.SocketHandler"
        | "logging.handlers.SysLogHandler"
        | "nltk.download"
        | "seaborn.load_dataset"
        | "torch.hub.load" => Capability::Network,
        "asyncio.create_subprocess_exec"
        | "asyncio.create_subprocess_shell"
        | "concurrent.futures.ProcessPoolExecutor"
        | "concurrent.futures.process.ProcessPoolExecutor"
        | "signal.pthread_kill"
        | "signal.raise_signal" => Capability::Processes,
        "shutil.rmtree" => Capability::Deletions,
        "glob.glob" | "glob.iglob" | "fileinput.input" => Capability::FilesRead,
        "logging.FileHandler"
        | "pandas.ExcelWriter"
        | "pandas.HDFStore"
        | "shutil.copy"
        | "shutil.copy2"
        | "shutil.copyfile"
        | "shutil.copytree"
        | "shutil.make_archive"
        | "shutil.move"
        | "shutil.unpack_archive"
        | "tempfile.NamedTemporaryFile"
        | "tempfile.TemporaryDirectory"
        | "tempfile.TemporaryFile"
        | "tempfile.mkdtemp"
        | "tempfile.mkstemp" => Capability::FilesWritten,
        path if path.starts_with("sklearn.datasets.fetch_") => Capability::Network,
        _ => return None,
    })
}

fn of_os(name: &str) -> Option<Capability> {
    Some(match name {
        "kill" | "killpg" | "popen" | "startfile" | "system" => Capability::Processes,
        name if ["exec", "fork", "spawn", "posix_spawn"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Capability::Processes
        }
        "ftruncate" | "remove" | "removedirs" | "rmdir" | "truncate" | "unlink" => {
            Capability::Deletions
        }
        "listdir" | "readlink" | "scandir" | "walk" => Capability::FilesRead,
        "chmod" | "chown" | "link" | "makedirs" | "mkdir" | "mkfifo" | "mknod" | "rename"
        | "renames" | "replace" | "symlink" | "utime" => Capability::FilesWritten,
        _ => return None,
    })
}

/// Attributes of anything: names that hardly mean something else.
pub(super) fn attribute(name: &str) -> Option<Capability> {
    Some(match name {
        "__base__" | "__bases__" | "__builtins__" | "__code__" | "__getattribute__"
        | "__globals__" | "__import__" | "__loader__" | "__mro__" | "__self__"
        | "__subclasses__" | "cr_frame" | "exec_module" | "f_back" | "f_builtins" | "f_globals"
        | "gi_frame" | "import_module" | "load_module" | "read_pickle" | "run_line_magic"
        | "tb_frame" => Capability::Unknown,
        "Popen"
        | "check_call"
        | "check_output"
        | "create_subprocess_exec"
        | "create_subprocess_shell"
        | "subprocess_exec"
        | "subprocess_shell"
        | "execv"
        | "execve"
        | "execvp"
        | "execvpe"
        | "fork"
        | "forkpty"
        | "getstatusoutput"
        | "killpg"
        | "popen"
        | "posix_spawn"
        | "spawnv"
        | "spawnvp" => Capability::Processes,
        "removedirs" | "rmdir" | "rmtree" | "unlink" => Capability::Deletions,
        "from_pretrained" | "urlopen" | "urlretrieve" => Capability::Network,
        _ => return None,
    })
}

/// Methods of anything that read or write the file which their arguments name.
pub(super) fn file_method(name: &str) -> Option<Capability> {
    Some(match name {
        "fromfile" | "genfromtxt" | "glob" | "imread" | "iterdir" | "load_workbook" | "loadtxt"
        | "read_bytes" | "read_text" | "rglob" => Capability::FilesRead,
        name if name.starts_with("read_") || name.starts_with("scan_") => Capability::FilesRead,
        "extractall" | "hardlink_to" | "imsave" | "imwrite" | "makedirs" | "mkdir" | "save"
        | "savefig" | "savetxt" | "savez" | "savez_compressed" | "symlink_to" | "to_csv"
        | "to_excel" | "to_feather" | "to_file" | "to_hdf" | "to_html" | "to_json" | "to_latex"
        | "to_markdown" | "to_netcdf" | "to_orc" | "to_parquet" | "to_pickle" | "to_sql"
        | "to_stata" | "to_string" | "to_xml" | "to_zarr" | "tofile" | "touch" | "write_bytes"
        | "write_csv" | "write_html" | "write_image" | "write_json" | "write_parquet"
        | "write_text" => Capability::FilesWritten,
        _ => return None,
    })
}

/// Functions that run code which is given to them as text.
pub(super) fn runs_text(path: &str) -> bool {
    matches!(
        path,
        "cProfile.run" | "profile.run" | "timeit.Timer" | "timeit.repeat" | "timeit.timeit"
    )
}

/// Functions that open a file, and take the mode as the second argument.
pub(super) fn opens(path: &str) -> bool {
    matches!(
        path,
        "aiofiles.open"
            | "bz2.open"
            | "codecs.open"
            | "gzip.open"
            | "h5py.File"
            | "io.FileIO"
            | "io.open"
            | "lzma.open"
            | "netCDF4.Dataset"
            | "open"
            | "tarfile.open"
            | "wave.open"
            | "zipfile.ZipFile"
    )
}

/// Modules whose names mean them even where code binds the name, and within other modules, as in
/// `pathlib.os`.
pub(super) const ALWAYS: [&str; 6] = ["builtins", "importlib", "os", "shutil", "subprocess", "sys"];

/// Names of modules that are as often names of variables: they mean the module only where it is
/// imported.
pub(super) fn is_common_word(name: &str) -> bool {
    matches!(
        name,
        "azure" | "code" | "dns" | "mysql" | "redis" | "sh" | "telegram" | "wikipedia"
    )
}

/// What a name means that an earlier cell defined, if it is a usual one.
pub(super) fn usual(name: &str) -> &str {
    match name {
        "np" => "numpy",
        "pd" => "pandas",
        "plt" => "matplotlib.pyplot",
        "sns" => "seaborn",
        other => other,
    }
}

/// Packages for data alone: taking any name of one is no reason to ask.
pub(super) fn is_data(module: &str) -> bool {
    let first = module.split('.').next().unwrap_or_default();
    matches!(
        first,
        "cmath"
            | "datetime"
            | "math"
            | "matplotlib"
            | "mpl_toolkits"
            | "numpy"
            | "operator"
            | "pandas"
            | "plotly"
            | "polars"
            | "pylab"
            | "scipy"
            | "seaborn"
            | "sklearn"
            | "statistics"
            | "statsmodels"
            | "sympy"
    )
}

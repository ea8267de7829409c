//! Single names of modules.

use super::Capability;

/// Names by their whole path, of which any use is this.
pub(in crate::run::risk) fn path(path: &str) -> Option<Capability> {
    if let Some(name) = path.strip_prefix("os.")
        && let Some(capability) = of_os(name)
    {
        return Some(capability);
    }
    if let Some(capability) = of_packages(path) {
        return Some(capability);
    }
    Some(match path {
        "__build_class__" | "__builtins__" | "__import__" | "__loader__" | "__spec__"
        | "breakpoint" | "compile" | "eval" | "exec" | "get_ipython"
        // What these read can be code.
        | "pickle.load" | "pickle.loads" | "pickle.Unpickler" | "shelve.open"
        | "operator.call" | "types.CodeType" | "types.FunctionType" | "types.LambdaType"
        | "types.ModuleType" | "threading.settrace" | "threading.setprofile" | "weakref.finalize"
        // Without the path that they are of.
        | "pathlib.Path.symlink_to" | "pathlib.Path.hardlink_to" | "pathlib.Path.chmod"
        | "pathlib.Path.lchmod" | "pathlib.Path.write_text" | "pathlib.Path.write_bytes"
        | "pathlib.Path.touch" | "pathlib.Path.open" | "pathlib.Path.copy" => {
            Capability::Unknown
        }
        "asyncio.open_connection"
        | "asyncio.open_unix_connection"
        | "asyncio.start_server"
        | "asyncio.start_unix_server"
        | "logging.handlers.HTTPHandler"
        | "logging.handlers.SMTPHandler"
        | "logging.handlers.SocketHandler"
        | "logging.handlers.DatagramHandler"
        | "logging.handlers.SysLogHandler" => Capability::Network,
        "asyncio.create_subprocess_exec"
        | "asyncio.create_subprocess_shell"
        | "concurrent.futures.ProcessPoolExecutor"
        | "concurrent.futures.process.ProcessPoolExecutor"
        | "signal.pthread_kill"
        | "signal.raise_signal" => Capability::Processes,
        "shutil.rmtree" | "shutil.move" | "pathlib.Path.unlink" | "pathlib.Path.rmdir"
        | "pathlib.Path.rename" | "pathlib.Path.replace" | "pathlib.Path.move"
        | "pathlib.Path.move_into" => Capability::Deletions,
        "glob.glob" | "glob.iglob" | "fileinput.input" => Capability::FilesRead,
        "tempfile.NamedTemporaryFile" | "tempfile.SpooledTemporaryFile"
        | "tempfile.TemporaryDirectory" | "tempfile.TemporaryFile" | "tempfile.mkdtemp"
        | "tempfile.mkstemp" => Capability::FilesWritten,
        _ => return None,
    })
}

fn of_os(name: &str) -> Option<Capability> {
    Some(match name {
        "abort" | "kill" | "killpg" | "pidfd_open" | "popen" | "startfile" | "system" => {
            Capability::Processes
        }
        name if ["exec", "fork", "spawn", "posix_spawn"]
            .iter()
            .any(|start| name.starts_with(start)) =>
        {
            Capability::Processes
        }
        "ftruncate" | "remove" | "removedirs" | "rename" | "renames" | "replace" | "rmdir"
        | "truncate" | "unlink" => Capability::Deletions,
        "listdir" | "readlink" | "scandir" | "walk" | "fwalk" => Capability::FilesRead,
        _ => return None,
    })
}

/// Names of packages for data that do more than work with it.
fn of_packages(path: &str) -> Option<Capability> {
    let (package, name) = (super::first_of(path), path.rsplit('.').next()?);
    if !super::is_data(path) {
        return matches!(
            path,
            "cloudpickle.load"
                | "cloudpickle.loads"
                | "dill.load"
                | "dill.loads"
                | "jsonpickle.decode"
        )
        .then_some(Capability::Unknown);
    }
    let within = |part: &str| path.split('.').skip(1).any(|other| other == part);
    Some(match (package, name) {
        ("joblib" | "torch" | "xgboost", "load")
        | ("pandas", "read_pickle" | "eval")
        | ("keras" | "tensorflow", "load_model")
        | ("pydantic", "ImportString" | "PyObject")
        | (
            "yaml",
            "Loader" | "UnsafeLoader" | "FullLoader" | "unsafe_load" | "full_load"
            | "unsafe_load_all" | "full_load_all" | "add_constructor",
        )
        | ("IPython", "get_ipython" | "embed" | "start_ipython" | "Javascript")
        | ("duckdb", "install_extension" | "load_extension")
        | ("numba", "cfunc" | "objmode") => Capability::Unknown,
        ("numpy", _)
            if within("ctypeslib")
                || within("f2py")
                || within("distutils")
                || within("runstring")
                || within("measure") =>
        {
            Capability::Unknown
        }
        ("pydantic", _) if within("v1") || within("utils") => Capability::Unknown,
        ("sympy", _) if within("autowrap") || within("codegen") || within("preview") => {
            Capability::Unknown
        }
        ("scipy", _) if within("weave") || within("LowLevelCallable") => Capability::Unknown,
        ("IPython", _) if within("core") || within("terminal") || within("utils") => {
            Capability::Unknown
        }
        ("joblib" | "dask" | "torch", _)
            if within("distributed")
                || within("multiprocessing")
                || within("Parallel") && package != "joblib" =>
        {
            Capability::Processes
        }
        ("torch", _) if within("hub") || within("cpp_extension") => Capability::Network,
        ("nltk" | "spacy" | "textblob", _) if name.starts_with("download") || within("cli") => {
            Capability::Network
        }
        ("seaborn", "load_dataset" | "get_dataset_names")
        | ("transformers", "pipeline")
        | ("statsmodels", "get_rdataset")
        | ("skimage", "download_all")
        | ("keras" | "tensorflow", "get_file" | "load_data")
        | ("matplotlib", "get_sample_data")
        | (
            "pyarrow",
            "S3FileSystem" | "GcsFileSystem" | "HadoopFileSystem" | "AzureFileSystem" | "flight",
        ) => Capability::Network,
        ("geopy" | "contextily", _) if path.contains('.') => Capability::Network,
        ("sklearn", name) if name.starts_with("fetch_") => Capability::Network,
        ("scipy", _) if within("datasets") && name != "datasets" => Capability::Network,
        _ => return None,
    })
}

/// Modules of which only the names in [`member`] are harmless.
pub(super) fn is_partial(path: &str) -> bool {
    matches!(
        path,
        "asyncio"
            | "bz2"
            | "builtins"
            | "cProfile"
            | "codecs"
            | "concurrent"
            | "concurrent.futures"
            | "fileinput"
            | "gc"
            | "gzip"
            | "http"
            | "importlib"
            | "inspect"
            | "io"
            | "logging"
            | "logging.handlers"
            | "lzma"
            | "operator"
            | "os"
            | "os.path"
            | "pathlib"
            | "pickle"
            | "profile"
            | "psutil"
            | "shelve"
            | "shutil"
            | "signal"
            | "sqlite3"
            | "sqlalchemy"
            | "sys"
            | "tarfile"
            | "tempfile"
            | "threading"
            | "timeit"
            | "types"
            | "urllib"
            | "zipfile"
            | "dill"
            | "cloudpickle"
            | "pstats"
            | "wave"
            | "dbm"
    )
}

/// Whether a name of such a module is a harmless one; nothing if it is not in such a module.
pub(super) fn member(path: &str) -> Option<bool> {
    let (module, rest) = path.split_once('.')?;
    let name = super::first_of(rest);
    if name.starts_with("__") {
        return Some(matches!(
            name,
            "__name__" | "__doc__" | "__version__" | "__file__"
        ));
    }
    Some(match module {
        "os" => {
            matches!(
                name,
                "DirEntry"
                    | "PathLike"
                    | "access"
                    | "altsep"
                    | "chdir"
                    | "cpu_count"
                    | "curdir"
                    | "devnull"
                    | "environ"
                    | "error"
                    | "extsep"
                    | "fsdecode"
                    | "fsencode"
                    | "fspath"
                    | "get_exec_path"
                    | "get_terminal_size"
                    | "getcwd"
                    | "getcwdb"
                    | "getegid"
                    | "getenv"
                    | "geteuid"
                    | "getgid"
                    | "getloadavg"
                    | "getlogin"
                    | "getpgid"
                    | "getpid"
                    | "getppid"
                    | "getuid"
                    | "isatty"
                    | "linesep"
                    | "lstat"
                    | "makedirs"
                    | "mkdir"
                    | "name"
                    | "open"
                    | "pardir"
                    | "path"
                    | "pathsep"
                    | "process_cpu_count"
                    | "sched_getaffinity"
                    | "sep"
                    | "stat"
                    | "statvfs"
                    | "stat_result"
                    | "strerror"
                    | "sysconf"
                    | "times"
                    | "uname"
                    | "urandom"
                    | "F_OK"
                    | "R_OK"
                    | "W_OK"
                    | "X_OK"
                    | "SEEK_SET"
                    | "SEEK_END"
                    | "close"
            ) || name.starts_with("O_")
        }
        "sys" => matches!(
            name,
            "argv"
                | "byteorder"
                | "exc_info"
                | "exception"
                | "executable"
                | "exit"
                | "flags"
                | "float_info"
                | "getdefaultencoding"
                | "getfilesystemencoding"
                | "getrecursionlimit"
                | "getrefcount"
                | "getsizeof"
                | "hash_info"
                | "hexversion"
                | "implementation"
                | "int_info"
                | "intern"
                | "maxsize"
                | "maxunicode"
                | "path"
                | "platform"
                | "prefix"
                | "ps1"
                | "set_int_max_str_digits"
                | "setrecursionlimit"
                | "stderr"
                | "stdin"
                | "stdout"
                | "version"
                | "version_info"
                | "warnoptions"
                | "modules"
                | "builtin_module_names"
                | "stdlib_module_names"
        ),
        "shutil" => matches!(
            name,
            "copy"
                | "copy2"
                | "copyfile"
                | "copyfileobj"
                | "copytree"
                | "disk_usage"
                | "get_terminal_size"
                | "ignore_patterns"
                | "make_archive"
                | "unpack_archive"
                | "which"
                | "Error"
                | "SameFileError"
        ),
        "asyncio" => {
            matches!(
                name,
                "CancelledError"
                    | "Condition"
                    | "Event"
                    | "Future"
                    | "Lock"
                    | "PriorityQueue"
                    | "Queue"
                    | "QueueEmpty"
                    | "QueueFull"
                    | "Runner"
                    | "Semaphore"
                    | "BoundedSemaphore"
                    | "Task"
                    | "TaskGroup"
                    | "TimeoutError"
                    | "all_tasks"
                    | "as_completed"
                    | "create_task"
                    | "current_task"
                    | "ensure_future"
                    | "gather"
                    | "get_event_loop"
                    | "get_running_loop"
                    | "iscoroutine"
                    | "iscoroutinefunction"
                    | "new_event_loop"
                    | "run"
                    | "set_event_loop"
                    | "shield"
                    | "sleep"
                    | "timeout"
                    | "to_thread"
                    | "wait"
                    | "wait_for"
                    | "Protocol"
                    | "FIRST_COMPLETED"
                    | "ALL_COMPLETED"
            )
        }
        "bz2" | "gzip" | "lzma" | "tarfile" | "zipfile" | "tempfile" | "wave" | "pstats"
        | "cProfile" | "profile" | "timeit" | "fileinput" | "threading" | "signal" | "types"
        | "operator" => true,
        "codecs" => {
            matches!(
                name,
                "decode"
                    | "encode"
                    | "escape_decode"
                    | "getincrementaldecoder"
                    | "getreader"
                    | "getwriter"
                    | "iterdecode"
                    | "lookup"
                    | "open"
            ) || name.starts_with("BOM")
        }
        "concurrent" => matches!(
            rest.rsplit('.').next().unwrap_or_default(),
            "ALL_COMPLETED"
                | "FIRST_COMPLETED"
                | "FIRST_EXCEPTION"
                | "Future"
                | "ThreadPoolExecutor"
                | "as_completed"
                | "futures"
                | "thread"
                | "wait"
        ),
        "gc" => matches!(
            name,
            "collect"
                | "disable"
                | "enable"
                | "freeze"
                | "get_count"
                | "get_stats"
                | "get_threshold"
                | "isenabled"
                | "set_threshold"
        ),
        "http" => matches!(name, "HTTPStatus" | "HTTPMethod" | "cookies"),
        "importlib" => matches!(name, "metadata" | "resources" | "import_module"),
        "inspect" => {
            matches!(
                name,
                "Parameter"
                    | "Signature"
                    | "cleandoc"
                    | "getdoc"
                    | "getsource"
                    | "getsourcelines"
                    | "getmembers"
                    | "signature"
                    | "getfile"
                    | "getmro"
            ) || name.starts_with("is")
        }
        "io" => matches!(
            name,
            "BufferedReader"
                | "BytesIO"
                | "FileIO"
                | "StringIO"
                | "TextIOWrapper"
                | "open"
                | "SEEK_END"
                | "SEEK_SET"
                | "UnsupportedOperation"
                | "IOBase"
                | "BufferedIOBase"
                | "TextIOBase"
                | "RawIOBase"
                | "DEFAULT_BUFFER_SIZE"
        ),
        "logging" => name != "config",
        "pathlib" => matches!(
            name,
            "Path" | "PosixPath" | "PurePath" | "PurePosixPath" | "PureWindowsPath" | "WindowsPath"
        ),
        "pickle" | "dill" | "cloudpickle" => {
            matches!(
                name,
                "HIGHEST_PROTOCOL"
                    | "DEFAULT_PROTOCOL"
                    | "PickleError"
                    | "PicklingError"
                    | "UnpicklingError"
                    | "Pickler"
                    | "dump"
                    | "dumps"
            )
        }
        "psutil" => {
            matches!(
                name,
                "Process"
                    | "boot_time"
                    | "cpu_count"
                    | "cpu_freq"
                    | "cpu_percent"
                    | "cpu_stats"
                    | "cpu_times"
                    | "disk_usage"
                    | "swap_memory"
                    | "virtual_memory"
            )
        }
        "sqlite3" => !matches!(name, "enable_callback_tracebacks" | "register_converter"),
        "sqlalchemy" => name != "event",
        "urllib" => matches!(name, "parse" | "error"),
        "builtins" | "shelve" | "dbm" => false,
        _ => return None,
    })
}

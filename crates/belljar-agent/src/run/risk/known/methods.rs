//! Methods of anything, by their names alone, and which argument of a function names a file.

use super::Capability;

/// Attributes of anything: names that hardly mean something else.
pub(in crate::run::risk) fn attribute(name: &str) -> Option<Capability> {
    if name.starts_with("__") && name.ends_with("__") {
        return (!is_plain_dunder(name)).then_some(Capability::Unknown);
    }
    Some(match name {
        "cr_frame"
        | "enable_load_extension"
        | "exec_module"
        | "f_back"
        | "f_builtins"
        | "f_globals"
        | "f_locals"
        | "find_spec"
        | "gi_code"
        | "gi_frame"
        | "ag_frame"
        | "cr_code"
        | "func_globals"
        | "import_module"
        | "load_extension"
        | "load_module"
        | "read_pickle"
        | "run_cell"
        | "run_line_magic"
        | "run_cell_magic"
        | "runcode"
        | "runsource"
        | "tb_frame"
        | "ImportString"
        | "memmove"
        | "string_at"
        | "chmod"
        | "lchmod"
        | "hardlink_to"
        | "symlink_to"
        | "link_to"
        | "create_module"
        | "get_ipython"
        | "resolve_name"
        | "allow_pickle"
        | "import_string"
        | "import_object"
        | "safe_import" => Capability::Unknown,
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
        | "getoutput"
        | "killpg"
        | "popen"
        | "posix_spawn"
        | "posix_spawnp"
        | "send_signal"
        | "spawnv"
        | "spawnvp" => Capability::Processes,
        "removedirs" | "rmdir" | "rmtree" | "unlink" | "send2trash" => Capability::Deletions,
        "from_pretrained"
        | "urlopen"
        | "urlretrieve"
        | "create_connection"
        | "create_server"
        | "create_datagram_endpoint"
        | "open_connection"
        | "push_to_hub"
        | "sendmail"
        | "starttls" => Capability::Network,
        _ => return None,
    })
}

/// Special names that ordinary code writes.
fn is_plain_dunder(name: &str) -> bool {
    matches!(
        name,
        "__abs__"
            | "__add__"
            | "__all__"
            | "__and__"
            | "__annotations__"
            | "__author__"
            | "__array__"
            | "__bool__"
            | "__call__"
            | "__class__"
            | "__contains__"
            | "__debug__"
            | "__dict__"
            | "__doc__"
            | "__enter__"
            | "__eq__"
            | "__exit__"
            | "__file__"
            | "__float__"
            | "__floordiv__"
            | "__format__"
            | "__ge__"
            | "__getitem__"
            | "__gt__"
            | "__hash__"
            | "__init__"
            | "__int__"
            | "__iter__"
            | "__le__"
            | "__len__"
            | "__lt__"
            | "__main__"
            | "__matmul__"
            | "__members__"
            | "__mod__"
            | "__module__"
            | "__mul__"
            | "__name__"
            | "__ne__"
            | "__neg__"
            | "__new__"
            | "__next__"
            | "__or__"
            | "__path__"
            | "__post_init__"
            | "__pow__"
            | "__qualname__"
            | "__repr__"
            | "__reversed__"
            | "__setattr__"
            | "__setitem__"
            | "__slots__"
            | "__str__"
            | "__sub__"
            | "__truediv__"
            | "__version__"
            | "__wrapped__"
            | "__xor__"
            | "__dataclass_fields__"
            | "__delitem__"
            | "__aenter__"
            | "__aexit__"
            | "__index__"
            | "__sizeof__"
            | "__cause__"
            | "__context__"
            | "__args__"
            | "__origin__"
            | "__traceback__"
            | "__defaults__"
            | "__code__"
    ) && name != "__code__"
}

/// An argument, by its place and its names.
pub(in crate::run::risk) type Place = (usize, &'static [&'static str]);

/// Where a function or a method that writes has the file.
pub(in crate::run::risk) fn writes(path: Option<&str>, name: &str) -> Option<Place> {
    let by_path: Option<Place> = path.and_then(|path| {
        let place: Place = match path {
            "shutil.copy" | "shutil.copy2" | "shutil.copyfile" | "shutil.copytree" => (1, &["dst"]),
            "shutil.make_archive" => (0, &["base_name"]),
            "shutil.unpack_archive" => (1, &["extract_dir"]),
            "os.makedirs" => (0, &["name"]),
            "os.mkdir" | "os.chdir" => (0, &["path"]),
            "logging.FileHandler"
            | "logging.handlers.RotatingFileHandler"
            | "logging.handlers.TimedRotatingFileHandler"
            | "numpy.memmap"
            | "xlsxwriter.Workbook" => (0, &["filename"]),
            "logging.basicConfig" => (99, &["filename"]),
            "joblib.dump" => (1, &["filename"]),
            "numpy.save" | "numpy.savez" | "numpy.savez_compressed" => (0, &["file"]),
            "torch.save" => (1, &["f"]),
            "pandas.ExcelWriter" | "pandas.HDFStore" => (0, &["path", "path_or_buf"]),
            "sqlite3.connect" | "duckdb.connect" => (0, &["database"]),
            _ => return None,
        };
        Some(place)
    });
    if by_path.is_some() {
        return by_path;
    }
    let place: Place = match name {
        "extractall" => (0, &["path"]),
        "extract" if path.is_none() => (1, &["path"]),
        "savefig" | "savetxt" => (0, &["fname"]),
        "imsave" | "imwrite" => (0, &["fname", "uri", "filename"]),
        "save" => (0, &["fp", "filename", "filepath", "path", "file"]),
        "save_model" | "save_weights" | "save_pretrained" | "save_to_disk" => {
            (0, &["fname", "filepath", "save_directory", "path"])
        }
        "tofile" => (0, &["fid", "file"]),
        "write_csv" | "write_html" | "write_image" | "write_json" | "write_parquet"
        | "write_excel" | "write_ndjson" | "write_ipc" | "write_gexf" | "write_graphml"
        | "write_gml" | "sink_csv" | "sink_parquet" | "write_table" | "write_file" => {
            (0, &["file", "path", "target", "workbook"])
        }
        "to_csv" | "to_excel" | "to_feather" | "to_file" | "to_hdf" | "to_html" | "to_json"
        | "to_latex" | "to_markdown" | "to_netcdf" | "to_orc" | "to_parquet" | "to_pickle"
        | "to_stata" | "to_string" | "to_xml" | "to_zarr" => (
            0,
            &[
                "path_or_buf",
                "path",
                "buf",
                "excel_writer",
                "path_or_buffer",
                "filename",
                "store",
            ],
        ),
        _ => return None,
    };
    Some(place)
}

/// Functions and methods that read the file which their arguments name.
pub(in crate::run::risk) fn reads(name: &str) -> bool {
    name.starts_with("read_")
        || name.starts_with("scan_")
        || matches!(
            name,
            "fromfile"
                | "genfromtxt"
                | "glob"
                | "imread"
                | "iterdir"
                | "load_workbook"
                | "loadtxt"
                | "rglob"
                | "ExcelFile"
                | "loadmat"
        )
}

/// Names of functions that go where an address leads.
pub(in crate::run::risk) fn is_loader(name: &str) -> bool {
    const STARTS: [&str; 27] = [
        "attach", "clone", "connect", "download", "fetch", "from_", "get_", "http", "imread",
        "import", "load", "open", "post", "pull", "push", "put", "read", "request", "retrieve",
        "save", "scan", "send", "stream", "sync", "to_", "upload", "write",
    ];
    STARTS.iter().any(|start| name.starts_with(start))
        || matches!(
            name,
            "get"
                | "sql"
                | "execute"
                | "query"
                | "genfromtxt"
                | "loadtxt"
                | "fromfile"
                | "ExcelFile"
                | "HDFStore"
                | "File"
                | "Dataset"
                | "DataSource"
                | "use"
                | "create_engine"
                | "VideoCapture"
                | "urlopen"
                | "map"
                | "imap"
                | "starmap"
                | "submit"
                | "apply"
                | "copy"
                | "parse"
                | "Image"
                | "url"
                | "switch_backend"
                | "from_url"
                | "exists"
                | "partial"
                | "IFrame"
                | "Audio"
                | "Video"
                | "delete"
                | "patch"
                | "head"
                | "options"
                | "call"
                | "run"
                | "Client"
                | "Session"
        )
}

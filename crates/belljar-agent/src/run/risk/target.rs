//! Where a path, an address or a statement of SQL leads.

use super::value::{HOLE, Value, Values};

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// In the workspace, or to no file at all.
    Inside,
    /// A file of the workspace that Python can import, by the name of its module.
    Code(String),
    /// A file elsewhere.
    Outside,
    /// On another machine.
    Remote,
    /// It can't be seen.
    Unseen,
}

/// Where a value leads that names a file to write.
pub(super) fn target(values: &Values) -> Target {
    let of = |value: &Value| match value {
        Value::Text(text) | Value::Path(text) => of_text(text),
        // Files that are open, and buffers.
        Value::Made(path) if is_open_file(path) => Target::Inside,
        Value::Named(path) if matches!(path.as_str(), "sys.stdout" | "sys.stderr") => {
            Target::Inside
        }
        _ => Target::Unseen,
    };
    let rank = |target: &Target| match target {
        Target::Inside => 0,
        Target::Code(_) => 1,
        Target::Unseen => 2,
        Target::Outside => 3,
        Target::Remote => 4,
    };
    let worst = values.iter().map(of).max_by_key(rank);
    worst.unwrap_or(Target::Unseen)
}

fn is_open_file(path: &str) -> bool {
    const OPEN: [&str; 12] = [
        "open",
        "io.open",
        "io.StringIO",
        "io.BytesIO",
        "io.TextIOWrapper",
        "gzip.open",
        "bz2.open",
        "lzma.open",
        "codecs.open",
        "pandas.ExcelWriter",
        "zipfile.ZipFile",
        "tempfile.",
    ];
    OPEN.iter().any(|open| match open.strip_suffix('.') {
        Some(module) => path.starts_with(module),
        None => path == *open || path.strip_suffix(".open") == Some(open),
    })
}

fn of_text(text: &str) -> Target {
    if is_address(text) {
        return Target::Remote;
    }
    let path = text.strip_prefix("file:").unwrap_or(text);
    let path = path.strip_prefix("//").unwrap_or(path);
    if path.split(['/', '\\']).any(|part| part == "..") || path.starts_with('~') {
        return Target::Outside;
    }
    let own = ["/workspace/", "/tmp/", "/workspace", "/tmp"];
    let is_own = || {
        own.iter().any(|own| {
            path == own.trim_end_matches('/') || (own.ends_with('/') && path.starts_with(own))
        }) || matches!(path, "/dev/null" | "/dev/stdout" | "/dev/stderr")
    };
    if path.starts_with('/') && !is_own() {
        return Target::Outside;
    }
    if path.starts_with(HOLE) {
        return if has_data_ending(path) {
            Target::Inside
        } else {
            Target::Unseen
        };
    }
    let name = path.rsplit('/').next().unwrap_or_default();
    match name.rsplit_once('.') {
        Some((stem, "py" | "pyc" | "pth" | "so" | "pyd" | "egg")) => {
            let stem = stem.split('.').next().unwrap_or_default();
            let package = path
                .split('/')
                .find(|part| !matches!(*part, "" | "." | "workspace"));
            let package = package.filter(|part| *part != name).unwrap_or(stem);
            if stem.contains(HOLE) || package.contains(HOLE) {
                Target::Unseen
            } else {
                Target::Code(package.to_owned())
            }
        }
        _ => Target::Inside,
    }
}

/// Whether a file is one of data by the end of its name: it can't become code.
fn has_data_ending(path: &str) -> bool {
    let name = path.rsplit(['/', HOLE]).next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| {
        matches!(
            ending.to_ascii_lowercase().as_str(),
            "csv"
                | "tsv"
                | "txt"
                | "md"
                | "json"
                | "jsonl"
                | "geojson"
                | "xml"
                | "html"
                | "xlsx"
                | "xls"
                | "ods"
                | "parquet"
                | "feather"
                | "npy"
                | "npz"
                | "png"
                | "jpg"
                | "jpeg"
                | "svg"
                | "pdf"
                | "gif"
                | "webp"
                | "tex"
                | "docx"
                | "pptx"
                | "h5"
                | "hdf5"
                | "nc"
                | "db"
                | "sqlite"
                | "pkl"
                | "joblib"
                | "zip"
                | "gz"
                | "log"
                | "yaml"
                | "yml"
        )
    })
}

/// Whether a text is the address of something on another machine.
pub(super) fn is_address(text: &str) -> bool {
    let text = text.trim_start();
    if text.starts_with("//") || text.starts_with("\\\\") || text.starts_with("md:") {
        return true;
    }
    let Some((scheme, _)) = text.split_once("://") else {
        return false;
    };
    is_scheme(scheme)
}

fn is_scheme(scheme: &str) -> bool {
    let own = ["file", "sqlite", "duckdb", "memory", "data"];
    (1..=40).contains(&scheme.len())
        && scheme
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+-.:".contains(c) || c == HOLE)
        && !own.iter().any(|own| scheme.starts_with(own))
}

/// Whether a value is such an address, or holds one.
pub(super) fn leads_out(values: &Values) -> bool {
    values.iter().any(|value| match value {
        Value::Text(text) | Value::Path(text) => is_address(text),
        Value::Within(inner) => leads_out(&Values::one((**inner).clone())),
        _ => false,
    })
}

/// What a statement of SQL does that is no work with tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sql {
    Remote,
    Outside,
    Extension,
}

/// Looks through statements of SQL for files elsewhere, other machines and code.
pub(super) fn sql(text: &str) -> Option<Sql> {
    let lower = text.to_ascii_lowercase();
    let mut schemes = lower.match_indices("://").map(|(at, _)| {
        let start = lower[..at].rfind(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
        &lower[start.map_or(0, |start| start + 1)..at]
    });
    if schemes.any(|scheme| scheme.is_empty() || is_scheme(scheme)) {
        return Some(Sql::Remote);
    }
    let words = || {
        lower
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .filter(|word| !word.is_empty())
    };
    let begins = |word: &str| {
        lower
            .split(';')
            .any(|statement| statement.split_whitespace().next() == Some(word))
    };
    let acts = [
        "load_extension",
        "writefile",
        "readfile",
        "edit",
        "fts3_tokenizer",
        "shellfs",
    ];
    if begins("install") || begins("load") || words().any(|word| acts.contains(&word)) {
        return Some(Sql::Extension);
    }
    let writes = ["attach", "copy", "export", "vacuum"];
    if words().any(|word| writes.contains(&word)) {
        let quoted = text.split(['\'', '"']).skip(1).step_by(2);
        for path in quoted {
            match of_text(path) {
                Target::Remote => return Some(Sql::Remote),
                Target::Outside | Target::Unseen | Target::Code(_) => return Some(Sql::Outside),
                Target::Inside => {}
            }
        }
    }
    None
}

/// Whether an expression that a library evaluates reaches beyond its columns and symbols.
pub(super) fn escapes(text: &str) -> bool {
    let calls = text.split('@').skip(1).any(|rest| {
        let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        name.trim_start().starts_with(['(', '.'])
    });
    text.contains("__") || calls || text.contains("import ") || text.contains("lambda")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_somewhere() {
        for (text, expected) in [
            ("a.csv", Target::Inside),
            ("out/\u{fffc}", Target::Inside),
            ("\u{fffc}.csv", Target::Inside),
            ("/workspace/a", Target::Inside),
            ("/tmp/a", Target::Inside),
            ("/dev/null", Target::Inside),
            ("\u{fffc}", Target::Unseen),
            ("\u{fffc}.py", Target::Unseen),
            ("helper.py", Target::Code("helper".into())),
            ("/workspace/pack/__init__.py", Target::Code("pack".into())),
            ("../a", Target::Outside),
            ("/workspace/../etc/a", Target::Outside),
            ("/workspaces", Target::Outside),
            ("/etc/a", Target::Outside),
            ("~/a", Target::Outside),
            ("file:/etc/a.db", Target::Outside),
            ("s3://b/a", Target::Remote),
            ("\u{fffc}://b/a", Target::Remote),
        ] {
            assert_eq!(of_text(text), expected, "{text}");
        }
    }

    #[test]
    fn sql_is_looked_through() {
        for (text, expected) in [
            ("SELECT * FROM 'a.parquet' WHERE b LIKE '%/%'", None),
            ("COPY t TO 'out.csv' (HEADER)", None),
            ("ATTACH 'other.db' AS o", None),
            ("ATTACH '/etc/o.db' AS o", Some(Sql::Outside)),
            ("copy t to '/etc/x'", Some(Sql::Outside)),
            ("SELECT * FROM 'https://x.org/a'", Some(Sql::Remote)),
            ("INSTALL httpfs", Some(Sql::Extension)),
            ("select 1; load 'x'", Some(Sql::Extension)),
            ("select load_extension('x')", Some(Sql::Extension)),
        ] {
            assert_eq!(sql(text), expected, "{text}");
        }
    }
}

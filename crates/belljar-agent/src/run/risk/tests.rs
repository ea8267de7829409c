use std::fmt::Write as _;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

/// What is found, in short: `line capability what`.
fn found(code: &str) -> Vec<String> {
    let show = |found: Finding| format!("{} {} {}", found.line, found.capability, found.what);
    risk(code).findings.into_iter().map(show).collect()
}

/// Code, and everything that is found in it.
const TABLE: &[(&str, &[&str])] = &[
    // Nothing.
    ("x = 1\nprint(x ** 2)", &[]),
    (
        "import os\nprint(os.path.join('a', 'b'), os.cpu_count())",
        &[],
    ),
    ("import platform\nprint(platform.system())", &[]),
    (
        "items.remove(3); s.replace('a', 'b'); df.rename(columns={})",
        &[],
    ),
    (
        "import re\nre.compile('a'); model.eval(); df.eval('a + b')",
        &[],
    ),
    (
        "code.strip(); requests = {}; requests.get('a'); signal.copy()",
        &[],
    ),
    ("'pandas' in sys.modules; 'df' in globals()", &[]),
    (
        "df.truncate(before='2020'); df.to_json(); df.to_csv(index=False)",
        &[],
    ),
    (
        "df = pd.DataFrame()\ngetattr(np, name)(x); getattr(df, how)(); getattr(df, 'mean')()",
        &[],
    ),
    (
        "getattr(x, how)",
        &["1 unknown getattr by a name that can't be seen"],
    ),
    ("from numpy import *\nfrom math import *", &[]),
    ("import sqlite3\nsqlite3.connect(':memory:')", &[]),
    // Files.
    ("open('a.txt')", &["1 files_read open('a.txt')"]),
    (
        "open('a', 'rb'); open('b', mode='r')",
        &["1 files_read open('a')", "1 files_read open('b')"],
    ),
    (
        "with open('a.txt', 'w') as f:\n    f.write('x')",
        &["1 files_written open('a.txt')"],
    ),
    (
        "open('a', m)",
        &["1 unknown open('a') in a mode that can't be seen"],
    ),
    (
        "open('a', **o)",
        &["1 unknown open('a') in a mode that can't be seen"],
    ),
    (
        "open(p, 'r+')",
        &["1 unknown open to a file that can't be seen"],
    ),
    (
        "import tarfile\ntarfile.open('a', 'r:xz')",
        &["2 files_read tarfile.open('a')"],
    ),
    (
        "from pathlib import Path\n\nPath('a').write_text('b')",
        &["3 files_written .write_text('b')"],
    ),
    (
        "Path('a').open('w'); Path('b').open()",
        &["1 files_read .open", "1 files_written .open('w')"],
    ),
    (
        "import pandas as pd\ndf = pd.read_csv('sales.csv')\ndf.to_csv('out.csv')",
        &[
            "2 files_read pandas.read_csv('sales.csv')",
            "3 files_written .to_csv('out.csv')",
        ],
    ),
    (
        "plt.savefig('a.png')",
        &["1 files_written matplotlib.pyplot.savefig('a.png')"],
    ),
    (
        "import numpy as np\nnp.save('a', x); np.load('a.npy')",
        &[
            "2 files_read numpy.load('a.npy')",
            "2 files_written numpy.save('a')",
        ],
    ),
    (
        "os.makedirs('a'); os.listdir('.')",
        &[
            "1 files_read os.listdir('.')",
            "1 files_written os.makedirs('a')",
        ],
    ),
    // The network.
    (
        "import requests\nr = requests.get(u)",
        &["1 network import requests", "2 network requests.get"],
    ),
    (
        "import pandas as pd\npd.read_csv('https://x.org/a.csv')",
        &["2 network pandas.read_csv('https://x.org/a.csv')"],
    ),
    (
        "url = 'https://x.org'\npd.read_csv(url + '/a.csv')",
        &["2 network pandas.read_csv"],
    ),
    (
        "base = 's3://b'\npd.read_csv(f'{base}/a.csv')",
        &["2 network pandas.read_csv"],
    ),
    (
        "pd.read_html(f'http://x.org/{n}')",
        &["1 network pandas.read_html"],
    ),
    (
        "for u in ['ftp://x/a']:\n  pd.read_csv(u)",
        &["2 network pandas.read_csv"],
    ),
    (
        "[pd.read_csv(u) for u in ['ftp://x/a']]",
        &["1 network pandas.read_csv"],
    ),
    (
        "def f(u='http://x'):\n  return pd.read_csv(u)",
        &["2 network pandas.read_csv"],
    ),
    (
        "df.to_csv('s3://b/a.csv')",
        &["1 network .to_csv('s3://b/a.csv')"],
    ),
    (
        "from urllib import request as r\nr.urlopen(u)",
        &[
            "1 network urllib.request",
            "2 network urllib.request.urlopen",
        ],
    ),
    ("import urllib.parse\nurllib.parse.quote('a')", &[]),
    ("import socket", &["1 network import socket"]),
    ("x.urlopen(u)", &["1 network .urlopen"]),
    // Processes.
    (
        "import os as o\no.system('ls')",
        &["2 processes os.system('ls')"],
    ),
    ("from os import popen as p", &["1 processes os.popen"]),
    (
        "o.system('ls'); o.execv(a, b)",
        &["1 processes .execv", "1 processes .system('ls')"],
    ),
    (
        "run = os.system\n\nrun('ls')",
        &["1 processes os.system", "3 processes os.system('ls')"],
    ),
    (
        "import subprocess as s\ns.run(['ls'])",
        &[
            "1 processes import subprocess",
            "2 processes subprocess.run",
        ],
    ),
    (
        "from multiprocessing import Pool",
        &["1 processes import multiprocessing"],
    ),
    (
        "import os, signal\nos.kill(1, signal.SIGTERM)",
        &["2 processes os.kill"],
    ),
    // Deletions.
    ("import os\nos.remove('a')", &["2 deletions os.remove('a')"]),
    (
        "from shutil import rmtree as r\nr('a')",
        &[
            "1 deletions shutil.rmtree",
            "2 deletions shutil.rmtree('a')",
        ],
    ),
    ("Path('a').unlink()", &["1 deletions .unlink"]),
    ("list(map(os.remove, files))", &["1 deletions os.remove"]),
    ("f.truncate(0)", &["1 deletions .truncate"]),
    ("getattr(os, 'remove')('a')", &["1 deletions os.remove"]),
    // Installs.
    (
        "# requires: humanize\nimport humanize",
        &["1 installs requires: humanize"],
    ),
    ("x = 1\n# requires: humanize", &[]),
    (
        "# requires: --index-url=x",
        &["1 installs requires: --index-url=x"],
    ),
    ("import pip", &["1 installs import pip"]),
    (
        "%pip install x",
        &[
            "1 installs %pip install x",
            "1 installs pip",
            "1 unknown code that is not Python",
        ],
    ),
    (
        "subprocess.run([sys.executable, '-m', 'pip', 'install', 'x'])",
        &[
            "1 processes subprocess.run",
            "1 installs a process that installs packages",
        ],
    ),
    // Unknown.
    (
        "x = 1\n!ls",
        &["2 processes !ls", "2 unknown code that is not Python"],
    ),
    (
        "names = !ls",
        &[
            "1 processes names = !ls",
            "1 unknown code that is not Python",
        ],
    ),
    (
        "%%bash\nrm -r data",
        &["1 processes %%bash", "1 unknown code that is not Python"],
    ),
    ("text = \"\"\"\n!ls\n\"\"\"", &[]),
    ("eval(s)", &["1 unknown eval"]),
    (
        "e = exec\ne('x')",
        &["1 unknown exec", "2 unknown exec('x')"],
    ),
    ("import builtins as b\nb.eval(s)", &["2 unknown eval"]),
    (
        "__import__('os').system('ls')",
        &["1 processes os.system('ls')", "1 unknown __import__('os')"],
    ),
    (
        "import importlib\nimportlib.import_module(m)",
        &["2 unknown importlib.import_module"],
    ),
    ("import ctypes", &["1 unknown import ctypes"]),
    (
        "import pickle\npickle.dump(x, f)\npickle.load(f)",
        &["3 unknown pickle.load"],
    ),
    (
        "np.load('a', allow_pickle=True)",
        &["1 unknown numpy.load('a')"],
    ),
    (
        "import os\ngetattr(os, 'sys' + 'tem')('ls')",
        &["2 processes os.system"],
    ),
    (
        "globals()[n]()",
        &["1 unknown a call of a name that is looked up"],
    ),
    (
        "vars().get(n)()",
        &["1 unknown a call of a name that is looked up"],
    ),
    ("sys.modules['os']", &["1 unknown sys.modules"]),
    (
        "().__class__.__base__.__subclasses__()",
        &["1 unknown .__base__", "1 unknown .__subclasses__"],
    ),
    ("f.__globals__['x']", &["1 unknown .__globals__"]),
    (
        "os.__dict__['system']",
        &["1 unknown __dict__ of a module", "1 unknown os.__dict__"],
    ),
    (
        "from mine import *",
        &["1 unknown from mine import *", "1 unknown import mine"],
    ),
    (
        "from os import *\nsystem('ls')",
        &["2 processes os.system('ls')"],
    ),
    ("def f(:", &["1 unknown code that is not Python"]),
    // Wherever it stands.
    (
        "def f():\n  class A:\n    def g(self):\n      import os\n      return lambda: os.unlink('a')",
        &["5 deletions os.unlink('a')"],
    ),
    (
        "print(f'{1}' f'''a {\nopen(\"b\").read()}''')",
        &["2 files_read open('b')"],
    ),
    (
        "@os.system\ndef f(a=eval): pass",
        &["1 processes os.system", "2 unknown eval"],
    ),
    // Python takes these letters for plain ones.
    ("ｅｖａｌ(s)", &["1 unknown eval"]),
    (
        "import ｏｓ\nｏｓ.ｓｙｓｔｅｍ('ls')",
        &["2 processes os.system('ls')"],
    ),
    // Modules are in modules.
    (
        "import pathlib\npathlib.os.remove('a'); os.path.os.system('ls')",
        &["2 processes os.system('ls')", "2 deletions os.remove('a')"],
    ),
    (
        "df.os.value_counts(); self.socket.send(b); a.truncate(n)",
        &[],
    ),
    ("print.__self__", &["1 unknown print.__self__"]),
    (
        "import timeit\ntimeit.timeit('x()'); timeit.timeit(f)",
        &["2 unknown timeit.timeit('x()')"],
    ),
    ("np.load(f, None, True)", &["1 unknown numpy.load"]),
    // A binding does not hide what is there anyway.
    (
        "if 0: os = eval = None\nos.remove('a'); eval(s)",
        &["2 deletions os.remove('a')", "2 unknown eval"],
    ),
];

#[test]
fn what_code_may_do_is_found() {
    let wrong: Vec<_> = TABLE
        .iter()
        .filter(|(code, expected)| found(code) != *expected)
        .map(|(code, _)| (code, found(code)))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn plain_work_with_data_is_not_risky() {
    let code = "import json, math, random, collections, itertools, datetime as dt\n\
        import numpy as np, pandas as pd\nimport matplotlib.pyplot as plt\n\
        import seaborn as sns\nfrom pathlib import Path\nfrom scipy import stats\n\
        from sklearn.linear_model import LinearRegression\n\
        df = pd.read_csv('sales.csv', parse_dates=['day'])\n\
        df['month'] = df['day'].dt.to_period('M')\n\
        table = df.groupby('month').agg({'amount': 'sum'}).reset_index()\n\
        model = LinearRegression().fit(x, y)\nmodel.predict(x)\n\
        fig, ax = plt.subplots()\nax.plot(table.month.astype(str), table.amount)\n\
        fig.savefig('plot.png')\ntable.to_excel('table.xlsx')\n\
        with open('out.json', 'w') as f: json.dump(table.to_dict(), f)\n\
        text = Path('notes.txt').read_text()\nprint(json.loads(text), stats.describe(df.amount))\n\
        Path('out').mkdir(exist_ok=True)\nnp.savetxt('a.txt', np.linspace(0, 1))\n\
        df.query('a > 3').pipe(lambda d: d.sort_values('a')).drop(columns=['b'])\n\
        df.replace(1, 2).rename(columns=str.lower).apply(np.sqrt).compile = 3\n";
    let risk = risk(code);
    assert!(!risk.is_risky(), "{risk:?}");
    let files = [Capability::FilesRead, Capability::FilesWritten];
    assert_eq!(risk.capabilities(), BTreeSet::from(files));
    let imports = [
        "collections",
        "datetime",
        "itertools",
        "json",
        "math",
        "matplotlib",
        "numpy",
    ];
    assert_eq!(risk.imports[..7], imports);
}

#[test]
fn a_risk_is_data() {
    let risk = risk("import os\nos.remove('a')");
    let json = serde_json::json!({
        "findings": [{"line": 2, "capability": "deletions", "what": "os.remove('a')"}],
        "imports": ["os"],
    });
    assert_eq!(serde_json::to_value(&risk).unwrap(), json);
    assert_eq!(serde_json::from_value::<Risk>(json).unwrap(), risk);
}

/// L5: what is given to a function is shown without disguise, and is short.
#[test]
fn findings_are_short_and_visible() {
    let code = format!("os.system('\\x1b[2J\u{202e}{}')", "a".repeat(5000));
    let found = found(&code);
    assert_eq!(found.len(), 1);
    assert!(found[0].contains("<U+001B>[2J<U+202E>aaa"), "{found:?}");
    assert!(
        found[0].len() < 200 && found[0].ends_with("…')"),
        "{found:?}"
    );
}

/// Trees that are as deep as the code is long, and code of any length, take a bounded time and stack.
#[test]
fn heavy_long_and_deep_code_is_looked_through() {
    let many = |part: &str, bytes: usize| part.repeat(bytes / part.len());
    let mut lines = String::new();
    while lines.len() < 60_000 {
        let _ = writeln!(lines, "x{} = pd.read_csv('https://x/{0}')", lines.len());
    }
    let mut aliases = String::new();
    for n in 0..5000 {
        let _ = writeln!(aliases, "a{}=a{n}.b", n + 1);
    }
    let names = format!("f({}1{})", many("f(", 190), many(")", 95));
    let codes = [
        format!("x = a{}", many(".b", 65_000)),
        format!("x = a{}", many("()", 65_000)),
        format!("x = a{}", many("[0]", 65_000)),
        format!("x = 1{}", many("+1", 65_000)),
        format!("x = a{}", many(".b(c)", 65_000)),
        format!("x = {}", many("(", 65_000)),
        many("os=o=os;", 65_000),
        many("getattr(", 65_000),
        // The longest that is parsed on the stack of whoever asks.
        format!("x = a{}", many(".b", 500)),
        format!("x = a{}", many("()", 500)),
        names,
        lines,
        aliases,
    ];
    // Once of five times: others may be busy.
    let is_quick = |seconds, code: &str| {
        (0..5).any(|_| {
            let started = Instant::now();
            risk(code);
            started.elapsed() < Duration::from_secs(seconds)
        })
    };
    for code in codes {
        assert!(is_quick(5, &code), "{}", &code[..20]);
    }
    let long = many("import os\n", 200_000);
    assert_eq!(
        found(&long),
        ["1 unknown code that is too long to look through"]
    );
    assert!(is_quick(2, &long));
}

proptest! {
    #[test]
    fn any_text_is_looked_through(code in "(?s).{0,300}") {
        check(&code)?;
    }

    /// Pieces of Python, put together in any way.
    #[test]
    fn any_code_is_looked_through(parts in proptest::collection::vec(proptest::sample::select(vec![
        "import os", " as o", "\n", "\r", "  ", "from x import *", "o.system", "(", ")", "'a'", "f'{",
        "}'", ".unlink", "=", "getattr", "[", "]", ",", "# requires: ", "!ls", "%pip install", "eval",
        "def f", ":", "é", "\u{2028}", "open", "**", "lambda", "https://", "for x in ", "class A",
    ]), 0..40)) {
        check(&parts.concat())?;
    }
}

fn check(code: &str) -> Result<(), TestCaseError> {
    let lines = code.split('\n').count();
    for found in risk(code).findings {
        let line = usize::try_from(found.line).unwrap();
        prop_assert!((1..=lines).contains(&line), "{found:?} of {lines}");
    }
    Ok(())
}

//! `IPython`'s notation in cells: the rewrite, shell commands, magics, `get_ipython()`.

use belljar_sandbox::protocol::{Cause, Completeness, Event, Fate, InspectDetail};
use belljar_sandbox::{Cell, PackageStore, Packages, Session};

use crate::support::{
    bare_environment, data_session, engine, good, plain_builder, printed, session,
};

/// The rewrite itself, in the interpreter that it is for.
#[tokio::test]
async fn the_rewrite_keeps_lines_and_leaves_python_alone() {
    let session = session().await;
    let code = r##"
from belljar_guest.rewrite import rewrite
call = "get_ipython()."
for source, python in (
    ("!ls -l", call + "system('ls -l')"),
    ("  !ls", "  " + call + "system('ls')"),
    ("!!ls", call + "getoutput('ls')"),
    ("x = !ls", "x = " + call + "getoutput('ls')"),
    ("a.b[0], c = !ls", "a.b[0], c = " + call + "getoutput('ls')"),
    ("x = %timeit -o f()", "x = " + call + "run_line_magic('timeit', '-o f()')"),
    ("%time x = '%s' % 1", call + "run_line_magic('time', \"x = '%s' % 1\")"),
    ("!echo a \\\n  b\nx", call + "system('echo a    b')\n\nx"),
    ("%%bash -e\necho 'a\n!b", call + "run_cell_magic('bash', '-e', \"echo 'a\\n!b\\n\")"),
    ("\n\n%%time\nx", "\n\n" + call + "run_cell_magic('time', '', 'x\\n')"),
    ("len?", call + "run_line_magic('pinfo', 'len')"),
    ("?a.b", call + "run_line_magic('pinfo', 'a.b')"),
    ("a[0].b??", call + "run_line_magic('pinfo2', 'a[0].b')"),
    ("%%time?", call + "run_line_magic('pinfo', '%%time')"),
    ("if x:\r\n    !ls\r\n    y", "if x:\n    " + call + "system('ls')\n    y"),
    ("s = '''\n!a\n'''\n!b", "s = '''\n!a\n'''\n" + call + "system('b')"),
    ("x = (1\n%time\n)\n!b", "x = (1\n%time\n)\n" + call + "system('b')"),
    ("x = 7 \\\n%time\n!b", "x = 7 \\\n%time\n" + call + "system('b')"),
    ("'a\\\n!b'\n!c # d", "'a\\\n!b'\n" + call + "system('c # d')"),
    ("# '\n!a", "# '\n" + call + "system('a')"),
):
    assert rewrite(source) == python, (source, rewrite(source))
    if not source.startswith(("%%", "\n\n%%")):
        assert python.count("\n") == source.count("\n"), source
for source in (
    "x = 1", "x != y", "x %= 3", "x = a % b", "'!ls'", "f('%time')", "x = y ?", "x = y?", "a ? b : c", "? ?",
    "1?", "%", "% time", "x = '!", "'''\n!ls", "(\n!ls", "x \\\n!ls", "x = \\\n!ls", "f\"{x\n!r:;ls #}\"",
    "print('what?')", "# !ls", "if x: !ls", "x = 1; !ls",
):
    assert rewrite(source) is None, (source, rewrite(source))
print("as expected")
"##;
    assert_eq!(printed(&session, code).await, "as expected\n");
    // A source of the greatest length takes a moment, whatever it is made of.
    let code = r#"
import time
size = 1 << 20
for source in ("!" * size, "%a " * size, "a?" * size, "'" * size, "\"\"\"" + "'\\" * size, "x=[" * size,
               "!a\\\n" * (size // 4), "x = a % b\n" * (size // 10), " " * size + "!", "a," * size + "=!",
               "a" * size + " =", "a[" * size + "=!", "\n" * size + "%%", "%%\n" * size):
    start = time.process_time()
    rewrite(source)
    assert time.process_time() - start < 10, source[:10]
print("in time")
"#;
    assert_eq!(printed(&session, code).await, "in time\n");
}

#[tokio::test]
async fn commands_of_the_shell() {
    let session = session().await;
    let out = printed(&session, "!echo one; echo two >&2\nprint('three')").await;
    assert_eq!(out, "one\ntwo\nthree\n");
    let code = "names = ['a', 'b']\nfor name in names:\n    !echo {name} {len(names)} $name $HOME '$x' {{}}\nprint(_exit_code)";
    assert_eq!(
        printed(&session, code).await,
        "a 2 a /tmp $x {}\nb 2 b /tmp $x {}\n0\n"
    );
    let code = "def f(inside):\n    !echo {inside} $inside\nf('it')\n!exit 3\nprint(_exit_code)";
    assert_eq!(printed(&session, code).await, "it it\n3\n");
    // What is no expression stays for the shell.
    let code = "!echo 'a b' | awk '{print $2}'\n!printf '%s\\n' ${HOME}";
    assert_eq!(printed(&session, code).await, "b\n/tmp\n");
    let code = "lines = !printf 'b\\na\\n'; echo c >&2\nprint(sorted(lines), lines.s, repr(lines.n), len(lines))";
    assert_eq!(
        printed(&session, code).await,
        "['a', 'b', 'c'] b a c 'b\\na\\nc' 3\n"
    );
    // Wherever the code has put its standard output.
    let code = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as text:\n    !echo caught\nprint(repr(text.getvalue()))";
    assert_eq!(printed(&session, code).await, "'caught\\n'\n");
    let out = printed(&session, "print('first', end=' ')\n!echo second").await;
    assert_eq!(out, "first second\n");
    // The value of a cell can be that of a magic.
    let outcome = good(&session, "%cd /tmp\n%pwd").await;
    assert_eq!(outcome.stdout.text, "/tmp\n");
    assert_eq!(outcome.displays[0].text(), Some("'/tmp'"));
    assert!(outcome.displays[0].value);
}

/// Output comes while a command runs; an interrupt ends it, and all that it started.
#[tokio::test]
async fn a_command_streams_and_can_be_interrupted() {
    let session = session().await;
    let mut run = session.run("!echo started; (sleep 61 & sleep 62); echo not reached");
    loop {
        match run.next().await.unwrap().unwrap() {
            Event::Output { text, .. } => break assert_eq!(text, "started\n"),
            Event::Started { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(session.interrupt());
    let outcome = run.outcome().await.unwrap();
    assert_eq!(
        (&outcome.cause, outcome.state),
        (&Cause::Interrupted, Fate::Kept)
    );
    let exception = outcome.exception.unwrap();
    assert_eq!(exception.line, Some(1));
    assert!(!exception.traceback.contains("belljar"), "{exception:#?}");
    let code = "import os\nprint([p for p in os.listdir('/proc') if p.isdigit() and b'sleep' in open(f'/proc/{p}/cmdline', 'rb').read()])";
    assert_eq!(printed(&session, code).await, "[]\n");
}

#[tokio::test]
async fn tracebacks_and_syntax_errors_show_the_users_lines() {
    let session = session().await;
    let failed = async |code: &str| session.run(code).await.unwrap().exception.unwrap();
    let error = failed("x = 1\n!true\n%time 1 / 0").await;
    assert_eq!(
        (error.name.as_str(), error.line),
        ("ZeroDivisionError", Some(3))
    );
    assert!(
        error.traceback.contains("\n    %time 1 / 0\n"),
        "{error:#?}"
    );
    assert!(!error.traceback.contains("get_ipython"), "{error:#?}");
    let error = failed("%%time\nx = 1\n\nx / 0").await;
    assert_eq!(error.line, Some(4));
    assert!(error.traceback.contains("\n    x / 0\n"), "{error:#?}");
    // The error is that of the line which is wrong, with the line as it was written.
    let error = failed("!true\nx = = 1").await;
    assert_eq!((error.name.as_str(), error.line), ("SyntaxError", Some(2)));
    assert!(error.traceback.contains("x = = 1"), "{error:#?}");
    let error = failed("x = 1\n  !true").await;
    assert_eq!(
        (error.name.as_str(), error.line),
        ("IndentationError", Some(2))
    );
    assert!(error.traceback.contains("!true"), "{error:#?}");
    let error = failed("a = b ?").await;
    assert_eq!(error.name, "SyntaxError");
    let error = failed("%nonsense at all").await;
    assert_eq!(
        (error.type_name.as_str(), error.line),
        ("UsageError", Some(1))
    );
    assert!(
        error
            .value
            .starts_with("magic `%nonsense` is not available"),
        "{error:#?}"
    );
    let error = failed("%%nonsense\nat all").await;
    assert!(error.value.contains("%%writefile"), "{error:#?}");
}

#[tokio::test]
async fn line_magics() {
    let session = session().await;
    let code = "%env GREETING=hello you\n%env OTHER 1\n!echo $GREETING $OTHER\n%env GREETING";
    let outcome = good(&session, code).await;
    assert_eq!(
        outcome.stdout.text,
        "env: GREETING=hello you\nenv: OTHER=1\nhello you 1\n"
    );
    assert_eq!(outcome.displays[0].text(), Some("'hello you'"));
    let outcome = good(&session, "%time y = sum(range(1000))\n%time y + 1").await;
    assert_eq!(outcome.stdout.text.matches("Wall time: ").count(), 2);
    assert_eq!(outcome.displays[0].text(), Some("499501"));
    let outcome = good(&session, "result = %timeit -n 2 -r 3 -o y + 1\nresult.loops, result.repeat, result.best <= result.worst").await;
    let text = &outcome.stdout.text;
    assert!(
        text.ends_with(" per loop (mean ± std. dev. of 3 runs, 2 loops each)\n"),
        "{text}"
    );
    assert_eq!(outcome.displays[0].text(), Some("(2, 3, True)"));
    let code = "%matplotlib inline\n%load_ext autoreload\n%autoreload 2\n%config InlineBackend.figure_format = 'retina'";
    let outcome = good(&session, code).await;
    assert_eq!(
        (outcome.transcript.as_str(), outcome.displays.len()),
        ("", 0)
    );
    let code = "open('job.py', 'w').write('import sys\\nmade = sys.argv[1:]\\nprint(__name__)')\n%run job.py a b\nprint(made)";
    assert_eq!(printed(&session, code).await, "__main__\n['a', 'b']\n");
    good(&session, "del made, result, y, sys\nn = 1\ntext = 'a'").await;
    assert_eq!(printed(&session, "%who").await, "n\t text\t \n");
    assert_eq!(printed(&session, "%who int").await, "n\t \n");
    let table = "Variable   Type    Data/Info\n----------------------------\nn          int     1\ntext       str     a\n";
    assert_eq!(printed(&session, "%whos").await, table);
    let text = printed(
        &session,
        "def f(x, y=1):\n    'Adds.'\n    return x + y\nf?\n?n\nmissing?\nf??",
    )
    .await;
    for part in [
        "Signature: f(x, y=1)\n",
        "Docstring:\nAdds.\n",
        "Value:     1\n",
        "Object `missing` not found.\n",
        "Source:\ndef f(x, y=1):\n    'Adds.'\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test]
async fn cell_magics() {
    let session = session().await;
    let outcome = good(
        &session,
        "%%bash\nname=you\necho \"hello $name\" '{x}'\necho oops >&2",
    )
    .await;
    assert_eq!(outcome.stdout.text, "hello you {x}\n");
    assert_eq!(outcome.stderr.text, "oops\n");
    let outcome = session.run("%%sh\nexit 4").await.unwrap();
    assert_eq!(outcome.exception.unwrap().name, "CalledProcessError");
    let out = printed(&session, "%%writefile notes.txt\nfirst ü\n  second").await;
    assert_eq!(out, "Writing notes.txt\n");
    let out = printed(&session, "%%writefile -a notes.txt\nthird").await;
    assert_eq!(out, "Appending to notes.txt\n");
    let text = session.get("notes.txt").unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "first ü\n  second\nthird\n"
    );
    let outcome = good(&session, "%%capture kept\nimport sys\nprint('out')\nprint('err', file=sys.stderr)\n!echo shell\ndisplay(1)\n2").await;
    assert_eq!(
        (outcome.transcript.as_str(), outcome.displays.len()),
        ("", 0)
    );
    let outcome = good(
        &session,
        "print([kept.stdout, kept.stderr, len(kept.outputs)])\nkept.show()",
    )
    .await;
    assert_eq!(
        outcome.stdout.text,
        "['out\\nshell\\n', 'err\\n', 2]\nout\nshell\n"
    );
    assert_eq!(outcome.displays.len(), 2);
    let outcome = good(&session, "%%time\nx = 20\nx + 1").await;
    assert!(outcome.stdout.text.contains("Wall time: "));
    assert_eq!(outcome.displays[0].text(), Some("21"));
    let out = printed(&session, "%%timeit -n 1 -r 1\nz = x\nz").await;
    assert!(out.contains("1 run, 1 loop each"), "{out}");
    let outcome = good(&session, "%%html\n<b>bold</b>").await;
    assert_eq!(
        outcome.displays[0].get("text/html").unwrap().data,
        b"<b>bold</b>\n"
    );
}

/// Packages are installed by the host before the cell, by its policy; what is there needs none.
#[tokio::test]
async fn pip_installs_by_policy() {
    let installs = |code: &str| Cell {
        installs: true,
        ..Cell::from(code)
    };
    let data = tempfile::tempdir().unwrap();
    let engine = plain_builder(bare_environment())
        .packages(Packages::Deny)
        .package_store(PackageStore::open(data.path()))
        .build();
    let session = engine.session().await.unwrap();
    let error = session.run(installs("%pip install humanize")).await;
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("`humanize` cannot be installed"),
        "{error}"
    );
    // Later in a cell, and in a cell without permission to install, the session says how.
    for code in [
        "x = 1\n%pip install humanize",
        "x = 1\n!pip install humanize",
    ] {
        let outcome = session.run(installs(code)).await.unwrap();
        let error = outcome.exception.unwrap();
        assert_eq!((error.name.as_str(), error.line), ("UsageError", Some(2)));
        assert!(
            error.value.contains("before the first statement"),
            "{error:?}"
        );
    }
    let session = data_session().await;
    let outcome = session
        .run(installs("!pip install -q pandas"))
        .await
        .unwrap();
    let text = &outcome.stdout.text;
    assert!(
        text.starts_with("Requirement already satisfied: pandas ("),
        "{outcome:#?}"
    );
}

#[tokio::test]
async fn libraries_find_a_notebook_shell() {
    let session = session().await;
    let code = r#"
shell = get_ipython()
print(type(shell).__name__, shell.__class__.__name__, "zmq" in str(type(shell)).lower(), shell is get_ipython())
print(shell.user_ns is globals(), shell.config, hasattr(shell, "kernel"))
shell.system("echo run")
print(shell.run_line_magic("who_ls", "int"), shell.getoutput("echo a; echo b"))
shell.run_cell("x = 5\n!echo {x}\nx")
shell.register_magic_function(lambda line: print("mine", line), "line", "greet")
shell.display_pub.publish({"text/plain": "shown"}, {"a": 1})
"#;
    let outcome = good(&session, code).await;
    let text =
        "ZMQInteractiveShell ZMQInteractiveShell True True\nTrue {} True\nrun\n[] ['a', 'b']\n5\n";
    assert_eq!(outcome.stdout.text, text);
    let shown: Vec<_> = outcome
        .displays
        .iter()
        .filter_map(|one| one.text())
        .collect();
    assert_eq!(shown, ["5", "shown"]);
    assert_eq!(printed(&session, "%greet {x} you").await, "mine 5 you\n");
    assert!(
        !session
            .manifest()
            .await
            .unwrap()
            .iter()
            .any(|one| one.name.contains("ipython"))
    );
}

#[tokio::test]
async fn names_are_inspected_without_running_properties() {
    let session = session().await;
    good(&session, "class C:\n    'A class.'\n    @property\n    def p(self): open('ran', 'w')\n    def m(self, a): 'A method.'\nc = C()\ndef f(first, second=2): 'A function.'").await;
    let ask = async |session: &Session, code: &str, detail| {
        session.inspect(code, code.len(), detail).await.unwrap()
    };
    let brief = InspectDetail::Documentation;
    let text = ask(&session, "x = f", brief).await.unwrap();
    assert!(
        text.starts_with("Signature: f(first, second=2)\n"),
        "{text}"
    );
    assert!(text.ends_with("Docstring:\nA function."), "{text}");
    // In the arguments of a call, the function.
    let text = ask(&session, "f(1, ", brief).await.unwrap();
    assert!(text.starts_with("Signature: f(first"), "{text}");
    let text = ask(&session, "c.m", InspectDetail::Source).await.unwrap();
    assert!(
        text.contains("Source:\n    def m(self, a): 'A method.'"),
        "{text}"
    );
    assert_eq!(ask(&session, "c.p", brief).await, None);
    assert_eq!(ask(&session, "nothing", brief).await, None);
    assert_eq!(ask(&session, "", brief).await, None);
    assert_eq!(ask(&session, "1 + (", brief).await, None);
    assert!(session.inspect("f", 99, brief).await.unwrap().is_some());
    assert!(session.get("ran").is_err());
    // A class that doesn't want to be looked at costs its own answer.
    good(&session, "class Bad:\n    @property\n    def __doc__(self): raise SystemExit\n    def __repr__(self): raise KeyError\n    @property\n    def __signature__(self):\n        while True: pass\n    def __call__(self): pass\nbad = Bad()").await;
    assert_eq!(ask(&session, "bad", brief).await, None);
    good(&session, "x = 1").await;
}

#[tokio::test]
async fn a_cell_is_whole_or_needs_more_lines() {
    let session = session().await;
    let more = |indent: &str| Completeness::Incomplete {
        indent: indent.into(),
    };
    for (code, expected) in [
        ("x = 1", Completeness::Complete),
        ("", Completeness::Complete),
        ("await f()", Completeness::Complete),
        ("for i in x:", more("    ")),
        ("for i in x:\n    y", more("    ")),
        ("for i in x:\n    y\n", Completeness::Complete),
        ("f(1,", more("")),
        ("'''a", more("")),
        ("x = = 1", Completeness::Invalid),
        ("x = 1\0", Completeness::Invalid),
        ("!ls (", Completeness::Complete),
        ("x = !ls '", Completeness::Complete),
        ("if x:\n    !ls", more("    ")),
        ("%%bash", more("")),
        ("%%bash\nls", more("")),
        ("%%bash\nls\n", Completeness::Complete),
    ] {
        assert_eq!(
            session.is_complete(code).await.unwrap(),
            expected,
            "{code:?}"
        );
    }
}

/// Exceptions have the name that their class has, and a value as long as was asked for.
#[tokio::test]
async fn exceptions_have_a_name_and_a_long_value_on_request() {
    let session = session().await;
    let code = "class Outer:\n    class FinalAnswer(Exception): pass\nraise Outer.FinalAnswer('é' * 500_000)";
    let error = session.run(code).await.unwrap().exception.unwrap();
    assert_eq!(
        (error.type_name.as_str(), error.name.as_str()),
        ("Outer.FinalAnswer", "FinalAnswer")
    );
    assert!(error.value.chars().count() < 20_000);
    let long = Cell {
        exception_characters: Some(usize::MAX),
        ..Cell::from(code)
    };
    let error = session.run(long).await.unwrap().exception.unwrap();
    assert_eq!(error.value, "é".repeat(500_000));
    // Only for the cell that asked.
    let error = session.run(code).await.unwrap().exception.unwrap();
    assert!(error.value.chars().count() < 20_000);
}

/// A session that hibernates, forks or restores has its shell.
#[tokio::test]
async fn a_fork_has_the_notation_too() {
    let session = engine().session().await.unwrap();
    good(&session, "x = 'here'\nlines = !echo a").await;
    let fork = session.fork(1).await.unwrap().remove(0);
    let outcome = good(&fork, "!echo {x} {lines}\n%who_ls").await;
    assert_eq!(outcome.stdout.text, "here [a]\n");
    assert_eq!(outcome.displays[0].text(), Some("['lines', 'x']"));
}

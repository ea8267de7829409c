//! `belljar repl` with a pipe.

use crate::support::{BELLJAR, Scratch, bare};

#[test]
fn repl_keeps_state_between_cells_of_a_pipe() {
    let input = "x = 20\ndef double(n):\n    return 2 * n\n\ndouble(x) + 2\nprint('x is', x)\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    ended.exits_with(0).prints("42\nx is 20\n").says_nothing();
}

#[test]
fn repl_exits_with_how_the_last_cell_ended() {
    let scratch = Scratch::new();
    let repl = ["repl", "--env", bare()];
    let ended = scratch.feed("1 / 0\n'went on'\n", &repl).exits_with(0);
    ended.prints("'went on'\n").says("ZeroDivisionError");
    let ended = scratch.feed("'good'\n1 / 0\n", &repl).exits_with(1);
    ended.prints("'good'\n").says("File \"<cell 2>\", line 1");
    scratch
        .feed("", &repl)
        .exits_with(0)
        .prints("")
        .says_nothing();
}

#[test]
fn repl_has_commands() {
    let scratch = Scratch::new();
    scratch.write("in.txt", "hello");
    let input = "/help\n\
        number = 5\n\
        /vars\n\
        /put in.txt renamed.txt\n\
        open('renamed.txt').read()\n\
        /files\n\
        /get renamed.txt back.txt\n\
        /reset\n\
        'number' in globals()\n\
        /quit\n\
        print('not reached')\n";
    let ended = scratch
        .feed(input, &["repl", "--env", bare()])
        .exits_with(0);
    for command in [
        "/help",
        "/vars",
        "/files",
        "/put PATH",
        "/get NAME",
        "/reset",
        "/quit",
    ] {
        assert!(ended.stdout.contains(command), "{command}: {ended:#?}");
    }
    let row = |line: &&str| line.starts_with("number ") && line.contains(" int ");
    assert!(ended.stdout.lines().any(|line| row(&line)), "{ended:#?}");
    for part in ["'hello'\n", "renamed.txt\n", "False\n"] {
        assert!(ended.stdout.contains(part), "{part}: {ended:#?}");
    }
    assert!(!ended.stdout.contains("not reached"), "{ended:#?}");
    assert_eq!(scratch.read("back.txt"), "hello");
    ended.says("variables and files of the old one are gone");
}

#[test]
fn repl_says_which_commands_there_are() {
    let input = "/nothing\n/put\n/get gone.txt\n'went on'\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0).prints("'went on'\n");
    let ended = ended.says("no such command: `/nothing`\nhint: commands: /help, ");
    let ended = ended.says("usage: `/put PATH [NAME]`");
    ended.says("`gone.txt` does not exist");
}

#[test]
fn repl_speaks_the_language_of_the_settings() {
    let scratch = Scratch::new();
    let input = "/help\n/vars\n/nothing\n/reset\nimport os; os._exit(3)\n";
    let chinese = ["--language", "zh", "repl", "--env", bare()];
    let ended = scratch.feed(input, &chinese).exits_with(1);
    assert!(ended.stdout.contains("列出变量"), "{ended:#?}");
    let ended = ended.says("[还没有变量]").says("没有命令 `/nothing`");
    let ended = ended.says("[新会话：").says("进程以退出码 3 结束");
    ended.says("[会话已丢失；这是新会话");
    scratch.write("config.toml", "language = \"zh\"\n");
    let mut command = scratch.prepare(BELLJAR);
    command
        .env("BELLJAR_CONFIG", scratch.path("config.toml"))
        .args(["exec", "--env", bare(), "import os; os._exit(3)"]);
    let ended = scratch.finish(command.spawn().unwrap()).exits_with(3);
    ended.says("进程以退出码 3 结束");
}

#[test]
fn repl_goes_on_in_a_new_session_after_a_crash() {
    // In its first cell, after which nothing is kept yet.
    let input = "x = 1; import ctypes; ctypes.string_at(0)\n'x' in globals()\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0).prints("False\n").says("SIGSEGV");
    ended.says("session lost; this is a new one");
}

#[test]
fn repl_outlives_a_crash_and_goes_back() {
    let input = "x = 1\n\
        import ctypes; ctypes.string_at(0)\n\
        x\n\
        x = 2\n\
        /checkpoint 'my two'\n\
        /checkpoints\n\
        /restore 1\n\
        x\n\
        /restore 'my two'\n\
        x\n\
        /restore 99\n\
        /restore soon\n\
        /checkpoint 7\n\
        /checkpoint\n";
    let ended = Scratch::new().feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0);
    // What each copy holds in memory is not the same every time.
    let without_memory = |line: &str| {
        let words: Vec<&str> = line.split("  ").map(str::trim).collect();
        let rest = words
            .iter()
            .filter(|word| !word.is_empty() && !word.ends_with('B'));
        rest.copied().collect::<Vec<_>>().join("|")
    };
    let lines: Vec<String> = ended.stdout.lines().map(without_memory).collect();
    let table = ["cell|name|memory", "1", "3", "4", "4|my two"];
    assert_eq!(lines[0], "1");
    assert_eq!(lines[1..6], table);
    assert_eq!(lines[6..], ["1", "2"]);
    let ended = ended
        .says("SIGSEGV")
        .says("no such checkpoint: cell 99")
        .says("no such checkpoint: `soon`")
        .says("a number means a cell");
    ended.says("usage: `/checkpoint NAME`");
}

#[test]
fn repl_goes_on_in_a_fork_and_back() {
    let scratch = Scratch::new();
    scratch.write("in.txt", "hello");
    let input = "/back\n\
        x = 1\n\
        /fork\n\
        x += 1\n\
        /fork\n\
        x += 1\n\
        x\n\
        no_such_name\n\
        /back\n\
        /put in.txt\n\
        x, open('in.txt').read()\n\
        /get /forks/1/workspace/in.txt out.txt\n\
        /back\n\
        x, __import__('os').listdir()\n\
        1 / 0\n\
        /back\n";
    let ended = scratch.feed(input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(1).prints("3\n(2, 'hello')\n(1, [])\n");
    // The numbers go on from each session's own.
    let ended = ended.says("File \"<cell 5>\"").says("File \"<cell 3>\"");
    let ended = ended.says("[/forks/1/workspace/in.txt: 5 B]");
    assert_eq!(ended.stderr.matches("[in a fork").count(), 2, "{ended:#?}");
    let back = "[back in the session before /fork]";
    assert_eq!(ended.stderr.matches(back).count(), 2, "{ended:#?}");
    let none = "cannot go back: there was no `/fork`";
    assert_eq!(ended.stderr.matches(none).count(), 2, "{ended:#?}");
    assert_eq!(scratch.read("out.txt"), "hello");
}

#[test]
fn repl_returns_from_a_fork_that_is_lost() {
    // A fork reaches its own copies, and not its parent.
    let end = "import os; os.kill(-1, 9); os._exit(9)";
    let input =
        format!("x = 1\n/fork\nx = 2\n{end}\nx\nno_such_name\n/back\n{end}\n'x' in globals()\n");
    let ended = Scratch::new().feed(&input, &["repl", "--env", bare()]);
    let ended = ended.exits_with(0).prints("1\nFalse\n");
    let ended = ended
        .says("[session lost; back in the session before /fork]")
        .says("File \"<cell 3>\"")
        .says("cannot go back: there was no `/fork`");
    ended.says("[session lost; this is a new one: variables and files are gone]");
}

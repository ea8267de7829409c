//! The reference: a Python that executes lines from a pipe, and nothing else.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const CODE: &str = "import sys\nscope = {}\nfor line in sys.stdin:\n    exec(line, scope)\n    \
                    sys.stdout.write('done\\n')\n    sys.stdout.flush()\n";

pub(crate) struct Pipe {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Pipe {
    pub(crate) fn new() -> Self {
        let mut child = Command::new("python3")
            .args(["-c", CODE])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    pub(crate) fn round_trip(&mut self, code: &str) -> Duration {
        let started = Instant::now();
        self.input.write_all(code.as_bytes()).unwrap();
        self.input.write_all(b"\n").unwrap();
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        started.elapsed()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

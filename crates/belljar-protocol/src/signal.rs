//! Names of signals, so that an outcome says `SIGSEGV` and not 11.

/// The name of a signal of Linux on x86-64 and `AArch64`.
pub fn signal_name(number: i32) -> String {
    let name = match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        10 => "SIGUSR1",
        11 => "SIGSEGV",
        12 => "SIGUSR2",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        17 => "SIGCHLD",
        18 => "SIGCONT",
        19 => "SIGSTOP",
        20 => "SIGTSTP",
        21 => "SIGTTIN",
        22 => "SIGTTOU",
        23 => "SIGURG",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        26 => "SIGVTALRM",
        27 => "SIGPROF",
        28 => "SIGWINCH",
        29 => "SIGIO",
        30 => "SIGPWR",
        31 => "SIGSYS",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

/// The number of the signal with this name, such as `SIGINT`.
pub fn signal_number(name: &str) -> Option<i32> {
    let named = |number: &i32| name.starts_with("SIG") && signal_name(*number) == name;
    (1..=31).find(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_same_signals() {
        assert_eq!(signal_number("SIGINT"), Some(2));
        assert_eq!(signal_number("SIGSYS"), Some(31));
        for name in ["", "INT", "sigint", "SIGNONE", "signal 16"] {
            assert_eq!(signal_number(name), None, "{name}");
        }
        for number in 1..=31 {
            let known = signal_number(&signal_name(number));
            assert_eq!(known, (number != 16).then_some(number), "{number}");
        }
    }
}

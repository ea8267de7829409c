//! Whether a process behind the walls still answers.
//!
//! Lateness is counted in ticks of this process's own timer, and a tick that comes late counts once:
//! where the host itself was stopped or starved, nobody is late for it.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

/// How long a tick is.
const TICK: Duration = Duration::from_secs(1);

/// Ticks of silence after which an idle process is pinged.
const IDLE: u32 = 5;

/// Ticks within which a template must send anything at all after a ping. An answer takes
/// milliseconds.
pub(crate) const TEMPLATE_TICKS: u32 = 5;

/// The same for a spawner, which more depends on.
pub(crate) const SPAWNER_TICKS: u32 = 10;

/// Liveness of a process that must answer.
#[derive(Debug)]
pub(crate) struct Pulse {
    late: u32,
    silent: u32,
    asked: bool,
}

/// What to do at a tick.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Beat {
    Nothing,
    /// Ping it.
    Ask,
    /// It did not answer in time.
    Late,
}

impl Pulse {
    pub(crate) fn ticks() -> Interval {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    /// Of a process that is late after so many ticks.
    pub(crate) fn new(late: u32) -> Self {
        Self {
            late,
            silent: 0,
            asked: false,
        }
    }

    /// It said something.
    pub(crate) fn heard(&mut self) {
        *self = Self::new(self.late);
    }

    /// A tick has passed. `awaited`: somebody waits for an answer.
    pub(crate) fn tick(&mut self, awaited: bool) -> Beat {
        if !awaited && !self.asked && self.silent < IDLE {
            self.silent += 1;
            return Beat::Nothing;
        }
        if !self.asked {
            (self.silent, self.asked) = (0, true);
            return Beat::Ask;
        }
        self.silent += 1;
        if self.silent >= self.late {
            return Beat::Late;
        }
        Beat::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks_until(pulse: &mut Pulse, awaited: bool, beat: &Beat) -> u32 {
        (1..100).find(|_| pulse.tick(awaited) == *beat).unwrap()
    }

    #[test]
    fn one_that_is_waited_for_is_asked_at_once_and_late_soon() {
        let mut pulse = Pulse::new(TEMPLATE_TICKS);
        assert_eq!(ticks_until(&mut pulse, true, &Beat::Ask), 1);
        assert_eq!(ticks_until(&mut pulse, true, &Beat::Late), TEMPLATE_TICKS);
    }

    #[test]
    fn an_idle_one_is_asked_now_and_then() {
        let mut pulse = Pulse::new(TEMPLATE_TICKS);
        assert_eq!(ticks_until(&mut pulse, false, &Beat::Ask), IDLE + 1);
        assert_eq!(ticks_until(&mut pulse, false, &Beat::Late), TEMPLATE_TICKS);
    }

    #[test]
    fn any_word_is_an_answer() {
        let mut pulse = Pulse::new(TEMPLATE_TICKS);
        for _ in 0..100 {
            assert_ne!(pulse.tick(true), Beat::Late);
            assert_ne!(pulse.tick(true), Beat::Late);
            pulse.heard();
        }
    }
}

//! What the service keeps of the commands of a session.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use belljar_sandbox::CommandProcess;
use tokio::sync::watch;

use super::view::CommandView;
use crate::lock::lock;

/// Lost commands of a session that are kept.
const MAX_LOST: usize = 32;

/// The book of one session.
#[derive(Debug, Default)]
pub(crate) struct CommandBook {
    /// Running commands, and ended ones until their end is recorded.
    running: Mutex<Vec<Arc<CommandProcess>>>,
    /// Lost commands, oldest first, without output: the engine forgets them with their processes.
    lost: Mutex<VecDeque<CommandView>>,
    used: Mutex<SessionCpu>,
    /// How many commands run that a client waits for.
    foreground: watch::Sender<usize>,
}

/// CPU time of a session. The kernel counts it for the session as a whole: cells and commands together.
#[derive(Debug, Default)]
struct SessionCpu {
    /// How much there was when it was last charged.
    charged: Duration,
    /// What was charged for cells since then.
    cells: Duration,
}

impl CommandBook {
    /// A command has started. Before it, its session had used so much CPU time.
    pub(crate) fn started(&self, process: &Arc<CommandProcess>, cpu: Duration) {
        let mut running = lock(&self.running);
        if running.is_empty() {
            lock(&self.used).begin(cpu);
        }
        running.push(Arc::clone(process));
    }

    /// A command has ended. A lost one is kept.
    pub(crate) fn ended(&self, process: &Arc<CommandProcess>, lost: Option<CommandView>) {
        if let Some(lost) = lost {
            self.keep_lost(lost);
        }
        lock(&self.running).retain(|one| !Arc::ptr_eq(one, process));
    }

    pub(crate) fn running(&self) -> Vec<Arc<CommandProcess>> {
        lock(&self.running).clone()
    }

    /// A cell was charged.
    pub(crate) fn cell_charged(&self, cpu: Duration) {
        lock(&self.used).cells += cpu;
    }

    /// What is to be charged for commands, after so much CPU time of their session. The part of a cell
    /// that is still running is included, since nobody can tell the two apart.
    pub(crate) fn charge(&self, cpu: Duration) -> Duration {
        lock(&self.used).charge(cpu)
    }

    /// Counts a command that a client waits for, until the guard is dropped.
    pub(crate) fn foreground(&self) -> Foreground<'_> {
        self.foreground.send_modify(|count| *count += 1);
        Foreground(&self.foreground)
    }

    /// Waits until there is no command that a client waits for.
    pub(crate) async fn foreground_ended(&self) {
        let mut count = self.foreground.subscribe();
        // The sender is a part of this.
        let _ = count.wait_for(|count| *count == 0).await;
    }

    fn keep_lost(&self, view: CommandView) {
        let mut lost = lock(&self.lost);
        lost.retain(|one| one.pid != view.pid);
        lost.push_back(view);
        if lost.len() > MAX_LOST {
            lost.pop_front();
        }
    }

    pub(crate) fn lost(&self) -> Vec<CommandView> {
        lock(&self.lost).iter().cloned().collect()
    }
}

impl SessionCpu {
    fn begin(&mut self, cpu: Duration) {
        (self.charged, self.cells) = (cpu, Duration::ZERO);
    }

    fn charge(&mut self, cpu: Duration) -> Duration {
        let new = cpu.saturating_sub(self.charged);
        let commands = new.saturating_sub(self.cells);
        self.begin(cpu);
        commands
    }
}

/// A command that a client waits for.
#[derive(Debug)]
pub(crate) struct Foreground<'a>(&'a watch::Sender<usize>);

impl Drop for Foreground<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_commands_are_charged_once() {
        let seconds = Duration::from_secs;
        let mut used = SessionCpu::default();
        // Before the first command, cells are charged by themselves.
        used.cells += seconds(5);
        used.begin(seconds(5));
        assert_eq!(used.charge(seconds(8)), seconds(3));
        used.cells += seconds(2);
        assert_eq!(used.charge(seconds(12)), seconds(2));
        assert_eq!(used.charge(seconds(12)), seconds(0));
        // A session that woke counts from zero.
        assert_eq!(used.charge(seconds(1)), seconds(0));
        assert_eq!(used.charge(seconds(2)), seconds(1));
    }
}

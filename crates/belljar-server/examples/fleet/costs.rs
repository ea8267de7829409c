//! What the simulated machines are, and what things cost on them. docs/scale.md says where each figure is from.

use crate::clock::{MILLISECOND, SECOND, Time};

// A node: the machine of docs/performance.md.
pub(crate) const CPUS: usize = 2;
pub(crate) const MEMORY: u64 = 24 << 30;
/// Of the system, the service and the template.
pub(crate) const MEMORY_IN_USE: u64 = 2 << 30;
/// Of a live session with pandas.
pub(crate) const SESSION_MEMORY: u64 = 10_400_000;

// CPU time. Together they are what two CPUs can do 174 times a second: `creates_per_second` is 168 and 181.
pub(crate) const START: Time = 7 * MILLISECOND;
pub(crate) const FIRST_CELL: Time = 2 * MILLISECOND;
pub(crate) const END: Time = 2_500;
/// With its checkpoint.
pub(crate) const CELL: Time = 4 * MILLISECOND;
pub(crate) const CELL_INTERVAL: Time = 10 * SECOND;

/// Statements that PostgreSQL carries out at once. With appends of 1.56 ms, these are 2,560 a second: 2,000 to 3,000 were
/// measured.
pub(crate) const DATABASE_AT_ONCE: usize = 4;
/// The append of one event by the owner of a run. A claim of runs, a run that is given up and a declaration of death
/// commit, too.
pub(crate) const APPEND: Time = 1_560;
/// A bare insert, which commits as well.
pub(crate) const BEAT: Time = 1_320;
/// For each row that a beat or a look at the offers reads. Not measured.
pub(crate) const ROW: Time = 1;
/// A look by an index: the time of a page of seven events.
pub(crate) const LOOK: Time = 20;
/// A claim that finds nothing: runs of dead nodes, lost ones, and ready ones.
pub(crate) const EMPTY_CLAIM: Time = 280;

/// How often a run writes an event.
pub(crate) const EVENT_INTERVAL: Time = 2 * SECOND;
/// How long a session lives, on average.
pub(crate) const SESSION_LIFE: Time = 300 * SECOND;
/// A request between nodes. Not measured.
pub(crate) const HOP: Time = MILLISECOND;
/// How long a node that looked up a key believes it.
pub(crate) const KEY_BELIEVED: Time = SECOND;
/// After which the load balancer leaves a dead node out: three misses of a check each two seconds.
pub(crate) const BALANCER: Time = 6 * SECOND;
/// In which clients whose sessions are lost ask for others: their connections break at once.
pub(crate) const HERD: Time = SECOND;

// The clients of both SDKs: how often they repeat a request, and the first and the longest pause before it. A pause is
// lengthened by up to a half, and is at least `Retry-After`.
pub(crate) const RETRIES: u32 = 4;
pub(crate) const FIRST_PAUSE: Time = 250 * MILLISECOND;
pub(crate) const LONGEST_PAUSE: Time = 8 * SECOND;
/// `Retry-After` of a node that can't reach the database.
pub(crate) const FAULT_RETRY: u32 = 5;

//! Where the interpreters of sessions come from, and how the host reaches them.
//!
//! [`warm`] is the one backend: processes behind walls, forked from a template. With `--walls none`
//! the same backend starts ordinary processes; [`Capabilities`](crate::Capabilities) says what they
//! lack. Another backend needs a second way of doing four things:
//!
//! | what | where |
//! |---|---|
//! | who starts sessions | [`supervisor`] holds the running backend; [`starting`] returns a [`Started`](starting::Started) session |
//! | a process | `belljar_walls::Process`, and [`process`]: interrupt, kill, wake, has it ended |
//! | the meter | [`meter`]: use of resources, and all processes of a session |
//! | the files | [`workspace`]: read, list, delete, write |
//!
//! What is above (`session`, `state`) uses these and the pipes of a session, and no cgroup or
//! namespace. Only forks still do: they share the namespaces of their parent ([`namespace_group`]).

pub(crate) mod cgroups;
pub(crate) mod channel;
mod cleanup;
mod directory;
pub(crate) mod host_memory;
pub(crate) mod meter;
pub(crate) mod namespace_group;
pub(crate) mod pipes;
pub(crate) mod process;
mod pulse;
pub(crate) mod rootfs;
pub(crate) mod spec;
pub(crate) mod starting;
pub(crate) mod supervisor;
mod template;
mod templates;
pub(crate) mod waits;
pub(crate) mod warm;
pub(crate) mod workspace;

//! Where the interpreters of sessions come from, and how the host reaches them.
//!
//! There are two kinds, and four things that each does in its own way, as the variants of an enum: the set is closed, and
//! both ways can be read beside each other.
//!
//! | what | where | behind walls | in a container |
//! |---|---|---|---|
//! | who starts sessions | [`running`] | [`warm`] forks a template | [`container`] asks Docker or Podman |
//! | a process | [`process`] | a descriptor | an id, told to the steward |
//! | the meter | [`meter`] | a cgroup | what the steward counts |
//! | the files | [`workspace`] | a directory, and a process that writes | the steward's file helper |
//!
//! With `--walls none` [`warm`] starts ordinary processes. [`Capabilities`](crate::Capabilities) says what each lacks.
//! What is above (`session`, `state`) uses these and the pipes of a session, and no cgroup or
//! namespace. Only forks still do: they share the namespaces of their parent ([`namespace_group`]).

pub(crate) mod cgroups;
pub(crate) mod channel;
mod cleanup;
pub(crate) mod container;
mod directory;
pub(crate) mod host_memory;
pub(crate) mod meter;
pub(crate) mod namespace_group;
pub(crate) mod pipes;
pub(crate) mod process;
mod pulse;
pub(crate) mod rootfs;
pub(crate) mod running;
mod sandbox;
pub(crate) mod spec;
pub(crate) mod starting;
pub(crate) mod supervisor;
pub(crate) mod template;
mod templates;
pub(crate) mod waits;
pub(crate) mod warm;
pub(crate) mod watched;
pub(crate) mod workspace;

//! Sessions as Jupyter kernels ([protocol 5.4](https://jupyter-client.readthedocs.io/en/stable/messaging.html)).
//!
//! A [`Kernel`] takes [`Request`]s and returns [`Outgoing`] messages over channels; it knows no transport. Its session
//! survives crashes from checkpoints, and is replaced if it is lost. [`serve`] is the transport of a kernel that a
//! client starts with a [connection file](ConnectionFile): `ZeroMQ` over TCP or local sockets, by the module `zmtp`.
//!
//! Whoever can connect is not trusted before a message has a valid signature: what it sends is bounded, and no length
//! is believed.

mod connection;
mod content;
mod execute;
mod history;
mod kernel;
mod message;
mod outputs;
mod peers;
mod position;
mod serve;
mod shell;
mod sockets;
mod zmtp;

pub use connection::{ConnectionError, ConnectionFile};
pub use kernel::{Kernel, KernelOptions, Outgoing, Request, Requests, Route};
pub use message::{Key, Message, MessageError, Object};
pub use serve::{ServeError, serve};
pub use zmtp::{Decoder, Item, ZmtpError, encode_message};

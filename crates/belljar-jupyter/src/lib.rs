//! Sessions as Jupyter kernels ([protocol 5.4](https://jupyter-client.readthedocs.io/en/stable/messaging.html)).
//!
//! A [`Kernel`] takes [`Request`]s and returns [`Outgoing`] messages over channels; it knows no transport. Its session
//! comes from a [`Host`], survives crashes from checkpoints, and is replaced if it is lost. [`serve`] is the transport of
//! a kernel that a client starts with a [connection file](ConnectionFile): `ZeroMQ` over TCP or local sockets, by the
//! module `zmtp`. A server of kernels has other frames, by [`encode_v1`] and its neighbours.
//!
//! Whoever can connect is not trusted before a message has a valid signature: what it sends is bounded, and no length
//! is believed.

mod connection;
mod content;
mod engine_host;
mod execute;
mod history;
mod host;
mod kernel;
mod message;
mod outputs;
mod peers;
mod position;
mod serve;
mod shell;
mod sockets;
mod websocket;
mod zmtp;

pub use connection::{ConnectionError, ConnectionFile};
pub use engine_host::EngineHost;
pub use host::{CellEvents, Host, HostError};
pub use kernel::{Kernel, KernelEnd, KernelOptions, Outgoing, Request, Requests, Route};
pub use message::{Key, Message, MessageError, Object, status_message};
pub use serve::{ServeError, serve};
pub use websocket::{
    Channel, V1, decode_json, decode_json_with_buffers, decode_v1, encode_v1, json_from_v1,
};
pub use zmtp::{Decoder, Item, ZmtpError, encode_message};

//! The plain types that travel on every wire of Belljar.
//!
//! Nothing here does I/O. Callers see [`Outcome`] and [`Event`]; the host and the guest exchange
//! [`HostFrame`] and [`GuestFrame`], framed by [`encode_frame`] and [`FrameDecoder`].

mod approval;
mod event;
mod frame;
mod guest;
mod manifest;
mod network;
mod outcome;
mod plain;
mod signal;
mod text;
mod tool;

pub use approval::{Shown, ShownPart, ShownRow, shown_line};
pub use event::{Event, Stream};
pub use frame::{FrameDecoder, FrameError, FrameLimits, RawFrame, encode_frame};
pub use guest::{
    Call, CallAnswer, CellEnd, CellReport, DisplayPart, ForkSetup, GuestFrame, GuestParameter,
    GuestTool, HostFrame, KeptCheckpoint, LoadedName, SavedName, SavedNames, WokenCheckpoint,
};
pub use manifest::{Artifact, ArtifactChange, Changes, NameInfo};
pub use network::{Denial, DeniedReason, Traffic};
pub use outcome::{
    Cause, Display, DisplayData, Durations, ExceptionInfo, Fate, Outcome, Output, Status, Walls,
};
pub use plain::{PlainStream, plain, visible};
pub use signal::signal_name;
pub use text::Language;
pub use tool::{CallDenial, CallId, ToolError, ToolResult, ToolStub, marker};

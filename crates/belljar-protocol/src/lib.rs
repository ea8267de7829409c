//! The plain types that travel on every wire of Belljar.
//!
//! Nothing here does I/O. Callers see [`Outcome`] and [`Event`]; the host and the guest exchange
//! [`HostFrame`] and [`GuestFrame`], framed by [`encode_frame`] and [`FrameDecoder`].

mod approval;
mod cut;
mod event;
mod frame;
mod guest;
mod manifest;
mod mime;
mod network;
mod outcome;
mod plain;
mod signal;
mod steward;
mod table;
mod text;
pub mod texts;
mod tool;

pub use approval::{Shown, ShownPart, ShownRow, shown_line};
pub use cut::bytes_left_out;
pub use event::{Event, Stream};
pub use frame::{FrameDecoder, FrameError, FrameLimits, RawFrame, encode_frame, encode_head};
pub use guest::{
    Call, CallAnswer, CellEnd, CellReport, Completeness, DisplayPart, ForkSetup, GuestDisplay,
    GuestFrame, GuestNamespace, GuestParameter, GuestTool, GuestVariables, HostFrame,
    InspectDetail, KeptCheckpoint, LoadedName, Question, SavedName, SavedNames, TableProblem,
    WokenCheckpoint,
};
pub use manifest::{Artifact, ArtifactChange, Changes, NameInfo};
pub use mime::{MIME_TYPES, MimeType, MimeView, TABLE_MIME};
pub use network::{Denial, DeniedReason, Traffic};
pub use outcome::{
    Cause, Display, DisplayData, Durations, ExceptionInfo, Fate, Outcome, Output, Remedy,
    RemedyOption, SetBy, Status, Walls,
};
pub use plain::{PlainStream, plain, redrawn, unfinished, visible};
pub use signal::{signal_name, signal_number};
pub use steward::{
    Attest, AttestedLimits, AttestedMount, Counts, FileAnswer, FileKind, FileRequest, FromSteward,
    STEWARD_LIMITS, STEWARD_VERSION, STEWARD_WINDOW, StewardLimits, StewardSignal, ToSteward,
};
pub use table::{
    ColumnStatistics, TableColumn, TableFilter, TableOperator, TableRequest, TableRows, TableSort,
    TableValue, TableView,
};
pub use texts::Language;
pub use tool::{CallDenial, CallId, ToolError, ToolResult, ToolStub, marker};

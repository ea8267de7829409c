//! The log: what went wrong inside, and what the service did, on standard error.

use std::fmt;
use std::io::IsTerminal as _;

use anyhow::bail;
use belljar_agent::{CONTENT_TARGET, METRIC_TARGET};
use opentelemetry::trace::{SpanContext, TraceContextExt as _};
use tracing::{Event, Metadata, Subscriber};
use tracing_opentelemetry::get_otel_context;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::{Format, Json, JsonFields, Writer, debug_fn};
use tracing_subscriber::fmt::{FmtContext, FormatEvent};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use crate::telemetry::{BoxedLayer, Telemetry};

/// How lines of the log are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    /// One JSON object a line.
    Json,
}

impl LogFormat {
    /// What `BELLJAR_LOG_FORMAT` says.
    pub(crate) fn of_environment() -> anyhow::Result<Self> {
        match std::env::var("BELLJAR_LOG_FORMAT").as_deref() {
            Err(std::env::VarError::NotPresent) | Ok("" | "text") => Ok(Self::Text),
            Ok("json") => Ok(Self::Json),
            _ => bail!("`BELLJAR_LOG_FORMAT` must be `text` or `json`"),
        }
    }

    /// Begins the log, and traces and metrics where they are wanted.
    pub(crate) fn start(self, telemetry: &Telemetry) {
        let filter =
            EnvFilter::try_from_env("BELLJAR_LOG").unwrap_or_else(|_| EnvFilter::new("error"));
        let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
        let log: BoxedLayer = match self {
            Self::Text => {
                // What others wrote is in the fields, and stays within its line.
                let fields = debug_fn(|writer, field, value| {
                    if field.name() != "message" {
                        write!(writer, "{field}=")?;
                    }
                    for letter in format!("{value:?}").chars() {
                        if letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}') {
                            write!(writer, "{}", letter.escape_default())?;
                        } else {
                            writer.write_char(letter)?;
                        }
                    }
                    Ok(())
                });
                log.with_ansi(std::io::stderr().is_terminal())
                    .fmt_fields(fields.delimited(" "))
                    .with_filter(filter.and(filter_fn(is_logged)))
                    .boxed()
            }
            Self::Json => {
                // The start and the end of the service, which are notes to people otherwise.
                let notes = "belljar::serve_command=info".parse();
                let filter = notes.map_or(filter.clone(), |notes| filter.add_directive(notes));
                let format = tracing_subscriber::fmt::format()
                    .json()
                    .flatten_event(true)
                    .with_span_list(false);
                log.json()
                    .event_format(WithTrace(format))
                    .with_filter(filter.and(filter_fn(is_logged)))
                    .boxed()
            }
        };
        let mut layers = telemetry.layers();
        layers.push(log);
        tracing_subscriber::registry().with(layers).init();
    }
}

/// What people write is not for the log, nor are measurements. Of what is sent nowhere, `telemetry` tells.
fn is_logged(what: &Metadata<'_>) -> bool {
    match what.target() {
        CONTENT_TARGET | METRIC_TARGET => false,
        target if target.starts_with("opentelemetry") => what.name().contains("Dropp"),
        _ => true,
    }
}

/// Lines of JSON with the ids of the trace that they belong to.
struct WithTrace(Format<Json>);

impl<S> FormatEvent<S, JsonFields> for WithTrace
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // The one that is entered, also where the log has no spans.
        let span = tracing::dispatcher::get_default(|dispatch| {
            get_otel_context(dispatch.current_span().id()?, dispatch)
        });
        let span = span.map(|context| context.span().span_context().clone());
        let Some(span) = span.filter(SpanContext::is_valid) else {
            return self.0.format_event(context, writer, event);
        };
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        let rest = line.strip_prefix('{').ok_or(fmt::Error)?;
        let (trace, span) = (span.trace_id(), span.span_id());
        write!(
            writer,
            "{{\"trace_id\":\"{trace}\",\"span_id\":\"{span}\",{rest}"
        )
    }
}

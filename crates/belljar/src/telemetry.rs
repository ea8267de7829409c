//! Traces and metrics, sent by OTLP over HTTP where the standard variables say so; nothing is sent otherwise.
//!
//! Rooms below make `tracing` spans and events; what they are called by OpenTelemetry's conventions is here. What can't
//! be sent is given up: nobody waits for a collector.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use belljar_agent::{CONTENT_TARGET, METRIC_TARGET, http_client};
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _};
use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry::{Array, Key, KeyValue, StringValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter};
use tracing::field::{Field, Visit};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::{Layer, Registry};

/// How long a collector may take to accept a connection, and to answer.
const CONNECT: Duration = Duration::from_secs(2);
const ANSWER: Duration = Duration::from_secs(5);

/// How long the end of the program waits for what is still to be sent.
const FLUSH: Duration = Duration::from_secs(3);

pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Where traces and metrics go.
#[derive(Default)]
pub(crate) struct Telemetry {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    /// Whether traces have what models, code and tools say.
    has_content: bool,
}

impl Telemetry {
    /// What the variables of OpenTelemetry say.
    pub(crate) fn of_environment() -> anyhow::Result<Self> {
        if is_true("OTEL_SDK_DISABLED") {
            return Ok(Self::default());
        }
        let mut telemetry = Self {
            has_content: is_true("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"),
            ..Self::default()
        };
        if let Some(client) = Client::to("TRACES")? {
            let exporter = opentelemetry_otlp::SpanExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_http_client(client)
                .build()
                .context("cannot export traces")?;
            let provider = SdkTracerProvider::builder()
                .with_batch_exporter(Named(exporter))
                .with_resource(resource());
            telemetry.traces = Some(provider.build());
            opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
        }
        if let Some(client) = Client::to("METRICS")? {
            let exporter = opentelemetry_otlp::MetricExporter::builder()
                .with_http()
                .with_protocol(Protocol::HttpBinary)
                .with_http_client(client)
                .build()
                .context("cannot export metrics")?;
            let provider = SdkMeterProvider::builder()
                .with_periodic_exporter(exporter)
                .with_resource(resource());
            telemetry.metrics = Some(provider.build());
        }
        Ok(telemetry)
    }

    /// What listens for them.
    pub(crate) fn layers(&self) -> Vec<BoxedLayer> {
        let mut layers: Vec<BoxedLayer> = Vec::new();
        if let Some(traces) = &self.traces {
            let has_content = self.has_content;
            let layer = tracing_opentelemetry::layer()
                .with_tracer(traces.tracer("belljar"))
                .with_context_activation(false)
                .with_location(false)
                .with_target(false)
                .with_threads(false)
                .with_tracked_inactivity(false)
                .with_filter(filter_fn(move |what| is_traced(what, has_content)));
            layers.push(layer.boxed());
        }
        if let Some(metrics) = &self.metrics {
            let filter = filter_fn(|what| what.is_event() && what.target() == METRIC_TARGET);
            layers.push(Instruments::new(metrics).with_filter(filter).boxed());
        }
        layers
    }

    /// Sends what is left, for a while.
    pub(crate) fn end(self) {
        if self.traces.is_none() && self.metrics.is_none() {
            return;
        }
        let (ended, wait) = mpsc::channel();
        std::thread::spawn(move || {
            // Errors: it was said that nothing can be sent.
            if let Some(traces) = self.traces {
                let _ = traces.shutdown_with_timeout(FLUSH);
            }
            if let Some(metrics) = self.metrics {
                let _ = metrics.shutdown_with_timeout(FLUSH);
            }
            let _ = ended.send(());
        });
        let _ = wait.recv_timeout(FLUSH);
    }
}

fn is_true(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value.trim().eq_ignore_ascii_case("true"))
}

fn given(variable: &str) -> Option<String> {
    std::env::var(variable)
        .ok()
        .filter(|value| !value.is_empty())
}

fn resource() -> Resource {
    let mut resource = Resource::builder();
    let attributes = given("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    if given("OTEL_SERVICE_NAME").is_none() && !attributes.contains("service.name=") {
        resource = resource.with_service_name("belljar");
    }
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    resource.with_attribute(version).build()
}

/// Our spans; of events, those that are a part of a trace. The log has the others, and libraries have theirs.
fn is_traced(what: &Metadata<'_>, has_content: bool) -> bool {
    if *what.level() > Level::INFO {
        return false;
    }
    if what.is_span() {
        return what.target().starts_with("belljar");
    }
    (has_content && what.target() == CONTENT_TARGET) || what.name().starts_with("belljar.approval.")
}

/// Sends requests to a collector, from the threads of the exporters.
struct Client {
    http: reqwest::Client,
    runtime: tokio::runtime::Runtime,
    /// Requests in a row that failed.
    failures: AtomicU64,
    signal: &'static str,
}

impl Client {
    /// None where the signal is not to be sent.
    fn to(signal: &'static str) -> anyhow::Result<Option<Self>> {
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        let Some(url) = given(&own).or_else(|| given("OTEL_EXPORTER_OTLP_ENDPOINT")) else {
            return Ok(None);
        };
        let url = reqwest::Url::parse(&url);
        let url = url.context("the endpoint of the OpenTelemetry collector is not a valid URL")?;
        let http = http_client(reqwest::header::HeaderMap::default(), &url, CONNECT);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime of the OpenTelemetry exporter")?;
        Ok(Some(Self {
            http: http.map_err(|error| anyhow!(error))?,
            runtime,
            failures: AtomicU64::new(0),
            signal,
        }))
    }

    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let mut request = reqwest::Request::try_from(request)?;
        *request.timeout_mut() = Some(ANSWER);
        let answer = self.http.execute(request).await?;
        let status = answer.status();
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        // Its body is passed over: it may be of any size.
        *response.headers_mut() = answer.headers().clone();
        Ok(response)
    }

    /// Says once that nothing can be sent, and once that it can be again.
    fn note(&self, error: Option<&str>) {
        let signal = self.signal;
        if let Some(error) = error {
            if self.failures.fetch_add(1, Ordering::Relaxed) == 0 {
                tracing::error!(
                    signal,
                    error,
                    "cannot send to the OpenTelemetry collector; data is dropped until it is reachable"
                );
            }
            return;
        }
        let failures = self.failures.swap(0, Ordering::Relaxed);
        if failures > 0 {
            tracing::warn!(
                signal,
                failures,
                "the OpenTelemetry collector is reachable again"
            );
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

type Sending<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'a>>;

impl HttpClient for Client {
    fn send_bytes<'a, 'b>(&'a self, request: Request<Bytes>) -> Sending<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            // Whoever polls this is a thread of an exporter, which has nothing else to do.
            let sent = self.runtime.block_on(self.send(request));
            match &sent {
                Ok(response) if response.status().is_success() => self.note(None),
                Ok(response) => self.note(Some(response.status().as_str())),
                Err(error) => self.note(Some(&error.to_string())),
            }
            sent
        })
    }
}

/// Gives spans the names of the conventions, where the log has shorter ones.
#[derive(Debug)]
struct Named(opentelemetry_otlp::SpanExporter);

impl SpanExporter for Named {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        batch.iter_mut().for_each(name);
        self.0.export(batch).await
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

fn name(span: &mut SpanData) {
    // What was said is about the whole of a span.
    let said = |attribute: &KeyValue| attribute.key.as_str().starts_with("gen_ai.");
    for event in &mut span.events.events {
        if event.attributes.iter().any(said) {
            span.attributes
                .extend(event.attributes.drain(..).filter(said));
            event.name = "".into();
        }
    }
    span.events.events.retain(|event| !event.name.is_empty());
    let is_request = span.name == "request";
    let (mut method, mut route) = ("HTTP".to_owned(), String::new());
    for attribute in &mut span.attributes {
        let long = match attribute.key.as_str() {
            "run" => "gen_ai.conversation.id",
            "session" => "belljar.session.id",
            "cell" => "belljar.cell",
            "tenant" => "belljar.tenant",
            "key" => "belljar.key.prefix",
            "code" => "belljar.problem.code",
            "id" => "belljar.request.id",
            "status" => {
                if matches!(attribute.value, Value::I64(500..)) {
                    span.status = Status::error("");
                }
                "http.response.status_code"
            }
            "route" => {
                route = format!(" {}", attribute.value);
                "http.route"
            }
            "method" => {
                let word = attribute.value.to_string();
                // A client may write any word.
                match word.as_str() {
                    "GET" | "HEAD" | "POST" | "PUT" | "DELETE" => method = word,
                    _ => attribute.value = "_OTHER".into(),
                }
                "http.request.method"
            }
            "gen_ai.response.finish_reasons" => {
                let reason = StringValue::from(attribute.value.to_string());
                attribute.value = Value::Array(Array::String(vec![reason]));
                continue;
            }
            _ => continue,
        };
        attribute.key = Key::from_static_str(long);
    }
    if is_request {
        span.name = format!("{method}{route}").into();
        span.span_kind = SpanKind::Server;
    }
}

/// What is measured. The name of an event is that of its instrument.
struct Instruments {
    tokens: Histogram<u64>,
    durations: Histogram<f64>,
    cells: Counter<u64>,
    sessions: Counter<u64>,
}

impl Instruments {
    fn new(provider: &SdkMeterProvider) -> Self {
        let meter = provider.meter("belljar");
        Self {
            // The ends of the buckets are those of the conventions.
            tokens: meter
                .u64_histogram("gen_ai.client.token.usage")
                .with_unit("{token}")
                .with_boundaries((0..14).map(|power| 4_f64.powi(power)).collect())
                .build(),
            durations: meter
                .f64_histogram("gen_ai.client.operation.duration")
                .with_unit("s")
                .with_boundaries((0..14).map(|power| 0.01 * 2_f64.powi(power)).collect())
                .build(),
            cells: meter
                .u64_counter("belljar.cells")
                .with_unit("{cell}")
                .with_description("Ended cells, by result.")
                .build(),
            sessions: meter
                .u64_counter("belljar.sessions")
                .with_unit("{session}")
                .with_description("Sessions started, forked or loaded for clients.")
                .build(),
        }
    }
}

impl Layer<Registry> for Instruments {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, Registry>) {
        let mut measured = Measured::default();
        event.record(&mut measured);
        let Measured {
            count,
            amount,
            attributes,
        } = &measured;
        match event.metadata().name() {
            "gen_ai.client.token.usage" => self.tokens.record(*count, attributes),
            "gen_ai.client.operation.duration" => self.durations.record(*amount, attributes),
            "belljar.cells" => self.cells.add(*count, attributes),
            "belljar.sessions" => self.sessions.add(*count, attributes),
            _ => {}
        }
    }
}

/// The fields of a measurement: its value, and words.
#[derive(Default)]
struct Measured {
    count: u64,
    amount: f64,
    attributes: Vec<KeyValue>,
}

impl Visit for Measured {
    fn record_u64(&mut self, _: &Field, value: u64) {
        self.count = value;
    }

    fn record_f64(&mut self, _: &Field, value: f64) {
        self.amount = value;
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let attribute = KeyValue::new(field.name(), value.to_owned());
        self.attributes.push(attribute);
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

//! Spans of invocations, and their export.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, SpanKind, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, RetryPolicy, WithHttpConfig as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    SdkTracer, SdkTracerProvider, Span as SdkSpan, SpanData, SpanExporter as _, SpanProcessor,
};
use opentelemetry_semantic_conventions::attribute::{
    AWS_LAMBDA_INVOKED_ARN, FAAS_COLDSTART, FAAS_INVOCATION_ID, FAAS_TRIGGER,
    MESSAGING_BATCH_MESSAGE_COUNT, MESSAGING_DESTINATION_NAME, MESSAGING_OPERATION_NAME,
    MESSAGING_OPERATION_TYPE, MESSAGING_SYSTEM,
};
use protocol::limits::{EXPORT_PAUSE, EXPORT_TIME_MAX, SPAN_LINKS_MAX, SPANS_MAX};
use protocol::time::Timestamp;
use shared::locked::locked;
use shared::traces::names::LINKS_DROPPED_COUNT;
use shared::traces::{Links, Span, of_xray_header};
use tokio::time::Instant;
use tracing::warn;

use super::http_client::ExportClient;
use super::invocation::{TracedInvocation, TracedMessages};
use super::resource::resource;
use crate::Sdk;

/// The traces of a process. There are none unless a variable names an endpoint.
#[derive(Debug)]
pub struct Traces(Option<Recorder>);

#[derive(Debug)]
struct Recorder {
    tracer: SdkTracer,
    ended: EndedSpans,
    /// One export at a time.
    exporter: tokio::sync::Mutex<Exporter>,
    is_cold: AtomicBool,
    time_max: Duration,
}

#[derive(Debug)]
struct Exporter {
    otlp: opentelemetry_otlp::SpanExporter,
    /// After a failed export, spans are dropped until then, so that an endpoint that is down does not delay every invocation.
    paused_until: Option<Instant>,
}

impl Traces {
    /// Reads the variables of OpenTelemetry. A wrong one is logged, and there are no traces then: the function works without.
    pub fn from_env(sdk: &Sdk) -> Traces {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        if !is_on(&variable) {
            return Traces(None);
        }
        let recorder = Recorder::new(sdk, &variable);
        let recorder = recorder.inspect_err(|error| warn!(%error, "no traces: wrong variables"));
        Traces(recorder.ok())
    }

    /// Returns the span of an invocation: a consumer span that is linked to the spans that its messages come from.
    pub fn invocation<'a>(&self, describe: impl FnOnce() -> TracedInvocation<'a>) -> Span {
        Span::of_invocation(self.0.as_ref().map(|recorder| recorder.start(describe())))
    }

    /// Exports all spans that have ended, and returns when that has succeeded or failed, within [`EXPORT_TIME_MAX`] and before
    /// `deadline`. What is not exported is dropped.
    pub async fn export(&self, deadline: Timestamp) {
        if let Some(recorder) = &self.0 {
            recorder.export(deadline).await;
        }
    }
}

/// Returns whether the variables ask for traces.
/// Source: <https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/> (2026-11).
fn is_on(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let endpoints = [
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    ];
    let is_disabled = variable("OTEL_SDK_DISABLED")
        .is_some_and(|on| on.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|exporter| exporter == "none");
    !is_disabled && endpoints.iter().any(|name| variable(name).is_some())
}

impl Recorder {
    fn new(
        sdk: &Sdk,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Recorder, ExporterBuildError> {
        let mut otlp = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(ExportClient(sdk.connector()))
            // A pause of the library between two attempts would block the thread.
            .with_retry_policy(RetryPolicy::disabled())
            .build()?;
        let resource = resource(variable);
        otlp.set_resource(&resource);
        let ended = EndedSpans::default();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource)
            .with_span_processor(ended.clone())
            .build();
        let timeout_ms = [
            "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
            "OTEL_EXPORTER_OTLP_TIMEOUT",
        ]
        .into_iter()
        .find_map(|name| variable(name)?.parse().ok());
        let timeout = timeout_ms.map_or(EXPORT_TIME_MAX, Duration::from_millis);
        Ok(Recorder {
            tracer: provider.tracer(env!("CARGO_PKG_NAME")),
            ended,
            exporter: tokio::sync::Mutex::new(Exporter {
                otlp,
                paused_until: None,
            }),
            is_cold: AtomicBool::new(true),
            time_max: timeout.min(EXPORT_TIME_MAX),
        })
    }

    fn start(&self, invocation: TracedInvocation<'_>) -> Context {
        let is_cold = self.is_cold.swap(false, Ordering::Relaxed);
        let mut attributes = vec![
            KeyValue::new(FAAS_INVOCATION_ID, invocation.request_id.to_owned()),
            KeyValue::new(FAAS_COLDSTART, is_cold),
            KeyValue::new(AWS_LAMBDA_INVOKED_ARN, invocation.function_arn.to_owned()),
        ];
        // With X-Ray's active tracing, Lambda has recorded the invocation itself. Otherwise its ids lead nowhere.
        let parent = invocation.trace_header.and_then(of_xray_header);
        let parent = parent.map_or_else(Context::new, |parent| {
            Context::new().with_remote_span_context(parent)
        });
        let builder = match invocation.messages {
            None => {
                attributes.push(KeyValue::new(FAAS_TRIGGER, "timer"));
                let builder = self.tracer.span_builder("sweep");
                builder.with_kind(SpanKind::Server)
            }
            Some(messages) => {
                let queue = queue_name(messages.queue_arn);
                attributes.extend([
                    KeyValue::new(FAAS_TRIGGER, "pubsub"),
                    KeyValue::new(MESSAGING_SYSTEM, "aws_sqs"),
                    KeyValue::new(MESSAGING_OPERATION_TYPE, "process"),
                    KeyValue::new(MESSAGING_OPERATION_NAME, "process"),
                    KeyValue::new(MESSAGING_DESTINATION_NAME, queue.to_owned()),
                    KeyValue::new(MESSAGING_BATCH_MESSAGE_COUNT, messages.count as i64),
                ]);
                let (links, dropped_count) = links(messages);
                if dropped_count > 0 {
                    attributes.push(KeyValue::new(LINKS_DROPPED_COUNT, dropped_count as i64));
                }
                let builder = self.tracer.span_builder(format!("process {queue}"));
                builder.with_kind(SpanKind::Consumer).with_links(links)
            }
        };
        let builder = builder.with_attributes(attributes);
        let span = self.tracer.build_with_context(builder, &parent);
        let context = Context::new().with_value(self.tracer.clone());
        context.with_span(span)
    }

    async fn export(&self, deadline: Timestamp) {
        // The other half is for the response.
        let time_left = Timestamp::from(SystemTime::now()).until(deadline) / 2;
        let export = async { self.exporter.lock().await.export(&self.ended).await };
        let exported = tokio::time::timeout(self.time_max.min(time_left), export).await;
        if exported.is_err() {
            warn!("spans not exported: no response in time");
            // The lock is free again: the export that had it is dropped, or was another invocation's.
            if let Ok(mut exporter) = self.exporter.try_lock() {
                exporter.pause();
            }
        }
    }
}

impl Exporter {
    async fn export(&mut self, ended: &EndedSpans) {
        let (spans, dropped_count) = std::mem::take(&mut *locked(&ended.0));
        let now = Instant::now();
        let is_paused = self.paused_until.is_some_and(|until| now < until);
        if spans.is_empty() || is_paused {
            return;
        }
        if dropped_count > 0 {
            warn!(dropped_count, "spans dropped: too many at once");
        }
        self.paused_until = None;
        if let Err(error) = self.otlp.export(spans).await {
            warn!(%error, "spans not exported");
            self.pause();
        }
    }

    fn pause(&mut self) {
        self.paused_until = Some(Instant::now() + EXPORT_PAUSE);
    }
}

/// Returns the name of a queue, which is the last part of its ARN.
fn queue_name(arn: Option<&str>) -> &str {
    let name = arn.and_then(|arn| arn.rsplit(':').next());
    name.unwrap_or("unknown")
}

/// Returns links to the spans that messages come from, each span once, and the number of spans that are too many.
fn links(messages: TracedMessages<'_>) -> (Vec<Link>, usize) {
    let of_headers = messages.trace_headers.into_iter();
    let of_headers = of_headers.filter_map(of_xray_header);
    let of_tickets = messages.links.into_iter().flat_map(Links::into_spans);
    let mut known = BTreeSet::new();
    let mut links = Vec::new();
    for span in of_tickets.chain(of_headers) {
        let ids = (span.trace_id().to_bytes(), span.span_id().to_bytes());
        if known.insert(ids) && links.len() < SPAN_LINKS_MAX {
            links.push(Link::with_context(span));
        }
    }
    let dropped_count = known.len() - links.len();
    (links, dropped_count)
}

/// The spans that have ended and are not exported yet, and the number of those that there was no room for.
#[derive(Clone, Debug, Default)]
struct EndedSpans(Arc<Mutex<(Vec<SpanData>, u64)>>);

impl SpanProcessor for EndedSpans {
    fn on_start(&self, _span: &mut SdkSpan, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        let mut ended = locked(&self.0);
        let (spans, dropped_count) = &mut *ended;
        match spans.len() < SPANS_MAX {
            true => spans.push(span),
            false => *dropped_count += 1,
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

//! The spans of the burst: one for each request to the input queue.

use std::time::{Duration, SystemTime};

use loadgen::TracedRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

pub(super) fn spans(queue: &str, requests: &[TracedRequest]) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        ..InstrumentationScope::default()
    };
    let resource = Resource {
        attributes: vec![text("service.name", "producer")],
        ..Resource::default()
    };
    let requests = requests.iter().map(|request| span(queue, request));
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: requests.collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn span(queue: &str, request: &TracedRequest) -> Span {
    let nanos = |time: SystemTime| {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
        since_epoch.as_ref().map_or(0, Duration::as_nanos) as u64
    };
    let code = match request.succeeded {
        true => StatusCode::Unset,
        false => StatusCode::Error,
    };
    let count = Value::IntValue(request.messages_count as i64);
    Span {
        trace_id: request.trace_id.to_be_bytes().to_vec(),
        span_id: request.span_id.to_be_bytes().to_vec(),
        // Sampled.
        flags: 1,
        name: format!("send {queue}"),
        kind: SpanKind::Producer as i32,
        start_time_unix_nano: nanos(request.began),
        end_time_unix_nano: nanos(request.ended),
        attributes: vec![
            text("messaging.system", "aws_sqs"),
            text("messaging.operation.type", "send"),
            text("messaging.operation.name", "send"),
            text("messaging.destination.name", queue),
            attribute("messaging.batch.message_count", count),
        ],
        status: Some(Status {
            code: code as i32,
            ..Status::default()
        }),
        ..Span::default()
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

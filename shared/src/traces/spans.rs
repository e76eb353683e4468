//! Spans below the span of an invocation.

use std::fmt::Display;

use futures::future::Either;
use opentelemetry::context::FutureExt as _;
use opentelemetry::trace::{SpanBuilder, SpanKind, Status, TraceContextExt as _, Tracer as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::SdkTracer;
use opentelemetry_semantic_conventions::attribute::ERROR_TYPE;

use super::links::{present, to_traceparent};

/// A span that has not begun. There is none unless the present span is recorded.
pub struct Span(Option<Start>);

enum Start {
    /// Below the present span.
    Child(SpanBuilder, Vec<KeyValue>),
    /// With its own context.
    Root(Context),
}

/// Returns a span below the present one.
pub fn span(name: &'static str) -> Span {
    let recorded = Context::map_current(|context| context.span().is_recording());
    Span(recorded.then(|| Start::Child(SpanBuilder::from_name(name), Vec::new())))
}

impl Span {
    /// Returns the span of an invocation. `context` has the span and its [`SdkTracer`].
    pub fn of_invocation(context: Option<Context>) -> Span {
        Span(context.map(Start::Root))
    }

    /// Says that the span sends a message.
    pub fn sends(self) -> Span {
        self.kind(SpanKind::Producer)
    }

    /// Says that the span calls another system.
    pub fn calls(self) -> Span {
        self.kind(SpanKind::Client)
    }

    /// Adds an attribute.
    pub fn text(self, name: &'static str, value: impl Display) -> Span {
        self.attribute(|| KeyValue::new(name, value.to_string()))
    }

    /// Adds a number as an attribute.
    pub fn count(self, name: &'static str, count: usize) -> Span {
        self.attribute(|| KeyValue::new(name, count as i64))
    }

    /// Returns the result of `work`. The span begins now, and ends when the returned future is dropped. Until then, it is the
    /// present span of all that `work` does.
    pub fn run<W: Future>(self, work: W) -> impl Future<Output = W::Output> {
        // Otherwise the futures of an invocation would nest so deeply that the compiler gives up on their layout.
        let work = Box::pin(work);
        match self.0.and_then(Start::context) {
            Some(context) => Either::Left(work.with_context(context)),
            None => Either::Right(work),
        }
    }

    fn kind(mut self, kind: SpanKind) -> Span {
        if let Some(Start::Child(builder, _)) = &mut self.0 {
            builder.span_kind = Some(kind);
        }
        self
    }

    fn attribute(mut self, attribute: impl FnOnce() -> KeyValue) -> Span {
        if let Some(Start::Child(_, attributes)) = &mut self.0 {
            attributes.push(attribute());
        }
        self
    }
}

impl Start {
    fn context(self) -> Option<Context> {
        match self {
            Start::Root(context) => Some(context),
            Start::Child(builder, attributes) => Context::map_current(|present| {
                let tracer = present.get::<SdkTracer>()?;
                let builder = builder.with_attributes(attributes);
                let span = tracer.build_with_context(builder, present);
                Some(present.with_span(span))
            }),
        }
    }
}

/// Adds a number to the present span as an attribute.
pub fn count(name: &'static str, count: u64) {
    let attribute = KeyValue::new(name, count as i64);
    Context::map_current(|present| present.span().set_attribute(attribute));
}

/// Adds an attribute to the present span.
pub fn text(name: &'static str, value: impl Display) {
    Context::map_current(|present| {
        let span = present.span();
        if span.is_recording() {
            span.set_attribute(KeyValue::new(name, value.to_string()));
        }
    });
}

/// Says that the present span failed, with a kind of error that has nothing of a message in it.
pub fn failed(error_type: &'static str) {
    Context::map_current(|present| {
        let span = present.span();
        span.set_attribute(KeyValue::new(ERROR_TYPE, error_type));
        span.set_status(Status::error(""));
    });
}

/// Returns the `traceparent` of the present span, if it is recorded.
pub fn traceparent() -> Option<String> {
    present().as_ref().map(to_traceparent)
}

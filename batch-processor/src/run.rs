//! The process of the Lambda function.

use std::sync::Arc;

use aws::{
    Sdk, TracedInvocation, TracedMessages, Traces, aws_duplicates_queue, aws_notice_target,
    aws_ports, open_settings, started,
};
use aws_lambda_events::event::sqs::SqsMessage;
use lambda_runtime::{Diagnostic, LambdaEvent, service_fn};
use protocol::time::Timestamp;
use shared::config::{
    ConfigError, Settings, UnknownVariable, names_in_environment, unknown_variables,
};
use shared::traces;
use shared::wire::Ticket;
use sinks::columns_source::with_columns;
use sinks::{BuiltInSink, SINK, Sink, answer_place, own_settings};
use tracing::info;

use crate::config::Config;
use crate::deployment_check;
use crate::event::Event;
use crate::handler::Handler;
use crate::invocation::Invocation;

/// The value of `SINK` with a sink of your own. Nothing reads it but the rules of the other settings.
const OWN_SINK: &str = "log:";

/// Runs the function with the sink that `SINK` names, until Lambda ends the process; or the check of the deployment, if the handler
/// is `deployment-check`.
///
/// # Errors
/// A wrong configuration, with all its problems; or a failure of the Runtime API.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    if deployment_check::is_wanted() {
        return deployment_check::run().await;
    }
    let (config, sdk, sink) = started(built_in().await).await?;
    serve(config, &sdk, sink).await
}

/// Reads the configuration, and makes the sink that `SINK` names.
async fn built_in() -> Result<(Config, Sdk, BuiltInSink), lambda_runtime::Error> {
    let unknown = unknown_variables(names_in_environment());
    let lookup = |name: &str| std::env::var(name).ok();
    let file = open_settings(&lookup).await?;
    let config = configured(Settings::new(&lookup, file.as_ref()), &unknown).await?;
    let sdk = sdk(&config);
    let sink = BuiltInSink::new(&config.sink, &sdk)?;
    Ok((config, sdk, sink))
}

/// Runs the function with a sink of your own, which `make` makes, until Lambda ends the process; or the check of the deployment, as
/// [`run`] does, which needs no sink. It reads neither `SINK` nor the settings that only built-in sinks read ([`own_settings`]). The sink
/// may have variables whose names begin with `SINK_`.
///
/// # Errors
/// As [`run`].
pub async fn run_with<S: Sink>(
    make: impl FnOnce() -> Result<S, lambda_runtime::Error>,
) -> Result<(), lambda_runtime::Error> {
    if deployment_check::is_wanted() {
        return deployment_check::run().await;
    }
    let (config, sink) = started(with_own_sink(make).await).await?;
    let sdk = sdk(&config);
    serve(config, &sdk, sink).await
}

/// Reads the configuration without the settings of built-in sinks, and makes the sink.
async fn with_own_sink<S>(
    make: impl FnOnce() -> Result<S, lambda_runtime::Error>,
) -> Result<(Config, S), lambda_runtime::Error> {
    let built_in = own_settings();
    let lookup = |name: &str| match name {
        name if name == SINK.name => Some(OWN_SINK.to_owned()),
        name if built_in.contains(&name) => None,
        _ => std::env::var(name).ok(),
    };
    let mut unknown = unknown_variables(names_in_environment());
    unknown.retain(|one| !is_of_own_sink(one));
    let file = open_settings(&lookup).await?;
    let file = file.map(|file| file.without(&built_in));
    let config = configured(Settings::new(&lookup, file.as_ref()), &unknown).await?;
    Ok((config, make()?))
}

/// Returns whether the variable may be one of a sink that is not built in.
fn is_of_own_sink(variable: &UnknownVariable) -> bool {
    let is_of_sink = |name: &str| name.starts_with(SINK.name);
    is_of_sink(&variable.name) || variable.meant.is_some_and(is_of_sink)
}

async fn configured(
    settings: Settings<'_>,
    unknown: &[UnknownVariable],
) -> Result<Config, ConfigError> {
    let config = with_columns(settings, Config::of).await;
    let unknown = unknown.iter().map(UnknownVariable::to_string);
    let config = ConfigError::unless(config, unknown)?;
    info!(?config, "configuration");
    Ok(config)
}

fn sdk(config: &Config) -> Sdk {
    Sdk::from_env(config.common.write_concurrency)
}

async fn serve<S: Sink>(config: Config, sdk: &Sdk, sink: S) -> Result<(), lambda_runtime::Error> {
    let quarantine_url = config.quarantine_url.as_deref();
    let mut ports = aws_ports(sdk, &config.common, &config.index, quarantine_url);
    let duplicates_url = config.duplicates_url.as_deref();
    ports.duplicates_queue =
        duplicates_url.map(|url| aws_duplicates_queue(sdk, &config.common, url));
    ports.notice_target = aws_notice_target(sdk, &config.common, config.completion.as_ref());
    let place = answer_place(&config.sink, sdk)?;
    let mut handler = Handler::new(config, ports, Arc::new(sink));
    if let Some(place) = place {
        handler = handler.with_answers(Arc::from(place));
    }
    let handler = Arc::new(handler);
    let traces = Arc::new(Traces::from_env(sdk));
    lambda_runtime::run_concurrent(service_fn(move |event: LambdaEvent<Event>| {
        let (handler, traces) = (handler.clone(), traces.clone());
        async move {
            let invocation = Invocation {
                function: event.context.env_config.function_name.clone(),
                request_id: event.context.request_id.clone(),
                deadline: Timestamp::from_ms(event.context.deadline),
            };
            let span = traces.invocation(|| described(&event));
            let handle = async {
                // Boxed, because the compiler limits how deep the futures around it may be.
                let handled = Box::pin(handler.handle(event.payload, &invocation)).await;
                handled.inspect_err(|_| traces::failed("invocation_failed"))
            };
            let handled = span.run(handle).await;
            traces.export(invocation.deadline).await;
            handled.map_err(Diagnostic::from)
        }
    }))
    .await
}

/// Returns what the span of an invocation says of it.
fn described(event: &LambdaEvent<Event>) -> TracedInvocation<'_> {
    let messages = match &event.payload {
        Event::Tickets(tickets) => Some(messages(&tickets.records)),
        Event::Sweep => None,
    };
    TracedInvocation {
        request_id: &event.context.request_id,
        function_arn: &event.context.invoked_function_arn,
        trace_header: event.context.xray_trace_id.as_deref(),
        messages,
    }
}

fn messages(tickets: &[SqsMessage]) -> TracedMessages<'_> {
    let bodies = tickets.iter().filter_map(|message| message.body.as_deref());
    let first = tickets.first();
    TracedMessages {
        queue_arn: first.and_then(|message| message.event_source_arn.as_deref()),
        count: tickets.len(),
        trace_headers: tickets.iter().filter_map(trace_header).collect(),
        links: bodies
            .filter_map(|body| Some(Ticket::from_body(body).ok()?.traces))
            .collect(),
    }
}

fn trace_header(message: &SqsMessage) -> Option<&str> {
    let header = message.attributes.get("AWSTraceHeader");
    header.map(String::as_str)
}

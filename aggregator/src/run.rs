//! Runs the Lambda function: reads the configuration, makes the adapters, and handles invocations.

use std::sync::Arc;

use aws::{
    Sdk, TracedInvocation, TracedMessages, Traces, aws_duplicates_queue, aws_ports,
    aws_source_queues, open_settings, started,
};
use lambda_runtime::layers::TracingLayer;
use lambda_runtime::{LambdaEvent, Runtime, service_fn};
use once_cell::sync::OnceCell;
use protocol::time::Timestamp;
use shared::config::{
    ConfigError, Settings, UnknownVariable, names_in_environment, unknown_variables,
};
use shared::traces;
use tracing::info;

use crate::config::Config;
use crate::current_batches::CurrentBatches;
use crate::event::{SqsEvent, SqsMessage};
use crate::handler::Handler;
use crate::invocation::Invocation;

/// The current batches that this environment remembers. All its invocations share them, until the process ends.
static CURRENT_BATCHES: OnceCell<Arc<CurrentBatches>> = OnceCell::new();

/// The lock store takes the name of the index, which only the batch-processor queries.
const UNUSED_INDEX: &str = "batchId-index";

/// Runs the function until Lambda ends the process.
///
/// # Errors
/// A configuration error with all its problems, or an error of the Runtime API.
pub async fn run() -> Result<(), lambda_runtime::Error> {
    let config = started(read_config().await.map_err(Into::into)).await?;
    info!(?config, "configuration");
    let sdk = Sdk::from_env(config.common.write_concurrency);
    #[cfg(feature = "full")]
    if let Some(bucket) = &config.overflow_bucket {
        // In a task of its own, so that the first invocation does not wait for it.
        tokio::spawn(aws::tell_overflow_retention(sdk.clone(), bucket.clone()));
    }
    let traces = Arc::new(Traces::from_env(&sdk));
    let common = &config.common;
    let mut ports = aws_ports(&sdk, common, UNUSED_INDEX, config.quarantine_url.as_deref());
    let duplicates_url = config.duplicates_url.as_deref();
    ports.duplicates_queue = duplicates_url.map(|url| aws_duplicates_queue(&sdk, common, url));
    let source_queues = aws_source_queues(&sdk, common);
    let current = CURRENT_BATCHES.get_or_init(Arc::default).clone();
    let handler = Arc::new(Handler::new(config, ports, source_queues, current));
    let function = service_fn(move |event: LambdaEvent<SqsEvent>| {
        let (handler, traces) = (handler.clone(), traces.clone());
        async move {
            let invocation = Invocation {
                function: event.context.env_config.function_name.clone(),
                deadline: Timestamp::from_ms(event.context.deadline),
            };
            let span = traces.invocation(|| described(&event));
            let handle = async {
                let handled = handler.handle(event.payload, &invocation).await;
                handled.inspect_err(|error| traces::failed(error.kind()))
            };
            let handled = span.run(handle).await;
            traces.export(invocation.deadline).await;
            handled
        }
    });
    Runtime::new(function)
        .layer(TracingLayer::new())
        .run_concurrent()
        .await
}

async fn read_config() -> Result<Config, ConfigError> {
    let lookup = |name: &str| std::env::var(name).ok();
    let file = open_settings(&lookup).await?;
    let unknown = unknown_variables(names_in_environment());
    let unknown = unknown.iter().map(UnknownVariable::to_string);
    let config = Config::of(Settings::new(&lookup, file.as_ref()));
    ConfigError::unless(config, unknown)
}

/// Returns what the span of an invocation says of it.
fn described(event: &LambdaEvent<SqsEvent>) -> TracedInvocation<'_> {
    let records = &event.payload.records;
    let first = records.first();
    TracedInvocation {
        request_id: &event.context.request_id,
        function_arn: &event.context.invoked_function_arn,
        trace_header: event.context.xray_trace_id.as_deref(),
        messages: Some(TracedMessages {
            queue_arn: first.and_then(|message| message.event_source_arn.as_deref()),
            count: records.len(),
            trace_headers: records.iter().filter_map(trace_header).collect(),
            links: Vec::new(),
        }),
    }
}

fn trace_header(message: &SqsMessage) -> Option<&str> {
    message.attributes.as_ref()?.trace_header.as_deref()
}

//! Reads a stack from CloudFormation: its outputs say where things are, its parameters how it is configured.

use std::collections::BTreeMap;

use aws_sdk_cloudformation::Client;
use aws_sdk_cloudformation::error::DisplayErrorContext;

use crate::record::Setting;

use super::description::{Names, Stack, StackError};

/// Names of outputs and parameters of the SAM template and the CDK construct. They do not overlap.
const NAMES: Names = Names {
    input_queue_url: "InputQueueUrl",
    batch_table: "BatchTableName",
    set_aside_urls: &[
        "QuarantineQueueUrl",
        "InputDeadLetterQueueUrl",
        "BatchDeadLetterQueueUrl",
    ],
    sink: "Sink",
    sink_table: "SinkTable",
    on_duplicate: "OnDuplicate",
    batch_items_max: "MaxBatchSize",
    seal_when_drained: "SealWhenDrained",
};

/// Reads a stack by its name.
///
/// # Errors
/// There is no such stack, the caller may not read it, it has no outputs yet, or it is another service's stack.
pub async fn describe_stack(client: &Client, name: &str) -> Result<Stack, StackError> {
    let error = |message: String| StackError::CloudFormation {
        stack: name.to_owned(),
        message,
    };
    let described = client.describe_stacks().stack_name(name).send().await;
    let described = described.map_err(|source| error(DisplayErrorContext(&source).to_string()))?;
    let Some(stack) = described.stacks().first() else {
        return Err(error("there is no such stack".to_owned()));
    };
    let mut settings = BTreeMap::new();
    let mut shown = Vec::new();
    for parameter in stack.parameters() {
        let (Some(name), Some(value)) = (parameter.parameter_key(), parameter.parameter_value())
        else {
            continue;
        };
        settings.insert(name.to_owned(), value.to_owned());
        shown.push(Setting {
            name: name.to_owned(),
            value: value.to_owned(),
        });
    }
    for output in stack.outputs() {
        if let (Some(name), Some(value)) = (output.output_key(), output.output_value()) {
            settings.insert(name.to_owned(), value.to_owned());
        }
    }
    Stack::from_settings(format!("stack `{name}`"), &settings, &NAMES, shown)
}

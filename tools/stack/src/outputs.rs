//! Reads a stack from CloudFormation: its outputs say where things are, its parameters how it is configured.

use aws_sdk_cloudformation::Client;
use aws_sdk_cloudformation::error::DisplayErrorContext;

use crate::connection::Connection;
use crate::open_error::OpenError;
use crate::settings::{Settings, SettingsError};

/// Opens a stack by its name. Region, credentials and endpoints are those of the process.
///
/// # Errors
/// There is no region, or there are no credentials; there is no such stack, or the caller may not read it.
pub(crate) async fn open_stack(name: &str) -> Result<(Settings, Connection), OpenError> {
    let of_process = |name: &str| std::env::var(name).ok();
    let connection = Connection::new(&of_process).await?;
    let settings = describe_stack(&connection.cloudformation, name).await?;
    Ok((settings, connection))
}

async fn describe_stack(client: &Client, name: &str) -> Result<Settings, SettingsError> {
    let error = |message: String| SettingsError::CloudFormation {
        stack: name.to_owned(),
        message,
    };
    let described = client.describe_stacks().stack_name(name).send().await;
    let described = described.map_err(|source| error(DisplayErrorContext(&source).to_string()))?;
    let Some(stack) = described.stacks().first() else {
        return Err(error("there is no such stack".to_owned()));
    };
    let parameters = stack.parameters().iter();
    let parameters = parameters.filter_map(|one| pair(one.parameter_key(), one.parameter_value()));
    let outputs = stack.outputs().iter();
    let outputs = outputs.filter_map(|one| pair(one.output_key(), one.output_value()));
    let (parameters, outputs) = (parameters.collect(), outputs.collect());
    let name = format!("stack `{name}`");
    Ok(Settings::of_stack(name, parameters, outputs))
}

fn pair(name: Option<&str>, value: Option<&str>) -> Option<(String, String)> {
    Some((name?.to_owned(), value?.to_owned()))
}

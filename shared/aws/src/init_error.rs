//! Reports a failed start to Lambda.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::HttpConnector as _;
use serde_json::json;
use tracing::{error, warn};

use crate::errors::chain;
use crate::sdk::{connector, http_request};

/// The variable with the address of the Runtime API.
const RUNTIME_API: &str = "AWS_LAMBDA_RUNTIME_API";
/// The type of the error of a function that does not start.
const CONFIGURATION_ERROR: &str = "Configuration";
/// How long a process that ends anyway waits for the Runtime API.
const TIME: Duration = Duration::from_secs(5);

/// Why a function does not start.
type StartError = Box<dyn std::error::Error + Send + Sync>;

/// Returns what was started. If that failed, tells Lambda why, so that the caller of the function gets the reason and not only that
/// a process ended. Outside Lambda, there is no report.
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html#runtimes-api-initerror> (2026-11).
///
/// # Errors
/// The error of the start.
pub async fn started<T>(started: Result<T, StartError>) -> Result<T, StartError> {
    if let (Err(error), Ok(address)) = (&started, std::env::var(RUNTIME_API)) {
        // Lambda may end the process as soon as it has the report.
        error!(%error, "the function does not start");
        let body = json!({"errorType": CONFIGURATION_ERROR, "errorMessage": error.to_string()});
        let reported = tokio::time::timeout(TIME, post(&address, body.to_string())).await;
        if let Err(words) = reported.unwrap_or_else(|_| Err("no reply".to_owned())) {
            warn!(error = words, "start failure not reported to Lambda");
        }
    }
    started
}

async fn post(address: &str, body: String) -> Result<(), String> {
    let url = format!("http://{address}/2018-06-01/runtime/init/error");
    let mut request = http_request("POST", &url, body)?;
    let headers = request.headers_mut();
    headers.insert("content-type", "application/json");
    headers.insert("lambda-runtime-function-error-type", CONFIGURATION_ERROR);
    let response = connector(1).call(request).await;
    response.map_err(|error| chain(&error))?;
    Ok(())
}

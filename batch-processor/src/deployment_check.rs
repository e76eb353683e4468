//! The check of a deployment: CloudFormation calls it when it has created or updated the functions, and rolls the stack back if it
//! reports a problem.
//!
//! It is this executable as a function of its own, because a function with a wrong configuration does not start and could not say
//! so. It invokes the functions of the stack without messages, which is a dry run: they start with their configuration, and try out
//! the places that they use.

use std::collections::BTreeMap;
use std::time::Duration;

use aws::{Sdk, chain, http_request, open_settings};
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use futures::future::join_all;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{error, warn};

/// The handler of the function.
const HANDLER: &str = "deployment-check";
/// The property with the ARNs of the functions to invoke.
const FUNCTIONS: &str = "Functions";
/// How long a dry run may take: longer than the functions try a place, and so short that three of them fit the timeout of the check.
#[cfg(feature = "full")]
const INVOCATION_TIME: Duration = Duration::from_secs(50);
/// How many characters a hash has in the id.
const HASH_CHARACTERS: usize = 16;
/// How long a failed dry run is tried again. The permissions of a new role take effect after some seconds: of a function that does not
/// start too, because it may not read its configuration file yet.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency> (2026-11).
const PATIENCE: Duration = Duration::from_secs(45);
/// How often a failed dry run is tried at least, however long each takes.
const ATTEMPTS_MIN: usize = 3;
/// How long before it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest reason. A response has at most 4,096 bytes.
/// Source: <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html> (2026-11).
const REASON_CHARACTERS_MAX: usize = 800;

/// A request of CloudFormation to a custom resource.
/// Source: <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-requests.html> (2026-11).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    /// `Create`, `Update` or `Delete`.
    request_type: String,
    #[serde(rename = "ResponseURL")]
    response_url: String,
    stack_id: String,
    request_id: String,
    logical_resource_id: String,
    /// The id that the last response had. A creation has none.
    physical_resource_id: Option<String>,
    #[serde(default)]
    resource_properties: Value,
}

/// Returns whether this process is the check.
pub(crate) fn is_wanted() -> bool {
    std::env::var("_HANDLER").is_ok_and(|handler| handler == HANDLER)
}

/// Runs the function until Lambda ends the process.
pub(crate) async fn run() -> Result<(), Error> {
    open_settings(&|name| std::env::var(name).ok()).await?;
    let sdk = Sdk::from_env(2);
    lambda_runtime::run(service_fn(|event: LambdaEvent<Request>| {
        handle(&sdk, event.payload)
    }))
    .await
}

async fn handle(sdk: &Sdk, request: Request) -> Result<(), Error> {
    let response = response_to(sdk, &request).await;
    let mut put = http_request("PUT", &request.response_url, response.to_string())?;
    // The signature in the URL is of a request with an empty type.
    put.headers_mut().insert("content-type", "");
    let replied = sdk.connector().call(put).await;
    let status = replied.map_err(|error| chain(&error))?.status().as_u16();
    match status {
        200 => Ok(()),
        _ => Err(format!("the response to CloudFormation: HTTP status {status}").into()),
    }
}

async fn response_to(sdk: &Sdk, request: &Request) -> Value {
    let present = request.physical_resource_id.as_deref().unwrap_or_default();
    let hash = hash_of(&request.resource_properties);
    // The id has the hashes of the last two deployments that were in order. A roll back to one of them must not fail: not even if a
    // place is down at this moment.
    let was_checked = present.split('-').any(|known| known == hash);
    let problems = match (&*request.request_type, was_checked) {
        ("Delete", _) | (_, true) => Vec::new(),
        _ => problems(sdk, &request.resource_properties).await,
    };
    let former = present.split('-').find(|known| *known != hash);
    let id = match &*request.request_type {
        "Delete" => present.to_owned(),
        // By the former id, the roll back is recognised.
        "Update" if !problems.is_empty() => present.to_owned(),
        _ => [Some(&*hash), former]
            .into_iter()
            .flatten()
            .filter(|each| !each.is_empty())
            .collect::<Vec<_>>()
            .join("-"),
    };
    let mut response = json!({
        "Status": "SUCCESS",
        "PhysicalResourceId": id,
        "StackId": request.stack_id,
        "RequestId": request.request_id,
        "LogicalResourceId": request.logical_resource_id,
    });
    if !problems.is_empty() {
        error!(?problems, "the deployment is refused");
        let reason = problems.join("; ");
        let reason: String = reason.chars().take(REASON_CHARACTERS_MAX).collect();
        response["Status"] = "FAILED".into();
        response["Reason"] = reason.into();
    }
    response
}

/// Returns a hash that tells deployments with different properties apart.
fn hash_of(properties: &Value) -> String {
    // In the order of their names, whatever order they came in.
    let properties: BTreeMap<&String, &Value> =
        properties.as_object().into_iter().flatten().collect();
    let hash = blake3::hash(format!("{properties:?}").as_bytes()).to_hex();
    hash[..HASH_CHARACTERS].to_owned()
}

/// Returns what is wrong with the functions that the properties name.
async fn problems(sdk: &Sdk, properties: &Value) -> Vec<String> {
    let arns = properties[FUNCTIONS].as_array().into_iter().flatten();
    let arns: Vec<&str> = arns.filter_map(Value::as_str).collect();
    if arns.is_empty() {
        let got = &properties[FUNCTIONS];
        return vec![format!(
            "`{FUNCTIONS}`: got {got}, expected the ARNs of the functions"
        )];
    }
    let ends_at = Instant::now() + PATIENCE;
    let tried = join_all(arns.iter().map(|arn| problem_of(sdk, arn, ends_at))).await;
    tried.into_iter().flatten().collect()
}

/// Invokes a function until it has no problem, or until `ends_at` and at least [`ATTEMPTS_MIN`] times.
async fn problem_of(sdk: &Sdk, arn: &str, ends_at: Instant) -> Option<String> {
    let mut attempts = 0;
    loop {
        let problem = dry_run(sdk, arn).await?;
        attempts += 1;
        let is_last = attempts >= ATTEMPTS_MIN && Instant::now() + PAUSE > ends_at;
        match problem {
            Problem::Failed(words) if !is_last => warn!(problem = words, "tried again"),
            Problem::Failed(words) => return Some(words),
            Problem::Busy if !is_last => {}
            // Nobody can tell. It is so because messages are being processed, as a rule.
            Problem::Busy => {
                warn!(function = arn, "not tried: it has no free environment");
                return None;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Why a function cannot be used, or was not tried.
#[cfg_attr(
    not(feature = "full"),
    expect(dead_code, reason = "without a client of Lambda, nothing is tried")
)]
enum Problem {
    /// It failed, and said so.
    Failed(String),
    /// It has no free environment.
    Busy,
}

/// Invokes a function without messages.
#[cfg(feature = "full")]
async fn dry_run(sdk: &Sdk, arn: &str) -> Option<Problem> {
    use aws_sdk_lambda::error::ProvideErrorMetadata as _;
    use aws_sdk_lambda::primitives::Blob;

    let mut fields = arn.split(':').skip(3);
    let region = fields.next().unwrap_or_default();
    let name = fields.nth(2).unwrap_or(arn);
    let invoke = sdk.lambda(region, INVOCATION_TIME).invoke();
    let payload = Blob::new(br#"{"Records":[]}"#);
    let output = match invoke.function_name(arn).payload(payload).send().await {
        Ok(output) => output,
        Err(error) if error.code() == Some("TooManyRequestsException") => {
            return Some(Problem::Busy);
        }
        Err(error) => return Some(Problem::Failed(format!("{name}: {}", chain(&error)))),
    };
    output.function_error?;
    let payload = output.payload.map(Blob::into_inner).unwrap_or_default();
    let payload: Value = serde_json::from_slice(&payload).unwrap_or(Value::Null);
    let reason = payload["errorMessage"].as_str().unwrap_or_default();
    Some(Problem::Failed(format!("{name}: {reason}")))
}

/// Tries nothing: this build has no client of Lambda.
#[cfg(not(feature = "full"))]
async fn dry_run(_: &Sdk, arn: &str) -> Option<Problem> {
    warn!(
        function = arn,
        "not tried: this build has no client of Lambda"
    );
    None
}

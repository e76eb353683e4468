//! The check of a deployment: CloudFormation calls it when it has created or updated the functions, and rolls the stack back if it
//! reports a problem.
//!
//! It is this executable as a function of its own, because a function with a wrong configuration does not start and could not say
//! so. It invokes the functions of the stack without messages, which is a dry run: they start with their configuration, and try out
//! the places that they use.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_lambda_events::event::cloudformation::CloudFormationCustomResourceRequest as Request;
use aws_sdk_lambda::error::ProvideErrorMetadata as _;
use aws_sdk_lambda::primitives::Blob;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use futures::future::join_all;
use lambda_runtime::{Error, LambdaEvent, service_fn};
use serde_json::{Value, json};
use shared::aws::{Sdk, chain, open_settings};
use tokio::time::Instant;
use tracing::{error, info, warn};

/// The handler (`_HANDLER`) of the function.
pub(crate) const HANDLER: &str = "deployment-check";
/// The property with the ARNs of the functions to invoke.
const FUNCTIONS: &str = "Functions";
/// An SQS event without messages.
const NO_MESSAGES: &[u8] = br#"{"Records":[]}"#;
/// How long a dry run may take: longer than the functions try a place.
const INVOCATION_TIME: Duration = Duration::from_secs(60);
/// How long a failed dry run is tried again. The permissions of a new role take effect after some seconds.
/// Source: <https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency> (2026-11).
const PATIENCE: Duration = Duration::from_secs(45);
/// How long before it is tried again.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest reason. A response has at most 4,096 bytes.
/// Source: <https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/crpg-ref-responses.html> (2026-11).
const REASON_CHARACTERS_MAX: usize = 800;

/// Runs the function until Lambda ends the process.
pub(crate) async fn run() -> Result<(), Error> {
    open_settings(&|name| std::env::var(name).ok()).await?;
    let sdk = Sdk::from_env(2);
    lambda_runtime::run(service_fn(|event: LambdaEvent<Request>| {
        respond(&sdk, event.payload, PATIENCE)
    }))
    .await
}

/// What CloudFormation must be told, and where.
struct Answer {
    url: String,
    body: Value,
}

async fn respond(sdk: &Sdk, request: Request, patience: Duration) -> Result<(), Error> {
    let Answer { url, body } = answer(sdk, request, patience).await?;
    let mut put = HttpRequest::new(SdkBody::from(body.to_string()));
    put.set_method("PUT")?;
    put.set_uri(url)?;
    // The signature in the URL is of a request with an empty type.
    put.headers_mut().insert("content-type", "");
    let response = sdk.connector().call(put).await;
    let status = response.map_err(|error| chain(&error))?.status().as_u16();
    match status {
        200 => Ok(()),
        _ => Err(format!("the response to CloudFormation: HTTP status {status}").into()),
    }
}

async fn answer(sdk: &Sdk, request: Request, patience: Duration) -> Result<Answer, Error> {
    let answer =
        |url, stack: &str, request: &str, resource: &str, id: String, problems: &[String]| {
            let mut body = json!({
                "Status": "SUCCESS",
                "PhysicalResourceId": id,
                "StackId": stack,
                "RequestId": request,
                "LogicalResourceId": resource,
            });
            if !problems.is_empty() {
                error!(?problems, "the deployment is refused");
                let reason: String = problems.join("; ");
                body["Status"] = "FAILED".into();
                body["Reason"] = reason
                    .chars()
                    .take(REASON_CHARACTERS_MAX)
                    .collect::<String>()
                    .into();
            }
            Answer { url, body }
        };
    Ok(match request {
        Request::Create(one) => {
            let problems = problems(sdk, &one.resource_properties, patience).await;
            let id = id_of(&one.resource_properties);
            answer(
                one.response_url,
                &one.stack_id,
                &one.request_id,
                &one.logical_resource_id,
                id,
                &problems,
            )
        }
        Request::Update(one) => {
            let id = id_of(&one.resource_properties);
            // A roll back comes with the properties of the last deployment that was in order. It must not fail: not even if a
            // place is down at this moment.
            let was_checked = id == one.physical_resource_id;
            let problems = match was_checked {
                true => Vec::new(),
                false => problems(sdk, &one.resource_properties, patience).await,
            };
            // A failed update keeps the id, by which the roll back is recognised.
            let id = if problems.is_empty() {
                id
            } else {
                one.physical_resource_id
            };
            answer(
                one.response_url,
                &one.stack_id,
                &one.request_id,
                &one.logical_resource_id,
                id,
                &problems,
            )
        }
        Request::Delete(one) => answer(
            one.response_url,
            &one.stack_id,
            &one.request_id,
            &one.logical_resource_id,
            one.physical_resource_id,
            &[],
        ),
        _ => {
            return Err(
                "a request of CloudFormation of an unknown type: expected Create, Update or Delete"
                    .into(),
            );
        }
    })
}

/// Returns an id that tells deployments with different properties apart.
fn id_of(properties: &Value) -> String {
    // In the order of their names, whatever order they came in.
    let properties: BTreeMap<&String, &Value> =
        properties.as_object().into_iter().flatten().collect();
    let text = format!("{properties:?}");
    format!("checked-{}", blake3::hash(text.as_bytes()).to_hex())
}

/// Returns what is wrong with the functions that the properties name.
async fn problems(sdk: &Sdk, properties: &Value, patience: Duration) -> Vec<String> {
    let arns: Vec<&str> = properties[FUNCTIONS]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if arns.is_empty() {
        return vec![format!(
            "`{FUNCTIONS}`: got {}, expected the ARNs of the functions",
            properties[FUNCTIONS]
        )];
    }
    let ends_at = Instant::now() + patience;
    let tried = join_all(arns.iter().map(|arn| problem_of(sdk, arn, ends_at))).await;
    tried.into_iter().flatten().collect()
}

/// Invokes a function until it has no problem, or until `ends_at`.
async fn problem_of(sdk: &Sdk, arn: &str, ends_at: Instant) -> Option<String> {
    loop {
        let problem = dry_run(sdk, arn).await?;
        if Instant::now() + PAUSE > ends_at || problem.is_final {
            return Some(problem.words);
        }
        warn!(problem = problem.words, "tried again");
        tokio::time::sleep(PAUSE).await;
    }
}

struct Problem {
    words: String,
    /// Whether another attempt would find the same.
    is_final: bool,
}

async fn dry_run(sdk: &Sdk, arn: &str) -> Option<Problem> {
    let mut fields = arn.split(':').skip(3);
    let region = fields.next().unwrap_or_default();
    let name = fields.nth(2).unwrap_or(arn);
    let invoke = sdk.lambda(region, INVOCATION_TIME).invoke();
    let sent = invoke
        .function_name(arn)
        .payload(Blob::new(NO_MESSAGES))
        .send()
        .await;
    let output = match sent {
        Ok(output) => output,
        // All environments that the function may have are busy, so it starts.
        Err(error) if error.code() == Some("TooManyRequestsException") => {
            info!(function = name, "not tried: it is busy");
            return None;
        }
        Err(error) => {
            let words = format!("{name}: {}", chain(&error));
            return Some(Problem {
                words,
                is_final: false,
            });
        }
    };
    output.function_error?;
    let payload = output.payload.map(Blob::into_inner).unwrap_or_default();
    let payload: Value = serde_json::from_slice(&payload).unwrap_or(Value::Null);
    let text = |field: &str| payload[field].as_str().unwrap_or_default();
    Some(Problem {
        words: format!("{name}: {}", text("errorMessage")),
        is_final: text("errorType") == shared::aws::CONFIGURATION_ERROR,
    })
}

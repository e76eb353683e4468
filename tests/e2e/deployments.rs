//! The check of a deployment, which CloudFormation calls: the batch-processor's executable under another handler.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{post, put};
use emulators::lambda::{
    Bootstrap, Function, FunctionConfig, InvokeError, InvokeResponse, LogLine, LogSink,
};
use local::sink::SinkKind;
use serde_json::{Value, json};

use crate::executables::bootstrap;
use crate::rig::{Rig, Setup, lock, owned, served};

const FUNCTIONS: [&str; 2] = [
    "arn:aws:lambda:us-east-1:123456789012:function:aggregator",
    "arn:aws:lambda:us-east-1:123456789012:function:batch-processor",
];

/// What Lambda and CloudFormation are to the check.
struct World {
    functions: BTreeMap<String, Function>,
    /// ARNs.
    invoked: Mutex<Vec<String>>,
    response: Mutex<Option<Value>>,
}

struct Deployment {
    world: Arc<World>,
    url: String,
    check: Function,
}

/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html> (2026-11).
async fn invoke(
    State(world): State<Arc<World>>,
    Path(arn): Path<String>,
    payload: Bytes,
) -> Response {
    lock(&world.invoked).push(arn.clone());
    let failed = |kind: &str, message: &str| {
        let headers = [("x-amz-function-error", "Unhandled")];
        let body = json!({"errorType": kind, "errorMessage": message});
        (headers, body.to_string()).into_response()
    };
    match world.functions[&arn].invoke(payload).await {
        Ok(InvokeResponse::Ok(payload)) => payload.into_response(),
        Ok(InvokeResponse::FunctionError {
            error_type,
            message,
        })
        | Err(InvokeError::InitFailed {
            error_type,
            message,
        }) => failed(&error_type, &message),
        Err(error) => failed("Runtime", &error.to_string()),
    }
}

async fn responded(State(world): State<Arc<World>>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "");
    let body = serde_json::from_slice(&body).expect("the response is JSON");
    *lock(&world.response) = Some(body);
    StatusCode::OK
}

impl Deployment {
    async fn of(rig: &Rig) -> Deployment {
        Deployment::by(rig, rig.stack.batch_processor.config().bootstrap.clone()).await
    }

    /// As [`of`](Self::of), with the check of this executable.
    async fn by(rig: &Rig, bootstrap: Bootstrap) -> Deployment {
        let functions = [&rig.stack.aggregator, &rig.stack.batch_processor];
        let functions = functions.into_iter().cloned();
        let functions = FUNCTIONS.map(str::to_owned).into_iter().zip(functions);
        let world = Arc::new(World {
            functions: functions.collect(),
            invoked: Mutex::default(),
            response: Mutex::default(),
        });
        let router = Router::new()
            .route("/2015-03-31/functions/{arn}/invocations", post(invoke))
            .route("/response", put(responded))
            .with_state(world.clone());
        let url = served(router).await;
        let handler = ("_HANDLER", "deployment-check");
        let config = FunctionConfig {
            name: "deployment-check".to_owned(),
            variables: owned(&[handler, ("AWS_ENDPOINT_URL", &url)]),
            timeout: Duration::from_secs(300),
            bootstrap,
            ..(*rig.stack.batch_processor.config()).clone()
        };
        let logs: LogSink = Arc::new(|line: &LogLine| eprintln!("{line}"));
        let check = Function::new(config, logs);
        Deployment { world, url, check }
    }

    /// Calls the check as CloudFormation does; returns its response.
    async fn call(&self, kind: &str, id: Option<&str>, settings: &[&str]) -> Value {
        let mut event = json!({
            "RequestType": kind,
            "ServiceToken": "arn:check",
            "ResponseURL": format!("{}/response", self.url),
            "StackId": "arn:stack",
            "RequestId": "request",
            "ResourceType": "Custom::DeploymentCheck",
            "LogicalResourceId": "CheckedDeployment",
            "ResourceProperties": {
                "ServiceToken": "arn:check",
                "Functions": FUNCTIONS,
                "Settings": settings,
            },
        });
        if kind == "Update" {
            event["OldResourceProperties"] = json!({"Functions": FUNCTIONS});
        }
        if let Some(id) = id {
            event["PhysicalResourceId"] = id.into();
        }
        let called = self.check.invoke(event.to_string().into()).await;
        assert!(matches!(called, Ok(InvokeResponse::Ok(_))), "{called:?}");
        let response = lock(&self.world.response).take();
        response.expect("CloudFormation gets a response")
    }

    /// As [`call`](Self::call), which must succeed; returns the id of the resource.
    async fn succeeds(&self, kind: &str, id: Option<&str>, settings: &[&str]) -> String {
        let response = self.call(kind, id, settings).await;
        assert_eq!(response["Status"], "SUCCESS", "{response}");
        let id = response["PhysicalResourceId"].as_str();
        id.expect("it is a text").to_owned()
    }

    fn invoked(&self) -> Vec<String> {
        let mut invoked = std::mem::take(&mut *lock(&self.world.invoked));
        invoked.sort();
        invoked
    }
}

#[tokio::test]
async fn a_deployment_whose_functions_start_and_reach_everything_is_in_order() {
    for kind in [
        SinkKind::File,
        SinkKind::S3,
        SinkKind::Http,
        SinkKind::Lambda,
        SinkKind::States,
        SinkKind::Postgres,
        SinkKind::Sftp,
    ] {
        let mut setup = Setup::new();
        setup.options.sink = kind;
        let rig = setup.start().await;
        let deployment = Deployment::of(&rig).await;
        let response = deployment.call("Create", None, &["a"]).await;
        assert_eq!(response["Status"], "SUCCESS", "{kind:?}: {response}");
        assert_eq!(response["RequestId"], "request");
        assert_eq!(response["StackId"], "arn:stack");
        assert_eq!(response["LogicalResourceId"], "CheckedDeployment");
        assert_eq!(deployment.invoked(), FUNCTIONS);
        rig.end().await;
    }
}

#[tokio::test]
async fn a_wrong_setting_rolls_a_deployment_back_with_its_reason_and_the_roll_back_is_not_checked()
{
    let rig = Setup::new().start().await;
    let deployment = Deployment::of(&rig).await;
    let id = deployment.succeeds("Create", None, &["a"]).await;
    deployment.invoked();

    let wrong = owned(&[("EVENT_ID", "json:a[")]);
    rig.stack.aggregator.redeploy(&wrong);
    let response = deployment.call("Update", Some(&id), &["b"]).await;
    assert_eq!(response["Status"], "FAILED", "{response}");
    // CloudFormation would delete the former.
    assert_eq!(response["PhysicalResourceId"], *id, "{response}");
    let reason = response["Reason"].as_str().expect("a failure has a reason");
    assert!(reason.contains("aggregator: "), "{reason}");
    let words = "`EVENT_ID`: wrong value: got `json:a[`";
    assert!(reason.contains(words), "{reason}");
    // A new role may not read the configuration file for some seconds, so it was tried again.
    assert!(deployment.invoked().len() > 3);

    // The aggregator is as wrong as before: whatever a roll back finds, it must not fail.
    let same = deployment.succeeds("Update", Some(&id), &["a"]).await;
    assert_eq!(same, id);
    deployment.succeeds("Delete", Some(&id), &["a"]).await;
    assert!(deployment.invoked().is_empty());

    let right = owned(&[("EVENT_ID", "json:id")]);
    rig.stack.aggregator.redeploy(&right);
    let other = deployment.succeeds("Update", Some(&id), &["c"]).await;
    assert_ne!(other, id);
    assert_eq!(deployment.invoked(), FUNCTIONS);

    // Something else in the stack fails after the check: CloudFormation rolls back with the present id.
    rig.stack.aggregator.redeploy(&wrong);
    deployment.succeeds("Update", Some(&other), &["a"]).await;
    assert!(deployment.invoked().is_empty());
    // Neither of the last two: it is checked.
    rig.stack.aggregator.redeploy(&right);
    deployment.succeeds("Update", Some(&other), &["d"]).await;
    assert_eq!(deployment.invoked(), FUNCTIONS);
    rig.stack.stop().await;
}

#[tokio::test]
async fn the_executable_of_a_sink_of_ones_own_checks_deployments_too() {
    let rig = Setup::new().start().await;
    let deployment = Deployment::by(&rig, bootstrap("examples/program")).await;
    deployment.succeeds("Create", None, &["a"]).await;
    assert_eq!(deployment.invoked(), FUNCTIONS);
    rig.end().await;
}

#[tokio::test]
async fn a_place_that_cannot_be_used_rolls_a_deployment_back_with_its_reason() {
    let rig = Setup::new().start().await;
    let deployment = Deployment::of(&rig).await;
    let elsewhere = owned(&[("SINK", "file:///proc/none")]);
    rig.stack.batch_processor.redeploy(&elsewhere);
    let response = deployment.call("Create", None, &["a"]).await;
    assert_eq!(response["Status"], "FAILED", "{response}");
    let reason = response["Reason"].as_str().expect("a failure has a reason");
    let words = "batch-processor: dry run: sink: ";
    assert!(reason.contains(words), "{reason}");
    assert!(reason.contains("`/proc/none`"), "{reason}");
    // New permissions take a while, so it was tried again.
    assert!(deployment.invoked().len() > 3);
    rig.stack.stop().await;
}

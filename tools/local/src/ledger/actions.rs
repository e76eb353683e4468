//! Derives from the functions' requests the actions and resources that IAM would check.

use std::str::FromStr;

use emulators::proxy::{Service, ServiceRequest, access_key};
use protocol::ids::BatchId;
use serde_json::Value;

/// An action of a function on a resource, in the words of IAM.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action {
    /// The function whose credentials signed the request.
    pub function: String,
    /// The service's prefix and the action: `dynamodb:Query`.
    pub action: String,
    /// `table`, `table/index/name`, the name of a queue, a bucket, `bucket/key`, or an ARN. In a key, a batch id and
    /// everything after it is replaced by `*`.
    pub resource: String,
}

/// Returns the actions of a request; none if no function signed it.
pub(crate) fn actions(service: Service, call: &ServiceRequest) -> Vec<Action> {
    let Some(function) = function(call) else {
        return Vec::new();
    };
    let asked = match service {
        Service::DynamoDb => of_tables(&call.operation, &call.body),
        Service::Sqs => of_queues(&call.operation, &call.body),
        Service::S3 => of_buckets(&call.operation, &call.path_and_query),
        Service::Http => of_other_services(call),
    };
    let asked = asked.into_iter();
    asked
        .map(|(action, resource)| Action {
            function: function.to_owned(),
            action,
            resource,
        })
        .collect()
}

/// Returns the function that signed a request. Its access key has the form `local.<function>.<environment>`.
pub(super) fn function(call: &ServiceRequest) -> Option<&str> {
    access_key(&call.headers)?
        .strip_prefix("local.")?
        .rsplit_once('.')
        .map(|(function, _)| function)
}

fn of_tables(operation: &str, body: &[u8]) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    match operation {
        "BatchExecuteStatement" => {
            let statements = body["Statements"].as_array().into_iter().flatten();
            let statements = statements.map(|each| statement(&text(&each["Statement"])));
            statements.collect()
        }
        "BatchGetItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten();
            let action = || "dynamodb:BatchGetItem".to_owned();
            tables.map(|(table, _)| (action(), table.clone())).collect()
        }
        _ => {
            let table = text(&body["TableName"]);
            let resource = match body["IndexName"].as_str() {
                Some(index) => format!("{table}/index/{index}"),
                None => table,
            };
            vec![(format!("dynamodb:{operation}"), resource)]
        }
    }
}

/// Returns the action and the table of a PartiQL statement. The table is the first name in double quotes.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-iam.html> (2026-11).
fn statement(statement: &str) -> (String, String) {
    let verb = statement.split_whitespace().next().unwrap_or_default();
    let (first, others) = verb.split_at(verb.len().min(1));
    let table = statement.split('"').nth(1).unwrap_or_default();
    let action = format!("dynamodb:PartiQL{first}{}", others.to_ascii_lowercase());
    (action, table.to_owned())
}

/// Returns the action and the queue of a request to SQS.
/// Source: <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html> (2026-11).
fn of_queues(operation: &str, body: &[u8]) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let url = body["QueueUrl"].as_str().or(body["QueueName"].as_str());
    let queue = url.and_then(|url| url.rsplit('/').next());
    let action = operation.strip_suffix("Batch").unwrap_or(operation);
    let queue = queue.unwrap_or_default().to_owned();
    vec![(format!("sqs:{action}"), queue)]
}

/// Returns the action and the resource of a request to S3.
/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html> (2026-11).
fn of_buckets(operation: &str, path_and_query: &str) -> Vec<(String, String)> {
    let split = path_and_query.split_once('?');
    let (path, query) = split.unwrap_or((path_and_query, ""));
    let action = match operation {
        "HeadObject" => "GetObject",
        _ if query.starts_with("lifecycle") => "GetLifecycleConfiguration",
        other => other,
    };
    let mut resource = Vec::new();
    for step in path.split('/').filter(|step| !step.is_empty()) {
        if BatchId::from_str(step).is_ok() {
            resource.push("*");
            break;
        }
        resource.push(step);
    }
    vec![(format!("s3:{action}"), resource.join("/"))]
}

/// Returns the actions of requests that go through the HTTP proxy: those to functions and state machines.
fn of_other_services(call: &ServiceRequest) -> Vec<(String, String)> {
    let target = call.headers.get("x-amz-target");
    let target = target.and_then(|target| target.to_str().ok());
    if let Some(operation) = target.and_then(|target| target.strip_prefix("AWSStepFunctions.")) {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let machine = body["stateMachineArn"].as_str().unwrap_or_default();
        return vec![(format!("states:{operation}"), machine.to_owned())];
    }
    let steps = call.path_and_query.split('/');
    let mut steps = steps.skip_while(|step| *step != "functions");
    match (steps.next(), steps.next(), steps.next()) {
        (Some(_), Some(function), Some("invocations")) => {
            let function = function.replace("%3A", ":");
            vec![("lambda:InvokeFunction".to_owned(), function)]
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue, Method, header};
    use serde_json::json;

    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    /// Returns the actions of a request of the aggregator, each as `action resource`.
    fn asked(service: Service, operation: &str, path: &str, body: &Value) -> Vec<String> {
        let mut headers = HeaderMap::new();
        let signed =
            "AWS4-HMAC-SHA256 Credential=local.aggregator.7/20260101/us-east-1/s/aws4_request";
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(signed));
        let call = ServiceRequest {
            operation: operation.to_owned(),
            method: Method::POST,
            path_and_query: path.to_owned(),
            headers,
            body: body.to_string().into(),
        };
        let actions = actions(service, &call).into_iter();
        let texts = actions.map(|each| {
            assert_eq!(each.function, "aggregator");
            format!("{} {}", each.action, each.resource)
        });
        texts.collect()
    }

    #[test]
    fn a_request_to_tables_asks_for_the_actions_that_iam_knows_it_by() {
        let asked = |operation, body: &Value| asked(Service::DynamoDb, operation, "/", body);
        let statement = |text: &str| json!({ "Statement": text });
        let statements = json!({ "Statements": [
            statement("INSERT INTO \"locks\" VALUE {}"),
            statement("UPDATE \"locks\" SET a = ?"),
        ]});
        let written = asked("BatchExecuteStatement", &statements);
        let (insert, update) = (
            "dynamodb:PartiQLInsert locks",
            "dynamodb:PartiQLUpdate locks",
        );
        assert_eq!(written, [insert, update]);
        let query = json!({ "TableName": "locks", "IndexName": "by-batch" });
        let queried = asked("Query", &query);
        assert_eq!(queried, ["dynamodb:Query locks/index/by-batch"]);
        let get = json!({ "RequestItems": { "locks": {} } });
        let got = asked("BatchGetItem", &get);
        assert_eq!(got, ["dynamodb:BatchGetItem locks"]);
    }

    #[test]
    fn a_request_to_a_queue_or_a_bucket_asks_for_the_action_that_iam_knows_it_by() {
        let send = json!({ "QueueUrl": "http://host/000000000000/batch-queue" });
        let sent = asked(Service::Sqs, "SendMessageBatch", "/", &send);
        assert_eq!(sent, ["sqs:SendMessage batch-queue"]);
        let bucket = |operation, path: &str| asked(Service::S3, operation, path, &Value::Null);
        let head = bucket("HeadObject", &format!("/out/a/{BATCH}/1.txt"));
        assert_eq!(head, ["s3:GetObject out/a/*"]);
        let lifecycle = bucket("ListObjectsV2", "/out?lifecycle");
        assert_eq!(lifecycle, ["s3:GetLifecycleConfiguration out"]);
        let other = asked(Service::Http, "POST", "/batches", &Value::Null);
        assert!(other.is_empty(), "{other:?}");
    }
}

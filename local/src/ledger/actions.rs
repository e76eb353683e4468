//! What IAM would be asked about the functions' requests: the action, and on what.

use std::str::FromStr;

use emulators::proxy::{Call, Service, access_key};
use protocol::ids::BatchId;
use serde_json::Value;

/// An action of a function, as IAM names it, on a resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Action {
    /// The function whose credentials signed the request.
    pub function: String,
    /// The service's prefix and the action: `dynamodb:Query`.
    pub action: String,
    /// `table`, `table/index/name`, the name of a queue, a bucket, `bucket/key`, or an ARN. Whatever in a key comes from a
    /// batch's id on is `*`.
    pub resource: String,
}

/// Returns the actions of a request; none for one that no function has signed.
pub(crate) fn actions(service: Service, call: &Call) -> Vec<Action> {
    let Some(function) = access_key(&call.headers).and_then(function_of) else {
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

/// Returns the function that an access key was given to: `local.<function>.<environment>`.
fn function_of(access_key: &str) -> Option<&str> {
    access_key
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

/// Returns the action of a PartiQL statement; the table is the first name in double quotes.
/// Source: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ql-iam.html> (2026-11).
fn statement(statement: &str) -> (String, String) {
    let verb = statement.split_whitespace().next().unwrap_or_default();
    let (first, others) = verb.split_at(verb.len().min(1));
    let table = statement.split('"').nth(1).unwrap_or_default();
    let action = format!("dynamodb:PartiQL{first}{}", others.to_ascii_lowercase());
    (action, table.to_owned())
}

/// Source: <https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonsqs.html> (2026-11).
fn of_queues(operation: &str, body: &[u8]) -> Vec<(String, String)> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let url = body["QueueUrl"].as_str().or(body["QueueName"].as_str());
    let queue = url
        .and_then(|url| url.rsplit('/').next())
        .unwrap_or_default();
    let action = operation.strip_suffix("Batch").unwrap_or(operation);
    vec![(format!("sqs:{action}"), queue.to_owned())]
}

/// Source: <https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html> (2026-11).
fn of_buckets(operation: &str, path_and_query: &str) -> Vec<(String, String)> {
    let (path, query) = path_and_query
        .split_once('?')
        .unwrap_or((path_and_query, ""));
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

/// The sinks that are called stand behind the proxy of HTTP.
fn of_other_services(call: &Call) -> Vec<(String, String)> {
    let body = || serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
    let target = call
        .headers
        .get("x-amz-target")
        .and_then(|target| target.to_str().ok());
    if let Some(operation) = target.and_then(|target| target.strip_prefix("AWSStepFunctions.")) {
        let machine = body()["stateMachineArn"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        return vec![(format!("states:{operation}"), machine)];
    }
    let mut steps = call
        .path_and_query
        .split('/')
        .skip_while(|step| *step != "functions");
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

    /// What a request of the aggregator comes to, each `action resource`.
    fn asked(service: Service, operation: &str, path: &str, body: &Value) -> Vec<String> {
        let mut headers = HeaderMap::new();
        let signed =
            "AWS4-HMAC-SHA256 Credential=local.aggregator.7/20260101/us-east-1/s/aws4_request";
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static(signed));
        let call = Call {
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
    fn a_request_asks_for_the_actions_that_iam_knows_it_by() {
        let statement = |text: &str| json!({ "Statement": text });
        let statements = json!({ "Statements": [
            statement("INSERT INTO \"locks\" VALUE {}"),
            statement("UPDATE \"locks\" SET a = ?"),
        ]});
        let (dynamodb, sqs, s3) = (Service::DynamoDb, Service::Sqs, Service::S3);
        let query = json!({ "TableName": "locks", "IndexName": "by-batch" });
        let get = json!({ "RequestItems": { "locks": {} } });
        let object = format!("/out/a/{BATCH}/1.txt");
        let send = json!({ "QueueUrl": "http://host/000000000000/batch-queue" });
        for (service, operation, path, body, expected) in [
            (
                dynamodb,
                "BatchExecuteStatement",
                "/",
                &statements,
                vec![
                    "dynamodb:PartiQLInsert locks",
                    "dynamodb:PartiQLUpdate locks",
                ],
            ),
            (
                dynamodb,
                "Query",
                "/",
                &query,
                vec!["dynamodb:Query locks/index/by-batch"],
            ),
            (
                dynamodb,
                "BatchGetItem",
                "/",
                &get,
                vec!["dynamodb:BatchGetItem locks"],
            ),
            (
                sqs,
                "SendMessageBatch",
                "/",
                &send,
                vec!["sqs:SendMessage batch-queue"],
            ),
            (
                s3,
                "HeadObject",
                &object,
                &Value::Null,
                vec!["s3:GetObject out/a/*"],
            ),
            (
                s3,
                "ListObjectsV2",
                "/out?lifecycle",
                &Value::Null,
                vec!["s3:GetLifecycleConfiguration out"],
            ),
            (Service::Http, "POST", "/batches", &Value::Null, vec![]),
        ] {
            assert_eq!(asked(service, operation, path, body), expected);
        }
    }
}

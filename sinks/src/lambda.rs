use std::collections::BTreeSet;

use async_trait::async_trait;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::primitives::Blob;
use aws_sdk_lambda::types::InvocationType;
use protocol::ids::Seq;
use serde_json::Value;
use tracing::info;

use crate::arn::{self, is_of_service};
use crate::endpoint::excerpt;
use crate::kind::{Kind, Make, RejectLists};
use crate::payload::{Payload, Payloads, SINK_PAYLOADS};
use crate::rejects::{SINK_REJECTS, store_rejects};
use crate::service::{call_failed, is_transient};
use crate::sink::{Receipt, Sink, SinkError};
use forms::Part;
use forms::{Reject, RejectReason};

/// The longest payload of a synchronous invocation. The service's error is "Request must be smaller than 6291456 bytes".
/// Source: <https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html> (2026-11).
const INVOKE_BYTES_MAX: usize = 6 * 1_024 * 1_024 - 1;

pub(crate) const KIND: Kind = Kind {
    name: "arn:…:lambda:…",
    is_named: |uri| is_of_service(uri, "lambda"),
    check: |uri| region_of(uri).map(|_| uri.to_owned()),
    reads: &[&SINK_REJECTS, &SINK_PAYLOADS],
    call_bytes_max: Some(INVOKE_BYTES_MAX),
    writes_rows: false,
    reject_lists: RejectLists::Store,
    read: |_, uri| {
        let arn = uri?.to_owned();
        let region = region_of(&arn).ok()?.to_owned();
        Some(Make::new(move |config, sdk| {
            let client = sdk.lambda(&region, config.timeout);
            Ok(LambdaSink::new(client, &arn, Payloads::new(sdk, config)))
        }))
    },
};

/// Returns the region in the ARN of a Lambda function.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html>, `FunctionName` (2026-11).
fn region_of(text: &str) -> Result<&str, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    arn::region(text, "lambda", "function", fits)
}

/// Invokes a function synchronously for each part. The payload is the same at every attempt and contains the part's key.
/// The function must ignore a key that it has processed already.
///
/// Any response without an error means that the function has the part, with two exceptions. `{"refused": "<reason>"}`
/// refuses the part permanently. `{"rejects": [{"seq": 3, "reason": "<reason>"}]}` takes the part except for the listed
/// records, which go to the reject list. That list is written once, so the function must return the same rejects for the
/// same part.
#[derive(Debug)]
pub struct LambdaSink {
    client: Client,
    arn: String,
    payloads: Payloads,
}

impl LambdaSink {
    /// Returns a sink that invokes the function `arn`. The client must be of the function's region and limit the time of an
    /// invocation.
    pub fn new(client: Client, arn: &str, payloads: Payloads) -> LambdaSink {
        LambdaSink {
            client,
            arn: arn.to_owned(),
            payloads,
        }
    }

    async fn invoke(&self, payload: Vec<u8>) -> Result<Vec<u8>, SinkError> {
        let sent = self
            .client
            .invoke()
            .function_name(&self.arn)
            .invocation_type(InvocationType::RequestResponse)
            .payload(Blob::new(payload))
            .send()
            .await;
        let output = sent.map_err(|error| call_failed(&self.arn, &error, may_pass))?;
        let response = output.payload.map(Blob::into_inner).unwrap_or_default();
        match output.function_error {
            // The function failed, or ran out of time or memory. A retry may succeed.
            Some(kind) => Err(SinkError::retryable(format!(
                "`{}`: function error `{kind}`: «{}»",
                self.arn,
                excerpt(&response)
            ))),
            None => Ok(response),
        }
    }

    /// Returns the records that the function rejects. `before` are the records that its payload did not contain.
    fn rejected(
        &self,
        part: &Part,
        before: &[Reject],
        response: &[u8],
    ) -> Result<Vec<Reject>, SinkError> {
        let permanent = |words: String| SinkError::permanent(format!("`{}` {words}", self.arn));
        let response: Value = serde_json::from_slice(response).unwrap_or(Value::Null);
        // Many languages write an unset field as null.
        let field = |name: &str| response.get(name).filter(|value| !value.is_null());
        if let Some(refused) = field("refused") {
            return Err(permanent(match refused.as_str() {
                Some(reason) => format!("refuses the part: «{}»", reason.escape_debug()),
                None => wrong_field("refused", refused, "a string"),
            }));
        }
        let Some(list) = field("rejects") else {
            return Ok(Vec::new());
        };
        let wrong = |value: &Value| permanent(wrong_field("rejects", value, REJECTS));
        let mut given: BTreeSet<Seq> = part.items.iter().map(|item| item.seq).collect();
        for reject in before {
            given.remove(&reject.seq);
        }
        let reject = |record: &Value| {
            let seq = record.get("seq").and_then(Value::as_u64);
            let reason = record.get("reason").and_then(Value::as_str);
            let (Some(seq), Some(reason)) = (seq, reason) else {
                return Err(wrong(record));
            };
            let known = Seq::try_from(seq).ok().filter(|seq| given.remove(seq));
            let item = known.and_then(|seq| part.item(seq)).ok_or_else(|| {
                permanent(format!(
                    "returns a wrong `rejects`: got seq `{seq}`, expected each seq to be in the payload and listed once"
                ))
            })?;
            let message = reason.to_owned();
            Ok(Reject::of(item, RejectReason::ByFunction { message }))
        };
        let records = list.as_array().ok_or_else(|| wrong(list))?;
        records.iter().map(reject).collect()
    }
}

#[async_trait]
impl Sink for LambdaSink {
    async fn dry_run(&self) -> Result<(), SinkError> {
        let invoke = self.client.invoke().function_name(&self.arn);
        let sent = invoke.invocation_type(InvocationType::DryRun).send().await;
        sent.map_err(|error| call_failed(&self.arn, &error, may_pass))?;
        self.payloads.dry_run().await
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let Payload {
            json,
            hash,
            mut rejects,
        } = self.payloads.payload(part, INVOKE_BYTES_MAX).await?;
        let response = self.invoke(json).await?;
        let more = self.rejected(part, &rejects, &response)?;
        rejects.extend(more);
        rejects.sort_by_key(|reject| reject.seq);
        // The list holds the rejects of the format and of the function, and is written once: so only after the invocation.
        store_rejects(self.payloads.rejects.as_ref(), part, &rejects).await?;
        let (items, rejected) = (part.items.len(), rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, "function invoked");
        Ok(Receipt::with_rejects(format!("blake3:{hash}"), &rejects))
    }
}

/// The expected form of `rejects`.
const REJECTS: &str = r#"a list of `{"seq": <number>, "reason": "<string>"}`"#;

fn wrong_field(name: &str, value: &Value, expected: &str) -> String {
    let value = excerpt(value.to_string().as_bytes());
    format!("returns a wrong `{name}`: got «{value}», expected {expected}")
}

/// Returns whether a retry may succeed after an error of Lambda.
/// Source: <https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html#API_Invoke_Errors> (2026-11).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // The function is in a state that it leaves by itself, a file system or network interface was not ready, or a hook
        // of the function failed.
        Some(
            "ResourceConflictException"
            | "ResourceNotReadyException"
            | "CodeArtifactUserPendingException"
            | "SnapStartNotReadyException"
            | "SnapStartRegenerationFailureException"
            | "SnapStartTimeoutException"
            | "SnapStartException"
            | "EFSIOException"
            | "EFSMountConnectivityException"
            | "EFSMountTimeoutException"
            | "S3FilesMountConnectivityException"
            | "S3FilesMountTimeoutException"
            | "ENINotReadyException",
        ) => true,
        Some(_) | None => status == Some(409) || is_transient(code, status),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::endpoint::EXCERPT_BYTES_MAX;
    use crate::payload::tests::payloads;
    use crate::rejects::RejectStore;
    use crate::stand_in::StandIn;
    use crate::tests_support::{BATCH, assert_has, part, refused};
    use forms::Format;

    const ARN: &str = "arn:aws:lambda:eu-west-1:123456789012:function:f:live";

    fn sink(lambda: &StandIn, format: Format, rejects: Option<&Path>) -> LambdaSink {
        let mut payloads = payloads(format, None);
        payloads.rejects = rejects.map(RejectStore::below);
        LambdaSink::new(lambda.lambda_client(), ARN, payloads)
    }

    #[tokio::test]
    async fn a_dry_run_asks_whether_the_function_may_be_invoked() {
        let lambda = StandIn::start().await;
        let sink = envelopes(&lambda);
        lambda.answer(204, "");
        sink.dry_run().await.unwrap();
        let request = lambda.requests().pop().unwrap();
        assert_eq!(request.headers["x-amz-invocation-type"], "DryRun");
        lambda.answer(403, "{}");
        let error = sink.dry_run().await.unwrap_err().to_string();
        assert!(error.contains(ARN), "{error}");
    }

    fn envelopes(lambda: &StandIn) -> LambdaSink {
        sink(lambda, Format::Envelope, None)
    }

    #[test]
    fn a_function_is_named_by_its_arn() {
        for wrong in ["arn:aws:lambda:eu-west-1:123456789012:function:f g", "f"] {
            let error = region_of(wrong).unwrap_err();
            assert!(error.contains("<region>:<account>"), "{error}");
        }
        assert_eq!(region_of(ARN), Ok("eu-west-1"));
    }

    #[tokio::test]
    async fn every_attempt_invokes_with_the_same_payload() {
        let lambda = StandIn::start().await;
        let sink = envelopes(&lambda);
        lambda.answer(503, "");
        sink.deliver(&part(2, &["a", "b"])).await.unwrap_err();
        lambda.answer(200, "null");
        let receipt = sink.deliver(&part(2, &["a", "b"])).await.unwrap();
        let [first, second] = &lambda.requests()[..] else {
            panic!("two requests");
        };
        assert_eq!(first.body, second.body);
        assert_eq!(second.method.as_str(), "POST");
        assert_eq!(second.headers["x-amz-invocation-type"], "RequestResponse");
        let path = format!(
            "/2015-03-31/functions/{}/invocations",
            ARN.replace(':', "%3A")
        );
        assert_eq!(second.path, path);
        let payload: Value = serde_json::from_slice(&second.body).unwrap();
        assert_eq!(payload["key"], format!("{BATCH}/2"));
        assert_eq!(payload["items"][1]["body"], "b");
        let hash = payload["hash"].as_str().unwrap();
        assert_eq!(receipt, Receipt::new(format!("blake3:{hash}")));
    }

    #[tokio::test]
    async fn a_part_too_large_for_an_invocation_is_an_object_that_the_payload_names() {
        let (lambda, s3) = (StandIn::start().await, StandIn::start().await);
        let body = "a".repeat(INVOKE_BYTES_MAX);
        let reason = refused(&envelopes(&lambda), &part(0, &[&body]), true).await;
        assert!(reason.contains("expected at most 6291455;"), "{reason}");
        let payloads = payloads(Format::Envelope, Some(&s3));
        let sink = LambdaSink::new(lambda.lambda_client(), ARN, payloads);
        sink.deliver(&part(0, &[&body])).await.unwrap();
        let [request] = &lambda.requests()[..] else {
            panic!("one request");
        };
        let payload: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(payload["object"]["bucket"], "bucket");
        let key = payload["object"]["key"].as_str().unwrap();
        let object = s3.object(&format!("/bucket/{key}")).unwrap();
        assert!(object.body.len() > INVOKE_BYTES_MAX);
    }

    #[tokio::test]
    async fn a_response_without_refused_or_rejects_means_that_the_function_has_the_part() {
        let lambda = StandIn::start().await;
        for answer in [
            "",
            "null",
            "no JSON",
            "[]",
            r#"["refused"]"#,
            r#""refused""#,
            r#"{"statusCode":200}"#,
            r#"{"refused":null,"rejects":null}"#,
            r#"{"rejects":[]}"#,
        ] {
            lambda.answer(200, answer);
            let receipt = envelopes(&lambda).deliver(&part(0, &["a"])).await;
            assert_eq!(receipt.unwrap().rejected.len(), 0, "{answer}");
        }
    }

    #[tokio::test]
    async fn rejects_of_the_function_and_of_the_format_are_in_one_list() {
        let lambda = StandIn::start().await;
        let directory = tempfile::tempdir().unwrap();
        let sink = sink(&lambda, Format::Body, Some(directory.path()));
        let part = part(0, &["a", "b\n", "c", "d"]);
        for _ in 0..2 {
            let answer = r#"{"rejects":[{"seq":3,"reason":"no \"d\""},{"seq":0,"reason":"no a"}]}"#;
            lambda.answer(200, answer);
            assert_eq!(sink.deliver(&part).await.unwrap().rejected.len(), 3);
        }
        let list = directory.path().join(format!("{BATCH}/0.rejects"));
        let list = std::fs::read_to_string(list).unwrap();
        let list: Vec<Value> = list
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let seqs: Vec<_> = list
            .iter()
            .map(|line| line["seq"].as_u64().unwrap())
            .collect();
        assert_eq!(seqs, [0, 1, 3]);
        assert_eq!(list[2]["reason"], "the function rejects it: no \"d\"");
        assert_eq!(list[2]["body"], "d");
    }

    #[tokio::test]
    async fn rejects_of_the_function_need_a_store_in_any_format() {
        let lambda = StandIn::start().await;
        lambda.answer(200, r#"{"rejects":[{"seq":0,"reason":"no"}]}"#);
        let reason = refused(&envelopes(&lambda), &part(0, &["a"]), true).await;
        assert!(reason.contains("`SINK_REJECTS` is not set"), "{reason}");
    }

    #[tokio::test]
    async fn a_refusal_or_a_malformed_response_is_permanent() {
        let directory = tempfile::tempdir().unwrap();
        for (answer, words) in [
            (r#"{"refused":"closed"}"#, "refuses the part: «closed»"),
            (r#"{"refused":"closed","rejects":[]}"#, "refuses the part"),
            (
                r#"{"refused":true}"#,
                "returns a wrong `refused`: got «true», expected a string",
            ),
            (
                r#"{"rejects":{"seq":0}}"#,
                "expected a list of `{\"seq\": <number>",
            ),
            (
                r#"{"rejects":[{"seq":"0","reason":"x"}]}"#,
                "returns a wrong `rejects`: got «{",
            ),
            (r#"{"rejects":[{"seq":0}]}"#, "wrong `rejects`: got «{"),
            (
                r#"{"rejects":[{"seq":9,"reason":"x"}]}"#,
                "wrong `rejects`: got seq `9`",
            ),
            (
                r#"{"rejects":[{"seq":4294967296,"reason":"x"}]}"#,
                "got seq `4294967296`",
            ),
            // The format rejected this record, so the payload does not contain it.
            (r#"{"rejects":[{"seq":1,"reason":"x"}]}"#, "got seq `1`"),
            (
                r#"{"rejects":[{"seq":0,"reason":"x"},{"seq":0,"reason":"x"}]}"#,
                "got seq `0`",
            ),
        ] {
            let lambda = StandIn::start().await;
            lambda.answer(200, answer);
            let sink = sink(&lambda, Format::Body, Some(directory.path()));
            let reason = refused(&sink, &part(0, &["a", "b\n"]), true).await;
            assert_has(&reason, &[words, ARN]);
        }
    }

    #[tokio::test]
    async fn an_error_of_the_function_is_retryable() {
        let lambda = StandIn::start().await;
        let answer = format!("{{\"errorMessage\":\"no\\n{}\"}}", "x".repeat(1_000));
        lambda.answer_with(200, &[("x-amz-function-error", "Unhandled")], &answer);
        let reason = refused(&envelopes(&lambda), &part(0, &["a"]), false).await;
        assert_has(&reason, &["function error `Unhandled`: «{"]);
        assert!(reason.len() < 3 * EXCERPT_BYTES_MAX, "{reason}");
    }

    #[tokio::test]
    async fn transient_errors_are_retryable_and_others_permanent() {
        for (status, code, permanent) in [
            (400, "InvalidParameterValueException", true),
            (400, "InvalidRequestContentException", true),
            (403, "AccessDeniedException", true),
            (404, "ResourceNotFoundException", true),
            (413, "RequestTooLargeException", true),
            (400, "ThrottlingException", false),
            (403, "ExpiredTokenException", false),
            (409, "ResourceConflictException", false),
            (410, "EFSIOException", false),
            (429, "TooManyRequestsException", false),
            (500, "ServiceException", false),
            (502, "ResourceNotReadyException", false),
            (502, "KMSInvalidStateException", false),
        ] {
            let lambda = StandIn::start().await;
            lambda.answer(
                status,
                &format!(r#"{{"__type":"{code}","message":"words"}}"#),
            );
            let reason = refused(&envelopes(&lambda), &part(0, &["a"]), permanent).await;
            let words = format!("`{ARN}`: HTTP status {status}: {code}: words");
            assert!(reason.contains(&words), "{reason}");
        }
    }
}

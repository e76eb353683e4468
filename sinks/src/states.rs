use async_trait::async_trait;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::ProvideErrorMetadata;
use tracing::info;

use crate::part::Part;
use crate::payload::{Payload, Payloads};
use crate::service::{is_of_the_moment, told};
use crate::sink::{Receipt, Sink, SinkError};

/// The input of an execution, in UTF-8.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
const INPUT_BYTES_MAX: usize = 262_144;
/// The name of an execution.
/// Source: same page.
const EXECUTION_NAME_CHARS_MAX: usize = 80;

// A UUID, a dash, and any number.
const _: () = assert!(36 + 1 + 20 <= EXECUTION_NAME_CHARS_MAX);

/// An execution of a state machine for each part, `<batchId>-<part>`. The part is delivered when its execution has
/// started; what becomes of the execution is the state machine's affair.
///
/// For STANDARD state machines only: they keep the names of executions, for 90 days after their end, so that every
/// part has one execution. An EXPRESS one does not; there each attempt is another execution.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
#[derive(Debug)]
pub struct StatesSink {
    client: Client,
    arn: String,
    payloads: Payloads,
}

impl StatesSink {
    /// Parts to a state machine; the client is one of its region, and says how long a start may take.
    pub fn new(client: Client, arn: &str, payloads: Payloads) -> StatesSink {
        StatesSink {
            client,
            arn: arn.to_owned(),
            payloads,
        }
    }

    /// Starts an execution; answers whether its name was taken.
    async fn start(&self, name: &str, input: String) -> Result<bool, SinkError> {
        let sent = self
            .client
            .start_execution()
            .state_machine_arn(&self.arn)
            .name(name)
            .input(input)
            .send()
            .await;
        match sent {
            // One that still runs with the same input is answered so, too.
            Ok(_) => Ok(false),
            // It has ended; or its input was another one because the configuration was, which is not known here.
            Err(error) if error.code() == Some("ExecutionAlreadyExists") => Ok(true),
            Err(error) => Err(told(&self.arn, &error, may_pass)),
        }
    }
}

#[async_trait]
impl Sink for StatesSink {
    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let Payload {
            json,
            hash,
            rejects,
        } = self.payloads.of(part, INPUT_BYTES_MAX).await?;
        self.payloads.keep(part, &rejects).await?;
        let input = String::from_utf8(json).map_err(|error| SinkError::Permanent {
            reason: format!("payload of part {}: {error}", part.key()),
        })?;
        let name = part.key().replace('/', "-");
        let repeated = self.start(&name, input).await?;
        let (items, rejected) = (part.items.len(), rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated, "execution started");
        Ok(Receipt {
            text: format!("execution {name}, blake3:{hash}"),
            rejected: rejected as u64,
        })
    }
}

/// Whether a start that Step Functions answered with an error may succeed later.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html#API_StartExecution_Errors>
/// (2026-11).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // Running executions end.
        Some("ExecutionLimitExceeded") => true,
        Some(_) | None => is_of_the_moment(code, status),
    }
}

#[cfg(feature = "http")]
#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::format::Format;
    use crate::payload::tests::payloads;
    use crate::rejects::RejectStore;
    use crate::stand_in::StandIn;
    use crate::tests_support::part;
    use crate::uri::SinkUri;

    const ARN: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:m";
    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";
    const STARTED: &str = r#"{"executionArn":"arn:e","startDate":1}"#;

    fn sink(states: &StandIn, format: Format) -> StatesSink {
        StatesSink::new(states.states_client(), ARN, payloads(format, None))
    }

    fn error(code: &str) -> String {
        format!(r#"{{"__type":"com.amazonaws.swf.service.v2.model#{code}","message":"words"}}"#)
    }

    fn parse(text: &str) -> Option<SinkUri> {
        text.parse().ok()
    }

    #[test]
    fn a_state_machine_is_named_by_its_arn() {
        let wrong = [
            format!("{ARN}/label"),
            format!("{ARN} "),
            ARN.replace(":m", ":"),
        ];
        assert_eq!(wrong.each_ref().map(|text| parse(text)), [None, None, None]);
        for text in [ARN.to_owned(), format!("{ARN}:live"), format!("{ARN}:1")] {
            let Some(SinkUri::States { arn, region }) = parse(&text) else {
                panic!("{text}");
            };
            assert_eq!((&*arn, &*region), (&*text, "eu-west-1"));
        }
    }

    #[tokio::test]
    async fn a_part_has_one_execution_however_often_it_is_started() {
        let states = StandIn::start().await;
        let sink = sink(&states, Format::Envelope);
        states.answer(503, "");
        sink.deliver(&part(2, &["a"])).await.unwrap_err();
        states.answer(200, STARTED);
        let first = sink.deliver(&part(2, &["a"])).await.unwrap();
        states.answer(400, &error("ExecutionAlreadyExists"));
        let again = sink.deliver(&part(2, &["a"])).await.unwrap();
        assert_eq!(first, again);
        let requests = states.requests();
        assert_eq!(requests.len(), 3);
        for request in &requests {
            assert_eq!(request.body, requests[0].body);
            assert_eq!(
                request.headers["x-amz-target"],
                "AWSStepFunctions.StartExecution"
            );
        }
        let request: Value = serde_json::from_slice(&requests[0].body).unwrap();
        assert_eq!(request["stateMachineArn"], ARN);
        assert_eq!(request["name"], format!("{BATCH}-2"));
        let input: Value = serde_json::from_str(request["input"].as_str().unwrap()).unwrap();
        assert_eq!(input["key"], format!("{BATCH}/2"));
        assert_eq!(input["items"][0]["body"], "a");
        let hash = input["hash"].as_str().unwrap();
        assert_eq!(first.text, format!("execution {BATCH}-2, blake3:{hash}"));
    }

    #[tokio::test]
    async fn a_part_that_no_input_can_carry_is_pointed_at() {
        let (states, s3) = (StandIn::start().await, StandIn::start().await);
        let body = "a".repeat(INPUT_BYTES_MAX);
        let error = sink(&states, Format::Envelope)
            .deliver(&part(0, &[&body]))
            .await;
        let Err(SinkError::Permanent { reason }) = error else {
            panic!("too large");
        };
        assert!(reason.contains("at most 262144 can be sent"), "{reason}");
        assert!(states.requests().is_empty());
        let payloads = payloads(Format::Envelope, Some(&s3));
        let sink = StatesSink::new(states.states_client(), ARN, payloads);
        states.answer(200, STARTED);
        sink.deliver(&part(0, &[&body])).await.unwrap();
        let key = format!("parts/{BATCH}/0.jsonl");
        assert!(s3.object(&format!("/bucket/{key}")).is_some());
        let request: Value = serde_json::from_slice(&states.requests()[0].body).unwrap();
        let input: Value = serde_json::from_str(request["input"].as_str().unwrap()).unwrap();
        assert_eq!(input["object"]["key"], key);
    }

    #[tokio::test]
    async fn rejects_are_kept_before_the_execution_starts() {
        let states = StandIn::start().await;
        let directory = tempfile::tempdir().unwrap();
        let mut sink = sink(&states, Format::Body);
        let error = sink.deliver(&part(0, &["a\n"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Permanent { .. }), "{error}");
        sink.payloads.rejects = Some(RejectStore::below(directory.path()));
        states.answer(200, STARTED);
        let receipt = sink.deliver(&part(0, &["a\n", "b"])).await.unwrap();
        assert_eq!(receipt.rejected, 1);
        assert!(directory.path().join(format!("{BATCH}/0.rejects")).exists());
        sink.deliver(&part(0, &["c\n"])).await.unwrap_err();
        let requests = states.requests().len();
        assert_eq!(requests, 1, "nothing is started under rejects that differ");
    }

    #[tokio::test]
    async fn errors_that_may_pass_are_told_from_those_that_will_not() {
        for (status, code, permanent) in [
            (400, "StateMachineDoesNotExist", true),
            (400, "StateMachineDeleting", true),
            (400, "InvalidName", true),
            (400, "AccessDeniedException", true),
            (400, "KmsAccessDeniedException", true),
            (400, "ExecutionLimitExceeded", false),
            (400, "ThrottlingException", false),
            (400, "KmsThrottlingException", false),
            (500, "InternalFailure", false),
            (503, "ServiceUnavailable", false),
        ] {
            let states = StandIn::start().await;
            states.answer(status, &error(code));
            let answer = sink(&states, Format::Envelope)
                .deliver(&part(0, &["a"]))
                .await;
            let reason = match answer.unwrap_err() {
                SinkError::Permanent { reason } if permanent => reason,
                SinkError::Retryable { reason } if !permanent => reason,
                other => panic!("{code}: {other}"),
            };
            let words = format!("`{ARN}`: HTTP status {status}: {code}: words");
            assert!(reason.contains(&words), "{reason}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_is_not_there_may_come_back() {
        let states = StandIn::start().await;
        let sink = sink(&states, Format::Envelope);
        states.stop().await;
        let error = sink.deliver(&part(0, &["a"])).await.unwrap_err();
        assert!(matches!(error, SinkError::Retryable { .. }), "{error}");
    }
}

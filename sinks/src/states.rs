use async_trait::async_trait;
use aws_sdk_sfn::Client;
use aws_sdk_sfn::error::ProvideErrorMetadata;
use tracing::info;

use crate::arn::{self, is_of_service};
use crate::kind::{Kind, Make, RejectLists};
use crate::payload::{Payload, Payloads, SINK_PAYLOADS};
use crate::rejects::{SINK_REJECTS, store_rejects};
use crate::service::{call_failed, is_transient};
use crate::sink::{Receipt, Sink, SinkError};
use forms::Part;

/// The longest input of an execution, in bytes of UTF-8.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
const INPUT_BYTES_MAX: usize = 262_144;
/// The longest name of an execution.
/// Source: same page.
const EXECUTION_NAME_CHARS_MAX: usize = 80;

// A name is a UUID, a dash and the number of the part.
const _: () = assert!(36 + 1 + 20 <= EXECUTION_NAME_CHARS_MAX);

pub(crate) const KIND: Kind = Kind {
    name: "arn:…:states:…",
    is_named: |uri| is_of_service(uri, "states"),
    check: |uri| region_of(uri).map(|_| uri.to_owned()),
    reads: &[&SINK_REJECTS, &SINK_PAYLOADS],
    call_bytes_max: Some(INPUT_BYTES_MAX),
    writes_rows: false,
    reject_lists: RejectLists::Store,
    read: |_, uri| {
        let arn = uri?.to_owned();
        let region = region_of(&arn).ok()?.to_owned();
        Some(Make::new(move |config, sdk| {
            let client = sdk.step_functions(&region, config.timeout);
            Ok(StatesSink::new(client, &arn, Payloads::new(sdk, config)))
        }))
    },
};

/// Returns the region in the ARN of a state machine.
fn region_of(text: &str) -> Result<&str, String> {
    // An ARN with a slash names a map state inside a state machine, which cannot be started.
    let fits =
        |c: char| !c.is_whitespace() && !c.is_control() && !"<>{}[]?*\"#%\\^|~`$&,;/".contains(c);
    arn::region(text, "states", "stateMachine", fits)
}

/// Starts an execution of a state machine for each part, named `<batchId>-<part>`. A part counts as delivered when its
/// execution has started; the sink does not look at the result of the execution.
///
/// Use a STANDARD state machine: it keeps the names of executions for 90 days after they end, so every part has one
/// execution. An EXPRESS state machine does not keep names, so each attempt would start another execution.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html> (2026-11).
#[derive(Debug)]
pub struct StatesSink {
    client: Client,
    arn: String,
    payloads: Payloads,
}

impl StatesSink {
    /// Returns a sink that starts executions of the state machine `arn`. The client must be of the state machine's region and
    /// limit the time of a call.
    pub fn new(client: Client, arn: &str, payloads: Payloads) -> StatesSink {
        StatesSink {
            client,
            arn: arn.to_owned(),
            payloads,
        }
    }

    /// Starts an execution; returns whether an earlier attempt had started it already.
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
            // Step Functions returns success as well if the same execution, with the same input, still runs.
            Ok(_) => Ok(false),
            // The execution has ended, or an earlier configuration gave it another input; the error does not say which.
            Err(error) if error.code() == Some("ExecutionAlreadyExists") => Ok(true),
            Err(error) => Err(call_failed(&self.arn, &error, may_pass)),
        }
    }
}

#[async_trait]
impl Sink for StatesSink {
    /// Starts an execution with an input that is no JSON, which Step Functions refuses.
    async fn dry_run(&self) -> Result<(), SinkError> {
        let start = self.client.start_execution().state_machine_arn(&self.arn);
        match start.input("{").send().await {
            Ok(_) => {}
            Err(error) if error.code() == Some("InvalidExecutionInput") => {}
            Err(error) => return Err(call_failed(&self.arn, &error, may_pass)),
        }
        self.payloads.dry_run().await
    }

    async fn deliver(&self, part: &Part) -> Result<Receipt, SinkError> {
        let Payload {
            json,
            hash,
            rejects,
        } = self.payloads.payload(part, INPUT_BYTES_MAX).await?;
        store_rejects(self.payloads.rejects.as_ref(), part, &rejects).await?;
        let input = String::from_utf8(json).map_err(|error| SinkError::Permanent {
            reason: format!("payload of part {}: {error}", part.key()),
        })?;
        let name = part.key().replace('/', "-");
        let repeated = self.start(&name, input).await?;
        let (items, rejected) = (part.items.len(), rejects.len());
        info!(part_key = part.key(), items_count = items, rejected_count = rejected, content_hash = %hash, repeated, "execution started");
        let text = format!("execution {name}, blake3:{hash}");
        Ok(Receipt::with_rejects(text, &rejects))
    }
}

/// Returns whether a retry may succeed after an error of Step Functions.
/// Source: <https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html#API_StartExecution_Errors>
/// (2026-11).
fn may_pass(code: Option<&str>, status: Option<u16>) -> bool {
    match code {
        // The number of running executions falls as they end.
        Some("ExecutionLimitExceeded") => true,
        Some(_) | None => is_transient(code, status),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::payload::tests::payloads;
    use crate::rejects::RejectStore;
    use crate::stand_in::StandIn;
    use crate::tests_support::{BATCH, part, refused};
    use forms::Format;

    const ARN: &str = "arn:aws:states:eu-west-1:123456789012:stateMachine:m";
    const STARTED: &str = r#"{"executionArn":"arn:e","startDate":1}"#;

    fn sink(states: &StandIn, format: Format) -> StatesSink {
        StatesSink::new(states.states_client(), ARN, payloads(format, None))
    }

    fn error(code: &str) -> String {
        format!(r#"{{"__type":"com.amazonaws.swf.service.v2.model#{code}","message":"words"}}"#)
    }

    #[test]
    fn a_state_machine_is_named_by_its_arn() {
        let wrong = [
            format!("{ARN}/label"),
            format!("{ARN} "),
            ARN.replace(":m", ":"),
        ];
        for wrong in wrong {
            let error = region_of(&wrong).unwrap_err();
            assert!(error.contains("<region>:<account>"), "{error}");
        }
        for text in [ARN.to_owned(), format!("{ARN}:live"), format!("{ARN}:1")] {
            assert_eq!(region_of(&text), Ok("eu-west-1"));
        }
    }

    #[tokio::test]
    async fn a_dry_run_starts_an_execution_that_is_refused_for_its_input_alone() {
        let states = StandIn::start().await;
        let sink = sink(&states, Format::Envelope);
        states.answer(400, &error("InvalidExecutionInput"));
        sink.dry_run().await.unwrap();
        let request: Value =
            serde_json::from_slice(&states.requests().pop().unwrap().body).unwrap();
        assert_eq!(request["input"], "{");
        for code in ["StateMachineDoesNotExist", "AccessDeniedException"] {
            states.answer(400, &error(code));
            let error = sink.dry_run().await.unwrap_err().to_string();
            assert!(error.contains(code), "{error}");
        }
    }

    #[tokio::test]
    async fn a_part_has_one_execution_after_several_attempts() {
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
    async fn a_part_too_large_for_an_input_is_an_object_that_the_input_names() {
        let (states, s3) = (StandIn::start().await, StandIn::start().await);
        let body = "a".repeat(INPUT_BYTES_MAX);
        let inline = sink(&states, Format::Envelope);
        let reason = refused(&inline, &part(0, &[&body]), true).await;
        assert!(reason.contains("expected at most 262144;"), "{reason}");
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
    async fn rejects_are_stored_before_the_execution_starts() {
        let states = StandIn::start().await;
        let directory = tempfile::tempdir().unwrap();
        let mut sink = sink(&states, Format::Body);
        refused(&sink, &part(0, &["a\n"]), true).await;
        sink.payloads.rejects = Some(RejectStore::below(directory.path()));
        states.answer(200, STARTED);
        let receipt = sink.deliver(&part(0, &["a\n", "b"])).await.unwrap();
        assert_eq!(receipt.rejected.len(), 1);
        assert!(directory.path().join(format!("{BATCH}/0.rejects")).exists());
        sink.deliver(&part(0, &["c\n"])).await.unwrap_err();
        let requests = states.requests().len();
        assert_eq!(
            requests, 1,
            "no execution starts if the stored rejects differ"
        );
    }

    #[tokio::test]
    async fn transient_errors_are_retryable_and_others_permanent() {
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
            let sink = sink(&states, Format::Envelope);
            let reason = refused(&sink, &part(0, &["a"]), permanent).await;
            let words = format!("`{ARN}`: HTTP status {status}: {code}: words");
            assert!(reason.contains(&words), "{reason}");
        }
    }
}

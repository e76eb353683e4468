//! The ticket: the message on the batch queue that says "process batch B".

use serde::{Deserialize, Serialize};

use protocol::batch::OperatorDecision;
use protocol::ids::{BatchId, SourceArn};

/// Why a ticket was sent. A hint for people and for one decision: only an operator's word reopens a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketReason {
    /// Sent when the batch was opened, delayed until its window closes.
    Window,
    /// The batch gets no further claims.
    Sealed,
    /// Look once more for stragglers before calling it complete.
    Verify,
    /// Something should have happened by now.
    Sweep,
    /// An operator wants a batch in error tried again.
    Operator,
    /// An operator wants what is undelivered of a batch in error sent to the quarantine, and the batch ended.
    Quarantine,
}

/// What an operator accepts, who wants a batch in error tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accepted {
    /// That a part which was frozen for another sink, and may have reached it, goes to the sink of now.
    NewSink,
}

/// "Process batch B": `{"batchId":"<uuid>"}`, and what may help the reader. The batch table is the truth.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    /// The batch.
    pub batch_id: BatchId,
    /// Where its events came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceArn>,
    /// How many shards its index entries have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
    /// Why it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TicketReason>,
    /// What an operator accepts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accepted>,
}

/// A message on the batch queue that is no ticket.
#[derive(Debug, thiserror::Error)]
#[error(
    "ticket `{body}` is malformed, expected `{{\"batchId\":\"<uuid>\"}}` with optional source, shards, \
     reason (window, sealed, verify, sweep, operator or quarantine) and accept (new-sink)"
)]
pub struct TicketError {
    /// The beginning of what was received.
    pub body: String,
    #[source]
    source: serde_json::Error,
}

impl Ticket {
    /// A ticket with a reason and no hints.
    pub fn new(batch_id: BatchId, reason: TicketReason) -> Ticket {
        Ticket {
            batch_id,
            source: None,
            shards: None,
            reason: Some(reason),
            accept: None,
        }
    }

    /// Returns what an operator says with it, if one sent it.
    pub fn operator(&self) -> Option<OperatorDecision> {
        match self.reason? {
            TicketReason::Operator => Some(match self.accept {
                Some(Accepted::NewSink) => OperatorDecision::AcceptSink,
                None => OperatorDecision::Retry,
            }),
            TicketReason::Quarantine => Some(OperatorDecision::Quarantine),
            TicketReason::Window
            | TicketReason::Sealed
            | TicketReason::Verify
            | TicketReason::Sweep => None,
        }
    }

    /// The message body.
    pub fn to_body(&self) -> String {
        serde_json::to_string(self).expect("a ticket has only strings and numbers")
    }

    /// Reads a message body.
    ///
    /// # Errors
    /// [`TicketError`] when it is no ticket; trying again cannot help.
    pub fn from_body(body: &str) -> Result<Ticket, TicketError> {
        serde_json::from_str(body).map_err(|source| TicketError {
            body: body.chars().take(200).collect(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BATCH: &str = "0190163d-8694-739b-aea5-966c26f8ad91";

    #[test]
    fn a_batch_id_alone_is_a_ticket() {
        let ticket =
            Ticket::from_body(&format!(r#"{{"batchId":"{BATCH}","later":"field"}}"#)).unwrap();
        assert_eq!(ticket.batch_id.to_string(), BATCH);
        assert_eq!(ticket.reason, None);
    }

    #[test]
    fn a_ticket_reads_back_what_it_wrote() {
        let ticket = Ticket {
            batch_id: BATCH.parse().unwrap(),
            source: Some("arn:aws:sqs:eu-west-1:1:q".parse().unwrap()),
            shards: Some(10),
            reason: Some(TicketReason::Operator),
            accept: Some(Accepted::NewSink),
        };
        assert!(
            ticket
                .to_body()
                .ends_with(r#""reason":"operator","accept":"new-sink"}"#)
        );
        assert_eq!(Ticket::from_body(&ticket.to_body()).unwrap(), ticket);
    }

    fn tickets() -> impl Strategy<Value = Ticket> {
        let reason = prop::sample::select(vec![
            TicketReason::Window,
            TicketReason::Sealed,
            TicketReason::Verify,
            TicketReason::Sweep,
            TicketReason::Operator,
            TicketReason::Quarantine,
        ]);
        let accept = prop::option::of(Just(Accepted::NewSink));
        let source = "\\PC{1,40}".prop_map(|text| SourceArn::try_from(text).unwrap());
        let (source, reason) = (prop::option::of(source), prop::option::of(reason));
        (any::<u128>(), source, any::<Option<u16>>(), reason, accept).prop_map(
            |(batch, source, shards, reason, accept)| Ticket {
                batch_id: BatchId::new(uuid::Uuid::from_u128(batch)),
                source,
                shards,
                reason,
                accept,
            },
        )
    }

    proptest! {
        #[test]
        fn any_ticket_reads_back_as_what_was_written(ticket in tickets()) {
            prop_assert_eq!(Ticket::from_body(&ticket.to_body()).unwrap(), ticket);
        }

        #[test]
        fn a_ticket_with_any_one_byte_wrong_is_read_or_refused_but_never_a_panic(
            ticket in tickets(), at in any::<prop::sample::Index>(), byte in 0..128_u8,
        ) {
            let mut body = ticket.to_body().into_bytes();
            *at.get_mut(&mut body) = byte;
            if let Ok(body) = String::from_utf8(body) {
                let _ = Ticket::from_body(&body);
            }
        }
    }

    #[test]
    fn a_malformed_ticket_is_named_with_what_is_allowed() {
        for body in [
            "",
            "null",
            "{}",
            r#"{"batchId":"x"}"#,
            r#"{"batchId":7}"#,
            "not json",
        ] {
            let error = Ticket::from_body(body).unwrap_err().to_string();
            assert!(
                error.contains(&format!("`{body}`")) && error.contains("batchId"),
                "{error}"
            );
        }
    }
}

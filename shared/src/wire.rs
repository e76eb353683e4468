//! The ticket: the message on the batch queue that says "process batch B".

use serde::{Deserialize, Serialize};

use protocol::batch::OperatorDecision;
use protocol::format_version::{LaterFormat, Versioned};
use protocol::ids::{BatchId, SourceArn};

use crate::traces::Links;

/// Why a ticket was sent. It informs people, and only an operator's ticket takes the lease of a batch in error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TicketReason {
    /// The ticket was sent when the batch was opened, delayed until its window ends.
    Window,
    /// The batch is sealed.
    Sealed,
    /// The batch must be looked at again: before it completes, or because a part of it waits for its number.
    Verify,
    /// The batch is past its due time.
    Sweep,
    /// An operator wants a batch in error to be tried again.
    Operator,
    /// The undelivered events of a batch in error are to go to the quarantine. An operator sends it, or the sweep.
    Quarantine,
}

/// A risk that an operator accepts when a batch in error is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accepted {
    /// The frozen part goes to the present sink, although the sink it was frozen for may have it.
    NewSink,
}

/// "Process batch B": `{"batchId":"<uuid>"}` and hints. The state of the batch is in the batch table only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ticket {
    pub batch_id: BatchId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceArn>,
    /// Number of index shards of the batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<TicketReason>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accepted>,
    /// Whether the ticket was sent before the record of its batch, which may not come any more: then the ticket is for nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ahead: bool,
    /// Spans that the work on the ticket follows from. No decision depends on them.
    #[cfg_attr(
        feature = "full",
        serde(default, skip_serializing_if = "Links::is_empty")
    )]
    #[cfg_attr(not(feature = "full"), serde(skip))]
    pub traces: Links,
}

/// A message on the batch queue that cannot be read as a ticket.
#[derive(Debug, thiserror::Error)]
pub enum TicketError {
    #[error(
        "ticket: malformed: got «{body}», expected `{{\"batchId\":\"<uuid>\"}}` with optional source, shards, \
         reason (window, sealed, verify, sweep, operator or quarantine) and accept (new-sink)"
    )]
    Malformed {
        /// The first 200 characters of the message.
        body: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("ticket: {0}")]
    Later(#[from] LaterFormat),
}

impl Ticket {
    /// Returns a ticket with a reason and no hints.
    pub fn new(batch_id: BatchId, reason: TicketReason) -> Ticket {
        Ticket {
            batch_id,
            source: None,
            shards: None,
            reason: Some(reason),
            accept: None,
            is_ahead: false,
            traces: Links::default(),
        }
    }

    /// Returns the operator's decision, if an operator sent the ticket.
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

    /// Returns the message body.
    pub fn to_body(&self) -> String {
        serde_json::to_string(self).expect("a ticket has only strings and numbers")
    }

    /// Reads a message body.
    ///
    /// # Errors
    /// The body is no ticket, so a retry cannot succeed; or a later version of the service has sent it.
    pub fn from_body(body: &str) -> Result<Ticket, TicketError> {
        let malformed = |source| TicketError::Malformed {
            body: body.chars().take(200).collect(),
            source,
        };
        let versioned: Versioned = serde_json::from_str(body).map_err(malformed)?;
        versioned.check()?;
        serde_json::from_str(body).map_err(malformed)
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
    fn a_ticket_is_written_without_the_fields_that_it_lacks() {
        let ticket = Ticket {
            accept: Some(Accepted::NewSink),
            ..Ticket::new(BATCH.parse().unwrap(), TicketReason::Operator)
        };
        let body = format!(r#"{{"batchId":"{BATCH}","reason":"operator","accept":"new-sink"}}"#);
        assert_eq!(ticket.to_body(), body);
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
        let hints = (any::<Option<u16>>(), any::<bool>());
        (any::<u128>(), source, hints, reason, accept).prop_map(
            |(batch, source, (shards, is_ahead), reason, accept)| Ticket {
                batch_id: BatchId::new(uuid::Uuid::from_u128(batch)),
                source,
                shards,
                reason,
                accept,
                is_ahead,
                traces: Links::default(),
            },
        )
    }

    proptest! {
        #[test]
        fn any_ticket_reads_back_as_it_was_written(ticket in tickets()) {
            prop_assert_eq!(Ticket::from_body(&ticket.to_body()).unwrap(), ticket);
        }

        #[test]
        fn a_ticket_with_one_wrong_byte_never_causes_a_panic(
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
    fn a_ticket_of_a_later_version_is_refused_whatever_else_it_says() {
        for body in [
            format!(r#"{{"batchId":"{BATCH}","formatVersion":3}}"#),
            r#"{"batches":["a"],"formatVersion":3}"#.to_owned(),
        ] {
            let error = Ticket::from_body(&body).unwrap_err().to_string();
            assert!(
                error.starts_with("ticket: written by a later version of the service: got `3`"),
                "{error}"
            );
        }
        let present = format!(r#"{{"batchId":"{BATCH}","formatVersion":1}}"#);
        assert!(Ticket::from_body(&present).is_ok());
    }

    #[test]
    fn the_error_of_a_malformed_ticket_has_its_text_and_what_is_expected() {
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
                error.contains(&format!("«{body}»")) && error.contains("batchId"),
                "{error}"
            );
        }
    }
}

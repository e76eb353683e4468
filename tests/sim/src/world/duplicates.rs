//! The queue that gets reports of dropped duplicates.

use protocol::claim::DuplicateRule;
use protocol::ids::SqsMessageId;
use protocol::invariants::Check;
use serde_json::Value;
use shared::ports::{PortError, Quarantined};

use super::World;
use crate::checks;
use crate::ledger::{Occurrence, Sent};
use crate::request_outcome::{throttled, unanswered};

impl World {
    /// Reports of duplicates arrive.
    pub fn duplicates_reported(&mut self, reports: &[Quarantined]) -> Vec<Result<(), PortError>> {
        reports
            .iter()
            .map(|one| self.duplicate_reported(one))
            .collect()
    }

    fn duplicate_reported(&mut self, report: &Quarantined) -> Result<(), PortError> {
        let faults = self.plan.faults.clone();
        if self.strikes(faults.throttle_member) {
            return Err(throttled());
        }
        let message = &report.sqs_message_id;
        self.note("duplicate reported", || message.to_string());
        let body: Value = serde_json::from_str(&report.body).unwrap_or_default();
        let named = body["claimedBy"].as_str();
        let named: Option<SqsMessageId> = named.and_then(|id| id.parse().ok());
        let sent = self.ledger.message(message).cloned();
        let claims = sent.map(|sent| self.claims_of_event(&sent).to_vec());
        self.check(checks::p8_a_report_names_who_claimed(
            message,
            named.as_ref(),
            &claims.unwrap_or_default(),
        ));
        self.ledger.reported_duplicates.insert(message.clone());
        match self.strikes(faults.unknown_member) {
            true => Err(unanswered()),
            false => Ok(()),
        }
    }

    /// Checks that every duplicate which was dropped was reported, if that was so in the whole history.
    pub fn dropped_are_reported(&self) -> Vec<Check> {
        let plan = &self.plan;
        if !plan.reports_duplicates || plan.ever(DuplicateRule::Requeue) {
            return Vec::new();
        }
        let messages = self.ledger.messages.iter();
        messages
            .map(|message| {
                checks::p8_a_dropped_duplicate_is_reported(
                    message,
                    self.claims_of_event(message),
                    self.ledger
                        .reported_duplicates
                        .contains(&message.sqs_message_id),
                )
            })
            .collect()
    }

    fn claims_of_event(&self, message: &Sent) -> &[Occurrence] {
        let id = message.event_id.as_ref();
        let claims = id.and_then(|id| self.ledger.occurrences.get(id));
        claims.map_or(&[], Vec::as_slice)
    }
}

//! The contracts of the ports: every claim here holds for the fakes in memory and for the adapters to AWS alike, the
//! latter over HTTP against an embedded DynamoDB and SQS. The fakes are thereby what the simulation may take them for.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has nobody to tell but the test"
)]

mod batch_equivalence;
mod batch_store;
mod clients;
mod dynamo;
mod errors;
mod events;
mod lock_reads;
mod lock_store;
mod malformed;
mod overflow;
mod postgres;
mod queues;
mod scripted;

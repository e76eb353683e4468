//! The contracts of the ports. Every test runs on the fakes in memory and on the adapters to AWS, which talk over HTTP
//! to an embedded DynamoDB and SQS. So the simulation may use the fakes in place of the adapters.

#![expect(
    clippy::unwrap_used,
    reason = "a failure of a helper must fail its test"
)]

mod batch_catalogue;
mod batch_equivalence;
mod batch_store;
mod chunk_claims;
mod clients;
mod dynamo;
mod errors;
mod events;
mod lists;
mod lock_reads;
mod lock_store;
mod malformed;
mod named_items;
mod notices;
mod object_store;
mod overflow;
mod parts;
mod postgres;
mod queues;
mod scripted;
mod sftp;
mod source_queues;
mod tombstones;

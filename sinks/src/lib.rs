//! Where batches go: the trait [`Sink`], and the built-in sinks.
//!
//! To deliver elsewhere, implement [`Sink`] and give it to the batch processor.

#![warn(missing_docs)]
#![cfg_attr(
    not(feature = "full"),
    allow(
        dead_code,
        reason = "only the sinks of the full build use some of what sinks share"
    )
)]

#[cfg(feature = "full")]
mod address;
mod answers;
#[cfg(feature = "full")]
mod arn;
mod built_in;
pub mod columns_source;
mod config;
mod endpoint;
mod file;
mod http;
mod kind;
#[cfg(feature = "full")]
mod lambda;
mod log;
mod manifest;
mod manifests;
#[cfg(feature = "full")]
mod payload;
mod place;
#[cfg(feature = "full")]
mod postgres;
mod rejects;
#[cfg(feature = "full")]
mod s3;
mod secret;
#[cfg(feature = "full")]
mod service;
#[cfg(feature = "full")]
mod sftp;
mod sink;
#[cfg(test)]
pub(crate) mod stand_in;
#[cfg(feature = "full")]
mod states;
mod store;
#[cfg(test)]
pub(crate) mod tests_support;

pub use answers::{AnswerName, AnswerPlace, AnswersConfig, AnswersFrom};
pub use async_trait::async_trait;
pub use built_in::{BuiltInSink, SINK, answer_place, own_settings, reject_store};
pub use file::FileSink;
pub use forms::{
    Answer, AnswerForm, AnswerLine, Column, Columns, ColumnsError, Compression, Encoding,
    FixedColumn, Format, Layout, LineEnd, Named, ParquetFormat, Part, PartName, PathTemplate,
    Reject, RejectReason, Rendering, Template, Zone, chain, content_hash, directory_of,
    events_name, merkle, percent_encoded, write_rejects,
};
pub use http::HttpSink;
pub use kind::SinkConfig;
pub use log::LogSink;
pub use manifests::ManifestStore;
pub use place::FilePlace;
pub use rejects::RejectStore;
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
pub use sink::{Receipt, Sink, SinkError};

#[cfg(feature = "full")]
pub use {
    address::Address,
    lambda::LambdaSink,
    payload::Payloads,
    place::BucketPlace,
    postgres::{Database, PostgresSink, TableName},
    s3::S3Sink,
    sftp::{HostKeys, LoginSource, SftpServer, SftpSink},
    states::StatesSink,
};

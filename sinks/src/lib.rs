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
#[cfg(feature = "full")]
mod arn;
mod built_in;
mod columns;
pub mod columns_source;
mod compression;
mod config;
mod csv;
mod dates;
mod directory;
mod encoding;
mod endpoint;
mod file;
mod format;
mod http;
mod kind;
#[cfg(feature = "full")]
mod lambda;
mod layout;
mod log;
mod manifest;
#[cfg_attr(not(feature = "full"), path = "no_parquet.rs")]
mod parquet;
mod part;
mod paths;
#[cfg(feature = "full")]
mod payload;
mod place;
#[cfg(feature = "full")]
mod postgres;
mod reject;
mod rejects;
mod rendering;
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
mod template;
#[cfg(test)]
pub(crate) mod tests_support;
mod totals;

pub use async_trait::async_trait;
pub use built_in::{BuiltInSink, SINK, own_settings, reject_store};
pub use columns::{Column, Columns, ColumnsError, FixedColumn};
pub use compression::Compression;
pub use dates::Zone;
pub use directory::directory_of;
pub use encoding::{Encoding, LineEnd};
pub use file::FileSink;
pub use format::{Format, write_rejects};
pub use http::HttpSink;
pub use kind::SinkConfig;
pub use layout::Layout;
pub use log::LogSink;
pub use parquet::ParquetFormat;
pub use part::{Part, content_hash};
pub use paths::PathTemplate;
pub use place::FilePlace;
pub use reject::{Reject, RejectReason};
pub use rejects::RejectStore;
pub use rendering::Rendering;
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
pub use sink::{Receipt, Sink, SinkError};
pub use template::Template;

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

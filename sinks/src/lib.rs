//! Where batches go: the trait [`Sink`], and the built-in sinks.
//!
//! To deliver elsewhere, implement [`Sink`] and give it to the batch processor.

#![warn(missing_docs)]

mod address;
mod arn;
mod built_in;
mod columns;
pub mod columns_source;
mod compression;
pub mod config;
mod csv;
mod dates;
mod directory;
mod encoding;
mod endpoint;
mod file;
mod format;
mod headers;
mod http;
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
mod places;
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
#[cfg(feature = "full")]
mod store;
mod template;
#[cfg(test)]
pub(crate) mod tests_support;
mod totals;
mod uri;

pub use address::Address;
pub use async_trait::async_trait;
pub use built_in::BuiltInSink;
pub use columns::{Column, Columns, ColumnsError, FixedColumn};
pub use compression::Compression;
pub use config::SinkConfig;
pub use dates::Zone;
pub use directory::directory_of;
pub use encoding::{Encoding, LineEnd};
pub use file::FileSink;
pub use format::{Format, write_rejects};
pub use http::HttpSink;
pub use layout::Layout;
pub use log::LogSink;
pub use parquet::ParquetFormat;
pub use part::{Part, content_hash};
pub use paths::PathTemplate;
pub use reject::{Reject, RejectReason};
pub use rejects::RejectStore;
pub use rendering::Rendering;
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
pub use sink::{Receipt, Sink, SinkError};
pub use template::Template;
pub use uri::{SinkKind, SinkUri};

#[cfg(feature = "full")]
pub use {
    lambda::LambdaSink,
    payload::Payloads,
    postgres::{Database, PostgresSink, TableName},
    s3::S3Sink,
    sftp::{HostKeys, LoginSource, SftpServer, SftpSink},
    states::StatesSink,
};

//! Where batches go: the trait [`Sink`], and the built-in sinks.
//!
//! To deliver elsewhere, implement [`Sink`] and give it to the batch processor.

#![warn(missing_docs)]

#[cfg(any(feature = "lambda", feature = "states"))]
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
#[cfg(feature = "http")]
mod headers;
#[cfg(feature = "http")]
mod http;
mod in_build;
#[cfg(feature = "lambda")]
mod lambda;
mod layout;
mod log;
mod manifest;
mod parquet;
mod part;
mod paths;
#[cfg(any(feature = "lambda", feature = "states"))]
mod payload;
mod places;
#[cfg(feature = "postgres")]
mod postgres;
mod reject;
#[cfg(any(feature = "http", feature = "lambda", feature = "states"))]
mod rejects;
mod rendering;
#[cfg(feature = "s3")]
mod s3;
#[cfg(feature = "http")]
mod secret;
#[cfg(feature = "s3")]
mod service;
#[cfg(feature = "sftp")]
mod sftp;
mod sink;
#[cfg(feature = "http")]
#[cfg(test)]
pub(crate) mod stand_in;
#[cfg(feature = "states")]
mod states;
#[cfg(any(feature = "s3", feature = "sftp"))]
mod store;
mod template;
#[cfg(test)]
pub(crate) mod tests_support;
mod totals;
mod uri;

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
#[cfg(feature = "http")]
pub use http::HttpSink;
#[cfg(feature = "lambda")]
pub use lambda::LambdaSink;
pub use layout::Layout;
pub use log::LogSink;
pub use parquet::ParquetFormat;
pub use part::{Part, content_hash};
pub use paths::PathTemplate;
#[cfg(any(feature = "lambda", feature = "states"))]
pub use payload::Payloads;
#[cfg(feature = "postgres")]
pub use postgres::{Database, PostgresSink, TableName};
pub use reject::{Reject, RejectReason};
#[cfg(any(feature = "http", feature = "lambda", feature = "states"))]
pub use rejects::RejectStore;
pub use rendering::Rendering;
#[cfg(feature = "s3")]
pub use s3::S3Sink;
#[cfg(feature = "http")]
pub use secret::{Secret, SecretConfig, SecretHeader, SecretName, SecretReader};
#[cfg(feature = "sftp")]
pub use sftp::{Address, HostKeys, LoginSource, SftpServer, SftpSink};
pub use sink::{Receipt, Sink, SinkError};
#[cfg(feature = "states")]
pub use states::StatesSink;
pub use template::Template;
pub use uri::{SinkKind, SinkUri};

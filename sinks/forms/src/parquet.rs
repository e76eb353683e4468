//! Parts as Parquet files, with the columns of `SINK_COLUMNS`.
//!
//! The crate `parquet` writes the file. All its properties are set here and nothing depends on the time, so the same part gives the
//! same bytes at every attempt. Another version of the crate, or of zstd, may write the same records differently: a test compares
//! with bytes of the version in `Cargo.toml`.

use std::io::{self, Write};
use std::sync::Arc;

use crate::columns::{Body, Column, ColumnKind};
use crate::compression::Compression;
use crate::part::Part;
use crate::reject::{Reject, RejectReason};
use ::parquet::{
    basic::{self, LogicalType, Repetition, TimeUnit, ZstdLevel},
    data_type::{ByteArray, ByteArrayType, Int64Type},
    errors::ParquetError,
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
    file::writer::SerializedFileWriter,
    schema::types::{Type, TypePtr},
};
use shared::ports::StoredEvent;

/// How many bytes of values are collected before they are written as a row group. It bounds the memory.
const ROW_GROUP_BYTES: usize = 16 << 20;
/// Approximate memory of a value beside its text, in bytes.
const VALUE_BYTES: usize = 48;
/// The name of the program that wrote the file. Without a version, because the bytes must not change with it.
const CREATED_BY: &str = "unique-event-batch-aggregator";

/// The columns of a Parquet file, and how they are compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParquetFormat {
    columns: Arc<[Column]>,
    compression: Compression,
}

impl ParquetFormat {
    /// Returns the format with these columns. `compression` is that of the pages in the file: none or zstd.
    ///
    /// # Errors
    /// The compression is `gzip`, or the columns make no schema.
    pub fn new(columns: Arc<[Column]>, compression: Compression) -> Result<ParquetFormat, String> {
        if compression == Compression::Gzip {
            return Err(
                "`gzip` cannot compress inside the file, expected `none` or `zstd`".to_owned(),
            );
        }
        let format = ParquetFormat {
            columns,
            compression,
        };
        format.schema().map_err(|error| error.to_string())?;
        Ok(format)
    }

    /// Returns the columns of a file.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Writes a file with the records of a part; returns the records that do not fit the columns.
    ///
    /// # Errors
    /// The writer failed.
    pub(crate) fn write(&self, part: &Part, to: &mut impl Write) -> io::Result<Vec<Reject>> {
        self.write_groups(part, to, ROW_GROUP_BYTES)
    }

    /// Writes as [`write`](Self::write) does, with row groups of so many bytes.
    fn write_groups(
        &self,
        part: &Part,
        to: &mut impl Write,
        group_bytes: usize,
    ) -> io::Result<Vec<Reject>> {
        let schema = self.schema().map_err(io::Error::other)?;
        let properties = Arc::new(self.properties().map_err(io::Error::other)?);
        // The file passes through this vector, row group by row group.
        let mut file = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        let mut rejects = Vec::new();
        let mut group = Group::new(&self.columns);
        for item in &part.items {
            match self.record(part, item) {
                Ok(values) => group.push(values),
                Err(reason) => rejects.push(Reject::of(item, reason)),
            }
            if group.bytes >= group_bytes {
                group.write(&mut file)?;
                to.write_all(&std::mem::take(file.inner_mut()))?;
                group = Group::new(&self.columns);
            }
        }
        if group.bytes > 0 {
            group.write(&mut file)?;
        }
        to.write_all(&file.into_inner()?)?;
        Ok(rejects)
    }

    /// Returns the values of the columns for an event.
    fn record(&self, part: &Part, item: &StoredEvent) -> Result<Vec<Option<String>>, RejectReason> {
        let mut body = Body::of(item);
        let values = self.columns.iter().map(|column| {
            let value = column.value(part, item, &mut body)?;
            Ok(value.map(std::borrow::Cow::into_owned))
        });
        values.collect()
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let columns = self.columns.iter().map(|column| {
            let (physical, logical, optional) = match column.kind() {
                ColumnKind::Text { optional } => {
                    (basic::Type::BYTE_ARRAY, Some(LogicalType::String), optional)
                }
                ColumnKind::Number => (basic::Type::INT64, None, false),
                ColumnKind::Time => {
                    let logical = LogicalType::timestamp(true, TimeUnit::MILLIS);
                    (basic::Type::INT64, Some(logical), false)
                }
            };
            let repetition = match optional {
                true => Repetition::OPTIONAL,
                false => Repetition::REQUIRED,
            };
            let column = Type::primitive_type_builder(&column.name, physical)
                .with_logical_type(logical)
                .with_repetition(repetition)
                .build()?;
            Ok(Arc::new(column))
        });
        let columns: Vec<TypePtr> = columns.collect::<Result<_, ParquetError>>()?;
        let root = Type::group_type_builder("part").with_fields(columns);
        Ok(Arc::new(root.build()?))
    }

    fn properties(&self) -> Result<WriterProperties, ParquetError> {
        let compression = match self.compression {
            Compression::Zstd => basic::Compression::ZSTD(ZstdLevel::try_new(3)?),
            Compression::None | Compression::Gzip => basic::Compression::UNCOMPRESSED,
        };
        let properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            // Every reader understands this version.
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // A row group ends where this file says, so the crate must not split it.
            .set_max_row_group_row_count(None)
            .set_max_row_group_bytes(None)
            .set_compression(compression);
        Ok(properties.build())
    }
}

/// The values of the records that the next row group gets, column by column.
struct Group {
    columns: Vec<Values>,
    bytes: usize,
}

enum Values {
    /// With a level for each record, if some have no value: 1 if it has one, otherwise 0.
    Texts {
        values: Vec<ByteArray>,
        levels: Option<Vec<i16>>,
    },
    Numbers(Vec<i64>),
}

impl Group {
    fn new(columns: &[Column]) -> Group {
        let columns = columns.iter().map(|column| match column.kind() {
            ColumnKind::Text { optional } => Values::Texts {
                values: Vec::new(),
                levels: optional.then(Vec::new),
            },
            ColumnKind::Number | ColumnKind::Time => Values::Numbers(Vec::new()),
        });
        Group {
            columns: columns.collect(),
            bytes: 0,
        }
    }

    fn push(&mut self, record: Vec<Option<String>>) {
        for (column, value) in self.columns.iter_mut().zip(record) {
            self.bytes += VALUE_BYTES + value.as_ref().map_or(0, String::len);
            match column {
                Values::Texts { values, levels } => {
                    if let Some(levels) = levels {
                        levels.push(i16::from(value.is_some()));
                    }
                    values.extend(value.map(|text| ByteArray::from(text.into_bytes())));
                }
                Values::Numbers(numbers) => {
                    let number = value.and_then(|text| text.parse().ok());
                    numbers.push(number.expect("these fields are whole numbers"));
                }
            }
        }
    }

    fn write(self, file: &mut SerializedFileWriter<Vec<u8>>) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for values in self.columns {
            let mut column = group.next_column()?.expect("each column has values");
            match values {
                Values::Texts { values, levels } => {
                    let typed = column.typed::<ByteArrayType>();
                    typed.write_batch(&values, levels.as_deref(), None)?;
                }
                Values::Numbers(numbers) => {
                    let typed = column.typed::<Int64Type>();
                    typed.write_batch(&numbers, None, None)?;
                }
            }
            column.close()?;
        }
        group.close()?;
        file.flush().map_err(ParquetError::from)
    }
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;

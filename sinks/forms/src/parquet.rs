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
use crate::types::{ColumnType, Digits, Value};
use ::parquet::{
    basic::{self, LogicalType, Repetition, TimeUnit, ZstdLevel},
    data_type::{
        BoolType, ByteArray, ByteArrayType, DataType, FixedLenByteArrayType, Int32Type, Int64Type,
    },
    errors::ParquetError,
    file::properties::{EnabledStatistics, WriterProperties, WriterVersion},
    file::writer::{SerializedColumnWriter, SerializedFileWriter},
    schema::types::{Type, TypePtr},
};
use jiff::civil::Date;
use shared::ports::StoredEvent;

/// How many bytes of values are collected before they are written as a row group. It bounds the memory.
const ROW_GROUP_BYTES: usize = 16 << 20;
/// Approximate memory of a value beside its text, if it is one, in bytes.
const VALUE_BYTES: usize = 48;
/// Bytes of a decimal of more than 18 digits, big endian.
const DECIMAL_BYTES: usize = size_of::<i128>();
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
    fn record<'p>(
        &self,
        part: &'p Part,
        item: &'p StoredEvent,
    ) -> Result<Vec<Option<Value<'p>>>, RejectReason> {
        let mut body = Body::of(item);
        let columns = self.columns.iter();
        let values = columns.map(|column| column.value(part, item, &mut body));
        values.collect()
    }

    fn schema(&self) -> Result<TypePtr, ParquetError> {
        let columns = self.columns.iter().map(|column| {
            let column = column_type(&column.name, column.kind())?;
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

/// Returns the type of a column of the file.
fn column_type(name: &str, kind: ColumnKind<'_>) -> Result<Type, ParquetError> {
    let millis = LogicalType::timestamp(true, TimeUnit::MILLIS);
    let (physical, logical, optional) = match kind {
        ColumnKind::Text { optional } => {
            (basic::Type::BYTE_ARRAY, Some(LogicalType::String), optional)
        }
        ColumnKind::Number => (basic::Type::INT64, None, false),
        ColumnKind::Time => (basic::Type::INT64, Some(millis), false),
        ColumnKind::Typed(ColumnType::Int) => (basic::Type::INT64, None, true),
        ColumnKind::Typed(
            ColumnType::Decimal { digits, .. } | ColumnType::Stored { digits, .. },
        ) => {
            let (scale, precision) = (digits.scale.into(), digits.precision.into());
            let physical = match is_long(*digits) {
                true => basic::Type::INT64,
                false => basic::Type::FIXED_LEN_BYTE_ARRAY,
            };
            let logical = LogicalType::decimal(scale, precision);
            (physical, Some(logical), true)
        }
        ColumnKind::Typed(ColumnType::Date(_)) => {
            (basic::Type::INT32, Some(LogicalType::Date), true)
        }
        ColumnKind::Typed(ColumnType::Timestamp(_)) => {
            let micros = LogicalType::timestamp(true, TimeUnit::MICROS);
            (basic::Type::INT64, Some(micros), true)
        }
        ColumnKind::Typed(ColumnType::Bool { .. }) => (basic::Type::BOOLEAN, None, true),
    };
    let repetition = match optional {
        true => Repetition::OPTIONAL,
        false => Repetition::REQUIRED,
    };
    let mut column = Type::primitive_type_builder(name, physical)
        .with_logical_type(logical)
        .with_repetition(repetition);
    if let ColumnKind::Typed(
        ColumnType::Decimal { digits, .. } | ColumnType::Stored { digits, .. },
    ) = kind
    {
        column = column
            .with_precision(digits.precision.into())
            .with_scale(digits.scale.into());
        if !is_long(*digits) {
            column = column.with_length(DECIMAL_BYTES as i32);
        }
    }
    column.build()
}

/// Returns whether a decimal of so many digits fits 64 bits.
const fn is_long(digits: Digits) -> bool {
    digits.precision <= 18
}

/// The values of the records that the next row group gets, column by column.
struct Group {
    columns: Vec<Values>,
    bytes: usize,
}

/// The values of a column that are there, and if some may be null, a level for each record: 1 if it has a value, otherwise 0.
struct OfType<T: DataType> {
    values: Vec<T::T>,
    levels: Option<Vec<i16>>,
}

enum Values {
    Texts(OfType<ByteArrayType>),
    Longs(OfType<Int64Type>),
    Days(OfType<Int32Type>),
    Bools(OfType<BoolType>),
    LongDecimals(OfType<FixedLenByteArrayType>),
}

impl<T: DataType> OfType<T> {
    fn new(optional: bool) -> OfType<T> {
        OfType {
            values: Vec::new(),
            levels: optional.then(Vec::new),
        }
    }

    fn push(&mut self, value: Option<T::T>) {
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(value.is_some()));
        }
        self.values.extend(value);
    }

    fn write(&self, column: &mut SerializedColumnWriter<'_>) -> Result<usize, ParquetError> {
        let typed = column.typed::<T>();
        typed.write_batch(&self.values, self.levels.as_deref(), None)
    }
}

impl Values {
    fn new(kind: ColumnKind<'_>) -> Values {
        match kind {
            ColumnKind::Text { optional } => Values::Texts(OfType::new(optional)),
            ColumnKind::Number | ColumnKind::Time => Values::Longs(OfType::new(false)),
            ColumnKind::Typed(kind) => match kind {
                ColumnType::Int | ColumnType::Timestamp(_) => Values::Longs(OfType::new(true)),
                ColumnType::Date(_) => Values::Days(OfType::new(true)),
                ColumnType::Bool { .. } => Values::Bools(OfType::new(true)),
                ColumnType::Decimal { digits, .. } | ColumnType::Stored { digits, .. } => {
                    match is_long(*digits) {
                        true => Values::Longs(OfType::new(true)),
                        false => Values::LongDecimals(OfType::new(true)),
                    }
                }
            },
        }
    }

    fn push(&mut self, value: Option<Value<'_>>) {
        match self {
            Values::Texts(texts) => texts.push(value.map(|value| {
                let text = value.into_text().into_owned();
                ByteArray::from(text.into_bytes())
            })),
            Values::Longs(numbers) => numbers.push(value.map(long)),
            Values::Days(days) => days.push(value.map(|value| match value {
                Value::Date(date) => days_since_1970(date),
                other => unreachable!("a column of days has {other:?}"),
            })),
            Values::Bools(bools) => bools.push(value.map(|value| value == Value::Bool(true))),
            Values::LongDecimals(decimals) => decimals.push(value.map(|value| match value {
                Value::Decimal(number) => {
                    let bytes = number.unscaled.to_be_bytes().to_vec();
                    ByteArray::from(bytes).into()
                }
                other => unreachable!("a column of decimals has {other:?}"),
            })),
        }
    }
}

fn long(value: Value<'_>) -> i64 {
    match value {
        Value::Int(number) => number,
        Value::Timestamp(at) => at.as_microsecond(),
        Value::Decimal(number) => i64::try_from(number.unscaled).expect("18 digits fit 64 bits"),
        Value::Text(text) => text.parse().expect("these fields are whole numbers"),
        other @ (Value::Date(_) | Value::Bool(_)) => {
            unreachable!("a column of numbers has {other:?}")
        }
    }
}

fn days_since_1970(date: Date) -> i32 {
    let epoch = jiff::civil::date(1970, 1, 1);
    epoch.duration_until(date).as_hours() as i32 / 24
}

impl Group {
    fn new(columns: &[Column]) -> Group {
        let columns = columns.iter().map(|column| Values::new(column.kind()));
        Group {
            columns: columns.collect(),
            bytes: 0,
        }
    }

    fn push(&mut self, record: Vec<Option<Value<'_>>>) {
        for (column, value) in self.columns.iter_mut().zip(record) {
            let length = match &value {
                Some(Value::Text(text)) => text.len(),
                _ => 0,
            };
            self.bytes += VALUE_BYTES + length;
            column.push(value);
        }
    }

    fn write(self, file: &mut SerializedFileWriter<Vec<u8>>) -> Result<(), ParquetError> {
        let mut group = file.next_row_group()?;
        for values in self.columns {
            let mut column = group.next_column()?.expect("each column has values");
            match values {
                Values::Texts(texts) => texts.write(&mut column)?,
                Values::Longs(numbers) => numbers.write(&mut column)?,
                Values::Days(days) => days.write(&mut column)?,
                Values::Bools(bools) => bools.write(&mut column)?,
                Values::LongDecimals(decimals) => decimals.write(&mut column)?,
            };
            column.close()?;
        }
        group.close()?;
        file.flush().map_err(ParquetError::from)
    }
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;

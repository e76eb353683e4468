//! The types of the columns of a table, and whether the columns of the rows fit them.

use std::collections::BTreeMap;

use forms::{Column, ColumnType, Digits};
use tokio_postgres::SimpleQueryRow;

use super::names::{TableName, literal};
use crate::sink::SinkError;

/// The columns of a table, by their names.
#[derive(Debug)]
pub(super) struct TableTypes(BTreeMap<String, TableType>);

#[derive(Debug)]
struct TableType {
    /// The name of the type without its length: a cast to `varchar(3)` would cut a longer value, while assigning the value to the
    /// column refuses it.
    name: String,
    /// The name with its length.
    full: String,
}

/// Returns the query of the columns of a table. For a domain, it returns the base type.
pub(super) fn query(table: &TableName) -> String {
    format!(
        "WITH RECURSIVE columns AS (\
           SELECT a.attname, t.oid, t.typtype, t.typbasetype, t.typtypmod, a.atttypmod AS typmod \
           FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
           WHERE a.attrelid = {}::regclass AND a.attnum > 0 AND NOT a.attisdropped \
         UNION ALL \
           SELECT c.attname, t.oid, t.typtype, t.typbasetype, t.typtypmod, c.typtypmod \
           FROM columns c JOIN pg_catalog.pg_type t ON t.oid = c.typbasetype WHERE c.typtype = 'd'\
         ) SELECT attname, pg_catalog.format_type(oid, -1), pg_catalog.format_type(oid, typmod) FROM columns WHERE typtype <> 'd'",
        literal(&table.table())
    )
}

impl TableTypes {
    /// Reads the rows of the [`query`].
    pub(super) fn of(rows: &[SimpleQueryRow]) -> TableTypes {
        let text = |row: &SimpleQueryRow, column| row.get(column).unwrap_or_default().to_owned();
        let types = rows.iter().map(|row| {
            let (name, full) = (text(row, 1), text(row, 2));
            (text(row, 0), TableType { name, full })
        });
        TableTypes(types.collect())
    }

    /// Returns name and type of each column that rows have.
    ///
    /// # Errors
    /// Permanent, with every column that the table does not have, or that has another type there.
    pub(super) fn of_columns(
        &self,
        table: &TableName,
        columns: &[Column],
    ) -> Result<Vec<(String, String)>, SinkError> {
        let mut problems = Vec::new();
        let mut typed = Vec::with_capacity(columns.len());
        for column in columns {
            match self.of_column(column) {
                Ok(kind) => typed.push((column.name.clone(), kind.to_owned())),
                Err(problem) => problems.push(problem),
            }
        }
        match problems.is_empty() {
            true => Ok(typed),
            false => Err(SinkError::permanent(format!(
                "table {}: {}",
                table.table(),
                problems.join("; ")
            ))),
        }
    }

    fn of_column(&self, column: &Column) -> Result<&str, String> {
        let name = &column.name;
        let found = self.0.get(name).ok_or_else(|| {
            let known: Vec<_> = self.0.keys().map(|name| format!("`{name}`")).collect();
            format!(
                "a column is missing: got `{name}` to write, expected one of {}",
                known.join(", ")
            )
        })?;
        let kind = column.kind.as_ref().filter(|kind| !found.takes(kind));
        match kind {
            None => Ok(&found.name),
            Some(kind) => Err(format!(
                "column `{name}`: got the type `{}` there, expected one that takes every `{}`",
                found.full,
                kind.name()
            )),
        }
    }
}

impl TableType {
    /// Returns whether the column takes every value of a type, without a change.
    fn takes(&self, kind: &ColumnType) -> bool {
        let is = |names: &[&str]| names.contains(&self.name.as_str());
        if is(&["text"]) || self.full == "character varying" {
            return true;
        }
        match kind {
            ColumnType::Int => {
                is(&["bigint"])
                    || self.has_digits(Digits {
                        precision: 19,
                        scale: 0,
                    })
            }
            ColumnType::Decimal { digits, .. } | ColumnType::Stored { digits, .. } => {
                self.has_digits(*digits) || (digits.scale == 0 && self.is_whole(digits.precision))
            }
            ColumnType::Date(_) => is(&["date"]),
            // Without a time zone, PostgreSQL would ignore the one that a value has.
            ColumnType::Timestamp(_) => {
                let full = ["timestamp with time zone", "timestamp(6) with time zone"];
                full.contains(&self.full.as_str())
            }
            ColumnType::Bool { .. } => is(&["boolean"]),
        }
    }

    /// Returns whether it is a `numeric` with so many digits before and after the point.
    fn has_digits(&self, digits: Digits) -> bool {
        if self.name != "numeric" {
            return false;
        }
        let limits = self.full.strip_prefix("numeric(");
        let Some(limits) = limits.and_then(|rest| rest.strip_suffix(')')) else {
            return true;
        };
        let numbers = limits
            .split(',')
            .map(|text| text.trim().parse::<i32>().ok());
        let [Some(precision), Some(scale)] = Vec::from_iter(numbers)[..] else {
            return false;
        };
        let Digits {
            precision: wanted,
            scale: decimals,
        } = digits;
        scale >= i32::from(decimals) && precision - scale >= i32::from(wanted - decimals)
    }

    /// Returns whether it takes every whole number of so many digits.
    fn is_whole(&self, digits: u8) -> bool {
        let max = match self.name.as_str() {
            "smallint" => 4,
            "integer" => 9,
            "bigint" => 18,
            _ => 0,
        };
        digits <= max
    }
}

#[cfg(test)]
mod tests {
    use forms::Columns;

    use super::*;

    fn checked(full: &str, kind: &str) -> Result<Vec<(String, String)>, String> {
        let name = full.split('(').next().unwrap().to_owned();
        let full = full.to_owned();
        let types = TableTypes([("a".to_owned(), TableType { name, full })].into());
        let columns = format!(r#"[{{"name":"a","json":"a","type":"{kind}"}}]"#);
        let columns = columns.parse::<Columns>().unwrap().unpadded().unwrap();
        let table: TableName = "events".parse().unwrap();
        let checked = types.of_columns(&table, &columns);
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn a_column_takes_every_value_of_its_type_or_is_refused() {
        for (full, kind, takes) in [
            ("numeric(9,2)", "decimal(9,2)", true),
            ("numeric(10,3)", "decimal(9,2)", true),
            ("numeric", "decimal(38,10)", true),
            ("numeric(9,2)", "decimal(9,3)", false),
            ("numeric(9,2)", "decimal(10,2)", false),
            ("numeric(9,-2)", "decimal(4)", false),
            ("double precision", "decimal(9,2)", false),
            ("integer", "decimal(9)", true),
            ("integer", "decimal(10)", false),
            ("integer", "int", false),
            ("bigint", "int", true),
            ("numeric(19,0)", "int", true),
            ("date", "date", true),
            ("timestamp with time zone", "date", false),
            ("timestamp with time zone", "timestamp", true),
            ("timestamp without time zone", "timestamp", false),
            ("timestamp(6) with time zone", "timestamp", true),
            ("timestamp(0) with time zone", "timestamp", false),
            ("boolean", "bool", true),
            ("text", "decimal(9,2)", true),
            ("character varying", "date", true),
            ("character varying(3)", "date", false),
            ("inet", "text", true),
        ] {
            assert_eq!(checked(full, kind).is_ok(), takes, "{full} {kind}");
        }
    }

    #[test]
    fn every_column_that_does_not_fit_is_named_with_both_types() {
        let error = checked("integer", "int").unwrap_err();
        let expected =
            "column `a`: got the type `integer` there, expected one that takes every `int`";
        assert!(error.contains(expected), "{error}");
    }
}

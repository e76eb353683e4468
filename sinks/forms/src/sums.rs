//! Exact sums of the columns that have numbers, for people who look at a part before it is delivered.

use bigdecimal::{BigDecimal, Zero};

use crate::columns::Body;
use crate::format::Format;
use crate::part::Part;
use crate::reject::Reject;
use crate::types::ColumnType;

impl Format {
    /// Returns the names of columns whose type is a number with decimals or a whole number, with the sum of each, without the rejected
    /// records. A record without a value counts as zero.
    pub fn sums(&self, part: &Part, rejects: &[Reject]) -> Vec<(String, String)> {
        let columns = self.columns().into_iter();
        let columns = columns.filter(|column| {
            let kind = column.kind.as_ref();
            kind.is_some_and(ColumnType::is_number)
        });
        let mut sums = Vec::from_iter(columns.map(|column| (column, BigDecimal::zero())));
        let mut rejects = rejects.iter().map(|reject| reject.seq).peekable();
        // Rejects are in the order of the part.
        for item in &part.items {
            if rejects.next_if_eq(&item.seq).is_some() {
                continue;
            }
            let mut body = Body::of(item);
            for (column, sum) in &mut sums {
                let value = column.value(part, item, &mut body).ok().flatten();
                let number = value.and_then(|value| value.into_text().parse::<BigDecimal>().ok());
                *sum += number.unwrap_or_default();
            }
        }
        let sums = sums.into_iter();
        let shown = sums.map(|(column, sum)| (column.name.clone(), sum.to_plain_string()));
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::Columns;
    use crate::tests_support::part;

    #[test]
    fn sums_are_of_the_records_that_are_delivered() {
        let columns: Columns =
            r#"[{"name":"id","json":"id"},{"name":"amount","json":"a","type":"decimal(9,2)"},
            {"name":"count","json":"n","type":"int"}]"#
                .parse()
                .unwrap();
        let format = Format::Csv {
            columns: columns.unpadded().unwrap(),
            header: false,
        };
        let bodies = [
            r#"{"id":1,"a":"0.10","n":2}"#,
            r#"{"id":2,"a":"x","n":100}"#,
            r#"{"id":3,"a":-0.3}"#,
        ];
        let part = part(0, &bodies);
        let rejects = format.write(&part, &mut std::io::sink()).unwrap();
        assert_eq!(rejects.len(), 1);
        let sums = format.sums(&part, &rejects);
        let expected = [("amount", "-0.20"), ("count", "2")];
        assert_eq!(
            sums,
            expected.map(|(name, sum)| (name.to_owned(), sum.to_owned()))
        );
    }
}

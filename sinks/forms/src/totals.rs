//! Control totals of a part: the number of its records, sums of a column, and hash totals.

use bigdecimal::{BigDecimal, Zero};

use crate::reject::{RejectReason, shown};

/// Digits of a number that is added up. It bounds the memory of a sum.
const DIGITS_MAX: usize = 38;
/// Digits of a hash total: with another digit, it still fits 128 bits.
pub(crate) const HASH_DIGITS_MAX: usize = 30;

/// The kind of a total.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TotalKind {
    /// The numbers of a column.
    Sum {
        /// How many decimals the total has; as many as the number with the most, if it is `None`.
        decimals: Option<u8>,
    },
    /// The digits of each value of a column, read as one number; the last `digits` of the sum.
    Hash { digits: usize },
}

/// A total over a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) kind: TotalKind,
    /// The index of the column.
    pub(crate) column: usize,
    /// The name of the column.
    pub(crate) name: String,
}

/// The totals of the records that were added. Records that are rejected are not added.
#[derive(Debug)]
pub(crate) struct Totals<'l> {
    pub(crate) count: u64,
    amounts: Vec<(&'l Total, BigDecimal)>,
}

impl<'l> Totals<'l> {
    /// Returns the totals of no records.
    pub(crate) fn of(totals: impl Iterator<Item = &'l Total>) -> Totals<'l> {
        Totals {
            count: 0,
            amounts: totals.map(|total| (total, BigDecimal::zero())).collect(),
        }
    }

    /// Adds a record with these texts of its columns. A record that is refused changes nothing.
    pub(crate) fn add(&mut self, fields: &[impl AsRef<str>]) -> Result<(), RejectReason> {
        let amounts = self.amounts.iter();
        let added: Result<Vec<BigDecimal>, RejectReason> = amounts
            .map(|(total, amount)| total.plus(amount, fields[total.column].as_ref()))
            .collect();
        for ((_, amount), added) in self.amounts.iter_mut().zip(added?) {
            *amount = added;
        }
        self.count += 1;
        Ok(())
    }

    /// Returns a total in digits.
    pub(crate) fn text(&self, total: &Total) -> String {
        let found = self.amounts.iter().find(|(known, _)| *known == total);
        let (_, amount) = found.expect("the totals are those of the layout's templates");
        match total.kind {
            TotalKind::Sum {
                decimals: Some(decimals),
            } => amount.with_scale(decimals.into()).to_plain_string(),
            TotalKind::Sum { decimals: None } | TotalKind::Hash { .. } => amount.to_plain_string(),
        }
    }
}

impl Total {
    /// Returns this total with the text of another record.
    fn plus(&self, amount: &BigDecimal, text: &str) -> Result<BigDecimal, RejectReason> {
        match self.kind {
            TotalKind::Sum { decimals } => Ok(amount + number(self, decimals, text)?),
            TotalKind::Hash { digits } => {
                let modulus = 10_u128.pow(digits as u32);
                let sum = amount + BigDecimal::from(digits_modulo(text, modulus));
                Ok(sum % BigDecimal::from(modulus))
            }
        }
    }
}

/// Returns a text as a number: an optional sign, and digits with at most one point.
fn number(total: &Total, decimals: Option<u8>, text: &str) -> Result<BigDecimal, RejectReason> {
    let wrong = || RejectReason::NoNumber {
        column: total.name.clone(),
        value: shown(text),
        decimals_max: decimals.map_or(DIGITS_MAX, usize::from),
    };
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = match unsigned.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (unsigned, None),
    };
    let are_digits =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let decimals_count = fraction.map_or(0, |digits| digits.trim_end_matches('0').len());
    let fits = whole.trim_start_matches('0').len() + fraction.map_or(0, str::len) <= DIGITS_MAX
        && decimals.is_none_or(|max| decimals_count <= usize::from(max));
    if !are_digits(whole) || !fraction.is_none_or(are_digits) || !fits {
        return Err(wrong());
    }
    text.parse().map_err(|_| wrong())
}

/// Returns the digits of a text, read as one number, modulo `modulus`. Other characters do not count.
fn digits_modulo(text: &str, modulus: u128) -> u128 {
    let digits = text.bytes().filter(u8::is_ascii_digit);
    digits.fold(0, |number, digit| {
        (number * 10 + u128::from(digit - b'0')) % modulus
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn total(kind: TotalKind) -> Total {
        Total {
            kind,
            column: 0,
            name: "amount".to_owned(),
        }
    }

    const SUM: TotalKind = TotalKind::Sum { decimals: None };

    /// Returns the total of the values, and the reasons of rejected ones.
    fn added(kind: TotalKind, values: &[&str]) -> (u64, String, Vec<String>) {
        let total = total(kind);
        let mut totals = Totals::of([&total].into_iter());
        let add = |value: &&str| totals.add(&[value]).err();
        let rejects: Vec<RejectReason> = values.iter().filter_map(add).collect();
        let reasons = rejects.iter().map(ToString::to_string).collect();
        (totals.count, totals.text(&total), reasons)
    }

    #[test]
    fn sums_are_exact_decimals() {
        let sum = |values: &[&str]| added(SUM, values).1;
        assert_eq!(sum(&["0.1", "0.2"]), "0.3");
        assert_eq!(sum(&["12.50", "-1", "+0.5"]), "12.00");
        assert_eq!(sum(&["-3", "1"]), "-2");
        assert_eq!(sum(&[]), "0");
        let large = "9".repeat(38);
        assert_eq!(sum(&[&large, "1"]), format!("1{}", "0".repeat(38)));
        let two = TotalKind::Sum { decimals: Some(2) };
        assert_eq!(added(two, &["1", "2.5000"]).1, "3.50");
        assert_eq!(added(two, &[]).1, "0.00");
    }

    #[test]
    fn what_is_no_number_is_rejected_with_its_column_and_value_and_not_counted() {
        let wrong = ["", "1e3", "1,5", ".5", "5.", "--1", " 1", "0x1", "NaN"];
        let (count, text, reasons) = added(SUM, &[&wrong[..], &["7"]].concat());
        assert_eq!((count, text.as_str(), reasons.len()), (1, "7", wrong.len()));
        assert_eq!(
            reasons[1],
            "column `amount`: not a number: got `1e3`, expected digits with at most one point and `38` decimals, such as `-12.50`"
        );
        let two = TotalKind::Sum { decimals: Some(2) };
        let (_, _, reasons) = added(two, &["1.005"]);
        assert!(reasons[0].contains("`2` decimals"), "{reasons:?}");
        let (_, _, reasons) = added(SUM, &[&"1".repeat(39)]);
        assert!(reasons[0].contains("got `111"), "{reasons:?}");
    }

    #[test]
    fn a_hash_total_has_the_last_digits_of_the_sum() {
        let hash = |digits, values: &[&str]| added(TotalKind::Hash { digits }, values).1;
        assert_eq!(hash(10, &["CH93 0076", "12-34", "none"]), "931310");
        assert_eq!(hash(2, &["99", "3"]), "2");
        let large = "9".repeat(100);
        assert_eq!(hash(30, &[&large, "2"]), "1");
    }

    proptest! {
        #[test]
        fn sums_do_not_depend_on_the_order(cents in prop::collection::vec(-1_000_000_i64..1_000_000, 1..20)) {
            let texts: Vec<String> = cents
                .iter()
                .map(|cents| format!("{}{}.{:02}", if *cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100))
                .collect();
            let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let forwards = added(SUM, &texts).1;
            texts.reverse();
            prop_assert_eq!(&forwards, &added(SUM, &texts).1);
            let sum: i64 = cents.iter().sum();
            prop_assert_eq!(forwards.replace('.', "").parse::<i64>().unwrap(), sum);
        }
    }
}

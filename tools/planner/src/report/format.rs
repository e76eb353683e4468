//! Numbers as texts.

use crate::minutes::minutes;

/// Returns a count with commas: `1,234,567`.
pub(super) fn count(count: u64) -> String {
    grouped(&count.to_string())
}

/// Returns a time in a unit that suits it: `12.3 ms`, `4.56 s`, `20 min 34 s`.
pub(super) fn secs(secs: f64) -> String {
    if let Some(minutes) = minutes(secs.abs()) {
        let sign = if secs < 0.0 { "−" } else { "" };
        return format!("{sign}{minutes}");
    }
    match secs.abs() {
        // Also 0.9996 s, which would read `1000 ms`.
        magnitude if magnitude > 0.0 && magnitude < 0.9995 => {
            format!("{} ms", significant(secs * 1e3))
        }
        _ => format!("{} s", significant(secs)),
    }
}

/// Returns dollars: with cents, and with three digits below a dollar.
pub(super) fn dollars(dollars: f64) -> String {
    let sign = if dollars < 0.0 { "−" } else { "" };
    match dollars.abs() {
        magnitude if magnitude == 0.0 || magnitude >= 1.0 => {
            format!("{sign}${}", grouped(&format!("{magnitude:.2}")))
        }
        magnitude => {
            // The zeros behind the point, and three digits.
            let digits = (2.0 - magnitude.log10().floor()).clamp(2.0, 9.0) as usize;
            format!("{sign}${magnitude:.digits$}")
        }
    }
}

/// Returns a number with three digits, or with all digits before the point.
fn significant(number: f64) -> String {
    let digits = match number.abs() {
        magnitude if magnitude >= 99.95 => 0,
        magnitude if magnitude >= 9.995 => 1,
        _ => 2,
    };
    grouped(&format!("{number:.digits$}"))
}

/// Puts commas between the thousands of a decimal number.
fn grouped(number: &str) -> String {
    let (sign, number) = match number.strip_prefix('-') {
        Some(number) => ("−", number),
        None => ("", number),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, format!(".{fraction}")),
        None => (number, String::new()),
    };
    let mut text = String::new();
    for (position, digit) in whole.chars().enumerate() {
        if position > 0 && (whole.len() - position) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}{fraction}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_have_commas_between_thousands() {
        let texts = [0, 999, 1_000, 95_000, 1_234_567].map(count);
        assert_eq!(texts, ["0", "999", "1,000", "95,000", "1,234,567"]);
    }

    #[test]
    fn times_have_three_digits_and_a_unit_that_suits_them() {
        let texts = [
            0.0, 0.001_23, 0.45, 0.9999, 4.564, 33.33, 756.2, -2.5, -125.0,
        ]
        .map(secs);
        let expected = [
            "0.00 s",
            "1.23 ms",
            "450 ms",
            "1.00 s",
            "4.56 s",
            "33.3 s",
            "12 min 36 s",
            "−2.50 s",
            "−2 min 05 s",
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn dollars_have_cents_and_small_amounts_more_digits() {
        let texts = [0.0, 2.754, 12_345.6, 0.001_234, -0.5].map(dollars);
        let expected = ["$0.00", "$2.75", "$12,345.60", "$0.00123", "−$0.500"];
        assert_eq!(texts, expected);
    }
}

//! List prices, from a file: the one of this crate, `prices.json`, or another of the same form.

use std::time::Duration;

use serde::Deserialize;

/// The number of units, requests or events to which a price refers.
pub const MILLION: f64 = 1e6;

const GB: f64 = 1_073_741_824.0;
const MONTH_SECS: f64 = 730.0 * 3_600.0;

/// Returns the GB-months of bytes that are kept for this time. A GB is 2^30 bytes, and a month has 730 hours.
pub fn gb_months(bytes: f64, time: Duration) -> f64 {
    bytes / GB * time.as_secs_f64() / MONTH_SECS
}

/// Prices of one region.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub region: String,
    /// The month in which the newest of them was quoted: `2026-10`.
    pub date: String,
    pub notes: String,
    pub dynamodb_million_write_units: Price,
    pub dynamodb_million_read_units: Price,
    /// 2^30 bytes in a table of the class Standard.
    pub dynamodb_gb_month: Price,
    pub sqs_million_requests: Price,
    pub s3_million_puts: Price,
    pub s3_million_gets: Price,
    pub s3_gb_month: Price,
    pub lambda_million_requests: Price,
    /// 1,024 MB for a second.
    pub lambda_gb_second_x86_64: Price,
    pub lambda_gb_second_arm64: Price,
    /// One event poller unit.
    pub poller_hour: Price,
}

/// One price.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub dollars: f64,
    pub source: String,
    /// The month in which it was quoted.
    pub date: String,
}

/// Why a file has no prices.
#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    /// It is not JSON, a price is missing, or it has a field that is no price.
    #[error("the prices: not a price file: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A price is negative, or no number.
    #[error("the prices: wrong price of {name}: got `{dollars}`, expected 0 or more dollars")]
    Dollars { name: &'static str, dollars: f64 },
}

impl Prices {
    /// Returns the prices of this crate's file.
    pub fn us_east_1() -> Prices {
        let prices = Prices::from_json(include_str!("../prices.json"));
        prices.expect("the price file of this crate is checked by a test")
    }

    /// Reads a price file.
    ///
    /// # Errors
    /// The text is not such a file, or a price is negative.
    pub fn from_json(text: &str) -> Result<Prices, PricesError> {
        let prices: Prices = serde_json::from_str(text)?;
        for (name, price) in prices.named() {
            if price.dollars < 0.0 {
                let dollars = price.dollars;
                return Err(PricesError::Dollars { name, dollars });
            }
        }
        Ok(prices)
    }

    fn named(&self) -> [(&'static str, &Price); 11] {
        [
            (
                "dynamodb_million_write_units",
                &self.dynamodb_million_write_units,
            ),
            (
                "dynamodb_million_read_units",
                &self.dynamodb_million_read_units,
            ),
            ("dynamodb_gb_month", &self.dynamodb_gb_month),
            ("sqs_million_requests", &self.sqs_million_requests),
            ("s3_million_puts", &self.s3_million_puts),
            ("s3_million_gets", &self.s3_million_gets),
            ("s3_gb_month", &self.s3_gb_month),
            ("lambda_million_requests", &self.lambda_million_requests),
            ("lambda_gb_second_x86_64", &self.lambda_gb_second_x86_64),
            ("lambda_gb_second_arm64", &self.lambda_gb_second_arm64),
            ("poller_hour", &self.poller_hour),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_file_of_this_crate_can_be_read_and_every_price_has_a_source() {
        let prices = Prices::us_east_1();
        let mut named = prices.named().into_iter();
        assert!(named.all(|(_, price)| price.source.starts_with("https://")));
        assert_eq!(prices.dynamodb_million_write_units.dollars, 0.625);
    }

    #[test]
    fn a_file_without_a_price_or_with_a_negative_one_is_refused() {
        let text = include_str!("../prices.json");
        let missing = Prices::from_json(&text.replace("s3_gb_month", "s3_gb_year"));
        let missing = missing.unwrap_err().to_string();
        let beginning = "the prices: not a price file: ";
        assert!(missing.starts_with(beginning), "{missing}");
        let negative = Prices::from_json(&text.replace("0.625", "-0.625")).unwrap_err();
        assert_eq!(
            negative.to_string(),
            "the prices: wrong price of dynamodb_million_write_units: got `-0.625`, expected 0 or more dollars"
        );
    }
}

//! List prices, in dollars: those of the price file of `planner`, for us-east-1 on demand, without free tier and savings plan.
//! The file has the source and month of each.

use std::sync::LazyLock;

use planner::Prices;

pub static PRICES: LazyLock<Prices> = LazyLock::new(Prices::us_east_1);

/// Write units of a unique message in the public proof of concept of such a service. The lock item and its index entry are
/// each written once and removed once.
pub const PROOF_OF_CONCEPT_WRITE_UNITS: f64 = 4.0;

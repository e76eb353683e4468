//! Evaluates the metric math of the alarms: numbers, metrics, `+`, `*`, comparisons, `AND`, `OR`, `IF` and `FILL`.
//! Source: <https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html> (2026-11).

use std::collections::BTreeMap;

/// The values of a period by id; `None` if the metric has no data.
pub type Values = BTreeMap<String, Option<f64>>;

/// Compares two values.
type Comparison = fn(f64, f64) -> bool;

/// Returns the value of an expression; `None` if a metric without data is not filled.
///
/// # Panics
/// If the expression has something that no alarm used so far.
pub fn evaluate(expression: &str, values: &Values) -> Option<f64> {
    let mut parser = Parser {
        rest: expression,
        values,
    };
    let value = parser.or();
    assert_eq!(parser.rest.trim(), "", "`{expression}`: more than one term");
    value
}

struct Parser<'a> {
    rest: &'a str,
    values: &'a Values,
}

impl<'a> Parser<'a> {
    /// Takes `word` if it comes next.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let taken = rest.strip_prefix(word);
        self.rest = taken.unwrap_or(rest);
        taken.is_some()
    }

    fn expects(&mut self, word: &str) {
        assert!(self.takes(word), "`{word}` expected at `{}`", self.rest);
    }

    fn or(&mut self) -> Option<f64> {
        let mut left = self.and();
        while self.takes("OR") {
            let right = self.and();
            left = both(left, right, |left, right| {
                truth(left != 0.0 || right != 0.0)
            });
        }
        left
    }

    fn and(&mut self) -> Option<f64> {
        let mut left = self.comparison();
        while self.takes("AND") {
            let right = self.comparison();
            left = both(left, right, |left, right| {
                truth(left != 0.0 && right != 0.0)
            });
        }
        left
    }

    fn comparison(&mut self) -> Option<f64> {
        let left = self.sum();
        let operators: [(&str, Comparison); 3] = [
            (">=", |left, right| left >= right),
            ("==", |left, right| left == right),
            (">", |left, right| left > right),
        ];
        for (operator, holds) in operators {
            if self.takes(operator) {
                let right = self.sum();
                return both(left, right, |left, right| truth(holds(left, right)));
            }
        }
        left
    }

    fn sum(&mut self) -> Option<f64> {
        let mut left = self.product();
        while self.takes("+") {
            let right = self.product();
            left = both(left, right, |left, right| left + right);
        }
        left
    }

    fn product(&mut self) -> Option<f64> {
        let mut left = self.term();
        while self.takes("*") {
            let right = self.term();
            left = both(left, right, |left, right| left * right);
        }
        left
    }

    fn term(&mut self) -> Option<f64> {
        if self.takes("(") {
            let value = self.or();
            self.expects(")");
            return value;
        }
        let word = self.word();
        if let Ok(number) = word.parse() {
            return Some(number);
        }
        match word {
            "IF" => {
                let [condition, met, unmet] = self.arguments();
                if condition? == 0.0 { unmet } else { met }
            }
            "FILL" => {
                let [value, otherwise] = self.arguments();
                value.or(otherwise)
            }
            id => {
                let value = self.values.get(id);
                *value.unwrap_or_else(|| panic!("`{id}`: no known metric or function"))
            }
        }
    }

    /// Takes the arguments of a function.
    fn arguments<const COUNT: usize>(&mut self) -> [Option<f64>; COUNT] {
        self.expects("(");
        let arguments = std::array::from_fn(|index| {
            if index > 0 {
                self.expects(",");
            }
            self.or()
        });
        self.expects(")");
        arguments
    }

    fn word(&mut self) -> &'a str {
        let rest = self.rest.trim_start();
        let of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word
    }
}

fn both(left: Option<f64>, right: Option<f64>, apply: impl FnOnce(f64, f64) -> f64) -> Option<f64> {
    Some(apply(left?, right?))
}

fn truth(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

#[test]
fn the_expressions_of_alarms_have_the_values_that_cloudwatch_gives_them() {
    let values = |received, deleted| {
        let values = [("received", received), ("deleted", deleted)];
        Values::from(values.map(|(id, value)| (id.to_owned(), value)))
    };
    let stuck = "IF(FILL(received, 0) > 0 AND FILL(deleted, 0) == 0, 1, 0)";
    let retries = "IF(FILL(received, 0) >= 3 AND (FILL(received, 0) >= 3 * FILL(deleted, 0) OR deleted == 9), 1, 0)";
    for (expression, received, deleted, expected) in [
        (stuck, Some(2.0), None, 1.0),
        (stuck, Some(2.0), Some(1.0), 0.0),
        (stuck, None, None, 0.0),
        (retries, Some(3.0), Some(1.0), 1.0),
        (retries, Some(3.0), Some(2.0), 0.0),
        (retries, Some(3.0), Some(9.0), 1.0),
        (retries, Some(2.0), Some(9.0), 0.0),
    ] {
        let value = evaluate(expression, &values(received, deleted));
        assert_eq!(
            value,
            Some(expected),
            "{expression} of {received:?}, {deleted:?}"
        );
    }
    let sum = "IF(FILL(received, 0) > FILL(deleted, 0) + 1, 1, 0)";
    assert_eq!(evaluate(sum, &values(Some(3.0), Some(2.0))), Some(0.0));
    assert_eq!(evaluate("received + 1", &values(None, None)), None);
}

//! Inputs that are mostly right: bytes choose at every turn what comes next. Mutated texts seldom get past two parsers
//! at once; these do, and libFuzzer mutates them as well as any bytes.

use serde_json::{Map, Value, json};

const NAMES: [&str; 6] = ["id", "customer", "day", "order", "a", "b"];
const TEXTS: [&str; 12] = [
    "", "a", "b", "a|b", "\\", "|", "7", "é😀", "\u{0}", "\n", "null", " ",
];
const LENGTHS: [usize; 10] = [
    255, 256, 257, 1_024, 1_025, 2_044, 2_045, 2_046, 2_048, 2_049,
];
const INDICES: [&str; 9] = [
    "",
    "0",
    "1",
    "-1",
    "2",
    "-3",
    "100",
    "2147483647",
    "-2147483648",
];
const COMPARATORS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const FUNCTIONS: [&str; 26] = [
    "abs",
    "avg",
    "ceil",
    "contains",
    "ends_with",
    "floor",
    "join",
    "keys",
    "length",
    "map",
    "max",
    "max_by",
    "merge",
    "min",
    "min_by",
    "not_null",
    "reverse",
    "sort",
    "sort_by",
    "starts_with",
    "sum",
    "to_array",
    "to_number",
    "to_string",
    "type",
    "values",
];
const SETTINGS: [&str; 8] = [
    "json:",
    "json:",
    "json:",
    "json:",
    "json: ",
    "message-id",
    "body-hash",
    "attribute:order",
];
const DEPTH_MAX: u8 = 5;

/// Bytes that make choices; zeros when there are none left, and every zero leads to an end.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    /// The choices in an input that is meant as such: one that begins with a zero, as no text does.
    pub fn of(data: &'a [u8]) -> Option<Choices<'a>> {
        data.strip_prefix(&[0]).map(Choices)
    }

    fn next(&mut self) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first)
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.next() % among.len()]
    }

    /// A value of `EVENT_ID`.
    pub fn event_id(&mut self) -> String {
        let rule = self.pick(&SETTINGS);
        let expression = rule.starts_with("json").then(|| self.expression(0));
        format!("{rule}{}", expression.unwrap_or_default())
    }

    /// A JMESPath expression, as a rule.
    pub fn expression(&mut self, depth: u8) -> String {
        if depth > DEPTH_MAX {
            return "@".to_owned();
        }
        let depth = depth + 1;
        match self.next() % 20 {
            0 => "@".to_owned(),
            1..=3 => self.pick(&NAMES).to_owned(),
            4 => format!("{}.{}", self.expression(depth), self.expression(depth)),
            5 => format!("{}[{}]", self.expression(depth), self.pick(&INDICES)),
            6 => {
                let of = self.expression(depth);
                let (start, stop, step) = (
                    self.pick(&INDICES),
                    self.pick(&INDICES),
                    self.pick(&INDICES),
                );
                format!("{of}[{start}:{stop}:{step}]")
            }
            7 => {
                let of = self.expression(depth);
                let (left, right) = (self.expression(depth), self.expression(depth));
                format!("{of}[?{left} {} {right}]", self.pick(&COMPARATORS))
            }
            8 => format!("[{}, {}]", self.expression(depth), self.expression(depth)),
            9 => format!(
                "{{a: {}, b: {}}}",
                self.expression(depth),
                self.expression(depth)
            ),
            10 => format!("{} | {}", self.expression(depth), self.expression(depth)),
            11 => format!("{} || {}", self.expression(depth), self.expression(depth)),
            12 => format!("{} && {}", self.expression(depth), self.expression(depth)),
            13 => format!("!{}", self.expression(depth)),
            14 => format!("({})", self.expression(depth)),
            15 => format!("`{}`", self.json(depth)),
            16 => format!("'{}'", self.pick(&TEXTS)),
            17 => format!(
                "{}{}",
                self.expression(depth),
                self.pick(&["[*]", "[]", ".*"])
            ),
            _ => self.call(depth),
        }
    }

    fn call(&mut self, depth: u8) -> String {
        let function = self.pick(&FUNCTIONS);
        let first = self.expression(depth);
        match self.next() % 4 {
            0 => format!("{function}({first})"),
            1 => format!("{function}({first}, {})", self.expression(depth)),
            2 => format!("{function}({first}, &{})", self.expression(depth)),
            _ => format!("{function}(&{first}, {})", self.expression(depth)),
        }
    }

    fn text(&mut self) -> String {
        match self.next() {
            0..=15 => "x".repeat(self.pick(&LENGTHS)),
            _ => self.pick(&TEXTS).to_owned(),
        }
    }

    /// A JSON value.
    pub fn json(&mut self, depth: u8) -> Value {
        let many = self.next();
        match many % 10 {
            0 => Value::Null,
            1 => (many > 127).into(),
            2 => self.pick(&[0, 1, -1, 7, i64::MAX, i64::MIN]).into(),
            3 => self
                .pick(&[1.0, 1.5, -0.0, 1e300, f64::MAX, f64::MIN_POSITIVE])
                .into(),
            4 => u64::MAX.into(),
            5 | 6 => self.text().into(),
            _ if depth > DEPTH_MAX => Value::Null,
            7 => (0..many / 40).map(|_| self.json(depth + 1)).collect(),
            _ => {
                let field = |_| (self.pick(&NAMES).to_owned(), self.json(depth + 1));
                Value::Object((0..many / 30).map(field).collect())
            }
        }
    }

    /// A body: JSON more often than not.
    pub fn body(&mut self) -> String {
        match self.next() {
            0..=15 => self.text(),
            _ => self.json(0).to_string(),
        }
    }

    /// An event of SQS, as bytes.
    pub fn event(&mut self) -> Vec<u8> {
        let messages: Vec<Value> = (0..self.next() % 6)
            .map(|index| self.message(index))
            .collect();
        json!({ "Records": messages }).to_string().into_bytes()
    }

    fn message(&mut self, index: usize) -> Value {
        let mut message = Map::new();
        let mut put = |name: &str, value: Value| drop(message.insert(name.to_owned(), value));
        match self.next() {
            0..=3 => {}
            4..=7 => put("messageId", self.text().into()),
            _ => put("messageId", format!("m{index}").into()),
        }
        match self.next() {
            0..=15 => {}
            16..=31 => put("body", Value::Null),
            _ => put("body", self.body().into()),
        }
        match self.next() {
            0..=63 => {}
            64..=95 => put("eventSourceARN", self.text().into()),
            _ => put("eventSourceARN", "arn:aws:sqs:eu-west-1:1:q".into()),
        }
        match self.next() {
            0..=63 => {}
            64..=95 => put("attributes", json!({ "SentTimestamp": self.text() })),
            _ => put(
                "attributes",
                json!({ "SentTimestamp": self.pick(&["17", "18446744073709551615"]) }),
            ),
        }
        match self.next() {
            0..=63 => {}
            64..=95 => put("messageAttributes", Value::Null),
            96..=159 => put(
                "messageAttributes",
                json!({ "order": { "dataType": "Binary", "binaryValue": "AQID" } }),
            ),
            _ => {
                let order = json!({ "dataType": "String", "stringValue": self.text() });
                put(
                    "messageAttributes",
                    json!({ "order": order, self.pick(&NAMES): order }),
                );
            }
        }
        Value::Object(message)
    }
}

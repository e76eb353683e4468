//! Checks that `docs/metrics.md` is what the structs of metrics generate, and that the alarms and the dashboard name only
//! metrics of these structs. `cargo xtask metrics` writes the file. The checks of the templates read it.

use std::collections::{BTreeMap, BTreeSet};

use shared::metrics::{DIMENSIONS, NAMESPACE};
use syn::{
    Expr, ExprLit, Field, GenericArgument, Item, ItemStruct, Lit, Meta, PathArguments, Type,
};

use crate::files::{assert_generated, read};

const HEAD: &str = "\
# Metrics

<!-- Generated from the structs in aggregator/src/metrics.rs and batch-processor/src/metrics.rs, and from infra/sam/template.yaml,
by `cargo xtask metrics`. Edits here are lost. -->

Every metric of the two functions. They write metrics into their logs, in CloudWatch's [embedded metric
format](https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html): one
line an invocation. An invocation with messages of several queues writes a line for each queue, because CloudWatch takes the
value of a dimension from the line; the templates give each function one queue. An invocation without anything to measure writes
no line.
";

/// A struct of metrics, and what the document says about it.
struct Declared {
    title: &'static str,
    file: &'static str,
    name: &'static str,
    /// The function in the template.
    function: &'static str,
    about: &'static str,
}

const STRUCTS: [Declared; 3] = [
    Declared {
        title: "Aggregator",
        file: "aggregator/src/metrics.rs",
        name: "AggregatorMetrics",
        function: "Aggregator",
        about: "`source` is the ARN of the queue that the messages came from. What is zero is left out of the line.",
    },
    Declared {
        title: "Batch processor",
        file: "batch-processor/src/metrics.rs",
        name: "BatchProcessorMetrics",
        function: "BatchProcessor",
        about: "`source` is the ARN of the queue that the events of the batch came from. What is zero, or was not measured, is left \
                out of the line.",
    },
    Declared {
        title: "Sweep",
        file: "batch-processor/src/metrics.rs",
        name: "SweepMetrics",
        function: "BatchProcessor",
        about: "`source` is `all`. Every sweep of the batch-processor writes every metric, zero too.",
    },
];

/// A metric, as the struct declares it.
struct Metric {
    name: String,
    unit: &'static str,
    meaning: String,
}

/// Who looks at a metric of a function: alarms and widgets of the dashboard, in the order of the template.
type Uses = BTreeMap<(String, String), Vec<String>>;

impl Declared {
    fn metrics(&self) -> Vec<Metric> {
        let file = syn::parse_file(&read(self.file)).expect("the crate compiles");
        let is_it = |item: Item| match item {
            Item::Struct(item) if item.ident == self.name => Some(item),
            _ => None,
        };
        let found: Option<ItemStruct> = file.items.into_iter().find_map(is_it);
        let found = found.unwrap_or_else(|| panic!("no struct {} in {}", self.name, self.file));
        found.fields.iter().map(metric).collect()
    }
}

fn metric(field: &Field) -> Metric {
    let name = field.ident.as_ref().expect("the fields have names");
    let kind = last_word(&field.ty);
    let pascal = |word: &str| {
        let (first, rest) = word.split_at(1);
        first.to_uppercase() + rest
    };
    Metric {
        name: name.to_string().split('_').map(pascal).collect(),
        unit: unit(&kind),
        meaning: comment(field),
    }
}

/// Returns the last word of a type; of an optional metric, that of the metric's type.
fn last_word(kind: &Type) -> String {
    let Type::Path(path) = kind else {
        panic!("expected a type of shared::metrics");
    };
    let last = path.path.segments.last().expect("a path has a segment");
    match &last.arguments {
        PathArguments::AngleBracketed(within) => match within.args.first() {
            Some(GenericArgument::Type(metric)) => last_word(metric),
            _ => panic!("expected a type of shared::metrics"),
        },
        _ => last.ident.to_string(),
    }
}

/// Returns the unit of a type of `shared::metrics`. An end-to-end test compares it with the lines that the functions write.
fn unit(kind: &str) -> &'static str {
    match kind {
        "Count" | "Level" => "Count",
        "Bytes" => "Bytes",
        "LongestTime" | "OldestAge" => "Milliseconds",
        "LowestPercent" => "Percent",
        other => panic!("`{other}`: expected a type of shared::metrics"),
    }
}

/// Returns the doc comment of a field, as one line.
fn comment(field: &Field) -> String {
    let lines = field.attrs.iter().filter_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else {
            return None;
        };
        match &pair.value {
            Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) if pair.path.is_ident("doc") => Some(text.value().trim().to_owned()),
            _ => None,
        }
    });
    Vec::from_iter(lines).join(" ")
}

/// Reads the alarms and the dashboard of the SAM template.
fn uses_in_sam(template: &str) -> Uses {
    let mut uses = Uses::new();
    let (mut resource, mut widget) = ("", "");
    let mut is_ours = false;
    let mut alarm_on: Option<&str> = None;
    for line in template.lines() {
        let words = line.trim();
        let heading = line.strip_prefix("  ");
        if let Some(name) = heading.and_then(|line| line.strip_suffix(':'))
            && name.chars().all(char::is_alphanumeric)
        {
            resource = name;
        }
        if let Some(namespace) = words.strip_prefix("Namespace: ") {
            is_ours = namespace == NAMESPACE;
        }
        if let Some(name) = words.strip_prefix("MetricName: ") {
            alarm_on = is_ours.then_some(name);
        }
        let function = words.strip_prefix("- { Name: function, Value: !Ref ");
        if let (Some(name), Some(function)) = (alarm_on, function) {
            let function = function.trim_end_matches(" }");
            add(&mut uses, function, name, format!("alarm `{resource}`"));
            alarm_on = None;
        }
        if let Some((_, title)) = line.split_once(r#""title": ""#) {
            widget = title.split('"').next().unwrap_or_default();
        }
        let shown: Vec<&str> = words.split('"').skip(1).step_by(2).collect();
        if let [namespace, name, "function", function, ..] = shown[..]
            && namespace == NAMESPACE
        {
            let function = function.trim_matches(['$', '{', '}']);
            add(&mut uses, function, name, format!("dashboard, *{widget}*"));
        }
    }
    uses
}

fn add(uses: &mut Uses, function: &str, metric: &str, by: String) {
    let key = (function.to_owned(), metric.to_owned());
    let by_all = uses.entry(key).or_default();
    if !by_all.contains(&by) {
        by_all.push(by);
    }
}

/// Returns the function and the name of every metric in the alarms and the dashboard of the CDK construct.
fn named_in_cdk(watch: &str) -> BTreeSet<(String, String)> {
    let mut named = BTreeSet::new();
    // The alarms that are not on an expression are on what the sweep finds.
    let alarm = "namespace: NAMESPACE,\nmetricName: '";
    let calls = [
        ("aggregator('", "Aggregator"),
        ("ofAggregator('", "Aggregator"),
        ("processor('", "BatchProcessor"),
        ("sweep('", "BatchProcessor"),
        ("ofSweep('", "BatchProcessor"),
        (alarm, "BatchProcessor"),
    ];
    let watch = Vec::from_iter(watch.lines().map(str::trim_start)).join("\n");
    for (call, function) in calls {
        for after in watch.split(call).skip(1) {
            let name = after.split('\'').next().unwrap_or_default();
            named.insert((function.to_owned(), name.to_owned()));
        }
    }
    named
}

fn document() -> String {
    let uses = uses_in_sam(&read("infra/sam/template.yaml"));
    let mut text = HEAD.to_owned();
    let [function, source] = DIMENSIONS;
    text += &format!(
        "\nThe namespace is `{NAMESPACE}`, and every metric has the dimensions `{function}`, the name of the function, and `{source}`.\n"
    );
    for each in &STRUCTS {
        let head = "| metric | unit | meaning | used by |\n|---|---|---|---|";
        text += &format!("\n## {}\n\n{}\n\n{head}\n", each.title, each.about);
        for metric in each.metrics() {
            let Metric {
                name,
                unit,
                meaning,
            } = metric;
            let key = (each.function.to_owned(), name.clone());
            let used_by = uses.get(&key).map_or_else(String::new, |by| by.join(", "));
            let row = format!("| `{name}` | {unit} | {meaning} | {used_by} |\n");
            assert_ne!(meaning, "", "`{name}` has no comment");
            assert_eq!(row.matches('|').count(), 5, "a cell cannot hold `|`: {row}");
            text += &row;
        }
    }
    text
}

#[test]
fn the_metrics_document_lists_exactly_what_the_functions_measure() {
    assert_generated("docs/metrics.md", &document(), "UPDATE_METRICS", "metrics");
}

#[test]
fn alarms_and_dashboard_name_only_metrics_that_are_measured() {
    let measured = STRUCTS.iter().flat_map(|each| {
        let metrics = each.metrics().into_iter();
        metrics.map(|metric| (each.function.to_owned(), metric.name))
    });
    let measured = BTreeSet::from_iter(measured);
    let in_sam = uses_in_sam(&read("infra/sam/template.yaml")).into_keys();
    let in_sam = BTreeSet::from_iter(in_sam);
    let unknown: Vec<_> = in_sam.difference(&measured).collect();
    assert!(unknown.is_empty(), "nobody measures {unknown:?}");
    let in_cdk = named_in_cdk(&read("infra/cdk/lib/watch.ts"));
    assert_eq!(in_cdk, in_sam, "the CDK names others than SAM");
    let alarms = [
        "BatchesOverdue",
        "BatchesInError",
        "Rejected",
        "Failed",
        "Duplicates",
        "Conflicts",
    ];
    for name in alarms {
        assert!(in_sam.iter().any(|(_, named)| named == name), "{name}");
    }
}

#[test]
fn a_metric_that_nobody_measures_is_noticed() {
    let template = read("infra/sam/template.yaml");
    for there in [
        "      MetricName: BatchesOverdue",
        "\"UniqueEventBatchAggregator\", \"Claimed",
        "              MetricName: Failed",
    ] {
        assert!(template.contains(there), "{there}");
        let uses = uses_in_sam(&template.replace(there, &format!("{there}Other")));
        let is_found = uses.keys().any(|(_, name)| name.ends_with("Other"));
        assert!(is_found, "{there}");
    }
}

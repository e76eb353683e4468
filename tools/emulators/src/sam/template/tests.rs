use super::*;

fn resolve(text: &str, parameters: &[(&str, &str)]) -> anyhow::Result<Resources> {
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let queue_url = |queue: &str| format!("http://sqs/{queue}");
    Template::parse(text)?.resolve(&parameters.collect(), &queue_url)
}

fn queue(properties: &str) -> String {
    format!("Resources:\n  Jobs:\n    Type: AWS::SQS::Queue\n    Properties: {properties}\n")
}

#[test]
fn a_wrong_template_is_refused_with_the_place_and_the_reason() {
    let cases = [
        ("[", "while"),
        ("a: 1", "`Resources`: missing"),
        (
            &queue("{ VisibilityTimeout: !Ref Nothing }"),
            "`Nothing`: neither a parameter nor a resource",
        ),
        (
            &queue("{ VisibilityTimeout: !Cidr [1] }"),
            "{\"Fn::Cidr\":[1]}`: not supported",
        ),
        (
            &queue("{ VisibilityTimeout: soon }"),
            "resource `Jobs` of the template: `soon`: invalid digit",
        ),
        (
            &queue("{ VisibilityTimeout: !If [Hurry, 1, 2] }"),
            "condition `Hurry`: not in the template",
        ),
    ];
    for (text, expected) in cases {
        let error = format!("{:#}", resolve(text, &[]).unwrap_err());
        assert!(error.contains(expected), "{error}");
    }
    let error = resolve(&queue("{}"), &[("Colour", "blue")]).unwrap_err();
    assert_eq!(error.to_string(), "parameter `Colour`: not in the template");
}

#[test]
fn a_variable_whose_parameter_has_no_value_is_left_out() {
    let text = "Parameters: { Sink: { Type: String }, Size: { Default: 7 } }
Resources:
  Work:
    Type: AWS::Serverless::Function
    Properties:
      MemorySize: 512
      Environment: { Variables: { SINK: !Ref Sink, SIZE: !Ref Size } }
      Architectures: [arm64]
      Events: { Jobs: { Type: SQS, Properties: { Queue: jobs, BatchSize: 1 } } }
";
    let variables = |parameters: &[(&str, &str)]| {
        let resources = resolve(text, parameters).unwrap();
        resources.functions["work"].variables.clone()
    };
    let size = || ("SIZE".to_owned(), "7".to_owned());
    assert_eq!(variables(&[]), BTreeMap::from([size()]));
    let sink = ("SINK".to_owned(), "log:".to_owned());
    let both = BTreeMap::from([sink, size()]);
    assert_eq!(variables(&[("Sink", "log:")]), both);
}

#[test]
fn alarms_are_found_with_the_names_of_their_queues() {
    let alarm = "Resources:
  Jobs: { Type: AWS::SQS::Queue }
  Age:
    Type: AWS::CloudWatch::Alarm
    Properties: { Dimensions: [{ Name: QueueName, Value: !GetAtt Jobs.QueueName }], Threshold: !Ref Limit }
Parameters: { Limit: { Default: 9 } }
";
    let template = Template::parse(alarm).unwrap();
    let alarms = template.alarms(&BTreeMap::new()).unwrap();
    let expected =
        json!({ "Dimensions": [{ "Name": "QueueName", "Value": "jobs" }], "Threshold": "9" });
    assert_eq!(alarms["Age"], expected);
}

/// A branch that is not taken is not resolved: it may use what is not supported.
#[test]
fn a_condition_chooses_the_branch_that_is_resolved() {
    let timeout = |condition: &str, hurry: &str| {
        let template = format!(
            "Parameters: {{ Hurry: {{ Default: no }} }}\nConditions: {{ Hurried: {condition} }}\n{}",
            queue("{ VisibilityTimeout: !If [Hurried, !Sub '${Hurry}', !Join ['', [slow]]] }")
        );
        let resources = resolve(&template, &[("Hurry", hurry)])?;
        anyhow::Ok(resources.queues["jobs"].visibility_timeout)
    };
    let equals = "!Equals [!Ref Hurry, 7]";
    let differs = "!Not [!Equals [!Ref Hurry, slow]]";
    let part = "!Equals [!Select [1, !Split [':', 'a:7:b']], !Ref Hurry]";
    for condition in [equals, differs, part] {
        let seven = Some(std::time::Duration::from_secs(7));
        assert_eq!(timeout(condition, "7").unwrap(), seven, "{condition}");
        let error = format!("{:#}", timeout(condition, "slow").unwrap_err());
        let expected = "{\"Fn::Join\":[\"\",[\"slow\"]]}`: not supported";
        assert!(error.contains(expected), "{error}");
    }
}

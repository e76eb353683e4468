use super::*;

fn rejected(outcome: Option<&str>) -> Rejected {
    Rejected {
        batch_id: "b".to_owned(),
        part: Some(0),
        seq: 1,
        event_id: Some("e".to_owned()),
        outcome: outcome.map(str::to_owned),
        ..Rejected::default()
    }
}

fn report(redrives: bool, done: bool, outcomes: &[Option<&str>]) -> Report {
    let mut report = Report {
        done,
        redrives,
        rejects: outcomes.iter().copied().map(rejected).collect(),
        ..Report::default()
    };
    report.count();
    report
}

#[test]
fn a_list_is_done_and_a_redrive_says_what_it_did_or_would_do() {
    let ended =
        |redrives, done, outcomes: &[Option<&str>]| report(redrives, done, outcomes).ended();
    assert!(matches!(ended(false, false, &[]), Ok(Done::NotFound)));
    assert!(matches!(ended(false, false, &[None]), Ok(Done::Yes)));
    let redrive = Some(Decision::Redrive.words());
    assert!(matches!(
        ended(true, false, &[redrive]),
        Ok(Done::OnlyShown)
    ));
    let left = Some(Decision::Delivered.words());
    assert!(matches!(ended(true, true, &[left]), Ok(Done::NotFound)));
    let redriven = Some("redriven");
    assert!(matches!(
        ended(true, true, &[redriven, left]),
        Ok(Done::Yes)
    ));
    let failed = ended(true, true, &[redriven, Some("failed: no reply")]);
    assert!(matches!(failed, Err(Failure::Some { failed: 1, all: 2 })));
    let text = report(true, false, &[redrive]).to_string();
    let hint = "to redrive them, add --yes --why TEXT";
    assert!(text.contains(hint), "{text}");
}

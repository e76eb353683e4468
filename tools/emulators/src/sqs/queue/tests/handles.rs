//! Receipt handles.

use super::*;

#[test]
fn handles_that_were_never_returned_are_invalid() {
    let mut queue = queue(QueueAttributes::default());
    send(&mut queue, 0, "a");
    let good = Receipt::from_handle(&receive_one(&mut queue, 0).receipt_handle).unwrap();
    let bad = [
        "garbage".to_owned(),
        Receipt { queue: 2, ..good }.to_handle(),
        Receipt {
            key: good.key + 1,
            ..good
        }
        .to_handle(),
        Receipt { receive: 2, ..good }.to_handle(),
        Receipt { receive: 0, ..good }.to_handle(),
    ];
    for handle in bad {
        let error = SqsError::ReceiptHandleIsInvalid {
            handle: handle.clone(),
        };
        assert_eq!(queue.delete(1, &handle), Err(error.clone()));
        assert_eq!(queue.change_visibility(1, &handle, 0), Err(error));
    }
}

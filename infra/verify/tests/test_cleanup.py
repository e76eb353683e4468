"""The deletion of a stack in each state that it can be in, with a client that has a script."""

import unittest
from unittest import mock

from botocore.exceptions import ClientError

from verify import cleanup


def refused(code):
    return ClientError({"Error": {"Code": code, "Message": "refused"}}, "DeleteStack")


class Scripted:
    """A client of CloudFormation: a stack that has these states one after the other, and is gone then."""

    def __init__(self, *states, refusals=()):
        self.states, self.refusals, self.calls = list(states), list(refusals), []

    def describe_stacks(self, StackName):
        if not self.states:
            raise refused("ValidationError")
        return {"Stacks": [{"StackName": StackName, "StackStatus": self.states.pop(0)}]}

    def describe_stack_resources(self, StackName):
        statuses = {"InputQueue": "DELETE_COMPLETE", "ChunkBucket": "DELETE_FAILED"}
        return {"StackResources": [{"LogicalResourceId": name, "ResourceStatus": status} for name, status in statuses.items()]}

    def cancel_update_stack(self, **_):
        self.calls.append("cancel")

    def delete_stack(self, **arguments):
        self.calls.append("delete without " + ",".join(arguments["RetainResources"]) if "RetainResources" in arguments else "delete")
        if self.refusals:
            raise self.refusals.pop(0)


class StackDeletion(unittest.TestCase):
    def deleted(self, client):
        with mock.patch.object(cleanup, "STACK_POLL_SECONDS", 0):
            cleanup.Stacks(lambda _: client, "verify-aws-00000000").delete("verify-aws-00000000-s")
        return client.calls

    def test_a_stack_is_deleted_once_and_waited_for(self):
        for state in ("CREATE_IN_PROGRESS", "CREATE_FAILED", "CREATE_COMPLETE", "UPDATE_COMPLETE", "UPDATE_ROLLBACK_COMPLETE"):
            with self.subTest(state=state):
                self.assertEqual(self.deleted(Scripted(state, "DELETE_IN_PROGRESS", "DELETE_IN_PROGRESS")), ["delete"])

    def test_an_update_is_cancelled_first(self):
        client = Scripted("UPDATE_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE", "DELETE_IN_PROGRESS")
        self.assertEqual(self.deleted(client), ["cancel", "delete"])

    def test_a_deletion_that_is_refused_for_the_state_is_asked_again(self):
        client = Scripted("UPDATE_ROLLBACK_IN_PROGRESS", "UPDATE_ROLLBACK_COMPLETE", "DELETE_IN_PROGRESS", refusals=[refused("ValidationError")])
        self.assertEqual(self.deleted(client), ["delete", "delete"])

    def test_a_deletion_that_is_not_permitted_is_an_error(self):
        with self.assertRaises(ClientError):
            self.deleted(Scripted("CREATE_COMPLETE", "CREATE_COMPLETE", refusals=[refused("AccessDenied")]))

    def test_what_stops_a_deletion_is_left_for_the_other_kinds(self):
        client = Scripted("CREATE_COMPLETE", "DELETE_IN_PROGRESS", "DELETE_FAILED", "DELETE_IN_PROGRESS")
        self.assertEqual(self.deleted(client), ["delete", "delete without ChunkBucket"])

    def test_a_stack_that_stays_is_an_error_after_a_time(self):
        with mock.patch.object(cleanup, "STACK_SECONDS_MAX", -1), self.assertRaises(TimeoutError) as raised:
            self.deleted(Scripted("DELETE_IN_PROGRESS"))
        self.assertIn("still DELETE_IN_PROGRESS", str(raised.exception))


class Failures(unittest.TestCase):
    def cleaned(self, passes):
        """Cleans with scripted passes; returns what could not be deleted, and the number of passes."""
        with mock.patch.object(cleanup, "SETTLE_SECONDS", 0), mock.patch.object(cleanup, "one_pass", side_effect=passes) as made:
            return cleanup.clean(None, mock.Mock(name="x", remaining=list)), made.call_count

    def test_a_clean_up_ends_after_two_passes_that_find_nothing(self):
        self.assertEqual(self.cleaned([(3, {}), (0, {}), (1, {}), (0, {}), (0, {})]), ([], 5))

    def test_a_clean_up_that_gets_nowhere_ends(self):
        stuck = (0, {"S3 bucket": "denied"})
        self.assertEqual(self.cleaned([(2, {"S3 bucket": "denied"}), stuck, stuck, stuck]), (["S3 bucket: denied"], 4))

    def test_a_failure_that_passes_is_no_failure(self):
        self.assertEqual(self.cleaned([(1, {"IAM role": "in use"}), (1, {}), (0, {}), (0, {})]), ([], 4))


if __name__ == "__main__":
    unittest.main()

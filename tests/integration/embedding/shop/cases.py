"""The tests of the project, for Django's own runner."""

import os
from pathlib import Path

import pytest
from django.db import connection, connections, transaction
from django.test import TestCase, TransactionTestCase

from checkpoints import SyncCheckpointer
from checkpoints.exceptions import InsideTransaction
from tests.integration.embedding.shop import views


class CaseMixin:
    def test_payment_is_made(self) -> None:
        effects = Path(os.environ["SHOP_EFFECTS"])
        before = effects.read_text()
        content = views.make_payment(views.open_registry(1), 1).content

        assert (content, effects.read_text()) == (b'{"content": "paid 1"}', before + "paid 1\n")

    def test_view_in_the_transaction_of_its_request_is_refused(self) -> None:
        response = self.client.get("/charge-and-answer/1/")  # type: ignore[attr-defined]

        assert (response.status_code, response.json()["error"]) == (409, "inside_transaction")

    def test_block_of_the_test_itself_counts(self) -> None:
        with transaction.atomic(), pytest.raises(InsideTransaction):
            SyncCheckpointer().start_session("s")


class InTestCase(CaseMixin, TestCase):
    @classmethod
    def setUpTestData(cls) -> None:
        with SyncCheckpointer() as checkpointer:
            checkpointer.start_session("from setUpTestData")
            checkpointer.save_checkpoint("from setUpTestData", [], None, 0)

    def test_sees_what_was_set_up(self) -> None:
        assert connection.in_atomic_block
        assert (SyncCheckpointer().load_latest("from setUpTestData") or {})["version"] == 1


class InTransactionTestCase(CaseMixin, TransactionTestCase):
    """Django empties all tables after each of these tests."""

    client_of_all_tests = SyncCheckpointer()

    def test_one_client_serves_all_tests(self) -> None:
        self.check_client("first")

    def test_one_client_serves_all_tests_again(self) -> None:
        self.check_client("second")

    def check_client(self, session_id: str) -> None:
        with self.client_of_all_tests.session(session_id) as session:
            assert session.append([{"role": "user", "content": session_id}]) == 1

    def test_is_in_no_transaction(self) -> None:
        assert not connection.in_atomic_block


class OnTheSecondAlias(TransactionTestCase):
    databases = {"default", "durable"}

    @classmethod
    def tearDownClass(cls) -> None:
        super().tearDownClass()
        if connections["durable"].vendor == "postgresql":
            connections["durable"].close_pool()  # type: ignore[attr-defined]

    def test_both_aliases_are_one_database(self) -> None:
        content = views.make_payment(views.open_registry(2, using="durable"), 2).content

        assert content == b'{"content": "paid 2"}'
        assert [call["status"] for call in SyncCheckpointer().pending_tool_calls("order-2")] == []

"""What the watchdogs of ranks find out, on ranks that are threads of this process."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

import nbmod as mx
from nbmod.kvstore.distributed import watchdog
from nbmod.kvstore.distributed.communicator import Communicator
from nbmod.kvstore.distributed.watchdog import Watchdog
from nbmod.kvstore.distributed.watched import WatchedCommunicator
from nbmod.launcher import position
from tests.kvstore.distributed.threads import Meeting, ThreadCommunicator


class QueuedMessages:
    """Messages between watchdogs in this process."""

    def __init__(self, rank: int, queues: Sequence[queue.Queue[tuple[int, bytes]]]):
        self.rank, self.size, self._queues = rank, len(queues), queues

    def send(self, rank: int, text: bytes) -> None:
        self._queues[rank].put((self.rank, text))

    def receive(self) -> tuple[int, bytes] | None:
        try:
            return self._queues[self.rank].get_nowait()
        except queue.Empty:
            return None

    def abort(self) -> None:
        raise AssertionError("no test ends its process")


class Ranks:
    """The watchdogs of some ranks, and what they have said."""

    def __init__(self, size: int, deaf: Sequence[int] = (), timeout: float = 0.05):
        self.said: queue.Queue[tuple[int, str]] = queue.Queue()
        queues: list[queue.Queue[tuple[int, bytes]]] = [queue.Queue() for _ in range(size)]
        self.dogs = {rank: self._watchdog(rank, queues, timeout)
                     for rank in range(size) if rank not in deaf}

    def _watchdog(self, rank: int, queues: Sequence[queue.Queue[tuple[int, bytes]]],
                  timeout: float) -> Watchdog:
        def die(message: str) -> None:
            self.said.put((rank, message))
            self.dogs[rank]._stopping.set()

        return Watchdog(QueuedMessages(rank, queues), [f"h{each}" for each in range(len(queues))],
                        timeout, die)

    def message(self) -> tuple[int, str]:
        """The first rank that speaks, and what it says."""
        return self.said.get(timeout=60)

    def stop(self) -> None:
        for dog in self.dogs.values():
            dog.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Watchdogs that look often, and wait for answers only shortly; a known position."""
    monkeypatch.setattr(watchdog, "POLL", 0.01)
    monkeypatch.setattr(watchdog, "ANSWER", 1.0)
    monkeypatch.setattr(watchdog, "FIRST", 1)
    monkeypatch.setattr(watchdog, "ENDED", 0.05)
    monkeypatch.setattr(position, "_now", position.Position(3, 118))


@contextmanager
def ranks(*args, **options) -> Iterator[Ranks]:
    made = Ranks(*args, **options)
    try:
        yield made
    finally:
        made.stop()


def test_a_rank_that_has_not_begun_an_exchange_is_named():
    with ranks(3) as found, found.dogs[0].exchange("push of 2 keys"), \
            found.dogs[2].exchange("push of 2 keys"):
        rank, message = found.message()
    assert rank == 0, "of two that wait the lower one speaks"
    assert message.startswith("rank 1 of 3 (host h1) has not reached the push of 2 keys of epoch 3,"
                              " batch 118 for ")
    assert "it is at epoch 3, batch 118, in " in message
    assert "; ranks 0, 2 wait for it. NBMOD_DIST_TIMEOUT sets" in message


def test_a_rank_that_does_not_answer_is_named():
    with ranks(3, deaf=[0]) as found, found.dogs[1].exchange("barrier"), \
            found.dogs[2].exchange("barrier"):
        rank, message = found.message()
    assert rank == 1 and "rank 0 of 3 (host h0) has not reached the barrier" in message
    assert "it does not answer, so it is stopped, or in code" in message


def test_a_rank_in_an_earlier_exchange_of_the_same_communicator_is_named():
    with ranks(2) as found:
        for dog in found.dogs.values():
            with dog.exchange("init"):
                pass
            assert dog.stream() == 1
        with found.dogs[1].exchange("other", stream=1), found.dogs[0].exchange("pull"):
            rank, message = found.message()
    assert rank == 0 and "rank 1 of 2 (host h1) has not reached the pull" in message
    assert "it waits in the other, at epoch 3, batch 118, for " in message


def test_different_exchanges_are_told():
    with ranks(2) as found, found.dogs[0].exchange("push of key 'a'"), \
            found.dogs[1].exchange("pull of key 'b'"):
        rank, message = found.message()
    assert rank == 0
    assert "rank 0 in push of key 'a', rank 1 in pull of key 'b'" in message


def test_an_exchange_that_all_are_in_is_blamed_on_the_network():
    with ranks(2) as found, found.dogs[0].exchange("push"), found.dogs[1].exchange("push"):
        _, message = found.message()
    assert message.startswith("all 2 ranks are in the push of epoch 3, batch 118 for ")
    assert "is the network between the hosts (h0, h1) in order?" in message


def test_a_single_peer_that_does_not_answer_is_named():
    with ranks(3) as found, found.dogs[1].exchange("pull of key 'w'", peer=2):
        rank, message = found.message()
    assert rank == 1
    assert message.startswith("rank 2 of 3 (host h2) has not answered the pull of key 'w' of epoch "
                              "3, batch 118 of rank 1 for ")


def test_exchanges_that_end_in_time_are_no_matter(monkeypatch):
    monkeypatch.setattr(watchdog, "FIRST", 1000)
    with ranks(2) as found:
        with found.dogs[0].exchange("push"):
            assert position.current().doing == "push"
            time.sleep(0.2)    # the first one may take longer
        assert position.current().doing == ""
        time.sleep(0.2)
        assert found.said.empty()
        with found.dogs[0].exchange("push"):
            assert found.message()[0] == 0


def test_no_timeout_is_no_limit():
    with ranks(2, timeout=0) as found, found.dogs[0].exchange("push"):
        time.sleep(0.3)
        assert found.said.empty()


def test_scripts_end_together():
    with ranks(3) as found:
        order: list[int] = []

        def end(rank: int) -> None:
            found.dogs[rank].end_script()
            order.append(rank)

        early = [threading.Thread(target=end, args=[rank]) for rank in (0, 1)]
        for thread in early:
            thread.start()
        time.sleep(0.2)
        assert order == [], "they wait for the last one"
        end(2)
        for thread in early:
            thread.join(60)
        assert sorted(order) == [0, 1, 2]


def test_a_script_that_has_ended_too_early_is_named():
    with ranks(2) as found:
        early = threading.Thread(target=found.dogs[1].end_script, daemon=True)
        early.start()
        with found.dogs[0].exchange("push"):
            _, message = found.message()
        assert "rank 1 of 2 (host h1) has not reached the push" in message
        assert "its script has ended" in message
        found.dogs[0]._tell({"ended": True}, [1])
        early.join(60)


@pytest.mark.parametrize("timeout", [0, 1000])
def test_a_script_that_has_ended_too_early_is_named_at_once(timeout):
    """And not after the timeout, if there is one."""
    with ranks(3, timeout=timeout) as found:
        found.dogs[1]._ended.add(1)     # as `end_script`, which waits for the others
        with found.dogs[0].exchange("push"), found.dogs[2].exchange("push"):
            rank, message = found.message()
        assert rank == 0 and "rank 1 of 3 (host h1) has not reached the push" in message
        assert "its script has ended; ranks 0, 2 wait for it" in message


def test_a_rank_that_has_ended_is_no_reason_to_give_up_on_a_slow_one():
    """It has done the exchange, in which the others still are, or it serves requests."""
    with ranks(3, timeout=1000) as found:
        with found.dogs[1].exchange("push"):
            pass
        found.dogs[1]._ended.add(1)
        with found.dogs[0].exchange("push"), found.dogs[2].exchange("pull", peer=1):
            time.sleep(0.5)     # ten times ENDED
            assert found.said.empty()


def test_every_exchange_of_a_communicator_is_watched():
    """No method of the protocol is forgotten, and the results are those of the communicator."""
    methods = {name for name in vars(Communicator) if not name.startswith("_")}
    with ranks(1) as found:
        plain = ThreadCommunicator(0, 1, Meeting(1))
        watched = WatchedCommunicator(plain, found.dogs[0])
        array = mx.nd.array([1, 2]).asnumpy()
        calls = {"barrier": (), "quiet_barrier": (), "broadcast": (array,), "allgather": (array,),
                 "allgatherv": (array, [2]), "alltoallv": (array, [2], array.copy(), [2])}
        assert methods - calls.keys() == {"rank", "size", "hosts", "duplicate", "abort",
                                          "waiting_for"}
        for number, (name, arguments) in enumerate(calls.items(), 1):
            watched.operation = f"test of {name}"
            getattr(watched, name)(*arguments)
            assert found.dogs[0]._begun[1] == number
            assert f"test of {name}" in found.dogs[0]._done
        with watched.waiting_for(0, "test of one rank"):
            assert [each.peer for each in found.dogs[0]._active] == [0]
        assert found.dogs[0]._begun[1] == len(calls)    # not one of all ranks
        assert (watched.rank, watched.size, watched.hosts) == (0, 1, plain.hosts)
        with watched.waiting_for(0, "pull of key 'w'"):
            assert position.current().doing == "pull of key 'w'"
        assert watched.duplicate()._stream == 2

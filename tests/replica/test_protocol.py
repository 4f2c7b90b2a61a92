"""One replica with peers and a store that a test speaks for: what it answers, when, and what it asks for (S2 to S8)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from rtmw.errors import LogError
from rtmw.replica import words as w
from rtmw.replica.control.store import Outcome
from rtmw.replica.protocol import Replica
from rtmw.replica.words import Control, Kind, Marks, Reply, Role, Settings
from tests.replica.disk import Disk, encode

SIZE = len(encode(1, w.Kind.DATA, b"id0", b"x" * 20))
"""Of each batch that these tests append."""


class Stage:
    """The master of epoch 1 on an empty log; disks sync at once, and nobody else does anything by himself."""

    def __init__(self, members: str = "abc", settings: Settings | None = None, me: str = "a") -> None:
        self.disk, self.now, self.effects = Disk(1000), 100.0, list[w.Effect]()
        self.control = Control(0, "", frozenset(members), dict.fromkeys(members, 1), settings=settings or Settings())
        self.version, self.answers = 1, dict[int, w.Answer]()
        self.slices = tuple[bytes, ...]()
        self.replica = Replica(me, self.disk, self.disk.marks, 1, members)
        self.do(self.replica.begin(self.now))

    def do(self, effects: Iterable[w.Effect]) -> None:
        for effect in effects:
            self.effects.append(effect)
            if isinstance(effect, w.Keep):
                self.step(w.Done(effect))
            elif isinstance(effect, w.Answer):
                self.answers[effect.ticket] = effect

    def step(self, event: w.Event) -> None:
        self.do(self.replica.step(event, self.now))
        if self.disk.durable < self.disk.end:
            self.disk.durable = self.disk.end
            self.step(w.Synced())

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.step(w.Tick())

    def store(self, outcome: Outcome = Outcome.APPLIED) -> w.Effect | None:
        """Answers the last request of the store, if it has none yet."""
        asked = [one for one in self.effects if isinstance(one, w.ReadStore | w.ChangeStore)]
        if not asked:
            return None
        self.effects = [one for one in self.effects if one not in asked]
        last = asked[-1]
        if isinstance(last, w.ReadStore):
            self.step(w.Read(last.number, self.version, self.control, self.slices))
        else:
            if outcome is Outcome.APPLIED:
                self.version, self.control = self.version + 1, last.control
            self.step(w.Changed(last.number, outcome, self.version))
        return last

    def lead(self) -> Stage:
        for _ in range(6):
            self.wait(0.2)
        while self.replica.role is not Role.MASTER:
            assert self.store() is not None
        return self

    def ack(self, peer: str, position: int = -1, promise: int = 1) -> None:
        durable = self.disk.end if position < 0 else position
        self.step(w.Received(peer, w.Ack(self.replica.epoch, durable, durable, 1, promise, (1, 1))))

    def append(self, ticket: int, size: int = 20) -> None:
        self.step(w.Append(ticket, b"id%d" % ticket, 0, b"x" * size))

    def reply(self, ticket: int) -> Reply | None:
        return self.answers[ticket].reply if ticket in self.answers else None


# Proves S4.
def test_s4_a_request_is_written_when_all_in_sync_have_acknowledged_its_end_and_the_store_is_not_asked() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.ack("b")
    assert stage.reply(1) is None
    stage.ack("c", SIZE - 1)
    assert stage.reply(1) is None
    stage.ack("c")
    assert stage.answers[1] == w.Answer(1, Reply.WRITTEN, 0, SIZE)
    assert stage.store() is None


# Proves S5.
def test_s5_after_the_sync_timeout_what_the_checkpoint_does_not_cover_goes_to_the_cache_and_is_cached() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.ack("b")
    stage.wait(0.49)
    assert stage.store() is None
    stage.wait(0.02)
    put = stage.store()
    assert isinstance(put, w.ChangeStore)
    assert put.put == (0, SIZE)
    assert stage.reply(1) is Reply.CACHED


def test_a_slave_shows_what_is_committed_as_soon_as_that_is_durable_here_and_not_with_the_next_heartbeat() -> None:
    stage, data = Stage(me="b"), encode(1, w.Kind.DATA, b"id0", b"x" * 20)
    stage.step(w.Received("a", w.Beat(1, 0, 0, stage.control, {}, (1, 0), (), SIZE)))
    assert stage.replica.epoch == 1
    stage.step(w.Received("a", w.Batches(1, 0, data, SIZE)))
    assert [one.position for one in stage.effects if isinstance(one, w.Commit)] == [SIZE]


# Proves G366, S7.
def test_s7_a_node_that_stood_still_itself_does_not_take_its_master_for_silent() -> None:
    stage = Stage()
    stage.wait(0.0)
    stage.wait(6.0)
    assert stage.store() is None
    for _ in range(4):
        stage.wait(0.2)
        assert stage.store() is None
    stage.wait(0.3)
    assert isinstance(stage.store(), w.ReadStore)


@pytest.mark.parametrize("settings", [Settings(slice=10), Settings(cache=10)])
# Proves S5.
def test_s5_what_has_no_room_in_the_cache_or_is_larger_than_a_slice_is_pending(settings: Settings) -> None:
    stage = Stage(settings=settings).lead()
    stage.append(1)
    stage.wait(0.51)
    assert stage.answers[1] == w.Answer(1, Reply.PENDING, 0, 0)
    assert stage.store() is None


# Proves S5.
def test_s5_without_an_answer_of_the_store_a_request_is_pending_after_twice_the_sync_timeout() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.wait(0.51)
    assert stage.reply(1) is None
    stage.wait(0.5)
    assert stage.reply(1) is Reply.PENDING


# Proves S5.
def test_s5_a_slave_behind_for_the_lag_leaves_the_set_and_two_stay() -> None:
    stage = Stage().lead()
    for peer in "bc":
        stage.ack(peer)
    stage.append(1)
    stage.wait(2.1)
    while stage.store() is not None:
        pass
    assert len(stage.control.in_sync) == 2
    assert "a" in stage.control.in_sync


# Proves G363, S5.
def test_s5_a_slave_that_was_too_slow_holds_no_appends_up_again_before_it_keeps_up() -> None:
    stage = Stage().lead()

    def others_say(position_of_c: int) -> None:
        stage.ack("b")
        stage.ack("c", position_of_c)
        while stage.store() is not None:
            pass

    others_say(0)
    stage.append(1)
    for _ in range(3):
        stage.wait(0.8)
        others_say(0)
    assert "c" not in stage.control.in_sync
    stage.append(2)
    others_say(SIZE)
    assert stage.control.pending == frozenset(), "it is a record behind, and took more than the lag for the one before"
    stage.append(3)
    stage.wait(0.1)
    others_say(2 * SIZE)
    assert "c" in stage.control.pending | {*stage.control.in_sync}


# Proves S6.
def test_s6_resolving_an_id_that_is_not_there_commits_a_fence_and_the_message_is_refused_for_ever() -> None:
    stage = Stage("a", Settings(min_insync=1)).lead()
    stage.step(w.Resolve(1, b"id2", 0))
    assert stage.reply(1) is Reply.ABSENT
    stage.append(2)
    assert stage.reply(2) is Reply.TAKEN
    stage.step(w.Resolve(3, b"id2", 0))
    assert stage.reply(3) is Reply.ABSENT


# Proves S6.
def test_s6_an_id_sent_again_is_not_appended_again() -> None:
    stage = Stage("a", Settings(min_insync=1)).lead()
    for _ in range(2):
        stage.append(1)
        assert stage.answers.pop(1).position == 0
    assert stage.disk.end == SIZE


# Proves S6.
def test_s6_an_id_from_below_the_window_of_ids_cannot_be_known() -> None:
    stage = Stage("a", Settings(min_insync=1)).lead()
    stage.disk.window = 2
    for ticket in range(1, 5):
        stage.step(w.Append(ticket, b"id%d" % ticket, stage.replica.commit, b"x" * 20))
    assert stage.disk.floor == 2 * SIZE
    end = stage.disk.end
    stage.step(w.Append(9, b"id1", 0, b"x" * 20))
    stage.step(w.Resolve(8, b"id1", SIZE))
    assert stage.reply(9) is stage.reply(8) is Reply.UNKNOWABLE
    assert stage.disk.end == end


# Proves S7.
def test_s7_a_larger_promise_makes_a_master_moved_and_a_candidate() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.ack("b", promise=2)
    assert stage.reply(1) is Reply.MOVED
    assert stage.replica.role is Role.CANDIDATE


# Proves S7.
def test_s7_a_move_takes_nothing_more_waits_for_the_commit_and_tells_the_successor() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.ack("c")
    stage.step(w.Move(2, "b"))
    stage.append(3)
    assert stage.reply(3) is Reply.MOVED
    told = w.Send("b", w.TakeOver(1))
    assert told not in stage.effects
    stage.ack("b")
    assert stage.reply(1) is Reply.WRITTEN
    assert told in stage.effects
    control = Control(2, "b", stage.control.members, stage.control.in_sync)
    stage.step(w.Received("b", w.Beat(2, 0, 0, control, {}, (0, 0))))
    assert stage.reply(2) is Reply.DONE


# Proves S7.
def test_s7_a_move_that_nobody_takes_is_refused_and_the_master_goes_on() -> None:
    stage = Stage().lead()
    stage.ack("b")
    stage.step(w.Move(2, "b"))
    stage.wait(2.1)
    assert stage.reply(2) is Reply.REFUSED
    stage.append(3)
    assert stage.reply(3) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (w.Members(1, remove="a"), "the master cannot be removed: move the log first"),
        (w.Members(1, remove="z"), "z is no member"),
        (w.Members(1, add="b"), "b is a member"),
        (w.Members(1, remove="b"), "2 would be left, and min_insync is 3"),
    ],
)
def test_a_change_of_members_that_cannot_be_is_refused_in_words(change: w.Members, words: str) -> None:
    stage = Stage(settings=Settings(min_insync=3)).lead()
    stage.step(change)
    assert (stage.answers[1].reply, stage.answers[1].words) == (Reply.REFUSED, words)


def test_a_slave_that_found_rot_is_another_incarnation_at_once_and_copies_the_log_from_the_next_master() -> None:
    stage = Stage()
    stage.step(w.Rotten("a record is not as it was"))
    assert stage.replica.marks.incarnation == 2
    control = Control(1, "b", stage.control.members, stage.control.in_sync)
    stage.step(w.Received("b", w.Beat(1, 0, 0, control, {}, (0, 0))))
    assert stage.effects[-1] == w.Refetch("b")
    assert stage.replica.status().role is Role.BEHIND


def test_the_status_has_the_queue_the_cache_and_who_is_in_sync() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.wait(0.25)
    status = stage.replica.status()
    assert (status.role, status.epoch, status.master, status.queue) == (Role.MASTER, 1, "a", 1)
    assert status.oldest == pytest.approx(0.25)
    assert status.in_sync == frozenset("abc")


def test_heartbeats_that_cross_a_question_for_the_table_do_not_make_its_answer_too_old() -> None:
    stage = Stage()
    control = Control(1, "b", stage.control.members, stage.control.in_sync)
    beat = w.Beat(1, 0, 0, control, {}, (0, 0))
    for _ in range(2):
        stage.step(w.Received("b", beat))
    asked = [one.message for one in stage.effects if isinstance(one, w.Send) and isinstance(one.message, w.Ack)]
    stage.step(w.Received("b", beat._replace(life=asked[-2].life, table=())))
    assert stage.replica.status().epoch == 1
    told = stage.effects[-1]
    assert isinstance(told, w.Send)
    assert isinstance(told.message, w.Ack)
    assert told.message.epoch == 1


def test_a_master_keeps_the_checkpoint_that_the_store_has_confirmed() -> None:
    stage = Stage().lead()
    stage.append(1)
    stage.ack("b")
    stage.ack("c")
    stage.wait(1.1)
    while stage.store() is not None:
        pass
    assert stage.control.checkpoint == stage.replica.marks.checkpoint == SIZE


@pytest.mark.parametrize("earliest", [0, 10])
def test_a_copy_is_neither_cut_nor_set_aside_below_what_all_in_sync_had_acknowledged(earliest: int) -> None:
    stage = Stage()
    stage.disk.append(1, b"id1", Kind.DATA, b"x" * 20)
    stage.disk.durable, stage.disk.marks = SIZE, Marks(1, 1, SIZE)
    stage.disk.base = earliest
    stage.replica = Replica("a", stage.disk, stage.disk.marks, 1, "abc")
    control = Control(2, "b", stage.control.members, stage.control.in_sync)
    beat = w.Beat(2, 0, 0, control, {}, (1, 0), ())
    with pytest.raises(LogError, match=r"b, epoch 2, lacks what was answered, 0 to \d+: this copy is not cut"):
        stage.step(w.Received("b", beat))
    assert not any(isinstance(one, w.Truncate | w.Refetch) for one in stage.effects + stage.replica.effects)
    assert stage.replica.status().epoch == 0, "it acknowledges nothing to that master"


@pytest.mark.parametrize("knows", ["promise", "record"])
def test_an_epoch_that_this_node_knows_is_not_given_again_by_a_store_that_was_restored(knows: str) -> None:
    stage = Stage()
    if knows == "promise":
        stage.replica.marks = stage.replica.marks._replace(promise=5)
    else:
        stage.disk.append(5, b"id1", Kind.DATA, b"x" * 20)
    stage.lead()
    assert stage.control.epoch == stage.replica.marks.promise == 6


def test_a_member_that_begins_beside_a_new_master_gives_it_its_time() -> None:
    stage = Stage()
    stage.control = Control(1, "b", stage.control.members, stage.control.in_sync, settings=Settings())
    for _ in range(6):
        stage.wait(0.2)
    assert isinstance(stage.store(), w.ReadStore)
    assert (stage.replica.status().role, stage.store(), stage.control.epoch) == (Role.SLAVE, None, 1)
    stage.lead()
    assert stage.control.epoch == 2, "it was silent"


def test_a_candidate_whose_disk_has_no_room_yet_for_the_cache_goes_on_by_another_switch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def waits(data: bytes) -> bool:
        raise TimeoutError

    stage = Stage()
    data = encode(1, Kind.DATA, b"id1", b"x" * 20)
    stage.control = Control(
        1, "b", stage.control.members, stage.control.in_sync, slices=(w.Slice(0, SIZE),), settings=Settings()
    )
    stage.slices = (data,)
    stage.replica.control = stage.control
    with monkeypatch.context() as full:
        full.setattr(stage.disk, "append_raw", waits)
        for _ in range(6):
            stage.wait(0.2)
        for _ in range(2):
            stage.store()
        assert (stage.replica.status().role, stage.control.epoch) == (Role.CANDIDATE, 2)
    stage.wait(0.21)
    while stage.replica.role is not Role.MASTER:
        assert stage.store() is not None
    assert (stage.disk.end, stage.control.epoch) == (SIZE, 3)

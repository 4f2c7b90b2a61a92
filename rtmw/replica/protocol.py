"""The steps of a replica, without I/O: `step(event, now) -> effects`. docs/design/replication.md has the rules.

    slave ── silence for `suspect` ──► candidate ── the switch is applied, log = slices ──► master
      ▲  ▲                                 │ not in I, refused                                │
      │  └─────────────────────────────────┘◄──── a larger epoch, a larger promise ───────────┘
      └── sealed files came ── left behind ◄── its records end before the master's begin, or are damaged

An epoch has one master, which is decided by a transaction in the control store, and it is never resumed. A master
commits what each of I and P has acknowledged, or what the cache in the store holds. It makes at most one request of the
store at a time, and all it knows of the set is what was confirmed; so a change whose outcome is unknown leaves the
larger set in force until the store was read again (rule 2). Effects are carried out in order, before the next step.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from rtmw.errors import LogError
from rtmw.replica import words as w
from rtmw.replica.control.store import Outcome
from rtmw.replica.words import Control, Kind, Marks, Peer, Reply, Role, Slice

BEATS: Final = 5  # in `suspect`
RANK_S: Final = 0.05  # a candidate waits so long for each that is ahead of it
CHECKPOINT_S: Final = 1.0  # it is raised in the store at most so often, unless the cache is in use (rule 10)
AGAIN_S: Final = 0.2  # after the store gave no answer
PATIENCE: Final = 8
"""A node that deposes one master after another waits longer each time, up to so many times."""
STRAY: Final = 60
"""A copy that is no member looks so much less often whether it is one."""


class Replica:
    """One life of one node. `life` grows from one to the next. `was_lost`: records were durable and are gone."""

    def __init__(self, me: str, wal: w.Wal, marks: Marks, life: int, others: Iterable[str]) -> None:
        self.me, self.wal, self.marks, self._life = me, wal, marks, (life, 0)
        self._others = frozenset(others) - {me}
        self.role, self.epoch = Role.SLAVE, 0
        """`epoch`: of a master its own, of a slave that of the master that it is aligned to, else 0."""
        self.master, self.commit, self._final, self.start = "", 0, 0, 0  # `_final`: commit, as its master says it
        self.control, self._version = Control(marks.promise, "", frozenset(), {}), 0
        """What was confirmed last. Without members: nothing yet. Version 0: the store has to be read (rule 2)."""
        self._now = self._heard = self._beat_at = 0.0
        self.effects = list[w.Effect]()  # of the last step, also if it has raised: what it decided before that holds
        self._then: Callable[[], None] | None = None
        self._awaited: w.Event = w.Tick()
        """What goes on when the disk has done what it was told: no other step changes the log until then."""
        self._offsets = dict[str, int]()
        self._patience, self.is_full, self._is_called = 1, False, False
        self._is_rotten, self._inherited = False, tuple[bytes, ...]()
        self._number = 0
        self._asked: tuple[int, Control | None, int] | None = None
        """The request of the store that has no answer yet: its number, what it writes, and an operator's ticket."""
        self._again, self._is_tight = 0.0, False
        self._orders = deque[w.Members]()
        self.peers = dict[str, Peer]()
        self._acked, self._raised = 0, 0.0
        self._queue, self._pended = deque[w.Waiting](), deque[w.Waiting]()
        """The batch sync queue (S2), by age; the ends rise, too. `_pended`: those that were told PENDING."""
        self._fresh = deque[tuple[int, int]]()
        """Tickets of fresh readers, and the number of the last request of the store when they came."""
        self._move: tuple[str, float, int] | None = None
        self._told, self.pending, self.switches = 0.0, 0, 0

    def begin(self, now: float, was_lost: bool = False) -> list[w.Effect]:
        self._now = self._heard = self._beat_at = now
        if was_lost or self.wal.end < self.marks.checkpoint:
            self._be_another("records that were durable are gone", self._greet)
        return self.effects

    def step(self, event: w.Event, now: float, *, leads: bool = True) -> list[w.Effect]:
        """`leads`: false of requests of which more follow at once: what comes of them is decided with the last one."""
        effects: list[w.Effect] = []
        self._now, self.effects = now, effects
        if self.role is not Role.MASTER and isinstance(event, w.Request):
            self._answer(event.ticket, Reply.MOVED)
        elif self.role is not Role.FAILED:
            _STEPS[type(event)](self, event)
            if leads and self.role is Role.MASTER:
                self._lead()
        return self.effects

    @property
    def due(self) -> float:
        """When `Tick` has to come."""
        if self.role is Role.FAILED:
            return math.inf
        if self.role is Role.MASTER and self._queue:
            return min(self._beat_at, max(self._queue[0].at + self._settings.sync_timeout, self._now + 0.01))
        if self._then is not None or self.role not in (Role.SLAVE, Role.CANDIDATE):
            return self._beat_at
        next_step = self._patient_until() if self.role is Role.SLAVE else max(self._again, self._now + 0.01)
        return min(self._beat_at, next_step)

    def status(self, control: Control | None = None) -> w.Status:
        control = control or self.control
        first = self._pended or self._queue
        return w.Status(
            self.role, self.epoch, self.master, frozenset(control.in_sync),
            max(self.marks.checkpoint, control.checkpoint), self.commit, control.members,
            len(self._pended) + len(self._queue), self._now - first[0].at if first else 0.0,
            sum(one.end - one.start for one in control.slices), self.pending, self.switches,
        )  # fmt: skip

    # ---- what all roles share ----

    @property
    def _settings(self) -> w.Settings:
        return self.control.settings

    @property
    def _has_all(self) -> bool:
        """All that earlier masters have committed lies below the commit point (rule 12)."""
        return self.commit >= self.start

    def _note(self, rule: int, words: str) -> None:
        self.effects.append(w.Note(rule, words))

    def _answer(self, ticket: int, reply: Reply, position: int = 0, words: str = "") -> None:
        if reply is Reply.MOVED and self.master != self.me:
            words = words or self.master
        self.effects.append(w.Answer(ticket, reply, position, self.commit, words))

    def _keep(self, marks: Marks, then: Callable[[], None]) -> None:
        self.marks = marks
        self._do(w.Keep(marks), then)

    def _do(self, effect: w.Effect, then: Callable[[], None]) -> None:
        self.effects.append(effect)
        self._awaited, self._then = w.Done(effect), then

    def _on_done(self, event: w.Done | w.Synced) -> None:
        then = self._then
        if then is not None and event == self._awaited:
            self._then = None
            then()

    def _unalign(self) -> None:
        """What a master said of its log before this is too old to be cut by: `_life` tells its answers apart."""
        self.epoch, self._final, self._life = 0, 0, (self._life[0], self._life[1] + 1)

    def _be_another(self, words: str, then: Callable[[], None]) -> None:
        """Rule 13: this log has less than it acknowledged. The store does not know its new incarnation."""
        self._note(13, words)
        self._keep(self.marks._replace(incarnation=self.marks.incarnation + 1, checkpoint=0), then)

    def _keep_checkpoint(self, control: Control) -> None:
        """A log that ends before it has lost something; none is cut below it."""
        checkpoint = min(control.checkpoint, self.wal.durable)
        if checkpoint > self.marks.checkpoint:
            self.marks = self.marks._replace(checkpoint=checkpoint)
            self.effects.append(w.Keep(self.marks))

    def _on_failed(self, _: w.Failed) -> None:
        self._resign()
        self.role = Role.FAILED

    def _on_rotten(self, event: w.Rotten) -> None:
        """The replica leaves the set at once, and is copied anew as soon as there is a master."""
        self._resign()
        self._is_rotten = True
        self._be_another(event.words, self._greet)

    def _resign(self, move: Reply = Reply.MOVED) -> None:
        """Whatever it was, it is a slave of nobody now. Who waits asks again elsewhere, with the same id."""
        waiting = [one.ticket for one in self._queue] + [ticket for ticket, _ in self._fresh]
        waiting += [one.ticket for one in self._orders]
        for ticket in (*waiting, self._asked[2] if self._asked else 0):
            self._answer(ticket, Reply.MOVED)
        if self._move is not None:
            self._answer(self._move[2], move)
        for kept in (self._queue, self._pended, self.peers, self._fresh, self._orders):
            kept.clear()
        self._unalign()
        self.role, self.master, self._move, self._asked, self._then = Role.SLAVE, "", None, None, None
        self._version, self._is_called, self._heard = 0, False, self._now

    def _on_tick(self, _: w.Tick) -> None:
        if self._now >= self._beat_at:
            if self._now > self._beat_at + self._settings.suspect / 2:  # it stood still itself, and heard nobody
                self._heard = self._now
            self._beat_at = self._now + self._settings.suspect / BEATS
            if self.role is Role.MASTER:
                for name in self._members():
                    self._beat(name)
            else:
                self._greet(is_beat=True)
        if self.role is Role.CANDIDATE and self._asked is None and self._then is None and self._now >= self._again:
            self._read_store()
        elif self.role is Role.SLAVE and self._then is None and self._now >= self._patient_until():
            self._stand("the master is silent")

    def _on_read(self, event: w.Read) -> None:
        if self._asked is None or self._asked[0] != event.number:
            return
        self._asked, self._is_tight = None, event.is_tight
        if event.control is None:
            self._again, self._version = self._now + AGAIN_S, 0
        elif self.role is Role.CANDIDATE:
            self._judge(event)
        elif self.role is Role.MASTER and event.control.epoch != self.epoch:
            self._note(12, f"the store says epoch {event.control.epoch}")
            self._resign()
        elif self.role is Role.MASTER:
            self.control, self._version = event.control, event.version
            while self._fresh and self._fresh[0][1] < event.number and self._has_all:
                self._note(12, "the store still says this epoch")
                self._answer(self._fresh.popleft()[0], Reply.DONE, self.commit)

    def _on_changed(self, event: w.Changed) -> None:
        if self._asked is None or self._asked[0] != event.number:
            return
        (_, control, operator), self._asked, self._is_tight = self._asked, None, event.is_tight
        if event.outcome is not Outcome.APPLIED:
            self._note(7 if self.role is Role.CANDIDATE else 2, f"a change of the store is {event.outcome.value}")
            self._version = 0
            if event.outcome is Outcome.UNKNOWN or self.role is Role.CANDIDATE:
                self._again = self._now + AGAIN_S
            # the operator looks at the status and decides
            self._answer(operator, Reply.UNKNOWABLE, words="the store gave no answer in time")
        elif control is not None:
            self.control, self._version = control, event.version
            self._answer(operator, Reply.DONE)
            if self.role is Role.CANDIDATE:
                self._win()
            else:
                self._keep_checkpoint(control)

    def _ask_store(self, control: Control | None = None, operator: int = 0) -> int:
        self._number += 1
        self._asked = self._number, control, operator
        return self._number

    def _read_store(self) -> None:
        self.effects.append(w.ReadStore(self._ask_store()))

    def _change_store(self, control: Control, put: Slice | None = None, operator: int = 0) -> None:
        self.effects.append(w.ChangeStore(self._ask_store(control, operator), self._version, control, put))

    # ---- slave ----

    def _members(self) -> tuple[str, ...]:
        """All others, in an order that does not change from run to run."""
        return w.others(self.control.members or self._others, self.me)

    def _greet(self, is_beat: bool = False) -> None:
        """A heartbeat to the master; to all while there is none (S3)."""
        to = [self.master] if self.master else sorted({*self._members(), *self._others})
        for name in to:
            self._send_ack(name, is_beat)

    def _send_ack(self, to: str, is_beat: bool = False) -> None:
        """Rule 4: what is synced and verified in this epoch. Without an epoch nothing is."""
        durable, end = (self.wal.durable, self.wal.end) if self.epoch else (0, 0)
        marks = self.marks
        ack = w.Ack(self.epoch, durable, end, marks.incarnation, marks.promise, self._life, self.is_full, is_beat)
        self.effects.append(w.Send(to, ack))

    def _on_received(self, event: w.Received) -> None:
        _HEARD[type(event.message)](self, event.peer, event.message)

    def _hear_beat(self, peer: str, beat: w.Beat) -> None:
        if beat.epoch < self.marks.promise:
            if self.role is not Role.CANDIDATE:
                self._note(3, f"epoch {beat.epoch} is refused, {self.marks.promise} was promised")
                self._send_ack(peer)  # names the promise, so that the master makes another switch (rule 7)
            return
        if self.role is Role.MASTER and beat.epoch > self.epoch:
            self._resign(Reply.DONE)
        if self.role is Role.MASTER:
            return
        self._heard = self._now
        if self._asked is not None and self._asked[1] is None and not self._is_called:
            self._asked = None  # it asked the store because the master was silent
        if self._then is not None or self._asked is not None:
            return
        self.role, self.master, self._offsets, self.control = Role.SLAVE, peer, beat.offsets, beat.control
        if self._is_rotten:
            self._be_behind(peer)
        elif self.epoch != beat.epoch:
            if beat.table is not None and beat.life == self._life:
                self._promise(peer, beat)
            else:
                if self.epoch:  # else nothing was acknowledged since the question: each answer to it will do
                    self._unalign()
                self._send_ack(peer)
        elif beat.earliest > self.wal.end:
            self._be_behind(peer)
        else:
            self._show(beat.commit)
            if self.wal.earliest < beat.earliest <= self.commit:
                self.effects.append(w.Trim(beat.earliest))
            self._keep_checkpoint(beat.control)

    def _show(self, commit: int) -> None:
        """A slave's readers get what is committed, verified and synced here (rule 12)."""
        self._final = max(self._final, commit)
        if (commit := min(self._final, self.wal.durable)) > self.commit:
            self.commit = commit
            self.effects.append(w.Commit(commit))

    def _promise(self, peer: str, beat: w.Beat) -> None:
        """Rule 3: promise durably, cut to the end of the largest common epoch, then append."""
        self._patience = 1
        if beat.epoch > self.marks.promise:
            self._note(3, f"epoch {beat.epoch} is promised")
            self._keep(self.marks._replace(promise=beat.epoch), lambda: self._align(peer, beat))
        else:
            self._align(peer, beat)

    def _align(self, peer: str, beat: w.Beat) -> None:
        assert beat.table is not None, "it was asked for"
        mine = self.wal.epochs()
        cut = w.common_end(mine, beat.table) if mine else self.wal.end
        is_behind = cut < max(beat.earliest, self.wal.earliest) or cut > beat.end
        if (beat.end if is_behind else cut) < self.marks.checkpoint:
            raise LogError(
                f"{peer}, epoch {beat.epoch}, lacks what was answered, {cut} to {self.marks.checkpoint}: this copy is "
                "not cut. If the log of that node is to stay, give this one another: rtmw log members NAME replace"
            )
        if is_behind:
            self._be_behind(peer)
        elif cut < self.wal.end:
            self._note(3, f"cut from {self.wal.end} to {cut}")
            if cut < self.commit:  # of a deposed master: the same bytes come again
                self.commit = cut
                self.effects.append(w.Commit(cut))
            self._do(w.Truncate(cut), lambda: self._aligned(peer, beat))
        else:
            self._aligned(peer, beat)

    def _aligned(self, peer: str, beat: w.Beat) -> None:
        self.epoch, self.master, self._final = beat.epoch, peer, 0
        self._send_ack(peer)

    def _be_behind(self, peer: str) -> None:
        """What it has is set aside, and sealed segments come as files. Until rule 8 lets it in again it is not in I."""
        self._unalign()
        self.role = Role.BEHIND
        self._be_another("left behind: copied anew", lambda: self._refetch(peer))

    def _refetch(self, peer: str) -> None:
        self.commit = 0
        self._do(w.Refetch(peer), lambda: None)

    def _on_refetched(self, event: w.Refetched) -> None:
        self._then, self.role, self._heard = None, Role.SLAVE, self._now
        self._is_rotten = self._is_rotten and not event.is_done
        self._greet()

    def _hear_batches(self, peer: str, part: w.Batches) -> None:
        if self.role is not Role.SLAVE or self.epoch != part.epoch or self._then is not None:
            return
        self._heard = self._now
        if part.position == self.wal.end:
            was_full, self.is_full = self.is_full, not self.wal.append_raw(part.data)
            if self.is_full and not was_full:
                self._send_ack(peer)
        self._show(part.commit)

    def _on_synced(self, _: w.Synced) -> None:
        if self.role is Role.SLAVE and self.epoch and self._then is None:
            self._show(0)  # what was told before it was durable here
            self._send_ack(self.master)
        elif self.role is Role.CANDIDATE and self.wal.durable >= self.wal.end:
            self._on_done(w.Synced())

    def _on_room(self, _: w.Room) -> None:
        self.is_full = False
        if self.role is not Role.MASTER:
            self._greet()

    def _hear_take_over(self, peer: str, event: w.TakeOver) -> None:
        if self.role is Role.SLAVE and self.epoch == event.epoch and self._then is None:
            self._stand(f"{peer} hands over")
            self._is_called = True

    def _on_lost(self, event: w.Lost) -> None:
        """A refused dial needs no `suspect`: only those that are ahead may go first."""
        if self.role is Role.SLAVE and event.peer == self.master and self._patience == 1:
            self._heard = min(self._heard, self._now - self._settings.suspect)

    # ---- candidate ----

    def _patient_until(self) -> float:
        mine = -self._offsets.get(self.me, 0), self.me
        ahead = [name for name, at in self._offsets.items() if name != self.master and (-at, name) < mine]
        return self._heard + self._settings.suspect * self._patience + RANK_S * len(ahead)

    def _stand(self, why: str) -> None:
        self._note(7, f"asks to be master: {why}")
        self._unalign()
        self.role, self._again = Role.CANDIDATE, 0.0
        if self._asked is None:
            self._read_store()

    def _judge(self, event: w.Read) -> None:
        """Rule 6, first part. The slices were read with the version that the transaction compares."""
        control = event.control
        assert control is not None
        is_news = control.epoch > self.control.epoch
        self.control, self._version = control, event.version
        is_own = control.master == self.me
        if control.in_sync.get(self.me) != self.marks.incarnation:
            self._note(6, "not in I: no candidate")
            self._patience = self._patience if self.me in control.members or not control.epoch else STRAY
            self._stay()
        elif is_news and not is_own and not self._is_called:  # there is a new master: it gets its time
            self._stay()
        else:
            last = max((epoch for epoch, _ in self.wal.epochs()), default=0)
            epoch = max(control.epoch, self.marks.promise, last) + 1  # a store that was restored may know too little
            self._inherited = event.slices
            change = replace(control, epoch=epoch, master=self.me, pending=frozenset())
            self._note(6, f"epoch {epoch} is promised")
            self._keep(self.marks._replace(promise=epoch), lambda: self._change_store(change))

    def _stay(self) -> None:
        self.role, self.master, self._heard, self._is_called = Role.SLAVE, "", self._now, False
        self._greet()

    def _win(self) -> None:
        """Rule 6, second part: cut from the first record that differs from a slice, append the slices, sync."""
        self.switches += 1
        self._note(6, f"epoch {self.control.epoch} is mine")
        slices = zip(self.control.slices, self._inherited, strict=True)
        sames = ((self.wal.same(part.start, data), min(part.end, self.wal.end)) for part, data in slices)
        cut = next((same for same, end in sames if same < end), self.wal.end)
        if cut < self.wal.end:
            self._note(6, f"cut from {self.wal.end} to {cut}: the cache has other records")
            self._do(w.Truncate(cut), self._inherit)
        else:
            self._inherit()

    def _inherit(self) -> None:
        for part, data in zip(self.control.slices, self._inherited, strict=True):
            rest = data[max(0, self.wal.end - part.start) :]
            try:
                if rest and not self.wal.append_raw(rest):
                    self._note(6, "no room for the slices: another may stand")
                    self._stay()
                    return
            except TimeoutError:  # the disk has to catch up: another switch goes on with the rest
                self._again = self._now + AGAIN_S
                return
        if self.wal.durable < self.wal.end:
            self._awaited, self._then = w.Synced(), self._serve
        else:
            self._serve()

    def _serve(self) -> None:
        control = self.control
        self.role, self.epoch, self.master, self.start = Role.MASTER, control.epoch, self.me, self.wal.end
        self._patience = min(PATIENCE, 2 * self._patience)
        self._inherited, self._acked = (), control.checkpoint
        self._raised, self._is_called = self._now, False
        self.peers = {name: Peer(heard=self._now) for name in self._members()}
        self.commit = min(self.commit, self.wal.end)
        self._raise(control.cached)  # slices that were inherited count at once (rule 5)
        for name in self.peers:
            self._beat(name)

    # ---- master: towards slaves ----

    def _beat(self, to: str, with_table: bool = False) -> None:
        peer = self._peer(to)
        offsets = {name: other.acked for name, other in self.peers.items() if name in self.control.in_sync}
        table = self.wal.epochs() if with_table else None
        beat = w.Beat(self.epoch, self.commit, self.wal.earliest, self.control, offsets, peer.life, table, self.wal.end)
        self.effects.append(w.Send(to, beat))

    def _peer(self, name: str) -> Peer:
        return self.peers.get(name) or self.peers.setdefault(name, Peer(heard=self._now))

    def _hear_ack(self, name: str, ack: w.Ack) -> None:
        if self.role is not Role.MASTER or name not in self.control.members:
            return
        if ack.promise > self.epoch:
            self._note(7, f"{name} promised {ack.promise}: another switch")
            self._resign()
            self._stand("a larger promise")
            return
        peer = self._peer(name)
        if ack.incarnation < peer.incarnation or (ack.incarnation == peer.incarnation and ack.life < peer.life):
            return
        if ack.incarnation > peer.incarnation:  # what it had acknowledged may be gone (rule 13)
            self.peers[name] = peer = Peer(incarnation=ack.incarnation)
        peer.life, peer.heard, peer.is_full = ack.life, self._now, ack.is_full
        if ack.epoch != self.epoch:
            peer.is_aligned = False
            self._beat(name, with_table=True)
            return
        self._count(peer, ack)

    def _count(self, peer: Peer, ack: w.Ack) -> None:
        if not peer.is_aligned:
            peer.is_aligned, peer.shipped = True, ack.end
        elif ack.is_beat:
            if ack.end == peer.last_end < peer.shipped:  # nothing came since its last heartbeat: send again
                peer.shipped = ack.end
            peer.last_end = ack.end
        if ack.durable > peer.acked:
            self._note(4, f"{ack.durable} is acknowledged")
            peer.acked = ack.durable
        peer.shipped = max(peer.shipped, ack.durable)

    def _lead(self) -> None:
        """What follows from anything that a master hears."""
        control = self.control
        # rule 5; rule 8: P, too
        needed = [name for name in self._members() if name in control.in_sync or name in control.pending]
        if len(control.in_sync) >= control.settings.min_insync:
            acked = min([self.wal.durable, *(self._peer(name).acked for name in needed)])
            self._acked = max(self._acked, acked)
            self._raise(max(self._acked, control.cached))
        self._ship()
        if self._move is not None:
            self._hand_over(self._move)
        if self._asked is None and self._now >= self._again:
            self._consult(control)
        self._pend(control)

    def _raise(self, commit: int) -> None:
        commit = min(commit, self.wal.durable)
        if commit > self.commit:
            self._note(5, f"{commit} is committed")
            self.commit = commit
            self.effects.append(w.Commit(commit))
        while self._queue and self._queue[0].end <= self.commit:
            self._tell_committed(self._queue.popleft())
        while self._pended and self._pended[0].end <= self.commit:
            self._pended.popleft()

    def _tell_committed(self, one: w.Waiting) -> None:
        is_cached = one.reply is Reply.WRITTEN and one.end > self._acked
        self._answer(one.ticket, Reply.CACHED if is_cached else one.reply, one.start)

    def _ship(self) -> None:
        for name in self._members():
            peer = self._peer(name)
            if peer.is_aligned and not peer.is_full and self.wal.earliest <= peer.shipped < self.wal.end:
                self.effects.append(w.Ship(name, self.epoch, peer.shipped, self.wal.end))
                peer.shipped = self.wal.end
            if peer.wanted is not None and peer.acked >= peer.wanted[0]:
                peer.took, peer.wanted = self._now - peer.wanted[1], None
            if peer.wanted is None and peer.acked < self.wal.end:
                peer.wanted = self.wal.end, self._now

    # ---- master: requests ----

    def _on_append(self, event: w.Append) -> None:
        found = self.wal.find(event.id, Kind.DATA, event.data)
        if found is not None:
            self._note(1, "the id is known")
            self._wait(event.ticket, found.start, found.end, Reply.WRITTEN if found.is_same else Reply.TAKEN)
        else:
            self._put(event, Kind.DATA, event.data)

    def _on_resolve(self, event: w.Resolve) -> None:
        """Rule 11: found, and it is waited for its commit; else a fence is committed, and it can never come."""
        found = self.wal.find(event.id, Kind.DATA, b"")
        if found is not None:
            reply = Reply.WRITTEN if found.kind is Kind.DATA else Reply.ABSENT
            self._note(11, f"resolved: {reply.value}, once it is committed")
            self._wait(event.ticket, found.start, found.end, reply)
        else:
            self._put(event, Kind.FENCE, b"")

    def _put(self, event: w.Append | w.Resolve, kind: Kind, data: Any) -> None:
        ticket = event.ticket
        if self._move is not None:
            self._answer(ticket, Reply.MOVED)
        elif event.since < self.wal.floor:
            self._note(11, "the window of ids begins above: it cannot be known")
            self._answer(ticket, Reply.UNKNOWABLE)
        elif (place := self.wal.append(self.epoch, event.id, kind, data)) is not None:
            self._wait(ticket, *place, Reply.WRITTEN if kind is Kind.DATA else Reply.ABSENT)
        elif self._successor() is not None:
            self._move = "", self._now + 2 * self._settings.suspect, 0  # a master with a full disk hands over
            self._answer(ticket, Reply.MOVED)
        else:
            self._answer(ticket, Reply.FULL)

    def _wait(self, ticket: int, start: int, end: int, reply: Reply) -> None:
        """An id that was found, and is not committed, waits behind what waits already: so does its commit."""
        last = self._queue[-1].end if self._queue else end
        if end <= self.commit:
            self._tell_committed(w.Waiting(ticket, start, end, self._now, reply))
        else:
            self._queue.append(w.Waiting(ticket, start, max(end, last), self._now, reply))

    def _pend(self, control: Control) -> None:
        """S5: who has waited for `sync_timeout` and cannot be cached, or twice as long, is told PENDING."""
        if self._is_late():
            can_wait = (self._asked is not None and self._asked[1] is not None) or self._room(control) is not None
            while self._is_late(2 if can_wait else 1):
                one = self._queue.popleft()
                self._pended.append(one)
                self.pending += 1
                self._answer(one.ticket, Reply.PENDING, one.start)

    def _is_late(self, times: int = 1) -> bool:
        return bool(self._queue) and self._now - self._queue[0].at >= times * self._settings.sync_timeout

    def _on_fresh(self, event: w.Fresh) -> None:
        self._fresh.append((event.ticket, self._number))

    # ---- master: the store ----

    def _consult(self, control: Control) -> None:
        """One request at a time; what is urgent goes first."""
        if not self._version or (self._fresh and self._has_all):
            self._read_store()
            return
        if self._is_late() and (room := self._room(control)) is not None:
            self._note(5, f"slice {room.start}..{room.end} goes to the cache")
            self._change_store(replace(control, slices=(*control.slices, room)), room)
            return
        change = self._shrink(control) or self._raise_checkpoint(control) or self._grow(control)
        if change is not None:
            self._change_store(change)
        elif self._orders:
            self._obey(self._orders.popleft(), control)

    def _room(self, control: Control) -> Slice | None:
        """The next slice: it continues the cache, or the checkpoint if the cache is empty (rule 5)."""
        start, settings = control.cached, control.settings
        used = start - control.slices[0].start if control.slices else 0
        size = min(settings.slice, settings.cache - used, self.wal.durable - start)
        end = self.wal.whole(start, size) if size > 0 else start
        return Slice(start, end) if end > start and not self._is_tight else None

    def _lags(self, name: str, control: Control) -> str:
        peer, lag = self._peer(name), control.settings.lag
        if peer.is_full:
            return "its disk is full"
        if self._now - peer.heard > lag:
            return "silent"
        if peer.wanted is not None and self._now - peer.wanted[1] > lag:
            return f"at {peer.acked} of {peer.wanted[0]}"
        return ""

    def _shrink(self, control: Control) -> Control | None:
        """Rule 9: at any time, never below `min_insync`."""
        may_leave = {*control.pending, *(control.in_sync if len(control.in_sync) > control.settings.min_insync else ())}
        for name in self._members():
            if name in may_leave and (why := self._lags(name, control)):
                self._note(
                    9, f"{name} {'leaves' if name in control.in_sync else 'does not enter'} the in-sync set: {why}"
                )
                return replace(control, in_sync=control.in_sync_without(name), pending=control.pending - {name})
        return None

    def _raise_checkpoint(self, control: Control) -> Control | None:
        """Rule 10: the minimum over I. Raising it and trimming the cache are one transaction."""
        if not control.slices and self._now - self._raised < CHECKPOINT_S:
            return None
        others = (self._peer(name).acked for name in control.in_sync if name != self.me)
        checkpoint = min([self.wal.durable, *others])
        if checkpoint <= control.checkpoint:
            return None
        self._note(10, f"checkpoint {checkpoint}")
        self._raised = self._now
        slices = tuple(one for one in control.slices if one.end > checkpoint)
        return replace(control, checkpoint=checkpoint, slices=slices)

    def _grow(self, control: Control) -> Control | None:
        """Rule 8: into P, confirmed; then into I, once it has acknowledged all that a master must have."""
        least = max(self.commit, self.start, control.checkpoint)  # the cache begins at the checkpoint or below
        for name in self._members():
            peer, known = self._peer(name), control.in_sync.get(name)
            if known == peer.incarnation or not peer.incarnation or self._lags(name, control):
                continue
            if (name in control.pending or known is not None) and peer.acked >= least:
                self._note(8, f"{name} is in the in-sync set, at {peer.acked}")
                in_sync = control.in_sync | {name: peer.incarnation}
                return replace(control, in_sync=in_sync, pending=control.pending - {name})
            is_near = peer.is_aligned and peer.acked + control.settings.slice >= self.wal.durable
            if known is None and name not in control.pending and is_near and peer.keeps_up(control.settings.lag):
                self._note(8, f"{name} enters the in-sync set once it has all")
                return replace(control, pending=control.pending | {name})
        return None

    # ---- operators ----

    def _on_members(self, event: w.Members) -> None:
        self._orders.append(event)

    def _obey(self, event: w.Members, control: Control) -> None:
        members = (control.members | ({event.add} - {""})) - {event.remove}
        in_sync = control.in_sync_without(event.remove)
        least, why = control.settings.min_insync, ""
        if event.remove == self.me:
            why = "the master cannot be removed: move the log first"
        elif event.remove and event.remove not in control.members:
            why = f"{event.remove} is no member"
        elif event.add in control.members:
            why = f"{event.add} is a member"
        elif len(members) < least or (len(in_sync) < least and event.remove in control.in_sync):
            why = f"{min(len(members), len(in_sync))} would be left, and min_insync is {least}"
        if why:
            self._answer(event.ticket, Reply.REFUSED, words=why)
            return
        self.peers.pop(event.remove, None)
        change = replace(control, members=members, in_sync=in_sync, pending=control.pending - {event.remove})
        self._change_store(change, operator=event.ticket)

    def _successor(self) -> str | None:
        control = self.control
        able = [
            name for name in self._members()
            if control.in_sync.get(name) == self._peer(name).incarnation and not self._lags(name, control)
        ]  # fmt: skip
        return max(able, key=lambda name: (self._peer(name).acked, name), default=None)

    def _on_move(self, event: w.Move) -> None:
        if self._move is not None:
            self._answer(event.ticket, Reply.MOVED)
        elif (event.to or self._successor()) not in {*self.control.in_sync} - {self.me}:
            self._answer(event.ticket, Reply.REFUSED, words=f"{event.to or 'nobody'} is no slave in sync")
        else:
            self._move = event.to, self._now + 2 * self._settings.suspect, event.ticket

    def _hand_over(self, move: tuple[str, float, int]) -> None:
        """A planned switch: take nothing more, wait for the commit, tell the successor. Nothing is held up for long."""
        to, until, ticket = move
        to = to or self._successor() or ""
        if self._now >= until:
            self._move = None
            self._answer(ticket, Reply.REFUSED, words=f"{to or 'nobody'} did not take over in time")
        elif to and self.commit >= self.wal.end and self._peer(to).acked >= self.wal.end and self._now >= self._told:
            self._told = self._now + self._settings.suspect / BEATS
            self.effects.append(w.Send(to, w.TakeOver(self.epoch)))

    def _on_trim_to(self, event: w.TrimTo) -> None:
        """Only a master trims by itself, never above the checkpoint or the start of the cache (rule 10)."""
        if self.role is Role.MASTER:
            position = min([event.position, self.control.checkpoint, *(one.start for one in self.control.slices)])
            if position > self.wal.earliest:
                self.effects.append(w.Trim(position))


_STEPS: Final = w.methods(Replica, "_on_", w.Event)
_HEARD: Final = w.methods(Replica, "_hear_", w.Message)

"""The rules of the lease, in a world of nodes that pause, clocks that disagree and answers that come late or never."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transparency.log.lease import RENEW_SECONDS, TTL_SECONDS, Campaign, Lease

NODES = 3


def test_a_lease_is_taken_when_it_has_ended_and_not_before() -> None:
    lease = Lease("a", 4, ends=100.0)

    assert lease.taken("b", 4, now=99.9) is None
    taken = lease.taken("b", 4, now=100.0)

    assert taken == Lease("b", 5, 103.0)


def test_an_epoch_rises_above_the_tip_s_too() -> None:
    """An admin command raises the tip's epoch without a lease; who leads next must be above both."""
    taken = Lease("a", 4, ends=0.0).taken("b", 9, now=1.0)

    assert taken is not None
    assert taken.epoch == 10


def test_only_the_holder_of_this_epoch_renews() -> None:
    lease = Lease("a", 4, ends=100.0)

    assert lease.renewed("a", 4, now=99.0) == Lease("a", 4, 102.0)
    assert lease.renewed("a", 3, now=99.0) is None
    assert lease.renewed("b", 4, now=99.0) is None


def test_a_database_clock_that_goes_back_shortens_no_lease() -> None:
    assert Lease("a", 4, ends=100.0).renewed("a", 4, now=50.0) == Lease("a", 4, 100.0)


def test_a_released_lease_is_there_for_the_next_one_at_once() -> None:
    released = Lease("a", 4, ends=100.0).released("a", 4, now=98.0)

    assert released is not None
    assert released.taken("b", 4, now=98.0) is not None
    assert Lease("b", 5, ends=100.0).released("a", 4, now=98.0) is None


def test_belief_counts_from_when_it_was_asked_not_from_the_answer() -> None:
    campaign = Campaign()

    campaign.granted(asked=10.0, epoch=1)  # the answer may have taken a second

    assert campaign.believes(10.0 + TTL_SECONDS - 0.01)
    assert not campaign.believes(10.0 + TTL_SECONDS)
    assert campaign.leading, "it has to be told to step down, which the node does"


def test_a_refused_renewal_ends_the_belief_and_an_unanswered_one_does_not() -> None:
    campaign = Campaign()
    campaign.granted(asked=10.0, epoch=1)

    campaign.unanswered(asked=11.0)
    assert campaign.believes(11.5)
    assert campaign.rest(11.0) < RENEW_SECONDS

    campaign.refused(asked=11.5, left=2.0)
    assert not campaign.believes(11.5)


def test_who_waits_looks_again_when_the_lease_ends_and_at_least_every_second() -> None:
    campaign = Campaign()

    campaign.refused(asked=10.0, left=0.2)
    assert 0.2 < campaign.rest(10.0) < 0.3

    campaign.refused(asked=10.0, left=60.0)
    assert campaign.rest(10.0) == RENEW_SECONDS


def test_an_older_epoch_is_never_granted_again() -> None:
    campaign = Campaign()
    campaign.granted(asked=1.0, epoch=7)

    with pytest.raises(ValueError, match="epoch 6"):
        campaign.granted(asked=2.0, epoch=6)


# -- a world of several nodes ------------------------------------------------------------------------------------------


@dataclass
class World:
    """One database, one real time; each node counts seconds from a start of its own."""

    offsets: list[float]
    now: float = 1000.0
    lease: Lease = field(default_factory=lambda: Lease("", 0, 0.0))
    epoch: int = 0
    campaigns: list[Campaign] = field(default_factory=lambda: [Campaign() for _ in range(NODES)])
    commits: list[int] = field(default_factory=list)

    def asks(self, node: int, takes: float, answers: float, *, lost: bool) -> None:
        """*node* asks; the database acts after *takes*, its answer comes after *answers* more, or never."""
        campaign, name = self.campaigns[node], f"node {node}"
        asked = self.now + self.offsets[node]
        self.now += takes
        if campaign.leading:
            after, epoch = self.lease.renewed(name, campaign.epoch, self.now), campaign.epoch
        else:
            after = self.lease.taken(name, self.epoch, self.now)
            epoch = after.epoch if after is not None else 0
        left = self.lease.ends - self.now
        if after is not None:
            self.lease, self.epoch = after, max(self.epoch, after.epoch)
        self.now += answers
        if lost:
            campaign.unanswered(asked)
        elif after is None:
            campaign.refused(asked, left)
        else:
            campaign.granted(asked, epoch)

    def commits_now(self, node: int, *, blindly: bool) -> None:
        """A commit by a node that believes, or by one that was paused between looking and writing."""
        campaign = self.campaigns[node]
        if (blindly or campaign.believes(self.now + self.offsets[node])) and campaign.epoch == self.epoch > 0:
            self.commits.append(campaign.epoch)

    def believers(self) -> list[int]:
        return [
            node
            for node, (campaign, offset) in enumerate(zip(self.campaigns, self.offsets, strict=True))
            if campaign.believes(self.now + offset)
        ]


_nodes = st.integers(0, NODES - 1)
_delay = st.integers(0, 40).map(lambda eighths: eighths / 8)  # exact, so that no rounding decides
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), _nodes, _delay, _delay, st.booleans()),
        st.tuples(st.just("wait"), _delay),
        st.tuples(st.just("commit"), _nodes, st.booleans()),
        st.tuples(st.just("give up"), _nodes),
    ),
    max_size=60,
)


@given(_steps, st.lists(st.integers(-(10**6), 10**6).map(float), min_size=NODES, max_size=NODES))
def test_at_no_moment_two_nodes_believe_and_epochs_of_commits_never_go_back(
    steps: list[tuple[object, ...]], offsets: list[float]
) -> None:
    world = World(offsets)
    for step in steps:
        before = world.epoch
        match step:
            case ("ask", int(node), float(takes), float(answers), bool(lost)):
                world.asks(node, takes, answers, lost=lost)
            case ("wait", float(seconds)):
                world.now += seconds
            case ("commit", int(node), bool(blindly)):
                world.commits_now(node, blindly=blindly)
            case ("give up", int(node)):
                world.campaigns[node].given_up(world.now + offsets[node])
        assert len(world.believers()) <= 1
        assert world.epoch >= before
    assert world.commits == sorted(world.commits)


@given(st.integers(0, NODES - 1), st.integers(0, 240).map(lambda eighths: eighths / 8))
def test_a_paused_leader_that_goes_on_believes_nothing_and_its_epoch_is_over(leader: int, pause: float) -> None:
    world = World([0.0, 500.0, -500.0])
    world.asks(leader, 0.125, 0.125, lost=False)
    other = (leader + 1) % NODES

    world.now += pause
    world.asks(other, 0.0, 0.0, lost=False)

    taken_over = other in world.believers()
    # A leader counts from when it asked, the database from when it answered: for a moment nobody leads, never two do.
    assert not (taken_over and leader in world.believers())
    assert taken_over == (0.125 + pause >= TTL_SECONDS)
    if taken_over:
        world.commits_now(leader, blindly=True)
        assert world.commits == []

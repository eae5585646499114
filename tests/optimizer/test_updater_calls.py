"""Random sequences of updates by optimizers, in nbmod and in MXNet."""

from __future__ import annotations

import pytest

import nbmod as mx
from tests.compare import assert_sequences_agree
from tests.programs import updater_calls

EACH = 100


@pytest.mark.parametrize("first", range(0, 400, EACH))
def test_updates_change_weights_as_in_mxnet(oracle, first):
    # float16 has 11 bits.
    assert_sequences_agree(oracle, updater_calls, range(first, first + EACH), 1e-3)


@pytest.mark.parametrize("updates", [2, 5], ids=["before the end", "after the end"])
def test_states_load_where_a_schedule_ends_with_a_rate_of_zero(updates):
    """FTML divides by the rate."""
    scheduler = mx.lr_scheduler.PolyScheduler(max_update=5, base_lr=0.1)
    updater = mx.optimizer.get_updater(mx.optimizer.FTML(lr_scheduler=scheduler,
                                                         learning_rate=0.1))
    weight = mx.nd.ones(3)
    updater(0, mx.nd.ones(3), weight)
    while updater.optimizer.num_update < updates:       # those of another parameter
        updater.optimizer._update_count(1)
    assert (updater.optimizer.learning_rate == 0) == (updates == 5)
    other = mx.optimizer.get_updater(mx.optimizer.FTML())
    other.set_states(updater.get_states(dump_optimizer=True))
    assert other.optimizer.num_update == updater.optimizer.num_update

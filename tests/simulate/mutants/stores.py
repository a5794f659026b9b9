"""Replaced and restored stores, wrong clocks, work of runs and files of others are not noticed."""

from tests.simulate.mutants.patch import Mutant, one_edit

_SAME = "self._check_same()\n"

MUTANTS: tuple[Mutant, ...] = (
    one_edit(
        "a staged write goes into a store that was removed",
        "kv.driver:Driver.set",
        _SAME,
        "pass\n",
        "replaced-store",
    ),
    one_edit(
        "a branch moves in a store that was removed",
        "kv.driver:Driver.set_if",
        _SAME,
        "pass\n",
        "replaced-store",
    ),
    one_edit(
        "what a restored store lacks is not recorded",
        "repository.wholeness:record_missing",
        "expired.write(identifier, gone, ABSENT)",
        "pass",
        "restored-before-sweep",
    ),
    one_edit(
        "retention uses the clock of the collecting host",
        "gc.reachability.survey:Survey.__init__",
        "self.now = store_now(stores.objects, stores.uid)",
        "self.now = unix_us(stores.store_clock.machine())",
        "clock-ahead",
    ),
    one_edit(
        "commits are dated by the clock of their host",
        "base.clock:StoreClock.now",
        "return self._clock.now() + self._ahead",
        "return self._clock.now()",
        "clock-behind",
    ),
    one_edit(
        "a copy may name a commit of an unpublished run",
        "repository.origins:refuse_unpublished",
        "if key is not None and not own",
        "if False and key is not None and not own",
        "copy-from-run",
    ),
    one_edit(
        "a file that nothing names counts as graveler's",
        "gc.reachability.survey:Survey.data",
        "is_made_for(stores.storage_id, info.key)",
        "True",
        "foreign-files",
    ),
)

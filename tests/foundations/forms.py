"""The forms of all stored records, their stored bytes and what these mean."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from graveler.base.records import decode_json, encode_json
from graveler.gates.named import NamedGate
from graveler.gates.statistics import STATISTICS
from graveler.gates.verdicts import VERDICT, Judgement
from graveler.gc import files, marks, rules
from graveler.ingest import records as ingest
from graveler.lake.catalogue import RepositoryRecord
from graveler.reads.local import export
from graveler.refs import commits, epochs, moves, pack_rule, settings
from graveler.refs.branches import decode_branch, encode_branch
from graveler.repository.witness import marker
from graveler.repository.witness.known import KNOWN
from graveler.runs import record as runs
from graveler.runs.records import _TRY
from graveler.runs.steps.environment import StepHandle

HERE = Path(__file__).parent
ONE, TWO = "1" * 64, "2" * 64


def lines_of(name: str) -> dict[str, bytes]:
    lines = (HERE / name).read_bytes().splitlines()
    return {key.decode(): rest for key, rest in (line.split(b"\t", 1) for line in lines)}


STORED, VALUES = lines_of("stored_records.txt"), lines_of("stored_values.txt")


class Form(NamedTuple):
    """How a kind of record is written and read."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]


def of(schema: Any) -> Form:
    return Form(schema.encode, schema.decode)


def setting(one: Any) -> Form:
    return Form(lambda value: encode_json(one.encode(value) | {"nonce": "n"}), one.decode)


def text(encode: Callable[[Any], str], decode: Callable[[str], Any]) -> Form:
    return Form(
        lambda value: encode(value).encode("utf-8", "surrogatepass"),
        lambda raw: decode(raw.decode("utf-8", "surrogatepass")),
    )


BRANCH = Form(encode_branch, decode_branch)
COMMIT = Form(commits.encode_commit, lambda raw: commits.decode_commit("d1", raw))
RUN = Form(runs.encode_run, runs.decode_run)
GATE = Form(
    lambda gate: encode_json(gate.encode()), lambda raw: NamedGate.decode(decode_json(raw, "gate"))
)
REPOSITORY = Form(RepositoryRecord.encode, lambda raw: RepositoryRecord.decode(raw, "r"))
FORMS = {
    "branch": BRANCH,
    "branch of a run": BRANCH,
    "branch that ends": BRANCH,
    "commit": COMMIT,
    "commit without spans": COMMIT,
    "expired commit": of(commits.EXPIRED),
    "epoch": of(epochs._EPOCH),
    "epoch that is decided": of(epochs._EPOCH),
    "page of moves": Form(moves.encode_moves, moves.decode_moves),
    "required gates": setting(settings.REQUIRED_GATES),
    "places": setting(settings.LINK_PLACES),
    "checked": setting(settings.CHECKED),
    "unsound": setting(settings.UNSOUND),
    "changes": setting(settings.LINK_CHANGES),
    "packing": setting(pack_rule.PACKING),
    "retention": setting(rules.RETENTION),
    "adoption": setting(rules.ADOPTION),
    "mark": of(marks._MARK),
    "condemned table": of(files._FILE),
    "hour": of(ingest.HOUR),
    "quarantine": of(ingest.QUARANTINE),
    "standing": of(ingest.STANDING),
    "standing of nothing": of(ingest.STANDING),
    "run": RUN,
    "run with everything": RUN,
    "try of a step": of(_TRY),
    "run handle": text(runs.RunHandle.to_json, runs.RunHandle.from_json),
    "step handle": text(StepHandle.to_json, StepHandle.from_text),
    "inputs of a commit": text(runs.encode_inputs, runs.decode_inputs),
    "verdict": of(VERDICT),
    "judgement": Form(Judgement.encode, Judgement.decode),
    "statistics": of(STATISTICS),
    "required gate": GATE,
    "required gate of a name": GATE,
    "repository": REPOSITORY,
    "repository with a nonce": REPOSITORY,
    "marker": Form(marker.encode_marker, lambda raw: marker.decode_marker(raw, "marker")),
    "knowledge of a marker": of(KNOWN),
    "export": of(export._EXPORT),
}

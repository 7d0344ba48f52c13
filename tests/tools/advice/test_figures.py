"""Expectations and watches: each of one measure that a look brings, decided by what the next start shows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.tools.advice import box
from tools.advice import Change, Flags, expected_after, verify
from tools.advice.figures import claim_of
from tools.diagnosis import LABELS, Watch, watches
from transcripts.facts import Fact, Facts


def _watches() -> Iterator[Watch]:
    yield from (each for each in vars(watches).values() if isinstance(each, Watch))
    yield watches.running(48)


@pytest.mark.parametrize("watch", list(_watches()), ids=lambda watch: f"{watch.metric}: {watch.worse}")
def test_better_and_worse_are_of_the_measure_that_is_watched(watch: Watch) -> None:
    for metric in watch.metric.split(", and "):
        better, worse = claim_of(watch.better, metric), claim_of(watch.worse, metric)
        assert better is not None
        assert worse is not None
        assert better.called == worse.called


def test_every_family_but_those_told_by_the_failure_alone_has_something_to_watch() -> None:
    without = {label.partition(".")[0] for label in LABELS if not watches.of_family(label)}
    assert without <= {"parallel", "pd", "host", "config"}


def _looked(*scoped: tuple[str, str, Any], **figures: Any) -> Facts:
    named = [Fact(name, value, "", "observed", "E9:1") for name, value in figures.items()]
    return Facts([*named, *(Fact(name, value, "", "observed", "E9:2", scope) for name, scope, value in scoped)])


@pytest.mark.parametrize(
    ("what", "seen", "outcome"),
    [
        ("--kv-cache-dtype fp8_e4m3", ("flag", "--kv-cache-dtype", "fp8_e4m3"), "met"),
        ("--kv-cache-dtype fp8_e4m3", ("server_arg", "kv_cache_dtype", "fp8_e4m3"), "met"),
        ("--kv-cache-dtype fp8_e4m3", ("flag", "--tp", "8"), "not met"),
        ("--kv-cache-dtype fp8_e4m3", ("version", "", "0.5.9"), "not yet visible"),
        ("--mem-fraction-static 0.90", ("server_arg", "mem_fraction_static", 0.9), "met"),
        ("--enable-metrics", ("flag", "--enable-metrics", "true"), "met"),
        ("without --disable-radix-cache", ("flag", "--disable-radix-cache", "true"), "not met"),
        ("without --disable-radix-cache", ("server_arg", "disable_radix_cache", False), "met"),
        ("NCCL_IB_DISABLE=1", ("env", "NCCL_IB_DISABLE", "1"), "met"),
        ("NCCL_IB_DISABLE=1", ("env", "PATH", "/bin"), "not met"),
        ("sglang 0.5.16", ("version", "", "0.5.16"), "met"),
        ("another version of sglang", ("version", "", "0.5.9"), "met"),
        ("the server is ready", ("ready", "", True), "met"),
        ("the server is ready", ("ready", "", False), "not met"),
    ],
)
def test_a_changed_setting_is_seen_as_it_runs(what: str, seen: tuple[str, str, Any], outcome: str) -> None:
    rows = verify([{"what": what}], [], _looked(pid=8), _looked(seen, pid=9))
    assert [row.outcome for row in rows] == [outcome]
    untouched = verify([{"what": what}], [], _looked(pid=9), _looked(pid=9))
    assert untouched[0].outcome == "not yet visible"


def test_a_change_is_told_once_and_nothing_is_expected_of_what_was_refused(flags: Flags) -> None:
    running, fp8 = box.flag("set", "--max-running-requests", 72), box.flag("set", "--kv-cache-dtype", "fp8_e4m3")
    stated = [{"what": "max_running_requests=72", "where": "ready line of the log"}]
    assert expected_after([], stated, box.facts()) == ()
    rows = expected_after([running, fp8], stated, box.facts())
    assert [row["what"] for row in rows] == ["max_running_requests=72", "--kv-cache-dtype fp8_e4m3"]
    tp = box.flag("set", "--tp-size", 4)
    (spelled,) = expected_after([tp], [], box.facts(), launch=box.launch(), catalogue=flags)
    assert spelled["what"] == "--tp 4"
    shm = Change("container", "set", "shm-size", None, "32g")
    failed = box.facts(ready=None, oom_phase="graph_capture")
    assert [row["what"] for row in expected_after([shm], [], failed)] == ["the server is ready"]


def test_memory_that_is_free_is_that_of_the_fullest_card() -> None:
    cards: list[tuple[str, str, Any]] = [("gpu_memory_mib", "0", 1024 * 96), ("gpu_used_mib", "0", 1024 * 90)]
    cards += [("gpu_memory_mib", "1", 1024 * 96), ("gpu_used_mib", "1", 1024 * 95.8)]
    watch = {"metric": "free GPU memory", "window_s": 60, "better": "above 1 GiB", "worse": "below 0.5 GiB"}
    (row,) = verify([], [watch], _looked(pid=8), _looked(*cards, pid=9, load_window_s=900))
    assert (row.outcome, row.after) == ("not met", "0.20 GiB")

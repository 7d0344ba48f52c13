"""The host, the flags, and faults tied to a version."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, Forbidden, plan, raise_fraction, scale, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    Seen,
    above,
    below,
    both,
    either,
    env,
    fact,
    flag,
    lacks,
    phase,
    said,
    setting_above,
    symptom,
    when,
)
from tools.diagnosis.conditions import KILLED, SPECULATES
from tools.diagnosis.families.hicache import less_host
from tools.diagnosis.foreign import EQUIVALENT, changes_for_rejected, nearest_choice
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.parser_names import parser_for
from tools.diagnosis.view import View

_NOT_MEMORY: tuple[Forbidden, ...] = (
    ("set", FRACTION, "GPU memory plays no part"),
    ("lower", FRACTION, "GPU memory plays no part"),
    ("raise", FRACTION, "GPU memory plays no part"),
)
_HICACHE = when(lambda view: view.hierarchical)


def _host(
    flag_: str, to: str, why: str, *alternatives: tuple[str, str], never: tuple[Forbidden, ...] = _NOT_MEMORY
) -> Actions:
    return plan(Proposal("host", "set", flag_, None, to, "", why), never=never, alternatives=alternatives)


def _shm(_view: View) -> Actions:
    return plan(
        Proposal(
            "container",
            "set",
            "--shm-size",
            None,
            "32g",
            "",
            "ranks exchange data through /dev/shm; a container gets 64 MB of it by default",
        ),
        Proposal("container", "set", "--ipc", None, "host", "", "or share the host's"),
        never=(*_NOT_MEMORY, ("set", "NCCL_P2P_DISABLE", "it is shared memory that is missing")),
        alternatives=(
            ("in Kubernetes an emptyDir with medium Memory at /dev/shm", "the same there"),
            ("NCCL_SHM_DISABLE=1", "works and is slow"),
        ),
    )


def _limit(view: View) -> Actions:
    smaller = [less_host(view, "or make it fit the container's limit")] if view.hierarchical else []
    why = "the container's own limit is what kills it; the host has more"
    room = "what all ranks take with a tenth to spare"
    return plan(
        Proposal("container", "raise", "--memory", None, room, "", why),
        *smaller,
        never=_NOT_MEMORY,
        alternatives=(("a smaller host pool", "when the limit must stay"),),
    )


def _less_ram(view: View) -> Actions:
    changes: list[Proposal] = []
    if view.on("--enable-hierarchical-cache"):
        changes.append(step(view, "lower", "--hicache-ratio", 1.2, "leave the host its reserve"))
    if view.value("--cpu-offload-gb"):
        changes.append(
            scale(view, "--cpu-offload-gb", 0.5, "it is per rank; all ranks together must fit", least=0, unit="GB")
        )
    changes.append(
        Proposal(
            "host",
            "set",
            "memory of the host",
            None,
            "free before the start",
            "",
            "processes and page cache leave too little for the loader and pinned buffers",
        )
    )
    return plan(
        *changes,
        never=_NOT_MEMORY[1:],
        alternatives=(
            ("fewer loader threads", "lowers the peak while loading"),
            ("swap off", "so that a shortage shows at once"),
        ),
    )


def _nofile(_view: View) -> Actions:
    return _host(
        "nofile",
        "1048576",
        "each connection and worker needs open files; raise ulimit -n, LimitNOFILE or the container's ulimit",
        ("fewer workers", "needs fewer files"),
    )


# A word of the path that was denied, and the variable that moves that cache.
_CACHES = (
    ("flashinfer", "FLASHINFER_WORKSPACE_BASE"),
    ("deep_gemm", "SGLANG_DG_CACHE_DIR"),
    ("inductor", "TORCHINDUCTOR_CACHE_DIR"),
    ("torch_extensions", "TORCH_EXTENSIONS_DIR"),
    ("huggingface", "HF_HOME"),
    ("tvm", "TVM_FFI_CACHE_DIR"),
    ("triton", "TRITON_CACHE_DIR"),
)


def _cache_dir(view: View) -> Actions:
    path = view.facts.text("denied_path")
    named = next((name for word, name in _CACHES if word in path), "TRITON_CACHE_DIR")
    target = "a folder that the server may write"
    return plan(
        Proposal("env", "set", named, view.env(named) or None, target, "", "compiled kernels are kept there"),
        Proposal("env", "set", "HOME", None, target, "", "several caches live below it"),
        never=(*_NOT_MEMORY, ("raise", "--watchdog-timeout", "it hides the dead process")),
        alternatives=(("a volume mounted at that path, owned by the server's user", "keeps the cache over restarts"),),
    )


def _build(_view: View) -> Actions:
    return _host(
        "build dependency",
        "installed in the runtime image",
        (
            "an extension is compiled at first use and its headers or "
            "compiler are missing: the package named by the error (for instance libssl-dev, gcc, ninja)"
        ),
        ("the official image", "has them"),
    )


def _huge(_view: View) -> Actions:
    return _host(
        "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        "advise",
        "pinning by small pages takes long; huge pages make it minutes",
        ("drop the page cache before pinning", "so that huge pages can be found"),
    )


def _pinned_unified(view: View) -> Actions:
    return plan(
        Proposal(
            "env",
            "set",
            "NCCL_CUMEM_HOST_ENABLE",
            None,
            "0",
            "",
            "host buffers come out of the memory that GPU and CPU share",
        ),
        Proposal(
            "env",
            "lower",
            "NCCL_BUFFSIZE",
            view.env("NCCL_BUFFSIZE") or None,
            1048576,
            "bytes",
            "smaller buffers per channel",
        ),
        never=(("raise", FRACTION, "the host needs the same memory"),),
        alternatives=(("fewer NCCL channels", "each holds its own buffers"),),
    )


def _rejected(view: View) -> Actions:
    return plan(
        *changes_for_rejected(view),
        notes=(
            "Options of other engines and of other versions are refused, not ignored: check each against this version.",
        ),
    )


def _renamed(view: View) -> Actions:
    return plan(
        *changes_for_rejected(view),
        alternatives=(("leave it while it is only a warning", "it goes in a later version"),),
    )


def _context_override(view: View) -> Actions:
    return plan(
        Proposal(
            "env",
            "set",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN",
            view.env("SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN") or None,
            "1",
            "",
            "the server refuses a context longer than the model's own configuration without it",
        ),
        step(
            view,
            "set",
            "--json-model-override-args",
            '{"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}}',
            "and the model must really be scaled to that length; check factor and original length in its card",
        ),
        never=(_NOT_MEMORY[0],),
        alternatives=(("a lower --context-length", "what the model supports as it is"),),
    )


def _dp_for_tp(view: View) -> Actions:
    dp = int(view.value("--dp-size") or 2)
    return plan(
        step(view, "set", "--tp-size", dp, "dp starts a whole copy per GPU; tp shares one model over them"),
        step(view, "remove", "--dp-size", None, "or keep one copy only"),
        never=_NOT_MEMORY[1:],
    )


def _combination(view: View) -> Actions:
    changes = []
    if either(said("moe_pair_missing"), said("draft_pair_missing"))(view) or (
        view.speculative and flag("--ep-size")(view)
    ):
        changes.append(
            step(
                view,
                "set",
                "--speculative-moe-runner-backend",
                "triton",
                "the draft's experts need a runner of their own type",
            )
        )
        changes.append(
            step(
                view, "set", "--speculative-moe-a2a-backend", "none", "and no all-to-all that this runner does not know"
            )
        )
    for name in ("--attention-backend", "--moe-runner-backend", "--moe-a2a-backend"):
        if view.typed(name) and len(changes) < 3:
            changes.append(step(view, "remove", name, None, "let the server choose what goes together"))
    if not changes:
        changes.append(
            step(
                view,
                "set",
                "--attention-backend",
                "triton",
                "the most general backend, to see which part of the pair is at fault",
            )
        )
    return plan(*changes, never=_NOT_MEMORY)


def _general_backend(view: View) -> Actions:
    return plan(
        step(view, "set", "--attention-backend", "triton", "the backend chosen has no kernels for this GPU"),
        *(
            [step(view, "set", "--moe-runner-backend", "triton", "nor may the experts' backend")]
            if view.typed("--moe-runner-backend")
            else []
        ),
        never=(*_NOT_MEMORY, ("set", "--kv-cache-dtype", "the kernel is missing whatever the type")),
        alternatives=(("a newer build", "with kernels for this GPU"),),
    )


def _parser(view: View) -> Actions:
    typed = [name for name in ("--tool-call-parser", "--reasoning-parser") if view.typed(name)]
    if len(typed) != 1:
        typed = ["--tool-call-parser" if view.has("symptom", "tool_calls") else "--reasoning-parser"]
    why = "content, reasoning or tool calls land in the wrong field with another one"
    model = f"{view.facts.text('model_path')} {view.typed('--model-path')}"
    changes = [
        step(view, "set", name, parser_for(name, model) or "the parser made for this model family", why)
        for name in typed
    ]
    return plan(*changes, never=_NOT_MEMORY)


def _free_window(view: View) -> Actions:
    now = view.value("--swa-full-tokens-ratio") or 0.8
    return plan(
        upgrade("later versions free what left the window on this path too"),
        step(
            view,
            "raise",
            "--swa-full-tokens-ratio",
            round(min(1.0, now * 3), 2),
            "until then a window pool that one long request does not fill",
            unit="ratio",
        ),
        never=(
            ("raise", FRACTION, "the full pool has room"),
            ("raise", "--schedule-conservativeness", "one request alone is thrown back"),
            ("lower", "--swa-full-tokens-ratio", "the window pool is the one that fills"),
        ),
    )


def _fixed_later(view: View) -> Actions:
    changes = [upgrade("the fault is in this version; a later one has the fix")]
    if symptom("sliding_window")(view) or view.typed("--swa-full-tokens-ratio"):
        now = view.value("--swa-full-tokens-ratio") or 0.8
        changes.append(
            step(
                view,
                "raise",
                "--swa-full-tokens-ratio",
                round(min(1.0, now * 2), 2),
                "less pressure on the window pool until then",
                unit="ratio",
            )
        )
    return plan(
        *changes,
        never=(
            ("raise", FRACTION, "no memory is short"),
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "it hides the fault and costs speed"),
            ("lower", "--swa-full-tokens-ratio", "more pressure on the window pool"),
        ),
        alternatives=(("the feature that is new in this start, off", "until the upgrade"),),
    )


def _upgrade_only(view: View) -> Actions:
    return plan(
        upgrade("the fault is in this version; a later one has the fix"),
        never=_NOT_MEMORY[1:],
        alternatives=(("the previous version", "where it worked"),),
    )


def _raise_after_draft(view: View) -> Actions:
    return plan(
        raise_fraction(
            view,
            "what the draft loaded and gave back after the pools were sized lies idle; take it back in a small step",
            0.02,
        ),
        never=(("lower", FRACTION, "memory lies idle already"), ("remove", "--kv-cache-dtype", "it halves the pool")),
        alternatives=(("upgrade", "later versions share these tensors before sizing"),),
    )


def _no_prefill_graph(view: View) -> Actions:
    old = view.before(0, 5, 16)
    change = (
        step(view, "set", "--disable-piecewise-cuda-graph", True, "decode graphs stay on; only prefill graphs go")
        if old
        else step(
            view, "set", "--cuda-graph-backend-prefill", "disabled", "decode graphs stay on; only prefill graphs go"
        )
    )
    return plan(
        change,
        never=(
            ("lower", FRACTION, "no memory is short"),
            ("set", "--disable-cuda-graph", "decode graphs are not at fault"),
            ("raise", "--watchdog-timeout", "it hides the cause"),
            ("set", "--skip-server-warmup", "the next request would fail instead"),
        ),
        alternatives=(
            ("a longer context", "where graph buckets exceed it"),
            ("upgrade", "later versions bound the buckets"),
        ),
    )


def _page_one(view: View) -> Actions:
    return plan(
        upgrade("later versions count whole pages before decode"),
        step(view, "set", "--page-size", 1, "tokens and pages are then the same", unit="tokens"),
        never=(
            ("raise", FRACTION, "there is room; it is counted wrongly"),
            ("raise", "--max-running-requests", "more requests cross page borders at once"),
        ),
        alternatives=(("lower --max-running-requests", "fewer requests cross page borders at once"),),
    )


def _no_overlap(view: View) -> Actions:
    return plan(
        step(view, "set", "--disable-overlap-schedule", True, "the scheduler and the forward step wait for each other"),
        upgrade("later versions corrected the order"),
        never=(("raise", "--watchdog-timeout", "it hides the deadlock"), *_NOT_MEMORY[1:]),
    )


def _spec_v1(view: View) -> Actions:
    return plan(
        Proposal(
            "env",
            "set",
            "SGLANG_ENABLE_SPEC_V2",
            view.env("SGLANG_ENABLE_SPEC_V2") or None,
            "0",
            "",
            "this version runs grammar requests one after the other on that path",
        ),
        upgrade("later versions batch them"),
        never=(("raise", "--max-running-requests", "no limit is reached"), ("raise", FRACTION, "memory is not short")),
        alternatives=(("speculation off for tool traffic", "a second server without it"),),
    )


def _one_tokenizer(view: View) -> Actions:
    return plan(
        step(
            view,
            "set",
            "--tokenizer-worker-num",
            1,
            "with several workers a refusal reaches the wrong one and the client waits for ever",
        ),
        upgrade("later versions send it to the right worker"),
        never=(("raise", "--watchdog-timeout", "it hides the lost answer"), *_NOT_MEMORY[1:]),
        alternatives=(("no --max-queued-requests", "then nothing is refused"),),
    )


def _collective(view: View) -> Actions:
    return plan(
        upgrade("later versions keep the ranks' collectives in step"),
        step(view, "remove", "--enable-dp-attention", None, "or run without it until then"),
        never=(
            ("raise", "--watchdog-timeout", "it hides the hang"),
            ("raise", "--dist-timeout", "it hides the hang"),
            *_NOT_MEMORY[1:],
        ),
    )


def _batch_full(view: View) -> Actions:
    limit = view.value("--max-running-requests")
    extra = max(1.0, view.value("--dp-size") or 1, limit if limit is not None and limit <= 4 else 1)
    return plan(
        upgrade("later versions clear the flag"),
        *(
            [
                step(
                    view,
                    "raise",
                    "--max-running-requests",
                    int(limit + extra),
                    "until then one slot more per rank",
                    unit="requests",
                )
            ]
            if limit
            else []
        ),
        never=(
            ("raise", FRACTION, "memory is not short"),
            ("lower", "--schedule-conservativeness", "admission is not what refuses"),
        ),
    )


def _integration(view: View) -> Actions:
    changes = []
    if said("lmcache_needs_file")(view):
        changes.append(
            step(
                view,
                "set",
                "--lmcache-config-file",
                "your YAML with mp_host and mp_port",
                "this version starts the connector from a file and a server of its own",
            )
        )
    else:
        changes.append(upgrade("the two versions must match; take the pair that the integration documents"))
    return plan(
        *changes,
        never=(("set", "LMCACHE_CONFIG_FILE", "the variable is not read here"), *_NOT_MEMORY),
        alternatives=(("--enable-hierarchical-cache", "the built-in host tier"),),
    )


def _budget_early(view: View) -> Actions:
    return plan(
        upgrade("later versions measure after what is allocated late"),
        raise_fraction(view, "until then take back what lies idle, in a small step", 0.02)
        if symptom("cache_full", "pool_small")(view)
        else Proposal(
            "flag",
            "lower",
            FRACTION,
            view.value(FRACTION),
            round((view.value(FRACTION) or 0.88) - 0.05, 2),
            "fraction",
            "until then leave room for what is allocated after the measurement",
        ),
    )


def _leak(view: View) -> Actions:
    changes = [upgrade("host memory is not given back in this version")]
    if view.typed("--hicache-storage-prefetch-policy") or symptom("prefetching")(view):
        changes.append(
            step(view, "set", "--hicache-storage-prefetch-policy", "timeout", "ends fetches that are no longer wanted")
        )
    return plan(
        *changes,
        never=(
            ("raise", "--hicache-ratio", "more of what grows"),
            ("raise", "--hicache-size", "more of what grows"),
            *_NOT_MEMORY[1:],
        ),
        alternatives=(("a restart at a quiet hour", "gives the memory back until then"),),
    )


def _known_foreign(view: View) -> Seen | None:
    found = [
        fact_
        for fact_ in (*view.facts.all("flag"), *view.facts.all("rejected_flag"))
        if (fact_.scope if fact_.name == "flag" else str(fact_.value)) in EQUIVALENT
    ]
    if not found:
        return None
    first = found[0]
    return Seen(first.scope if first.name == "flag" else str(first.value), (first.source,))


def _underscore(view: View) -> Seen | None:
    found = [
        fact_
        for fact_ in (*view.facts.all("rejected_flag"), *view.facts.all("flag"))
        if "_" in (str(fact_.value) if fact_.name == "rejected_flag" else fact_.scope)
    ]
    if not found:
        return None
    return Seen(
        str(found[0].value) if found[0].name == "rejected_flag" else found[0].scope,
        (found[0].source,),
        "observed" if found[0].name == "rejected_flag" else "typed",
    )


_REJECTED = either(fact("rejected_flag"), said("unrecognized_argument", "invalid_choice"), symptom("flag_refused"))
_HYBRID = either(symptom("hybrid_state"), flag("--max-mamba-cache-size"), fact("state_slots"))


def _one_short(view: View) -> Seen | None:
    limit, running = view.value("--max-running-requests"), view.number("running_max")
    dp = view.value("--dp-size") or 1
    if limit is None or running is None or not view.number("queue_max"):
        return None
    shares = {limit / dp, *(number for number in (limit / 8, limit / 4, limit / 2) if dp > 1)}
    if running + 1 not in shares:
        return None
    return Seen(f"{running:g} running of {running + 1:g}", view.sources("running_max", "queue_max"))


def _nearest(view: View) -> Seen | None:
    found = [one for one in view.facts.all("flag_nearest") if one.value]
    return Seen(f"{found[0].scope}: nearest is {found[0].value}", (found[0].source,)) if found else None


def _has_rejected(view: View) -> Seen | None:
    found = [one for one in view.facts.all("rejected_flag") if one.scope not in ("invalid_choice", "missing_value")]
    return Seen(str(found[0].value), (found[0].source,)) if found else None


def _near_choice(view: View) -> Seen | None:
    """A value that was refused stands, but for a slip, among the choices that the parser printed."""
    for one in view.facts.all("rejected_value"):
        choice = nearest_choice(str(one.value), view.facts.text("flag_choices", one.scope))
        if choice:
            return Seen(f"{one.scope} {one.value}: nearest is {choice}", (one.source,))
    return None


def _starved(view: View) -> Seen | None:
    """Hardly anything runs, very many wait, and the pool is nearly empty."""
    running, queue, usage = view.number("running_max"), view.number("queue_p95"), view.usage
    if running is None or queue is None or usage is None or running > 8 or queue < 50 or usage > 0.1:
        return None
    return Seen(f"{running:g} running, {queue:g} waiting, usage {usage:.2f}", view.sources("running_max", "queue_p95"))


ENTRIES = (
    Entry(
        "host.shm_too_small",
        "Shared memory (/dev/shm) is too small for the ranks.",
        for_=(
            Clue(6, said("nccl_shm", "shm_full"), "a segment in /dev/shm could not be made"),
            Clue(2, symptom("shm"), "shared memory is named"),
        ),
        settle=Question("How large is /dev/shm?", "df -h /dev/shm"),
        act=_shm,
    ),
    Entry(
        "host.container_memory_limit",
        "The container's memory limit kills a process while the host has room.",
        for_=(
            Clue(
                5,
                both(
                    either(fact("cgroup_limit_bytes"), said("cgroup_kill"), symptom("container_limit")),
                    either(KILLED, said("cgroup_kill")),
                ),
                "killed inside a memory limit",
            ),
            Clue(2, said("cgroup_kill"), "the kernel names the container's limit"),
            Clue(1.5, symptom("container_limit"), "a limit is named"),
        ),
        against=(Clue(2, symptom("unified_memory"), "memory is shared with the GPU"),),
        settle=Question("What are memory.max and memory.peak of the container?", "cgroup files; kubectl describe pod"),
        act=_limit,
    ),
    Entry(
        "host.ram_oversubscribed",
        "The host itself runs out of memory while loading or serving.",
        for_=(
            Clue(
                2,
                both(said("killed"), lacks(_HICACHE), lacks(said("cuda_oom", "piecewise_failed"))),
                "a process was killed from outside",
            ),
            Clue(
                4,
                both(
                    either(said("kernel_oom"), fact("kernel_oom_kill"), symptom("host_memory_short")),
                    lacks(_HICACHE),
                    lacks(symptom("host_cache", "container_limit", "host_memory_grows")),
                    lacks(fact("cgroup_limit_bytes")),
                ),
                "a process was killed for host memory",
            ),
            Clue(2, both(symptom("host_memory_short"), lacks(_HICACHE)), "host memory is short"),
            Clue(1.5, setting_above("--cpu-offload-gb", 1), "weights are kept in host memory, per rank"),
        ),
        against=(
            Clue(2, either(symptom("host_memory_grows")), "it grows with time"),
            Clue(3, said("piecewise_failed"), "graphs fail first"),
        ),
        settle=Question("What does the kernel log say, and what was free before?", "journalctl -k; free -b"),
        act=_less_ram,
    ),
    Entry(
        "host.nofile_limit",
        "The limit on open files is reached.",
        for_=(
            Clue(6, said("too_many_files"), "too many open files"),
            Clue(2, symptom("nofile"), "open files are named"),
        ),
        act=_nofile,
        settle=Question("What is the limit of the running process?", "/proc/PID/limits"),
    ),
    Entry(
        "host.cache_dir_permissions",
        "A folder for compiled kernels or caches cannot be written.",
        for_=(
            Clue(6, said("cache_dir_denied"), "a cache folder cannot be written"),
            Clue(3, both(said("permission_denied"), lacks(said("nccl_error"))), "permission denied"),
            Clue(2, symptom("read_only"), "a read-only file system"),
        ),
        act=_cache_dir,
        settle=Question("Which path, and who may write it?", "the error line; the container's user"),
    ),
    Entry(
        "host.missing_build_dependency",
        "Something is compiled at first use and the tools or headers for it are missing.",
        for_=(
            Clue(6, said("build_failed"), "an extension could not be built"),
            Clue(2, symptom("build_missing"), "a compiler or header is missing"),
        ),
        act=_build,
        settle=Question("What does the compiler say?", "the lines above the error"),
    ),
    Entry(
        "host.huge_pages_off",
        "Host memory is pinned page by page, which takes very long.",
        for_=(
            Clue(
                4,
                both(symptom("pinning_slow"), either(said("huge_pages_off"), symptom("huge_pages"))),
                "pinning takes long and huge pages are off",
            ),
            Clue(2, either(said("huge_pages_off"), symptom("huge_pages")), "huge pages are off"),
            Clue(1, symptom("pinning_slow"), "pinning takes long"),
        ),
        act=_huge,
        settle=Question(
            "What is shmem_enabled, and how long does pinning take?",
            "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
        ),
    ),
    Entry(
        "host.pinned_buffers_on_unified_memory",
        "On memory shared by CPU and GPU, pinned communication buffers take gigabytes.",
        for_=(
            Clue(5, both(symptom("unified_memory"), symptom("pinned_buffers")), "pinned buffers on shared memory"),
            Clue(2, symptom("pinned_buffers"), "pinned buffers are named"),
        ),
        act=_pinned_unified,
        settle=Question("How much does NCCL pin?", "Unevictable and Mlocked in /proc/meminfo before and after init"),
    ),
    Entry(
        "config.foreign_engine_flag",
        "A flag of another engine is used.",
        for_=(
            Clue(6, _known_foreign, "the flag belongs to another engine"),
            Clue(2, symptom("from_other_engine"), "the command comes from another engine"),
        ),
        act=_rejected,
        neighbours=(("config.misspelled_flag", "there the flag is SGLang's own, misspelt"),),
    ),
    Entry(
        "config.misspelled_flag",
        "A flag or a value is misspelt.",
        for_=(
            Clue(5, _underscore, "underscores where SGLang has hyphens, or the other way round"),
            Clue(4, both(_has_rejected, _nearest), "a very near flag exists"),
            Clue(5, _near_choice, "the value is a slip of one of the choices"),
            Clue(2.5, said("invalid_choice"), "the value is not one of the choices"),
            Clue(1, _REJECTED, "the parser refused it"),
        ),
        against=(Clue(4, _known_foreign, "it is another engine's flag"),),
        act=_rejected,
    ),
    Entry(
        "config.flag_not_in_this_version",
        "The flag exists in another version, not in this one.",
        for_=(
            Clue(
                4,
                both(_has_rejected, lacks(_nearest), lacks(_underscore)),
                "the parser does not know it, and nothing near it",
            ),
            Clue(2, both(symptom("from_release_notes"), _REJECTED), "it comes from release notes or another version"),
            Clue(2, both(said("unrecognized_argument"), lacks(_nearest)), "the parser does not know it"),
        ),
        against=(
            Clue(4, _known_foreign, "it is another engine's flag"),
            Clue(3, said("deprecated_flag"), "it is only deprecated"),
        ),
        act=_rejected,
        neighbours=(("version.flag_renamed", "there the server names the new spelling"),),
    ),
    Entry(
        "config.context_override_needed",
        "The context asked for is longer than the model's configuration allows without an override.",
        for_=(
            Clue(6, said("context_longer_than_model"), "the server refuses the longer context"),
            Clue(2, symptom("context_refused_at_start"), "a longer context is refused at start"),
        ),
        act=_context_override,
    ),
    Entry(
        "config.dp_instead_of_tp",
        "Data parallelism was asked for where tensor parallelism was meant: each GPU holds a whole copy.",
        for_=(
            Clue(
                4,
                both(
                    flag("--dp-size"),
                    lacks(flag("--enable-dp-attention")),
                    lacks(flag("--tp-size")),
                    either(
                        phase("load", "pools", "unknown"),
                        said("cuda_oom", "weights_leave_no_room"),
                        symptom("gpu_memory_out", "copy_per_gpu"),
                    ),
                ),
                "a whole copy per GPU runs out of memory",
            ),
            Clue(2, symptom("copy_per_gpu"), "each GPU holds a whole copy"),
        ),
        act=_dp_for_tp,
        settle=Question("Does each GPU hold the whole model?", "Load weight end of each rank"),
    ),
    Entry(
        "config.incompatible_backend_combination",
        "Two settings that do not go together.",
        for_=(
            Clue(6, said("moe_pair_missing", "draft_pair_missing"), "no path exists between the two backends"),
            Clue(
                5,
                both(
                    said("combination_refused"),
                    lacks(
                        said(
                            "hicache_layout_refused",
                            "hicache_size_unsupported",
                            "hicache_needs_unified_tree",
                            "fp8_refused",
                        )
                    ),
                ),
                "the server refuses the pair",
            ),
            Clue(3, symptom("combination"), "each alone works, together they do not"),
        ),
        act=_combination,
        settle=Question("Which of the two can be left out?", "one start without each"),
    ),
    Entry(
        "config.backend_not_for_gpu",
        "The backend has no kernels for this GPU.",
        for_=(
            Clue(6, said("no_kernel_for_gpu"), "no kernel for this architecture"),
            Clue(2, symptom("copied_recipe"), "the command comes from another GPU"),
            Clue(1, symptom("other_gpu"), "it works on another GPU"),
        ),
        against=(Clue(2, either(said("cuda_oom"), fact("oom_request_gib")), "memory ran out"),),
        act=_general_backend,
    ),
    Entry(
        "config.wrong_parser",
        "The tool-call or reasoning parser is not the one for this model.",
        for_=(
            Clue(
                4,
                both(
                    symptom("content_misplaced"),
                    either(flag("--tool-call-parser"), flag("--reasoning-parser"), symptom("parser")),
                ),
                "text lands in the wrong field",
            ),
            Clue(3, symptom("content_misplaced"), "text lands in the wrong field"),
            Clue(2, said("deprecated_parser"), "the parser's name has changed"),
        ),
        act=_parser,
    ),
    Entry(
        "version.flag_renamed",
        "The flag has another name in this version.",
        for_=(
            Clue(5, said("deprecated_flag"), "the server says that the flag is deprecated"),
            Clue(
                3,
                both(_REJECTED, symptom("after_upgrade"), lacks(_known_foreign), lacks(_underscore)),
                "a flag that worked is refused after an upgrade",
            ),
            Clue(1.5, symptom("what_replaces"), "the operator asks what replaces it"),
        ),
        act=_renamed,
    ),
    Entry(
        "version.bug_fixed_upstream",
        "A fault of this version that a later one corrects.",
        for_=(
            Clue(5, said("crash_after_retraction"), "a crash in a path that memory pressure opens"),
            Clue(
                3,
                both(said("illegal_access", "index_out_of_bounds", "nan"), lacks(_HICACHE), lacks(SPECULATES)),
                "a kernel faults",
            ),
            Clue(4, said("pool_leak"), "the server reports a leak of its pool"),
            Clue(
                2,
                both(symptom("garbled_output"), lacks(flag("--kv-cache-dtype")), lacks(symptom("fp8_kv"))),
                "the output is wrong",
            ),
            Clue(1.5, said("assertion"), "an assertion of the server's own failed"),
        ),
        act=_fixed_later,
    ),
    Entry(
        "version.radix_eviction_breaks_speculation",
        "After cached prefixes are evicted, drafts or state are wrong and output degenerates.",
        for_=(
            Clue(
                5,
                both(
                    either(symptom("repeats_token", "garbled_output"), symptom("accept_fell")),
                    either(SPECULATES, symptom("draft_on"), _HYBRID),
                    symptom("after_eviction"),
                ),
                "output degenerates after evictions",
            ),
            Clue(
                3,
                both(symptom("repeats_token"), either(SPECULATES, symptom("draft_on", "hybrid_state"), _HYBRID)),
                "one token repeats with a draft or state",
            ),
            Clue(
                2.5,
                both(symptom("accept_fell"), either(_HICACHE, symptom("host_cache", "after_eviction"))),
                "accept length falls after cache traffic",
            ),
        ),
        act=lambda view: plan(
            upgrade("later versions restore what belongs to the prefix"),
            step(view, "set", "--disable-radix-cache", True, "until then no stale prefix can be taken"),
            never=_NOT_MEMORY[1:],
        ),
        settle=Question("Does flush_cache in a quiet moment bring it back?", "accept length before and after"),
    ),
    Entry(
        "version.draft_pool_smaller_than_target",
        "The draft's pool is smaller than the target's, so it is indexed out of bounds.",
        for_=(
            Clue(
                6,
                both(said("index_out_of_bounds"), either(SPECULATES, symptom("draft_on"))),
                "an index is out of bounds with a draft",
            ),
            Clue(
                3,
                both(said("illegal_access"), SPECULATES, symptom("sliding_window")),
                "illegal access with a draft and a window pool",
            ),
        ),
        against=(Clue(2, symptom("garbled_output"), "the output is wrong, nothing crashes"),),
        act=_upgrade_only,
        settle=Question("Are the two pool lines of the same size?", "boot log: both KV pool lines"),
    ),
    Entry(
        "version.draft_embed_charged_to_kv",
        "The draft's own embedding and head are counted when the pool is sized and freed afterwards.",
        for_=(
            Clue(
                4,
                both(either(SPECULATES, symptom("draft_on")), symptom("draft_costs_cache")),
                "a small draft costs much cache",
            ),
            Clue(
                1,
                both(fact("weights_gib", "draft"), symptom("draft_costs_cache")),
                "the draft's weights are larger than its layers",
            ),
        ),
        act=_raise_after_draft,
        settle=Question("How much is free after start, against the reserve?", "ready line: available_gpu_mem"),
    ),
    Entry(
        "version.kv_budget_measured_too_early",
        "The pool is sized before or while other memory is taken or given back, so it is wrong.",
        for_=(
            Clue(4, symptom("measured_early"), "memory is measured before it settles"),
            Clue(
                2, both(symptom("idle_gpu_memory"), symptom("pool_small")), "GPU memory lies idle and the pool is small"
            ),
        ),
        against=(
            Clue(2, symptom("unified_memory"), "memory is shared with the host"),
            Clue(2, symptom("draft_costs_cache"), "it comes with a draft"),
        ),
        act=_budget_early,
        settle=Question("Does free memory after start agree with T x (1 - f)?", "boot log: avail mem lines in order"),
    ),
    Entry(
        "version.prefill_graph_bucket_exceeds_context",
        "Prefill graphs are warmed up for more tokens than the context has.",
        for_=(
            Clue(6, said("piecewise_failed"), "warming up prefill graphs fails"),
            Clue(2, both(symptom("prefill_graphs"), symptom("tiny_context")), "prefill graphs with a tiny context"),
        ),
        act=_no_prefill_graph,
    ),
    Entry(
        "version.prefill_graph_hang",
        "Prefill graphs leave the server hanging after it has started.",
        for_=(
            Clue(
                5,
                both(
                    either(said("detokenizer_silent"), symptom("health_503", "hangs", "first_request_hangs")),
                    symptom("prefill_graphs"),
                ),
                "no answer after prefill graphs were captured",
            ),
            Clue(
                3,
                both(said("detokenizer_silent"), symptom("health_503", "first_request_hangs")),
                "health fails and the first request hangs",
            ),
            Clue(1.5, said("detokenizer_silent"), "the detokenizer stays silent"),
        ),
        against=(
            Clue(2, said("permission_denied", "cache_dir_denied", "cuda_oom", "killed"), "a process died"),
            Clue(2, symptom("after_hours"), "it served for hours first"),
        ),
        act=_no_prefill_graph,
        settle=Question("Does it answer without prefill graphs?", "one start with them off"),
    ),
    Entry(
        "version.page_accounting_bug",
        "The server counts tokens where it allocates pages, and fails with room to spare.",
        for_=(
            Clue(
                5,
                both(
                    said("decode_alloc", "prefill_alloc"),
                    either(setting_above("--page-size", 2), fact("wanted_below_available")),
                ),
                "an allocation fails although enough tokens are available",
            ),
            Clue(2, fact("wanted_below_available"), "less was asked for than was available"),
        ),
        act=_page_one,
        settle=Question("How many tokens were asked for and how many were available?", "the error's figures"),
    ),
    Entry(
        "version.allocator_stranding",
        "A version's own buffers are allocated anew and stranded, so free memory drains with every request.",
        for_=(
            Clue(
                4,
                both(
                    symptom("creeps"),
                    either(said("device_out_of_resources"), said("cuda_oom"), symptom("gpu_memory_out")),
                ),
                "free GPU memory shrinks with every request",
            ),
            Clue(2, symptom("creeps"), "free GPU memory shrinks with time"),
        ),
        act=lambda view: plan(
            upgrade("later versions use a buffer of fixed size"),
            never=(("raise", FRACTION, "less would be left"),),
            alternatives=(("a lower fraction", "delays it"), ("a restart at a quiet hour", "gives it back")),
        ),
        settle=Question("Free GPU memory over hours at the same load.", "nvidia-smi every minute"),
        neighbours=(("oom.runtime.allocator_fragmentation", "there the reserve is large and unallocated"),),
    ),
    Entry(
        "version.host_memory_leak",
        "Host memory grows with time and is not given back.",
        for_=(
            Clue(5, symptom("host_memory_grows"), "host memory grows with time"),
            Clue(1, both(symptom("host_memory_grows"), _HICACHE), "with a host cache on"),
        ),
        act=_leak,
        settle=Question("Resident memory per process over hours.", "ps or smaps every minute"),
    ),
    Entry(
        "version.overlap_schedule_deadlock",
        "The overlapped scheduler and the forward step wait for each other.",
        for_=(
            Clue(4, both(symptom("hangs"), symptom("overlap")), "it hangs with the overlapped scheduler"),
            Clue(
                2,
                both(
                    said("watchdog"),
                    lacks(flag("--disable-overlap-schedule")),
                    lacks(either(fact("oom_request_gib"), said("cuda_oom", "nccl_error"))),
                ),
                "the watchdog ends a step that never returns",
            ),
            Clue(
                1.5,
                both(symptom("hangs"), symptom("overlap")),
                "it hangs with a small running limit",
            ),
        ),
        act=_no_overlap,
        settle=Question("Where do the threads wait?", "py-spy dump, by the operator"),
        neighbours=(("version.dp_attention_collective_hang", "there all ranks wait in one collective"),),
    ),
    Entry(
        "version.dp_attention_collective_hang",
        "Under DP attention ranks enter different collectives and wait for each other.",
        for_=(
            Clue(
                5,
                both(
                    either(flag("--enable-dp-attention"), symptom("dp_attention")),
                    either(symptom("hangs"), said("watchdog", "nccl_timeout")),
                    lacks(symptom("prefill_slow")),
                ),
                "ranks hang under DP attention",
            ),
        ),
        act=_collective,
        settle=Question("Which collective does each rank wait in?", "py-spy dump of every rank"),
        against=(
            Clue(3, either(said("graph_progress"), symptom("dies_in_capture")), "it stops around capture"),
            Clue(2, flag("--disaggregation-mode"), "roles are split"),
        ),
    ),
    Entry(
        "version.lost_queue_rejections_multi_tokenizer",
        "With several tokenizer workers a refusal of the full queue is lost, and the client waits for ever.",
        for_=(
            Clue(
                5,
                both(
                    either(setting_above("--tokenizer-worker-num", 2), symptom("tokenizer_workers")),
                    symptom("hangs", "clients_wait", "stragglers"),
                ),
                "clients hang with several tokenizer workers",
            ),
            Clue(
                2,
                both(flag("--max-queued-requests"), symptom("hangs", "clients_wait")),
                "clients hang with a bounded queue",
            ),
        ),
        act=_one_tokenizer,
    ),
    Entry(
        "version.spec_v2_tool_serialisation",
        "Requests with tools or grammar run one after the other on this version's speculative path.",
        for_=(
            Clue(
                5,
                both(
                    symptom("tool_calls"),
                    symptom("few_running", "one_at_a_time"),
                    either(SPECULATES, env("SGLANG_ENABLE_SPEC_V2")),
                ),
                "only one runs as soon as tools are used",
            ),
            Clue(1, env("SGLANG_ENABLE_SPEC_V2", "true", "1"), "the second speculative path is on"),
        ),
        against=(Clue(2, symptom("content_misplaced"), "calls are parsed wrongly"),),
        act=_spec_v1,
    ),
    Entry(
        "version.batch_full_stale_flag",
        "A flag that the batch is full stays set, so nothing more is admitted.",
        for_=(
            Clue(
                5,
                both(
                    symptom("after_burst", "after_retraction", "collapse"),
                    either(symptom("queue_never_drains", "requests_wait", "collapse"), symptom("few_running")),
                    either(symptom("cache_idle"), symptom("never_recovers", "collapse", "stays_low")),
                ),
                "after a burst or retraction nothing more is admitted",
            ),
            Clue(6, said("batch_full_flag"), "the flag is named"),
            Clue(4, both(_starved, lacks(flag("--max-running-requests"))), "hardly anything runs and very many wait"),
            Clue(
                4,
                both(symptom("hangs"), symptom("small_limit"), lacks(symptom("overlap"))),
                "nothing more is admitted once the few slots were taken at once",
            ),
            Clue(1, symptom("never_recovers"), "it never recovers"),
        ),
        against=(
            Clue(3, above("usage_max", 0.9), "the pool is full"),
            Clue(2, symptom("prefill_slow"), "prefill goes on, slowly"),
        ),
        act=_batch_full,
        settle=Question(
            "Is the queue full while running and usage stay low after a retraction?", "decode lines after it"
        ),
    ),
    Entry(
        "version.swa_eviction_missing_in_spec_path",
        "With speculative decoding, tokens that left the window are not freed, so one request fills the window pool.",
        for_=(
            Clue(
                6,
                both(SPECULATES, above("usage_max", 0.95, "swa"), below("usage_max", 0.8, "full")),
                "the window pool fills with speculative decoding while the full pool has room",
            ),
            Clue(2, both(SPECULATES, symptom("sliding_window"), symptom("single_request")), "one request alone"),
        ),
        act=_free_window,
        settle=Question("Does #swa token equal #full token of one long request?", "decode lines: full and swa tokens"),
        neighbours=(("capacity.swa_ratio_misallocated", "there many requests share the window pool"),),
    ),
    Entry(
        "version.batch_full_double_count",
        "A slot per rank is counted twice, so one request less runs than allowed.",
        for_=(
            Clue(
                5,
                both(
                    symptom("one_slot_short"),
                    either(flag("--dp-size"), flag("--max-running-requests"), symptom("few_running")),
                ),
                "one less runs than allowed",
            ),
            Clue(6, _one_short, "each rank runs one less than its share while others wait"),
            Clue(2, symptom("one_slot_short"), "one less runs than allowed"),
        ),
        act=_batch_full,
    ),
    Entry(
        "version.integration_changed",
        "An external cache or connector is started in another way in this version.",
        for_=(
            Clue(6, said("lmcache_needs_file", "integration_error"), "the integration asks for another setting"),
            Clue(
                2,
                both(either(flag("--enable-lmcache"), symptom("lmcache")), symptom("after_upgrade", "flag_refused")),
                "the connector fails after an upgrade",
            ),
        ),
        act=_integration,
    ),
)

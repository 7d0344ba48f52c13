"""GPUs: nvidia-smi, rocm-smi, amd-smi, dcgmi. Their setters are short options beside the readers: none is here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import choice, fields, identity, matching, number, word
from tools.host.policy.verdict import Finding, ask, deny

_MUTATES: Final = deny("mutate", "an option of this tool that is not known to read changes the GPU")
_ENDLESS: Final = never("hang", "repeats for ever", "-l --loop -lms --loop-ms", takes=True)
_TO_FILE: Final = never("write", "writes its report to any file", "-f --filename", takes=True)
_SETTERS: Final = {
    **never(
        "mutate", "switches persistence mode: whether the driver stays loaded", "-pm --persistence-mode", takes=True
    ),
    **never("mutate", "sets the power limit", "-pl --power-limit", takes=True),
    **never(
        "mutate",
        "sets clocks",
        "-ac --applications-clocks -lgc --lock-gpu-clocks -lmc --lock-memory-clocks",
        takes=True,
    ),
    **never(
        "mutate",
        "resets clocks",
        "-rac --reset-applications-clocks -rgc --reset-gpu-clocks -rmc --reset-memory-clocks",
    ),
    **never("mutate", "resets the GPU: what runs on it is lost", "-r --gpu-reset"),
    **never("mutate", "sets who may compute on the GPU", "-c --compute-mode", takes=True),
    **never("mutate", "switches error correction", "-e --ecc-config", takes=True),
    **never("mutate", "switches MIG mode: the GPU is divided anew", "-mig --multi-instance-gpu", takes=True),
}
_COUNT: Final = number(1, 60)


def _smi(parsed: Parsed) -> Iterable[Finding]:
    if parsed.has("-q", "--query") and not parsed.has("-d", "--display"):
        yield ask("cost", "about 400 lines per GPU: choose sections with -d")


def _bounded(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-c", "--count"):
        yield deny("hang", "without -c it repeats for ever")


_MON: Final = Entry(
    "",
    {
        **valued(_COUNT, "-c --count"),
        **valued(matching(r"[a-zA-Z]{1,12}", "a set of columns"), "-s --select"),
        **valued(number(1, 10), "-d --delay"),
        **valued(identity, "-i --id"),
        **valued(choice("D T DT"), "-o --options"),
        **_TO_FILE,
    },
    style="words",
    check=_bounded,
    unknown=_MUTATES,
)
_SECTIONS: Final = choice(
    "MEMORY UTILIZATION ECC TEMPERATURE POWER CLOCK COMPUTE PIDS PERFORMANCE SUPPORTED_CLOCKS PAGE_RETIREMENT"
    " ACCOUNTING ENCODER_STATS FBC_STATS ROW_REMAPPER RESET_STATUS GSP_FIRMWARE_VERSION VOLTAGE"
    " SUPPORTED_GPU_TARGET_TEMP POWER_SMOOTHING POWER_PROFILES"
)
_NVIDIA_SMI: Final = Entry(
    "nvidia-smi",
    {
        **flags(
            "-L --list-gpus -q --query -x --xml-format -h --help --version -u --unit --help-query-gpu"
            " --help-query-compute-apps --help-query-accounted-apps --help-query-retired-pages"
            " --help-query-remapped-rows --help-query-supported-clocks"
        ),
        **valued(identity, "-i --id"),
        **valued(_SECTIONS, "-d --display"),
        **valued(
            fields,
            "--query-gpu --query-compute-apps --query-accounted-apps --query-retired-pages --query-remapped-rows"
            " --query-supported-clocks",
        ),
        **valued(choice("csv noheader nounits"), "--format"),
        **_ENDLESS,
        **_TO_FILE,
        **_SETTERS,
    },
    style="words",
    check=_smi,
    unknown=_MUTATES,
    verbs={
        "topo": Entry(
            "",
            {
                **flags("-m --matrix -mp --matrix_pci"),
                **valued(choice("r w n a p"), "-p2p --p2p"),
                **valued(identity, "-i --id"),
            },
            style="words",
            unknown=_MUTATES,
        ),
        "nvlink": Entry(
            "",
            {**flags("-s --status -c --capabilities -e --errorcounters"), **valued(identity, "-i --id")},
            style="words",
            unknown=_MUTATES,
        ),
        "c2c": Entry("", {**flags("-s --status"), **valued(identity, "-i --id")}, style="words", unknown=_MUTATES),
        "dmon": _MON,
        "pmon": _MON,
        "mig": Entry(
            "", {**flags("-lgi -lci -lgip -lcip -lgipp"), **valued(identity, "-i -gi")}, style="words", unknown=_MUTATES
        ),
        "compute-policy": Entry("", flags("-l --list"), style="words", unknown=_MUTATES),
    },
)

_ROCM_SMI: Final = Entry(
    "/opt/rocm/bin/rocm-smi",
    {
        **flags(
            "-i --showid -v --showvbios --showproductname -P --showpower -t --showtemp -g"
            " --showgpuclocks -c --showclocks"
            " -u --showuse --showmemuse --showpids --showtopo --showtoponuma --showtopotype --showtopoweight"
            " --showtopohops --showbus --showdriverversion --showserial --showuniqueid --showxgmierr"
            " --showretiredpages"
            " --showpendingpages --showunreservablepages --showrasinfo --showperflevel --showmaxpower --showhw"
            " --showcomputepartition --showmemorypartition --showfwinfo --showvoltage -f --showfan"
            " --showenergycounter"
            " --json --csv --alldevices -V --version -h --help"
        ),
        **asking("cost", "some hundred lines per GPU: choose what to show", "-a --showallinfo"),
        **valued(matching(r"vram|vis_vram|gtt|all", "a kind of memory"), "--showmeminfo"),
        **valued(identity, "-d --device"),
    },
    style="words",
    unknown=_MUTATES,
    operands=matching(r"vram|vis_vram|gtt|all|\d{1,2}", "a kind of memory or an index"),
    most=8,
)
_AMD: Final = {
    **flags(
        "--json --csv -a --asic -b --bus -V --vbios -d --driver -B --board -l --limit -u --usage -m --mem-usage"
        " -p --power -c --clock -t --temperature -e --ecc -G --general -A --access -w --weight -o"
        " --hops -n --link-type"
        " -x --xgmi-err -r --vram -P --pcie -v -k --ecc-blocks -H --hive --numa -s"
    ),
    **valued(identity, "-g --gpu"),
}
_AMD_PLAIN: Final = {name: option for name, option in _AMD.items() if name not in {"-w", "-s", "-r"}}
_AMD_VERB: Final = Entry("", _AMD_PLAIN, style="words", unknown=_MUTATES)
_AMD_SMI: Final = Entry(
    "/opt/rocm/bin/amd-smi",
    flags("-h --help"),
    style="words",
    unknown=_MUTATES,
    verbs=dict.fromkeys(
        ("list", "static", "metric", "process", "topology", "version", "firmware", "bad-pages"), _AMD_VERB
    ),
)

_GROUP: Final = valued(matching(r"\d{1,4}", "a group number"), "-g --group")
_DCGMI: Final = Entry(
    "dcgmi",
    flags("-v --version -h --help"),
    unknown=_MUTATES,
    verbs={
        "discovery": Entry("", flags("-l --list"), unknown=_MUTATES),
        "group": Entry("", flags("-l --list"), unknown=_MUTATES),
        "modules": Entry("", flags("-l --list"), unknown=_MUTATES),
        "profile": Entry("", {**flags("-l --list"), **valued(identity, "-i"), **_GROUP}, unknown=_MUTATES),
        "topo": Entry("", {**valued(identity, "--gpuid"), **_GROUP}, unknown=_MUTATES),
        "nvlink": Entry(
            "", {**flags("-s --link-status -e --errors"), **valued(identity, "--gpuid"), **_GROUP}, unknown=_MUTATES
        ),
        "dmon": Entry(
            "",
            {
                **valued(_COUNT, "-c --count"),
                **valued(fields, "-e --field-id"),
                **valued(identity, "-i --entity-id"),
                **valued(number(100, 10_000), "-d --delay"),
                **flags("-l --list"),
                **_GROUP,
            },
            check=_bounded,
            unknown=_MUTATES,
        ),
        "health": Entry(
            "",
            {**flags("-c --check -f --fetch -j --json"), **_GROUP},
            unknown=_MUTATES,
            finding=ask("gpu", "some versions change the health watches of the group"),
        ),
        "stats": Entry(
            "",
            {**flags("-v --verbose"), **valued(number(1, 9_999_999), "--pid -p"), **_GROUP},
            unknown=_MUTATES,
            finding=ask("gpu", "asks the accounting of the group"),
        ),
    },
)

ENTRIES: Final = {
    "nvidia-smi": _NVIDIA_SMI,
    "rocm-smi": _ROCM_SMI,
    "amd-smi": _AMD_SMI,
    "dcgmi": _DCGMI,
    "rocminfo": Entry("/opt/rocm/bin/rocminfo"),
    "nvcc": Entry(
        "/usr/local/cuda/bin/nvcc", flags("--version -V"), style="words", unknown=deny("exec", "runs compilers")
    ),
    "nvidia-container-cli": Entry("nvidia-container-cli", verbs={"info": Entry(""), "list": Entry("")}),
    "ibstat": Entry("ibstat", flags("-l -s -p"), operands=word, most=2),
    "ibstatus": Entry("ibstatus", operands=word, most=2),
    "ibv_devinfo": Entry("ibv_devinfo", {**flags("-l -v"), **valued(word, "-d"), **valued(number(1, 64), "-i")}),
    "ibv_devices": Entry("ibv_devices"),
    "ibdev2netdev": Entry("ibdev2netdev", flags("-v")),
    "show_gids": Entry("show_gids", operands=word, most=2),
}

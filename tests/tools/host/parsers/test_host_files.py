"""What a host's programs and files print, as the facts they hold."""

from __future__ import annotations

import json

import pytest

from tools.host.parsers import parse
from transcripts.facts import Evidence, Facts

GIB = 1 << 30


def read(probe: str, text: str, command: str = "", problem: str = "") -> Facts:
    return Facts(parse(Evidence("E2", probe, command, "h", "", 0, text, problem=problem)))


def test_gpus_by_header() -> None:
    text = (
        "index, name, memory.total [MiB], memory.used [MiB], memory.free [MiB], driver_version, compute_cap, "
        "pci.bus_id, utilization.gpu [%]\n"
        "0, NVIDIA RTX PRO 6000 Blackwell Server Edition, 97887 MiB, 92450 MiB, 4800 MiB, 580.65.06, 12.0, "
        "00000000:16:00.0, 98 %\n"
        "1, NVIDIA RTX PRO 6000 Blackwell Server Edition, 97887 MiB, 92448 MiB, 4802 MiB, 580.65.06, 12.0, "
        "00000000:27:00.0, [N/A]\n"
    )
    facts = read("gpus", text)
    assert facts.number("gpu_count") == 2
    assert facts.text("gpu_name", "gpu1") == "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert facts.number("gpu_memory_mib", "gpu0") == 97_887
    assert facts.number("gpu_free_mib", "gpu1") == 4_802
    assert facts.text("compute_capability", "gpu0") == "12.0"
    assert facts.text("driver_version") == "580.65.06"
    assert facts.number("gpu_utilization", "gpu0") == 98
    assert facts.get("gpu_utilization", "gpu1") is None
    used = facts.get("gpu_used_mib", "gpu1")
    assert used is not None
    assert used.source == "E2:3"


def test_gpus_without_header_go_by_the_command() -> None:
    command = "nvidia-smi --query-gpu=index,memory.used,memory.total --format=csv,noheader,nounits"
    facts = read("command", "0, 90001, 97887\n1, 12, 97887\n", command)
    assert facts.number("gpu_used_mib", "gpu0") == 90_001
    assert facts.number("gpu_memory_mib", "gpu1") == 97_887


def test_gpu_processes() -> None:
    text = (
        "gpu_bus_id, pid, process_name, used_gpu_memory [MiB]\n"
        "00000000:16:00.0, 4242, sglang::scheduler_TP0, 91000 MiB\n"
        "00000000:16:00.0, 5001, /usr/bin/python3, 720 MiB\n"
    )
    facts = read("gpu_processes", text)
    assert facts.number("gpu_process_mib", "00000000:16:00.0:5001") == 720
    assert facts.text("gpu_process", "00000000:16:00.0:4242") == "sglang::scheduler_TP0"
    assert facts.get("gpu_count") is None


def test_plain_nvidia_smi_table() -> None:
    text = """\
| NVIDIA-SMI 580.65.06              Driver Version: 580.65.06      CUDA Version: 13.0     |
|   0  NVIDIA H200                    On  |   00000000:18:00.0 Off |                    0 |
| N/A   31C    P0             76W /  700W |  131072MiB / 143771MiB |     12%      Default |
|    0   N/A  N/A            4242      C   sglang::scheduler_TP0                 131000MiB |
"""
    facts = read("pasted", text)
    assert facts.number("gpu_memory_mib", "gpu0") == 143_771
    assert facts.number("gpu_used_mib", "gpu0") == 131_072
    assert facts.number("gpu_process_mib", "gpu0:4242") == 131_000


def test_rocm() -> None:
    text = "device,VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series\ncard0,309220868096,1073741824,MI355X\n"
    facts = read("gpus_rocm", text)
    assert facts.number("gpu_memory_mib", "gpu0") == 309_220_868_096 // (1 << 20)
    assert facts.number("gpu_used_mib", "gpu0") == 1024
    assert facts.text("gpu_name", "gpu0") == "MI355X"


def test_meminfo() -> None:
    text = "MemTotal:       528280120 kB\nMemAvailable:   415236096 kB\nHugePages_Total:      12\nShmem: 100 kB\n"
    facts = read("meminfo", text)
    assert facts.number("mem_available_bytes") == 396 * GIB
    assert facts.number("hugepages_total") == 12
    assert facts.number("mem_shmem_bytes") == 102_400


def test_free_in_any_unit() -> None:
    table = "               total        used        free      shared  buff/cache   available\nMem:           {}\n"
    human = read("command", table.format("503Gi  100Gi  50Gi  1Gi  353Gi  396Gi"), "free -h")
    assert human.number("mem_available_bytes") == 396 * GIB
    in_bytes = read("command", table.format("1000 10 10 10 10 900"), "free -b")
    assert in_bytes.number("mem_available_bytes") == 900
    bare = read("command", table.format("1000 10 10 10 10 900"), "free")
    assert bare.number("mem_total_bytes") == 1_024_000


def test_numa() -> None:
    text = "available: 2 nodes (0-1)\nnode 0 size: 257640 MB\nnode 0 free: 1024 MB\nnode 1 size: 258041 MB\n"
    facts = read("numa", text)
    assert facts.number("numa_nodes") == 2
    assert facts.number("numa_free_bytes", "node0") == GIB
    files = read("numa", "Node 0 MemTotal:  2048 kB\nNode 0 MemFree:  1024 kB\nNode 1 MemTotal: 2048 kB\n")
    assert files.number("numa_nodes") == 2
    assert files.number("numa_total_bytes", "node0") == 2 << 20


def test_smallest_cgroup_limit_on_the_path() -> None:
    base = "/sys/fs/cgroup/system.slice"
    text = (
        f"{base}/sglang.service/memory.max:max\n{base}/memory.max:274877906944\n"
        f"{base}/sglang.service/memory.high:549755813888\n{base}/sglang.service/memory.current:85899345920\n"
    )
    facts = read("cgroup", text)
    assert facts.number("cgroup_limit_bytes") == 256 * GIB
    assert facts.number("cgroup_used_bytes") == 80 * GIB
    without = read("cgroup", f"{base}/memory.max:max\n{base}/memory.current:1\n")
    assert without.get("cgroup_limit_bytes") is None
    old = read("cgroup", "/sys/fs/cgroup/memory/memory.limit_in_bytes:9223372036854771712\n")
    assert old.get("cgroup_limit_bytes") is None
    alone = read("command", "1073741824\n5\n", "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.current")
    assert alone.number("cgroup_limit_bytes") == GIB
    assert alone.number("cgroup_used_bytes") == 5


def test_limits_of_the_process() -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max open files            1024                 524288               files\n"
        "Max locked memory         8388608              8388608              bytes\n"
    )
    facts = read("limits", text)
    assert facts.number("nofile_limit") == 1024
    assert facts.number("memlock_bytes") == 8_388_608
    free = read("limits", "Max locked memory         unlimited            unlimited            bytes\n")
    assert free.number("memlock_bytes") == -1


def test_file_systems() -> None:
    shm = (
        "Filesystem       1B-blocks       Used    Available Use% Mounted on\ntmpfs 67108864 4096 67104768 1% /dev/shm\n"
    )
    facts = read("shm", shm)
    assert facts.number("shm_total_bytes") == 64 << 20
    assert facts.number("shm_free_bytes") == 67_104_768
    disks = "Filesystem     1K-blocks      Used Available Use% Mounted on\n/dev/nvme0n1p2  1000000 1 999999   1% /\n"
    assert read("disks", disks).number("disk_free_bytes", "/") == 999_999 * 1024
    human = "Filesystem      Type  Size  Used Avail Use% Mounted on\n/dev/sda1 ext4 1.8T  1T 800G  56% /data\n"
    assert read("disks", human).number("disk_free_bytes", "/data") == 800 * GIB
    assert not read("disks", "Filesystem 1Available Use% Mounted on\n/dev/a 1 2 3% /\n").all("disk_free_bytes")


def test_huge_pages() -> None:
    facts = read("hugepages", "always [madvise] never\n")
    assert facts.text("transparent_hugepages") == "madvise"
    shmem = read("hugepages", "/sys/kernel/mm/transparent_hugepage/shmem_enabled: always within_size [never] deny\n")
    assert shmem.text("transparent_hugepages", "shmem_enabled") == "never"


@pytest.mark.parametrize("end", ["\0", "\n"])
def test_command_line_of_a_process(end: str) -> None:
    argv = [
        "/root/venv/bin/python3", "-m", "sglang.launch_server", "--model-path", "/models/Kimi K2.5", "--tp", "8",
        "--mem-fraction-static=0.88", "--trust-remote-code", "--cuda-graph-bs", "1", "2", "48", "--api-key", "sk-x",
        "--port", "30000", "--schedule-conservativeness", "-1", "--mem-fraction-static", "0.9",
    ]  # fmt: skip
    facts = read("process", "".join(word + end for word in argv))
    assert facts.text("flag", "--tp") == "8"
    assert facts.text("flag", "--mem-fraction-static") == "0.9"
    assert facts.text("flag", "--trust-remote-code") == "true"
    assert facts.text("flag", "--cuda-graph-bs") == "1 2 48"
    assert facts.text("flag", "--schedule-conservativeness") == "-1"
    assert facts.text("model_path") == "/models/Kimi K2.5"
    assert facts.number("port") == 30_000
    assert "'/models/Kimi K2.5'" in facts.text("launch_argv")
    assert not any("sk-x" in str(fact.value) for fact in facts)
    served = read("process", "sglang serve /models/x --tp 4")
    assert served.text("model_path") == "/models/x"
    assert len(read("process", "/usr/bin/sleep --tp 8\0")) == 0


def test_unit_with_drop_ins() -> None:
    text = """\
# /etc/systemd/system/sglang-kimi.service
[Service]
Environment=SGLANG_ENABLE_SPEC_V2=True "HF_TOKEN=hf_abc" PYTHONUNBUFFERED=1
ExecStart=/root/venv/bin/python -m sglang.launch_server \\
  --model-path /models/kimi \\
  --tp 8
LimitMEMLOCK=infinity
TimeoutStartSec=1800
# /etc/systemd/system/sglang-kimi.service.d/override.conf
[Service]
ExecStart=
ExecStart=/root/venv/bin/python -m sglang.launch_server --model-path /models/kimi --tp 4
MemoryMax=200G
"""
    facts = read("unit_files", text)
    assert facts.text("flag", "--tp") == "4"
    assert facts.text("launch_form") == "systemd"
    assert facts.text("env", "SGLANG_ENABLE_SPEC_V2") == "True"
    assert facts.text("env", "HF_TOKEN") == ""
    assert facts.number("memlock_bytes") == -1
    assert facts.number("cgroup_limit_bytes") == 200 * GIB
    assert facts.text("unit_timeout", "start") == "1800"
    tp = facts.get("flag", "--tp")
    assert tp is not None
    assert tp.source == "E2:12"


def test_state_of_a_unit() -> None:
    text = (
        "Id=sglang-kimi.service\nActiveState=activating\nSubState=auto-restart\nResult=signal\nNRestarts=7\nMainPID=0\n"
        "ExecMainStartTimestamp=Tue 2026-02-10 03:11:00 UTC\nMemoryMax=infinity\nLimitMEMLOCK=8388608\n"
        "LimitNOFILE=524288\nNeedDaemonReload=yes\n"
        "ExecStart={ path=/usr/bin/python3 ; argv[]=/usr/bin/python3 -m sglang.launch_server --tp 8 ; pid=0 ; }\n"
    )
    facts = read("unit", text)
    assert facts.text("unit_state") == "activating"
    assert facts.number("restarts") == 7
    assert facts.get("pid") is None
    assert facts.get("cgroup_limit_bytes") is None
    assert facts.number("memlock_bytes") == 8_388_608
    assert facts.text("unit_needs_reload") == "yes"
    assert facts.text("flag", "--tp") == "8"


def test_container() -> None:
    entry = {
        "Name": "/sglang",
        "Config": {
            "Entrypoint": ["/bin/bash", "-c"],
            "Cmd": ["python3 -m sglang.launch_server --model-path /m --tp 2"],
            "Env": ["NCCL_DEBUG=INFO", "HF_TOKEN=hf_x"],
        },
        "HostConfig": {"Memory": 64 * GIB, "ShmSize": 67108864, "IpcMode": "private", "Ulimits": None},
    }
    facts = read("command", json.dumps([entry]), "docker inspect sglang")
    assert facts.text("container") == "sglang"
    assert facts.text("launch_form") == "docker"
    assert facts.text("flag", "--tp") == "2"
    assert facts.number("cgroup_limit_bytes") == 64 * GIB
    assert facts.number("shm_total_bytes") == 64 << 20
    assert facts.text("env", "NCCL_DEBUG") == "INFO"
    assert facts.text("env", "HF_TOKEN") == ""


def test_kernel_log() -> None:
    text = (
        "2026-02-10T03:11:00+0000 gpu1 kernel: NVRM: Xid (PCI:0000:41:00): 79, pid=4242, name=python3\n"
        "2026-02-10T03:12:00+0000 gpu1 kernel: Out of memory: Killed process 4242 (sglang::schedul) total-vm:1kB\n"
        "[12345.678] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n"
    )
    facts = read("kernel_log", text)
    assert facts.number("xid", "PCI:0000:41:00") == 79
    assert facts.text("kernel_oom_kill", "4242") == "sglang::schedul"
    assert facts.text("kernel_oom_constraint") == "CONSTRAINT_MEMCG"


def test_version_and_commit() -> None:
    assert read("version", "Metadata-Version: 2.4\nName: sglang\nVersion: 0.5.9\n").text("version") == "0.5.9"
    assert read("command", '__version__ = "0.4.6"\n', "cat /opt/sglang/version.py").text("version") == "0.4.6"
    written = "__version__ = version = '0.5.10.post1'\n"
    assert read("command", written, "cat /opt/sglang/_version.py").text("version") == "0.5.10.post1"
    assert read("tree", "a" * 40 + "\n").text("git_commit") == "a" * 40


def test_discovery() -> None:
    text = (
        "pid=4242\nall_pids=4242 9000\nunit=sglang-kimi.service\nport=30000\nmodel=/models/kimi\ndraft=\n"
        "package=/root/sglang/python/sglang\ndist=/root/venv/lib/python3.12/site-packages/sglang-0.5.9.dist-info\nuser=root\n"
    )
    facts = read("discovery", text)
    assert facts.number("running") == 1
    assert facts.number("pid") == 4242
    assert facts.number("server_count") == 2
    assert facts.text("version") == "0.5.9"
    assert facts.text("install_path") == "/root/sglang/python/sglang"
    assert read("discovery", "pid=\nuser=root\n").number("running") == 0


def test_server_and_children() -> None:
    text = (
        "    PID    PPID   RSS                  STARTED COMMAND\n"
        "   4242       1 2097152 Tue Feb 10 03:11:00 2026 python3\n"
        "   4300    4242 1048576 Tue Feb 10 03:11:09 2026 sglang::scheduler_TP0\n"
    )
    facts = read("processes", text)
    assert facts.number("pid") == 4242
    assert facts.number("child_processes") == 1
    assert facts.number("process_rss_bytes", "4300") == GIB
    assert facts.text("started_at") == "Tue Feb 10 03:11:00 2026"


def test_what_a_probe_did_not_bring() -> None:
    facts = read("numa", "", problem="missing")
    assert facts.text("probe_problem", "numa") == "missing"


@pytest.mark.parametrize(
    ("text", "total_gib", "available_gib"),
    [
        ("$ free -g | head -2\n total used free shared buff/cache available\nMem: 1007 71 640 2 295 928", 1007, 928),
        ("Mem:           1007         520         390           3          97         480", 1007, 480),
        ("$ free -m\n  total used free shared buff/cache available\nMem: 515072 1 1 1 1 405504", 503, 396),
        ("$ free\n  total used free shared buff/cache available\nMem: 527433728 1 1 1 1 415236096", 503, 396),
        ("  total used free shared buff/cache available\nMem: 527433728 1 1 1 1 415236096", 503, 396),
        ("$ free -h\n  total used free shared buff/cache available\nMem: 503Gi 1Gi 1Gi 1Gi 1Gi 396Gi", 503, 396),
    ],
)  # fmt: skip
def test_free_as_it_is_pasted(text: str, total_gib: int, available_gib: int) -> None:
    facts = Facts(parse(Evidence("E1", "pasted", "", "h", "", 0, text)))
    assert facts.number("mem_total_bytes") == total_gib << 30
    assert facts.number("mem_available_bytes") == available_gib << 30

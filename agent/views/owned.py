"""Words in the texts of a session that say whose server it was, though no place or shape tells what they are.

Host names and people are found where they stand (`transcripts/redaction/share.py`) and known everywhere from then on.
Folders, served models, units, containers and Kubernetes names are taken apart: what is neither a word of the field nor
one of a system's folders is a name that somebody gave, `wonka` in `/data/wonka/models/Kimi-K2.5` and `wonka-chat`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from transcripts.redaction.share import identities
from transcripts.vocabulary import VOCABULARY

Json = dict[str, Any]
LEAST: Final = 3  # letters of a name that is known wherever it stands; shorter ones are parts of numbers and versions
_PATH: Final = re.compile(r"(?<![\w/:.«»])~?/(?:[\w.+@=«»-]+/)*[\w.+@=«»-]+")
_SYSTEM: Final = frozenset({"usr", "lib", "lib64", "bin", "sbin", "proc", "sys", "dev", "run", "boot", "etc", "snap"})
_SOFTWARE: Final = re.compile(r"/(?:(?:site|dist)-packages|python/sglang)(?:/|$).*")
_IMAGE: Final = re.compile(r"(?<![\w./:-])(?:[\w.-]+(?::\d+)?/)+[\w.-]+(?::(?!\d+(?!\.))[\w.-]+|@sha256)")
_CLUSTER: Final = re.compile(
    r"(?:\b(?:namespace|pods?|deployment|statefulset|daemonset|container)[\w.]*[\"']?(?:/|[ \t]*[:=][ \t]*)"
    r"|^[ -]*name[ \t]*:[ \t]*|\bkubectl[^\n]*? -n[ \t]+|--namespace[ \t=]+)[\"']?(?P<v>[a-z][a-z0-9-]{2,62})(?![\w(])"
    r"|\b(?:pod|container)[ \t]+[\"']?(?P<pod>[a-z][a-z0-9-]*-[a-z0-9-]*\d[a-z0-9-]*)(?![\w(])",
    re.MULTILINE,
)
_SYSLOG: Final = re.compile(r"^\S+ (?P<v>[A-Za-z][\w.-]*) [\w./@-]+\[\d+\]: ", re.MULTILINE)
_POD: Final = re.compile(r"[a-z0-9-]+-(?=[a-z0-9]*\d)[a-z0-9]{5,10}-[a-z0-9]{5}")
_NAMING: Final = frozenset({"served_model", "unit_name", "container"})
_NOBODY: Final = frozenset({"", "root", "local", "localhost", "operator", "playbook", "from-host", "sglang"})
# Folders and parts of names that say nothing of their owner, beside the words of the field.
_WORD: Final = re.compile(r"[A-Za-z]+")
_COMMON: Final = frozenset(
    _WORD.findall("""
    home root var tmp opt srv mnt media data datas dataset datasets disk disks drive volume volumes vol nvme ssd
    raid md nfs ceph lustre gpfs weka efs fsx beegfs shared share public storage store scratch work works workspace
    workspaces project projects repo repos src code app apps application service services serving server servers
    inference infer deploy deployment deployments prod production staging stage dev test tests demo local users user
    admin ubuntu centos debian backup backups archive new old latest current main default misc bundle bundles crash
    incident case model models hf huggingface hub cache caches checkpoint checkpoints ckpt ckpts weight weights
    snapshots blobs refs llm llms ai ml gpu gpus cuda nccl torch triton inductor flashinfer deepgemm sgl sglang srt
    python pip conda miniconda anaconda miniforge mambaforge mamba envs env venv virtualenv uv bin lib libs libexec
    include site dist packages info conf config configs configuration json yaml yml toml txt log logs logj out err
    csv sh py so timer socket slice scope target system systemd docker compose container containers containerd
    podman kubernetes ks kube kubelet pod pods namespace node nodes host hosts worker workers master head leader
    launch start run running script scripts metadata version generate completions chat chats health metrics loads
    get post flush encode embeddings rerank classify tokenize detokenize hicache mooncake lmcache profiler profile
    trace traces dump dumps core cores file files folder dir journal kern syslog messages dmesg box evidence pasted
    recorded kimi moonshotai moonshot deepseek qwen qwq llama meta mistral mistralai mixtral ministral pixtral
    devstral codestral magistral glm zai zhipu thudm chatglm gemma google gemini phi microsoft minimax minimaxai
    ernie baidu hunyuan tencent step stepfun nemotron nvidia gpt oss openai command cohere falcon granite ibm
    internlm internvl intern baichuan yi olmo allenai mimo xiaomi longcat meituan ling ring bailing inclusionai seed
    bytedance doubao grok xai jamba bert bge gte llava janus mova solar exaone lg arctic dbrx databricks smol smollm
    hermes nous vicuna lmsys lmsysorg unsloth neuralmagic redhat redhatai instruct base thinking think reasoning
    reasoner coder math vision omni audio moe dense draft spec speculator speculative eagle mtp nextn distill
    preview turbo air flash large medium small mini nano max plus pro lite ultra scout maverick terminus speciale
    exp next it vl int fp bf awq gptq gguf mxfp nvfp quark quant quantized compressed tensors block channel dynamic
    static marlin wa metal linux gnu true false none null debug warn warning error auto eth bond ens enp ib mlx roce
    eno lan cluster svc internal intranet corp office slots kv prefix story ghcr io quay nvcr com org
    """)
)


def common(document: Json) -> frozenset[str]:
    """Words that are nobody's: of the field, of systems' folders, and of what this program itself says of the case."""
    said = [f"{row['label']} {row['statement']}" for row in document["hypotheses"]]
    said += [
        str(option.get(key, ""))
        for option in document["options"]
        for key in ("risk", "why_not", "first_token", "decode")
    ]
    said += [f"{name} {meaning}" for name, (_, meaning) in VOCABULARY.items()]
    return _COMMON | {word.lower() for text in said for word in _WORD.findall(text)}


def identified(document: Json) -> dict[str, list[str]]:
    """What the texts name at places that tell what it is, by kind: `host`, `user` and others."""
    found: dict[str, list[str]] = {}
    for text in strings(document):
        for each in identities(text):
            found.setdefault(each.kind, []).append(text[each.start : each.end])
    return found


def hosts(document: Json, named_there: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names of the server, as it was typed and as it calls itself in its log; then those of others that are named."""
    named = [
        document["target"]["host"],
        *(found["v"] for text in strings(document) for found in _SYSLOG.finditer(text)),
    ]
    others = [item["host"] for item in document["evidence"]] + [*named_there]
    own = dict.fromkeys(form for name in named for form in _forms(name) if form not in _NOBODY)
    return [*own], [form for name in others for form in _forms(name) if form not in own and form not in _NOBODY]


def users(document: Json, named_there: Iterable[str]) -> list[str]:
    """People who logged in or are named where a text names a user."""
    typed = [document["target"]["host"], *(item["host"] for item in document["evidence"])]
    named = [text.rpartition("@")[0] for text in typed]
    named += [str(fact["value"]) for fact in document["facts"] if fact["name"] == "login"]
    return [each for each in dict.fromkeys([*named, *named_there]) if each not in _NOBODY]


def _forms(name: str) -> tuple[str, ...]:
    """`u@gpu1.corp:22` as it stands, without the user, without the port, and by its first part."""
    host = name.rpartition("@")[2]
    bare = re.sub(r":\d+$", "", host)
    return tuple(dict.fromkeys((name, host, bare, bare.partition(".")[0])))


def owners(places: Iterable[str], known: frozenset[str]) -> Iterator[str]:
    """Whose domain a host or a mailbox lies in: `wonka` of `gpu1.dc2.wonka.example` and of `a@wonka.example`."""
    for place in places:
        host = re.sub(r":\d+$", "", place.rpartition("@")[2])
        for label in host.split(".")[:-1] if "@" in place else host.split(".")[1:-1]:
            yield from uncommon(label, known)


def given_names(document: Json, known: frozenset[str]) -> list[str]:
    """Names that somebody gave: parts of paths, of names of models, units, containers, files, pods and namespaces."""
    told = [str(fact["value"]) for fact in document["facts"] if fact["name"] in _NAMING]
    told += [
        str(fact["value"]) for fact in document["facts"] if fact.get("scope") in ("served_model_name", "lora_paths")
    ]
    told += ["" if document["model"] in _NOBODY else document["model"], document["target"]["host"].rpartition("@")[2]]
    found = dict.fromkeys(word for name in told for word in uncommon(name, known))
    for text in strings(document):
        found |= dict.fromkeys(named_in(text, known))
    return list(found)


def named_in(text: str, known: frozenset[str]) -> Iterator[str]:
    """Names that stand in the paths, images and Kubernetes names of a text."""
    for path in _PATH.findall(text):
        if path.lstrip("~/").partition("/")[0] not in _SYSTEM:
            yield from uncommon(_SOFTWARE.sub("", path), known)
    for image in _IMAGE.findall(text):
        yield from uncommon(image, known)
    for found in _CLUSTER.finditer(text):
        name = found["v"] or found["pod"]
        yield from (name,) if _POD.fullmatch(name) else uncommon(name, known)


def uncommon(name: str, known: frozenset[str]) -> Iterator[str]:
    """The words of a name that somebody gave it."""
    return (word for word in _WORD.findall(name) if len(word) >= LEAST and word.lower() not in known)


def strings(value: Any) -> Iterator[str]:
    """Every text of a document, in its order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from strings(each)


def any_of(names: Iterable[str], edge: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str] | None:
    """A pattern for any of the names, longest first, with none of the characters `edge` beside it; None for none."""
    words = sorted(names, key=len, reverse=True)
    if not words:
        return None
    return re.compile(rf"(?<![{edge}])(?:{'|'.join(map(re.escape, words))})(?![{edge}])", flags)

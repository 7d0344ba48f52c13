"""Redaction by its front: the table, streams cut anywhere, known values in every encoding, idempotence, growth.

SGLSCOUT_LONG_TESTS=1: 10,000 random secrets instead of 300.
"""

from __future__ import annotations

import base64
import html
import json
import random
import string
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import LONG, many
from tests.needs import shared
from transcripts.redaction import Redactor, has_placeholder, score
from transcripts.redaction.evaluate import _row


def _lines() -> list[str]:
    text = shared("data/redaction-cases.tsv").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]


def _own_lines() -> list[str]:
    text = Path(__file__).with_name("more-cases.tsv").read_text(encoding="utf-8")
    return [line for line in text.split("\n") if line]


def test_every_row_of_the_table_is_right() -> None:
    result = score(_lines())
    assert result.wrong == ()
    assert result.unsafe == 0
    assert result.n > 75


def test_every_row_of_our_own_table_is_right() -> None:
    """Lists, mappings, argv over lines, prompts and prose on one side; figures, flags and names on the other."""
    result = score(_own_lines())
    assert result.wrong == ()
    assert result.n > 400


@pytest.mark.parametrize(("lines", "apart"), [(_lines, 1), (_own_lines, 1 if LONG else 5)])
def test_rows_cut_at_every_place_are_masked_as_streams(lines: Callable[[], list[str]], apart: int) -> None:
    for number, line in enumerate(lines(), 1):
        text, masked, kept, profile, known = _row(line, number)
        for cut in range(number % apart, len(text) + 1, apart):
            redactor = Redactor(profile)
            for value in known:
                redactor.learn(value, "known")
            stream = redactor.stream()
            out = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish()
            assert not [value for value in masked if value in out], (number, cut)
            assert not [value for value in kept if value not in out], (number, cut)


HEX = "0123456789abcdef"
ALNUM = string.ascii_letters + string.digits
# Prefix of a vendor's token, how many characters follow, and which.
VENDORS = [
    ("hf_", 34, ALNUM), ("sk-proj-", 48, ALNUM), ("sk-ant-api03-", 93, ALNUM), ("sk-or-v1-", 64, HEX),
    ("AKIA", 16, "A2B3C4"),
    ("ASIA", 16, "A2B3C4"), ("ghp_", 36, ALNUM), ("gho_", 36, ALNUM), ("ghs_", 36, ALNUM), ("github_pat_", 82, ALNUM),
    ("glpat-", 20, ALNUM), ("gldt-", 20, ALNUM), ("glrt-", 20, ALNUM), ("xoxb-", 40, ALNUM), ("xoxp-", 40, ALNUM),
    ("xapp-", 40, ALNUM), ("nvapi-", 64, ALNUM), ("hvs.", 90, ALNUM), ("AIza", 35, ALNUM), ("ya29.", 60, ALNUM),
    ("GOCSPX-", 28, ALNUM), ("npm_", 36, ALNUM), ("pypi-", 20, ALNUM), ("pypi-AgEIcHlwaS5vcmc", 100, ALNUM),
    ("dop_v1_", 64, HEX), ("dckr_pat_", 27, ALNUM), ("gsk_", 52, ALNUM), ("xai-", 80, ALNUM), ("r8_", 37, ALNUM),
    ("pplx-", 48, ALNUM), ("tgp_v1_", 43, ALNUM), ("fw_", 24, ALNUM), ("AGE-SECRET-KEY-1", 58, "QPZRY9X8"),
    ("sk_live_", 24, ALNUM), ("rk_live_", 24, ALNUM), ("whsec_", 32, ALNUM), ("lin_api_", 40, ALNUM), ("dapi", 32, HEX),
    ("wandb_v1_", 40, ALNUM), ("glc_", 60, ALNUM), ("sq0csp-", 43, ALNUM), ("sq0atp-", 22, ALNUM), ("shpat_", 32, HEX),
    ("SK", 32, HEX), ("key-", 32, HEX), ("dp.pt.", 43, ALNUM), ("NRAK-", 27, "A2B3C4"), ("glsa_", 41, ALNUM),
    ("PMAK-", 59, ALNUM), ("ATATT3xFfGF0", 180, ALNUM), ("ATBB", 32, ALNUM), ("figd_", 40, ALNUM), ("ntn_", 46, ALNUM),
    ("rubygems_", 48, HEX), ("sbp_", 40, HEX), ("nfp_", 36, ALNUM), ("rnd_", 28, ALNUM), ("CFPAT-", 43, ALNUM),
    ("1//0", 100, ALNUM), ("lsv2_pt_", 43, ALNUM), ("tvly-", 32, ALNUM), ("jina_", 60, ALNUM), ("pcsk_", 70, ALNUM),
    ("csk-", 48, "a2b3c4"), ("sntrys_", 60, ALNUM), ("LTAI", 20, ALNUM), ("AKID", 32, ALNUM),
    ("pscale_tkn_", 43, ALNUM),
    ("AKCp", 69, ALNUM), ("phx_", 43, ALNUM), ("oy2", 43, "a2b3c4"), ("SCW", 17, "A2B3C4"), ("DO00", 16, "A2B3C4"),
    ("xkeysib-", 64, HEX), ("tskey-auth-", 30, ALNUM), ("e2b_", 40, HEX),
]  # fmt: skip


@pytest.mark.parametrize(("prefix", "size", "alphabet"), VENDORS, ids=[prefix for prefix, _, _ in VENDORS])
def test_tokens_of_vendors_are_known_by_their_shape(prefix: str, size: int, alphabet: str) -> None:
    draw = random.Random(prefix)
    rest = "".join(draw.choices(alphabet, k=size - 2)) + ("A2" if alphabet.isupper() else "a2")
    for text in (f"before {prefix}{rest} after", f"x={prefix}{rest}&y=1", f"['{prefix}{rest}']", f"{prefix}{rest}"):
        out = Redactor().redact(text)
        assert rest not in out, out
        assert out.replace(out[out.index("«") : out.index("»") + 1], prefix + rest) == text
    if len(prefix) > 11:  # the prefix alone is half a token
        return
    words = " ".join(f"{prefix.strip('-_')}{part}" for part in ("", "s", "-like", "_size", "-based thing"))
    assert Redactor().redact(words) == words


UNSEEN = ("\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\u202e", "\U000e0041")


@pytest.mark.parametrize("mark", UNSEEN, ids=ascii)
@pytest.mark.parametrize(
    "text", ["hf_FAKEa1b2C3d4E5f6G7h8I9j0K1l2M3n4O5", "api_key=my-Own-Key-4711", "--api-key tok3n-value-9"]
)
def test_characters_that_nobody_sees_hide_no_secret(text: str, mark: str) -> None:
    secret = text.rpartition("=")[2].rpartition(" ")[2]
    for at in range(1, len(secret) - 3):
        out = Redactor().redact(f"x {text[: -len(secret)]}{secret[:at]}{mark}{secret[at:]} y")
        assert secret[at:] not in out
        assert out.startswith("x ")
        assert out.endswith(" y")


def test_a_known_value_is_masked_whatever_wraps_its_characters() -> None:
    value = "Plain.Value-4711"
    redactor = Redactor()
    redactor.learn(value, "api_key")
    for written in (
        "\u200b".join(value),
        "".join(f"%{ord(mark):02x}" for mark in value),
        "".join(f"%25{ord(mark):02X}" for mark in value),
        "".join(f"\\u{ord(mark):04x}" for mark in value),
        "".join(f"\\x{ord(mark):02x}" if at % 2 else mark for at, mark in enumerate(value)),
        value.replace("-", "%2D").replace(".", "\\u002e"),
    ):
        assert redactor.redact(f"a {written} b") == "a «secret:api_key#1» b"


def test_a_secret_amid_a_long_stream_is_masked_wherever_the_pieces_end() -> None:
    rows = [_row(row, number) for number, row in enumerate(_lines(), 1)]
    line = "Decode batch, #running-req: 31, #token: 118422, token usage: 0.93\n"
    filler = line * 300
    text = "".join(filler + row[0] + "\n" for row in rows if row[3] == "llm" and not row[4])
    secrets = {value for row in rows if row[3] == "llm" and not row[4] for value in row[1] if len(value) > 8}
    for size in (1_021, 8_191, 65_536, 1 << 20):
        stream = Redactor().stream()
        out = "".join(stream.feed(text[at : at + size]) for at in range(0, len(text), size)) + stream.finish()
        assert not {value for value in secrets if value in out}
        assert out.count(line) == text.count(line)


WORDS = [
    f"{first}{second}" for first in ("red", "blue", "gray", "pink") for second in ("apple", "berry", "cedar", "daisy")
]
LISTS = {
    "json": ('{"api_key": [\n', '  "%s",\n', "]}\n"),
    "yaml": ("api_keys:\n", "  - %s\n", "port: 1\n"),
    "block": ("password: |\n", "  %s\n", "port: 1\n"),
    "argv": ("", "--api-key\n%s\n", "--port\n"),
    "pairs": ("env:\n", "  - name: API_KEY\n    value: %s\n", "port: 1\n"),
}


@pytest.mark.parametrize("form", LISTS)
def test_keys_that_are_plain_words_are_masked_wherever_a_stream_parts_their_list(form: str) -> None:
    head, item, tail = LISTS[form]
    line = "Decode batch, #running-req: 31, #token: 118422, token usage: 0.93\n"
    keys = head + "".join(item % word for word in WORDS * 12) + tail
    for shift in range(0, len(keys) + 2_000, 97 if LONG else 487):
        text = line * ((65_536 - shift) // len(line)) + keys + line * 40
        stream = Redactor().stream()
        out = "".join(stream.feed(text[at : at + 1_024]) for at in range(0, len(text), 1_024)) + stream.finish()
        assert not [word for word in WORDS if word in out], shift
        assert out.count(line) == text.count(line)


def test_a_private_key_longer_than_any_piece_is_held_back() -> None:
    body = "\n".join("FAKE" + "Ab3" * 20 for _ in range(4_000))
    text = f"before\n-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nafter\n"
    stream = Redactor().stream()
    out = "".join(stream.feed(text[at : at + 5_000]) for at in range(0, len(text), 5_000)) + stream.finish()
    assert "FAKEAb3" not in out
    assert out.startswith("before\n-----BEGIN RSA PRIVATE KEY-----")
    assert out.endswith("-----END RSA PRIVATE KEY-----\nafter\n")


ALPHABETS = {
    "hex": "0123456789abcdef",
    "letters": string.ascii_letters,
    "digits": string.digits,
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
    "marks": string.ascii_letters + "!#$%&()*+,-./:;<=>?@[]^_{|}~",
    "quotes": string.ascii_letters + "'\"\\`$ ",
    "words": "äöüßéñ漢字" + string.ascii_letters,
}
ENCODINGS: dict[str, Callable[[str], str]] = {
    "raw": lambda value: f"x {value} y",
    "json": lambda value: json.dumps({"a": value}),
    "json of json": lambda value: json.dumps({"a": json.dumps({"b": value})}),
    "url": lambda value: f"http://h/?q={quote(value, safe='')}&z",
    "form": lambda value: f"q={quote_plus(value)}&z",
    "base64": lambda value: base64.b64encode(value.encode()).decode(),
    "base64 within": lambda value: base64.b64encode(b"ab" + value.encode() + b"cd").decode(),
    "url base64": lambda value: base64.urlsafe_b64encode(value.encode()).decode(),
    "hex": lambda value: value.encode().hex(),
    "shell": lambda value: "x '" + value.replace("'", "'\\''") + "' y",
    "repr": lambda value: f"Args(a={value!r}, b=1)",
    "html": lambda value: f"<b>{html.escape(value)}</b>",
}


def _wrapped(value: str, width: int) -> str:
    return "\n".join(value[at : at + width] for at in range(0, len(value), width))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_known_values_are_not_found_again(encoding: str) -> None:
    assert len(ENCODINGS) == 12
    draw = random.Random(encoding)
    for number in range(10_000 // 12 if LONG else 25):
        alphabet = list(ALPHABETS.values())[number % len(ALPHABETS)]
        value = "".join(draw.choices(alphabet, k=draw.choice([6, 8, 12, 20, 40, 64, 200])))
        if value != value.strip():
            value = f"q{value}q"
        redactor = Redactor()
        redactor.learn(value, "api_key")
        text = ENCODINGS[encoding](value)
        out = redactor.redact(text)
        assert value not in out
        if len(value) >= 8:
            assert ENCODINGS[encoding](value) != out
            assert "«secret:api_key#1»" in out, (encoding, value, out)


@pytest.mark.parametrize("width", [1, 2, 7, 10, 31, 76])
def test_known_values_broken_over_lines_are_masked(width: int) -> None:
    value = "sk-FAKE-prod-7f3a9c21e8-abcdefghijklmnop"
    redactor = Redactor()
    redactor.learn(value, "api_key")
    out = redactor.redact(f"start {value[:10]}\n{value[10:]} end\n")
    assert out == "start «secret:api_key#1» end\n"
    if width >= 7:
        assert "FAKE" not in redactor.redact(_wrapped(value, width))


def test_the_same_value_has_the_same_number_everywhere() -> None:
    redactor = Redactor()
    out = redactor.redact("A_API_KEY=one-secret-11\nB_API_KEY=two-secret-22\nC_API_KEY=one-secret-11\n")
    first, second, third = (line.split("=")[1] for line in out.splitlines())
    assert first == third != second
    assert redactor.redact("later: one-secret-11") == f"later: {first}"


def test_a_value_seen_beside_its_name_is_masked_where_it_stands_alone() -> None:
    assert "S3cretValue-1" not in Redactor().redact("S3cretValue-1 came first\n--api-key S3cretValue-1\n")


@settings(max_examples=many(150))
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["api_key=", "--api-key ", '"password": ', "'", '"', "\\", "\n", " ", "hf_abcdefghijklmnopqrst1",
                 "sk-abcdef123456789",
                 "text='", "input_ids=[1,2", "]", "«", "»", "«secret:x#1»",
                 "http://u:p@h/",
                 "-----BEGIN PRIVATE KEY-----",
                 "\x1b[0m",
                 "10.1.2.3", "node-a-17", "/home/al/", "Authorization: Bearer ", "İ", "token: ", "password ab1 "]
            ),
            st.text(max_size=12),
        ),
        max_size=14,
    ),
    st.sampled_from(["llm", "share"]),
)  # fmt: skip
def test_a_second_pass_changes_nothing(pieces: list[str], profile: str) -> None:
    redactor = Redactor("share" if profile == "share" else "llm")
    once = redactor.redact("".join(pieces))
    assert redactor.redact(once) == once


def test_prompts_go_and_their_length_stays() -> None:
    out = Redactor().redact("Receive: obj=GenerateReqInput(rid='a', text='what is my balance', input_ids=[1, 22, 333])")
    assert "balance" not in out
    assert "333" not in out
    assert "18 chars" in out
    assert "rid='a'" in out


def test_a_cut_request_line_keeps_no_prompt() -> None:
    out = Redactor().redact("obj=GenerateReqInput(rid='a', text='my private question that never en")
    assert "private" not in out


def test_the_figures_of_a_serving_log_stay() -> None:
    log = (
        "server_args=ServerArgs(model_path='/models/K', tokenizer_path='/models/K', api_key=None, "
        "max_total_tokens=None, "
        "chunked_prefill_size=8192, max_prefill_tokens=16384, mem_fraction_static=0.88, log_requests=False)\n"
        "max_total_num_tokens=131072, chunked_prefill_size=8192, max_prefill_tokens=16384, max_running_requests=48\n"
        "KV Cache is allocated. #tokens: 131072, KV size: 24.00 GB\n"
    )
    assert Redactor().redact(log) == log


def test_placeholders_in_arguments_are_seen() -> None:
    redactor = Redactor()
    assert has_placeholder(redactor.redact("API_KEY=some-secret-1"))
    assert has_placeholder("cat «host#1»")
    assert has_placeholder("« secret : api_key#1»")
    assert not has_placeholder("cat /models/config.json")
    assert not has_placeholder("il dit «bonjour» ici")


def test_short_values_are_masked_only_in_their_context() -> None:
    redactor = Redactor()
    redactor.learn("abc", "password")
    assert redactor.redact("abc and password=abc") == "abc and password=«secret:password#1»"


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000,
        "'" * 50_000,
        "\\" * 50_000,
        "text='" * 20_000,
        "api_key=" * 20_000,
        "--api-key " * 20_000,
        "[" * 50_000,
        "input_ids=[" * 10_000,
        "curl " * 20_000,
        "mysql " * 20_000,
        "http://" * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        "a:" * 50_000,
        "login x " * 20_000,
        "key:\n" * 20_000,
        "api_key=[k:" * 20_000,
        "api_key=[" * 20_000,
        'api_key={"a' * 20_000,
        "api_key:\n - " * 20_000,
        "--api-key\n" * 20_000,
        "%41" * 60_000,
        "%2541\\u0041" * 10_000,
        "\u200b" * 100_000,
        "a" * 15 + ("b" * 16 + "-") * 10_000,
        "password is " * 20_000,
        "password for " * 20_000,
        "AKIAAAAAAAAAAAAAAAAA " * 10_000,
        '"name":"a_key",' * 10_000,
        "<a_key>" * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_text_comes_through(text: str) -> None:
    """A pattern that backtracks would keep this test busy for minutes."""
    out = Redactor("share").redact(text)
    assert len(out) <= 5 * len(text)


@pytest.mark.parametrize("parted", ["\n", "\0", " "])
def test_a_secret_among_the_words_of_a_running_command_is_masked(parted: str) -> None:
    """/proc/PID/cmdline parts words by NUL, a probe brings them line by line."""
    words = ("python3", "-m", "sglang.launch_server", "--api-key", "abcdefgh1234xyz", "--hf-token", "qwertz98765")
    text = parted.join((*words, "--tp", "8", ""))
    for cut in range(len(text)):
        stream = Redactor().stream()
        out = stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.finish()
        assert "abcdefgh" not in out, cut
        assert "qwertz" not in out, cut
        assert out.endswith(parted.join(("--tp", "8", "")))


def test_a_key_behind_a_label_is_no_value_and_what_stands_behind_it_is() -> None:
    for line in ('the text: "input": "my secret"', 'prompt: "text" : "my secret"', "content: 'messages': 'my secret'"):
        text = Redactor().redact(line)
        assert "my secret" not in text
        assert "«prompt:" in text


def test_a_placeholder_tells_nothing_of_the_value_and_a_list_of_tokens_keeps_its_line_end() -> None:
    bodies = {
        "AKIA": "IOSFODNN7FAKE000",
        "AIza": "SyA1FAKE567890abcdefghijklmnopqrstuv",
        "ghp_": "16C7FAKE2F292c6912E7710c838347",
    }
    for prefix, body in bodies.items():
        out = Redactor().redact(f"key {prefix}{body} end").lower()
        assert "«secret:" in out
        assert not any(body[at : at + 3].lower() in out for at in range(len(body) - 2)), out
    out = Redactor().redact("a input_ids=[101, 2023,\n 2003]\nNCCL_DEBUG=INFO\n")
    assert out.splitlines()[-1] == "NCCL_DEBUG=INFO"
    assert "2023" not in out
    assert "2003" not in out

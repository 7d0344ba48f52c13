"""Which model classes attend in data-parallel groups (DP attention).

Not in a config.json: the model's code has it or has it not. Read in `srt/models` of 0.4.6 to 0.4.10, 0.5.1 to 0.5.23: a
class has it where its attention is divided over the attention ranks and its embedding is not divided over all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tools.capacity import versions
from tools.capacity.deployment import Deployment
from tools.capacity.sums import GIB

_EMBEDDING_BYTES: Final = 2.0
_WORTH_SAYING_GIB: Final = 0.1

# The first release whose class attends in groups.
_SINCE: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: version
        for version, names in (
            (
                "0.4.6",
                "DeepseekV2ForCausalLM DeepseekV3ForCausalLM Llama4ForCausalLM Llama4ForConditionalGeneration",
            ),
            ("0.4.7", "KimiVLForConditionalGeneration Qwen2MoeForCausalLM Qwen3MoeForCausalLM"),
            ("0.4.9", "Qwen3ForCausalLM"),
            ("0.4.10", "Glm4MoeForCausalLM Step3VLForConditionalGeneration"),
            ("0.5.1", "Glm4vMoeForConditionalGeneration GptOssForCausalLM"),
            ("0.5.2", "LongcatFlashForCausalLM Qwen3NextForCausalLM"),
            (
                "0.5.3",
                (
                    "BailingMoEForCausalLM BailingMoeForCausalLM BailingMoeV2ForCausalLM DeepseekV32ForCausalLM "
                    "DotsVLMForCausalLM FalconH1ForCausalLM Qwen3VLForConditionalGeneration "
                    "Qwen3VLMoeForConditionalGeneration"
                ),
            ),
            ("0.5.4", "Qwen3OmniMoeForConditionalGeneration"),
            ("0.5.6", "LLaDA2MoeModelLM"),
            ("0.5.7", "MiMoV2FlashForCausalLM MistralLarge3ForCausalLM"),
            ("0.5.8", "Glm4MoeLiteForCausalLM"),
            (
                "0.5.9",
                (
                    "BailingMoeV2_5ForCausalLM GlmMoeDsaForCausalLM InternS1ProForConditionalGeneration "
                    "KimiK25ForConditionalGeneration LightOnOCRForConditionalGeneration "
                    "Qwen3_5ForConditionalGeneration "
                    "Qwen3_5MoeForConditionalGeneration SDARForCausalLM SDARMoeForCausalLM Step3p5ForCausalLM "
                    "StepVLForConditionalGeneration"
                ),
            ),
            ("0.5.10", "SarvamMLAForCausalLM SarvamMoEForCausalLM"),
            ("0.5.11", "MiMoV2ForCausalLM MiniMaxM2ForCausalLM Qwen3ASRForConditionalGeneration"),
            ("0.5.12", "LagunaForCausalLM"),
            ("0.5.13", "Step3p7ForConditionalGeneration"),
            (
                "0.5.14",
                "NemotronHForCausalLM NemotronHPuzzleForCausalLM NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2",
            ),
            ("0.5.16", "MellumForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration"),
            ("0.5.17", "KimiK3ForConditionalGeneration"),
            ("0.5.19", "BailingMoeV3ForCausalLM KimiK3LinearForCausalLM Spark2_5ForCausalLM"),
            (
                "0.5.20",
                (
                    "Glm5NextForConditionalGeneration HYV4ForCausalLM K2HorizonForCausalLM NemotronH_Omni_Reasoning_V3 "
                    "XllmForCausalLM"
                ),
            ),
            ("0.5.21", "BailingMM2NativeForConditionalGeneration BailingMMNativeForConditionalGeneration"),
            ("0.5.23", "MuseSparkForConditionalGeneration"),
        )
        for name in names.split()
    }
)

# Classes of the same releases that divide attention and embedding over all ranks, in each of them.
_WITHOUT: Final = frozenset(
    """
    AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM BaichuanForCausalLM ChatGLMModel Cohere2ForCausalLM
    Cohere2MoeForCausalLM Cohere2VisionForConditionalGeneration CohereForCausalLM DbrxForCausalLM DeciLMForCausalLM
    DeepseekForCausalLM DotsOCRForCausalLM Ernie4_5_ForCausalLM Ernie4_5_MoeForCausalLM
    Ernie4_5_VLMoeForConditionalGeneration ExaoneForCausalLM GPT2LMHeadModel GPTBigCodeForCausalLM GPTJForCausalLM
    Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Gemma3nForCausalLM
    Gemma3nForConditionalGeneration Gemma4ForCausalLM Gemma4ForConditionalGeneration
    Gemma4UnifiedForConditionalGeneration GemmaForCausalLM Glm4ForCausalLM Glm4vForConditionalGeneration
    GraniteForCausalLM GraniteMoeForCausalLM GraniteMoeHybridForCausalLM HunYuanDenseV1ForCausalLM
    HunYuanMoEV1ForCausalLM IQuestCoderForCausalLM InternLM2ForCausalLM InternLM3ForCausalLM JetNemotronForCausalLM
    Lfm2ForCausalLM Lfm2MoeForCausalLM LlamaForCausalLM LlavaLlamaForCausalLM LlavaMistralForCausalLM
    LlavaQwenForCausalLM MiMoForCausalLM MiniCPM3ForCausalLM MiniCPMForCausalLM Ministral3ForCausalLM
    MistralForCausalLM MixtralForCausalLM MllamaForConditionalGeneration OPTForCausalLM Olmo2ForCausalLM
    OlmoForCausalLM OlmoeForCausalLM OrionForCausalLM PersimmonForCausalLM Phi3ForCausalLM Phi3SmallForCausalLM
    Phi4MMForCausalLM PhiForCausalLM QWenLMHeadModel Qwen2AudioForConditionalGeneration Qwen2ForCausalLM
    Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration SolarForCausalLM StableLmForCausalLM
    Starcoder2ForCausalLM TeleFLMForCausalLM XverseForCausalLM XverseMoeForCausalLM YiVLForCausalLM
    """.split()  # noqa: SIM905
)


def model_class(server: Deployment) -> str:
    """The class as the server printed it, else the first architecture of the config; empty where neither is known."""
    printed = server.facts.get("model_class", "")
    if printed is not None:
        return str(printed.value)
    return server.shape.architectures[0] if server.shape and server.shape.architectures else ""


def has_attention_dp(server: Deployment) -> bool | None:
    """Whether the model's code attends in groups in that version; None where the class was not read."""
    name = model_class(server)
    if name in _SINCE:
        return versions.at_least(server.version, _SINCE[name])
    if name in _WITHOUT:
        return False
    return True if server.attention_dp > 1 else None  # what runs so can


def attention_dp_unknown(server: Deployment) -> str:
    """What is not known of DP attention for the model; empty where its class was read."""
    if has_attention_dp(server) is not None:
        return ""
    name = model_class(server) or "the model's class, which no line names,"
    return f"whether {name} has DP attention is not known: its file in srt/models of {server.version or 'SGLang'} tells"


def embedding_repeated(server: Deployment, dp: int) -> str:
    """What `dp` groups take for the embedding, which is divided among the ranks of a group only; empty below 0.1 GiB.

    The LM head stays divided over all ranks, save with --enable-dp-lm-head.
    """
    shape = server.shape
    if shape is None:
        return ""
    together = 1 if versions.embedding_stands_whole(server.version) else max(1, server.tp // dp)
    more = shape.vocabulary * shape.hidden * _EMBEDDING_BYTES * (1 / together - 1 / server.attn_tp) / GIB
    return f", nor {more:.1f} GiB more of each GPU for the embedding" if more >= _WORTH_SAYING_GIB else ""
